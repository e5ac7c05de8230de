/* SPDX-License-Identifier: MIT
 *
 * Shutting a pool down: draining, cancelling, time-outs, and what meets a shutdown while it goes on. */
#include "pools.h"

static void assert_shut_down(stint_future *future)
{
    stint_outcome outcome;
    assert_int_equal(stint_future_wait(future, &outcome), 0);
    assert_int_equal(outcome.status, STINT_CANCELLED);
    assert_int_equal(outcome.reason, STINT_REASON_SHUTDOWN);
    assert_int_equal(outcome.error, ECANCELED);
    stint_future_release(future);
}

TEST(bad_arguments_are_refused)
{
    stint_pool *pool = make_pool(.workers = 1);
    stint_shutdown unknown;
    memset(&unknown, 0x7f, sizeof unknown);
    assert_int_equal(stint_pool_shutdown(NULL, STINT_SHUTDOWN_DRAIN, 0), EINVAL);
    assert_int_equal(stint_pool_shutdown(pool, unknown, 0), EINVAL);
    atomic_uint ran = 0;
    stint_future *future = submit(pool, count_run, &ran, NULL); /* it is still open */
    assert_int_equal(stint_future_wait(future, NULL), 0);
    stint_future_release(future);
    assert_int_equal(stint_pool_destroy(pool), 0);
    assert_int_equal(stint_pool_destroy(NULL), 0);
}

TEST(draining_runs_what_is_queued)
{
    stint_pool *pool = make_pool(.workers = 2);
    struct gate gate = { 0 };
    atomic_uint ran = 0;
    stint_future *holders[2] = { submit(pool, gate_hold, &gate, NULL), submit(pool, gate_hold, &gate, NULL) };
    stint_future *futures[500];
    for (int i = 0; i < 500; i++)
        futures[i] = submit(pool, count_run, &ran, NULL);
    gate_await(&gate, 2);
    assert_int_equal(stint_pool_shutdown(pool, STINT_SHUTDOWN_DRAIN, 1000000), ETIMEDOUT);
    assert_int_equal(atomic_load(&ran), 0);
    stint_future *late = NULL;
    assert_int_equal(stint_submit(pool, count_run, &ran, NULL, &late), ESHUTDOWN);
    assert_null(late);
    gate_open(&gate);
    assert_int_equal(stint_pool_shutdown(pool, STINT_SHUTDOWN_DRAIN, STINT_FOREVER), 0);
    assert_int_equal(atomic_load(&ran), 500);
    for (int i = 0; i < 500; i++) {
        assert_true(stint_future_is_ready(futures[i]));
        stint_future_release(futures[i]);
    }
    stint_future_release(holders[0]);
    stint_future_release(holders[1]);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(cancelling_resolves_the_queued_at_once_and_interrupts_the_running)
{
    stint_pool *pool = make_pool(.workers = 2);
    struct gate deaf = { 0 };
    struct gate listening = { 0 };
    atomic_uint ran = 0;
    stint_future *stubborn = submit(pool, gate_hold, &deaf, NULL);
    stint_future *running = submit(pool, gate_hold_interruptibly, &listening, NULL);
    gate_await(&deaf, 1);
    gate_await(&listening, 1);
    stint_future *queued[100];
    for (int i = 0; i < 100; i++)
        queued[i] = submit(pool, count_run, &ran, NULL);
    assert_int_equal(stint_pool_shutdown(pool, STINT_SHUTDOWN_CANCEL, 0), ETIMEDOUT);
    assert_shut_down(running);
    for (int i = 0; i < 100; i++)
        assert_shut_down(queued[i]); /* although one worker is still held */
    assert_int_equal(atomic_load(&ran), 0);
    assert_false(stint_future_is_ready(stubborn));
    gate_open(&deaf);
    assert_int_equal(stint_pool_shutdown(pool, STINT_SHUTDOWN_CANCEL, STINT_FOREVER), 0);
    assert_shut_down(stubborn); /* it returned normally, but it had been interrupted */
    assert_int_equal(stint_pool_destroy(pool), 0);
}

struct brood {
    stint_pool *pool;
    struct gate gate;
    atomic_uint ran;
    stint_future *children[300];
};

static int submit_brood_and_hold(void *arg, void **value)
{
    struct brood *brood = arg;
    for (int i = 0; i < 300; i++) {
        int error = stint_submit(brood->pool, count_run, &brood->ran, NULL, &brood->children[i]);
        if (error != 0)
            return error;
    }
    return gate_hold(&brood->gate, value);
}

TEST(cancelling_reaches_what_a_held_worker_has_in_its_deque)
{
    struct brood brood = { .pool = make_pool(.workers = 1) };
    stint_future *parent = submit(brood.pool, submit_brood_and_hold, &brood, NULL);
    gate_await(&brood.gate, 1);
    assert_int_equal(stint_pool_shutdown(brood.pool, STINT_SHUTDOWN_CANCEL, 0), ETIMEDOUT);
    for (int i = 0; i < 300; i++)
        assert_shut_down(brood.children[i]);
    assert_int_equal(atomic_load(&brood.ran), 0);
    gate_open(&brood.gate);
    assert_int_equal(stint_pool_destroy(brood.pool), 0);
    assert_shut_down(parent);
}

TEST(a_drain_can_be_turned_into_a_cancel)
{
    stint_pool *pool = make_pool(.workers = 1);
    struct gate gate = { 0 };
    atomic_uint ran = 0;
    stint_future *running = submit(pool, gate_hold_interruptibly, &gate, NULL);
    stint_future *queued = submit(pool, count_run, &ran, NULL);
    gate_await(&gate, 1);
    assert_int_equal(stint_pool_shutdown(pool, STINT_SHUTDOWN_DRAIN, 0), ETIMEDOUT);
    assert_false(stint_future_is_ready(running));
    assert_int_equal(stint_pool_shutdown(pool, STINT_SHUTDOWN_CANCEL, STINT_FOREVER), 0);
    assert_shut_down(running);
    assert_shut_down(queued);
    assert_int_equal(atomic_load(&ran), 0);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(a_drain_with_time_enough_cancels_nothing)
{
    stint_pool *pool = make_pool(.workers = 1);
    atomic_uint ran = 0;
    stint_future *futures[100];
    for (int i = 0; i < 100; i++)
        futures[i] = submit(pool, count_run, &ran, NULL);
    assert_int_equal(stint_pool_shutdown(pool, STINT_SHUTDOWN_DRAIN_THEN_CANCEL, STINT_FOREVER), 0);
    assert_int_equal(atomic_load(&ran), 100);
    for (int i = 0; i < 100; i++)
        stint_future_release(futures[i]);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(a_drain_whose_time_is_up_cancels_the_rest_and_waits_for_it)
{
    stint_pool *pool = make_pool(.workers = 1);
    struct gate gate = { 0 };
    atomic_uint ran = 0;
    stint_future *running = submit(pool, gate_hold_interruptibly, &gate, NULL);
    stint_future *queued = submit(pool, count_run, &ran, NULL);
    gate_await(&gate, 1);
    assert_int_equal(stint_pool_shutdown(pool, STINT_SHUTDOWN_DRAIN_THEN_CANCEL, 1000000), 0);
    assert_true(stint_future_is_ready(running));
    assert_true(stint_future_is_ready(queued));
    assert_shut_down(running);
    assert_shut_down(queued);
    assert_int_equal(atomic_load(&ran), 0);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(a_shutdown_may_be_repeated)
{
    stint_pool *pool = make_pool(.workers = 2);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(stint_pool_shutdown(pool, STINT_SHUTDOWN_DRAIN, i == 0 ? STINT_FOREVER : 0), 0);
        assert_int_equal(stint_pool_shutdown(pool, STINT_SHUTDOWN_CANCEL, 0), 0);
    }
    atomic_uint ran = 0;
    stint_future *late;
    assert_int_equal(stint_submit(pool, count_run, &ran, NULL, &late), ESHUTDOWN);
    assert_int_equal(stint_pool_workers(pool), 2);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

struct closer {
    stint_pool *pool;
    stint_shutdown how;
    int error;
    pthread_t thread;
};

static void *close_it(void *arg)
{
    struct closer *closer = arg;
    closer->error = stint_pool_shutdown(closer->pool, closer->how, STINT_FOREVER);
    return NULL;
}

TEST(several_threads_may_shut_down_at_once)
{
    for (unsigned round = repeats(100); round > 0; round--) {
        stint_pool *pool = make_pool(.workers = 2);
        atomic_uint ran = 0;
        stint_future *futures[50];
        for (int i = 0; i < 50; i++)
            futures[i] = submit(pool, count_run, &ran, NULL);
        struct closer closers[4];
        for (unsigned i = 0; i < 4; i++) {
            closers[i] = (struct closer){ .pool = pool,
                                          .how = i + round % 5 < 4 ? STINT_SHUTDOWN_DRAIN : STINT_SHUTDOWN_CANCEL };
            assert_int_equal(pthread_create(&closers[i].thread, NULL, close_it, &closers[i]), 0);
        }
        for (int i = 0; i < 4; i++) {
            pthread_join(closers[i].thread, NULL);
            assert_int_equal(closers[i].error, 0);
        }
        unsigned ok = 0;
        for (int i = 0; i < 50; i++) {
            stint_outcome outcome;
            assert_int_equal(stint_future_wait_for(futures[i], 0, &outcome), 0);
            ok += outcome.status == STINT_OK;
            stint_future_release(futures[i]);
        }
        assert_true(ok <= atomic_load(&ran));
        if (round % 5 == 0)
            assert_int_equal(ok, 50);
        assert_int_equal(stint_pool_destroy(pool), 0);
    }
}

struct insider {
    stint_pool *pool;
    struct gate gate;
    int shutdown, destroy, submitted;
};

static int misbehave(void *arg, void **value)
{
    struct insider *insider = arg;
    insider->shutdown = stint_pool_shutdown(insider->pool, STINT_SHUTDOWN_CANCEL, STINT_FOREVER);
    insider->destroy = stint_pool_destroy(insider->pool);
    gate_hold(&insider->gate, value);
    stint_future *future;
    insider->submitted = stint_submit(insider->pool, count_run, NULL, NULL, &future);
    return 0;
}

TEST(a_task_cannot_shut_its_pool_down_nor_submit_to_one_that_is)
{
    struct insider insider = { .pool = make_pool(.workers = 1) };
    stint_future *future = submit(insider.pool, misbehave, &insider, NULL);
    gate_await(&insider.gate, 1);
    assert_int_equal(insider.shutdown, EDEADLK);
    assert_int_equal(insider.destroy, EDEADLK);
    assert_int_equal(stint_pool_shutdown(insider.pool, STINT_SHUTDOWN_DRAIN, 0), ETIMEDOUT);
    gate_open(&insider.gate);
    assert_int_equal(stint_pool_shutdown(insider.pool, STINT_SHUTDOWN_DRAIN, STINT_FOREVER), 0);
    assert_int_equal(insider.submitted, ESHUTDOWN);
    stint_outcome outcome;
    assert_int_equal(stint_future_wait(future, &outcome), 0);
    assert_int_equal(outcome.status, STINT_OK);
    stint_future_release(future);
    assert_int_equal(stint_pool_destroy(insider.pool), 0);
}

TEST(destroying_a_pool_cancels_its_tasks)
{
    stint_pool *pool = make_pool(.workers = 2);
    struct gate gate = { 0 };
    stint_future *futures[20];
    for (int i = 0; i < 20; i++)
        futures[i] = submit(pool, gate_hold_interruptibly, &gate, NULL);
    assert_int_equal(stint_pool_destroy(pool), 0);
    for (int i = 0; i < 20; i++)
        assert_shut_down(futures[i]);
}

/* --- Submitting while the pool closes ----------------------------------------------------------------------------- */

#define SUBMITTERS 3
#define MAX_TASKS 20000

struct submitter {
    stint_pool *pool;
    atomic_uint ran;
    unsigned accepted;
    int refusal;
    pthread_t thread;
    stint_future *futures[MAX_TASKS];
};

static void *submit_until_refused(void *arg)
{
    struct submitter *submitter = arg;
    for (;;) {
        submitter->refusal =
            stint_submit(submitter->pool, count_run, &submitter->ran, NULL, &submitter->futures[submitter->accepted]);
        if (submitter->refusal == ESHUTDOWN || (submitter->refusal == 0 && ++submitter->accepted == MAX_TASKS))
            return NULL;
    }
}

TEST(an_accepted_task_always_resolves_and_a_refused_one_never_runs)
{
    struct submitter *submitters = calloc(SUBMITTERS, sizeof *submitters);
    assert_non_null(submitters);
    for (unsigned round = repeats(300); round > 0; round--) {
        stint_pool *pool = make_pool(.workers = 2);
        for (int i = 0; i < SUBMITTERS; i++) {
            submitters[i].pool = pool;
            submitters[i].accepted = 0;
            atomic_store(&submitters[i].ran, 0);
            assert_int_equal(pthread_create(&submitters[i].thread, NULL, submit_until_refused, &submitters[i]), 0);
        }
        for (unsigned i = 0; i < round % 16; i++)
            gate_nap();
        bool drain = round % 2 == 0;
        assert_int_equal(stint_pool_shutdown(pool, drain ? STINT_SHUTDOWN_DRAIN : STINT_SHUTDOWN_CANCEL, STINT_FOREVER),
                         0);
        for (int i = 0; i < SUBMITTERS; i++) {
            pthread_join(submitters[i].thread, NULL);
            unsigned ok = 0;
            for (unsigned n = 0; n < submitters[i].accepted; n++) {
                stint_outcome outcome;
                assert_int_equal(stint_future_wait(submitters[i].futures[n], &outcome), 0);
                ok += outcome.status == STINT_OK;
                stint_future_release(submitters[i].futures[n]);
            }
            unsigned ran = atomic_load(&submitters[i].ran);
            if (drain)
                assert_int_equal(ok, submitters[i].accepted);
            assert_in_range(ran, ok, submitters[i].accepted);
        }
        assert_int_equal(stint_pool_destroy(pool), 0);
    }
    free(submitters);
}

TEST_MAIN()
