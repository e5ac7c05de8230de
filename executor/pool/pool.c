/* SPDX-License-Identifier: MIT
 *
 * The life of a pool: made with its threads, each on its processors, and freed. Any thread. */
#include "pool.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stint/pool.h>
#include <string.h>
#include <unistd.h>

#include "alloc/interrupt/signals.h"
#include "alloc/interrupt/stack.h"
#include "alloc/platform/libc.h"
#include "alloc/platform/link.h"
#include "alloc/platform/process.h"
#include "alloc/platform/sized.h"
#include "alloc/platform/system.h"
#include "alloc/platform/thread.h"
#include "alloc/platform/tracing.h"
#include "alloc/scope/context.h"
#include "executor/queue/fair_queue.h"
#include "executor/queue/queue_slots.h"
#include "executor/task/delays.h"
#include "executor/task/farewells.h"
#include "executor/worker/deadlock.h"
#include "executor/worker/substitute.h"
#include "executor/worker/worker.h"
#include "monitor.h"
#include "pools.h"
#include "shutdown.h"

#define DEFAULT_NAME "stint"

/* --- Making and freeing pools. Any thread; which calls may meet is said in stint/pool.h. --- */

void sti_pool_free(stint_pool *pool)
{
    /* Another pool's: its place is given up while others end callbacks. */
    struct sti_worker *worker = sti_worker_current();
    if (worker != NULL)
        sti_substitute_fall_asleep(worker, 1);
    pthread_mutex_destroy(&pool->joining);
    sti_monitor_stop(&pool->monitor);
    sti_delays_await(&pool->delays);
    sti_shutdown_end_queued(pool); /* what submitters and delayed tasks left when the pool had closed */
    sti_deadlock_forget();         /* whoever has found one of those waiting */
    sti_fair_queue_await(&pool->fair_queue);
    sti_monitor_end(&pool->monitor);
    sti_farewell_await_all(pool); /* those that are noted on the way out of the entries too */
    if (worker != NULL)
        sti_substitute_awake(worker, 1);
    sti_farewells_end(&pool->farewells);
    sti_queue_slots_end(&pool->queue_slots);
    sti_fair_queue_end(&pool->fair_queue);
    sti_substitutes_end(&pool->substitutes);
    sti_queue_end(&pool->queue);
    if (pool->processors.mask != NULL)
        sti_processors_free(&pool->processors);
    sti_process_free(pool->workers);
    sti_process_free(pool);
}

static stint_pool *pool_make(const stint_pool_options *options, unsigned workers, unsigned substitutes)
{
    size_t capacity = options->queue_capacity != 0 ? options->queue_capacity : STI_QUEUE_CAPACITY_DEFAULT;
    stint_pool *pool = sti_process_aligned(_Alignof(stint_pool), sizeof *pool);
    if (pool == NULL)
        return NULL;
    memset(pool, 0, sizeof *pool);
    pool->workers = sti_process_aligned(_Alignof(struct sti_worker), (workers + substitutes) * sizeof *pool->workers);
    if (pool->workers == NULL || !sti_queue_init(&pool->queue, capacity) ||
        !sti_fair_queue_init(&pool->fair_queue, pool, capacity)) {
        sti_queue_end(&pool->queue);
        sti_process_free(pool->workers);
        sti_process_free(pool);
        return NULL;
    }
    pool->options = *options;
    pool->worker_count = workers;
    sti_queue_slots_init(&pool->queue_slots);
    sti_monitor_init(&pool->monitor);
    sti_delays_init(&pool->delays);
    sti_farewells_init(&pool->farewells);
    for (unsigned i = 0; i < workers; i++)
        sti_worker_init(&pool->workers[i], pool, i);
    sti_token_init(&pool->stop, NULL);
    strncpy(pool->name, options->name, sizeof pool->name - 1);
    atomic_init(&pool->alive, workers);
    sti_event_init(&pool->ended);
    pthread_mutex_init(&pool->joining, NULL);
    sti_substitutes_init(&pool->substitutes, workers, substitutes);
    return pool;
}

static unsigned default_workers(void)
{
    unsigned usable = sti_processors_usable("");
    return usable > STI_WORKERS_MAX ? STI_WORKERS_MAX : usable;
}

static unsigned substitutes_of(const stint_pool_options *options)
{
    if (options->substitutes == STINT_NO_SUBSTITUTES)
        return 0;
    return options->substitutes != 0 ? options->substitutes : STI_SUBSTITUTES_DEFAULT;
}

static bool is_stack_size(size_t size)
{
    long least = sysconf(_SC_THREAD_STACK_MIN);
    return size == 0 || (size >= STI_STACK_MIN && size >= (size_t)least && size <= SIZE_MAX / 2);
}

static bool pool_options_are_valid(const stint_pool_options *options)
{
    return options->workers <= STI_WORKERS_MAX && options->queue_capacity <= STI_QUEUE_CAPACITY_MAX &&
           (options->substitutes <= STI_SUBSTITUTES_MAX || options->substitutes == STINT_NO_SUBSTITUTES) &&
           sti_link_flags_valid(options->flags) && is_stack_size(options->stack_size) &&
           (unsigned)options->report <= (unsigned)STINT_REPORT_HEAP;
}

static int pool_take_options(stint_pool_options *options, const stint_pool_options *given)
{
    int error = 0;
    if (given != NULL)
        error = sti_sized_in(options, sizeof *options, STI_SIZED_UP_TO(stint_pool_options, stack_size), given);
    if (options->name == NULL)
        options->name = DEFAULT_NAME;
    return error != 0 || pool_options_are_valid(options) ? error : EINVAL;
}

int sti_pool_create_hooked(const stint_pool_options *given, const struct sti_pool_hooks *hooks, stint_pool **pool)
{
    stint_pool_options options = STINT_POOL_OPTIONS_INIT;
    int error = pool != NULL ? pool_take_options(&options, given) : EINVAL;
    if (error != 0)
        return error;
    if (sti_backend_check() != 0 || (options.pinned && !STI_LIBC_PINS_THREADS) || !sti_link_allows(options.flags))
        return ENOTSUP;
    stint_pool *created =
        pool_make(&options, options.workers != 0 ? options.workers : default_workers(), substitutes_of(&options));
    if (created == NULL)
        return ENOMEM;
    unsigned observed =
        (options.overdue_ns != 0 ? STI_OBSERVED_OVERDUE : 0) | (hooks != NULL ? STI_OBSERVED_HOOKED : 0);
    if (observed != 0)
        atomic_fetch_or_explicit(&sti_tasks_observed, observed, memory_order_relaxed);
    created->hooks = hooks;
    unsigned started = sti_start_workers(created, options.pinned);
    if (started < created->worker_count) {
        sti_shutdown_begin(created, STI_POOL_CANCELLING);
        sti_shutdown_join(created, started);
        sti_pool_free(created);
        return EAGAIN;
    }
    sti_pools_add(created, options.name);
    *pool = created;
    return 0;
}

int stint_pool_create(const stint_pool_options *options, stint_pool **pool)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    return sti_pool_create_hooked(options, NULL, pool);
}

stint_pool *stint_pool_current(void)
{
    const struct sti_worker *worker = sti_worker_current();
    return worker != NULL ? worker->pool : NULL;
}

unsigned stint_pool_workers(const stint_pool *pool)
{
    return pool != NULL ? pool->worker_count : 0;
}

int stint_pool_destroy(stint_pool *pool)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    if (pool == NULL)
        return 0;
    int error = stint_pool_shutdown(pool, STINT_SHUTDOWN_CANCEL, STINT_FOREVER);
    if (error != 0)
        return error;
    sti_pools_remove(pool);
    sti_pool_free(pool);
    return 0;
}

int stint_pool_destroy_within(stint_pool *pool, uint64_t timeout_ns, unsigned *left)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    unsigned running = 0;
    int error = pool != NULL ? stint_pool_shutdown(pool, STINT_SHUTDOWN_CANCEL, timeout_ns) : 0;
    if (error == ETIMEDOUT) {
        sti_pools_remove(pool);
        sti_shutdown_end_queued(pool);
        error = sti_shutdown_abandon(pool, &running) ? ETIMEDOUT : 0;
    } else if (error == 0) {
        error = stint_pool_destroy(pool);
    }
    if (left != NULL)
        *left = running;
    return error;
}

/* --- Starting a pool's threads. --- */

/* Signals are the application's: its handlers run on its own threads. But a fault is the thread's that made it:
 * blocked, it would end the process past the application's handler. */
static void choose_blocked_signals(sigset_t *blocked)
{
    static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT };
    sigfillset(blocked);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        sigdelset(blocked, faults[i]);
}

/* Where it may run (mask; NULL: anywhere) is an attribute of the thread from its start: so its stack and its first
 * pages lie near. */
static bool start_on(struct sti_worker *worker, const cpu_set_t *mask, size_t size)
{
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0)
        return false;
    bool started = sti_stack_set(&attributes, worker->pool->options.stack_size) == 0 &&
                   (mask == NULL || pthread_attr_setaffinity_np(&attributes, size, mask) == 0) &&
                   sti_thread_start(&worker->thread, &attributes, sti_worker_main, worker) == 0;
    pthread_attr_destroy(&attributes);
    return started;
}

static bool start_pinned(struct sti_worker *worker, cpu_set_t *only)
{
    const struct sti_processors *processors = &worker->pool->processors;
    sti_processors_choose(processors, worker->index, only);
    return start_on(worker, only, processors->size);
}

static unsigned start_all_pinned(stint_pool *pool)
{
    unsigned started = 0;
    if (!sti_processors_read(&pool->processors))
        return 0;
    cpu_set_t *only = sti_process_malloc(pool->processors.size);
    while (only != NULL && started < pool->worker_count && start_pinned(&pool->workers[started], only))
        started++;
    sti_process_free(only);
    return started;
}

static unsigned start_all_free(stint_pool *pool)
{
    unsigned started = 0;
    while (started < pool->worker_count && start_on(&pool->workers[started], NULL, 0))
        started++;
    return started;
}

/* A thread inherits the mask: so there is no moment at which it has another. */
static void block_signals(sigset_t *before)
{
    sigset_t blocked;
    choose_blocked_signals(&blocked);
    pthread_sigmask(SIG_SETMASK, &blocked, before);
}

/* A substitute stands in for one worker now and for another later: in a pinned pool it may run wherever any of them
 * may, or two would share a processor while another is idle. */
bool sti_start_substitute(struct sti_worker *substitute)
{
    const struct sti_processors *processors = &substitute->pool->processors;
    sigset_t before;
    struct sti_suspended_scope suspended;
    sti_scope_suspend(&suspended);
    block_signals(&before);
    bool started = start_on(substitute, processors->mask, processors->size);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    sti_scope_resume(&suspended);
    return started;
}

unsigned sti_start_workers(stint_pool *pool, bool pinned)
{
    sigset_t before;
    block_signals(&before);
    pthread_sigmask(SIG_SETMASK, NULL, &pool->signals.own); /* the system may leave some out */
    pool->signals.child = *sti_child_mask(&before);
    unsigned started = pinned ? start_all_pinned(pool) : start_all_free(pool);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

/* --- The processors that a pool may use. --- */

#define SMALLEST_MASK sizeof(cpu_set_t)
#define LARGEST_MASK ((size_t)64 << 10) /* half a million processors */

bool sti_processors_read(struct sti_processors *processors)
{
    for (size_t size = SMALLEST_MASK; size <= LARGEST_MASK; size *= 2) {
        cpu_set_t *mask = sti_process_calloc(1, size);
        if (mask != NULL && sched_getaffinity(0, size, mask) == 0) {
            *processors = (struct sti_processors){ mask, size, (unsigned)CPU_COUNT_S(size, mask) };
            return true;
        }
        int error = errno;
        sti_process_free(mask);
        if (mask == NULL || error != EINVAL) /* the kernel's own mask is larger */
            break;
    }
    *processors = (struct sti_processors){ .mask = NULL };
    return false;
}

void sti_processors_free(struct sti_processors *processors)
{
    sti_process_free(processors->mask);
}

void sti_processors_choose(const struct sti_processors *processors, unsigned i, cpu_set_t *only)
{
    size_t processor = 0;
    for (unsigned skip = i % processors->count;; processor++) {
        if (CPU_ISSET_S(processor, processors->size, processors->mask) && skip-- == 0)
            break;
    }
    CPU_ZERO_S(processors->size, only);
    CPU_SET_S(processor, processors->size, only);
}

/* Processors that the group's quota pays for, rounded up; 0: it has none. */
static unsigned quota_of(const struct sti_cgroup *group)
{
    char text[64];
    long long quota = 0;
    long long period = 0;
    /* "max 100000" where there is none. */
    if (!sti_cgroup_read(group, "cpu.max", text, sizeof text) || sscanf(text, "%lld %lld", &quota, &period) != 2 ||
        quota <= 0 || period <= 0)
        return 0;
    long long count = quota / period + (quota % period != 0);
    return count < (1 << 20) ? (unsigned)count : 1 << 20;
}

static unsigned least_quota(const char *root)
{
    struct sti_cgroup group;
    unsigned min = 0;
    if (!sti_cgroup_find(&group, root))
        return 0;
    do {
        unsigned quota = quota_of(&group);
        if (quota != 0 && (min == 0 || quota < min))
            min = quota;
    } while (sti_cgroup_ascend(&group));
    return min;
}

unsigned sti_processors_usable(const char *root)
{
    struct sti_processors allowed;
    unsigned count = 0;
    if (sti_processors_read(&allowed)) {
        count = allowed.count;
        sti_processors_free(&allowed);
    } else {
        long online = sysconf(_SC_NPROCESSORS_ONLN);
        count = online > 0 ? (unsigned)online : 1;
    }
    unsigned quota = least_quota(root);
    return quota != 0 && quota < count ? quota : count;
}
