/* SPDX-License-Identifier: MIT
 *
 * Every sampled block gets exactly one end. Random tasks of all outcomes on several threads, blocks that other threads
 * free while their task still runs or is just being committed, a tracker that keeps a record of each block's life, and
 * a profile that is started and stopped meanwhile. */
#ifndef TESTS_MEMPROF_BALANCE_H
#define TESTS_MEMPROF_BALANCE_H

#include "support.h"

#include <sched.h>
#include <stdatomic.h>

#define BALANCE_THREADS 4
#define BALANCE_SHELF 64 /* blocks on their way to other threads */
#define BALANCE_BLOCKS 24

enum life { UNKNOWN, LIVES, PROMOTED, ENDED };

struct life_record {
    _Atomic int life;
    bool in_task_heap;
};

struct balance {
    atomic_ullong allocs;
    atomic_ullong in_task_heaps;
    atomic_ullong promotes;
    atomic_ullong ends[3];
    _Atomic(const char *) wrong; /* what does not fit a block's life, or was refused */
    atomic_ullong inside;        /* callbacks that run now */
    atomic_bool stopped;         /* no callback may run */
};

struct balance_test {
    struct balance balance;
    _Atomic(void *) shelf[BALANCE_SHELF];
    unsigned tasks; /* a thread */
    stint_token *cancelled;
    atomic_bool done;
};

static inline void expect(struct balance *balance, bool fits, const char *otherwise)
{
    if (!fits)
        atomic_store(&balance->wrong, otherwise);
}

static inline void enter_callback(struct balance *balance)
{
    atomic_fetch_add(&balance->inside, 1);
    expect(balance, !atomic_load(&balance->stopped), "a callback of a stopped profile");
}

static inline void *balance_alloc(const stint_memprof_allocation *allocation, void *arg)
{
    struct balance *balance = arg;
    enter_callback(balance);
    /* libc's or a sanitizer's malloc where it is not replaced: they know that a block reused is another one. */
    struct life_record *record = malloc(sizeof *record);
    if (record != NULL) {
        record->in_task_heap = allocation->in_task_heap;
        atomic_init(&record->life, LIVES);
        atomic_fetch_add(&balance->allocs, 1);
        atomic_fetch_add(&balance->in_task_heaps, allocation->in_task_heap);
        expect(balance, allocation->samples > 0, "a sampled block without a sample");
        expect(balance, allocation->charged >= allocation->size, "a block charged with less than its size");
    }
    atomic_fetch_sub(&balance->inside, 1);
    return record;
}

static inline void *balance_promote(void *metadata, void *arg)
{
    struct balance *balance = arg;
    struct life_record *record = metadata;
    enter_callback(balance);
    int before = atomic_exchange(&record->life, PROMOTED);
    expect(balance, before == LIVES, "a promoted block that was promoted before, or ended");
    expect(balance, record->in_task_heap, "a promoted block that was in no task's heap");
    atomic_fetch_add(&balance->promotes, 1);
    atomic_fetch_sub(&balance->inside, 1);
    return record;
}

static inline void balance_dealloc(void *metadata, stint_memprof_end end, void *arg)
{
    struct balance *balance = arg;
    struct life_record *record = metadata;
    enter_callback(balance);
    int before = atomic_exchange(&record->life, ENDED);
    expect(balance, before == LIVES || before == PROMOTED, "a block with two ends");
    if (end == STINT_MEMPROF_ROLLED_BACK)
        expect(balance, before == LIVES && record->in_task_heap, "a rollback of a block that was no task's");
    atomic_fetch_add(&balance->ends[end], 1);
    free(record);
    atomic_fetch_sub(&balance->inside, 1);
}

static inline int balance_start(struct balance_test *test, size_t interval)
{
    stint_memprof_options options = STINT_MEMPROF_OPTIONS_INIT;
    options.interval = interval;
    options.callstack_depth = 8;
    options.tracker = (stint_memprof_tracker){ balance_alloc, balance_promote, balance_dealloc };
    options.arg = &test->balance;
    atomic_store(&test->balance.stopped, false);
    return stint_memprof_start(&options);
}

static inline int balance_stop(struct balance_test *test)
{
    int error = stint_memprof_stop();
    atomic_store(&test->balance.stopped, true);
    expect(&test->balance, atomic_load(&test->balance.inside) == 0,
           "a callback that runs while the profile has stopped");
    return error;
}

/* One thread lays blocks there; another thread takes and frees them. */
static inline void swap_on_shelf(struct balance_test *test, uint64_t *random, void *block)
{
    stint_free(atomic_exchange(&test->shelf[random_below(random, BALANCE_SHELF)], block));
}

struct random_task {
    struct balance_test *test;
    uint64_t random;
    bool is_safe; /* it ends Ok, so others may have its blocks while it runs */
    bool fails;
};

struct kept_blocks {
    void *blocks[BALANCE_BLOCKS];
};

static inline void take_a_step(struct random_task *task, struct kept_blocks *kept)
{
    void **block = &kept->blocks[random_below(&task->random, BALANCE_BLOCKS)];
    size_t size = random_size(&task->random, 14);
    switch (random_below(&task->random, 8)) {
    case 0:
        stint_free(*block);
        *block = NULL;
        return;
    case 1:
        if (task->is_safe) {
            swap_on_shelf(task->test, &task->random, *block);
            *block = NULL;
            return;
        }
        break;
    case 2:
        stint_free(*block);
        *block = stint_aligned_alloc(64, size);
        return;
    case 3:
        stint_free(*block);
        *block = stint_calloc(1, size);
        return;
    default:
        break;
    }
    void *moved = stint_realloc(*block, size);
    if (moved != NULL)
        *block = moved;
}

static int run_random_task(void *arg, void **value)
{
    struct random_task *task = arg;
    struct kept_blocks *kept = stint_calloc(1, sizeof *kept);
    if (kept == NULL)
        return ENOMEM;
    for (size_t steps = random_below(&task->random, 60); steps > 0; steps--)
        take_a_step(task, kept);
    if (task->fails)
        return EIO;
    if (random_below(&task->random, 8) == 0) {
        stint_outcome outcome;
        struct random_task inner = { task->test, random_next(&task->random), task->is_safe, false };
        if (stint_run(run_random_task, &inner, NULL, &outcome) == 0 && outcome.value != NULL) {
            struct kept_blocks *inner_kept = outcome.value;
            bool leaves = random_below(&task->random, 64) == 0; /* its blocks allocated, for good */
            for (size_t k = 0; k < BALANCE_BLOCKS && !leaves; k++)
                stint_free(inner_kept->blocks[k]);
            stint_free(kept->blocks[0]);
            kept->blocks[0] = inner_kept;
        }
    }
    *value = kept;
    return 0;
}

/* A profile that is stopped and started samples as much as the scheduler lets it. */
static inline bool has_sampled_enough(struct balance_test *test)
{
    struct balance *balance = &test->balance;
    if (balance->wrong != NULL)
        return true;
    return balance->allocs > test->tasks / 2 && balance->promotes > 0 && balance->ends[STINT_MEMPROF_FREED] > 0 &&
           balance->ends[STINT_MEMPROF_ROLLED_BACK] > 0;
}

static inline void *run_random_tasks(void *arg)
{
    struct balance_test *test = arg;
    static atomic_ullong threads;
    uint64_t random = atomic_fetch_add(&threads, 1) * UINT64_C(0x1234567);
    for (unsigned i = 0; i < test->tasks || !has_sampled_enough(test); i++) {
        stint_options options = STINT_OPTIONS_INIT;
        struct random_task *task = malloc(sizeof *task);
        *task = (struct random_task){ .test = test, .random = random_next(&random) };
        size_t kind = random_below(&random, 5);
        task->is_safe = kind < 2;
        task->fails = kind == 2;
        if (kind == 3)
            options.budget.allocation = random_size(&random, 18);
        if (kind == 4) {
            options.token = test->cancelled;
            options.on_interrupt = STINT_FAIL;
        }
        stint_outcome outcome;
        int error = stint_run(run_random_task, task, &options, &outcome);
        free(task);
        expect(&test->balance, error == 0, "a task that was refused");
        if (error != 0)
            continue;
        struct kept_blocks *kept = outcome.value;
        for (size_t k = 0; kept != NULL && k < BALANCE_BLOCKS; k++)
            swap_on_shelf(test, &random, kept->blocks[k]);
        swap_on_shelf(test, &random, kept);
    }
    return NULL;
}

static inline void *start_and_stop(void *arg)
{
    struct balance_test *test = arg;
    uint64_t random = 99;
    while (!atomic_load(&test->done)) {
        expect(&test->balance, balance_start(test, 64 + random_size(&random, 14)) == 0, "a start that was refused");
        for (size_t turns = random_below(&random, 200); turns > 0; turns--)
            sched_yield();
        expect(&test->balance, balance_stop(test) == 0, "a stop that was refused");
    }
    return NULL;
}

static inline void assert_balanced(unsigned tasks, bool restarts, size_t interval)
{
    static struct balance_test test;
    pthread_t threads[BALANCE_THREADS];
    pthread_t restarter;
    memset(&test, 0, sizeof test);
    test.tasks = tasks / BALANCE_THREADS;
    assert_int_equal(stint_token_create(NULL, &test.cancelled), 0);
    stint_token_set(test.cancelled);
    if (restarts)
        assert_int_equal(pthread_create(&restarter, NULL, start_and_stop, &test), 0);
    else
        assert_int_equal(balance_start(&test, interval), 0);
    for (size_t i = 0; i < BALANCE_THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_random_tasks, &test), 0);
    for (size_t i = 0; i < BALANCE_THREADS; i++)
        pthread_join(threads[i], NULL);
    atomic_store(&test.done, true);
    if (restarts)
        pthread_join(restarter, NULL);
    else
        assert_int_equal(balance_stop(&test), 0);
    for (size_t i = 0; i < BALANCE_SHELF; i++)
        stint_free(atomic_exchange(&test.shelf[i], NULL));
    stint_token_release(test.cancelled);

    struct balance *balance = &test.balance;
    if (balance->wrong != NULL)
        fail_msg("%s", balance->wrong);
    unsigned long long freed = balance->ends[STINT_MEMPROF_FREED];
    unsigned long long rolled_back = balance->ends[STINT_MEMPROF_ROLLED_BACK];
    unsigned long long stopped = balance->ends[STINT_MEMPROF_STOPPED];
    assert_int_equal(balance->allocs, freed + rolled_back + stopped);
    assert_in_range(balance->promotes + rolled_back, 2, balance->in_task_heaps);
}

#endif
