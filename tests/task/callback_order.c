/* SPDX-License-Identifier: MIT
 *
 * The order of callbacks, taking them back, and the end of their pool. */
#include "calls.h"

#define RACERS 3

/* --- Order -------------------------------------------------------------------------------------------------------- */

struct pair {
    atomic_bool first_called, second_was_too_early, second_called;
};

static void be_first(stint_future *future, const stint_outcome *outcome, void *arg)
{
    (void)future;
    (void)outcome;
    sched_yield();
    atomic_store(&((struct pair *)arg)->first_called, true);
}

static void be_second(stint_future *future, const stint_outcome *outcome, void *arg)
{
    struct pair *pair = arg;
    (void)future;
    (void)outcome;
    if (!atomic_load(&pair->first_called))
        atomic_store(&pair->second_was_too_early, true);
    atomic_store(&pair->second_called, true);
}

TEST(a_callback_given_when_the_future_has_resolved_does_not_overtake_earlier_ones)
{
    stint_pool *pool = make_pool(.workers = 2);
    unsigned too_early = 0;
    for (unsigned i = repeats(5000); i > 0; i--) {
        struct pair pair = { .first_called = false };
        stint_future *future = submit(pool, give, NULL, NULL);
        assert_int_equal(stint_future_then(future, be_first, &pair), 0);
        while (!stint_future_is_ready(future))
            ;
        assert_int_equal(stint_future_then(future, be_second, &pair), 0);
        while (!atomic_load(&pair.second_called) || !atomic_load(&pair.first_called))
            gate_nap();
        too_early += atomic_load(&pair.second_was_too_early);
        stint_future_release(future);
    }
    assert_int_equal(too_early, 0);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

/* From within a callback, where it has to wait for its turn; meanwhile another thread adds one more. */
struct relay {
    stint_future *future;
    atomic_uint clock;
    struct call late, later;
    atomic_bool given, taken;
};

static void give_late(stint_future *future, const stint_outcome *outcome, void *arg)
{
    struct relay *relay = arg;
    (void)future;
    (void)outcome;
    stint_future_then(relay->future, note, &relay->late);
    atomic_store(&relay->given, true);
    while (!atomic_load(&relay->taken))
        gate_nap();
}

static void *give_later(void *arg)
{
    struct relay *relay = arg;
    while (!atomic_load(&relay->given))
        gate_nap();
    stint_future_then(relay->future, note, &relay->later);
    atomic_store(&relay->taken, true);
    return NULL;
}

TEST(a_callback_given_in_a_callback_comes_before_those_given_after_it)
{
    stint_pool *pool = make_pool(.workers = 1);
    struct relay relay = { .future = submit(pool, give, NULL, NULL) };
    relay.late.clock = relay.later.clock = &relay.clock;
    stint_future *other = submit(pool, give, NULL, NULL);
    assert_int_equal(stint_future_wait(relay.future, NULL), 0);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, give_later, &relay), 0);
    assert_int_equal(stint_future_then(other, give_late, &relay), 0);
    pthread_join(thread, NULL);
    await_call(&relay.late);
    await_call(&relay.later);
    assert_int_equal(relay.late.turn, 0);
    assert_int_equal(relay.later.turn, 1);
    stint_future_release(other);
    stint_future_release(relay.future);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

/* --- The end of the pool ------------------------------------------------------------------------------------------ */

static void take_long(stint_future *future, const stint_outcome *outcome, void *arg)
{
    atomic_uint *stage = arg;
    (void)future;
    (void)outcome;
    atomic_store(stage, 1);
    nanosleep(&(struct timespec){ .tv_nsec = 100000000 }, NULL);
    atomic_store(stage, 2);
}

static void *cancel_it(void *future)
{
    stint_future_cancel(future);
    return NULL;
}

/* Its callback runs on a thread that the pool does not know. */
TEST(when_destroy_returns_the_callbacks_of_what_others_cancelled_have_too)
{
    for (int kind = 0; kind < 3; kind++) {
        stint_pool *pool = make_pool(.workers = 1);
        struct gate gate = { 0 };
        atomic_uint stage = 0;
        stint_options options = STINT_OPTIONS_INIT;
        options.priority = kind == 1 ? STINT_PRIORITY_LOW : STINT_PRIORITY_NORMAL;
        stint_future *holder = submit(pool, gate_hold_interruptibly, &gate, NULL);
        gate_await(&gate, 1);
        stint_future *future = submit(pool, give, NULL, &options);
        stint_future *all = NULL;
        if (kind == 2)
            assert_int_equal(stint_when_all(&future, 1, &all), 0);
        assert_int_equal(stint_future_then(kind == 2 ? all : future, take_long, &stage), 0);
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, cancel_it, future), 0);
        while (atomic_load(&stage) == 0)
            gate_nap();
        assert_int_equal(stint_pool_destroy(pool), 0);
        assert_int_equal(atomic_load(&stage), 2);
        pthread_join(thread, NULL);
        stint_future_release(all);
        stint_future_release(future);
        stint_future_release(holder);
    }
}

/* --- Taking back -------------------------------------------------------------------------------------------------- */

TEST(a_callback_that_was_taken_back_is_not_called)
{
    stint_pool *pool = make_pool(.workers = 1);
    struct gate gate = { 0 };
    atomic_uint clock = 0;
    struct call calls[5] = { 0 };
    stint_continuation continuations[5];
    stint_future *future = submit(pool, gate_hold, &gate, NULL);
    gate_await(&gate, 1);
    for (int i = 0; i < 5; i++) {
        calls[i].clock = &clock;
        assert_int_equal(stint_future_add_continuation(future, &continuations[i], note, &calls[i]), 0);
    }
    /* The first, one in the middle, the last; and the middle one once more at the end. */
    assert_int_equal(stint_future_remove_continuation(future, &continuations[0]), 0);
    assert_int_equal(stint_future_remove_continuation(future, &continuations[2]), 0);
    assert_int_equal(stint_future_remove_continuation(future, &continuations[4]), 0);
    assert_int_equal(stint_future_remove_continuation(future, &continuations[4]), EALREADY);
    assert_int_equal(stint_future_add_continuation(future, &continuations[2], note, &calls[2]), 0);
    gate_open(&gate);
    assert_int_equal(stint_pool_destroy(pool), 0);
    static const unsigned counts[] = { 0, 1, 1, 1, 0 };
    for (int i = 0; i < 5; i++) {
        assert_int_equal(atomic_load(&calls[i].count), counts[i]);
        assert_int_equal(stint_future_remove_continuation(future, &continuations[i]), EALREADY);
    }
    assert_int_equal(calls[1].turn, 0);
    assert_int_equal(calls[3].turn, 1);
    assert_int_equal(calls[2].turn, 2);
    assert_int_equal(stint_future_add_continuation(future, NULL, note, NULL), EINVAL);
    assert_int_equal(stint_future_add_continuation(future, &continuations[0], NULL, NULL), EINVAL);
    assert_int_equal(stint_future_add_continuation(NULL, &continuations[0], note, NULL), EINVAL);
    assert_int_equal(stint_future_remove_continuation(NULL, &continuations[0]), EINVAL);
    assert_int_equal(stint_future_remove_continuation(future, NULL), EINVAL);
    stint_future_release(future);
}

struct self {
    stint_future *future;
    stint_continuation continuation;
    int error;
};

static void take_itself_back(stint_future *future, const stint_outcome *outcome, void *arg)
{
    struct self *self = arg;
    (void)outcome;
    self->error = stint_future_remove_continuation(future, &self->continuation);
}

TEST(a_callback_that_has_begun_says_so)
{
    stint_pool *pool = make_pool(.workers = 1);
    struct self self = { .future = submit(pool, give, NULL, NULL) };
    assert_int_equal(stint_future_wait(self.future, NULL), 0);
    assert_int_equal(stint_future_add_continuation(self.future, &self.continuation, take_itself_back, &self), 0);
    assert_int_equal(self.error, EBUSY);
    assert_int_equal(stint_future_remove_continuation(self.future, &self.continuation), EALREADY);
    stint_future_release(self.future);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

/* Many threads put callbacks in and take them back while the future resolves: each is called, or was taken back. */
struct tug {
    stint_future *_Atomic future;
    atomic_uint round, left, calls, taken, wrong;
};

static void count_tug(stint_future *future, const stint_outcome *outcome, void *arg)
{
    (void)future;
    (void)outcome;
    atomic_fetch_add((atomic_uint *)arg, 1);
}

static void *tug_at(void *arg)
{
    struct tug *tug = arg;
    stint_continuation continuations[4];
    atomic_uint calls[4];
    for (unsigned round = 1, rounds = repeats(3000); round <= rounds; round++) {
        while (atomic_load(&tug->round) < round)
            sched_yield();
        stint_future *future = atomic_load(&tug->future);
        for (int i = 0; i < 4; i++) {
            atomic_store(&calls[i], 0);
            stint_future_add_continuation(future, &continuations[i], count_tug, &calls[i]);
        }
        for (int i = 3; i >= 0; i--) {
            int error;
            while ((error = stint_future_remove_continuation(future, &continuations[i])) == EBUSY)
                sched_yield();
            atomic_fetch_add(error == 0 ? &tug->taken : &tug->calls, 1);
            if (atomic_load(&calls[i]) != (error != 0))
                atomic_fetch_add(&tug->wrong, 1);
        }
        atomic_fetch_sub(&tug->left, 1);
    }
    return NULL;
}

TEST(each_callback_is_called_or_taken_back)
{
    stint_pool *pool = make_pool(.workers = 1);
    struct tug tug = { .round = 0 };
    pthread_t threads[RACERS];
    for (int i = 0; i < RACERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, tug_at, &tug), 0);
    for (unsigned round = 1, rounds = repeats(3000); round <= rounds; round++) {
        atomic_store(&tug.left, RACERS);
        stint_future *future = submit(pool, give, NULL, NULL);
        atomic_store(&tug.future, future);
        atomic_store(&tug.round, round);
        while (atomic_load(&tug.left) > 0)
            sched_yield();
        stint_future_release(future);
    }
    for (int i = 0; i < RACERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(stint_pool_destroy(pool), 0);
    assert_int_equal(atomic_load(&tug.wrong), 0);
    assert_int_equal(atomic_load(&tug.calls) + atomic_load(&tug.taken), RACERS * repeats(3000) * 4);
}

TEST_MAIN()
