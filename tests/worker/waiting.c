/* SPDX-License-Identifier: MIT
 *
 * Waiting inside a task: what runs meanwhile and what never does, how deep, and never a deadlock. */
#include "pools.h"

/* --- Chains ------------------------------------------------------------------------------------------------------- */

/* As many as one stack has room for: more threads may help, but need not. Frames of sanitizers are several times as
 * large. */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define LINKS 1500
#else
#define LINKS 5000
#endif

struct link {
    stint_future *_Atomic *next; /* NULL: the last */
    size_t stack;                /* that the task takes for itself */
    atomic_uint *refused;        /* waits that were told to give up */
};

static int await_next(void *arg, void **value)
{
    const struct link *link = arg;
    volatile char *space = __builtin_alloca(link->stack + 1);
    space[0] = 1;
    space[link->stack] = 1;
    stint_outcome outcome = { .value = NULL };
    if (link->next != NULL) {
        stint_future *next;
        while ((next = atomic_load(link->next)) == NULL)
            gate_nap(); /* it is being submitted */
        int error = stint_future_wait(next, &outcome);
        if (error == EAGAIN)
            atomic_fetch_add(link->refused, 1);
        if (error != 0 || outcome.status != STINT_OK)
            return error != 0 ? error : outcome.error;
    }
    *value = (char *)outcome.value + space[0];
    return 0;
}

enum order { FIRST_TO_LAST, LAST_TO_FIRST };

struct chain {
    struct link links[LINKS];
    stint_future *_Atomic futures[LINKS];
    atomic_uint refused;
};

static void submit_chain(stint_pool *pool, struct chain *chain, int length, size_t stack, enum order order)
{
    memset(chain, 0, sizeof *chain);
    for (int i = 0; i < length; i++)
        chain->links[i] = (struct link){ i + 1 < length ? &chain->futures[i + 1] : NULL, stack, &chain->refused };
    for (int n = 0; n < length; n++) {
        int i = order == FIRST_TO_LAST ? n : length - 1 - n;
        stint_future *future = submit(pool, await_next, &chain->links[i], NULL);
        atomic_store(&chain->futures[i], future);
    }
}

static void assert_chain_ok(struct chain *chain, int length)
{
    for (int i = 0; i < length; i++) {
        stint_outcome outcome = take(chain->futures[i]);
        assert_int_equal(outcome.error, 0);
        assert_int_equal((size_t)outcome.value, length - i);
    }
    assert_int_equal(atomic_load(&chain->refused), 0);
}

static struct chain chain;

TEST(chains_end_on_any_number_of_workers_and_spares_in_both_orders)
{
    static const unsigned substitutes[] = { 0, 4 };
    for (unsigned workers = 1; workers <= 2; workers++) {
        for (int i = 0; i < 2; i++) {
            for (enum order order = FIRST_TO_LAST; order <= LAST_TO_FIRST; order++) {
                stint_pool *pool =
                    make_pool(.workers = workers, .substitutes = substitutes[i], .queue_capacity = 2 * LINKS);
                submit_chain(pool, &chain, LINKS, 0, order);
                assert_chain_ok(&chain, LINKS);
                assert_int_equal(stint_pool_destroy(pool), 0);
            }
        }
    }
}

static int submit_and_await_chain(void *arg, void **value)
{
    stint_pool *pool = arg;
    submit_chain(pool, &chain, LINKS, 0, FIRST_TO_LAST);
    int error = stint_future_wait(chain.futures[0], NULL);
    *value = chain.futures[0];
    return error;
}

/* From inside a task: the first 256 lie in its worker's deque, the rest in the queue. */
TEST(chains_that_a_task_submits_end)
{
    for (unsigned workers = 1; workers <= 2; workers++) {
        stint_pool *pool = make_pool(.workers = workers, .queue_capacity = 2 * LINKS);
        assert_int_equal(take(submit(pool, submit_and_await_chain, pool, NULL)).error, 0);
        assert_chain_ok(&chain, LINKS);
        assert_int_equal(stint_pool_destroy(pool), 0);
    }
}

static size_t stack_of_a_thread(void)
{
    pthread_attr_t attributes;
    size_t size;
    pthread_attr_init(&attributes);
    pthread_attr_getstacksize(&attributes, &size);
    pthread_attr_destroy(&attributes);
    return size;
}

/* If the waiter has no stack for a task, and no other thread can run it, the wait is refused, and everything
 * resolves. */
TEST(a_wait_without_any_room_left_is_refused)
{
    size_t share = stack_of_a_thread() / 40;
    for (unsigned workers = 1; workers <= 2; workers++) {
        stint_pool *pool = make_pool(.workers = workers, .substitutes = STINT_NO_SUBSTITUTES);
        submit_chain(pool, &chain, 200, share, FIRST_TO_LAST);
        unsigned failed = 0;
        for (int i = 0; i < 200; i++)
            failed += take(chain.futures[i]).error == EAGAIN;
        assert_true(atomic_load(&chain.refused) > 0);
        assert_true(failed > 0 && failed < 200);
        assert_int_equal(stint_pool_destroy(pool), 0);
    }
}

/* --- Who runs what ------------------------------------------------------------------------------------------------ */

struct waiter {
    stint_pool *pool;
    stint_future *future;
    struct gate gate;
    pthread_t thread, other;
    stint_outcome outcome;
    int error;
};

static int await_it(void *arg, void **value)
{
    struct waiter *waiter = arg;
    (void)value;
    waiter->thread = pthread_self();
    atomic_fetch_add(&waiter->gate.entered, 1);
    waiter->error = stint_future_wait(waiter->future, &waiter->outcome);
    return 0;
}

static int note_thread(void *arg, void **value)
{
    (void)value;
    *(pthread_t *)arg = pthread_self();
    return 0;
}

/* One worker, whose task waits for another pool's: unrelated work goes on, but not on top of it. */
TEST(a_spare_runs_other_tasks_while_one_waits)
{
    stint_pool *elsewhere = make_pool(.workers = 1);
    struct gate gate = { 0 };
    struct waiter waiter = { .pool = make_pool(.workers = 1), .future = submit(elsewhere, gate_hold, &gate, NULL) };
    stint_future *waiting = submit(waiter.pool, await_it, &waiter, NULL);
    gate_await(&waiter.gate, 1);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(take(submit(waiter.pool, note_thread, &waiter.other, NULL)).status, STINT_OK);
        assert_false(pthread_equal(waiter.thread, waiter.other));
    }
    assert_false(stint_future_is_ready(waiting));
    gate_open(&gate);
    assert_int_equal(take(waiting).status, STINT_OK);
    assert_int_equal(waiter.error, 0);
    assert_int_equal(take(submit(waiter.pool, note_thread, &waiter.other, NULL)).status, STINT_OK);
    stint_future_release(waiter.future);
    assert_int_equal(stint_pool_destroy(waiter.pool), 0);
    assert_int_equal(stint_pool_destroy(elsewhere), 0);
}

static int await_it_for_ever(void *arg, void **value)
{
    struct waiter *waiter = arg;
    (void)value;
    waiter->error = stint_future_wait_for(waiter->future, STINT_FOREVER, &waiter->outcome);
    return 0;
}

/* A wait with a time runs nothing itself, but gives its place up too. */
TEST(a_spare_runs_what_a_timed_wait_waits_for)
{
    struct waiter waiter = { .pool = make_pool(.workers = 1) };
    struct gate gate = { 0 };
    stint_future *holder = submit(waiter.pool, gate_hold, &gate, NULL);
    gate_await(&gate, 1);
    stint_future *waiting = submit(waiter.pool, await_it_for_ever, &waiter, NULL);
    waiter.future = submit(waiter.pool, note_thread, &waiter.other, NULL);
    gate_open(&gate);
    assert_int_equal(take(waiting).status, STINT_OK);
    assert_int_equal(waiter.error, 0);
    stint_future_release(waiter.future);
    stint_future_release(holder);
    assert_int_equal(stint_pool_destroy(waiter.pool), 0);
}

/* --- Storms ------------------------------------------------------------------------------------------------------- */

#define MAX_TASKS 2000

struct storm {
    stint_pool *pool;
    stint_future *_Atomic futures[MAX_TASKS];
    atomic_uint ran;
};

struct drop {
    struct storm *storm;
    unsigned index;
};

/* Each waits for three that were submitted before it: no cycle, but in no order of running. */
static int await_three_before(void *arg, void **value)
{
    const struct drop *drop = arg;
    struct storm *storm = drop->storm;
    (void)value;
    for (unsigned i = 1; i <= 3 && drop->index > 0; i++) {
        unsigned before = (drop->index * 7919 + i * 104729) % drop->index;
        stint_outcome outcome;
        int error = stint_future_wait(storm->futures[before], &outcome);
        if (error != 0 || outcome.status != STINT_OK)
            return error != 0 ? error : outcome.error;
    }
    atomic_fetch_add(&storm->ran, 1);
    return 0;
}

static void storm_once(struct storm *storm, unsigned workers, unsigned substitutes, bool backwards)
{
    static struct drop drops[MAX_TASKS];
    memset(storm, 0, sizeof *storm);
    storm->pool = make_pool(.workers = workers, .substitutes = substitutes, .queue_capacity = 2 * MAX_TASKS);
    struct gate gates[4] = { 0 };
    for (unsigned i = 0; i < workers; i++)
        stint_future_release(submit(storm->pool, gate_hold, &gates[i], NULL));
    for (unsigned i = 0; i < workers; i++)
        gate_await(&gates[i], 1);
    const unsigned tasks = repeats(MAX_TASKS) < MAX_TASKS ? repeats(MAX_TASKS) : MAX_TASKS;
    for (unsigned n = 0; n < tasks; n++) {
        unsigned i = backwards ? tasks - 1 - n : n;
        drops[i] = (struct drop){ storm, i };
        storm->futures[i] = submit(storm->pool, await_three_before, &drops[i], NULL);
    }
    for (unsigned i = 0; i < workers; i++)
        gate_open(&gates[i]);
    for (unsigned i = 0; i < tasks; i++) {
        stint_outcome outcome;
        assert_int_equal(stint_future_wait(storm->futures[i], &outcome), 0);
        assert_int_equal(outcome.error, 0);
    }
    for (unsigned i = 0; i < tasks; i++)
        stint_future_release(storm->futures[i]);
    assert_int_equal(atomic_load(&storm->ran), tasks);
    assert_int_equal(stint_pool_destroy(storm->pool), 0);
}

TEST(tasks_that_wait_for_each_other_across_workers_all_end)
{
    static struct storm storm;
    static const unsigned substitutes[] = { 0, 1, 8, STINT_NO_SUBSTITUTES };
    for (unsigned workers = 1; workers <= 4; workers++) {
        for (int i = 0; i < 4; i++) {
            storm_once(&storm, workers, substitutes[i], false);
            storm_once(&storm, workers, substitutes[i], true);
        }
    }
}

/* --- Limits of time ----------------------------------------------------------------------------------------------- */

static int run_with_a_limit(void *arg, void **value)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.wall_ns = 1000000 * MS;
    stint_outcome outcome;
    (void)value;
    return stint_run(do_nothing, arg, &options, &outcome);
}

/* Without an allocation after the wait. */
static int check_after_a_wait(void *pool, void **value)
{
    stint_outcome outcome;
    stint_future *future;
    (void)value;
    if (stint_submit(pool, run_with_a_limit, NULL, NULL, &future) != 0)
        return EIO;
    int error = stint_future_wait(future, &outcome);
    stint_future_release(future);
    for (int i = 0; i < 1000 && error == 0; i++) {
        nap_ms(10);
        stint_checkpoint();
    }
    return error;
}

TEST(a_wait_in_which_a_task_ran_one_with_a_limit_of_time_leaves_the_waiter_its_deadline)
{
    stint_pool *pool = make_pool(.workers = 1);
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.run_ns = 50 * MS;
    assert_int_equal(run_in_pool(pool, check_after_a_wait, pool, &options).reason, STINT_REASON_DEADLINE);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST_MAIN()
