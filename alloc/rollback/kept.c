/* SPDX-License-Identifier: MIT
 *
 * What stays of a heap when its task has ended: blocks to which others may point, libc's own blocks, and heaps in
 * quarantine; see kept.h. */
#include "kept.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stint/roots.h>
#include <string.h>
#include <sys/mman.h>

#include "alloc/base/backend.h"
#include "alloc/base/module.h"
#include "alloc/base/process.h"
#include "alloc/base/sampling.h"
#include "alloc/base/scope_state.h"
#include "alloc/base/thread.h"
#include "alloc/interrupt/hold.h"
#include "free.h"
#include "heap.h"
#include "retired.h"
#include "roots.h"

/* --- What is kept. --- */

/* --- Watched blocks --- */

#define LISTS ((size_t)1 << 12)
#define MAX_WATCHED ((size_t)1 << 14) /* what is kept beyond that counts for good */

STI_TABLE _Atomic uint8_t sti_kept_marks[STI_KEPT_MARKS];

struct watched {
    uintptr_t block;
    size_t size;
    struct watched *next;
};
STI_TABLE struct watched *sti_kept_lists[LISTS];
static size_t watched_count;

static _Atomic size_t kept_bytes;
static _Atomic uint64_t kept_heaps;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

size_t sti_kept_bytes(void)
{
    return atomic_load_explicit(&kept_bytes, memory_order_relaxed);
}

uint64_t sti_kept_heaps(void)
{
    return atomic_load_explicit(&kept_heaps, memory_order_relaxed);
}

size_t stint_roots_kept_bytes(void)
{
    return sti_kept_bytes();
}

static struct watched **list_of(uintptr_t block)
{
    return &sti_kept_lists[block >> 4 & (LISTS - 1)];
}

/* Once it has come to the most that it can count, a mark stays. */
static void count_mark(uintptr_t block, int by)
{
    _Atomic uint8_t *mark = &sti_kept_marks[block >> 4 & (STI_KEPT_MARKS - 1)];
    uint8_t count = atomic_load_explicit(mark, memory_order_relaxed);
    if (count != UINT8_MAX)
        atomic_store_explicit(mark, (uint8_t)(count + by), memory_order_relaxed);
}

/* With the lock. Returns the entry, taken out; NULL: it is not watched. */
static struct watched *take_out(uintptr_t block)
{
    struct watched **link = list_of(block);
    while (*link != NULL && (*link)->block != block)
        link = &(*link)->next;
    struct watched *entry = *link;
    if (entry == NULL)
        return NULL;
    *link = entry->next;
    watched_count--;
    count_mark(block, -1);
    return entry;
}

void sti_kept_forget(const void *block)
{
    if (sti_process_is_partial()) /* the lock may be held for ever */
        return;
    sti_plain_mutex_lock(&lock);
    struct watched *entry = take_out((uintptr_t)block);
    sti_plain_mutex_unlock(&lock);
    if (entry == NULL)
        return;
    atomic_fetch_sub_explicit(&kept_bytes, entry->size, memory_order_relaxed);
    sti_process_free(entry);
}

/* Without memory for it, it counts for good. */
static void watch(uintptr_t block, size_t size)
{
    struct watched *entry = sti_process_lasting_malloc(sizeof *entry);
    if (entry == NULL)
        return;
    sti_plain_mutex_lock(&lock);
    bool has_room = watched_count < MAX_WATCHED;
    if (has_room) {
        *entry = (struct watched){ .block = block, .size = size, .next = *list_of(block) };
        *list_of(block) = entry;
        watched_count++;
        count_mark(block, 1);
    }
    sti_plain_mutex_unlock(&lock);
    if (!has_room)
        sti_process_free(entry);
}

/* --- The end of a heap in which something is kept --- */

static void roll_back_block(const struct sti_heap *heap, void *block)
{
    if (heap->wiped)
        sti_wipe_block(block);
    sti_free_rolled_back(block);
}

static void end_block(uintptr_t block, size_t size, bool is_kept, void *heap)
{
    if (is_kept)
        watch(block, size);
    else if (((const struct sti_heap *)heap)->is_mapped)
        munmap((void *)block, size);
    else
        roll_back_block(heap, (void *)block);
}

static void end_heap(struct sti_thread *thread, struct sti_heap *heap)
{
    sti_heap_map_visit(heap, end_block, heap);
    sti_heap_map_drop(&heap->map);
    if (heap->backend == NULL) {
        sti_process_free(heap);
        return;
    }
    heap->next = NULL;
    sti_sampling_end_heaps(thread, heap, true);
    sti_backend_theap_collect(heap->theap, true);
    sti_retired_put(thread, heap);
}

size_t sti_kept_look(struct sti_thread *thread, struct sti_heap **list, const char *task)
{
    size_t kept = sti_roots_pin(*list, task);
    if (kept == 0)
        return 0;
    atomic_fetch_add_explicit(&kept_bytes, kept, memory_order_relaxed);
    sti_free_by(sti_free_watched);
    while (*list != NULL) {
        struct sti_heap *heap = *list;
        if (sti_heap_kept(heap) == 0) {
            list = &heap->next;
        } else {
            *list = heap->next;
            end_heap(thread, heap);
            atomic_fetch_add_explicit(&kept_heaps, 1, memory_order_relaxed);
        }
    }
    return kept;
}

/* --- Heaps for libc's blocks. A scope has one, and those that inner scopes have left to it. --- */

#define MAX_LIBC_PAGES 64 /* a heap with more takes long to measure: the next scope has another */

static struct sti_heap *take_libc_heap(struct sti_thread *thread)
{
    struct sti_heap *heap = thread->libc;
    if (heap == NULL)
        heap = sti_heap_take(thread);
    if (heap == NULL)
        return NULL;
    thread->libc = NULL;
    heap->theap = sti_backend_heap_theap(heap->backend);
    heap->held_before = sti_heap_bytes(heap);
    return heap;
}

/* NULL: out of memory, or in no scope; then the process's will do. */
static sti_backend_theap *heap_of(struct sti_thread *thread)
{
    if (sti_thread_metered == NULL)
        return NULL;
    struct sti_scope *scope = thread->scope;
    if (__builtin_expect(scope->libc_heaps == NULL, 0))
        scope->libc_heaps = take_libc_heap(thread);
    return scope->libc_heaps != NULL ? scope->libc_heaps->theap : NULL;
}

void *sti_libc_heap_malloc(struct sti_thread *thread, size_t size)
{
    sti_backend_theap *heap = heap_of(thread);
    return heap != NULL ? sti_backend_theap_malloc(heap, size) : sti_backend_malloc(size);
}

void *sti_libc_heap_zalloc(struct sti_thread *thread, size_t size)
{
    sti_backend_theap *heap = heap_of(thread);
    return heap != NULL ? sti_backend_theap_zalloc(heap, size) : sti_backend_zalloc(size);
}

void *sti_libc_heap_aligned(struct sti_thread *thread, size_t alignment, size_t size)
{
    sti_backend_theap *heap = heap_of(thread);
    return heap != NULL ? sti_backend_theap_aligned(heap, alignment, size) : sti_backend_aligned(alignment, size);
}

size_t sti_libc_heap_held(const struct sti_scope *scope)
{
    size_t held = 0;
    for (const struct sti_heap *heap = scope->libc_heaps; heap != NULL; heap = heap->next) {
        size_t bytes = sti_heap_bytes(heap);
        held += bytes > heap->held_before ? bytes - heap->held_before : 0;
    }
    return held;
}

void sti_libc_heap_collect(const struct sti_scope *scope)
{
    for (const struct sti_heap *heap = scope->libc_heaps; heap != NULL; heap = heap->next)
        sti_backend_theap_collect(heap->theap, false);
}

void sti_libc_heap_end(struct sti_thread *thread, struct sti_scope *scope, struct sti_scope *outer)
{
    struct sti_heap *heap = sti_heap_drop_empty(thread, scope->libc_heaps);
    scope->libc_heaps = NULL;
    if (outer == NULL) {
        /* libc often frees in one task what it has made in the last: heaps wait for that with few pages. */
        for (const struct sti_heap *each = heap; each != NULL; each = each->next)
            sti_backend_theap_collect(each->theap, true);
        if (heap != NULL && thread->libc == NULL && sti_heap_size(heap).areas <= MAX_LIBC_PAGES) {
            thread->libc = heap;
            heap = heap->next;
            thread->libc->next = NULL;
        }
        sti_heap_commit(thread, heap);
        return;
    }
    while (heap != NULL) {
        struct sti_heap *next = heap->next;
        heap->next = outer->libc_heaps;
        outer->libc_heaps = heap;
        heap = next;
    }
}

void sti_libc_heap_retire(struct sti_thread *thread)
{
    struct sti_heap *heap = thread->libc;
    thread->libc = NULL;
    if (heap != NULL)
        sti_retired_put(thread, heap);
}

/* --- The quarantine. Thread of the heaps, but for the handler of faults: it reads what may be changed meanwhile
 * by others, so that is never freed, and at worst it names nobody. */

/* Of a thread; and stretches of pages side by side, of a heap: what lies beyond is left accessible, as each may take
 * two of the process's mappings, of 65530. */
#define MAX_HEAPS 32
#define MAX_STRETCHES 16
#define PAGE ((uintptr_t)4096)

struct stretch {
    _Atomic uintptr_t begin;
    _Atomic uintptr_t end;
};

struct entry {
    struct sti_heap *heap; /* NULL: none */
    char task[STI_HEAP_TASK_NAME];
    atomic_uint count;
    struct stretch stretches[MAX_STRETCHES];
};

struct sti_quarantine {
    struct entry entries[MAX_HEAPS];
    unsigned next; /* the oldest */
    bool ended;    /* the thread is about to be, */
    int owner;     /* which has this id: the next one with its record takes the quarantine, too */
};

extern int __cxa_thread_atexit_impl(void (*function)(void *), void *argument, void *module);
extern void *__dso_handle;

/* --- A fault ------------------------------------------------------------------------------------------------------ */

static struct sigaction before_ours;

static bool lies_in(const struct entry *entry, uintptr_t address)
{
    unsigned count = atomic_load_explicit(&entry->count, memory_order_acquire);
    for (unsigned i = 0; i < count; i++) {
        if (address >= atomic_load_explicit(&entry->stretches[i].begin, memory_order_relaxed) &&
            address < atomic_load_explicit(&entry->stretches[i].end, memory_order_relaxed))
            return true;
    }
    return false;
}

static const struct entry *find(uintptr_t address)
{
    for (struct sti_thread *thread = sti_thread_first(); thread != NULL; thread = thread->next) {
        const struct sti_quarantine *quarantine = atomic_load_explicit(&thread->quarantine, memory_order_acquire);
        for (unsigned i = 0; quarantine != NULL && i < MAX_HEAPS; i++) {
            if (lies_in(&quarantine->entries[i], address))
                return &quarantine->entries[i];
        }
    }
    return NULL;
}

/* The instruction is tried again after this, with whatever was there before for it: a debugger or a core shows it. */
static void on_fault(int number, siginfo_t *info, void *context)
{
    const struct entry *entry = find((uintptr_t)info->si_addr);
    if (entry != NULL)
        sti_debug_say("stint: %p was memory of task %s, which has been rolled back: a stale pointer is used here",
                      info->si_addr, entry->task[0] != '\0' ? entry->task : "(without a name)");
    if (entry == NULL && (before_ours.sa_flags & SA_SIGINFO) != 0)
        before_ours.sa_sigaction(number, info, context);
    else if (entry == NULL && before_ours.sa_handler != SIG_DFL && before_ours.sa_handler != SIG_IGN)
        before_ours.sa_handler(number);
    else
        sigaction(number, &before_ours, NULL);
}

static void hear_faults(void)
{
    struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK };
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, &before_ours);
}

/* --- In and out --------------------------------------------------------------------------------------------------- */

/* Pages of blocks of one size begin with mimalloc's record of them, in their first slice. What is behind that goes back
 * to the system, also where there is no room to list it: a page is as large as a huge page of the system's may have
 * made it. */
static void note_page(const struct sti_backend_area *area, void *argument)
{
    struct entry *entry = argument;
    uintptr_t first = area->begin & ~(STI_BACKEND_SLICE - 1);
    uintptr_t last = (area->reach + PAGE - 1) & ~(PAGE - 1);
    uintptr_t contents = (area->begin + PAGE - 1) & ~(PAGE - 1);
    unsigned count = atomic_load_explicit(&entry->count, memory_order_relaxed);
    if (contents < last)
        madvise((void *)contents, last - contents, MADV_DONTNEED);
    if (count > 0 && atomic_load_explicit(&entry->stretches[count - 1].end, memory_order_relaxed) == first) {
        atomic_store_explicit(&entry->stretches[count - 1].end, last, memory_order_relaxed);
    } else if (count < MAX_STRETCHES) {
        atomic_store_explicit(&entry->stretches[count].begin, first, memory_order_relaxed);
        atomic_store_explicit(&entry->stretches[count].end, last, memory_order_relaxed);
        atomic_store_explicit(&entry->count, count + 1, memory_order_release);
    }
}

static void protect(struct entry *entry, int protection)
{
    unsigned count = atomic_load_explicit(&entry->count, memory_order_relaxed);
    for (unsigned i = 0; i < count; i++) {
        uintptr_t begin = atomic_load_explicit(&entry->stretches[i].begin, memory_order_relaxed);
        uintptr_t end = atomic_load_explicit(&entry->stretches[i].end, memory_order_relaxed);
        mprotect((void *)begin, end - begin, protection);
    }
}

/* First all are listed, by mimalloc's records; then these may be out of reach. */
static void close_off(struct entry *entry)
{
    sti_backend_theap_areas(entry->heap->theap, note_page, entry);
    protect(entry, PROT_NONE);
}

static void open_up(struct entry *entry)
{
    protect(entry, PROT_READ | PROT_WRITE);
    atomic_store_explicit(&entry->count, 0, memory_order_relaxed);
}

static void let_out(struct entry *entry)
{
    if (entry->heap == NULL)
        return;
    open_up(entry);
    sti_heap_end(entry->heap);
    entry->heap = NULL;
}

static void end_thread(void *argument)
{
    struct sti_quarantine *quarantine = argument;
    quarantine->ended = true;
    for (unsigned i = 0; i < MAX_HEAPS; i++)
        let_out(&quarantine->entries[i]);
}

void sti_quarantine_end_thread(struct sti_thread *thread)
{
    struct sti_quarantine *quarantine = atomic_load_explicit(&thread->quarantine, memory_order_relaxed);
    if (quarantine == NULL)
        return;
    quarantine->owner = thread->id;
    end_thread(quarantine);
}

/* Its thread has another id in the child of a fork(2). */
STI_FORK_HANDLER void sti_quarantine_in_child(void)
{
    const struct sti_thread *thread = sti_thread_own();
    struct sti_quarantine *own =
        thread != NULL ? atomic_load_explicit(&thread->quarantine, memory_order_relaxed) : NULL;
    if (own != NULL)
        own->owner = thread->id;
}

static struct sti_quarantine *make(struct sti_thread *thread)
{
    static pthread_once_t heard = PTHREAD_ONCE_INIT;
    struct sti_quarantine *quarantine = sti_process_lasting_calloc(1, sizeof *quarantine);
    pthread_once(&heard, hear_faults);
    atomic_store_explicit(&thread->quarantine, quarantine, memory_order_release);
    return quarantine;
}

/* NULL: there is none, or no more. */
static struct sti_quarantine *quarantine_of(struct sti_thread *thread)
{
    struct sti_quarantine *quarantine = atomic_load_explicit(&thread->quarantine, memory_order_relaxed);
    if (quarantine == NULL)
        quarantine = make(thread);
    if (quarantine == NULL || quarantine->owner == thread->id)
        return quarantine != NULL && !quarantine->ended ? quarantine : NULL;
    quarantine->owner = thread->id;
    quarantine->ended = __cxa_thread_atexit_impl(end_thread, quarantine, &__dso_handle) != 0;
    return quarantine->ended ? NULL : quarantine;
}

bool sti_quarantine_put(struct sti_thread *thread, struct sti_heap *heap)
{
    struct sti_quarantine *quarantine = quarantine_of(thread);
    if (quarantine == NULL || heap->backend == NULL)
        return false;
    struct entry *entry = &quarantine->entries[quarantine->next];
    quarantine->next = (quarantine->next + 1) % MAX_HEAPS;
    let_out(entry);
    entry->heap = heap;
    memcpy(entry->task, heap->task, sizeof entry->task);
    close_off(entry);
    return true;
}
