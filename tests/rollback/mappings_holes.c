/* SPDX-License-Identifier: MIT
 *
 * Moves of several mappings at once, with holes between them, as Linux makes them from 6.17 on: each part belongs to
 * whom it did, counts where it is, and goes with a rollback; what lies where a hole would be stays; and a move that
 * fails half-way has been made as far as it went. */
#include "mappings.h"

#include <sys/syscall.h>
#include <unistd.h>

#define FIXED (MREMAP_MAYMOVE | MREMAP_FIXED)
#define BOTH (PROT_READ | PROT_WRITE)

static char *map_there(char *place, size_t size)
{
    return mmap(place, size, BOTH, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

static char *free_place(size_t size)
{
    char *place = map_memory(size);
    munmap(place, size);
    return place;
}

static uint64_t memory_left(void)
{
    stint_budget left;
    stint_usage_now(NULL, &left);
    return left.memory;
}

static bool moves_over_holes(void)
{
    char *from = map_memory(6 * PAGE);
    char *to = from + 3 * PAGE;
    munmap(from + PAGE, PAGE);
    bool moves = mremap(from, 3 * PAGE, 3 * PAGE, FIXED, to) == to;
    munmap(from, 6 * PAGE);
    return moves;
}

/* Two places, in which nothing is; nor will be what the library maps for a thread's first task. */
static struct work with_places(size_t from, size_t to)
{
    run_task(do_nothing, NULL, NULL);
    struct work work = { .made = free_place(from + to) };
    work.more = work.made + from;
    return work;
}

#define ROUNDS 60

static int move_with_a_hole_behind(void *arg, void **value)
{
    struct work *work = arg;
    (void)value;
    for (work->size = 0; work->size < ROUNDS; work->size++) {
        map_there(work->made, MIB);
        char *place = work->more + 2 * MIB * work->size;
        if (mremap(work->made, 2 * MIB, 2 * MIB, FIXED, place) != place)
            return errno;
    }
    return EIO;
}

TEST(no_chain_of_moves_with_holes_passes_the_memory_limit)
{
    if (!moves_over_holes())
        skip();
    struct work work = with_places(2 * MIB, 2 * ROUNDS * MIB);
    stint_outcome outcome = run_limited(move_with_a_hole_behind, &work, 0, 16 * MIB, STINT_JUMP);
    assert_outcome(outcome, STINT_ERROR, STINT_REASON_MEMORY_LIMIT, ENOMEM);
    assert_int_equal(work.size, 16);
    assert_true(is_gone(work.made, 2 * MIB) && is_gone(work.more, 2 * ROUNDS * MIB));
}

/* Of five MiB: own, hole, own, the process's, hole; to where the process's, own, free, own and own ones are. */
static int move_of_each(void *arg, void **value)
{
    struct work *work = arg;
    (void)value;
    map_there(work->made, MIB);
    map_there(work->made + 2 * MIB, MIB);
    map_there(work->more + MIB, MIB);
    map_there(work->more + 3 * MIB, 2 * MIB);
    work->more[MIB] = 1;
    work->more[4 * MIB] = 4;
    work->seen = mremap(work->made, 5 * MIB, 5 * MIB, FIXED, work->more) == work->more ? 0 : errno;
    work->left.memory = memory_left();
    return EIO;
}

TEST(each_part_of_a_move_is_whose_it_was_and_nothing_where_a_hole_is)
{
    if (!moves_over_holes())
        skip();
    struct work work = with_places(5 * MIB, 5 * MIB);
    map_there(work.made + 3 * MIB, MIB)[0] = 3;
    map_there(work.more, MIB);
    run(move_of_each, &work);
    assert_int_equal(work.seen, 0);
    assert_int_equal(work.left.memory, 64 * MIB - 3 * MIB);
    assert_true(is_gone(work.made, 5 * MIB));
    assert_true(is_there(work.more, MIB) && is_gone(work.more + MIB, 2 * MIB));
    assert_true(is_there(work.more + 3 * MIB, MIB) && is_gone(work.more + 4 * MIB, MIB));
    assert_int_equal(work.more[3 * MIB], 3);
    munmap(work.more, 5 * MIB);
}

#ifdef MREMAP_DONTUNMAP
static int leave_the_old_places(void *arg, void **value)
{
    struct work *work = arg;
    (void)value;
    map_there(work->made, MIB);
    map_there(work->made + 2 * MIB, MIB);
    void *moved = mremap(work->made, 4 * MIB, 4 * MIB, FIXED | MREMAP_DONTUNMAP, work->more);
    work->seen = moved == work->more ? 0 : errno;
    work->left.memory = memory_left();
    return EIO;
}

TEST(a_move_with_holes_that_leaves_the_old_places_counts_each_part_twice)
{
    if (!moves_over_holes())
        skip();
    struct work work = with_places(4 * MIB, 4 * MIB);
    run(leave_the_old_places, &work);
    assert_int_equal(work.seen, 0);
    assert_int_equal(work.left.memory, 60 * MIB);
    assert_true(is_gone(work.made, 4 * MIB) && is_gone(work.more, 4 * MIB));
}
#endif

/* Sealed pages cannot be moved. */
#define SEAL 462

/* The middle one of three stays, and those that are moved before that are the task's at their new place. */
static int move_half_way(void *arg, void **value)
{
    struct work *work = arg;
    (void)value;
    map_there(work->made, MIB);
    work->made[0] = 7;
    map_there(work->made + 2 * MIB, MIB);
    work->seen = mremap(work->made, 4 * MIB, 4 * MIB, FIXED, work->more) == MAP_FAILED ? errno : 0;
    work->left.memory = memory_left();
    work->size = is_gone(work->made, MIB) && is_there(work->more, MIB) && work->more[0] == 7;
    return EIO;
}

TEST(a_move_that_fails_half_way_is_followed_as_far_as_it_went)
{
    struct work work = with_places(4 * MIB, 4 * MIB);
    map_there(work.more + 2 * MIB, PAGE);
    if (!moves_over_holes() || syscall(SEAL, work.more + 2 * MIB, PAGE, 0) != 0)
        skip();
    run(move_half_way, &work);
    assert_int_equal(work.seen, EPERM);
    assert_int_equal(work.size, 1);
    assert_int_equal(work.left.memory, 62 * MIB);
    assert_true(is_gone(work.made, 4 * MIB) && is_gone(work.more, 2 * MIB));
    assert_true(is_there(work.more + 2 * MIB, PAGE) && is_gone(work.more + 2 * MIB + PAGE, 2 * MIB - PAGE));
}

TEST_MAIN()
