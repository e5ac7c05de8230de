/* SPDX-License-Identifier: MIT
 *
 * Fork and join: values and errors, every order of joins, where subtasks run, nesting, and what a caller may get
 * wrong. */
#include "pools.h"

/* Run it on one worker, on two, in a plain scope, and outside of any scope. */
static void everywhere(stint_fn *fn, void *arg, const void *expected)
{
    void *value = NULL;
    for (unsigned workers = 1; workers <= 2; workers++) {
        stint_pool *pool = make_pool(.workers = workers);
        const stint_outcome outcome = run_in_pool(pool, fn, arg, NULL);
        assert_ok(outcome);
        assert_ptr_equal(outcome.value, expected);
        stint_pool_destroy(pool);
    }
    const stint_outcome outcome = run_task(fn, arg, NULL);
    assert_ok(outcome);
    assert_ptr_equal(outcome.value, expected);
    assert_int_equal(fn(arg, &value), 0);
    assert_ptr_equal(value, expected);
}

static int give_back(void *arg, void **value)
{
    *value = arg;
    return 0;
}

static int fibonacci(void *arg, void **value)
{
    uintptr_t n = (uintptr_t)arg;
    stint_subtask left;
    void *a = NULL;
    void *b = NULL;
    *value = arg;
    if (n < 2)
        return 0;
    stint_fork(&left, fibonacci, (void *)(n - 1));
    int error = fibonacci((void *)(n - 2), &b);
    int left_error = stint_join(&left, &a);
    *value = (void *)((uintptr_t)a + (uintptr_t)b);
    return error != 0 ? error : left_error;
}

TEST(a_recursion_computes_the_same_everywhere)
{
    everywhere(fibonacci, (void *)22, (void *)17711);
}

static int fail_with(void *arg, void **value)
{
    *value = arg;
    return (int)(uintptr_t)arg;
}

static int join_a_failure(void *arg, void **value)
{
    stint_subtask bad;
    stint_subtask good;
    void *from_bad = NULL;
    void *from_good = NULL;
    (void)arg;
    stint_fork(&bad, fail_with, (void *)EILSEQ);
    stint_fork(&good, give_back, (void *)7);
    if (stint_join(&good, &from_good) != 0 || stint_join(&bad, &from_bad) != EILSEQ)
        return EPROTO;
    *value = (void *)((uintptr_t)from_good + (uintptr_t)from_bad);
    return 0;
}

TEST(an_error_is_for_whoever_joins)
{
    everywhere(join_a_failure, NULL, (void *)(7 + EILSEQ));
}

static int leave_value(void *arg, void **value)
{
    (void)arg;
    (void)value;
    return 0;
}

static int join_without_values(void *arg, void **value)
{
    stint_subtask first;
    stint_subtask second;
    void *result = arg;
    stint_fork(&first, give_back, arg);
    if (stint_join(&first, NULL) != 0)
        return EPROTO;
    stint_fork(&second, leave_value, NULL);
    if (stint_join(&second, &result) != 0)
        return EPROTO;
    *value = result;
    return 0;
}

TEST(a_value_that_nobody_wrote_is_null_and_one_that_nobody_wants_is_dropped)
{
    everywhere(join_without_values, &(int){ 0 }, NULL);
}

#define MANY 1000

struct order {
    unsigned step; /* how far the next join is from the last: 1 oldest first, MANY - 1 newest first */
};

/* Each does a little, so that thieves have the time to take some. */
static int count_up(void *arg, void **value)
{
    volatile uintptr_t sum = 0;
    for (uintptr_t i = 0; i < 200; i++)
        sum += i;
    *value = arg;
    return sum == 19900 ? 0 : EPROTO;
}

static int join_in_order(void *arg, void **value)
{
    const struct order *order = arg;
    stint_subtask subtasks[MANY];
    uintptr_t sum = 0;
    for (uintptr_t i = 0; i < MANY; i++)
        stint_fork(&subtasks[i], count_up, (void *)i);
    size_t next = 0;
    for (size_t i = 0; i < MANY; i++) {
        void *result = NULL;
        next = (next + order->step) % MANY;
        if (stint_join(&subtasks[next], &result) != 0 || (uintptr_t)result != next)
            return EPROTO;
        sum += (uintptr_t)result;
    }
    *value = (void *)sum;
    return 0;
}

TEST(forks_may_be_joined_in_any_order)
{
    static const unsigned steps[] = { 1, MANY - 1, 7, 993, 333 };
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        everywhere(join_in_order, &(struct order){ steps[i] }, (void *)(MANY * (MANY - 1) / 2));
}

#define TOO_MANY 10000

static int fork_too_many(void *arg, void **value)
{
    stint_subtask *subtasks = arg;
    uintptr_t sum = 0;
    for (uintptr_t i = 0; i < TOO_MANY; i++)
        stint_fork(&subtasks[i], give_back, (void *)i);
    for (size_t i = TOO_MANY; i-- > 0;) {
        void *result = NULL;
        if (stint_join(&subtasks[i], &result) != 0)
            return EPROTO;
        sum += (uintptr_t)result;
    }
    *value = (void *)sum;
    return 0;
}

TEST(forks_beyond_the_capacity_run_in_their_joins)
{
    stint_subtask *subtasks = calloc(TOO_MANY, sizeof *subtasks);
    assert_non_null(subtasks);
    everywhere(fork_too_many, subtasks, (void *)((uintptr_t)TOO_MANY * (TOO_MANY - 1) / 2));
    free(subtasks);
}

static int misuse(void *arg, void **value)
{
    stint_subtask subtask;
    void *result = arg;
    bool right = stint_fork(NULL, give_back, arg) == EINVAL && stint_fork(&subtask, NULL, arg) == EINVAL &&
                 stint_join(NULL, NULL) == EINVAL;
    stint_fork(&subtask, give_back, arg);
    right = right && stint_join(&subtask, &result) == 0 && result == arg;
    right = right && stint_join(&subtask, &result) == EINVAL;
    *value = arg;
    return right ? 0 : EPROTO;
}

TEST(null_and_a_second_join_are_refused)
{
    int something = 0;
    everywhere(misuse, &something, &something);
}

static int fork_and_forget(void *subtask, void **value)
{
    (void)value;
    return stint_fork(subtask, leave_value, NULL);
}

/* The fork of the scope that has ended had the place that the first one here has now. */
static int join_what_was_settled(void *arg, void **value)
{
    stint_subtask settled, first, second;
    stint_outcome inner;
    void *values[2] = { NULL };
    (void)value;
    int error = stint_run(fork_and_forget, &settled, NULL, &inner);
    if (error != 0 || inner.status != STINT_ERROR)
        return EPROTO;
    stint_fork(&first, give_back, &values[0]);
    stint_fork(&second, give_back, &values[1]);
    *(int *)arg = stint_join(&settled, NULL);
    if (stint_join(&second, &values[1]) != 0 || stint_join(&first, &values[0]) != 0)
        return EPROTO;
    return values[0] == &values[0] && values[1] == &values[1] ? 0 : EPROTO;
}

TEST(a_fork_that_was_settled_is_not_joined_in_place_of_another)
{
    int error = 0;
    stint_pool *pool = make_pool(.workers = 1);
    assert_ok(run_in_pool(pool, join_what_was_settled, &error, NULL));
    assert_int_equal(error, EINVAL);
    stint_pool_destroy(pool);
}

struct foreign {
    stint_subtask subtask;
    int error;
};

static void *join_a_foreign_one(void *arg)
{
    struct foreign *foreign = arg;
    foreign->error = stint_join(&foreign->subtask, NULL);
    return NULL;
}

static int let_another_thread_join(void *arg, void **value)
{
    struct foreign *foreign = arg;
    pthread_t thread;
    stint_fork(&foreign->subtask, give_back, arg);
    if (pthread_create(&thread, NULL, join_a_foreign_one, foreign) != 0)
        return EAGAIN;
    pthread_join(thread, NULL);
    return stint_join(&foreign->subtask, value);
}

TEST(a_fork_of_another_thread_is_not_joined)
{
    struct foreign foreign;
    stint_pool *pool = make_pool(.workers = 1);
    const stint_outcome outcome = run_in_pool(pool, let_another_thread_join, &foreign, NULL);
    assert_ok(outcome);
    assert_ptr_equal(outcome.value, &foreign);
    assert_int_equal(foreign.error, EINVAL);
    stint_pool_destroy(pool);
}

TEST(nor_is_one_that_would_run_in_its_join)
{
    struct foreign foreign;
    const stint_outcome outcome = run_task(let_another_thread_join, &foreign, NULL);
    assert_ok(outcome);
    assert_ptr_equal(outcome.value, &foreign);
    assert_int_equal(foreign.error, EINVAL);
}

/* As deep in the thread's forks as the newest of the other thread's. */
struct parent {
    pthread_t thread;
    stint_subtask stolen;
    stint_subtask newest;
    atomic_bool are_forked;
    atomic_uint ran; /* of the newest */
    int error;       /* of the join by the thief */
    atomic_uint thief_ran;
    atomic_bool is_done;
};

static int join_the_parent_s(void *arg, void **value)
{
    struct parent *parent = arg;
    stint_subtask own[2];
    (void)value;
    if (!pthread_equal(pthread_self(), parent->thread)) {
        for (int i = 0; i < 2; i++)
            stint_fork(&own[i], count_run, &parent->thief_ran);
        while (!atomic_load(&parent->are_forked))
            sched_yield();
        parent->error = stint_join(&parent->newest, NULL);
        for (int i = 2; i-- > 0;) {
            if (stint_join(&own[i], NULL) != 0)
                parent->error = EPROTO;
        }
    }
    atomic_store(&parent->is_done, true);
    return 0;
}

static int let_a_thief_join(void *arg, void **value)
{
    struct parent *parent = arg;
    (void)value;
    parent->thread = pthread_self();
    stint_fork(&parent->stolen, join_the_parent_s, parent);
    stint_fork(&parent->newest, count_run, &parent->ran);
    atomic_store(&parent->are_forked, true);
    while (!atomic_load(&parent->is_done)) {
        stint_subtask nothing;
        stint_fork(&nothing, leave_value, NULL);
        stint_join(&nothing, NULL);
        sched_yield();
    }
    int error = stint_join(&parent->newest, NULL);
    return error != 0 ? error : stint_join(&parent->stolen, NULL);
}

TEST(a_thief_does_not_join_a_fork_of_its_parent_s)
{
    struct parent parent = { .error = -1 };
    stint_pool *pool = make_pool(.workers = 2);
    assert_ok(run_in_pool(pool, let_a_thief_join, &parent, NULL));
    assert_int_equal(parent.error, EINVAL);
    assert_int_equal(atomic_load(&parent.thief_ran), 2);
    assert_int_equal(atomic_load(&parent.ran), 1);
    stint_pool_destroy(pool);
}

/* Two subtasks that each wait for the other to begin: only two threads at once get past. A waiting subtask goes on
 * forking, because a fork serves an idle worker. */
struct meeting {
    atomic_uint arrived;
    unsigned wanted;
};

static void wait_for_all(struct meeting *meeting)
{
    while (atomic_load(&meeting->arrived) < meeting->wanted) {
        stint_subtask nothing;
        stint_fork(&nothing, leave_value, NULL);
        stint_join(&nothing, NULL);
        sched_yield();
    }
}

static int arrive(void *arg, void **value)
{
    struct meeting *meeting = arg;
    (void)value;
    atomic_fetch_add(&meeting->arrived, 1);
    wait_for_all(meeting);
    return 0;
}

#define MEETINGS 200

static int meet_again_and_again(void *arg, void **value)
{
    (void)arg;
    (void)value;
    for (unsigned i = 0; i < MEETINGS; i++) {
        struct meeting meeting = { .wanted = 2 };
        stint_subtask other;
        stint_fork(&other, arrive, &meeting);
        arrive(&meeting, NULL);
        if (stint_join(&other, NULL) != 0)
            return EPROTO;
    }
    return 0;
}

TEST(subtasks_run_on_two_workers_at_once)
{
    stint_pool *pool = make_pool(.workers = 2);
    assert_ok(run_in_pool(pool, meet_again_and_again, NULL, NULL));
    stint_pool_destroy(pool);
}

TEST(a_worker_that_has_slept_for_long_is_woken_by_a_fork)
{
    stint_pool *pool = make_pool(.workers = 2);
    for (int i = 0; i < 5; i++) {
        nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
        assert_ok(run_in_pool(pool, meet_again_and_again, NULL, NULL));
    }
    stint_pool_destroy(pool);
}

#define CROWD 5

static int fork_a_crowd(void *arg, void **value)
{
    stint_subtask others[CROWD];
    struct meeting meeting = { .wanted = CROWD };
    int error = 0;
    (void)arg;
    (void)value;
    for (int i = 1; i < CROWD; i++)
        stint_fork(&others[i], arrive, &meeting);
    arrive(&meeting, NULL);
    for (int i = CROWD; i-- > 1;)
        error |= stint_join(&others[i], NULL);
    return error;
}

TEST(every_worker_of_a_large_pool_is_woken)
{
    stint_pool *pool = make_pool(.workers = CROWD);
    for (int i = 0; i < 20; i++)
        assert_ok(run_in_pool(pool, fork_a_crowd, NULL, NULL));
    stint_pool_destroy(pool);
}

/* A subtask that forks in its turn, on a third worker. */
static int pass_on(void *arg, void **value)
{
    struct meeting *meeting = arg;
    stint_subtask next;
    (void)value;
    if (atomic_fetch_add(&meeting->arrived, 1) + 1 == meeting->wanted)
        return 0;
    stint_fork(&next, pass_on, meeting);
    wait_for_all(meeting);
    return stint_join(&next, NULL);
}

TEST(stolen_subtasks_fork_for_others_in_their_turn)
{
    stint_pool *pool = make_pool(.workers = 4);
    for (int i = 0; i < 100; i++) {
        struct meeting meeting = { .wanted = 4 };
        assert_ok(run_in_pool(pool, pass_on, &meeting, NULL));
    }
    stint_pool_destroy(pool);
}

static int masked_fork(void *arg, void **value)
{
    stint_subtask subtask;
    (void)arg;
    stint_mask();
    stint_fork(&subtask, fibonacci, (void *)18);
    int error = stint_join(&subtask, value);
    stint_unmask();
    return error;
}

TEST(a_fork_in_a_masked_region_is_good_too)
{
    everywhere(masked_fork, NULL, (void *)2584);
}

static int run_inside(void *arg, void **value)
{
    stint_subtask around;
    stint_outcome inner;
    void *result = NULL;
    (void)arg;
    stint_fork(&around, fibonacci, (void *)15);
    if (stint_run(fibonacci, (void *)16, NULL, &inner) != 0 || inner.status != STINT_OK)
        return EPROTO;
    int error = stint_join(&around, &result);
    *value = (void *)((uintptr_t)result + (uintptr_t)inner.value);
    return error;
}

TEST(a_scope_inside_a_task_forks_too)
{
    everywhere(run_inside, NULL, (void *)(610 + 987));
}

static stint_pool *pool_of_tasks;

static int submit_and_fork(void *arg, void **value)
{
    uintptr_t n = (uintptr_t)arg;
    stint_subtask left;
    stint_future *future;
    stint_outcome right;
    void *a = NULL;
    *value = arg;
    if (n < 2)
        return 0;
    stint_fork(&left, submit_and_fork, (void *)(n - 1));
    if (stint_submit(pool_of_tasks, submit_and_fork, (void *)(n - 2), NULL, &future) != 0)
        return EPROTO;
    stint_future_wait(future, &right);
    stint_future_release(future);
    if (stint_join(&left, &a) != 0 || right.status != STINT_OK)
        return EPROTO;
    *value = (void *)((uintptr_t)a + (uintptr_t)right.value);
    return 0;
}

TEST(tasks_that_wait_in_between_keep_their_forks_apart)
{
    for (unsigned workers = 1; workers <= 3; workers++) {
        pool_of_tasks = make_pool(.workers = workers);
        const stint_outcome outcome = run_in_pool(pool_of_tasks, submit_and_fork, (void *)14, NULL);
        assert_ok(outcome);
        assert_ptr_equal(outcome.value, (void *)377);
        stint_pool_destroy(pool_of_tasks);
    }
}

TEST(tasks_that_fork_and_tasks_that_do_not_share_a_pool)
{
    stint_pool *pool = make_pool(.workers = 2);
    stint_future *futures[200];
    for (size_t i = 0; i < 200; i++)
        assert_int_equal(
            stint_submit(pool, i % 2 == 0 ? fibonacci : give_back, (void *)(uintptr_t)18, NULL, &futures[i]), 0);
    for (size_t i = 0; i < 200; i++) {
        stint_outcome outcome;
        stint_future_wait(futures[i], &outcome);
        stint_future_release(futures[i]);
        assert_ok(outcome);
        assert_ptr_equal(outcome.value, i % 2 == 0 ? (void *)2584 : (void *)18);
    }
    stint_pool_destroy(pool);
}

/* --- When a thief has ended --------------------------------------------------------------------------------------- */

struct theft {
    stint_token *token;
    atomic_uint begun;
    atomic_bool ended;
    bool ended_before; /* the fork was dropped */
    bool went_on;      /* from the join */
};

static int end_late(void *arg, void **value)
{
    struct theft *theft = arg;
    (void)value;
    atomic_fetch_add(&theft->begun, 1);
    nap_ms(50);
    stint_token_set(theft->token);
    atomic_store(&theft->ended, true);
    return 0;
}

static int drop_what_was_stolen(void *arg, void **value)
{
    struct theft *theft = arg;
    stint_subtask subtask;
    (void)value;
    stint_fork(&subtask, end_late, theft);
    have_stolen(&theft->begun);
    stint_fork_drop(&subtask);
    theft->ended_before = atomic_load(&theft->ended);
    return 0;
}

TEST(a_fork_that_is_dropped_has_ended)
{
    stint_pool *pool = make_pool(.workers = 2);
    struct theft theft = { .token = NULL };
    assert_ok(run_in_pool(pool, drop_what_was_stolen, &theft, NULL));
    assert_true(theft.ended_before);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

static int join_what_was_stolen(void *arg, void **value)
{
    struct theft *theft = arg;
    stint_subtask subtask;
    (void)value;
    stint_fork(&subtask, end_late, theft);
    have_stolen(&theft->begun);
    while (!atomic_load(&theft->ended))
        sched_yield();
    stint_join(&subtask, NULL);
    theft->went_on = true;
    return 0;
}

TEST(the_join_of_what_was_stolen_is_a_sample_point)
{
    stint_pool *pool = make_pool(.workers = 2);
    struct theft theft = { .token = NULL };
    stint_options options = STINT_OPTIONS_INIT;
    assert_int_equal(stint_token_create(NULL, &theft.token), 0);
    options.token = theft.token;
    assert_cancelled(run_in_pool(pool, join_what_was_stolen, &theft, &options), STINT_REASON_TOKEN);
    assert_false(theft.went_on);
    assert_int_equal(stint_pool_destroy(pool), 0);
    stint_token_release(theft.token);
}

TEST_MAIN()
