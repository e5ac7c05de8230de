/* SPDX-License-Identifier: MIT
 *
 * The public functions of pools: start, submit, shut down. Any thread; which calls may meet is said in stint/pool.h. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stint/pool.h>
#include <string.h>
#include <unistd.h>

#include "alloc/process.h"
#include "alloc/scope.h"
#include "pool_state.h"
#include "tsan.h"
#include "worker.h"

/* --- Starting ----------------------------------------------------------------------------------------------------- */

static unsigned default_workers(void)
{
    cpu_set_t allowed;
    long count = 0;
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0)
        count = CPU_COUNT(&allowed);
    else
        count = sysconf(_SC_NPROCESSORS_ONLN); /* more processors than a cpu_set_t has bits */
    return count < 1 ? 1 : count > STI_WORKERS_MAX ? STI_WORKERS_MAX : (unsigned)count;
}

static void free_pool(stint_pool *pool)
{
    pthread_mutex_destroy(&pool->joining);
    sti_queue_end(&pool->queue);
    STI_BLOCK_GIVEN_BACK(pool->workers);
    sti_process_free(pool->workers);
    STI_BLOCK_GIVEN_BACK(pool);
    sti_process_free(pool);
}

static stint_pool *make_pool(unsigned workers, size_t queue_capacity, const char *name)
{
    stint_pool *pool = sti_process_aligned(_Alignof(stint_pool), sizeof *pool);
    if (pool == NULL)
        return NULL;
    STI_BLOCK_MADE(pool);
    memset(pool, 0, sizeof *pool);
    pool->workers = sti_process_aligned(_Alignof(struct sti_worker), workers * sizeof *pool->workers);
    if (pool->workers == NULL) {
        sti_process_free(pool);
        return NULL;
    }
    STI_BLOCK_MADE(pool->workers);
    if (!sti_queue_init(&pool->queue, queue_capacity)) {
        sti_process_free(pool->workers);
        sti_process_free(pool);
        return NULL;
    }
    pool->worker_count = workers;
    for (unsigned i = 0; i < workers; i++)
        sti_worker_init(&pool->workers[i], pool, i);
    sti_token_init(&pool->stop, NULL);
    strncpy(pool->name, name, sizeof pool->name - 1);
    atomic_init(&pool->alive, workers);
    sti_event_init(&pool->ended);
    pthread_mutex_init(&pool->joining, NULL);
    return pool;
}

/* Signals are the application's: its handlers run on its own threads. But a fault is the thread's that made it:
 * blocked, it would end the process past the application's handler. */
static void choose_blocked_signals(sigset_t *blocked)
{
    static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT };
    sigfillset(blocked);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        sigdelset(blocked, faults[i]);
}

static unsigned start_workers(stint_pool *pool)
{
    sigset_t blocked, before;
    choose_blocked_signals(&blocked);
    /* A thread inherits the mask: so there is no moment at which it has another. */
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    unsigned started = 0;
    while (started < pool->worker_count &&
           pthread_create(&pool->workers[started].thread, NULL, sti_worker_main, &pool->workers[started]) == 0)
        started++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

static void close_pool(stint_pool *pool, enum sti_pool_phase phase)
{
    int before = STI_POOL_OPEN;
    /* seq_cst: park.h says what it is ordered with. */
    while (before < (int)phase && !atomic_compare_exchange_weak_explicit(&pool->phase, &before, (int)phase,
                                                                         memory_order_seq_cst, memory_order_relaxed))
        ;
    sti_park_notify_all(pool);
}

static void join_workers(stint_pool *pool, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        pthread_join(pool->workers[i].thread, NULL);
}

int stint_pool_create(stint_pool **pool, const stint_pool_options *options)
{
    static const stint_pool_options defaults = STINT_POOL_OPTIONS_INIT;
    if (options == NULL)
        options = &defaults;
    if (pool == NULL || options->workers > STI_WORKERS_MAX || options->queue_capacity > STI_QUEUE_CAPACITY_MAX)
        return EINVAL;
    stint_pool *created = make_pool(options->workers != 0 ? options->workers : default_workers(),
                                    options->queue_capacity != 0 ? options->queue_capacity : STI_QUEUE_CAPACITY_DEFAULT,
                                    options->name != NULL ? options->name : "stint");
    if (created == NULL)
        return ENOMEM;
    unsigned started = start_workers(created);
    if (started < created->worker_count) {
        close_pool(created, STI_POOL_CANCELLING);
        join_workers(created, started);
        free_pool(created);
        return EAGAIN;
    }
    *pool = created;
    return 0;
}

unsigned stint_pool_workers(const stint_pool *pool)
{
    return pool != NULL ? pool->worker_count : 0;
}

/* --- Submitting --------------------------------------------------------------------------------------------------- */

int stint_submit(stint_pool *pool, stint_fn *fn, void *arg, const stint_options *options, stint_future **future)
{
    if (pool == NULL || fn == NULL || future == NULL || !sti_options_valid(options))
        return EINVAL;
    if (!sti_pool_is_open(pool))
        return ESHUTDOWN;
    sti_task *task = sti_task_create(pool, fn, arg, options);
    if (task == NULL)
        return ENOMEM;
    /* Before anybody can run the task: it may look at its own future. */
    *future = task;
    sti_task_offer(task);
    struct sti_worker *worker = sti_worker_of(pool);
    bool queued = worker != NULL ? sti_worker_put(worker, task) : sti_queue_push(&pool->queue, task);
    if (!queued) {
        *future = NULL;
        sti_task_discard(task);
        return EAGAIN;
    }
    sti_park_notify(pool);
    /* Closed meanwhile: the workers may have left before they could see the task (park.h). If nobody has claimed it, it
     * has never been submitted; its entry stays behind for whoever empties the queue. A worker needs no such look: it
     * does not leave before its own task has ended. */
    if (worker == NULL && !sti_pool_is_open(pool) && sti_task_claim(task)) {
        *future = NULL;
        sti_task_end_unstarted(task, STINT_REASON_SHUTDOWN);
        sti_task_release(task);
        return ESHUTDOWN;
    }
    return 0;
}

/* --- Shutting down ------------------------------------------------------------------------------------------------ */

static void end_entry(sti_task *task)
{
    if (sti_task_claim(task))
        sti_task_end_unstarted(task, STINT_REASON_SHUTDOWN);
    sti_task_release(task);
}

/* At once, and not when a worker comes to it: workers may be busy for long. */
static void end_queued(stint_pool *pool)
{
    sti_task *task;
    while (!sti_queue_is_empty(&pool->queue)) {
        if ((task = sti_queue_pop(&pool->queue)) != NULL)
            end_entry(task);
        else
            sched_yield(); /* the oldest one's push has not ended */
    }
    for (unsigned i = 0; i < pool->worker_count; i++) {
        while ((task = sti_deque_steal(&pool->workers[i].deque)) != NULL)
            end_entry(task);
    }
}

static bool wait_for_workers(stint_pool *pool, uint64_t deadline_ns)
{
    for (;;) {
        uint32_t value = sti_event_value(&pool->ended);
        if (atomic_load_explicit(&pool->alive, memory_order_acquire) == 0)
            return true;
        if (!sti_event_wait(&pool->ended, value, deadline_ns))
            return atomic_load_explicit(&pool->alive, memory_order_acquire) == 0;
    }
}

static void join_once(stint_pool *pool)
{
    pthread_mutex_lock(&pool->joining);
    if (!pool->joined)
        join_workers(pool, pool->worker_count);
    pool->joined = true;
    pthread_mutex_unlock(&pool->joining);
}

int stint_pool_shutdown(stint_pool *pool, stint_shutdown how, uint64_t timeout_ns)
{
    if (pool == NULL || (how != STINT_SHUTDOWN_DRAIN && how != STINT_SHUTDOWN_CANCEL))
        return EINVAL;
    if (sti_worker_of(pool) != NULL)
        return EDEADLK;
    uint64_t deadline = sti_deadline_after(timeout_ns);
    if (how == STINT_SHUTDOWN_CANCEL) {
        close_pool(pool, STI_POOL_CANCELLING);
        stint_token_set(&pool->stop);
        end_queued(pool);
    } else {
        close_pool(pool, STI_POOL_DRAINING);
    }
    if (!wait_for_workers(pool, deadline))
        return ETIMEDOUT;
    join_once(pool);
    return 0;
}

int stint_pool_destroy(stint_pool *pool)
{
    if (pool == NULL)
        return 0;
    int error = stint_pool_shutdown(pool, STINT_SHUTDOWN_CANCEL, STINT_FOREVER);
    if (error != 0)
        return error;
    end_queued(pool); /* what submitters took back when the pool had closed */
    free_pool(pool);
    return 0;
}
