/* SPDX-License-Identifier: MIT
 *
 * Functions that fill a struct that can grow: each with one of an older program, of a newer one, and one without a
 * size. */
#include "sized.h"

static stint_account *the_account;

static int read_account(void *usage)
{
    return stint_account_read(the_account, usage);
}

static int read_pool_s(void *statistics)
{
    return stint_pool_read(the_pool, statistics);
}

static int read_worker_s(void *statistics)
{
    return stint_pool_read_worker(the_pool, 0, statistics);
}

static int check_linkage(void *report)
{
    return stint_link_check(report);
}

static int read_profile(void *totals)
{
    return stint_profile_read(totals);
}

static const struct filler {
    int (*call)(void *given);
    size_t size;
    size_t older;
    size_t first; /* of release 0.1.0: never to be changed when that is out */
} fillers[] = {
    { read_account, LESS(stint_account_usage, waiting), 48 },
    { read_pool_s, LESS(stint_pool_statistics, substitutes), 336 },
    { read_worker_s, LESS(stint_worker_statistics, queued), 40 },
    { check_linkage, LESS(stint_link_report, off), 40 },
    { read_profile, LESS(stint_profile_totals, lost), 56 },
};

static int allocate_some(void *arg, void **value)
{
    (void)arg;
    (void)value;
    for (int i = 0; i < 200; i++)
        keep(stint_malloc(100));
    return 0;
}

/* There is something to be read. */
static int make_numbers(void **state)
{
    stint_options options = STINT_OPTIONS_INIT;
    stint_outcome outcome;
    (void)state;
    if (stint_account_create(NULL, NULL, &the_account) != 0)
        return -1;
    options.account = the_account;
    stint_profile_options profile = STINT_PROFILE_OPTIONS_INIT;
    profile.interval = 64;
    if (stint_profile_start(&profile) != 0 || stint_run(allocate_some, NULL, &options, &outcome) != 0)
        return -1;
    release_all((stint_future *[]){ submit(the_pool, do_nothing, NULL, NULL) }, 1);
    return stint_profile_stop();
}

static int end_numbers(void **state)
{
    end_earlier_release(state);
    stint_account_release(the_account);
    return 0;
}

static size_t size_of(const char *given)
{
    size_t size;
    memcpy(&size, given, sizeof size);
    return size;
}

static void assert_all(const char *from, size_t size, char wanted)
{
    for (size_t i = 0; i < size; i++)
        assert_int_equal(from[i], wanted);
}

/* Fills a struct of this size, and one of ours before and after it; the two of ours must agree, and their fields must
 * be in the first. */
static const char *fill_it(const struct filler *filler, size_t size)
{
    _Alignas(16) char ours[ROOM];
    _Alignas(16) char again[ROOM];
    char *given;
    size_t known = size < filler->size ? size : filler->size;
    do {
        given = make_struct(size);
        set_size(ours, filler->size);
        set_size(again, filler->size);
        set_size(given, size);
        assert_int_equal(filler->call(ours), 0);
        assert_int_equal(filler->call(given), 0);
        assert_int_equal(filler->call(again), 0);
    } while (memcmp(ours, again, filler->size) != 0);
    assert_int_equal(size_of(ours), filler->size);
    assert_int_equal(size_of(given), size);
    assert_memory_equal(given + sizeof(size_t), ours + sizeof(size_t), known - sizeof(size_t));
    return given;
}

TEST_WITH(an_older_smaller_struct_is_filled_and_nothing_behind_it, make_numbers, end_numbers)
{
    const struct filler *filler;
    FOR_EACH(filler, fillers)
    {
        earlier = filler->older;
        const char *given = fill_it(filler, filler->older);
        assert_all(given - BEYOND, BEYOND, (char)0xa5);
    }
}

TEST_WITH(what_only_a_newer_struct_has_is_filled_with_zeros, make_numbers, end_numbers)
{
    const struct filler *filler;
    FOR_EACH(filler, fillers)
    assert_all(fill_it(filler, filler->size + BEYOND) + filler->size, BEYOND, 0);
}

TEST_WITH(a_struct_without_a_size_is_not_filled, make_numbers, end_numbers)
{
    const struct filler *filler;
    FOR_EACH(filler, fillers)
    {
        const size_t sizes[] = { 0, 1, sizeof(size_t), filler->older, filler->size - 1, STI_SIZED_MAX + 1, SIZE_MAX };
        for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++) {
            char *given = make_struct(ROOM);
            set_size(given, sizes[j]);
            assert_int_equal(filler->call(given), EINVAL);
            assert_true(size_of(given) == sizes[j]);
            assert_all(given + sizeof(size_t), ROOM - sizeof(size_t), (char)0xa5);
        }
    }
}

TEST_WITH(what_the_first_release_fills_stays_as_large_as_it_was, make_numbers, end_numbers)
{
    const struct filler *filler;
    FOR_EACH(filler, fillers)
    {
        fill_it(filler, filler->size);
        assert_int_equal(as_first, filler->first);
    }
}

TEST_MAIN_WITH(make_the_pool, destroy_the_pool)
