/* SPDX-License-Identifier: MIT
 *
 * stint_keep_begin and stint_keep_end: a block that is allocated between them is the process's. It outlives the task,
 * counts for the task's allocation limit and not for its memory limit, and no interrupt comes in between. */
#include "support.h"

/* Left behind by the tasks below, which are rolled back and so return no value. */
static char *left[8];
static size_t left_count;

static void leave(void *block)
{
    left[left_count++] = block;
}

static int forget_all(void **state)
{
    (void)state;
    while (left_count > 0)
        stint_free(left[--left_count]);
    return stint_roots_set_scan(STINT_ROOT_SCAN_ALWAYS);
}

/* So kept blocks survive without the scan, and freed blocks are overwritten. */
static int fill(void *arg, void **value)
{
    (void)arg;
    (void)value;
    for (size_t size = 16; size <= 256 * KIB; size *= 2) {
        for (int i = 0; i < 200; i++)
            memset(keep(stint_malloc(size)), 0xaa, size);
    }
    return 1;
}

static stint_outcome run_unscanned(stint_fn *fn, const stint_options *options)
{
    assert_int_equal(stint_roots_set_scan(STINT_ROOT_SCAN_NEVER), 0);
    stint_outcome outcome = run_task(fn, NULL, options);
    run_task(fill, NULL, NULL);
    return outcome;
}

static int keep_blocks_of_every_kind(void *arg, void **value)
{
    (void)arg;
    (void)value;
    char *before = stint_strdup("made before");
    stint_keep_begin();
    leave(stint_strdup("copied"));
    char *grown = stint_malloc(10);
    strcpy(grown, "grown");
    grown = stint_realloc(grown, 100 * KIB);
    leave(stint_realloc(grown, 3 * MIB));
    leave(stint_realloc(before, 100 * KIB));
    leave(stint_calloc(1000, 3));
    char *aligned = stint_aligned_alloc(4096, 5000);
    leave(strcpy(aligned, "aligned"));
    stint_keep_end();
    for (int i = 0; i < 100; i++)
        keep(stint_malloc(3000));
    return 1;
}

TEST_WITH(kept_blocks_outlive_a_rollback, NULL, forget_all)
{
    stint_outcome outcome = run_unscanned(keep_blocks_of_every_kind, NULL);
    assert_int_equal(outcome.reason, STINT_REASON_FAILED);
    assert_int_equal(outcome.usage.kept, 0);
    assert_int_equal(left_count, 5);
    assert_string_equal(left[0], "copied");
    assert_string_equal(left[1], "grown");
    assert_string_equal(left[2], "made before");
    for (int i = 0; i < 3000; i++)
        assert_int_equal(left[3][i], 0);
    assert_string_equal(left[4], "aligned");
    assert_int_equal((uintptr_t)left[4] % 4096, 0);
}

static int nest(void *arg, void **value)
{
    (void)arg;
    (void)value;
    stint_keep_begin();
    stint_keep_begin();
    stint_keep_end();
    leave(stint_strdup("between"));
    stint_keep_end();
    stint_keep_end();
    keep(stint_malloc(100));
    return 1;
}

TEST_WITH(regions_nest, NULL, forget_all)
{
    run_unscanned(nest, NULL);
    assert_string_equal(left[0], "between");
}

static int keep_much(void *arg, void **value)
{
    (void)arg;
    (void)value;
    static char *list[16];
    stint_keep_begin();
    for (int i = 0; i < 16; i++)
        list[i] = stint_malloc(MIB);
    stint_keep_end();
    for (int i = 0; i < 16; i++)
        stint_free(list[i]);
    return 0;
}

TEST_WITH(kept_blocks_count_for_the_allocation_limit_and_not_for_the_memory_limit, NULL, forget_all)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.memory = 2 * MIB;
    stint_outcome outcome = run_task(keep_much, NULL, &options);
    assert_ok(outcome);
    assert_in_range(outcome.usage.allocated, 16 * MIB, 17 * MIB);
    assert_true(outcome.usage.peak < MIB);
    options.budget.allocation = 8 * MIB;
    options.budget.memory = 0;
    options.grace = GIB;
    assert_limit_passed(run_task(keep_much, NULL, &options));
}

#define REGIONS 1000

static int keep_nothing(void *arg, void **value)
{
    (void)arg;
    (void)value;
    for (int i = 0; i < REGIONS; i++) {
        stint_keep_begin();
        stint_keep_end();
        stint_free(stint_malloc(16));
    }
    return 0;
}

/* With a heap of its own, from which it allocates without a look where no sample point is due. */
static int keep_beside_a_heap(void *arg, void **value)
{
    (void)arg;
    (void)value;
    for (int i = 0; i < 1000; i++)
        keep(stint_malloc(100));
    stint_keep_begin();
    for (size_t i = 0; i < sizeof left / sizeof left[0]; i++)
        leave(stint_strdup("kept"));
    stint_keep_end();
    return 1;
}

TEST_WITH(all_blocks_of_a_region_are_kept_of_a_task_that_has_many_others, NULL, forget_all)
{
    run_unscanned(keep_beside_a_heap, NULL);
    for (size_t i = 0; i < sizeof left / sizeof left[0]; i++)
        assert_string_equal(left[i], "kept");
}

TEST(a_region_in_which_nothing_is_allocated_leaves_the_next_sample_point_where_it_was)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.wall_ns = UINT64_C(1000000000000);
    stint_outcome outcome = run_task(keep_nothing, NULL, &options);
    assert_ok(outcome);
    assert_int_equal(outcome.usage.allocated, 16 * REGIONS);
    assert_true(outcome.usage.samples < REGIONS / 10);
    options.budget.allocation = 16 * (REGIONS - 1);
    outcome = run_task(keep_nothing, NULL, &options);
    assert_limit_passed(outcome);
    assert_int_equal(outcome.usage.allocated, 16 * (REGIONS - 1));
}

struct region {
    stint_token *token;
    bool sleeps; /* until its deadline has passed */
    bool ended;
};

static int be_late_in_a_region(void *arg, void **value)
{
    (void)value;
    struct region *region = arg;
    stint_free(stint_malloc(16));
    stint_keep_begin();
    if (region->sleeps)
        nap_ms(60);
    else
        stint_token_set(region->token);
    stint_keep_end();
    region->ended = true;
    return 0;
}

TEST(what_comes_in_a_region_without_an_allocation_interrupts_at_its_end)
{
    struct region region = { .sleeps = true };
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.wall_ns = 20000000;
    stint_outcome outcome = run_task(be_late_in_a_region, &region, &options);
    assert_int_equal(outcome.reason, STINT_REASON_DEADLINE);
    region.sleeps = false;
    assert_int_equal(stint_token_create(NULL, &region.token), 0);
    options.token = region.token;
    options.budget.wall_ns = 0;
    assert_cancelled(run_task(be_late_in_a_region, &region, &options), STINT_REASON_TOKEN);
    stint_token_release(region.token);
    assert_false(region.ended);
}

struct progress {
    stint_token *token;
    size_t allocated; /* in the region, after the token was set */
    bool refused;
    bool ended;
    bool went_on;
};

static int set_a_token_in_a_region(void *arg, void **value)
{
    (void)value;
    struct progress *progress = arg;
    stint_keep_begin();
    stint_token_set(progress->token);
    while (!progress->refused) {
        char *block = stint_malloc(1000);
        progress->refused = block == NULL;
        progress->allocated += block != NULL ? 1008 : 0;
        stint_free(block);
        stint_checkpoint();
    }
    progress->ended = true;
    stint_keep_end();
    progress->went_on = true;
    return 0;
}

TEST_WITH(interrupts_wait_up_to_the_grace_and_come_at_the_end_of_the_region, NULL, forget_all)
{
    struct progress progress = { .allocated = 0 };
    stint_options options = STINT_OPTIONS_INIT;
    assert_int_equal(stint_token_create(NULL, &progress.token), 0);
    options.token = progress.token;
    options.grace = 100 * KIB;
    assert_cancelled(run_task(set_a_token_in_a_region, &progress, &options), STINT_REASON_TOKEN);
    stint_token_release(progress.token);
    assert_in_range(progress.allocated, 100 * KIB - 1008, 100 * KIB);
    assert_true(progress.refused);
    assert_true(progress.ended);
    assert_false(progress.went_on);
}

static int leave_in_a_scope_inside(void *arg, void **value)
{
    (void)arg;
    *value = stint_strdup("of the scope inside");
    return 0;
}

static int keep_around_a_scope(void *arg, void **value)
{
    (void)arg;
    (void)value;
    stint_outcome inner;
    stint_keep_begin();
    leave(stint_strdup("kept before"));
    if (stint_run(leave_in_a_scope_inside, NULL, NULL, &inner) != 0 || inner.status != STINT_OK)
        return 2;
    leave(stint_strdup("kept after"));
    stint_keep_end();
    return 1;
}

TEST_WITH(a_region_is_its_scope_s_own, NULL, forget_all)
{
    stint_outcome outcome = run_unscanned(keep_around_a_scope, NULL);
    assert_int_equal(outcome.error, 1);
    assert_string_equal(left[0], "kept before");
    assert_string_equal(left[1], "kept after");
}

static int end_too_often(void *arg, void **value)
{
    (void)arg;
    (void)value;
    stint_keep_end();
    stint_keep_begin();
    stint_keep_end();
    stint_keep_end();
    leave(stint_malloc(100));
    left_count--;
    return 1;
}

TEST_WITH(an_end_without_a_begin_and_calls_outside_of_scopes_do_nothing, NULL, forget_all)
{
    stint_keep_begin();
    stint_keep_end();
    stint_keep_end();
    stint_outcome outcome = run_task(end_too_often, NULL, NULL);
    assert_int_equal(outcome.reason, STINT_REASON_FAILED);
    assert_true(outcome.usage.kept >= 100); /* left[0] points to it: it was the task's */
    left[0] = NULL;
}

TEST_MAIN()
