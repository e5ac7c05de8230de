/* SPDX-License-Identifier: MIT
 *
 * The poisoning mutex. */
#include "support.h"

#include <stdatomic.h>

static const stint_options limited = { .size = sizeof(stint_options), .budget = { .allocation = 10000 } };

static stint_mutex mutex;

static int make(void **state)
{
    (void)state;
    return stint_mutex_init(&mutex);
}

static int end(void **state)
{
    (void)state;
    return stint_mutex_destroy(&mutex);
}

static void allocate_beyond_the_limit(void)
{
    for (int i = 0; i < 1000; i++)
        keep(stint_malloc(100));
}

static int be_interrupted_inside(void *unused, void **value)
{
    (void)unused;
    (void)value;
    int error = stint_mutex_lock(&mutex);
    if (error != 0 && error != EOWNERDEAD)
        return error;
    allocate_beyond_the_limit();
    stint_mutex_unlock(&mutex);
    return 0;
}

TEST_WITH(a_mutex_that_nobody_was_stopped_in_is_whole, make, end)
{
    for (int i = 0; i < 3; i++) {
        assert_int_equal(stint_mutex_lock(&mutex), 0);
        assert_int_equal(stint_mutex_unlock(&mutex), 0);
    }
}

TEST_WITH(an_interrupt_does_not_wait_for_it_and_poisons_it, make, end)
{
    stint_outcome outcome = run_task(be_interrupted_inside, NULL, &limited);
    assert_limit_passed(outcome);
    assert_true(outcome.usage.allocated <= 10000);
    assert_int_equal(stint_mutex_lock(&mutex), EOWNERDEAD);
    assert_int_equal(stint_mutex_consistent(&mutex), 0);
    assert_int_equal(stint_mutex_unlock(&mutex), 0);
    assert_int_equal(stint_mutex_lock(&mutex), 0);
    assert_int_equal(stint_mutex_unlock(&mutex), 0);
}

TEST_WITH(an_unwound_task_poisons_it_too, make, end)
{
    stint_options options = limited;
    options.on_interrupt = STINT_UNWIND;
    assert_limit_passed(run_task(be_interrupted_inside, NULL, &options));
    assert_int_equal(stint_mutex_trylock(&mutex), EOWNERDEAD);
    assert_int_equal(stint_mutex_consistent(&mutex), 0);
    assert_int_equal(stint_mutex_unlock(&mutex), 0);
}

TEST_WITH(who_does_not_repair_it_ends_its_use, make, end)
{
    assert_limit_passed(run_task(be_interrupted_inside, NULL, &limited));
    assert_int_equal(stint_mutex_lock(&mutex), EOWNERDEAD);
    assert_int_equal(stint_mutex_unlock(&mutex), 0);
    assert_int_equal(stint_mutex_lock(&mutex), ENOTRECOVERABLE);
    assert_int_equal(stint_mutex_trylock(&mutex), ENOTRECOVERABLE);
}

TEST_WITH(who_is_interrupted_while_repairing_leaves_it_poisoned, make, end)
{
    for (int i = 0; i < 3; i++)
        assert_limit_passed(run_task(be_interrupted_inside, NULL, &limited));
    assert_int_equal(stint_mutex_lock(&mutex), EOWNERDEAD);
    assert_int_equal(stint_mutex_consistent(&mutex), 0);
    assert_int_equal(stint_mutex_unlock(&mutex), 0);
}

static void repair(void *found)
{
    *(int *)found = stint_mutex_consistent(&mutex);
    stint_mutex_unlock(&mutex);
}

static int repair_in_a_guard(void *found, void **value)
{
    (void)value;
    if (stint_mutex_lock(&mutex) != 0)
        return EIO;
    stint_guard guard;
    stint_guard_push(&guard, repair, found);
    allocate_beyond_the_limit();
    return 0;
}

TEST_WITH(a_newer_guard_may_repair_it, make, end)
{
    int found = -1;
    assert_limit_passed(run_task(repair_in_a_guard, &found, &limited));
    assert_int_equal(found, 0);
    assert_int_equal(stint_mutex_lock(&mutex), 0);
    assert_int_equal(stint_mutex_unlock(&mutex), 0);
}

static int forget_it(void *unused, void **value)
{
    (void)unused;
    (void)value;
    return stint_mutex_lock(&mutex);
}

TEST_WITH(a_task_that_forgets_it_poisons_it, make, end)
{
    assert_ok(run_task(forget_it, NULL, NULL));
    assert_int_equal(stint_mutex_lock(&mutex), EOWNERDEAD);
    assert_int_equal(stint_mutex_consistent(&mutex), 0);
    assert_int_equal(stint_mutex_unlock(&mutex), 0);
}

TEST_WITH(mistakes_are_refused, make, end)
{
    assert_int_equal(stint_mutex_unlock(&mutex), EPERM);
    assert_int_equal(stint_mutex_consistent(&mutex), EPERM);
    assert_int_equal(stint_mutex_lock(&mutex), 0);
    assert_int_equal(stint_mutex_lock(&mutex), EDEADLK);
    assert_int_equal(stint_mutex_trylock(&mutex), EBUSY);
    assert_int_equal(stint_mutex_consistent(&mutex), EINVAL);
    assert_int_equal(stint_mutex_destroy(&mutex), EBUSY);
    assert_int_equal(stint_mutex_unlock(&mutex), 0);
    assert_int_equal(stint_mutex_init(NULL), EINVAL);
    assert_int_equal(stint_mutex_lock(NULL), EINVAL);
    assert_int_equal(stint_mutex_trylock(NULL), EINVAL);
    assert_int_equal(stint_mutex_unlock(NULL), EINVAL);
    assert_int_equal(stint_mutex_consistent(NULL), EINVAL);
    assert_int_equal(stint_mutex_destroy(NULL), 0);
}

static void *lock_and_end(void *error)
{
    *(int *)error = stint_mutex_lock(&mutex);
    return NULL;
}

TEST_WITH(a_thread_that_ends_with_it_poisons_it, make, end)
{
    if (lack_of_robust_locks() != NULL)
        skip_because(lack_of_robust_locks());
    int error = -1;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, lock_and_end, &error), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(error, 0);
    assert_int_equal(stint_mutex_lock(&mutex), EOWNERDEAD);
    assert_int_equal(stint_mutex_consistent(&mutex), 0);
    assert_int_equal(stint_mutex_unlock(&mutex), 0);
}

static int shared[2]; /* equal while the mutex is whole */
static atomic_int torn;

static int change_both(void *unused, void **value)
{
    (void)unused;
    (void)value;
    for (;;) {
        int error = stint_mutex_lock(&mutex);
        if (error == EOWNERDEAD) {
            shared[1] = shared[0];
            stint_mutex_consistent(&mutex);
        } else if (error != 0) {
            return error;
        } else if (shared[0] != shared[1]) {
            atomic_fetch_add(&torn, 1);
        }
        shared[0]++;
        stint_free(keep(stint_malloc(100)));
        shared[1]++;
        stint_mutex_unlock(&mutex);
    }
}

static void *run_many(void *seed)
{
    uint64_t random = *(uint64_t *)seed;
    for (int i = 0; i < 2000; i++) {
        stint_options options = { .size = sizeof(stint_options),
                                  .budget = { .allocation = 100 + random_below(&random, 20000) } };
        stint_outcome outcome;
        if (stint_run(change_both, NULL, &options, &outcome) != 0 || outcome.reason != STINT_REASON_ALLOCATION_LIMIT)
            return seed;
    }
    return NULL;
}

TEST_WITH(two_threads_that_are_stopped_inside_leave_nothing_torn_unnoticed, make, end)
{
    pthread_t threads[2];
    uint64_t seeds[2] = { 1, 2 };
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_many, &seeds[i]), 0);
    for (int i = 0; i < 2; i++) {
        void *failed;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    assert_int_equal(atomic_load(&torn), 0);
    assert_int_equal(stint_mutex_lock(&mutex), EOWNERDEAD);
    assert_int_equal(stint_mutex_consistent(&mutex), 0);
    assert_int_equal(stint_mutex_unlock(&mutex), 0);
}

TEST_MAIN()
