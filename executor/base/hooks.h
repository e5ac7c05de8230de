/* SPDX-License-Identifier: MIT
 *
 * The executor's hooks: all that one of its folders has done by a later one, or a file by one that stands above it in
 * its folder. They stand here by the file that does it, whose header says more; executor/start/hooks.c says which
 * function each of them is. Of the lower layer: alloc/platform/hooks.h. */
#ifndef STI_EXECUTOR_BASE_HOOKS_H
#define STI_EXECUTOR_BASE_HOOKS_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

struct sti_group;

struct sti_above {
    /* monitor.h: a task's timer in, and out; and have the watch look after the pool. */
    void (*set_timer)(struct sti_monitor *monitor, struct sti_timer *timer, enum sti_timer_kind kind, uint64_t time);
    void (*forget_timer)(struct sti_monitor *monitor, struct sti_timer *timer);
    int (*begin_monitor)(struct sti_monitor *monitor);

    /* completions.h and compound.h: of a task that is discarded, and of a compound future that is released. */
    void (*expect_no_completion)(sti_task *task);
    void (*release_compound)(sti_task *task);

    /* park.h: there is new work where workers look; and wake all who are parked. */
    void (*notify)(stint_pool *pool);
    void (*notify_all)(stint_pool *pool);

    /* worker.h: put an offered task where the worker's own tasks lie, whose deque is full. */
    bool (*put)(struct sti_worker *worker, sti_task *task);

    /* substitute.h, run.h: sleep until something has come; wait until a task has resolved. */
    int (*sleep)(sti_event *event, bool (*has_come)(const void *arg), const void *arg, uint64_t deadline_ns,
                 bool uninterruptible);
    int (*wait)(sti_task *task);
    int (*wait_until)(sti_task *task, uint64_t deadline_ns);

    /* deadlock.h: a task may be held back, or all of the pool's threads sleep; and something that might have ended a
     * wait is gone. */
    void (*stir)(const stint_pool *pool, sti_task *task);
    void (*look_again)(void);

    /* overdue.h: around a task; and one that has waited for long was found. */
    void (*begin_task)(struct sti_overdue_entry *entry, struct sti_worker *worker, sti_task *task);
    void (*end_task)(struct sti_overdue_entry *entry);
    void (*note_neglect)(struct sti_worker *worker, const sti_task *task);

    /* pool.h, shutdown.h: start a substitute's thread; and a worker's thread has done its last. */
    bool (*start_substitute)(struct sti_worker *substitute);
    void (*leave_pool)(stint_pool *pool);

    /* fork.h: forks of the thread, and those that it steals. */
    void (*begin_forks)(struct sti_worker *worker);
    void (*end_forks)(void);
    void (*leave_forks)(void);
    void (*share_forks)(struct sti_worker *worker);
    struct sti_stolen (*steal_fork)(struct sti_worker *worker, const struct sti_group *group);
    const stint_options *(*fork_options)(struct sti_stolen stolen);
    void (*run_fork)(struct sti_worker *worker, struct sti_stolen stolen);
};

extern const struct sti_above sti_above __attribute__((visibility("hidden")));

#endif
