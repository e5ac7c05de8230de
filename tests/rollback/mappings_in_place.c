/* SPDX-License-Identifier: MIT
 *
 * What a task maps or moves to a place of its choice, where there is something of its own, of the process's, and
 * nothing, side by side: what was free counts and goes with a rollback, what is in the place of somebody's is his. */
#include "support.h"

#include <sys/mman.h>

#define PAGE ((size_t)4096)
#define FIXED (MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED)
#define BOTH (PROT_READ | PROT_WRITE)

/* What a task is to do, and has done; on the test's stack, which is no root. */
struct work {
    char *outside; /* of the process's */
    char *made;
    size_t done;
    uint64_t left; /* of the limit, */
    int seen;      /* an errno value, */
    int error;     /* that it ends with */
};

static char *map_memory(size_t size)
{
    return mmap(NULL, size, BOTH, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static char *map_there(char *place, size_t size, int protection)
{
    return mmap(place, size, protection, FIXED, -1, 0);
}

static bool is_there(const char *address, size_t size)
{
    return msync((void *)(uintptr_t)address, size, MS_ASYNC) == 0;
}

/* Not one page. */
static bool is_gone(const char *address, size_t size)
{
    for (size_t at = 0; at < size; at += PAGE) {
        if (is_there(address + at, PAGE))
            return false;
    }
    return true;
}

static uint64_t memory_left(void)
{
    stint_budget left;
    stint_usage_now(NULL, &left);
    return left.memory;
}

static stint_outcome run_limited(stint_fn *fn, struct work *work, size_t memory)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.memory = memory;
    options.on_interrupt = STINT_FAIL;
    return run_task(fn, work, &options);
}

static stint_outcome run(stint_fn *fn, struct work *work)
{
    return run_limited(fn, work, 64 * MIB);
}

/* A place in which nothing is. */
static char *free_place(size_t size)
{
    char *place = map_memory(size);
    munmap(place, size);
    return place;
}

/* --- mmap --- */

static int map_over_own_and_free(void *arg, void **value)
{
    struct work *work = arg;
    (void)value;
    work->made = map_memory(8 * MIB);
    munmap(work->made + MIB, 2 * MIB);
    munmap(work->made + 4 * MIB, 4 * MIB);
    work->seen = map_there(work->made, 8 * MIB, BOTH) != work->made;
    memset(work->made, 1, 8 * MIB);
    work->left = memory_left();
    return work->error;
}

TEST(where_own_and_free_pages_lie_side_by_side_all_are_the_task_s)
{
    struct work work = { .error = EIO };
    run(map_over_own_and_free, &work);
    assert_int_equal(work.seen, 0);
    assert_int_equal(work.left, 56 * MIB);
    assert_true(is_gone(work.made, 8 * MIB));
    work.error = 0;
    assert_ok(run(map_over_own_and_free, &work));
    assert_true(is_there(work.made, 8 * MIB));
    munmap(work.made, 8 * MIB);
}

/* Each begins with the last page of the one before it. */
static int map_chain(void *arg, void **value)
{
    struct work *work = arg;
    (void)value;
    if (map_there(work->made, PAGE, BOTH) != work->made)
        return EIO;
    for (; work->done < 64; work->done++) {
        if (map_there(work->made + work->done * MIB, MIB + PAGE, BOTH) == MAP_FAILED)
            return errno;
    }
    return EIO;
}

TEST(no_chain_of_them_passes_the_memory_limit)
{
    struct work work = { .made = free_place(65 * MIB) };
    stint_outcome outcome = run_limited(map_chain, &work, 4 * MIB);
    assert_outcome(outcome, STINT_ERROR, STINT_REASON_MEMORY_LIMIT, ENOMEM);
    assert_in_range(work.done, 2, 4);
    assert_true(is_gone(work.made, 65 * MIB));
}

/* Pages of the process's at 1 and from 3 to 5 MiB, of the task's at 6. */
static int map_over_all(void *arg, void **value)
{
    struct work *work = arg;
    (void)value;
    map_there(work->made + 6 * MIB, MIB, PROT_NONE);
    work->seen = map_there(work->made, 8 * MIB, BOTH) != work->made;
    memset(work->made, 1, 8 * MIB);
    work->left = memory_left();
    return EIO;
}

TEST(in_the_place_of_the_process_s_pages_they_stay_and_around_them_they_go)
{
    struct work work = { .made = free_place(8 * MIB) };
    map_there(work.made + MIB, PAGE, BOTH);
    map_there(work.made + 3 * MIB, 2 * MIB, PROT_NONE);
    stint_outcome outcome = run(map_over_all, &work);
    assert_int_equal(work.seen, 0);
    assert_int_equal(work.left, 64 * MIB - 6 * MIB + PAGE);
    assert_in_range(outcome.usage.allocated, 8 * MIB, 8 * MIB + KIB);
    assert_true(is_gone(work.made, MIB) && is_gone(work.made + MIB + PAGE, 2 * MIB - PAGE));
    assert_true(is_gone(work.made + 5 * MIB, 3 * MIB));
    assert_true(is_there(work.made + MIB, PAGE) && is_there(work.made + 3 * MIB, 2 * MIB));
    work.made[3 * MIB] = 1;
    munmap(work.made, 8 * MIB);
}

/* In a pipe nothing can be mapped. */
static int map_in_vain(void *arg, void **value)
{
    struct work *work = arg;
    int both[2];
    (void)value;
    map_there(work->made + MIB, MIB, BOTH);
    if (pipe(both) != 0)
        return errno;
    void *made = mmap(work->made, 8 * MIB, PROT_READ, MAP_PRIVATE | MAP_FIXED, both[0], 0);
    work->seen = made == MAP_FAILED ? errno : 0;
    close(both[0]);
    close(both[1]);
    work->done = is_gone(work->made, MIB) && is_gone(work->made + 2 * MIB, 6 * MIB);
    work->left = memory_left();
    return EIO;
}

TEST(one_that_fails_leaves_free_what_was_free)
{
    struct work work = { .made = free_place(8 * MIB) };
    run(map_in_vain, &work);
    assert_int_equal(work.seen, ENODEV);
    assert_int_equal(work.done, 1);
    assert_int_equal(work.left, 63 * MIB);
    assert_true(is_gone(work.made, 8 * MIB));
}

static int map_to_keep(void *arg, void **value)
{
    struct work *work = arg;
    (void)value;
    map_there(work->made, MIB, BOTH);
    stint_keep_begin();
    map_there(work->made, 2 * MIB, BOTH);
    stint_keep_end();
    work->left = memory_left();
    return EIO;
}

TEST(what_is_mapped_to_be_kept_is_the_process_s_where_nothing_was)
{
    struct work work = { .made = free_place(2 * MIB) };
    run(map_to_keep, &work);
    assert_int_equal(work.left, 63 * MIB);
    assert_true(is_gone(work.made, MIB));
    assert_true(is_there(work.made + MIB, MIB));
    munmap(work.made + MIB, MIB);
}

/* --- mremap --- */

static int move_into(void *arg, void **value)
{
    struct work *work = arg;
    (void)value;
    work->made = map_memory(4 * MIB);
    memset(work->made, 7, 4 * MIB);
    work->seen = mremap(work->made, 4 * MIB, 4 * MIB, MREMAP_MAYMOVE | MREMAP_FIXED, work->outside) == MAP_FAILED;
    work->left = memory_left();
    return EIO;
}

TEST(what_is_moved_into_the_process_s_pages_leaves_no_hole_there)
{
    struct work work = { .outside = map_memory(4 * MIB) };
    run(move_into, &work);
    assert_int_equal(work.seen, 0);
    assert_int_equal(work.left, 64 * MIB);
    assert_true(is_there(work.outside, 4 * MIB) && is_gone(work.made, 4 * MIB));
    assert_int_equal(work.outside[MIB], 7);
    munmap(work.outside, 4 * MIB);
}

TEST(where_some_are_the_process_s_and_some_free_each_goes_or_stays)
{
    struct work work = { .outside = free_place(4 * MIB) };
    map_there(work.outside + MIB, MIB, PROT_NONE);
    map_there(work.outside + 3 * MIB, PAGE, PROT_NONE);
    run(move_into, &work);
    assert_int_equal(work.seen, 0);
    assert_int_equal(work.left, 64 * MIB - 3 * MIB + PAGE);
    assert_true(is_gone(work.outside, MIB) && is_gone(work.outside + 2 * MIB, MIB));
    assert_true(is_there(work.outside + MIB, MIB) && is_there(work.outside + 3 * MIB, PAGE));
    assert_true(is_gone(work.outside + 3 * MIB + PAGE, MIB - PAGE));
    munmap(work.outside, 4 * MIB);
}

/* Of two, which cannot be moved and grow at once, to where something is and something not. */
static int move_in_vain(void *arg, void **value)
{
    struct work *work = arg;
    (void)value;
    work->made = map_memory(4 * MIB);
    munmap(work->made + MIB, PAGE);
    char *place = map_memory(5 * MIB);
    munmap(place + 2 * MIB, 3 * MIB);
    void *moved = mremap(work->made, 4 * MIB, 5 * MIB, MREMAP_MAYMOVE | MREMAP_FIXED, place);
    work->seen = moved == MAP_FAILED ? errno : 0;
    work->done = is_gone(place + 2 * MIB, 3 * MIB);
    work->left = memory_left() + (is_there(place, 2 * MIB) ? 2 * MIB : 0);
    work->outside = place;
    return EIO;
}

TEST(a_move_that_fails_leaves_free_what_was_free)
{
    struct work work = { .outside = NULL };
    run(move_in_vain, &work);
    assert_int_equal(work.seen, EFAULT);
    assert_int_equal(work.done, 1);
    assert_int_equal(work.left, 60 * MIB + PAGE);
    assert_true(is_gone(work.made, 4 * MIB) && is_gone(work.outside, 5 * MIB));
}

/* Of a scope inside it, which fails. */
static int map_and_run_inside(void *arg, void **value)
{
    struct work *work = arg;
    struct work inner = { .outside = map_memory(4 * MIB) };
    stint_outcome outcome;
    (void)value;
    stint_run(move_into, &inner, NULL, &outcome);
    work->done = is_there(inner.outside, 4 * MIB);
    work->left = memory_left();
    work->made = inner.outside;
    return EIO;
}

TEST(nor_is_a_hole_left_in_the_pages_of_the_scope_around)
{
    struct work work = { .outside = NULL };
    run(map_and_run_inside, &work);
    assert_int_equal(work.done, 1);
    assert_int_equal(work.left, 60 * MIB);
    assert_true(is_gone(work.made, 4 * MIB));
}

/* --- mprotect --- */

/* The last page is not there, so it fails, but for what lies before it. */
static int protect_too_much(void *arg, void **value)
{
    struct work *work = arg;
    (void)value;
    work->made = mmap(NULL, 64 * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(work->made + 63 * MIB, MIB);
    for (size_t at = 0; at < 63; at++) {
        if (mprotect(work->made, (at + 1) * MIB, BOTH) != 0 && errno == ENOMEM)
            break;
        work->done = at + 1;
    }
    work->left = memory_left();
    work->seen = mprotect(work->made, 64 * MIB, BOTH) != 0 ? errno : 0;
    return EIO;
}

static int protect_to_beyond_the_end(void *arg, void **value)
{
    struct work *work = arg;
    (void)value;
    work->made = mmap(NULL, 8 * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(work->made + 7 * MIB, MIB);
    work->seen = mprotect(work->made, 8 * MIB, BOTH) != 0 ? errno : 0;
    memset(work->made, 1, 7 * MIB);
    work->left = memory_left();
    return EIO;
}

TEST(what_a_protection_that_fails_has_made_writable_counts)
{
    struct work work = { .outside = NULL };
    run(protect_to_beyond_the_end, &work);
    assert_int_equal(work.seen, ENOMEM);
    assert_int_equal(work.left, 57 * MIB);
    assert_true(is_gone(work.made, 8 * MIB));
    work = (struct work){ .outside = NULL };
    stint_outcome outcome = run_limited(protect_too_much, &work, 4 * MIB);
    assert_outcome(outcome, STINT_ERROR, STINT_REASON_MEMORY_LIMIT, ENOMEM);
    assert_int_equal(work.done, 4);
    assert_int_equal(work.seen, ENOMEM);
}

TEST_MAIN()
