/* SPDX-License-Identifier: MIT
 *
 * Forks of functions with types of their own: the same results and errors as stint_fork and stint_join, wherever they
 * run. */
#include "pools.h"

STINT_FORKABLE(fib, long, int)

static long fib(stint_here here, int n)
{
    struct fib_subtask left;
    long sum;
    if (n < 2)
        return n;
    fib_fork(here, &left, n - 1);
    long right = fib(here, n - 2);
    if (fib_join(here, &left, &sum) != 0)
        return 0;
    return sum + right;
}

static int run_fib(void *arg, void **value)
{
    *value = (void *)fib(stint_here_current(), *(int *)arg);
    return 0;
}

static long fib_in_pool(unsigned workers, int n)
{
    stint_pool_options pool_options = { .size = sizeof(stint_pool_options), .workers = workers };
    stint_pool *pool;
    stint_future *future;
    stint_outcome outcome;
    assert_int_equal(stint_pool_create(&pool_options, &pool), 0);
    assert_int_equal(stint_submit(pool, run_fib, &n, NULL, &future), 0);
    assert_int_equal(stint_future_wait(future, &outcome), 0);
    assert_ok(outcome);
    stint_future_release(future);
    assert_int_equal(stint_pool_destroy(pool), 0);
    return (long)outcome.value;
}

TEST(results_are_right_on_any_number_of_workers)
{
    assert_int_equal(fib_in_pool(1, 24), 46368);
    for (int round = 0; round < 20; round++)
        assert_int_equal(fib_in_pool(3, 24), 46368);
}

TEST(results_are_right_outside_of_a_pool)
{
    assert_int_equal(fib(stint_here_current(), 15), 610);
    int n = 15;
    stint_outcome outcome = run_task(run_fib, &n, NULL);
    assert_ok(outcome);
    assert_int_equal((long)outcome.value, 610);
}

/* --- On another thread -------------------------------------------------------------------------------------------- */

static pthread_t thief;
static atomic_bool was_stolen;

struct note {
    int number;
    void *block;
};

STINT_FORKABLE(note_thread, struct note, int)

static struct note note_thread(stint_here here, int number)
{
    (void)here;
    thief = pthread_self();
    atomic_store(&was_stolen, true);
    return (struct note){ number, stint_strdup("from there") };
}

static int have_one_stolen(void *arg, void **value)
{
    stint_here here = stint_here_current();
    struct note_thread_subtask stolen;
    struct fib_subtask asked;
    long unused;
    struct note note;
    (void)arg;
    atomic_store(&was_stolen, false);
    note_thread_fork(here, &stolen, 7);
    while (!atomic_load(&was_stolen)) { /* each fork looks whether another worker asks for work */
        fib_fork(here, &asked, 1);
        fib_join(here, &asked, &unused);
    }
    assert_false(pthread_equal(thief, pthread_self()));
    int error = note_thread_join(here, &stolen, &note);
    assert_int_equal(note.number, 7);
    *value = note.block;
    return error;
}

TEST(what_another_worker_returns_arrives_and_belongs_to_the_task)
{
    for (int i = 0; i < 20; i++) {
        stint_pool_options pool_options = { .size = sizeof(stint_pool_options), .workers = 2 };
        stint_pool *pool;
        stint_future *future;
        stint_outcome outcome;
        assert_int_equal(stint_pool_create(&pool_options, &pool), 0);
        assert_int_equal(stint_submit(pool, have_one_stolen, NULL, NULL, &future), 0);
        assert_int_equal(stint_future_wait(future, &outcome), 0);
        assert_ok(outcome);
        assert_string_equal(outcome.value, "from there");
        stint_free(outcome.value);
        stint_future_release(future);
        assert_int_equal(stint_pool_destroy(pool), 0);
    }
}

/* --- Mixed, deep, and wrong
 * ---------------------------------------------------------------------------------------- */

static int add_one(void *arg, void **value)
{
    (void)value;
    ++*(int *)arg;
    return 0;
}

static int mix(void *arg, void **value)
{
    stint_here here = stint_here_current();
    int *count = arg;
    stint_subtask plain[3];
    struct fib_subtask typed[3];
    long sum = 0;
    (void)value;
    for (int i = 0; i < 3; i++) {
        stint_fork(&plain[i], add_one, &count[i]);
        fib_fork(here, &typed[i], 10 + i);
    }
    for (int i = 0; i < 3; i++) { /* oldest first */
        long result;
        if (fib_join(here, &typed[i], &result) != 0 || stint_join(&plain[i], NULL) != 0)
            return EIO;
        sum += result;
    }
    return sum == 55 + 89 + 144 && count[0] == 1 && count[1] == 1 && count[2] == 1 ? 0 : ERANGE;
}

static void run_with_two_workers(stint_fn *fn, void *arg)
{
    stint_pool *pool = make_pool(.workers = 2);
    assert_ok(run_in_pool(pool, fn, arg, NULL));
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(both_kinds_of_forks_may_be_mixed_and_joined_in_any_order)
{
    for (int i = 0; i < 20; i++)
        run_with_two_workers(mix, (int[3]){ 0 });
}

STINT_FORKABLE(descend, int, int)

static int descend(stint_here here, int left)
{
    struct descend_subtask deeper, beside;
    int result, other;
    if (left == 0)
        return 0;
    descend_fork(here, &beside, 0);
    descend_fork(here, &deeper, left - 1);
    if (descend_join(here, &deeper, &result) != 0 || descend_join(here, &beside, &other) != 0)
        return -1;
    return result + other + 1;
}

static int descend_far(void *arg, void **value)
{
    (void)arg;
    (void)value;
    return descend(stint_here_current(), 6000) == 6000 ? 0 : ERANGE;
}

TEST(more_forks_may_be_outstanding_than_there_are_places)
{
    run_with_two_workers(descend_far, NULL);
}

static int join_twice(void *arg, void **value)
{
    stint_here here = stint_here_current();
    struct fib_subtask subtask;
    long result = 1;
    (void)arg;
    (void)value;
    fib_fork(here, &subtask, 10);
    if (fib_join(here, &subtask, &result) != 0 || result != 55)
        return EIO;
    return fib_join(here, &subtask, &result) == EINVAL && result == 0 ? 0 : ERANGE;
}

TEST(a_second_join_is_refused_and_gives_zeros)
{
    run_with_two_workers(join_twice, NULL);
}

STINT_FORKABLE(count_to, int, int)

static int count_to(stint_here here, int last)
{
    (void)here;
    return last;
}

/* The caller's fork lies where this one would look. */
static int join_once_too_often(stint_here here)
{
    struct count_to_subtask twice;
    int result = 1;
    count_to_fork(here, &twice, 7);
    if (count_to_join(here, &twice, &result) != 0 || result != 7)
        return EIO;
    return count_to_join(here, &twice, &result) == EINVAL && result == 0 ? 0 : ERANGE;
}

static int join_more_than_was_forked(void *arg, void **value)
{
    stint_here here = stint_here_current();
    struct fib_subtask outer;
    long result;
    (void)arg;
    (void)value;
    fib_fork(here, &outer, 10);
    int error = join_once_too_often(here);
    if (fib_join(here, &outer, &result) != 0 || result != 55)
        return EPROTO;
    return error;
}

TEST(a_join_too_many_leaves_the_forks_of_callers_alone)
{
    run_with_two_workers(join_more_than_was_forked, NULL);
    assert_ok(run_task(join_more_than_was_forked, NULL, NULL));
}

/* As much as fits. */
struct six {
    uint64_t words[6];
};

STINT_FORKABLE(rotate, struct six, struct six)

static struct six rotate(stint_here here, struct six six)
{
    struct rotate_subtask left;
    struct six result;
    if (six.words[5] == 0)
        return six;
    struct six less = six;
    less.words[5]--;
    rotate_fork(here, &left, less);
    if (rotate_join(here, &left, &result) != 0)
        return (struct six){ { 0 } };
    for (int i = 0; i < 5; i++)
        result.words[i] = result.words[i] * 31 + six.words[i];
    return result;
}

static int rotate_forks(void *arg, void **value)
{
    stint_here here = stint_here_current();
    struct rotate_subtask subtasks[8];
    const struct six start = { { 1, 2, 3, 4, 5, 100 } };
    (void)arg;
    (void)value;
    struct six expected = rotate(here, start);
    for (int i = 0; i < 8; i++)
        rotate_fork(here, &subtasks[i], start);
    for (int i = 8; i-- > 0;) {
        struct six result;
        if (rotate_join(here, &subtasks[i], &result) != 0)
            return EIO;
        if (memcmp(&result, &expected, sizeof result) != 0)
            return ERANGE;
    }
    return 0;
}

TEST(arguments_and_results_of_many_words_arrive_whole)
{
    for (int i = 0; i < 200; i++)
        run_with_two_workers(rotate_forks, NULL);
}

static int fork_and_forget(void *arg, void **value)
{
    static struct fib_subtask forgotten;
    (void)arg;
    (void)value;
    return fib_fork(stint_here_current(), &forgotten, 10);
}

TEST(a_fork_that_is_forgotten_fails_its_task)
{
    stint_outcome outcome = run_task(fork_and_forget, NULL, NULL);
    assert_outcome(outcome, STINT_ERROR, STINT_REASON_FAILED, EINVAL);
}

/* --- Interrupted -------------------------------------------------------------------------------------------------- */

static volatile bool for_ever = true;

STINT_FORKABLE(allocate, int, int)

static int allocate(stint_here here, int depth)
{
    struct allocate_subtask left;
    int result;
    while (depth == 0 && for_ever)
        memset(keep(stint_malloc(1000)), 1, 1000);
    if (depth == 0)
        return 0;
    allocate_fork(here, &left, depth - 1);
    allocate(here, depth - 1);
    return allocate_join(here, &left, &result);
}

static int allocate_for_ever(void *arg, void **value)
{
    (void)arg;
    (void)value;
    return allocate(stint_here_current(), 4);
}

TEST(a_limit_ends_the_task_with_all_its_forks)
{
    stint_pool_options pool_options = { .size = sizeof(stint_pool_options), .workers = 2 };
    stint_pool *pool;
    assert_int_equal(stint_pool_create(&pool_options, &pool), 0);
    for (int i = 0; i < 50; i++) {
        stint_options options = STINT_OPTIONS_INIT;
        stint_future *future;
        stint_outcome outcome;
        options.budget.memory = MIB;
        assert_int_equal(stint_submit(pool, allocate_for_ever, NULL, &options, &future), 0);
        assert_int_equal(stint_future_wait(future, &outcome), 0);
        assert_int_equal(outcome.reason, STINT_REASON_MEMORY_LIMIT);
        stint_future_release(future);
    }
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST_MAIN()
