/* SPDX-License-Identifier: MIT
 *
 * The state of random_pools.c for one program: pools, accounts, serial queues, a group, locks, and futures that any
 * task may wait for. */
#ifndef TESTS_RANDOM_PROGRAM_H
#define TESTS_RANDOM_PROGRAM_H

#include "random_parts.h"

#define POOLS 3
#define ACCOUNTS 6
#define MUTEXES 3
#define SHOWN 64 /* futures that any task may wait for */
#define DRIVERS 12
#define PATIENCE (60000 * MS)
#define DEADLINE (300 * MS) /* of every task, where tasks lock */
#define DEEPEST 4

static struct program {
    bool locks; /* tasks lock, which a deadline must end; or there is neither */
    stint_pool *pools[POOLS];
    stint_serial *serials[POOLS];
    stint_group *group;
    stint_account *accounts[ACCOUNTS];
    stint_mutex mutexes[MUTEXES];
    pthread_mutex_t lock;
    stint_future *shown[SHOWN]; /* under the lock */
    atomic_bool over;
    atomic_ulong steps; /* the tasks' and forks' */
    atomic_ulong tasks;
    atomic_ulong told[2]; /* EDEADLK, EAGAIN */
} program;

/* --- Waits that go on --------------------------------------------------------------------------------------------- */

#define WAITS 4096

struct wait {
    const char *_Atomic name; /* NULL: this is free */
    void *_Atomic future;
    uint64_t begun_ns;
};

/* Those of tasks that come when all are taken are not told. */
static struct wait waits[WAITS];

static struct wait *note_wait(const char *name, stint_future *future)
{
    static atomic_uint next;
    for (unsigned tries = 0; tries < 8; tries++) {
        struct wait *wait = &waits[atomic_fetch_add_explicit(&next, 1, memory_order_relaxed) % WAITS];
        const char *none = NULL;
        if (atomic_compare_exchange_strong(&wait->name, &none, name)) {
            wait->begun_ns = now_ns();
            atomic_store(&wait->future, (void *)future);
            return wait;
        }
    }
    return NULL;
}

static void forget_wait(void *wait)
{
    if (wait != NULL)
        atomic_store(&((struct wait *)wait)->name, NULL);
}

static void tell_waits(void)
{
    for (unsigned i = 0; i < WAITS; i++) {
        const char *name = atomic_load(&waits[i].name);
        if (name != NULL)
            print_error("%s of %p: for %llu ms\n", name, atomic_load(&waits[i].future),
                        (unsigned long long)((now_ns() - waits[i].begun_ns) / MS));
    }
}

/* --- Futures that anybody may wait for ---------------------------------------------------------------------------- */

/* A future of its own that resolves with one of them. */
static stint_future *pick(uint64_t *random)
{
    stint_future *all = NULL;
    stint_mask();
    pthread_mutex_lock(&program.lock);
    stint_future *shown = program.shown[random_below(random, SHOWN)];
    if (shown != NULL && stint_when_all(&shown, 1, &all) != 0)
        all = NULL;
    pthread_mutex_unlock(&program.lock);
    stint_unmask();
    return all;
}

/* Show it in the place of another, which is returned. */
static stint_future *show(uint64_t *random, stint_future *future)
{
    size_t place = random_below(random, SHOWN);
    pthread_mutex_lock(&program.lock);
    stint_future *before = program.shown[place];
    program.shown[place] = future;
    pthread_mutex_unlock(&program.lock);
    return before;
}

static void make_program(uint64_t *random, bool locks)
{
    static const unsigned substitutes[] = { 0, 0, 2, STINT_NO_SUBSTITUTES };
    memset(&program, 0, sizeof program);
    program.locks = locks;
    pthread_mutex_init(&program.lock, NULL);
    for (int i = 0; i < POOLS; i++) {
        const stint_pool_options options = {
            .size = sizeof(stint_pool_options),
            .workers = draw_workers(random, 4),
            .substitutes = substitutes[random_below(random, 4)],
            .queue_capacity = (size_t)1 << (4 + random_below(random, 6)),
        };
        assert_int_equal(stint_pool_create(&options, &program.pools[i]), 0);
        assert_int_equal(stint_serial_create(program.pools[i], 8, &program.serials[i]), 0);
    }
    assert_int_equal(stint_group_create(&program.group), 0);
    /* Below the second one lie others, three deep. */
    for (unsigned i = 0; i < ACCOUNTS; i++) {
        const stint_account_limits limits = { .size = sizeof(stint_account_limits),
                                              .running = i % 2 == 0 ? 0 : 1 + (unsigned)random_below(random, 2),
                                              .waiting = i > 2 ? 4 + (unsigned)random_below(random, 12) : 0 };
        stint_account *above = i == 3 || i == 4 ? program.accounts[1] : i == 5 ? program.accounts[4] : NULL;
        assert_int_equal(stint_account_create(above, &limits, &program.accounts[i]), 0);
    }
    for (int i = 0; i < MUTEXES; i++)
        assert_int_equal(stint_mutex_init(&program.mutexes[i]), 0);
}

static void end_program(void)
{
    for (int i = 0; i < SHOWN; i++) {
        if (program.shown[i] == NULL)
            continue;
        assert_int_equal(stint_future_wait_for(program.shown[i], PATIENCE, NULL), 0);
        stint_future_release(program.shown[i]);
    }
    for (int i = 0; i < POOLS; i++)
        assert_int_equal(stint_pool_shutdown(program.pools[i], STINT_SHUTDOWN_DRAIN_THEN_CANCEL, PATIENCE), 0);
    for (int i = 0; i < POOLS; i++) {
        assert_int_equal(stint_pool_destroy(program.pools[i]), 0);
        stint_serial_release(program.serials[i]);
    }
    assert_int_equal(stint_group_wait_for(program.group, 0, NULL), 0);
    stint_group_release(program.group);
    for (int i = 0; i < ACCOUNTS; i++) {
        stint_account_usage usage = STINT_ACCOUNT_USAGE_INIT;
        assert_int_equal(stint_account_read(program.accounts[i], &usage), 0);
        assert_int_equal(usage.running, 0);
    }
    for (int i = ACCOUNTS; i-- > 0;)
        stint_account_release(program.accounts[i]);
    for (int i = 0; i < MUTEXES; i++)
        assert_int_equal(stint_mutex_destroy(&program.mutexes[i]), 0);
}

#endif
