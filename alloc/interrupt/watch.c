/* SPDX-License-Identifier: MIT
 *
 * The watch: the thread that looks after deadlines, and the limits that are measured by clocks; see watch.h. */
#include "watch.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "alloc/platform/clock.h"
#include "alloc/platform/module.h"
#include "alloc/platform/process.h"
#include "alloc/platform/scope_state.h"
#include "alloc/platform/system.h"
#include "alloc/platform/thread.h"
#include "boundary.h"
#include "warning.h"

/* --- The watch thread; the protocol is in watch.h. --- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t calls_ended = PTHREAD_COND_INITIALIZER;
static struct sti_watch *watches;
static atomic_size_t count; /* of watches */
static sem_t woken;         /* initialised before count is ever above 0 */
static bool started;        /* the rest under the lock */
static _Atomic uint64_t next_look = STI_WATCH_NEVER;
static atomic_bool watched; /* does it look at running tasks? */

static uint64_t watch_look_at_all(void)
{
    uint64_t next = STI_WATCH_NEVER;
    uint64_t now = sti_clock_now();
    for (struct sti_watch *watch = watches; watch != NULL;) {
        uint64_t wanted = watch->look(watch, now);
        if (wanted == STI_WATCH_AGAIN) {
            next = STI_WATCH_NEVER;
            now = sti_clock_now();
            watch = watches;
            continue;
        }
        if (wanted < next)
            next = wanted;
        watch = watch->next;
    }
    return next;
}

/* The process is to end with the program's last thread, which says nothing. Until the main thread has ended, which says
 * so where it has a record, there is no need to look often. */
#define LONGEST_SLEEP_NS UINT64_C(1000000000)
#define LAST_SLEEP_NS UINT64_C(10000000)

static atomic_bool main_thread_ends; /* relaxed: the wake-up comes behind it */

static bool watch_is_last(void)
{
    return atomic_load_explicit(&main_thread_ends, memory_order_relaxed) && sti_services_are_alone();
}

void sti_watch_main_thread_ends(void)
{
    atomic_store_explicit(&main_thread_ends, true, memory_order_relaxed);
    sem_post(&woken);
}

static void watch_sleep_until(uint64_t time)
{
    if (!atomic_load_explicit(&main_thread_ends, memory_order_relaxed) && sti_main_thread_has_ended())
        atomic_store_explicit(&main_thread_ends, true, memory_order_relaxed);
    bool ends = atomic_load_explicit(&main_thread_ends, memory_order_relaxed);
    uint64_t latest = sti_clock_now() + (ends ? LAST_SLEEP_NS : LONGEST_SLEEP_NS);
    time = time < latest ? time : latest;
    struct timespec until = { .tv_sec = (time_t)(time / 1000000000), .tv_nsec = (long)(time % 1000000000) };
    sem_clockwait(&woken, CLOCK_MONOTONIC, &until);
}

static void *keep_watch(void *unused)
{
    (void)unused;
    pthread_setname_np(pthread_self(), "stint-watch"); /* of another thread it would go by /proc */
    sti_service_works();
    pthread_mutex_lock(&lock);
    while (!watch_is_last()) {
        while (sem_trywait(&woken) == 0)
            ; /* one look answers all who have called so far */
        atomic_store_explicit(&next_look, STI_WATCH_NEVER, memory_order_seq_cst);
        uint64_t until = watch_look_at_all();
        atomic_store_explicit(&next_look, until, memory_order_seq_cst);
        pthread_mutex_unlock(&lock);
        sti_service_rests();
        watch_sleep_until(until);
        sti_service_works();
        pthread_mutex_lock(&lock);
    }
    started = false;
    pthread_mutex_unlock(&lock);
    sti_service_rests();
    sti_service_end();
    return NULL;
}

static int watch_start(void)
{
    pthread_t thread;
    int error = sti_service_start(&thread, keep_watch);
    started = error == 0;
    if (started)
        pthread_detach(thread);
    return error;
}

static _Thread_local uint64_t processor_time_at_fork;

/* It begins at 0 in the child: what was used before still counts. */
STI_FORK_HANDLER void sti_cpu_in_child(void)
{
    for (struct sti_scope *scope = sti_scope_innermost(); scope != NULL; scope = scope->below) {
        if (sti_scope_cpu_limit(scope) != 0)
            atomic_fetch_sub_explicit(&scope->cpu.begin, processor_time_at_fork, memory_order_relaxed);
    }
}

STI_FORK_HANDLER void sti_cpu_before_fork(void)
{
    if (sti_scope_innermost() != NULL)
        processor_time_at_fork = sti_clock_read(CLOCK_THREAD_CPUTIME_ID);
}

/* The child has no such thread: it starts one at its next need. It rests in a fork of a whole process. */
STI_FORK_HANDLER void sti_watch_in_child(void)
{
    if (!started || sti_process_is_partial())
        return;
    started = false;
    watches = NULL;
    STI_SET_IN_CHILD(count, 0);
    STI_SET_IN_CHILD(main_thread_ends, false);
    STI_SET_IN_CHILD(next_look, STI_WATCH_NEVER);
    STI_SET_IN_CHILD(watched, false);
}

void sti_watch_start(void)
{
    sem_init(&woken, 0, 0);
}

int sti_watch_begin(struct sti_watch *watch, uint64_t time)
{
    pthread_mutex_lock(&lock);
    int error = started ? 0 : watch_start();
    if (error == 0) {
        watch->calls = 0;
        watch->next = watches;
        watch->link = &watches;
        if (watches != NULL)
            watches->link = &watch->next;
        watches = watch;
        if (watch->tell != NULL)
            atomic_fetch_add_explicit(&count, 1, memory_order_seq_cst);
        sti_watch_hasten(time);
    }
    pthread_mutex_unlock(&lock);
    return error;
}

void sti_watch_end(struct sti_watch *watch)
{
    pthread_mutex_lock(&lock);
    sti_watch_await_calls(watch);
    if (watch->link != NULL) {
        *watch->link = watch->next;
        if (watch->next != NULL)
            watch->next->link = watch->link;
        watch->link = NULL;
        if (watch->tell != NULL)
            atomic_fetch_sub_explicit(&count, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&lock);
}

void sti_watch_lock(void)
{
    pthread_mutex_lock(&lock);
}

void sti_watch_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

void sti_watch_call(struct sti_watch *watch, void (*function)(void *arg), void *arg)
{
    watch->calls++;
    pthread_mutex_unlock(&lock);
    STI_BOUNDARY_CALLBACK(function, arg, NULL, NULL);
    pthread_mutex_lock(&lock);
    if (--watch->calls == 0)
        pthread_cond_broadcast(&calls_ended);
}

/* The lock would be the cancelled thread's for ever. */
void sti_watch_await_calls(const struct sti_watch *watch)
{
    int cancellation = sti_thread_set_cancellation(PTHREAD_CANCEL_DISABLE);
    while (watch->calls > 0)
        pthread_cond_wait(&calls_ended, &lock);
    sti_thread_set_cancellation(cancellation);
}

void sti_watch_hasten(uint64_t time)
{
    if (time < atomic_load_explicit(&next_look, memory_order_seq_cst))
        sem_post(&woken);
}

/* Whoever sets a token is not to pay for thousands of watched descriptors: the watch looks at the others. */
#define TOLD_AT_ONCE 64

/* The lock is held, or has been tried in vain: then the watch does what was to be done here. */
static bool tell_all(void)
{
    if (sti_real_mutex_trylock(&lock) != 0)
        return true;
    bool has_to_look = false;
    struct sti_watch *watch = watches;
    for (int told = 0; watch != NULL && told < TOLD_AT_ONCE; watch = watch->next, told++)
        has_to_look = (watch->tell != NULL && watch->tell(watch)) || has_to_look;
    has_to_look = has_to_look || watch != NULL;
    sti_real_mutex_unlock(&lock);
    return has_to_look;
}

void sti_watch_wake(void)
{
    if (atomic_load_explicit(&count, memory_order_seq_cst) > 0 && tell_all())
        sem_post(&woken);
}

/* --- When a running task has to be looked at. --- */

static uint64_t look_at_threads(struct sti_watch *watch, uint64_t now)
{
    uint64_t next = STI_WATCH_NEVER;
    struct sti_waiting_warning waiting;
    if (sti_warning_take(&waiting)) {
        sti_watch_call(watch, sti_warning_notify, &waiting);
        return STI_WATCH_AGAIN;
    }
    for (struct sti_thread *thread = sti_thread_first(); thread != NULL; thread = thread->next) {
        uint64_t due = atomic_load_explicit(&thread->next_deadline, memory_order_seq_cst);
        if (due == STI_DEADLINE_HAS_COME)
            continue;
        if (due > now) {
            next = due < next ? due : next;
        } else if (atomic_compare_exchange_strong_explicit(&thread->next_deadline, &due, STI_DEADLINE_HAS_COME,
                                                           memory_order_seq_cst, memory_order_relaxed)) {
            atomic_store_explicit(&thread->limit, 0, memory_order_seq_cst);
        }
    }
    return next;
}

static struct sti_watch watch = { .look = look_at_threads };

/* Where no thread can be started, such tasks are stopped late, as they are without this. */
int sti_watch_have(void)
{
    bool expected = false;
    if (atomic_load_explicit(&watched, memory_order_relaxed) ||
        !atomic_compare_exchange_strong_explicit(&watched, &expected, true, memory_order_relaxed, memory_order_relaxed))
        return 0;
    int error = sti_watch_begin(&watch, 0);
    if (error != 0)
        atomic_store_explicit(&watched, false, memory_order_relaxed);
    return error;
}

void sti_next_deadline_renew(struct sti_thread *thread, const struct sti_scope *scope)
{
    uint64_t due = STI_DEADLINE_NEVER;
    thread->hides_deadlines = false;
    for (; scope != NULL; scope = scope->outer) {
        thread->hides_deadlines = scope->outer == NULL && scope->below != NULL;
        if (scope->tripped != STINT_REASON_NONE)
            continue;
        due = sti_scope_deadline(scope) < due ? sti_scope_deadline(scope) : due;
        due = scope->cpu.look < due ? scope->cpu.look : due;
        uint64_t mark = sti_scope_time_mark(scope);
        due = mark < due ? mark : due;
    }
    atomic_store_explicit(&thread->next_deadline, due, memory_order_seq_cst);
    if (due != STI_DEADLINE_NEVER)
        sti_watch_hasten(due);
}

void sti_next_deadline_begin(struct sti_thread *thread, const struct sti_scope *scope)
{
    sti_watch_have();
    sti_next_deadline_renew(thread, scope);
}

bool sti_next_deadline_has_come(const struct sti_thread *thread)
{
    return atomic_load_explicit(&thread->next_deadline, memory_order_seq_cst) == STI_DEADLINE_HAS_COME;
}

uint64_t sti_next_deadline_clock(const struct sti_thread *thread)
{
    return sti_next_deadline_has_come(thread) ? sti_clock_now() : sti_clock_coarse();
}

/* --- The limit on processor time. --- */

/* A scope below that goes on when this one, which is detached from it, has ended. Under one that is detached too, and
 * not measured, there is none: it would be. */
static bool is_measured_below(const struct sti_scope *scope)
{
    const struct sti_scope *below = scope->outer == NULL ? scope->below : NULL;
    while (below != NULL && sti_scope_cpu_limit(below) == 0 && below->outer != NULL)
        below = below->below;
    return below != NULL && sti_scope_cpu_limit(below) != 0;
}

void sti_cpu_begin(struct sti_scope *scope, uint64_t limit, uint64_t now)
{
    if (limit == 0 && is_measured_below(scope))
        limit = UINT64_MAX;
    scope->cpu.look = limit != 0 ? sti_saturating_add(now, limit) : UINT64_MAX;
    if (limit != 0)
        atomic_store_explicit(&scope->cpu.begin, sti_clock_read(CLOCK_THREAD_CPUTIME_ID), memory_order_relaxed);
    /* release: where the watch finds a limit (acquire), it finds the beginning. */
    atomic_store_explicit(&scope->cpu.limit, limit, memory_order_release);
}

/* The beginning may lie before 0, in the child of a fork(2). */
static uint64_t watch_cpu_used(const struct sti_scope *scope, uint64_t reading)
{
    uint64_t used = reading - atomic_load_explicit(&scope->cpu.begin, memory_order_relaxed);
    return used <= INT64_MAX ? used : 0;
}

uint64_t sti_cpu_used(const struct sti_scope *scope)
{
    return watch_cpu_used(scope, sti_clock_read(CLOCK_THREAD_CPUTIME_ID));
}

uint64_t sti_cpu_end(struct sti_scope *scope)
{
    if (sti_scope_cpu_limit(scope) == 0)
        return 0;
    uint64_t used = sti_cpu_used(scope);
    /* The thread's own, of which the watch reads a whole value. */
    for (struct sti_scope *below = scope->outer == NULL ? scope->below : NULL; below != NULL; below = below->below) {
        if (sti_scope_cpu_limit(below) != 0)
            atomic_fetch_add_explicit(&below->cpu.begin, used, memory_order_relaxed);
    }
    return used;
}

bool sti_cpu_is_exhausted(struct sti_scope *scope, uint64_t now)
{
    if (now < scope->cpu.look)
        return false;
    uint64_t used = sti_cpu_used(scope);
    if (sti_scope_limits(scope) != NULL)
        atomic_store_explicit(&sti_scope_limits(scope)->cpu_used, used, memory_order_relaxed);
    if (used >= sti_scope_cpu_limit(scope))
        return true;
    uint64_t next = sti_scope_cpu_limit(scope);
    if (scope->warn != 0) {
        sti_warning_look_at_cpu(scope, used);
        next = scope->marks.cpu < next ? scope->marks.cpu : next;
    }
    scope->cpu.look = sti_saturating_add(now, next - used);
    return false;
}

/* What was measured stays so. */
static uint64_t cpu_limit_of(uint64_t limit)
{
    return limit != 0 ? limit : UINT64_MAX;
}

uint64_t sti_cpu_watch(const struct sti_scope *scope, uint64_t now)
{
    uint64_t limit = atomic_load_explicit(&scope->cpu.limit, memory_order_acquire);
    if (limit == 0)
        return UINT64_MAX;
    if (sti_scope_new_limits(scope, 0) != 0)
        limit = cpu_limit_of(sti_limits_read(sti_scope_limits(scope)).cpu_ns);
    if (limit == UINT64_MAX)
        return UINT64_MAX;
    uint64_t used = watch_cpu_used(scope, sti_clock_read(sti_clock_of_thread(scope->thread->id)));
    return used >= limit ? now : sti_saturating_add(now, limit - used);
}

/* --- Limits that are changed while the task runs: platform/limits.h. --- */

static void take_cpu_limit(struct sti_scope *scope, uint64_t limit)
{
    if (sti_scope_cpu_limit(scope) == 0) {
        sti_cpu_begin(scope, limit, sti_clock_now());
    } else {
        atomic_store_explicit(&scope->cpu.limit, cpu_limit_of(limit), memory_order_relaxed);
        scope->cpu.look = limit != 0 && limit != UINT64_MAX ? 0 : UINT64_MAX;
    }
}

/* Where its thread would go by them already. */
uint64_t sti_deadline_watch(const struct sti_scope *scope)
{
    if (sti_scope_new_limits(scope, 0) == 0)
        return sti_scope_deadline(scope);
    const stint_budget budget = sti_limits_read(sti_scope_limits(scope));
    uint64_t start = atomic_load_explicit(&sti_scope_limits(scope)->start, memory_order_relaxed); /* not a subtask's */
    return sti_limits_deadline(&budget, scope->request->submitted_ns, start);
}

void sti_deadline_take_limits(struct sti_scope *scope, const struct sti_scope *innermost)
{
    scope->limits_timed =
        sti_limits_version(sti_scope_limits(scope)); /* first: what is changed after that is taken again */
    atomic_store_explicit(&scope->deadline, sti_deadline_watch(scope), memory_order_relaxed);
    if (sti_scope_limits(scope)->changed == NULL)
        take_cpu_limit(scope, sti_limits_read(sti_scope_limits(scope)).cpu_ns);
    if (scope->warn != 0) {
        const stint_budget budget = sti_limits_read(sti_scope_limits(scope));
        sti_warning_mark_time(scope, &budget);
    }
    sti_next_deadline_renew(innermost->thread, innermost);
}

int sti_limits_change(struct sti_limits *limits, const stint_budget *budget)
{
    static pthread_mutex_t changing = PTHREAD_MUTEX_INITIALIZER;
    sti_watch_have();
    sti_real_mutex_lock(&changing);
    bool is_in_time = sti_limits_store(limits, budget);
    sti_real_mutex_unlock(&changing);
    sti_thread_request_samples();
    sti_watch_wake();
    return is_in_time ? 0 : EALREADY;
}
