/* SPDX-License-Identifier: MIT
 *
 * How many workers a pool has by default, by the affinity mask and by the control group's quota, which stands in
 * made-up systems below a folder of this test's; and where pinned workers run. */
#include <executor/pool/pool.h>

#include "made_up_system.h"
#include "pools.h"

static unsigned allowed(void)
{
    struct sti_processors processors;
    assert_true(sti_processors_read(&processors));
    unsigned count = processors.count;
    sti_processors_free(&processors);
    return count;
}

TEST_IN_ROOT(without_a_quota_every_allowed_processor_counts)
{
    assert_int_equal(sti_processors_usable(root), allowed());
    put("/proc/self/cgroup", "0::/a/b\n");
    put(VERSION_2, "");
    put("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    assert_int_equal(sti_processors_usable(root), allowed());
}

TEST_IN_ROOT(a_quota_is_rounded_up_and_the_smallest_one_above_holds)
{
    put("/proc/self/cgroup", "0::/a/b\n");
    put(VERSION_2, "");
    put("/sys/fs/cgroup/a/b/cpu.max", "99900000000 100000\n");
    assert_int_equal(sti_processors_usable(root), allowed());
    put("/sys/fs/cgroup/a/cpu.max", "30000 100000\n");
    assert_int_equal(sti_processors_usable(root), 1);
    put("/sys/fs/cgroup/a/cpu.max", "100001 100000\n");
    assert_int_equal(sti_processors_usable(root), allowed() < 2 ? allowed() : 2);
}

TEST_IN_ROOT(nonsense_in_the_files_is_no_quota)
{
    static const char *const nonsense[] = { "", "\n", "zero one\n", "0 100000\n", "100000\n", "100000 0\n", "-5 -5\n" };
    put("/proc/self/cgroup", "0::/a\n");
    put(VERSION_2, "");
    for (size_t i = 0; i < sizeof nonsense / sizeof *nonsense; i++) {
        put("/sys/fs/cgroup/a/cpu.max", nonsense[i]);
        assert_int_equal(sti_processors_usable(root), allowed());
    }
}

TEST(choosing_goes_round_the_allowed_processors)
{
    struct sti_processors processors;
    assert_true(sti_processors_read(&processors));
    cpu_set_t *only = calloc(1, processors.size);
    cpu_set_t *seen = calloc(1, processors.size);
    for (unsigned i = 0; i < processors.count; i++) {
        sti_processors_choose(&processors, i, only);
        assert_int_equal(CPU_COUNT_S(processors.size, only), 1);
        CPU_OR_S(processors.size, seen, seen, only);
    }
    assert_true(CPU_EQUAL_S(processors.size, seen, processors.mask));
    cpu_set_t *again = calloc(1, processors.size);
    sti_processors_choose(&processors, 0, only);
    sti_processors_choose(&processors, processors.count, again);
    assert_true(CPU_EQUAL_S(processors.size, again, only));
    free(only);
    free(seen);
    free(again);
    sti_processors_free(&processors);
}

struct place {
    struct gate *gate;
    cpu_set_t mask;
};

static int note_place(void *arg, void **value)
{
    struct place *place = arg;
    if (sched_getaffinity(0, sizeof place->mask, &place->mask) != 0)
        return errno;
    return gate_hold(place->gate, value);
}

TEST(pinned_workers_have_one_processor_each)
{
    stint_pool *pool;
    stint_pool_options options = STINT_POOL_OPTIONS_INIT;
    options.workers = allowed() < 8 ? allowed() : 8;
    options.pinned = true;
    if (lack_of_pinned_threads() != NULL) {
        assert_int_equal(stint_pool_create(&options, &pool), ENOTSUP);
        skip_because(lack_of_pinned_threads());
    }
    assert_int_equal(stint_pool_create(&options, &pool), 0);
    struct gate gate = { 0 };
    struct place places[8];
    stint_future *futures[8];
    for (unsigned i = 0; i < options.workers; i++) {
        places[i].gate = &gate;
        assert_int_equal(stint_submit(pool, note_place, &places[i], NULL, &futures[i]), 0);
    }
    gate_await(&gate, options.workers);
    gate_open(&gate);
    cpu_set_t seen;
    CPU_ZERO(&seen);
    for (unsigned i = 0; i < options.workers; i++) {
        stint_outcome outcome;
        assert_int_equal(stint_future_wait(futures[i], &outcome), 0);
        assert_int_equal(outcome.error, 0);
        assert_int_equal(CPU_COUNT(&places[i].mask), 1);
        CPU_OR(&seen, &seen, &places[i].mask);
        stint_future_release(futures[i]);
    }
    assert_int_equal(CPU_COUNT(&seen), options.workers);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

static int block(void *arg, void **value)
{
    stint_blocking_begin();
    int error = gate_hold(arg, value);
    stint_blocking_end();
    return error;
}

/* It was started by a worker that has one processor, and will stand in for others. */
TEST(spares_of_a_pinned_pool_may_run_wherever_its_workers_may)
{
    stint_pool *pool;
    const stint_pool_options options = { .size = sizeof(stint_pool_options), .workers = 1, .pinned = true };
    if (lack_of_pinned_threads() != NULL)
        skip_because(lack_of_pinned_threads());
    assert_int_equal(stint_pool_create(&options, &pool), 0);
    struct gate asleep = { 0 };
    struct gate gate = { .open = true };
    struct place place = { .gate = &gate };
    stint_future *futures[2];
    assert_int_equal(stint_submit(pool, block, &asleep, NULL, &futures[0]), 0);
    gate_await(&asleep, 1);
    assert_int_equal(stint_submit(pool, note_place, &place, NULL, &futures[1]), 0);
    stint_outcome outcome;
    assert_int_equal(stint_future_wait(futures[1], &outcome), 0);
    assert_int_equal(outcome.error, 0);
    cpu_set_t own;
    assert_int_equal(sched_getaffinity(0, sizeof own, &own), 0);
    assert_true(CPU_EQUAL(&own, &place.mask));
    gate_open(&asleep);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(stint_future_wait(futures[i], NULL), 0);
        stint_future_release(futures[i]);
    }
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST_MAIN()
