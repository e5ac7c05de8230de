/* SPDX-License-Identifier: MIT
 *
 * Serial queues: one task at a time, in order. */
#include "pools.h"

static stint_serial *make_serial(stint_pool *pool, size_t most)
{
    stint_serial *serial;
    assert_int_equal(stint_serial_create(pool, most, &serial), 0);
    return serial;
}

#define KEYS 3
#define SUBMITTERS 2
#define EACH 2000

/* The tasks of a key touch these without a lock. */
struct key {
    stint_serial *serial;
    unsigned sum;
    unsigned last[SUBMITTERS];
    unsigned wrong;
};

struct job {
    struct key *key;
    unsigned submitter, number;
};

static int work(void *arg, void **value)
{
    const struct job *job = arg;
    struct key *key = job->key;
    (void)value;
    key->sum++;
    if (key->last[job->submitter] + 1 != job->number)
        key->wrong++;
    key->last[job->submitter] = job->number;
    return 0;
}

struct submitter {
    struct key *keys;
    struct job *jobs;
    unsigned index;
    int error;
};

static void *submit_all(void *arg)
{
    struct submitter *submitter = arg;
    for (unsigned i = 0; i < EACH * KEYS; i++) {
        struct job *job = &submitter->jobs[i];
        stint_options options = STINT_OPTIONS_INIT;
        options.priority = i % 5 == 0 ? STINT_PRIORITY_HIGH : STINT_PRIORITY_NORMAL;
        *job = (struct job){ &submitter->keys[i % KEYS], submitter->index, i / KEYS + 1 };
        stint_future *future;
        submitter->error |= stint_serial_submit(job->key->serial, work, job, &options, &future);
        stint_future_release(future);
    }
    return NULL;
}

TEST(tasks_of_a_queue_run_one_at_a_time_in_order)
{
    stint_pool *pool = make_pool(.workers = 3);
    struct key keys[KEYS] = { 0 };
    struct submitter submitters[SUBMITTERS];
    pthread_t threads[SUBMITTERS];
    for (int i = 0; i < KEYS; i++)
        keys[i].serial = make_serial(pool, 0);
    for (unsigned i = 0; i < SUBMITTERS; i++) {
        submitters[i] = (struct submitter){ keys, malloc(EACH * KEYS * sizeof(struct job)), i, 0 };
        assert_non_null(submitters[i].jobs);
        assert_int_equal(pthread_create(&threads[i], NULL, submit_all, &submitters[i]), 0);
    }
    for (int i = 0; i < SUBMITTERS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(submitters[i].error, 0);
    }
    stint_future *last[KEYS];
    struct job ends[KEYS];
    for (int i = 0; i < KEYS; i++) {
        ends[i] = (struct job){ &keys[i], 0, EACH + 1 };
        assert_int_equal(stint_serial_submit(keys[i].serial, work, &ends[i], NULL, &last[i]), 0);
        stint_serial_release(keys[i].serial); /* what is in it goes on */
    }
    for (int i = 0; i < KEYS; i++) {
        assert_int_equal(stint_future_wait(last[i], NULL), 0);
        stint_future_release(last[i]);
        assert_int_equal(keys[i].sum, EACH * SUBMITTERS + 1);
        assert_int_equal(keys[i].wrong, 0);
    }
    assert_int_equal(stint_pool_destroy(pool), 0);
    for (int i = 0; i < SUBMITTERS; i++)
        free(submitters[i].jobs);
}

static int add_up(void *arg, void **value)
{
    unsigned *sum = arg;
    (void)value;
    *sum = *sum * 10 + 1;
    return 0;
}

static int add_two(void *arg, void **value)
{
    unsigned *sum = arg;
    (void)value;
    *sum = *sum * 10 + 2;
    return 3;
}

TEST(one_that_is_cancelled_or_fails_lets_the_next_go_on)
{
    stint_pool *pool = make_pool(.workers = 2);
    stint_serial *serial = make_serial(pool, 4);
    struct gate gate = { 0 };
    unsigned sum = 0;
    stint_future *futures[5];
    stint_future *refused;
    stint_outcome outcome;
    assert_int_equal(stint_serial_submit(serial, gate_hold_interruptibly, &gate, NULL, &futures[0]), 0);
    gate_await(&gate, 1);
    for (int i = 1; i < 5; i++)
        assert_int_equal(stint_serial_submit(serial, i == 3 ? add_two : add_up, &sum, NULL, &futures[i]), 0);
    assert_int_equal(stint_serial_submit(serial, add_up, &sum, NULL, &refused), EAGAIN);
    stint_future_cancel(futures[2]);
    assert_int_equal(stint_future_wait_for(futures[2], 0, &outcome), 0);
    assert_cancelled(outcome, STINT_REASON_TOKEN);
    assert_int_equal(stint_serial_submit(serial, add_up, &sum, NULL, &refused), 0); /* its place is free */
    stint_future_cancel(futures[0]);
    assert_int_equal(stint_future_wait(refused, NULL), 0);
    assert_int_equal(sum, 1211);
    stint_future_release(refused);
    for (int i = 0; i < 5; i++)
        stint_future_release(futures[i]);
    stint_serial_release(serial);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

struct again {
    stint_serial *serial;
    unsigned left;
    atomic_bool over;
};

static int submit_itself(void *arg, void **value)
{
    struct again *again = arg;
    stint_future *future;
    (void)value;
    if (again->left-- == 0) {
        atomic_store(&again->over, true);
        return 0;
    }
    int error = stint_serial_submit(again->serial, submit_itself, again, NULL, &future);
    stint_future_release(error == 0 ? future : NULL);
    return error;
}

TEST(a_task_may_submit_to_its_own_queue)
{
    stint_pool *pool = make_pool(.workers = 2);
    struct again again = { .serial = make_serial(pool, 1), .left = 1000 };
    stint_future *future;
    assert_int_equal(stint_serial_submit(again.serial, submit_itself, &again, NULL, &future), 0);
    stint_future_release(future);
    while (!atomic_load(&again.over))
        gate_nap();
    stint_serial_release(again.serial);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(a_shutdown_ends_those_whose_turn_has_not_come)
{
    for (int i = 0; i < 100; i++) {
        stint_pool *pool = make_pool(.workers = 2);
        stint_serial *serial = make_serial(pool, 0);
        stint_future *futures[20];
        unsigned sum = 0;
        unsigned ran = 0;
        for (int j = 0; j < 20; j++)
            assert_int_equal(stint_serial_submit(serial, j == 0 ? add_up : add_two, &sum, NULL, &futures[j]), 0);
        assert_int_equal(
            stint_pool_shutdown(pool, i % 2 == 0 ? STINT_SHUTDOWN_DRAIN : STINT_SHUTDOWN_CANCEL, STINT_FOREVER), 0);
        stint_future *late;
        assert_int_equal(stint_serial_submit(serial, add_up, &sum, NULL, &late), ESHUTDOWN);
        assert_int_equal(stint_pool_destroy(pool), 0);
        bool ended = false;
        for (int j = 0; j < 20; j++) {
            stint_outcome outcome;
            assert_int_equal(stint_future_wait_for(futures[j], 0, &outcome), 0);
            ended = ended || outcome.reason == STINT_REASON_SHUTDOWN;
            assert_int_equal(ended, outcome.reason == STINT_REASON_SHUTDOWN); /* none after one that did not run */
            ran += !ended;
            stint_future_release(futures[j]);
        }
        assert_true(ran > 0 || sum <= 1); /* the first may have run, and be cancelled at its end */
        stint_serial_release(serial);
    }
}

TEST(bad_arguments_are_refused)
{
    stint_pool *pool = make_pool(.workers = 1);
    stint_serial *serial = make_serial(pool, 1);
    stint_serial *none;
    stint_future *future;
    unsigned sum = 0;
    assert_int_equal(stint_serial_create(pool, 0, NULL), EINVAL);
    assert_int_equal(stint_serial_create(NULL, 0, &none), EINVAL);
    assert_int_equal(stint_serial_submit(NULL, add_up, &sum, NULL, &future), EINVAL);
    assert_int_equal(stint_serial_submit(serial, NULL, &sum, NULL, &future), EINVAL);
    assert_int_equal(stint_serial_submit(serial, add_up, &sum, NULL, NULL), EINVAL);
    assert_int_equal(stint_serial_submit(serial, add_up, &sum, NULL, &future), 0); /* they took no place */
    assert_int_equal(stint_future_wait(future, NULL), 0);
    stint_future_release(future);
    stint_serial_release(serial);
    stint_serial_release(NULL);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST_MAIN()
