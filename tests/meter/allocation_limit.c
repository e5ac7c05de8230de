/* SPDX-License-Identifier: MIT
 *
 * The allocation limit: exact, deterministic, and never early. The model is the charging rule of docs/metering.md,
 * written down a second time. */
#include "support.h"

#define SLOTS 64

/* A task of random allocations, which predicts every charge before it is made. */
struct work {
    const struct family *family;
    uint64_t seed;
    size_t limit; /* 0: none */
    unsigned steps;
    bool plain; /* no aligned blocks: what a realloc finds of such a block depends on where it happens to lie */
    /* The model's prediction; volatile, as a jump leaves the task. */
    volatile uint64_t charged;
    volatile bool must_stop; /* the call that is being made passes the limit */
    volatile bool wrong;     /* the meter and the model differ on whether it does */
    void *slots[SLOTS];
};

static uint64_t rounded(size_t size)
{
    return size == 0 ? 16 : (size + 15) / 16 * 16;
}

static uint64_t charge_of_realloc(const struct family *family, void *block, size_t size)
{
    if (block == NULL)
        return rounded(size);
    size_t usable = family->usable_size(block);
    bool stays = size > 0 && size <= usable && size >= usable / 2;
    return stays ? 0 : rounded(size);
}

static void predict(struct work *work, uint64_t charge)
{
    if (work->limit != 0 && charge != 0 && work->charged + charge > work->limit)
        work->must_stop = true;
    else
        work->charged += charge;
}

static void *one_call(struct work *work, uint64_t *random, void **slot)
{
    static char text[4096];
    const struct family *family = work->family;
    size_t size = random_size(random, random_below(random, 32) == 0 ? 21 : 14);
    if (random_below(random, 8) == 0)
        size = random_below(random, 3);
    size_t alignment = (size_t)1 << (3 + random_below(random, 10));
    uint64_t aligned_charge = alignment <= 16 ? rounded(size) : rounded(size + alignment);
    void *block = NULL;
    switch (random_below(random, work->plain ? 6 : 8)) {
    case 7:
        predict(work, aligned_charge);
        return family->aligned_alloc(alignment, size);
    case 6:
        predict(work, aligned_charge);
        return family->posix_memalign(&block, alignment, size) == 0 ? block : NULL;
    case 0:
        predict(work, rounded(size));
        return family->malloc(size);
    case 1:
        predict(work, rounded(size * 3));
        return family->calloc(3, size);
    case 2:
        size %= sizeof text;
        memset(text, 'x', size);
        text[size] = '\0';
        predict(work, rounded(size + 1));
        return random_below(random, 2) == 0 ? family->strdup(text) : family->strndup(text, size);
    case 3:
        size += size / 16 * random_below(random, 16);
        predict(work, charge_of_realloc(family, *slot, size * 2));
        block = family->reallocarray(*slot, 2, size);
        break;
    default:
        if (*slot != NULL && random_below(random, 2) == 0) /* close to the block's own size */
            size = family->usable_size(*slot) * (4 + random_below(random, 8)) / 8;
        predict(work, charge_of_realloc(family, *slot, size));
        block = family->realloc(*slot, size);
        break;
    }
    if (block != NULL)
        *slot = NULL;
    return block;
}

static int random_task(void *arg, void **value)
{
    struct work *work = arg;
    uint64_t random = work->seed;
    (void)value;
    for (unsigned step = 0; step < work->steps; step++) {
        void **slot = &work->slots[random_below(&random, SLOTS)];
        void *block = one_call(work, &random, slot);
        if (work->must_stop != (block == NULL)) {
            work->wrong = true;
            return 0;
        }
        if (block == NULL)
            return 0; /* STINT_FAIL */
        work->family->free(*slot);
        *slot = block;
    }
    for (unsigned i = 0; i < SLOTS; i++)
        work->family->free(work->slots[i]);
    return 0;
}

static stint_outcome run_work(struct work *work, stint_on_interrupt mode)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.allocation = work->limit;
    options.on_interrupt = mode;
    return run_task(random_task, work, &options);
}

TEST(random_tasks_are_charged_as_the_model_says_and_stopped_where_it_says)
{
    uint64_t random = 2026;
    unsigned stopped = 0;
    const unsigned runs = repeats(10000);
    for (unsigned run = 0; run < runs; run++) {
        struct work work = {
            .family = family_at(run % (stint_malloc_is_overridden() ? 2 : 1)),
            .seed = random_next(&random),
            .limit = random_below(&random, 8) == 0 ? 0 : random_size(&random, 20),
            .steps = (unsigned)random_below(&random, 200),
        };
        stint_outcome outcome = run_work(&work, random_below(&random, 2) == 0 ? STINT_JUMP : STINT_FAIL);
        assert_false(work.wrong);
        if (work.must_stop)
            assert_limit_passed(outcome);
        else
            assert_ok(outcome);
        assert_int_equal(outcome.usage.allocated, work.charged);
        assert_true(work.limit == 0 || outcome.usage.allocated <= work.limit);
        stopped += work.must_stop;
    }
    assert_in_range(stopped, runs / 10, runs - runs / 10); /* or the test tests little */
}

static void *run_elsewhere(void *arg)
{
    struct work *work = arg;
    stint_outcome outcome;
    if (stint_run(random_task, work, NULL, &outcome) == 0)
        work->charged = outcome.usage.allocated;
    return NULL;
}

TEST(the_same_work_is_charged_the_same_on_every_run_and_thread)
{
    const struct work work = { .family = &stint_family, .seed = 5, .steps = 1000, .plain = true };
    struct work first = work;
    uint64_t charge = run_work(&first, STINT_JUMP).usage.allocated;
    assert_true(charge > MIB);
    for (int round = 0; round < 20; round++) {
        struct work again = work;
        assert_int_equal(run_work(&again, STINT_JUMP).usage.allocated, charge);
        struct work elsewhere = work;
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, run_elsewhere, &elsewhere), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(elsewhere.charged, charge);
    }
}

struct count {
    const struct family *family;
    size_t size;
    volatile unsigned made;
    unsigned wanted;
};

static int allocate_count(void *arg, void **value)
{
    struct count *count = arg;
    (void)value;
    while (count->made < count->wanted) {
        if (keep(count->family->malloc(count->size)) == NULL)
            return 0;
        count->made++;
    }
    return 0;
}

TEST(a_task_may_use_its_limit_to_the_last_byte)
{
    stint_options options = STINT_OPTIONS_INIT;
    for (unsigned i = 0; family_at(i) != NULL; i++) {
        for (int mode = STINT_JUMP; mode <= STINT_FAIL; mode++) {
            options.on_interrupt = (stint_on_interrupt)mode;
            options.budget.allocation = 1000 * 16;
            struct count exact = { .family = family_at(i), .size = 16, .wanted = 1000 };
            stint_outcome outcome = run_task(allocate_count, &exact, &options);
            assert_ok(outcome);
            assert_int_equal(outcome.usage.allocated, 16000);

            struct count more = { .family = family_at(i), .size = 16, .wanted = 1001 };
            assert_limit_passed(run_task(allocate_count, &more, &options));
            assert_int_equal(more.made, 1000);

            options.budget.allocation = 1000 * 16 - 1;
            struct count less = { .family = family_at(i), .size = 16, .wanted = 1000 };
            outcome = run_task(allocate_count, &less, &options);
            assert_limit_passed(outcome);
            assert_int_equal(less.made, 999);
            assert_int_equal(outcome.usage.allocated, 999 * 16);
        }
    }
}

/* Sizes that no memory can hold, with the first call at a sample point and later ones between two. */
static int allocate_absurdly(void *arg, void **value)
{
    const size_t *sizes = arg;
    (void)value;
    for (int round = 0; round < 3; round++) {
        for (unsigned i = 0; sizes[i] != 0; i++) {
            errno = 0;
            if (keep(stint_malloc(sizes[i])) != NULL || errno != ENOMEM)
                return 1;
        }
        keep(stint_malloc(100));
    }
    return 0;
}

static int absurd_inside_a_scope_that_has_used_some(void *arg, void **value)
{
    (void)value;
    keep(stint_malloc(1000));
    stint_outcome inner;
    if (stint_run(allocate_absurdly, arg, NULL, &inner) != 0)
        return 1;
    return inner.status == STINT_OK && inner.usage.allocated == 3 * 112 ? 0 : 2;
}

TEST(an_impossible_size_is_refused_and_not_charged)
{
    size_t sizes[] = { SIZE_MAX, SIZE_MAX - 15, SIZE_MAX - 17, SIZE_MAX - 4096, SIZE_MAX / 2 + 1, SIZE_MAX / 2, 0 };
    stint_outcome outcome = run_task(allocate_absurdly, sizes, NULL);
    assert_ok(outcome);
    assert_int_equal(outcome.usage.allocated, 3 * 112);
    outcome = run_task(absurd_inside_a_scope_that_has_used_some, sizes, NULL);
    assert_ok(outcome);
    assert_int_equal(outcome.usage.allocated, 1008 + 3 * 112);
}

TEST(a_limit_larger_than_any_work_is_no_limit)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.allocation = SIZE_MAX;
    struct count count = { .family = &stint_family, .size = 16, .wanted = 100000 };
    assert_ok(run_task(allocate_count, &count, &options));
}

TEST_MAIN()
