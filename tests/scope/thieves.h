/* SPDX-License-Identifier: MIT
 *
 * The smallest executor of forks, for tests of branches: threads that take forks from a board. A fork lies in a slot
 * of the board; the thread that empties the slot has it, the owner or a thief. Forks are joined newest first. */
#ifndef STINT_TESTS_THIEVES_H
#define STINT_TESTS_THIEVES_H

#include "support.h"

#include <sched.h>
#include <stdatomic.h>

#include "alloc/interrupt/boundary.h"
#include "alloc/interrupt/forks.h"
#include "alloc/scope/subtask.h"

#define BOARD_SLOTS 64
#define FORKS_MAX 256
#define THIEVES_MAX 8

struct fork {
    stint_fn *fn;
    void *arg;
    struct sti_group *family;
    _Atomic(struct fork *) *slot; /* NULL: never shared */
    atomic_bool done;
    bool dropped;
    bool interrupted;
    int code;
    void *value;
};

static _Atomic(struct fork *) board[BOARD_SLOTS];
static atomic_uint forks_stolen;

struct fork_stack {
    struct sti_forks forks;
    size_t count;
    struct fork *entries[FORKS_MAX];
    atomic_uint wakes;
};

static _Thread_local struct fork_stack *own_forks;

/* It has been taken out of its slot. */
static inline void run_stolen(struct fork *fork)
{
    atomic_fetch_add(&forks_stolen, 1);
    fork->code = sti_subtask_run(fork->family, fork->fn, fork->arg, &fork->value, &fork->interrupted);
    atomic_store_explicit(&fork->done, true, memory_order_release);
}

/* Any, or one of this family. */
static inline struct fork *take_from_board(const struct sti_group *family)
{
    for (unsigned i = 0; i < BOARD_SLOTS; i++) {
        struct fork *fork = atomic_load_explicit(&board[i], memory_order_acquire);
        if (fork == NULL)
            continue;
        if (family != NULL) {
            /* It may be gone by now, so its family cannot be looked at before it is taken. */
            if (!atomic_compare_exchange_strong(&board[i], &fork, NULL))
                continue;
            if (fork->family == family)
                return fork;
            atomic_store_explicit(&board[i], fork, memory_order_release);
            continue;
        }
        if (atomic_compare_exchange_strong(&board[i], &fork, NULL))
            return fork;
    }
    return NULL;
}

static inline bool take_back(struct fork *fork)
{
    struct fork *expected = fork;
    return fork->slot != NULL && atomic_compare_exchange_strong(fork->slot, &expected, NULL);
}

static inline void offer(struct fork *fork)
{
    for (unsigned i = 0; i < BOARD_SLOTS; i++) {
        struct fork *empty = NULL;
        fork->slot = &board[i];
        if (atomic_load_explicit(&board[i], memory_order_relaxed) == NULL &&
            atomic_compare_exchange_strong(&board[i], &empty, fork))
            return;
    }
    fork->slot = NULL;
}

static inline void fork_start(struct fork *fork, stint_fn *fn, void *arg)
{
    *fork = (struct fork){ .fn = fn, .arg = arg };
    own_forks->entries[own_forks->count] = fork;
    own_forks->count++;
    if (sti_group_open(&fork->family) == 0)
        offer(fork);
}

static inline void await_stolen(struct fork *fork, bool helps)
{
    while (!atomic_load_explicit(&fork->done, memory_order_acquire)) {
        struct fork *other = helps ? take_from_board(fork->family) : NULL;
        if (other != NULL)
            run_stolen(other);
        else
            sched_yield();
        sti_subtask_answer();
    }
}

static inline int fork_join(struct fork *fork, void **value)
{
    bool shared = fork->slot != NULL;
    if (fork->dropped)
        return ECANCELED;
    if (shared && !take_back(fork)) {
        await_stolen(fork, true);
        own_forks->count--;
        stint_checkpoint();
    } else {
        own_forks->count--;
        fork->code = fork->fn(fork->arg, &fork->value);
    }
    if (value != NULL)
        *value = fork->value;
    return fork->code;
}

static inline void settle_forks(struct sti_forks *forks, size_t kept)
{
    struct fork_stack *stack = (struct fork_stack *)forks;
    while (stack->count > kept) {
        struct fork *fork = stack->entries[stack->count - 1];
        if (fork->slot != NULL && !take_back(fork))
            await_stolen(fork, false);
        else
            fork->dropped = true;
        stack->count--;
    }
}

static inline void wake_for_collection(struct sti_forks *forks)
{
    atomic_fetch_add(&((struct fork_stack *)forks)->wakes, 1);
}

static inline void begin_to_fork(struct fork_stack *stack)
{
    *stack = (struct fork_stack){
        .forks = { .outstanding = &stack->count, .settle = settle_forks, .wake = wake_for_collection },
    };
    own_forks = stack;
    assert_int_equal(sti_forks_register(&stack->forks), 0);
}

static inline void end_to_fork(void)
{
    assert_int_equal(sti_forks_register(NULL), 0);
    own_forks = NULL;
}

struct thief {
    pthread_t thread;
    atomic_bool must_end;
    atomic_bool is_settled; /* it keeps nothing of any task */
    struct fork_stack stack;
};

static struct thief thieves[THIEVES_MAX];
static unsigned thief_count;
static struct fork_stack main_stack;

static inline void *be_a_thief(void *arg)
{
    struct thief *thief = arg;
    begin_to_fork(&thief->stack);
    while (!atomic_load(&thief->must_end) || sti_subtask_undecided()) {
        atomic_store(&thief->is_settled, !sti_subtask_undecided());
        struct fork *fork = take_from_board(NULL);
        if (fork != NULL) {
            run_stolen(fork);
        } else {
            sti_subtask_collect();
            sched_yield();
        }
    }
    end_to_fork();
    return NULL;
}

/* The calling thread may fork too. */
static inline void start_thieves(unsigned count)
{
    begin_to_fork(&main_stack);
    thief_count = count;
    for (unsigned i = 0; i < count; i++) {
        atomic_store(&thieves[i].must_end, false);
        atomic_store(&thieves[i].is_settled, false);
        assert_int_equal(pthread_create(&thieves[i].thread, NULL, be_a_thief, &thieves[i]), 0);
    }
}

static inline void end_thieves(void)
{
    for (unsigned i = 0; i < thief_count; i++)
        atomic_store(&thieves[i].must_end, true);
    for (unsigned i = 0; i < thief_count; i++)
        assert_int_equal(pthread_join(thieves[i].thread, NULL), 0);
    thief_count = 0;
    sti_subtask_collect();
    end_to_fork();
}

/* Until no thread keeps anything of a task that has ended. */
static inline void await_collection(void)
{
    sti_subtask_collect();
    for (unsigned i = 0; i < thief_count; i++) {
        atomic_store(&thieves[i].is_settled, false);
        while (!atomic_load(&thieves[i].is_settled))
            sched_yield();
    }
}

/* Until a thief has the fork, so that a test knows that it runs elsewhere. */
static inline bool await_theft(struct fork *fork)
{
    while (fork->slot != NULL && atomic_load(fork->slot) == fork)
        sched_yield();
    sti_subtask_answer();
    return fork->slot != NULL;
}

static inline int two_thieves(void **state)
{
    (void)state;
    start_thieves(2);
    return 0;
}

static inline int no_thieves(void **state)
{
    (void)state;
    end_thieves();
    return 0;
}

#define TEST_WITH_THIEVES(name) TEST_WITH(name, two_thieves, no_thieves)

#endif
