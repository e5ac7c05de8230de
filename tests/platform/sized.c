/* SPDX-License-Identifier: MIT
 *
 * Functions that take a struct that can grow: each with one of an older program, of a newer one, and one without a
 * size. */
#include "sized.h"

/* --- What takes structs ------------------------------------------------------------------------------------------- */

#define LIMIT 10000 /* bytes that a task may allocate, in all of them */

static unsigned calls;

static int allocate_beyond_limit(void *arg, void **value)
{
    (void)arg;
    (void)value;
    calls++;
    for (int i = 0; i < 2 * LIMIT / 100; i++)
        keep(stint_malloc(100));
    return 0;
}

static int allocate_beyond_limit_next(const stint_outcome *before, void *arg, void **value)
{
    (void)before;
    return allocate_beyond_limit(arg, value);
}

static int end_limited(int error, stint_future *future)
{
    if (error == 0)
        assert_limit_passed(take(future));
    return error;
}

static int run_it(const void *options)
{
    stint_outcome outcome;
    int error = stint_run(allocate_beyond_limit, NULL, options, &outcome);
    if (error == 0)
        assert_limit_passed(outcome);
    return error;
}

static int submit_it(const void *options)
{
    stint_future *future;
    int error = stint_submit(the_pool, allocate_beyond_limit, NULL, options, &future);
    return end_limited(error, future);
}

static int submit_it_and_wait(const void *options)
{
    stint_future *future;
    int error = stint_submit_wait(the_pool, allocate_beyond_limit, NULL, options, STINT_FOREVER, &future);
    return end_limited(error, future);
}

static int submit_it_at(const void *options)
{
    leaves_records(); /* the watch looks after the pool from now on */
    stint_future *future;
    int error = stint_submit_at(the_pool, allocate_beyond_limit, NULL, options, 1, &future);
    return end_limited(error, future);
}

static int submit_it_every_hour(const void *options)
{
    stint_future *future;
    int error = stint_submit_every(the_pool, allocate_beyond_limit, NULL, options, 1, 3600000 * MS, &future);
    return end_limited(error, future);
}

static int submit_it_next(const void *options)
{
    stint_future *future;
    stint_future *before = submit(the_pool, do_nothing, NULL, NULL);
    int error = stint_future_then_submit(before, the_pool, allocate_beyond_limit_next, NULL, options, &future);
    stint_future_release(before);
    return end_limited(error, future);
}

static int submit_it_to_a_serial_queue(const void *options)
{
    stint_serial *serial;
    stint_future *future;
    assert_int_equal(stint_serial_create(the_pool, 0, &serial), 0);
    int error = stint_serial_submit(serial, allocate_beyond_limit, NULL, options, &future);
    stint_serial_release(serial);
    return end_limited(error, future);
}

static int submit_it_to_a_group(const void *options)
{
    stint_group *group;
    stint_outcome outcome;
    assert_int_equal(stint_group_create(&group), 0);
    int error = stint_group_submit(group, the_pool, allocate_beyond_limit, NULL, options);
    assert_int_equal(stint_group_wait(group, &outcome), 0);
    assert_int_equal(outcome.reason, error == 0 ? STINT_REASON_ALLOCATION_LIMIT : STINT_REASON_NONE);
    stint_group_release(group);
    return error;
}

static int make_a_pool(const void *options)
{
    stint_pool *pool = NULL;
    int error = stint_pool_create(options, &pool);
    assert_int_equal(stint_pool_workers(pool), error == 0 ? 3 : 0);
    assert_int_equal(stint_pool_destroy(pool), 0);
    return error;
}

static void assert_limited(stint_account *account, bool limited)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.account = account;
    stint_outcome outcome = run_task(allocate_beyond_limit, NULL, &options);
    assert_int_equal(outcome.reason, limited ? STINT_REASON_ACCOUNT : STINT_REASON_NONE);
    calls--;
}

static int make_an_account(const void *limits)
{
    stint_account *account = NULL;
    int error = stint_account_create(NULL, limits, &account);
    assert_int_equal(account != NULL, error == 0);
    if (error == 0)
        assert_limited(account, true);
    stint_account_release(account);
    return error;
}

static int set_limits(const void *limits)
{
    stint_account *account;
    assert_int_equal(stint_account_create(NULL, NULL, &account), 0);
    int error = stint_account_set_limits(account, limits);
    assert_limited(account, error == 0);
    stint_account_release(account);
    return error;
}

static void *count_alloc(const stint_memprof_allocation *allocation, void *arg)
{
    (void)allocation;
    ++*(unsigned *)arg;
    return NULL;
}

static unsigned sampled;

static int start_following(const void *options)
{
    sampled = 0;
    int error = stint_memprof_start(options);
    run_task(allocate_beyond_limit, NULL, NULL);
    calls--;
    assert_int_equal(sampled > 0, error == 0);
    assert_int_equal(stint_memprof_stop(), error == 0 ? 0 : EINVAL);
    return error;
}

static int start_a_profile(const void *options)
{
    int error = stint_profile_start(options);
    assert_int_equal(stint_profile_stop(), error == 0 ? 0 : EINVAL);
    return error;
}

static const stint_options limited_options = { .size = sizeof(stint_options), .budget = { .allocation = LIMIT } };
static const stint_pool_options three_workers = { .size = sizeof(stint_pool_options), .workers = 3 };
static const stint_account_limits limits = { .size = sizeof(stint_account_limits), .allocation = LIMIT };
static const stint_memprof_options every_block = {
    .size = sizeof(stint_memprof_options), .interval = 8, .tracker = { .alloc = count_alloc }, .arg = &sampled
};
static const stint_profile_options often = { .size = sizeof(stint_profile_options), .interval = 8 };

static const struct taker {
    int (*call)(const void *given);
    const void *ours;
    size_t size;
    size_t older;
    size_t first; /* of release 0.1.0: never to be changed when that is out */
    unsigned calls;
} takers[] = {
    { run_it, &limited_options, LESS(stint_options, completions), 136, 1 },
    { submit_it, &limited_options, LESS(stint_options, completions), 136, 1 },
    { submit_it_and_wait, &limited_options, LESS(stint_options, completions), 136, 1 },
    { submit_it_at, &limited_options, LESS(stint_options, completions), 136, 1 },
    { submit_it_every_hour, &limited_options, LESS(stint_options, completions), 136, 1 },
    { submit_it_next, &limited_options, LESS(stint_options, completions), 136, 1 },
    { submit_it_to_a_serial_queue, &limited_options, LESS(stint_options, completions), 136, 1 },
    { submit_it_to_a_group, &limited_options, LESS(stint_options, completions), 136, 1 },
    { make_a_pool, &three_workers, LESS(stint_pool_options, worker_begins), 104, 0 },
    { make_an_account, &limits, LESS(stint_account_limits, weight), 56, 0 },
    { set_limits, &limits, LESS(stint_account_limits, weight), 56, 0 },
    { start_following, &every_block, LESS(stint_memprof_options, seed), 72, 0 },
    { start_a_profile, &often, LESS(stint_profile_options, seed), 40, 0 },
};

/* Calls this taker with the struct, whose first bytes are those of ours. */
static int give_it(const struct taker *taker, char *given, size_t bytes, size_t size)
{
    memcpy(given, taker->ours, bytes);
    set_size(given, size);
    unsigned before = calls;
    int error = taker->call(given);
    assert_int_equal(calls - before, error == 0 ? taker->calls : 0);
    return error;
}

TEST_WITH(an_older_smaller_struct_is_taken_and_works, NULL, end_earlier_release)
{
    const struct taker *taker;
    FOR_EACH(taker, takers)
    {
        earlier = taker->older;
        assert_int_equal(give_it(taker, make_struct(taker->older), taker->older, taker->older), 0);
    }
}

TEST(a_newer_struct_that_asks_for_nothing_new_is_taken_and_works)
{
    const struct taker *taker;
    FOR_EACH(taker, takers)
    {
        char *given = make_struct(taker->size + BEYOND);
        memset(given, 0, taker->size + BEYOND);
        assert_int_equal(give_it(taker, given, taker->size, taker->size + BEYOND), 0);
    }
}

TEST(a_newer_struct_that_asks_for_something_new_is_refused)
{
    const struct taker *taker;
    FOR_EACH(taker, takers)
    {
        for (size_t at = 0; at < BEYOND; at += BEYOND - 1) {
            char *given = make_struct(taker->size + BEYOND);
            memset(given, 0, taker->size + BEYOND);
            given[taker->size + at] = 1;
            assert_int_equal(give_it(taker, given, taker->size, taker->size + BEYOND), E2BIG);
        }
    }
}

TEST(a_struct_without_a_size_is_refused)
{
    const struct taker *taker;
    FOR_EACH(taker, takers)
    {
        const size_t sizes[] = { 0, 1, sizeof(size_t), taker->older, taker->first - 1, STI_SIZED_MAX + 1, SIZE_MAX };
        for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++) {
            char *given = make_struct(ROOM);
            memset(given, 0, ROOM);
            assert_int_equal(give_it(taker, given, taker->size, sizes[j]), EINVAL);
        }
    }
}

TEST(the_largest_struct_is_as_large_as_a_page)
{
    const struct taker *taker;
    FOR_EACH(taker, takers)
    {
        char *given = make_struct(STI_SIZED_MAX);
        memset(given, 0, STI_SIZED_MAX);
        assert_int_equal(give_it(taker, given, taker->size, STI_SIZED_MAX), 0);
    }
}

TEST(what_the_first_release_takes_stays_as_large_as_it_was)
{
    const struct taker *taker;
    FOR_EACH(taker, takers)
    {
        give_it(taker, make_struct(taker->size), taker->size, 0);
        assert_int_equal(as_first, taker->first);
    }
}

TEST_MAIN_WITH(make_the_pool, destroy_the_pool)
