/* SPDX-License-Identifier: MIT
 *
 * How much of what a task maps counts for its limits: parts that are unmapped, moved or grown, reservations, files and
 * shared pages; all of it goes with a rollback. */
#include "mappings.h"

/* --- Parts --- */

static int unmap_parts(void *arg, void **value)
{
    struct work *work = arg;
    (void)value;
    work->made = map_memory(8 * MIB);
    munmap(work->made + MIB, MIB);                             /* in the middle */
    munmap(work->made, MIB / 2);                               /* at the front */
    munmap(work->made + 7 * MIB, MIB);                         /* at the end */
    work->seen = munmap(work->made + 1, MIB) != 0 ? errno : 0; /* nowhere */
    stint_usage_now(NULL, &work->left);
    return work->error;
}

TEST(parts_that_are_unmapped_do_not_count)
{
    struct work work = { .error = EIO };
    run(unmap_parts, &work);
    assert_int_equal(work.left.memory, 64 * MIB - 8 * MIB + 5 * MIB / 2);
    assert_int_equal(work.seen, EINVAL);
    assert_true(is_gone(work.made, 8 * MIB));
}

static int move_about(void *arg, void **value)
{
    struct work *work = arg;
    (void)value;
    work->made = map_memory(MIB);
    work->made = mremap(work->made, MIB, 4 * MIB, MREMAP_MAYMOVE);
    memset(work->made, 1, 4 * MIB);
    work->more = mremap(work->made, 4 * MIB, 5 * MIB, MREMAP_MAYMOVE);
    work->more = mremap(work->more, 5 * MIB, 3 * MIB, 0);
    stint_usage_now(NULL, &work->left);
    work->seen = mremap(work->more, 3 * MIB, GIB, MREMAP_MAYMOVE) == MAP_FAILED ? errno : 0;
    return work->error;
}

TEST(what_is_moved_and_grown_and_shrunk_counts_as_it_is)
{
    struct work work = { .error = EIO };
    stint_outcome outcome = run_limited(move_about, &work, 0, 64 * MIB, STINT_FAIL);
    assert_int_equal(outcome.reason, STINT_REASON_MEMORY_LIMIT);
    assert_int_equal(work.seen, ENOMEM);
    assert_int_equal(work.left.memory, 61 * MIB);
    assert_true(is_gone(work.made, 4 * MIB));
    assert_true(is_gone(work.more, 3 * MIB));
    work = (struct work){ .error = EIO };
    outcome = run(move_about, &work);
    assert_int_equal(outcome.reason, STINT_REASON_MEMORY_LIMIT);
    assert_true(is_gone(work.more, 3 * MIB));
}

/* --- What counts --- */

static int reserve(void *arg, void **value)
{
    struct work *work = arg;
    (void)value;
    work->made = map(GIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
    if (work->made == MAP_FAILED)
        return errno;
    for (size_t i = 0; i < 4; i++) {
        if (mprotect(work->made + i * 10 * MIB, 4 * MIB, PROT_READ | PROT_WRITE) != 0)
            return errno;
        memset(work->made + i * 10 * MIB, 1, 4 * MIB);
    }
    mprotect(work->made, 4 * MIB, PROT_READ); /* still there */
    mprotect(work->made, 4 * MIB, PROT_READ | PROT_WRITE);
    stint_usage_now(NULL, &work->left);
    work->seen = mprotect(work->made, 100 * MIB, PROT_READ | PROT_WRITE) != 0 ? errno : 0;
    return work->error;
}

TEST(a_reservation_counts_where_it_is_made_writable)
{
    struct work work = { .error = EIO };
    stint_outcome outcome = run_limited(reserve, &work, 0, 64 * MIB, STINT_FAIL);
    assert_outcome(outcome, STINT_ERROR, STINT_REASON_MEMORY_LIMIT, ENOMEM);
    assert_int_equal(work.seen, ENOMEM);
    assert_int_equal(work.left.memory, 48 * MIB);
    assert_in_range(outcome.usage.allocated, 16 * MIB, 16 * MIB + KIB);
    assert_true(is_gone(work.made, 100 * MIB));
    outcome = run(reserve, &work);
    assert_int_equal(outcome.reason, STINT_REASON_MEMORY_LIMIT);
    assert_true(is_gone(work.made, 100 * MIB));
}

static int map_files(void *arg, void **value)
{
    struct work *work = arg;
    (void)value;
    int file = open("/proc/self/exe", O_RDONLY);
    work->made = mmap(NULL, 64 * KIB, PROT_READ, MAP_PRIVATE, file, 0);
    work->more = mmap(NULL, 64 * KIB, PROT_READ, MAP_SHARED, file, 0);
    char *written = mmap(NULL, 64 * KIB, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    work->cell = written;
    close(file);
    stint_usage_now(NULL, &work->left);
    return EIO;
}

TEST(files_count_where_their_pages_are_private_and_writable)
{
    struct work work = { .size = 0 };
    run(map_files, &work);
    assert_int_equal(work.left.memory, 64 * MIB - 64 * KIB);
    assert_true(is_gone(work.made, 64 * KIB) && is_gone(work.more, 64 * KIB) && is_gone(work.cell, 64 * KIB));
}

static int map_shared(void *arg, void **value)
{
    struct work *work = arg;
    (void)value;
    work->made = map(work->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS);
    stint_usage_now(NULL, &work->left);
    return EIO;
}

TEST(shared_memory_counts)
{
    struct work work = { .size = MIB };
    run(map_shared, &work);
    assert_int_equal(work.left.memory, 63 * MIB);
    assert_true(is_gone(work.made, work.size));
    work = (struct work){ .size = GIB };
    assert_int_equal(run(map_shared, &work).reason, STINT_REASON_MEMORY_LIMIT);
}

TEST_MAIN()
