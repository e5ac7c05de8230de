/* SPDX-License-Identifier: MIT
 *
 * The memory limit: how far it can be passed, and which tasks it never stops. The test counts memory a second time, by
 * the usable sizes of the live blocks. */
#include "support.h"

#include <stdatomic.h>

static size_t floor_of(size_t limit)
{
    return limit / 128 > 64 * KIB ? limit / 128 : 64 * KIB;
}

#define SLOTS 128

struct work {
    const struct family *family;
    uint64_t seed;
    size_t limit;
    unsigned size_bits;
    unsigned steps;
    void *slots[SLOTS];
    size_t sizes[SLOTS];   /* as mimalloc told them */
    size_t at_most[SLOTS]; /* with the room that alignment may take */
    volatile size_t held;
    volatile size_t most_held;
    volatile size_t held_at_most;
    volatile size_t asked; /* by the call that is being made */
    volatile bool passed;  /* the limit, by more than the promise */
};

/* The most that mimalloc can make of a request: a quarter more, and whole slices for a large one. */
static size_t largest_block(size_t size)
{
    return size + size / 4 + (size > 512 * KIB ? 512 * KIB : size > 128 * KIB ? 64 * KIB : 16);
}

static void forget(struct work *work, unsigned slot)
{
    work->family->free(work->slots[slot]);
    work->slots[slot] = NULL;
    work->held -= work->sizes[slot];
    work->held_at_most -= work->at_most[slot];
}

static int random_task(void *arg, void **value)
{
    struct work *work = arg;
    uint64_t random = work->seed;
    (void)value;
    for (unsigned step = 0; step < work->steps; step++) {
        unsigned slot = (unsigned)random_below(&random, SLOTS);
        if (work->slots[slot] != NULL && random_below(&random, 3) == 0) {
            forget(work, slot);
            continue;
        }
        size_t size = random_size(&random, work->size_bits);
        size_t alignment = random_below(&random, 4) == 0 ? (size_t)32 << random_below(&random, 8) : 16;
        bool grow = work->slots[slot] != NULL && size < MIB && work->sizes[slot] < MIB;
        void *block;
        work->asked = size + (alignment > 16 ? alignment : 0);
        if (grow) {
            work->asked = size;
            block = work->family->realloc(work->slots[slot], size);
        } else {
            block = work->family->aligned_alloc(alignment, size);
        }
        if (block == NULL)
            return 0;
        *(char *)block = 1;
        if (grow) {
            work->held -= work->sizes[slot];
            work->held_at_most -= work->at_most[slot];
        } else if (work->slots[slot] != NULL) {
            forget(work, slot);
        }
        work->slots[slot] = block;
        work->sizes[slot] = work->family->usable_size(block);
        work->at_most[slot] = alignment > 16 ? largest_block(work->sizes[slot] + alignment) : work->sizes[slot];
        work->held += work->sizes[slot];
        work->held_at_most += work->at_most[slot];
        if (work->held > work->most_held)
            work->most_held = work->held;
        if (work->limit != 0 && work->held > work->limit + floor_of(work->limit))
            work->passed = true;
    }
    return 0;
}

static stint_outcome run_work(struct work *work, stint_on_interrupt mode)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.memory = work->limit;
    options.on_interrupt = mode;
    return run_task(random_task, work, &options);
}

/* Slots that still hold blocks of a task that returned Ok. */
static void free_all(struct work *work)
{
    for (unsigned slot = 0; slot < SLOTS; slot++)
        work->family->free(work->slots[slot]);
}

static void check_random_tasks(unsigned runs, unsigned size_bits, unsigned least_limit_bits)
{
    uint64_t random = size_bits;
    unsigned stopped = 0;
    for (unsigned run = 0; run < runs; run++) {
        struct work work = {
            .family = family_at(run % (stint_malloc_is_overridden() ? 2 : 1)),
            .seed = random_next(&random),
            .limit = ((size_t)1 << least_limit_bits) + random_size(&random, size_bits + 6),
            .size_bits = size_bits,
            .steps = (unsigned)random_below(&random, 1000),
        };
        stint_outcome outcome = run_work(&work, random_below(&random, 2) == 0 ? STINT_JUMP : STINT_FAIL);
        assert_false(work.passed);
        assert_true(outcome.usage.peak <= work.limit + floor_of(work.limit));
        assert_true(most_behind(&outcome.usage) >= work.most_held);
        if (outcome.status == STINT_OK) {
            free_all(&work);
            continue;
        }
        assert_outcome(outcome, STINT_ERROR, STINT_REASON_MEMORY_LIMIT, ENOMEM);
        /* The realloc that was refused would have held the old block and the new one. */
        assert_true(work.held_at_most + largest_block(work.asked) > work.limit);
        stopped++;
    }
    assert_in_range(stopped, runs / 20, runs - runs / 20); /* or the test tests little */
}

TEST(small_blocks_pass_the_limit_by_no_more_than_promised)
{
    check_random_tasks(repeats(1500), 10, 12);
}

TEST(medium_blocks_pass_the_limit_by_no_more_than_promised)
{
    check_random_tasks(repeats(1000), 18, 16);
    check_random_tasks(repeats(500), 22, 20);
}

TEST(blocks_of_up_to_a_gibibyte_pass_the_limit_by_no_more_than_promised)
{
    check_random_tasks(repeats(300), 30, 20);
}

struct churn {
    size_t hold;  /* bytes that stay */
    size_t block; /* size of the passing blocks */
    size_t total; /* of what comes and goes */
};

static int churn(void *arg, void **value)
{
    const struct churn *work = arg;
    (void)value;
    void *held = work->hold > 0 ? keep(stint_malloc(work->hold)) : NULL;
    if (work->hold > 0 && held == NULL)
        return 1;
    for (size_t done = 0; done < work->total; done += work->block) {
        void *block = keep(stint_malloc(work->block));
        if (block == NULL)
            return 2;
        stint_free(block);
    }
    stint_free(held);
    return 0;
}

/* --- Large blocks, which take whole slices --- */

#define SLICED (129 * KIB)

struct sliced {
    unsigned count;
    bool inside;
    size_t limit;
    size_t held;
};

static int hold_sliced(void *arg, void **value)
{
    struct sliced *sliced = arg;
    (void)value;
    for (unsigned i = 0; i < sliced->count; i++) {
        void *block = keep(stint_malloc(SLICED));
        if (block == NULL)
            return ENOMEM;
        sliced->held += stint_malloc_usable_size(block);
    }
    return 0;
}

static int hold_sliced_and_more(void *arg, void **value)
{
    struct sliced *sliced = arg;
    stint_outcome outcome;
    int error = sliced->inside ? stint_run(hold_sliced, sliced, NULL, &outcome) : hold_sliced(sliced, value);
    for (void *block; error == 0 && (block = keep(stint_malloc(1000))) != NULL;)
        sliced->held += stint_malloc_usable_size(block);
    return 0;
}

static void assert_limit_for_sliced(bool inside)
{
    const size_t limit = 64 * MIB;
    for (unsigned part = 950; part < 1000; part += 2) {
        unsigned count = (unsigned)(limit / 1000 * part / (192 * KIB));
        struct sliced sliced = { .count = count, .inside = inside, .limit = limit };
        stint_options options = { .size = sizeof(stint_options), .on_interrupt = STINT_FAIL, .budget.memory = limit };
        stint_outcome outcome = run_task(hold_sliced_and_more, &sliced, &options);
        assert_int_equal(outcome.reason, STINT_REASON_MEMORY_LIMIT);
        assert_true(sliced.held <= limit + floor_of(limit) + 1024);
        assert_true(sliced.held >= limit - floor_of(limit));
    }
}

TEST(what_large_blocks_take_beyond_what_was_asked_for_counts_at_once)
{
    assert_limit_for_sliced(false);
}

TEST(so_it_does_for_the_scope_around_the_one_that_made_them)
{
    assert_limit_for_sliced(true);
}

TEST(a_task_that_frees_as_it_goes_is_never_stopped)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.memory = MIB;
    static const size_t blocks[] = { 16, 100, 1000, 10000, 100000, 500000 };
    for (unsigned i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        struct churn work = { .block = blocks[i], .total = blocks[i] < 1000 ? 16 * MIB : 256 * MIB };
        stint_outcome outcome = run_task(churn, &work, &options);
        assert_ok(outcome);
        assert_true(outcome.usage.allocated >= work.total);
        assert_true(outcome.usage.peak <= MIB);
    }
}

TEST(a_task_may_live_near_its_limit)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.memory = 16 * MIB;
    struct churn work = { .hold = 15 * MIB, .block = 1000, .total = 64 * MIB };
    assert_ok(run_task(churn, &work, &options));
}

struct single {
    size_t size;
    volatile bool returned_null;
};

static int allocate_once(void *arg, void **value)
{
    struct single *single = arg;
    (void)value;
    keep(stint_malloc(100));
    errno = 0;
    single->returned_null = keep(stint_malloc(single->size)) == NULL && errno == ENOMEM;
    return 0;
}

TEST(an_allocation_larger_than_the_limit_is_refused_before_it_is_made)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.memory = MIB;
    for (size_t size = MIB + 128 * KIB; size <= 1024 * GIB; size *= 2) {
        struct single single = { .size = size };
        options.on_interrupt = STINT_FAIL;
        stint_outcome outcome = run_task(allocate_once, &single, &options);
        assert_outcome(outcome, STINT_ERROR, STINT_REASON_MEMORY_LIMIT, ENOMEM);
        assert_true(single.returned_null);
        assert_int_equal(outcome.usage.allocated, 112);
        assert_true(outcome.usage.peak < 64 * KIB);
        options.on_interrupt = STINT_JUMP;
        outcome = run_task(allocate_once, &single, &options);
        assert_outcome(outcome, STINT_ERROR, STINT_REASON_MEMORY_LIMIT, ENOMEM);
        assert_int_equal(outcome.usage.allocated, 112);
    }
}

TEST(what_a_task_is_refused_for_any_other_limit_was_never_held)
{
    stint_account *account = make_account(NULL, .allocation = MIB);
    for (size_t size = MIB; size <= 1024 * MIB; size *= 2) {
        struct single single = { .size = size };
        stint_options options = { .size = sizeof(stint_options), .on_interrupt = STINT_FAIL };
        options.budget.allocation = MIB;
        stint_outcome outcome = run_task(allocate_once, &single, &options);
        assert_outcome(outcome, STINT_ERROR, STINT_REASON_ALLOCATION_LIMIT, ENOMEM);
        assert_true(outcome.usage.peak < 64 * KIB);
        options.budget.allocation = 0;
        options.account = account;
        outcome = run_task(allocate_once, &single, &options);
        assert_outcome(outcome, STINT_ERROR, STINT_REASON_ACCOUNT, EDQUOT);
        assert_true(outcome.usage.peak < 64 * KIB);
    }
    stint_account_release(account);
}

static int allocate_and_free_once(void *arg, void **value)
{
    const struct single *single = arg;
    (void)value;
    void *block = keep(stint_malloc(single->size));
    stint_free(block);
    return block != NULL ? 0 : ENOMEM;
}

static int allocate_and_free_inside(void *arg, void **value)
{
    stint_outcome outcome;
    (void)value;
    int error = stint_run(allocate_and_free_once, arg, NULL, &outcome);
    return error != 0 ? error : outcome.error;
}

TEST(a_large_block_counts_for_the_peak_however_short_it_lived)
{
    for (size_t size = MIB; size <= 64 * MIB; size *= 2) {
        struct single single = { .size = size };
        stint_outcome outcome = run_task(allocate_and_free_once, &single, NULL);
        assert_ok(outcome);
        assert_in_range(outcome.usage.peak, size, size + size / 4);
        outcome = run_task(allocate_and_free_inside, &single, NULL);
        assert_ok(outcome);
        assert_in_range(outcome.usage.peak, size, size + size / 4);
    }
}

/* The first time it is refused, the second time it is granted to tidy up with. */
static int allocate_and_free_again(void *arg, void **value)
{
    return allocate_and_free_once(arg, value) == ENOMEM ? allocate_and_free_once(arg, value) : EIO;
}

static int allocate_while_it_waits(void *arg, void **value)
{
    stint_mask();
    usleep(5000); /* beyond its deadline */
    int error = allocate_and_free_once(arg, value);
    stint_unmask();
    return error;
}

TEST(so_does_a_block_that_is_granted_while_an_interrupt_waits)
{
    struct single single = { .size = MIB / 2 };
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.wall_ns = MS;
    stint_outcome outcome = run_task(allocate_while_it_waits, &single, &options);
    assert_outcome(outcome, STINT_ERROR, STINT_REASON_DEADLINE, ETIMEDOUT);
    assert_in_range(outcome.usage.peak, single.size, single.size + single.size / 4);
    options.budget = (stint_budget){ .memory = MIB / 4 };
    single.size = MIB;
    options.grace = 2 * MIB;
    options.on_interrupt = STINT_FAIL;
    options.flags = STINT_COMMIT;
    outcome = run_task(allocate_and_free_again, &single, &options);
    assert_outcome(outcome, STINT_ERROR, STINT_REASON_MEMORY_LIMIT, ENOMEM);
    assert_in_range(outcome.usage.peak, single.size, single.size + single.size / 4);
}

/* Blocks go to another thread, which frees them. */
struct handover {
    _Atomic(void *) block;
    atomic_bool done;
    size_t size;
    size_t total;
};

static void *free_what_comes(void *arg)
{
    struct handover *handover = arg;
    while (!atomic_load(&handover->done))
        stint_free(atomic_exchange(&handover->block, NULL));
    return NULL;
}

static int hand_over(void *arg, void **value)
{
    struct handover *handover = arg;
    (void)value;
    for (size_t done = 0; done < handover->total; done += handover->size) {
        void *block = keep(stint_malloc(handover->size));
        if (block == NULL)
            return 1;
        atomic_store(&handover->block, block);
        while (atomic_load(&handover->block) != NULL)
            ;
    }
    return 0;
}

TEST(blocks_that_another_thread_frees_count_as_freed)
{
    static const size_t sizes[] = { 16, 1000, 20000, 200 * KIB, 2 * MIB, 20 * MIB };
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct handover handover = { .size = sizes[i] };
        stint_options options = STINT_OPTIONS_INIT;
        options.budget.memory = sizes[i] * 4 < MIB ? MIB : sizes[i] * 4;
        handover.total = sizes[i] < 100 ? 2 * MIB : options.budget.memory * 5;
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, free_what_comes, &handover), 0);
        stint_outcome outcome = run_task(hand_over, &handover, &options);
        atomic_store(&handover.done, true);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_ok(outcome);
    }
}

/* Aligned blocks, and those that are no size of mimalloc's, hold more than they cost. */
static const struct {
    size_t alignment, size;
} rounded[] = {
    { 16, 72 }, { 64, 16423 }, { 128, 386 }, { 256, 260 }, { 4096, 16423 }, { 16, 524923 }, { 65536, 70000 }
};

struct rounded_work {
    unsigned which;
    unsigned at_once;
    unsigned inside; /* so many scopes, each with some of those in it */
    bool ended;
};

static int allocate_rounded(void *arg, void **value)
{
    struct rounded_work *work = arg;
    (void)value;
    for (unsigned i = 0; i < work->at_once && !work->ended; i++)
        work->ended = keep(stint_aligned_alloc(rounded[work->which].alignment, rounded[work->which].size)) == NULL;
    return 0;
}

static int allocate_rounded_inside(void *arg, void **value)
{
    struct rounded_work *work = arg;
    stint_outcome outcome = { .status = STINT_OK };
    (void)value;
    for (unsigned i = 0; i < work->inside && !work->ended && outcome.status == STINT_OK; i++)
        assert_int_equal(stint_run(allocate_rounded, work, NULL, &outcome), 0);
    return 0;
}

static int allocate_rounded_further_in(void *arg, void **value)
{
    struct rounded_work *work = arg;
    stint_outcome outcome = { .status = STINT_OK };
    (void)value;
    while (!work->ended && outcome.status == STINT_OK)
        assert_int_equal(stint_run(allocate_rounded_inside, work, NULL, &outcome), 0);
    return 0;
}

TEST(blocks_that_hold_more_than_they_cost_pass_the_limit_by_no_more_than_others)
{
    for (unsigned i = 0; i < 4 * sizeof rounded / sizeof *rounded; i++) {
        struct rounded_work work = { .which = i / 4,
                                     .at_once = i % 2 == 0 ? 1 : 7,
                                     .inside = i % 2 == 0 ? UINT_MAX : 9 };
        stint_options options = STINT_OPTIONS_INIT;
        options.budget.memory = i % 4 < 2 ? 4 * MIB : 64 * MIB;
        options.on_interrupt = STINT_FAIL;
        stint_outcome outcome = run_task(allocate_rounded_further_in, &work, &options);
        assert_outcome(outcome, STINT_ERROR, STINT_REASON_MEMORY_LIMIT, ENOMEM);
        assert_in_range(outcome.usage.peak, options.budget.memory / 2,
                        options.budget.memory + floor_of(options.budget.memory));
    }
}

struct outside {
    void *blocks[64];
};

static int free_blocks_from_outside(void *arg, void **value)
{
    struct outside *outside = arg;
    (void)value;
    for (unsigned i = 0; i < 64; i++)
        stint_free(outside->blocks[i]);
    for (;;) {
        if (keep(stint_malloc(10000)) == NULL)
            return 0;
    }
}

TEST(freeing_blocks_from_before_the_task_earns_nothing)
{
    struct outside outside;
    for (unsigned i = 0; i < 64; i++)
        outside.blocks[i] = stint_malloc(100000);
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.memory = MIB;
    stint_outcome outcome = run_task(free_blocks_from_outside, &outside, &options);
    assert_outcome(outcome, STINT_ERROR, STINT_REASON_MEMORY_LIMIT, ENOMEM);
    assert_in_range(outcome.usage.allocated, MIB / 2, MIB + 128 * KIB);
}

TEST_MAIN()
