/* SPDX-License-Identifier: MIT
 *
 * Moves of several mappings at once, with holes between them, as Linux makes them from 6.17 on: they are refused where
 * tasks have mapped something there. And one that fails half-way. */
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

/* Two places, in which nothing is; nor will be what the library maps for a thread's first task. */
static struct work with_places(size_t from, size_t to)
{
    run_task(do_nothing, NULL, NULL);
    struct work work = { .made = free_place(from + to) };
    work.more = work.made + from;
    return work;
}

static int move_with_a_hole(void *arg, void **value)
{
    struct work *work = arg;
    (void)value;
    map_there(work->made, MIB);
    map_there(work->made + 2 * MIB, MIB)[0] = 3;
    map_there(work->more, MIB)[0] = 4;
    work->seen = mremap(work->made, 3 * MIB, 3 * MIB, FIXED, work->more) == MAP_FAILED ? errno : 0;
    work->size = is_there(work->made, MIB) && work->made[2 * MIB] == 3 && work->more[0] == 4 &&
                 is_gone(work->more + MIB, 2 * MIB);
    work->left.memory = memory_left();
    return EIO;
}

TEST(a_move_of_several_mappings_is_refused_and_nothing_is_moved)
{
    struct work work = with_places(3 * MIB, 3 * MIB);
    run(move_with_a_hole, &work);
    assert_int_equal(work.seen, EFAULT);
    assert_int_equal(work.size, 1);
    assert_int_equal(work.left.memory, 64 * MIB - 3 * MIB);
    assert_true(is_gone(work.made, 3 * MIB) && is_gone(work.more, 3 * MIB));
}

static int move_the_process_s(void *arg, void **value)
{
    struct work *work = arg;
    (void)value;
    map_there(work->more + MIB, MIB)[0] = 4;
    work->seen = mremap(work->made, 3 * MIB, 3 * MIB, FIXED, work->more) == MAP_FAILED ? errno : 0;
    work->size = work->more[MIB] == 4;
    return EIO;
}

TEST(so_it_is_of_the_process_s_to_where_a_task_has_mapped_something)
{
    struct work work = with_places(3 * MIB, 3 * MIB);
    map_there(work.made, MIB);
    map_there(work.made + 2 * MIB, MIB);
    run(move_the_process_s, &work);
    assert_int_equal(work.seen, EFAULT);
    assert_int_equal(work.size, 1);
    assert_true(is_there(work.made, MIB) && is_gone(work.more, 3 * MIB));
    munmap(work.made, 3 * MIB);
}

/* Sealed pages cannot be moved. */
#define SEAL 462

/* One mapping of the task's, which the kernel has in three; the middle one stays. */
static int move_half_way(void *arg, void **value)
{
    struct work *work = arg;
    (void)value;
    map_there(work->made, 3 * MIB)[0] = 7;
    if (mprotect(work->made + MIB, PAGE, PROT_READ) != 0 || syscall(SEAL, work->made + MIB, PAGE, 0) != 0)
        return ENOSYS;
    work->seen = mremap(work->made, 3 * MIB, 3 * MIB, FIXED, work->more) == MAP_FAILED ? errno : 0;
    work->left.memory = memory_left();
    work->size = is_gone(work->made, MIB) && is_there(work->more, MIB) && work->more[0] == 7;
    return EIO;
}

TEST(what_a_move_that_fails_half_way_has_moved_is_the_task_s_and_the_rest_the_process_s)
{
    struct work work = with_places(3 * MIB, 3 * MIB);
    if (run(move_half_way, &work).error == ENOSYS || work.size == 0)
        skip();
    assert_int_equal(work.seen, EPERM);
    assert_int_equal(work.left.memory, 61 * MIB);
    assert_true(is_gone(work.made, MIB) && is_gone(work.more, 3 * MIB));
    assert_true(is_there(work.made + MIB, 2 * MIB));
}

TEST_MAIN()
