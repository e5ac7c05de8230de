/* SPDX-License-Identifier: MIT
 *
 * One budget for all branches of a task: no task is stopped below it, and every task above it, on any number of
 * threads. */
#include "patience.h"
#include "repeats.h"
#include "thieves.h"

#define THIEVES 3
#define GRANT ((size_t)64 << 10)
#define SMALLEST_SLACK ((size_t)64 << 10)
#define LONGEST_FAST ((size_t)112 << 10) /* the fast path allocates no more without a sample point */
#define PASSED_BY ((size_t)160 << 10)    /* by each thread */

static int start(void **state)
{
    (void)state;
    start_thieves(THIEVES);
    return 0;
}

/* --- The allocation limit ----------------------------------------------------------------------------------------- */

/* Random allocations of exactly so many bytes, in branches that fork as they please. */
struct work {
    uint64_t seed;
    size_t bytes; /* a multiple of 16 */
    bool must_be_stolen;
};

static int allocate_exactly(size_t bytes, uint64_t *random)
{
    while (bytes > 0) {
        size_t size = (1 + random_below(random, random_below(random, 20) == 0 ? 4096 : 64)) * 16;
        if (size > bytes)
            size = bytes;
        void *block = keep(stint_malloc(size));
        if (block == NULL)
            return ENOMEM;
        stint_free(block);
        bytes -= size;
    }
    return 0;
}

static int work_in_branches(void *arg, void **value)
{
    const struct work *work = arg;
    uint64_t random = work->seed;
    (void)value;
    if (work->bytes < 20000)
        return allocate_exactly(work->bytes, &random);
    size_t own = random_below(&random, work->bytes / 16) * 16;
    struct work rest = { .seed = random_next(&random), .bytes = work->bytes - own };
    struct fork fork;
    fork_start(&fork, work_in_branches, &rest);
    if (work->must_be_stolen)
        await_theft(&fork);
    struct work mine = { .seed = random_next(&random), .bytes = own };
    int error = work_in_branches(&mine, NULL);
    int stolen_error = fork_join(&fork, NULL);
    return error != 0 ? error : stolen_error;
}

static stint_outcome run_work(struct work *work, size_t limit, stint_on_interrupt mode)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.allocation = limit;
    options.on_interrupt = mode;
    return run_task(work_in_branches, work, &options);
}

TEST_WITH(a_task_may_use_its_limit_to_the_last_byte_on_many_threads, start, no_thieves)
{
    uint64_t random = 7;
    for (int round = 0; round < 300; round++) {
        struct work work = {
            .seed = random_next(&random),
            .bytes = (20000 + random_below(&random, 2 * MIB)) / 16 * 16,
            .must_be_stolen = round % 2 == 0,
        };
        stint_outcome outcome = run_work(&work, work.bytes, round % 3 == 0 ? STINT_FAIL : STINT_JUMP);
        assert_ok(outcome);
        assert_int_equal(outcome.usage.allocated, work.bytes);
    }
}

TEST_WITH(a_byte_more_than_the_limit_is_always_an_error, start, no_thieves)
{
    uint64_t random = 8;
    for (int round = 0; round < 300; round++) {
        struct work work = {
            .seed = random_next(&random),
            .bytes = (20000 + random_below(&random, 2 * MIB)) / 16 * 16,
            .must_be_stolen = round % 2 == 0,
        };
        size_t limit = work.bytes - 1 - random_below(&random, round % 5 == 0 ? work.bytes / 2 : 16);
        stint_outcome outcome = run_work(&work, limit, STINT_JUMP);
        assert_limit_passed(outcome);
        assert_true(outcome.usage.allocated <= limit + THIEVES * GRANT);
    }
}

static int grow_in_parallel(void *arg, void **value)
{
    unsigned depth = *(unsigned *)arg;
    (void)value;
    if (depth == 0) {
        void *block;
        while ((block = stint_malloc(64)) != NULL)
            stint_free(block);
        return ENOMEM;
    }
    unsigned less = depth - 1;
    struct fork fork;
    fork_start(&fork, grow_in_parallel, &less);
    await_theft(&fork);
    grow_in_parallel(&less, NULL);
    return fork_join(&fork, NULL);
}

TEST_WITH(a_limit_is_passed_by_less_than_a_grant_for_each_other_thread, start, no_thieves)
{
    for (unsigned round = 0; round < 50; round++) {
        unsigned depth = 1 + round % 2;
        size_t limit = (size_t)round * round * round * 100 + 1000;
        stint_options options = STINT_OPTIONS_INIT;
        options.budget.allocation = limit;
        stint_outcome outcome = run_task(grow_in_parallel, &depth, &options);
        assert_limit_passed(outcome);
        assert_true(outcome.usage.allocated > limit - 64);
        assert_true(outcome.usage.allocated <= limit + THIEVES * (limit / 64 < GRANT ? limit / 64 : GRANT));
    }
}

#define WHOLE (8 * MIB)

struct halves {
    atomic_bool drawn, used_up;
};

/* Its grant reaches further than what it has drawn it for. */
static int draw_and_use_the_rest(void *arg, void **value)
{
    struct halves *halves = arg;
    (void)value;
    stint_free(keep(stint_malloc(MIB)));
    atomic_store(&halves->drawn, true);
    while (!atomic_load(&halves->used_up))
        sched_yield();
    stint_free(keep(stint_malloc(GRANT / 2)));
    return 0;
}

static int use_up_what_is_left(void *arg, void **value)
{
    struct halves *halves = arg;
    struct fork fork;
    (void)value;
    fork_start(&fork, draw_and_use_the_rest, halves);
    await_theft(&fork);
    while (!atomic_load(&halves->drawn))
        sched_yield();
    stint_free(keep(stint_malloc(WHOLE - MIB - GRANT / 4)));
    atomic_store(&halves->used_up, true);
    return fork_join(&fork, NULL);
}

TEST_WITH(a_limit_that_is_passed_by_a_grant_is_an_error_at_the_end, start, no_thieves)
{
    struct halves halves = { .drawn = false };
    const stint_options options = { .size = sizeof options, .budget.allocation = WHOLE };
    assert_limit_passed(run_task(use_up_what_is_left, &halves, &options));
    assert_true(atomic_load(&halves.used_up));
}

static int pass_the_limit(void *arg, void **value)
{
    (void)arg;
    (void)value;
    keep(stint_malloc(900 * KIB));
    return 0;
}

/* A block that was refused in an inner scope is not charged anywhere. */
static int try_in_an_inner_scope(void *arg, void **value)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.allocation = KIB;
    (void)arg;
    (void)value;
    for (int i = 0; i < 50; i++) {
        stint_outcome inner;
        if (stint_run(pass_the_limit, NULL, &options, &inner) != 0 || inner.reason != STINT_REASON_ALLOCATION_LIMIT)
            return 1;
        options.budget.allocation = 0;
        options.budget.memory = KIB;
        if (stint_run(pass_the_limit, NULL, &options, &inner) != 0 || inner.reason != STINT_REASON_MEMORY_LIMIT)
            return 2;
        options.budget.memory = 0;
        options.budget.allocation = KIB;
    }
    return 0;
}

static int allocate_beside_inner_scopes(void *arg, void **value)
{
    struct fork fork;
    uint64_t random = 5;
    (void)value;
    fork_start(&fork, try_in_an_inner_scope, NULL);
    await_theft(&fork);
    int error = allocate_exactly(*(size_t *)arg, &random);
    int stolen_error = fork_join(&fork, NULL);
    return error != 0 ? error : stolen_error;
}

TEST_WITH(what_an_inner_scope_is_refused_takes_nothing_from_the_other_threads, start, no_thieves)
{
    size_t bytes = MIB;
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.allocation = bytes;
    options.budget.memory = 2 * MIB;
    for (int round = 0; round < 30; round++) {
        stint_outcome outcome = run_task(allocate_beside_inner_scopes, &bytes, &options);
        assert_ok(outcome);
        assert_int_equal(outcome.usage.allocated, bytes);
    }
}

static int be_absurd_elsewhere(void *arg, void **value)
{
    (void)arg;
    (void)value;
    return stint_malloc(SIZE_MAX / 2) == NULL ? 0 : 1;
}

static int lend_an_absurdity(void *arg, void **value)
{
    struct fork fork;
    (void)arg;
    (void)value;
    fork_start(&fork, be_absurd_elsewhere, NULL);
    await_theft(&fork);
    return fork_join(&fork, NULL);
}

TEST_WITH(an_impossible_size_passes_a_limit_and_is_merely_refused_without_one, start, no_thieves)
{
    stint_options options = STINT_OPTIONS_INIT;
    assert_ok(run_task(lend_an_absurdity, NULL, &options));
    options.budget.allocation = SIZE_MAX / 8;
    assert_limit_passed(run_task(lend_an_absurdity, NULL, &options));
    options.budget.allocation = 0;
    options.budget.memory = MIB;
    assert_outcome(run_task(lend_an_absurdity, NULL, &options), STINT_ERROR, STINT_REASON_MEMORY_LIMIT, ENOMEM);
}

/* --- Accounts ----------------------------------------------------------------------------------------------------- */

TEST_WITH(an_account_is_exact_when_a_task_of_many_threads_has_ended, start, no_thieves)
{
    stint_account *account;
    stint_account_limits limits = {
        .size = sizeof(stint_account_limits), .allocation = 0, .memory = 64 * MIB, .running = 1
    };
    stint_account_usage usage = STINT_ACCOUNT_USAGE_INIT;
    uint64_t random = 9;
    uint64_t sum = 0;
    assert_int_equal(stint_account_create(NULL, &limits, &account), 0);
    stint_options options = STINT_OPTIONS_INIT;
    options.account = account;
    for (int round = 0; round < 50; round++) {
        struct work work = { .seed = random_next(&random), .bytes = MIB, .must_be_stolen = true };
        options.budget.allocation = round % 2 == 0 ? MIB : MIB / 2;
        stint_outcome outcome = run_task(work_in_branches, &work, &options);
        assert_int_equal(outcome.status, round % 2 == 0 ? STINT_OK : STINT_ERROR);
        sum += outcome.usage.allocated;
        assert_int_equal(stint_account_read(account, &usage), 0);
        assert_int_equal(usage.allocated, sum);
        assert_int_equal(usage.memory, 0);
        assert_int_equal(usage.running, 0);
    }
    stint_account_release(account);
}

#define RESULT (2 * MIB)

static int leave_a_result(void *arg, void **value)
{
    (void)arg;
    (void)value;
    return memset(stint_malloc(RESULT), 1, RESULT) != NULL ? 0 : ENOMEM;
}

static int read_reserved(void *account, void **value)
{
    stint_account_usage usage = STINT_ACCOUNT_USAGE_INIT;
    struct fork fork;
    fork_start(&fork, leave_a_result, NULL);
    await_theft(&fork);
    int error = fork_join(&fork, NULL);
    if (error == 0)
        error = stint_account_read(account, &usage);
    *value = (void *)(uintptr_t)usage.memory;
    return error;
}

TEST_WITH(what_a_branch_leaves_stays_reserved_until_its_task_ends, start, no_thieves)
{
    stint_options options = { .size = sizeof options, .account = make_account(NULL, .memory = 64 * MIB) };
    stint_outcome outcome = run_task(read_reserved, options.account, &options);
    assert_ok(outcome);
    assert_true((uintptr_t)outcome.value >= RESULT);
    assert_int_equal(usage_of(options.account).memory, 0);
    stint_account_release(options.account);
}

TEST_WITH(an_accounts_limit_ends_the_task_whose_branch_passes_it, start, no_thieves)
{
    stint_account *account;
    stint_account_limits limits = { .size = sizeof(stint_account_limits), .allocation = MIB };
    assert_int_equal(stint_account_create(NULL, &limits, &account), 0);
    stint_options options = STINT_OPTIONS_INIT;
    options.account = account;
    struct work work = { .seed = 4, .bytes = 4 * MIB, .must_be_stolen = true };
    assert_outcome(run_task(work_in_branches, &work, &options), STINT_ERROR, STINT_REASON_ACCOUNT, EDQUOT);
    stint_account_release(account);
}

/* --- The memory limit --------------------------------------------------------------------------------------------- */

/* Allocates blocks of a size, up to a number or until the task is stopped; counts the live ones. */
static atomic_size_t live;
static atomic_size_t most_live;

struct hoard {
    size_t size;
    unsigned count;
    unsigned branches; /* others beside this one */
};

static void count_live(size_t size)
{
    size_t now = atomic_fetch_add(&live, size) + size;
    size_t most = atomic_load(&most_live);
    while (now > most && !atomic_compare_exchange_weak(&most_live, &most, now))
        ;
}

static int hoard(void *arg, void **value)
{
    const struct hoard *mine = arg;
    struct hoard theirs = { .size = mine->size, .count = mine->count, .branches = mine->branches - 1 };
    struct fork fork;
    (void)value;
    if (mine->branches > 0) {
        fork_start(&fork, hoard, &theirs);
        await_theft(&fork);
    }
    for (unsigned i = 0; i < mine->count; i++) {
        if (stint_malloc(mine->size) == NULL)
            return ENOMEM;
        count_live(mine->size);
    }
    return mine->branches > 0 ? fork_join(&fork, NULL) : 0;
}

static stint_outcome run_hoard(struct hoard *hoarder, size_t limit)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.memory = limit;
    atomic_store(&live, 0);
    atomic_store(&most_live, 0);
    stint_outcome outcome = run_task(hoard, hoarder, &options);
    await_collection();
    return outcome;
}

TEST_WITH(what_branches_hold_together_is_compared_with_the_memory_limit, start, no_thieves)
{
    static const size_t sizes[] = { 64, 4096, 100 * KIB, MIB };
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (unsigned branches = 1; branches <= THIEVES; branches++) {
            struct hoard hoarder = { .size = sizes[i], .count = (unsigned)(8 * MIB / sizes[i]), .branches = branches };
            size_t all = 8 * MIB * (branches + 1);
            stint_outcome outcome = run_hoard(&hoarder, all + all / 4 + MIB);
            assert_ok(outcome);
            assert_in_range(outcome.usage.peak, all - all / 8 - (branches + 1) * (SMALLEST_SLACK + LONGEST_FAST),
                            all + all / 4 + MIB);

            size_t limit = all / 2;
            outcome = run_hoard(&hoarder, limit);
            assert_outcome(outcome, STINT_ERROR, STINT_REASON_MEMORY_LIMIT, ENOMEM);
            assert_true(atomic_load(&most_live) <= limit + (branches + 1) * PASSED_BY);
        }
    }
}

struct wish {
    size_t size;
    bool granted;
};

static int wish(void *arg, void **value)
{
    struct wish *wish = arg;
    (void)value;
    keep(stint_malloc(100));
    void *block = keep(stint_malloc(wish->size));
    wish->granted = block != NULL;
    stint_free(block);
    return 0;
}

static int wish_elsewhere(void *arg, void **value)
{
    struct fork fork;
    (void)value;
    fork_start(&fork, wish, arg);
    await_theft(&fork);
    return fork_join(&fork, NULL);
}

TEST_WITH(the_peak_counts_what_a_branch_was_granted_and_nothing_it_was_refused, start, no_thieves)
{
    for (size_t size = MIB; size <= 64 * MIB; size *= 2) {
        struct wish wished = { .size = size };
        stint_outcome outcome = run_task(wish_elsewhere, &wished, NULL);
        assert_ok(outcome);
        assert_true(wished.granted);
        assert_in_range(outcome.usage.peak, size, size + size / 4);
        stint_options options = { .size = sizeof(stint_options), .on_interrupt = STINT_FAIL };
        options.budget.allocation = MIB / 2;
        outcome = run_task(wish_elsewhere, &wished, &options);
        assert_outcome(outcome, STINT_ERROR, STINT_REASON_ALLOCATION_LIMIT, ENOMEM);
        assert_false(wished.granted);
        assert_true(outcome.usage.peak < MIB / 2);
    }
}

static atomic_bool has_ended;

static int be_refused_on_and_on(void *arg, void **value)
{
    const struct wish *wish = arg;
    (void)value;
    while (!atomic_load(&has_ended))
        assert_null(keep(stint_malloc(wish->size)));
    return 0;
}

static int be_refused_beside(void *arg, void **value)
{
    struct fork fork;
    (void)value;
    atomic_store(&has_ended, false);
    fork_start(&fork, be_refused_on_and_on, arg);
    await_theft(&fork);
    for (int i = 0; i < 20000; i++)
        stint_free(keep(stint_malloc(2 * GRANT)));
    atomic_store(&has_ended, true);
    return fork_join(&fork, NULL);
}

TEST_WITH(what_a_branch_is_refused_counts_for_the_peak_of_no_other, start, no_thieves)
{
    struct wish wish = { .size = 1024 * MIB };
    stint_options options = { .size = sizeof(stint_options), .on_interrupt = STINT_FAIL };
    options.budget.allocation = MIB / 2;
    stint_outcome outcome = run_task(be_refused_beside, &wish, &options);
    assert_outcome(outcome, STINT_ERROR, STINT_REASON_ALLOCATION_LIMIT, ENOMEM);
    assert_true(outcome.usage.peak < MIB);
}

static atomic_int turn;

static int hold_for_a_while(void *arg, void **value)
{
    size_t size = *(size_t *)arg;
    (void)value;
    void *block = keep(stint_malloc(size));
    stint_free(block);
    atomic_store(&turn, 1);
    while (atomic_load(&turn) == 1)
        stint_free(keep(stint_malloc(16)));
    return block != NULL ? 0 : ENOMEM;
}

static void *left_to_the_task; /* by its branch */

/* With a branch that says when its turn is over, and goes on. */
static int hold_beside(stint_fn *branch, void *arg)
{
    struct fork fork;
    atomic_store(&turn, 0);
    left_to_the_task = NULL;
    fork_start(&fork, branch, arg);
    await_theft(&fork);
    while (atomic_load(&turn) == 0)
        stint_checkpoint();
    stint_free(left_to_the_task);
    void *block = stint_malloc(*(size_t *)arg);
    atomic_store(&turn, 2);
    int error = fork_join(&fork, NULL);
    return block != NULL ? error : ENOMEM;
}

static int hold_one_after_the_other(void *arg, void **value)
{
    (void)value;
    return hold_beside(hold_for_a_while, arg);
}

static void assert_there_is_room(stint_fn *fn)
{
    size_t size = 10 * MIB;
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.memory = 12 * MIB;
    atomic_store(&is_patient, true);
    for (unsigned round = 0, count = repeats(20); round < count; round++) {
        assert_ok(run_task(fn, &size, &options));
        await_collection();
    }
}

TEST_WITH(what_one_branch_has_freed_another_may_hold, start, no_thieves)
{
    assert_there_is_room(hold_one_after_the_other);
}

static int make_one(void *arg, void **value)
{
    *value = stint_malloc(*(size_t *)arg);
    return 0;
}

/* The thief keeps a heap whose block the owner frees. */
static int free_what_a_branch_made(void *arg, void **value)
{
    (void)value;
    for (int i = 0; i < 5; i++) {
        struct fork fork;
        void *block = NULL;
        fork_start(&fork, make_one, arg);
        await_theft(&fork);
        if (fork_join(&fork, &block) != 0 || block == NULL)
            return ENOMEM;
        stint_free(block);
        block = stint_malloc(*(size_t *)arg);
        if (block == NULL)
            return ENOMEM;
        stint_free(block);
    }
    return 0;
}

TEST_WITH(blocks_of_an_ended_branch_that_were_freed_elsewhere_do_not_count, start, no_thieves)
{
    size_t size = 10 * MIB;
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.memory = 12 * MIB;
    atomic_store(&is_patient, true);
    for (unsigned round = 0, count = repeats(20); round < count; round++)
        assert_ok(run_task(free_what_a_branch_made, &size, &options));
}

/* Its block is freed by the task's own thread, while it runs. */
static int make_one_and_go_on(void *arg, void **value)
{
    (void)value;
    left_to_the_task = stint_malloc(*(size_t *)arg);
    atomic_store(&turn, 1);
    while (atomic_load(&turn) == 1)
        stint_free(keep(stint_malloc(16)));
    return 0;
}

static int free_what_a_running_branch_made(void *arg, void **value)
{
    (void)value;
    return hold_beside(make_one_and_go_on, arg);
}

TEST_WITH(blocks_of_a_running_branch_that_were_freed_elsewhere_do_not_count, start, no_thieves)
{
    assert_there_is_room(free_what_a_running_branch_made);
}

TEST_MAIN()
