/* SPDX-License-Identifier: MIT
 *
 * The wall in the program: its processes, its children, and the pool whose workers drive them. Any thread. */
#ifndef STI_EXECUTOR_WALL_WALL_H
#define STI_EXECUTOR_WALL_WALL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stint/wall.h>

#include "child.h"
#include "config.h"
#include "executor/base/state.h"

/* What one driver has: a thread of the wall's own pool, which drives one child at a time. */
struct sti_wall_driver {
    struct sti_wall_child *child; /* that runs its task, or waits for its next one; NULL: none */
    struct sti_wall_child *used;  /* that has answered, and gets no other task: to be let go of; NULL: none */
    int wake_fd;                  /* an eventfd that ends its sleep */
};

struct sti_wall_modules;

struct stint_wall {
    struct sti_wall_config config;
    unsigned children;
    unsigned tasks_per_child;
    unsigned spare_wanted;
    size_t queue_capacity;
    unsigned flags;
    bool is_program;
    bool is_parents; /* of the process that this one was forked from */
    int control;
    int lifeline;
    int guardian; /* a pidfd */
    long template_pid;
    struct sti_wall_modules *modules; /* that were loaded when it was made */
    struct sti_crash_modules *known;  /* that its first template had; NULL: not known */

    atomic_bool ending;
    pthread_mutex_t lock;       /* for the next two */
    _Atomic(stint_pool *) pool; /* whose workers are the drivers; NULL until the first task. Release, acquire */
    struct sti_wall_driver *drivers;
    struct sti_wall_child *spares; /* this and the next one: under the lock of the list of all walls */
    unsigned spare_count;
    _Atomic(stint_pool *) left; /* pools that have been destroyed while tasks of theirs ran here; to be freed */
    stint_wall *next;           /* in the list of all */

    _Atomic uint64_t tasks; /* these and what follows: statistics */
    _Atomic uint64_t started;
    _Atomic uint64_t killed;
    _Atomic uint64_t crashed;
    _Atomic uint64_t retried;
    atomic_uint running;
};

/* The wall's own pool, made if there is none yet: with as many drivers as the wall has children, or as many as the
 * first task's pool has workers. 0 or an errno value. */
int sti_wall_open_pool(stint_wall *wall, const stint_pool *first, stint_pool **pool);

/* Whether the function lies in a module that was loaded when the wall was made, and still is. */
bool sti_wall_knows_function(const stint_wall *wall, stint_wall_fn *fn);

static inline bool sti_wall_is_ending(const stint_wall *wall)
{
    return atomic_load_explicit(&wall->ending, memory_order_acquire);
}

static inline void sti_wall_count(_Atomic uint64_t *number)
{
    atomic_fetch_add_explicit(number, 1, memory_order_relaxed);
}

/* --- By a driver. --- */

/* A child for the driver's next task: the one that it has, a spare one, or one that is asked for. NULL with errno. */
struct sti_wall_child *sti_wall_take_child(stint_wall *wall, struct sti_wall_driver *driver);

/* Have as many spare ones as are wanted. */
void sti_wall_refill(stint_wall *wall);

/* The driver's child is not to be used again. */
void sti_wall_drop_child(struct sti_wall_driver *driver);

/* Let go of the one that it has used up, if there is one. */
void sti_wall_end_used(struct sti_wall_driver *driver);

/* A task of this pool has ended that its destruction did not wait for, as the last one: the pool is to be freed by a
 * driver. Then by a driver, between two tasks: free those. */
void sti_wall_leave_pool(stint_wall *wall, stint_pool *pool);
void sti_wall_free_left(stint_wall *wall);

/* Around a fork(2): before it, in the parent, and in the child. */
void sti_walls_before_fork(void);
void sti_walls_after_fork(void);
void sti_walls_in_child(void);

#endif
