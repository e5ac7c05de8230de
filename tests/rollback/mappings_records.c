/* SPDX-License-Identifier: MIT
 *
 * Records of a task's mappings: each record is charged, or the pages are. A call that fails or changes nothing leaves
 * none behind. */
#include "support.h"

#include <sys/mman.h>

#include "alloc/heap/mapping.h"

#define PAGE ((size_t)getpagesize())
#define BOTH (PROT_READ | PROT_WRITE)
#define TIMES 1000

/* What a task has done; on the test's stack, which is no root. */
struct work {
    size_t records; /* more than there were, when all was done */
    size_t done;    /* calls */
    uint64_t charged;
};

static char *map(size_t size, int protection, int flags)
{
    return mmap(NULL, size, protection, MAP_ANONYMOUS | flags, -1, 0);
}

static size_t records(void)
{
    return atomic_load(&sti_mapping_count);
}

static uint64_t charged(void)
{
    stint_usage used;
    stint_usage_now(&used, NULL);
    return used.allocated;
}

static stint_outcome run_limited(stint_fn *fn, struct work *work, size_t allocation, size_t memory)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.allocation = allocation;
    options.budget.memory = memory;
    options.on_interrupt = STINT_FAIL;
    stint_outcome outcome = run_task(fn, work, &options);
    assert_int_equal(records(), 0);
    return outcome;
}

/* --- None is left behind --- */

static int be_refused(void *arg, void **value)
{
    struct work *work = arg;
    (void)value;
    char *made = map(GIB, PROT_NONE, MAP_PRIVATE | MAP_NORESERVE);
    mprotect(made, MIB, BOTH);
    size_t before = records();
    for (size_t i = 0; i < TIMES; i++)
        work->done += mprotect(made + 2 * MIB + 2 * i * PAGE, PAGE, BOTH) != 0 && errno == ENOMEM;
    work->records = records() - before;
    return EIO;
}

TEST(protections_that_are_refused_leave_none)
{
    struct work work = { .done = 0 };
    stint_outcome outcome = run_limited(be_refused, &work, 0, MIB);
    assert_int_equal(outcome.reason, STINT_REASON_MEMORY_LIMIT);
    assert_int_equal(work.done, TIMES);
    assert_int_equal(work.records, 0);
}

static int protect_in_a_row(void *arg, void **value)
{
    struct work *work = arg;
    (void)value;
    char *made = map(GIB, PROT_NONE, MAP_PRIVATE | MAP_NORESERVE);
    size_t before = records();
    for (size_t i = 0; i < TIMES; i++)
        work->done += mprotect(made + i * PAGE, PAGE, BOTH) == 0;
    for (size_t i = 0; i < TIMES; i += 2) /* they are already */
        work->done += mprotect(made + i * PAGE, PAGE, BOTH) == 0;
    char *read_only = map(MIB, PROT_READ, MAP_SHARED);
    work->done += mprotect(read_only + PAGE, PAGE, BOTH) == 0;
    work->records = records() - before;
    return EIO;
}

TEST(what_has_been_made_writable_piece_by_piece_is_one)
{
    struct work work = { .done = 0 };
    run_limited(protect_in_a_row, &work, 0, 64 * MIB);
    assert_int_equal(work.done, TIMES + TIMES / 2 + 1);
    assert_int_equal(work.records, 2); /* that, and the shared one */
}

static int move_in_vain(void *arg, void **value)
{
    struct work *work = arg;
    (void)value;
    char *made = map(GIB, PROT_NONE, MAP_PRIVATE | MAP_NORESERVE);
    size_t before = records();
    for (size_t i = 0; i < TIMES; i++)
        work->done += mremap(made + 2 * i * PAGE, PAGE, 2 * PAGE, 0) == MAP_FAILED;
    work->records = records() - before;
    return EIO;
}

TEST(moves_that_fail_leave_none)
{
    struct work work = { .done = 0 };
    run_limited(move_in_vain, &work, 0, 0);
    assert_int_equal(work.done, TIMES);
    assert_int_equal(work.records, 0);
}

static int map_in_place(void *arg, void **value)
{
    struct work *work = arg;
    (void)value;
    char *made = map(GIB, PROT_NONE, MAP_PRIVATE | MAP_NORESERVE);
    size_t before = records();
    uint64_t charged_before = charged();
    for (size_t i = 0; i < TIMES; i++)
        work->done +=
            mmap(made + 2 * i * PAGE, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
    work->records = records() - before;
    work->charged = charged() - charged_before;
    return EIO;
}

TEST(what_is_mapped_in_its_own_place_as_it_was_is_one_with_what_lies_around)
{
    struct work work = { .done = 0 };
    run_limited(map_in_place, &work, 0, 0);
    assert_int_equal(work.done, TIMES);
    assert_int_equal(work.records, 0);
    assert_int_equal(work.charged, TIMES * 64);
}

/* --- Each is charged --- */

/* In each round a little more than one sample's interval of records, which are no blocks, and some blocks. */
static int cut_and_allocate(void *arg, void **value)
{
    struct work *work = arg;
    (void)value;
    for (size_t i = 0; i < TIMES; i++) {
        for (size_t at = 0; at < 10; at++)
            munmap(map(PAGE, PROT_NONE, MAP_PRIVATE | MAP_NORESERVE), PAGE);
        keep(malloc(500));
    }
    work->charged = charged();
    return EIO;
}

static void *count_sample(const stint_memprof_allocation *allocation, void *arg)
{
    *(uint64_t *)arg += allocation->samples;
    return NULL;
}

TEST(a_profile_goes_on_beside_records_and_samples_none)
{
    struct work work = { .done = 0 };
    uint64_t samples = 0;
    stint_memprof_options options = STINT_MEMPROF_OPTIONS_INIT;
    options.interval = 512;
    options.seed = 1;
    options.tracker.alloc = count_sample;
    options.arg = &samples;
    assert_int_equal(stint_memprof_start(&options), 0);
    run_limited(cut_and_allocate, &work, 0, 0);
    stint_memprof_stop();
    assert_true(work.charged > 2 * TIMES * 512);
    assert_in_range(samples, TIMES / 2, 3 * TIMES / 2);
}

TEST_MAIN()
