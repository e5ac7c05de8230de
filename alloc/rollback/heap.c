/* SPDX-License-Identifier: MIT
 *
 * Heaps of tasks: made, committed, rolled back, and retired while they have live blocks; see heap.h for the callers
 * what. */
#include "heap.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "alloc/base/clock.h"
#include "alloc/base/module.h"
#include "alloc/base/process.h"
#include "alloc/base/sampling.h"
#include "alloc/base/scope_state.h"
#include "alloc/base/thread.h"
#include "alloc/interrupt/hold.h"
#include "free.h"
#include "kept.h"
#include "mapping.h"
#include "nursery.h"
#include "roots.h"

/* --- Task heaps.
 *
 * Whether a heap is empty is asked of its areas (70 ns, and 9 for each): a block that another thread has freed may
 * still count as live, so the answer "empty" is exact and the other errs to the safe side. A page without a live block
 * that is not the thread's is still being freed by whoever freed the last one.
 *
 * mimalloc lists its heaps under locks that it does not look after at a fork(2): none is made or ended during one. */

/* Of these pages, all are the thread's. */
static bool are_own(const struct sti_heap *heap, struct sti_backend_size size)
{
    return size.areas == 0 || size.areas == sti_backend_theap_areas(sti_backend_heap_theap(heap->backend));
}

bool sti_heap_is_empty(const struct sti_heap *heap)
{
    if (heap->backend == NULL)
        return false;
    struct sti_backend_size size = sti_backend_heap_size(heap->backend);
    return size.blocks == 0 && are_own(heap, size);
}

bool sti_heap_has_given_up(const struct sti_heap *heap)
{
    return !are_own(heap, sti_backend_heap_size(heap->backend));
}

static struct sti_quiet_lock making = STI_QUIET_LOCK_INIT;

static struct sti_heap *make(bool is_nursery)
{
    struct sti_heap *heap = sti_process_calloc(1, sizeof *heap);
    if (heap == NULL)
        return NULL;
    heap->is_nursery = is_nursery;
    sti_quiet_enter();
    pthread_mutex_lock(&making.mutex);
    heap->backend = sti_backend_heap_new(!is_nursery);
    pthread_mutex_unlock(&making.mutex);
    sti_quiet_leave();
    if (heap->backend == NULL) {
        sti_process_free(heap);
        return NULL;
    }
    return heap;
}

static struct sti_heap *begin(struct sti_heap *heap)
{
    if (heap == NULL)
        return NULL;
    heap->next = NULL;
    heap->wiped = false;
    heap->theap = sti_backend_heap_theap(heap->backend);
    return heap;
}

struct sti_heap *sti_heap_take(struct sti_thread *thread)
{
    struct sti_heap *heap = thread->warm;
    thread->warm = NULL;
    if (heap == NULL)
        heap = sti_retired_take(thread, false);
    return begin(heap != NULL ? heap : make(false));
}

struct sti_heap *sti_heap_take_for_nursery(struct sti_thread *thread)
{
    struct sti_heap *heap = sti_retired_take(thread, true);
    return begin(heap != NULL ? heap : make(true));
}

struct sti_heap *sti_heap_own(const struct sti_scope *scope)
{
    while (scope->heap == NULL && scope->is_inner_subtask)
        scope = scope->outer;
    return scope->heap;
}

size_t sti_heap_bytes(const struct sti_heap *heap)
{
    if (heap->backend != NULL)
        return sti_backend_heap_size(heap->backend).held;
    size_t held = 0;
    for (size_t i = 0; i < heap->count; i++)
        held += heap->singles[i].size;
    return held;
}

size_t sti_heap_list_held(const struct sti_heap *list)
{
    size_t held = 0;
    for (; list != NULL; list = list->next) {
        sti_backend_theap_collect(list->theap, false);
        held += sti_heap_bytes(list);
    }
    return held;
}

static __attribute__((noinline)) size_t held_in_heaps(const struct sti_scope *scope)
{
    size_t held = scope->young.held + sti_mapped_held(scope->mapped);
    if (__builtin_expect(scope->libc_heaps != NULL, 0))
        held += sti_libc_heap_held(scope);
    for (const struct sti_heap *heap = scope->heaps; heap != NULL; heap = heap->next) {
        struct sti_backend_size size = sti_backend_heap_size(heap->backend);
        held += heap != scope->heap && size.pages > size.held ? size.pages : size.held;
    }
    return held;
}

size_t sti_heap_held(const struct sti_scope *scope)
{
    bool is_simple =
        ((uintptr_t)scope->libc_heaps | (uintptr_t)scope->heaps | (uintptr_t)scope->mapped) == (uintptr_t)NULL;
    return is_simple ? scope->young.held : held_in_heaps(scope);
}

static void keep_warm(struct sti_thread *thread, struct sti_heap *heap)
{
    if (thread->warm != NULL) {
        sti_retired_put(thread, heap);
        return;
    }
    heap->next = NULL;
    thread->warm = heap;
}

struct sti_heap *sti_heap_drop_empty(struct sti_thread *thread, struct sti_heap *list)
{
    struct sti_heap **link = &list;
    while (*link != NULL) {
        struct sti_heap *heap = *link;
        if (!sti_heap_is_empty(heap)) {
            link = &heap->next;
        } else {
            *link = heap->next;
            keep_warm(thread, heap);
        }
    }
    return list;
}

static size_t length(const struct sti_heap *list)
{
    size_t count = 0;
    for (; list != NULL; list = list->next)
        count++;
    return count;
}

/* The scope's own heap stays: more comes. */
static void sweep(struct sti_thread *thread, struct sti_scope *scope)
{
    struct sti_heap *own = NULL;
    for (struct sti_heap **link = &scope->heaps; *link != NULL; link = &(*link)->next) {
        if (*link == scope->heap) {
            own = *link;
            *link = own->next;
            break;
        }
    }
    scope->heaps = sti_heap_drop_empty(thread, scope->heaps);
    size_t count = length(scope->heaps);
    scope->sweep_at = count < STI_SCOPE_FIRST_SWEEP / 2 ? STI_SCOPE_FIRST_SWEEP : 2 * count;
    scope->heap_count = count;
    if (own != NULL) {
        own->next = scope->heaps;
        scope->heaps = own;
    }
}

void sti_heap_measure_exactly(struct sti_thread *thread, struct sti_scope *scope)
{
    for (const struct sti_heap *heap = scope->heaps; heap != NULL; heap = heap->next)
        sti_backend_theap_collect(heap->theap, false);
    sti_libc_heap_collect(scope);
    sweep(thread, scope);
    sti_nursery_measure(thread, scope);
}

void sti_heap_hand_over(struct sti_thread *thread, struct sti_scope *inner, struct sti_scope *outer)
{
    struct sti_heap *heap = sti_heap_drop_empty(thread, inner->heaps);
    while (heap != NULL) {
        struct sti_heap *next = heap->next;
        heap->next = outer->heaps;
        outer->heaps = heap;
        outer->heap_count++;
        heap = next;
    }
    if (outer->heap_count >= outer->sweep_at)
        sweep(thread, outer);
}

static void wipe_block(void *block, uintptr_t page, void *unused)
{
    (void)page;
    (void)unused;
    sti_wipe_block(block);
}

static void wipe(struct sti_heap *heap)
{
    if (heap->wiped)
        sti_backend_heap_blocks(heap->backend, wipe_block, NULL);
    heap->wiped = false;
}

static void free_blocks(const struct sti_heap *heap)
{
    for (size_t i = 0; i < heap->count; i++) {
        void *block = heap->singles[i].block;
        if (heap->is_mapped) {
            munmap(block, heap->singles[i].size);
            continue;
        }
        if (sti_sampling_may_follow(block))
            sti_sampling_end_rolled_back(block);
        sti_free(block);
    }
}

void sti_heap_destroy(struct sti_heap *heap)
{
    sti_heap_map_drop(&heap->map);
    if (heap->backend == NULL) {
        free_blocks(heap);
    } else {
        wipe(heap);
        sti_quiet_enter();
        sti_backend_heap_destroy(heap->backend);
        sti_quiet_leave();
    }
    sti_process_free(heap);
}

void sti_heap_commit(struct sti_thread *thread, struct sti_heap *list)
{
    list = sti_heap_drop_empty(thread, list);
    sti_sampling_end_heaps(thread, list, true);
    while (list != NULL) {
        struct sti_heap *next = list->next;
        sti_retired_put(thread, list);
        list = next;
    }
}

static void name_after(struct sti_heap *list, const char *task)
{
    for (; list != NULL; list = list->next)
        strncpy(list->task, task != NULL ? task : "", sizeof list->task - 1);
}

static void give_up(struct sti_thread *thread, struct sti_heap *heap)
{
    if (__builtin_expect(sti_debug_is_on, 0) && heap->backend != NULL) {
        wipe(heap);
        if (sti_quarantine_put(thread, heap))
            return;
    }
    sti_heap_destroy(heap);
}

size_t sti_heap_rollback(struct sti_thread *thread, struct sti_heap *list, const char *task, bool scanned)
{
    list = sti_heap_drop_empty(thread, list);
    if (list == NULL)
        return 0;
    if (__builtin_expect(sti_debug_is_on, 0))
        name_after(list, task);
    size_t kept = 0;
    if (!scanned && sti_roots_scan_due())
        kept = sti_kept_look(thread, &list, task);
    sti_sampling_end_heaps(thread, list, false);
    while (list != NULL) {
        struct sti_heap *next = list->next;
        give_up(thread, list);
        list = next;
    }
    return kept;
}

static void give_warm_back(struct sti_thread *thread)
{
    if (thread->warm != NULL)
        sti_heap_destroy(thread->warm);
    thread->warm = NULL;
}

void sti_heap_give_back(struct sti_thread *thread)
{
    sti_nursery_give_back(thread);
    sti_retired_give_back(thread);
    give_warm_back(thread);
    sti_libc_heap_give_back(thread);
}

void sti_heap_end_thread(struct sti_thread *thread)
{
    sti_nursery_end_thread(thread);
    give_warm_back(thread);
    sti_libc_heap_give_back(thread);
    sti_retired_end_thread(thread);
}

/* Before the other constructors: some allocate. */
__attribute__((constructor(102))) static void prepare(void)
{
    sti_quiet_add(&making);
    sti_backend_prepare();
}

/* --- Retired heaps. --- */

#define KEPT_EMPTY 8 /* so many are not ended though they are empty, until the thread gives back */
#define LOOKED_AT 4
#define GRACE_NS UINT64_C(100000000)

/* --- Is nobody there any more? --- */

/* It has been found without a page, and now is long enough after that. */
static bool is_deserted(struct sti_heap *heap)
{
    uint64_t now = sti_clock_now();
    if (heap->left == 0)
        heap->left = now;
    return now - heap->left >= GRACE_NS;
}

static bool is_free(struct sti_heap *heap)
{
    return sti_heap_is_empty(heap) && (!heap->given_up || is_deserted(heap));
}

/* --- The thread's list: a circle in effect, looked at a few at a time --- */

static void take_off(struct sti_thread *thread, struct sti_heap **link)
{
    *link = (*link)->next;
    thread->retired_count--;
}

/* Of the kind, or of any where that is NULL. */
static struct sti_heap *take_retired(struct sti_thread *thread, const bool *is_nursery)
{
    if (thread->retired_next == NULL || *thread->retired_next == NULL)
        thread->retired_next = &thread->retired;
    struct sti_heap **link = thread->retired_next;
    struct sti_heap *found = NULL;
    for (unsigned i = 0; i < LOOKED_AT && found == NULL && *link != NULL; i++) {
        sti_backend_theap_collect(sti_backend_heap_theap((*link)->backend), false);
        if ((is_nursery == NULL || (*link)->is_nursery == *is_nursery) && is_free(*link)) {
            found = *link;
            take_off(thread, link);
        } else {
            link = &(*link)->next;
        }
    }
    thread->retired_next = link;
    return found;
}

struct sti_heap *sti_retired_take(struct sti_thread *thread, bool is_nursery)
{
    return take_retired(thread, &is_nursery);
}

void sti_retired_put(struct sti_thread *thread, struct sti_heap *heap)
{
    heap->given_up = sti_heap_has_given_up(heap);
    heap->left = 0;
    heap->next = thread->retired;
    thread->retired = heap;
    if (++thread->retired_count <= KEPT_EMPTY)
        return;
    struct sti_heap *empty = take_retired(thread, NULL);
    if (empty != NULL)
        sti_heap_destroy(empty);
}

/* --- The process's list: of threads that have ended --- */

/* Whoever looks takes some from its front, and puts those that stay at its end: so it costs the same however many there
 * are, and all have their turn. */
static struct sti_quiet_lock lock = STI_QUIET_LOCK_INIT;
static struct sti_heap *ownerless;
static struct sti_heap *last_ownerless;

#define LOOKED_AT_IN_GIVING_BACK 1024 /* half a millisecond */

__attribute__((constructor)) static void be_quiet_at_forks(void)
{
    sti_quiet_add(&lock);
}

static void put_ownerless(struct sti_heap *heap)
{
    heap->next = NULL;
    sti_plain_mutex_lock(&lock.mutex);
    *(ownerless == NULL ? &ownerless : &last_ownerless->next) = heap;
    last_ownerless = heap;
    sti_plain_mutex_unlock(&lock.mutex);
}

static struct sti_heap *take_ownerless(void)
{
    sti_plain_mutex_lock(&lock.mutex);
    struct sti_heap *heap = ownerless;
    ownerless = heap != NULL ? heap->next : NULL;
    sti_plain_mutex_unlock(&lock.mutex);
    return heap;
}

/* Of so many at most, each once. mimalloc has given up all of their pages with their threads. */
static void end_ownerless(size_t max)
{
    struct sti_heap *stay = NULL;
    struct sti_heap *heap;
    while (max-- > 0 && (heap = take_ownerless()) != NULL) {
        if (sti_backend_heap_size(heap->backend).areas == 0 && is_deserted(heap)) {
            sti_heap_destroy(heap);
        } else {
            heap->next = stay;
            stay = heap;
        }
    }
    while ((heap = stay) != NULL) {
        stay = heap->next;
        put_ownerless(heap);
    }
}

/* --- What is given up --- */

/* To the process; what goes to the system goes at once for all (global.c). */
void sti_retired_give_back(struct sti_thread *thread)
{
    struct sti_heap **link = &thread->retired;
    while (*link != NULL) {
        struct sti_heap *heap = *link;
        sti_backend_theap_collect(sti_backend_heap_theap(heap->backend), false);
        if (is_free(heap)) {
            take_off(thread, link);
            sti_heap_destroy(heap);
        } else {
            link = &heap->next;
        }
    }
    thread->retired_next = NULL;
    end_ownerless(LOOKED_AT_IN_GIVING_BACK);
}

void sti_retired_end_thread(struct sti_thread *thread)
{
    /* Twice as many as come: there are never more for long than have live blocks. */
    end_ownerless(LOOKED_AT + 2 * (size_t)thread->retired_count);
    while (thread->retired != NULL) {
        struct sti_heap *heap = thread->retired;
        thread->retired = heap->next;
        put_ownerless(heap);
    }
    thread->retired_next = NULL;
    thread->retired_count = 0;
}
