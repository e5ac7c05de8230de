/* SPDX-License-Identifier: MIT
 *
 * Giving blocks back, wiping them, and who is just freeing one; see free.h. Any thread. */
#include "free.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "alloc/base/backend.h"
#include "alloc/base/clock.h"
#include "alloc/base/module.h"
#include "alloc/base/process.h"
#include "alloc/base/sampling.h"
#include "kept.h"

_Atomic(sti_free_fn *) sti_free_function = STI_BACKEND_FREE;

/* Who changes it; who calls it takes no lock. */
static pthread_mutex_t *const changing = &sti_quiet_locks[STI_QUIET_FREE].mutex;
static atomic_bool told;
static unsigned followers; /* with the lock */
static bool has_followers; /* now, or had some before; likewise */

static sti_free_fn *current(void)
{
    return atomic_load_explicit(&sti_free_function, memory_order_relaxed);
}

bool sti_free_is_told(void)
{
    return atomic_load_explicit(&told, memory_order_relaxed);
}

static void change(sti_free_fn *function)
{
    if (function == STI_BACKEND_FREE && sti_free_is_told())
        function = sti_freeing_free;
    if (current() != sti_free_watched)
        atomic_store_explicit(&sti_free_function, function, memory_order_release);
}

void sti_free_by(sti_free_fn *function)
{
    if (current() == sti_free_watched)
        return;
    sti_plain_mutex_lock(changing);
    change(function);
    sti_plain_mutex_unlock(changing);
}

/* With the lock. */
static void set_followers(unsigned count, sti_free_fn *function)
{
    followers = count;
    has_followers |= count > 0;
    atomic_store_explicit(&sti_sampling_follows, count > 0, memory_order_release);
    change(count > 0 ? function : STI_BACKEND_FREE);
}

void sti_free_follow(sti_free_fn *function, bool more)
{
    sti_plain_mutex_lock(changing);
    set_followers(more ? followers + 1 : followers - 1, function);
    sti_plain_mutex_unlock(changing);
}

STI_FORK_HANDLER bool sti_free_follow_none(void)
{
    bool had_some = has_followers;
    if (had_some) {
        set_followers(0, STI_BACKEND_FREE);
        has_followers = false;
    }
    return had_some;
}

void sti_free_tell(void)
{
    sti_plain_mutex_lock(changing);
    atomic_store_explicit(&told, true, memory_order_relaxed);
    change(current());
    sti_plain_mutex_unlock(changing);
}

void sti_free_last(void *block)
{
    if (sti_free_is_told())
        sti_freeing_free(block);
    else
        sti_backend_free(block);
}

void sti_free_watched(void *block)
{
    if (block == NULL)
        return;
    if (sti_kept_may_contain(block))
        sti_kept_forget(block);
    if (sti_wipe_is_due())
        sti_wipe_block(block);
    if (atomic_load_explicit(&sti_sampling_follows, memory_order_relaxed))
        sti_sampling_free(block);
    else
        sti_free_last(block);
}

/* --- Wiping. Any thread.
 *
 * All orders are relaxed: a block of a task that is wiped is made after the task's thread has counted the task and
 * changed the function behind free, and who frees the block got it from there. */

#define DISCARDED_FROM ((size_t)256 << 10)

static atomic_uint wiped_tasks; /* that run now */

/* The system zeroes whole pages more cheaply, those that were never written to above all. */
static bool discard(uintptr_t begin, uintptr_t end)
{
    int error = errno;
    bool discarded = madvise((void *)begin, end - begin, MADV_DONTNEED) == 0;
    errno = error;
    return discarded;
}

void sti_wipe_block(void *block)
{
    size_t size = sti_backend_usable_size(block);
    uintptr_t begin = (uintptr_t)block;
    uintptr_t end = begin + size;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = (begin + page - 1) & ~(page - 1);
    uintptr_t last = end & ~(page - 1);
    if (size < DISCARDED_FROM || !discard(first, last)) {
        explicit_bzero(block, size);
        return;
    }
    explicit_bzero(block, first - begin);
    explicit_bzero((void *)last, end - last);
}

bool sti_wipe_is_due(void)
{
    return atomic_load_explicit(&wiped_tasks, memory_order_relaxed) > 0;
}

void sti_wipe_begin(void)
{
    atomic_fetch_add_explicit(&wiped_tasks, 1, memory_order_relaxed);
    sti_free_by(sti_free_watched);
}

void sti_wipe_end(void)
{
    atomic_fetch_sub_explicit(&wiped_tasks, 1, memory_order_relaxed);
}

/* --- Who is just freeing a block: the records. --- */

/* Made at a thread's first free, put on a list that only grows, and handed to another thread when its own has ended. */
struct sti_freer {
    _Atomic uint64_t number; /* odd: its thread frees */
    atomic_bool owned;
    atomic_int thread;      /* the system's number of its thread */
    struct sti_freer *next; /* set once */
} __attribute__((aligned(64)));

static _Thread_local struct sti_freer *own_record;
static _Atomic(struct sti_freer *) all_records;
static pthread_key_t record_key;

/* For threads that have no memory for one: one of them at a time. */
static struct sti_freer common_record = { .owned = true };
static pthread_mutex_t *const common = &sti_quiet_locks[STI_QUIET_FREERS].mutex;

static struct sti_freer *adopt_record(void)
{
    struct sti_freer *freer = atomic_load_explicit(&all_records, memory_order_acquire);
    for (; freer != NULL; freer = freer->next) {
        bool owned = false;
        if (!atomic_load_explicit(&freer->owned, memory_order_relaxed) &&
            atomic_compare_exchange_strong_explicit(&freer->owned, &owned, true, memory_order_acquire,
                                                    memory_order_relaxed))
            return freer;
    }
    return NULL;
}

static struct sti_freer *make_record(void)
{
    struct sti_freer *freer = sti_process_lasting_aligned(_Alignof(struct sti_freer), sizeof *freer);
    if (freer == NULL)
        return NULL;
    atomic_init(&freer->number, 0);
    atomic_init(&freer->owned, true);
    freer->next = atomic_load_explicit(&all_records, memory_order_relaxed);
    /* acq_rel: whoever finds the record on the list sees it and those behind it initialised. */
    while (!atomic_compare_exchange_weak_explicit(&all_records, &freer->next, freer, memory_order_acq_rel,
                                                  memory_order_relaxed))
        ;
    return freer;
}

static __attribute__((noinline)) struct sti_freer *first_record(void)
{
    struct sti_freer *freer = adopt_record();
    if (freer == NULL)
        freer = make_record();
    own_record = freer;
    if (freer == NULL)
        return NULL;
    atomic_store_explicit(&freer->thread, gettid(), memory_order_relaxed);
    atomic_thread_fence(memory_order_release); /* before the first odd number */
    sti_specific_set_plain(record_key, freer);
    return freer;
}

/* An even one: a free that was left by a jump, or in the child of a fork(2) by its thread, goes on no more. */
static void give_record_back(struct sti_freer *freer)
{
    uint64_t number = atomic_load_explicit(&freer->number, memory_order_relaxed);
    atomic_store_explicit(&freer->number, number + (number & 1), memory_order_release);
    atomic_store_explicit(&freer->owned, false, memory_order_release);
}

/* Once mimalloc's own destructor has been called: that is in the round of destructors before the second one of ours at
 * the latest. The thread may free more, and has another record then. */
static _Thread_local unsigned rounds;

static void end_thread(void *freer)
{
    if (rounds > 1 && sti_specific_set_plain(record_key, freer) == 0) {
        rounds--;
        return;
    }
    rounds = 0;
    own_record = NULL;
    give_record_back(freer);
}

static STI_AT_FORKS uint64_t forks; /* written in children of a fork(2), by their one thread */

uint64_t sti_freeing_forks(void)
{
    return forks;
}

STI_FORK_HANDLER void sti_freeing_in_child(void)
{
    struct sti_freer *freer = atomic_load_explicit(&all_records, memory_order_acquire);
    for (; freer != NULL; freer = freer->next) {
        if (freer != own_record)
            give_record_back(freer);
    }
    if (own_record != NULL)
        atomic_store_explicit(&own_record->thread, gettid(), memory_order_relaxed);
    forks++;
}

/* --- Saying so --- */

static struct sti_freer *enter(struct sti_freer *freer)
{
    uint64_t number = atomic_load_explicit(&freer->number, memory_order_relaxed);
    if (__builtin_expect(number & 1, 0)) /* inside of another, which says it for both */
        return NULL;
    atomic_store_explicit(&freer->number, number + 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    return freer;
}

static void leave(struct sti_freer *freer)
{
    uint64_t number = atomic_load_explicit(&freer->number, memory_order_relaxed);
    atomic_store_explicit(&freer->number, number + 1, memory_order_release);
}

static __attribute__((noinline)) struct sti_freer *enter_with_common(void)
{
    sti_plain_mutex_lock(common);
    return enter(&common_record);
}

struct sti_freer *sti_freeing_enter(void)
{
    struct sti_freer *freer = own_record;
    if (__builtin_expect(freer == NULL, 0) && (freer = first_record()) == NULL)
        return enter_with_common();
    return enter(freer);
}

void sti_freeing_leave(struct sti_freer *freer)
{
    if (__builtin_expect(freer == NULL, 0))
        return;
    leave(freer);
    if (__builtin_expect(freer == &common_record, 0))
        sti_plain_mutex_unlock(common);
}

bool sti_freeing_stay_to_end(void)
{
    struct sti_freer *freer = own_record != NULL ? own_record : first_record();
    if (freer == NULL || sti_specific_set_plain(record_key, freer) != 0)
        return false;
    enter(freer);
    rounds = 2;
    return true;
}

void sti_freeing_free(void *block)
{
    struct sti_freer *freer = sti_freeing_enter();
    sti_backend_free(block);
    sti_freeing_leave(freer);
}

/* --- From when on --- */

static _Atomic uint64_t told_since;

/* release: whoever finds it so makes blocks after the change. */
void sti_freeing_tell(void)
{
    if (sti_freeing_told_since() != 0)
        return;
    sti_free_tell();
    uint64_t none = 0;
    atomic_compare_exchange_strong_explicit(&told_since, &none, sti_clock_now() | 1, memory_order_release,
                                            memory_order_relaxed);
}

uint64_t sti_freeing_told_since(void)
{
    return atomic_load_explicit(&told_since, memory_order_acquire);
}

/* --- Waiting --- */

static void look_at(struct sti_freeing_wait *wait, struct sti_freer *freer)
{
    wait->freer = freer;
    if (freer != NULL)
        wait->number = atomic_load_explicit(&freer->number, memory_order_acquire);
}

struct sti_freeing_wait sti_freeing_wait(void)
{
    struct sti_freeing_wait wait;
    atomic_thread_fence(memory_order_acquire);
    look_at(&wait, &common_record);
    return wait;
}

/* The one for all is the first; behind it those on the list when it was passed, or more. */
static struct sti_freer *behind(const struct sti_freer *freer)
{
    return freer == &common_record ? atomic_load_explicit(&all_records, memory_order_acquire) : freer->next;
}

/* libc gives up after some rounds of destructors: then a thread that stays to its end has ended without ours. Whoever
 * finds that gives its record back; the number tells who was first. */
static bool has_ended(struct sti_freer *freer, uint64_t number)
{
    if (freer == &common_record ||
        !sti_process_thread_is_gone(atomic_load_explicit(&freer->thread, memory_order_relaxed)))
        return false;
    if (atomic_compare_exchange_strong_explicit(&freer->number, &number, number + 1, memory_order_acq_rel,
                                                memory_order_relaxed))
        atomic_store_explicit(&freer->owned, false, memory_order_release);
    return true;
}

bool sti_freeing_is_over(struct sti_freeing_wait *wait)
{
    while (wait->freer != NULL) {
        bool frees = wait->number & 1;
        if (frees && atomic_load_explicit(&wait->freer->number, memory_order_acquire) == wait->number &&
            !has_ended(wait->freer, wait->number))
            return false;
        look_at(wait, behind(wait->freer));
    }
    return true;
}

/* Without a key no record is handed on. */
void sti_freeing_start(void)
{
    sti_specific_create_plain(&record_key, end_thread);
}
