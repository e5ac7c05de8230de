/* SPDX-License-Identifier: MIT
 *
 * Random tasks are charged and stopped as the model of the rules says, to the byte, alone and among others. */
#include "charging.h"

#include <stdatomic.h>

TEST(random_tasks_end_as_the_model_says_to_the_byte)
{
    check_charged_tasks(1, repeats(25000));
}

#define SEEDS 40

static atomic_bool others_run;

static int allocate_some(void *random, void **value)
{
    for (int i = 0; i < 100; i++)
        stint_free(keep(stint_malloc(random_size(random, 18))));
    *value = stint_malloc(100);
    return 0;
}

/* A thread that allocates all the time, inside tasks and outside. */
static void *make_noise(void *unused)
{
    (void)unused;
    uint64_t random = 1;
    while (atomic_load(&others_run)) {
        stint_outcome outcome;
        stint_run(allocate_some, &random, NULL, &outcome);
        stint_free(outcome.value);
        stint_free(keep(stint_malloc(random_size(&random, 20))));
    }
    return NULL;
}

/* Not on a stack, since it goes to workers; not in a variable of the program, which is a root. */
static struct charged_task *plain_task(uint64_t seed)
{
    struct charged_task *task = calloc(1, sizeof *task);
    assert_non_null(task);
    task->family = family_at(0);
    task->random = seed;
    task->plain = true;
    make_accounts(task);
    return task;
}

static void assert_same(const stint_outcome *outcome, const stint_outcome *alone)
{
    assert_int_equal(outcome->reason, alone->reason);
    assert_int_equal(outcome->status, alone->status);
    assert_int_equal(outcome->error, alone->error);
    assert_int_equal(outcome->usage.allocated, alone->usage.allocated);
}

static stint_outcome run_alone(uint64_t seed)
{
    struct charged_task *task = plain_task(seed);
    stint_options options = open_scope(task);
    stint_outcome outcome = run_task(charged_function, task, &options);
    assert_null(task->wrong);
    close_task(task);
    free(task);
    return outcome;
}

TEST(the_same_task_ends_the_same_on_every_worker_whatever_else_runs)
{
    stint_outcome alone[SEEDS];
    for (uint64_t seed = 0; seed < SEEDS; seed++)
        alone[seed] = run_alone(seed);

    pthread_t noise;
    stint_pool *pool;
    stint_pool_options pool_options = { .size = sizeof(stint_pool_options), .workers = 3 };
    const size_t count = SEEDS * repeats(25);
    stint_future **futures = calloc(count, sizeof *futures);
    struct charged_task **tasks = calloc(count, sizeof *tasks);
    assert_true(futures != NULL && tasks != NULL);
    atomic_store(&others_run, true);
    assert_int_equal(pthread_create(&noise, NULL, make_noise, NULL), 0);
    assert_int_equal(stint_pool_create(&pool_options, &pool), 0);
    for (uint64_t i = 0; i < count; i++) {
        tasks[i] = plain_task(i % SEEDS);
        stint_options options = open_scope(tasks[i]);
        assert_int_equal(stint_submit(pool, charged_function, tasks[i], &options, &futures[i]), 0);
    }
    for (uint64_t i = 0; i < count; i++) {
        stint_outcome outcome;
        assert_int_equal(stint_future_wait(futures[i], &outcome), 0);
        assert_null(tasks[i]->wrong);
        assert_same(&outcome, &alone[i % SEEDS]);
        stint_future_release(futures[i]);
        close_task(tasks[i]);
        free(tasks[i]);
    }
    free(tasks);
    free(futures);
    assert_int_equal(stint_pool_destroy(pool), 0);
    atomic_store(&others_run, false);
    assert_int_equal(pthread_join(noise, NULL), 0);
}

TEST_MAIN()
