/* SPDX-License-Identifier: MIT
 *
 * Loops, reductions and sorting: each index once, pieces, order, errors, interrupts, and what a caller may get
 * wrong. */
#include "swarm.h"

#define LENGTH ((size_t)100000)

/* On one worker, on two, in a plain scope, and outside of any. */
static void everywhere(stint_fn *fn, void *arg, int expected)
{
    void *value = NULL;
    for (unsigned workers = 1; workers <= 2; workers++) {
        const stint_pool_options options = { .size = sizeof(stint_pool_options), .workers = workers };
        assert_int_equal(stint_pool_create(&options, &pool), 0);
        const stint_outcome outcome = run_in_pool(pool, fn, arg, NULL);
        assert_int_equal(outcome.error, expected);
        assert_int_equal(stint_pool_destroy(pool), 0);
    }
    const stint_outcome outcome = run_task(fn, arg, NULL);
    assert_int_equal(outcome.error, expected);
    assert_int_equal(fn(arg, &value), expected);
}

struct marks {
    size_t begin;
    size_t end;
    size_t grain;
    atomic_uint calls;
    atomic_uint wrong; /* pieces that are no multiples of the grain */
    atomic_uchar counts[LENGTH];
};

static struct marks marks;

static int mark(size_t begin, size_t end, void *arg)
{
    struct marks *all = arg;
    atomic_fetch_add(&all->calls, 1);
    if (begin >= end ||
        (all->grain != 0 && ((begin - all->begin) % all->grain != 0 || (end - begin != all->grain && end != all->end))))
        atomic_fetch_add(&all->wrong, 1);
    for (size_t i = begin; i < end; i++)
        atomic_fetch_add_explicit(&all->counts[i], 1, memory_order_relaxed);
    return 0;
}

static int mark_each(void *arg, void **value)
{
    struct marks *all = arg;
    (void)value;
    memset(&all->calls, 0, sizeof *all - offsetof(struct marks, calls));
    int error = stint_for(all->begin, all->end, all->grain, mark, all);
    for (size_t i = 0; i < LENGTH; i++) {
        if (atomic_load(&all->counts[i]) != (i >= all->begin && i < all->end))
            return EPROTO;
    }
    size_t pieces = all->end <= all->begin || all->grain == 0 ? 0 : (all->end - all->begin - 1) / all->grain + 1;
    if (atomic_load(&all->wrong) > 0 || (all->grain != 0 && atomic_load(&all->calls) != pieces))
        return EPROTO;
    return error;
}

TEST(a_loop_does_each_index_once_in_pieces_of_the_grain)
{
    static const size_t cases[][3] = {
        { 0, LENGTH, 0 }, { 0, LENGTH, 1000 }, { 17, LENGTH, 999 }, { 5, 6, 0 },   { 5, 6, 100 },
        { 7, 7, 0 },      { 9, 3, 10 },        { 0, 1000, 1 },      { 3, 300, 0 }, { 0, LENGTH, LENGTH },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        marks.begin = cases[i][0];
        marks.end = cases[i][1];
        marks.grain = cases[i][2];
        everywhere(mark_each, &marks, 0);
    }
}

static int mark_each_masked(void *arg, void **value)
{
    stint_mask();
    int error = mark_each(arg, value);
    stint_unmask();
    return error;
}

TEST(a_loop_in_a_masked_region_runs_too)
{
    marks.begin = 0;
    marks.end = LENGTH;
    marks.grain = 10;
    everywhere(mark_each_masked, &marks, 0);
}

static int fail_at_some(size_t begin, size_t end, void *arg)
{
    size_t bad = *(size_t *)arg;
    return begin <= bad && bad < end ? EILSEQ : 0;
}

static int loop_that_fails(void *arg, void **value)
{
    (void)value;
    return stint_for(0, LENGTH, 10, fail_at_some, arg);
}

TEST(an_error_of_one_piece_is_that_of_the_loop)
{
    static const size_t bad[] = { 0, 1, LENGTH / 2, LENGTH - 1 };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        size_t where = bad[i];
        everywhere(loop_that_fails, &where, EILSEQ);
    }
}

/* The idle worker has asked before the first piece is begun, and in a masked region gets nothing. */
static int loop_over_everything(void *arg, void **value)
{
    (void)value;
    nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
    stint_mask();
    int error = stint_for(0, SIZE_MAX, 1, fail_at_some, arg);
    stint_unmask();
    return error;
}

TEST_IN_POOL(the_largest_of_all_ranges_can_be_halved)
{
    size_t bad = 3;
    for (int round = 0; round < 10; round++)
        assert_int_equal(run_in_pool(pool, loop_over_everything, &bad, NULL).error, EILSEQ);
}

static int never(size_t begin, size_t end, void *arg)
{
    (void)begin;
    (void)end;
    (void)arg;
    return EPROTO;
}

TEST(an_empty_loop_calls_nothing)
{
    assert_int_equal(stint_for(3, 3, 0, never, NULL), 0);
    assert_int_equal(stint_for(4, 3, 7, never, NULL), 0);
}

static int meet_in_a_loop(size_t begin, size_t end, void *arg)
{
    struct swarm *swarm = arg;
    (void)end;
    swarm_note_start(swarm);
    /* Another thread has to do some of it: the first pieces wait until one does. */
    for (int i = 0; i < 20000 && begin < LENGTH / 2 && atomic_load(&swarm->elsewhere) == 0; i++)
        sched_yield();
    return 0;
}

static int loop_until_elsewhere(struct swarm *swarm, stint_range_fn *piece)
{
    swarm->own = pthread_self();
    int error = 0;
    while (error == 0 && atomic_load(&swarm->elsewhere) == 0)
        error = stint_for(0, 1000, 1, piece, swarm);
    return error;
}

static int loop_on_two_workers(void *swarm, void **value)
{
    (void)value;
    return loop_until_elsewhere(swarm, meet_in_a_loop);
}

TEST_IN_POOL(an_idle_worker_takes_a_part_of_a_loop)
{
    struct swarm swarm = { .started = 0 };
    assert_ok(run_in_pool(pool, loop_on_two_workers, &swarm, NULL));
    assert_true(atomic_load(&swarm.elsewhere) > 0);
}

static int fail_elsewhere(size_t begin, size_t end, void *arg)
{
    const struct swarm *swarm = arg;
    int error = meet_in_a_loop(begin, end, arg);
    return error == 0 && !pthread_equal(pthread_self(), swarm->own) ? EILSEQ : error;
}

static int loop_that_fails_elsewhere(void *swarm, void **value)
{
    (void)value;
    return loop_until_elsewhere(swarm, fail_elsewhere);
}

TEST_IN_POOL(an_error_of_a_part_that_another_worker_does_is_that_of_the_loop)
{
    struct swarm swarm = { .started = 0 };
    stint_outcome outcome = run_in_pool(pool, loop_that_fails_elsewhere, &swarm, NULL);
    assert_outcome(outcome, STINT_ERROR, STINT_REASON_FAILED, EILSEQ);
}

static int allocate_in_a_loop(size_t begin, size_t end, void *arg)
{
    (void)begin;
    (void)end;
    (void)arg;
    return stint_malloc(1000) != NULL ? 0 : ENOMEM;
}

static int loop_beyond_the_limit(void *arg, void **value)
{
    (void)value;
    return stint_for(0, LENGTH, 1, allocate_in_a_loop, arg);
}

TEST_IN_POOL(a_loop_is_bounded_like_its_task)
{
    for (int round = 0; round < 10; round++) {
        stint_options options = STINT_OPTIONS_INIT;
        options.budget.allocation = 10 * MIB;
        assert_limit_passed(run_in_pool(pool, loop_beyond_the_limit, NULL, &options));
        options.budget.allocation = LENGTH * 1008;
        assert_ok(run_in_pool(pool, loop_beyond_the_limit, NULL, &options));
    }
}

/* --- Reductions
 * ----------------------------------------------------------------------------------------------------- */

/* Not commutative: a range of the indices, which only grows by what lies right behind it. */
struct stretch {
    size_t begin;
    size_t end;
    uint64_t sum;
    char padding[400]; /* beyond what lies in a frame */
};

static int stretch_add(size_t begin, size_t end, void *accumulator, void *arg)
{
    struct stretch *stretch = accumulator;
    (void)arg;
    if (stretch->begin != stretch->end && stretch->end != begin)
        return EPROTO;
    if (stretch->begin == stretch->end)
        stretch->begin = begin;
    stretch->end = end;
    for (size_t i = begin; i < end; i++)
        stretch->sum += i;
    return 0;
}

static void stretch_combine(void *accumulator, const void *behind, void *arg)
{
    struct stretch *stretch = accumulator;
    const struct stretch *other = behind;
    (void)arg;
    if (other->begin == other->end)
        return;
    if (stretch->begin == stretch->end)
        stretch->begin = other->begin;
    else if (stretch->end != other->begin)
        stretch->sum = 0;
    stretch->end = other->end;
    stretch->sum += other->sum;
}

static const struct stretch no_stretch;

static int reduce_in_order(void *arg, void **value)
{
    const stint_reduction reduction = {
        .size = sizeof(struct stretch), .neutral = &no_stretch, .accumulate = stretch_add, .combine = stretch_combine
    };
    struct stretch stretch;
    (void)value;
    for (size_t grain = 0; grain <= 100; grain += 50) {
        memset(&stretch, 0xa5, sizeof stretch);
        int error = stint_reduce(0, LENGTH, grain, &reduction, arg, &stretch);
        if (error != 0 || stretch.begin != 0 || stretch.end != LENGTH || stretch.sum != LENGTH * (LENGTH - 1) / 2)
            return EPROTO;
    }
    return 0;
}

TEST(a_reduction_combines_neighbours_in_their_order)
{
    for (int round = 0; round < 5; round++)
        everywhere(reduce_in_order, NULL, 0);
}

static int add_up(size_t begin, size_t end, void *accumulator, void *arg)
{
    uint64_t *sum = accumulator;
    (void)arg;
    for (size_t i = begin; i < end; i++)
        *sum += i;
    return begin == 4711 ? EILSEQ : 0;
}

static void add(void *accumulator, const void *behind, void *arg)
{
    (void)arg;
    *(uint64_t *)accumulator += *(const uint64_t *)behind;
}

static int reduce_from_nothing(void *arg, void **value)
{
    const uint64_t thousand = 1000;
    stint_reduction reduction = { .size = sizeof(uint64_t), .accumulate = add_up, .combine = add };
    uint64_t sum = 1;
    (void)arg;
    (void)value;
    if (stint_reduce(10, 10, 0, &reduction, NULL, &sum) != 0 || sum != 0)
        return EPROTO;
    reduction.neutral = &thousand;
    if (stint_reduce(10, 9, 0, &reduction, NULL, &sum) != 0 || sum != 1000)
        return EPROTO;
    reduction.neutral = NULL;
    if (stint_reduce(0, 1000, 0, &reduction, NULL, &sum) != 0 || sum != 999 * 500)
        return EPROTO;
    return stint_reduce(0, LENGTH, 1, &reduction, NULL, &sum);
}

/* --- In two halves at least: there is time for another worker to ask
 * ----------------------------------------------- */

#define SLOW_PIECES 400

struct slow {
    atomic_uint calls;
    size_t fails_at;
    _Atomic pthread_t first; /* who did the first piece */
    atomic_uint by_others;
};

static int add_slowly(size_t begin, size_t end, void *accumulator, void *arg)
{
    struct slow *slow = arg;
    if (begin == 0)
        atomic_store(&slow->first, pthread_self());
    else if (!pthread_equal(atomic_load(&slow->first), pthread_self()))
        atomic_fetch_add(&slow->by_others, 1);
    atomic_fetch_add(&slow->calls, 1);
    nap_ms(1);
    return begin == slow->fails_at ? EILSEQ : stretch_add(begin, end, accumulator, NULL);
}

static int reduce_slowly(void *arg, void **value)
{
    const stint_reduction reduction = {
        .size = sizeof(struct stretch), .neutral = &no_stretch, .accumulate = add_slowly, .combine = stretch_combine
    };
    struct stretch stretch;
    (void)value;
    int error = stint_reduce(0, SLOW_PIECES, 1, &reduction, arg, &stretch);
    bool whole = stretch.begin == 0 && stretch.end == SLOW_PIECES && stretch.sum == SLOW_PIECES * (SLOW_PIECES - 1) / 2;
    return error != 0 ? error : whole ? 0 : EPROTO;
}

static stint_outcome reduce_on_two(struct slow *slow)
{
    const stint_pool_options options = { .size = sizeof(stint_pool_options), .workers = 2 };
    assert_int_equal(stint_pool_create(&options, &pool), 0);
    stint_outcome outcome = run_in_pool(pool, reduce_slowly, slow, NULL);
    assert_int_equal(stint_pool_destroy(pool), 0);
    return outcome;
}

TEST(both_halves_of_a_reduction_are_in_its_result)
{
    struct slow slow = { .fails_at = SIZE_MAX };
    assert_ok(reduce_on_two(&slow));
    assert_int_equal(atomic_load(&slow.calls), SLOW_PIECES);
    assert_true(atomic_load(&slow.by_others) > 0);
}

TEST(after_an_error_no_piece_is_begun)
{
    struct slow slow = { .fails_at = 20 };
    assert_int_equal(reduce_on_two(&slow).error, EILSEQ);
    assert_true(atomic_load(&slow.calls) < SLOW_PIECES / 4);
}

TEST(a_reduction_begins_as_neutral_and_passes_an_error_on)
{
    everywhere(reduce_from_nothing, NULL, EILSEQ);
}

/* --- Sorting
 * -------------------------------------------------------------------------------------------------------- */

/* By key alone; tag is where the element was, so that a sort that is not stable shows. */
struct element {
    uint32_t key;
    uint32_t tag;
    char rest[16];
};

static int by_key(const void *a, const void *b, void *arg)
{
    const struct element *first = a;
    const struct element *second = b;
    (void)arg;
    return (first->key > second->key) - (first->key < second->key);
}

struct sorting {
    size_t count;
    uint32_t keys; /* that many different ones */
};

static int sort_elements(void *arg, void **value)
{
    const struct sorting *sorting = arg;
    struct element *elements = stint_malloc((sorting->count + 1) * sizeof *elements);
    uint64_t random = sorting->count;
    (void)value;
    if (elements == NULL)
        return ENOMEM;
    for (uint32_t i = 0; i < sorting->count; i++)
        elements[i] = (struct element){ .key = (uint32_t)random_below(&random, sorting->keys), .tag = i };
    int error = stint_sort(elements, sorting->count, sizeof *elements, by_key, NULL);
    for (size_t i = 1; i < sorting->count && error == 0; i++) {
        if (elements[i - 1].key > elements[i].key ||
            (elements[i - 1].key == elements[i].key && elements[i - 1].tag >= elements[i].tag))
            error = EPROTO;
    }
    stint_free(elements);
    return error;
}

TEST(a_sort_is_stable)
{
    static const size_t counts[] = { 0, 1, 2, 11, 12, 13, 100, 257, 5000, 40000 };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        for (uint32_t keys = 1; keys <= 100000000; keys *= 100)
            everywhere(sort_elements, &(struct sorting){ counts[i], keys }, 0);
    }
}

static int by_value_of_4(const void *a, const void *b, void *arg)
{
    (void)arg;
    return (*(const uint32_t *)a > *(const uint32_t *)b) - (*(const uint32_t *)a < *(const uint32_t *)b);
}

static int by_value_of_8(const void *a, const void *b, void *arg)
{
    (void)arg;
    return (*(const uint64_t *)a > *(const uint64_t *)b) - (*(const uint64_t *)a < *(const uint64_t *)b);
}

static int sort_numbers(void *arg, void **value)
{
    uint64_t random = 1;
    uint64_t sums[2] = { 0, 0 };
    uint64_t *large = stint_malloc(LENGTH * sizeof *large);
    uint32_t *small = stint_malloc(LENGTH * sizeof *small);
    (void)arg;
    (void)value;
    if (large == NULL || small == NULL)
        return ENOMEM;
    for (size_t i = 0; i < LENGTH; i++) {
        large[i] = random_next(&random);
        small[i] = (uint32_t)large[i];
        sums[0] += large[i] + small[i];
    }
    int error = stint_sort(large, LENGTH, sizeof *large, by_value_of_8, NULL) |
                stint_sort(small, LENGTH, sizeof *small, by_value_of_4, NULL);
    for (size_t i = 0; i < LENGTH; i++) {
        sums[1] += large[i] + small[i];
        if (i > 0 && (large[i - 1] > large[i] || small[i - 1] > small[i]))
            error = EPROTO;
    }
    stint_free(large);
    stint_free(small);
    return sums[0] == sums[1] ? error : EPROTO;
}

TEST(numbers_are_sorted)
{
    everywhere(sort_numbers, NULL, 0);
}

TEST_IN_POOL(a_sort_is_bounded_like_its_task)
{
    for (int round = 0; round < 10; round++) {
        stint_options options = STINT_OPTIONS_INIT;
        options.budget.allocation = LENGTH * 24;
        assert_ok(run_in_pool(pool, sort_numbers, NULL, &options));
        options.budget.allocation = LENGTH * 20 - 1;
        assert_limit_passed(run_in_pool(pool, sort_numbers, NULL, &options));
    }
}

TEST(what_makes_no_sense_is_refused)
{
    int number = 1;
    stint_reduction reduction = { .size = sizeof number, .accumulate = add_up, .combine = NULL };
    assert_int_equal(stint_for(0, 1, 0, NULL, NULL), EINVAL);
    assert_int_equal(stint_reduce(0, 1, 0, NULL, NULL, &number), EINVAL);
    assert_int_equal(stint_reduce(0, 1, 0, &reduction, NULL, &number), EINVAL);
    reduction.combine = add;
    assert_int_equal(stint_reduce(0, 1, 0, &reduction, NULL, NULL), EINVAL);
    reduction.accumulate = NULL;
    assert_int_equal(stint_reduce(0, 1, 0, &reduction, NULL, &number), EINVAL);
    assert_int_equal(stint_sort(NULL, 1, sizeof number, by_key, NULL), EINVAL);
    assert_int_equal(stint_sort(&number, 1, 0, by_key, NULL), EINVAL);
    assert_int_equal(stint_sort(&number, 1, sizeof number, NULL, NULL), EINVAL);
    assert_int_equal(stint_sort(&number, SIZE_MAX / 2, sizeof number, by_key, NULL), ENOMEM);
    assert_int_equal(stint_sort(NULL, 0, sizeof number, by_key, NULL), 0);
    assert_int_equal(number, 1);
}

static int compare_numbers(const void *a, const void *b, void *arg)
{
    (void)arg;
    return *(const int *)a < *(const int *)b ? -1 : *(const int *)a > *(const int *)b;
}

static int sort_many(void *arg, void **value)
{
    static int numbers[LENGTH];
    (void)arg;
    (void)value;
    for (size_t i = 0; i < LENGTH; i++)
        numbers[i] = (int)(LENGTH - i);
    return stint_sort(numbers, LENGTH, sizeof numbers[0], compare_numbers, NULL);
}

TEST(a_sort_leaves_no_memory_behind)
{
    stint_outcome outcome = run_task(sort_many, NULL, NULL);
    assert_ok(outcome);
    assert_true(outcome.usage.peak >= LENGTH * sizeof(int));
    assert_true(outcome.usage.committed < LENGTH * sizeof(int) / 2);
}

TEST_MAIN()
