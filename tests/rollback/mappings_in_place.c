/* SPDX-License-Identifier: MIT
 *
 * A mapping that a task makes or moves at a chosen place. In a free place it counts, and a rollback unmaps it; in the
 * place of another owner's mapping it is that owner's; if a part of the place is in use, the call is refused, as are
 * all moves to a place. */
#include "support.h"

#include <sys/mman.h>

#define PAGE ((size_t)getpagesize())
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

/* Something is in its second and its fourth MiB. */
static int map_over_own_and_free(void *arg, void **value)
{
    struct work *work = arg;
    (void)value;
    work->made = map_memory(8 * MIB);
    munmap(work->made, MIB);
    munmap(work->made + 2 * MIB, MIB);
    munmap(work->made + 4 * MIB, 4 * MIB);
    work->made[MIB] = 5;
    work->seen = map_there(work->made, 8 * MIB, BOTH) == MAP_FAILED ? errno : 0;
    work->done = work->made[MIB] == 5 && is_gone(work->made + 2 * MIB, MIB) && is_gone(work->made + 4 * MIB, 4 * MIB);
    work->left = memory_left();
    return work->error;
}

TEST(where_own_and_free_pages_lie_side_by_side_it_is_refused_and_nothing_is_changed)
{
    struct work work = { .error = EIO };
    run(map_over_own_and_free, &work);
    assert_int_equal(work.seen, EEXIST);
    assert_int_equal(work.done, 1);
    assert_int_equal(work.left, 62 * MIB);
    assert_true(is_gone(work.made, 8 * MIB));
}

/* Behind each other. */
static int map_chain(void *arg, void **value)
{
    struct work *work = arg;
    (void)value;
    for (; work->done < 64; work->done++) {
        if (map_there(work->made + work->done * MIB, MIB, BOTH) == MAP_FAILED)
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

/* Pages of the process's and of the task's side by side. */
static int map_over_all(void *arg, void **value)
{
    struct work *work = arg;
    (void)value;
    map_there(work->made + 3 * MIB, MIB, PROT_NONE);
    work->seen = map_there(work->made, 4 * MIB, BOTH) != work->made;
    memset(work->made, 1, 4 * MIB);
    work->left = memory_left();
    return EIO;
}

TEST(in_the_place_of_the_process_s_pages_they_stay_and_beside_them_they_go)
{
    struct work work = { .made = free_place(4 * MIB) };
    map_there(work.made, 3 * MIB, PROT_NONE);
    stint_outcome outcome = run(map_over_all, &work);
    assert_int_equal(work.seen, 0);
    assert_int_equal(work.left, 63 * MIB);
    assert_in_range(outcome.usage.allocated, 4 * MIB, 4 * MIB + KIB);
    assert_true(is_there(work.made, 3 * MIB) && is_gone(work.made + 3 * MIB, MIB));
    work.made[2 * MIB] = 1;
    munmap(work.made, 3 * MIB);
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
    void *made = mmap(work->made + 2 * MIB, 6 * MIB, PROT_READ, MAP_PRIVATE | MAP_FIXED, both[0], 0);
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

/* A place of the task's choice, the same pages mapped twice, and an old place that stays. */
static int move_specially(void *arg, void **value)
{
    struct work *work = arg;
    (void)value;
    work->made = map_memory(4 * MIB);
    work->made[0] = 7;
    char *of[] = { work->made, work->outside };
    for (size_t i = 0; i < 2; i++) {
        char *other = of[1 - i];
        work->done += mremap(of[i], MIB, MIB, MREMAP_MAYMOVE | MREMAP_FIXED, other) == MAP_FAILED && errno == ENOTSUP;
        work->done += mremap(of[i], 0, MIB, MREMAP_MAYMOVE) == MAP_FAILED && errno == ENOTSUP;
        work->done +=
            mremap(of[i], MIB, MIB, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL) == MAP_FAILED && errno == ENOTSUP;
    }
    work->left = memory_left();
    return work->made[0] == 7 ? EIO : EINVAL;
}

TEST(what_moves_to_a_place_or_leaves_the_old_one_is_refused_in_a_task)
{
    struct work work = { .outside = map_memory(4 * MIB) };
    work.outside[0] = 8;
    assert_int_equal(run(move_specially, &work).error, EIO);
    assert_int_equal(work.done, 6);
    assert_int_equal(work.left, 60 * MIB);
    assert_true(is_gone(work.made, 4 * MIB));
    assert_int_equal(work.outside[0], 8);
    munmap(work.outside, 4 * MIB);
}

static void *move_from_outside(void *arg)
{
    struct work *work = arg;
    char *own = map_memory(MIB);
    work->seen = mremap(own, MIB, MIB, MREMAP_MAYMOVE | MREMAP_FIXED, work->made + MIB) == MAP_FAILED ? errno : 0;
    char *place = free_place(MIB);
    work->done += mremap(own, MIB, MIB, MREMAP_MAYMOVE | MREMAP_FIXED, place) == place;
    work->done += mremap(work->made, MIB, MIB, MREMAP_MAYMOVE | MREMAP_FIXED, place) == MAP_FAILED && errno == ENOTSUP;
    munmap(place, MIB);
    return NULL;
}

static int have_others_move(void *arg, void **value)
{
    struct work *work = arg;
    pthread_t thread;
    (void)value;
    work->made = map_memory(4 * MIB);
    if (pthread_create(&thread, NULL, move_from_outside, work) != 0)
        return EAGAIN;
    pthread_join(thread, NULL);
    return is_there(work->made, 4 * MIB) ? EIO : EINVAL;
}

TEST(others_move_their_own_to_where_no_task_has_anything)
{
    struct work work = { .outside = NULL };
    assert_int_equal(run(have_others_move, &work).error, EIO);
    assert_int_equal(work.seen, ENOTSUP);
    assert_int_equal(work.done, 2);
    assert_true(is_gone(work.made, 4 * MIB));
}

/* --- mprotect --- */

/* The last page is missing, so the call fails after it has changed the pages before. */
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
