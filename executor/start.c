/* SPDX-License-Identifier: MIT
 *
 * Starting a pool's threads; see start.h. */
#include "start.h"

#include <pthread.h>
#include <signal.h>
#include <stddef.h>

#include "alloc/aside.h"
#include "alloc/child.h"
#include "alloc/process.h"
#include "pool_state.h"
#include "processors.h"
#include "worker.h"

/* Signals are the application's: its handlers run on its own threads. But a fault is the thread's that made it:
 * blocked, it would end the process past the application's handler. */
static void choose_blocked_signals(sigset_t *blocked)
{
    static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT };
    sigfillset(blocked);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        sigdelset(blocked, faults[i]);
}

static bool start_free(struct sti_worker *worker)
{
    return pthread_create(&worker->thread, NULL, sti_worker_main, worker) == 0;
}

/* Where it may run is an attribute of the thread from its start: so its stack and its first pages lie near. */
static bool start_on(struct sti_worker *worker, const cpu_set_t *mask, size_t size)
{
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0)
        return false;
    bool started = pthread_attr_setaffinity_np(&attributes, size, mask) == 0 &&
                   pthread_create(&worker->thread, &attributes, sti_worker_main, worker) == 0;
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
    while (started < pool->worker_count && start_free(&pool->workers[started]))
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

/* It stands in for one worker now and for another later: in a pinned pool it may run wherever any of them may, or two
 * would share a processor while another is idle. */
bool sti_start_spare(struct sti_worker *spare)
{
    const struct sti_processors *processors = &spare->pool->processors;
    sigset_t before;
    struct sti_aside aside;
    sti_aside_begin(&aside);
    block_signals(&before);
    bool started = processors->mask != NULL ? start_on(spare, processors->mask, processors->size) : start_free(spare);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    sti_aside_end(&aside);
    return started;
}

unsigned sti_start_workers(stint_pool *pool, bool pinned)
{
    sigset_t before;
    block_signals(&before);
    choose_blocked_signals(&pool->signals.own);
    pool->signals.child = *sti_child_mask(&before);
    unsigned started = pinned ? start_all_pinned(pool) : start_all_free(pool);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}
