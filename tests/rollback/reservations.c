/* SPDX-License-Identifier: MIT
 *
 * A mapping stays after a rollback if a variable points into it. A mapping that is only reserved holds nothing, so the
 * variable must point near its beginning: any number may be an address somewhere in a few TiB. */
#include "support.h"

#include <stdatomic.h>
#include <sys/mman.h>

static _Atomic(char *) cell;

/* What a task has done; on the test's stack, which is no root. */
struct work {
    int protection;
    int file; /* or -1 */
    size_t size;
    size_t offset; /* that the variable points to; 0: it points nowhere */
    bool commits;  /* the first MiB */
    char *made;
};

static int map_and_point(void *arg, void **value)
{
    struct work *work = arg;
    (void)value;
    int flags = MAP_PRIVATE | MAP_NORESERVE | (work->file < 0 ? MAP_ANONYMOUS : 0);
    work->made = mmap(NULL, work->size, work->protection, flags, work->file, 0);
    if (work->made == MAP_FAILED)
        return 0;
    if (work->commits && mprotect(work->made, MIB, PROT_READ | PROT_WRITE) != 0)
        return 0;
    if (work->offset > 0)
        atomic_store(&cell, work->made + work->offset);
    return EIO;
}

/* Bytes of it that are there afterwards. */
static size_t run(struct work *work)
{
    stint_outcome outcome = run_task(map_and_point, work, NULL);
    assert_int_equal(outcome.reason, STINT_REASON_FAILED);
    atomic_store(&cell, NULL);
    size_t there = 0;
    for (size_t at = 0; at < work->size; at += MIB)
        there += msync(work->made + at, 4096, MS_ASYNC) == 0 ? MIB : 0;
    if (there == work->size)
        assert_int_equal(outcome.usage.kept, there);
    munmap(work->made, work->size);
    return there;
}

TEST(a_variable_that_points_to_the_begin_of_a_reservation_keeps_it)
{
    struct work work = { .file = -1, .size = 2 * GIB, .offset = 64 };
    assert_int_equal(run(&work), work.size);
    work.offset = GIB - 1;
    assert_int_equal(run(&work), work.size);
    work.protection = PROT_READ;
    assert_int_equal(run(&work), work.size);
}

TEST(one_that_points_far_into_it_does_not)
{
    struct work work = { .file = -1, .size = 4 * GIB, .offset = 2 * GIB };
    assert_int_equal(run(&work), 0);
    work.protection = PROT_READ;
    assert_int_equal(run(&work), 0);
    work.offset = GIB;
    assert_int_equal(run(&work), 0);
}

TEST(where_there_is_something_in_it_it_does)
{
    struct work work = { .file = -1, .size = 8 * MIB, .offset = 7 * MIB, .protection = PROT_READ | PROT_WRITE };
    assert_int_equal(run(&work), work.size);
    work.protection = PROT_READ;
    work.file = memfd_create("reservations", 0);
    assert_int_equal(ftruncate(work.file, 8 * MIB), 0);
    assert_int_equal(run(&work), work.size);
    close(work.file);
}

TEST(of_one_that_is_taken_into_use_each_part_is_looked_at)
{
    if (lack_of_remote_reads() != NULL)
        skip_because(lack_of_remote_reads());
    struct work work = { .file = -1, .size = 64 * MIB, .offset = MIB / 2, .commits = true };
    assert_int_equal(run(&work), MIB);
    work.offset = MIB; /* the next part that will be */
    assert_int_equal(run(&work), 63 * MIB);
}

/* Random numbers, and the keys of libc's own, are in many variables. */
TEST(a_reservation_of_a_quarter_of_the_address_space_goes)
{
    if (lack_of_free_reservations() != NULL)
        skip_because(lack_of_free_reservations());
    struct work work = { .file = -1, .size = (size_t)1 << 45 };
    stint_outcome outcome = run_task(map_and_point, &work, NULL);
    if (work.made == MAP_FAILED)
        skip_because("the system refuses so large a reservation");
    assert_int_equal(outcome.usage.kept, 0);
    assert_int_not_equal(msync(work.made, 4096, MS_ASYNC), 0);
}

TEST_MAIN()
