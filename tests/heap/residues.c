/* SPDX-License-Identifier: MIT
 *
 * What many tasks leave behind, one after the other: results lie packed, limits are kept whatever earlier tasks and
 * ended threads have left, and memory comes back. Sizes are resident memory of the process. */
#include "support.h"

static size_t grown(size_t before)
{
    size_t now = resident();
    return now > before ? now - before : 0;
}

static void give_back(void)
{
    stint_malloc_trim(0);
}

static int leave_one(void *arg, void **value)
{
    size_t size = *(size_t *)arg;
    *value = stint_malloc(size);
    memset(*value, 0x5a, size);
    return 0;
}

static int leave_one_result(void *arg, void **value)
{
    size_t size = *(size_t *)arg;
    *value = stint_result_malloc(size);
    memset(*value, 0x5a, size);
    return 0;
}

#define RESULTS 100000

/* A pointer that stays would be a root, of whatever comes to lie there. */
static void free_all(void **blocks, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        stint_free(blocks[i]);
        blocks[i] = NULL;
    }
}

static void check_many_results(stint_fn *leave, const stint_options *options, size_t most)
{
    static void *results[RESULTS];
    size_t size = 32;
    memset(results, 1, sizeof results);
    for (size_t i = 0; i < RESULTS / 20; i++) /* what a process needs once */
        results[i] = run_task(leave, &size, options).value;
    free_all(results, RESULTS / 20);
    size_t before = resident();
    for (size_t i = 0; i < RESULTS; i++)
        results[i] = run_task(leave, &size, options).value;
    print_message("%zu KiB for %d results\n", grown(before) / KIB, RESULTS);
    assert_true(grown(before) < most);
    free_all(results, RESULTS);
    give_back();
    assert_true(grown(before) < 8 * MIB);
}

TEST(a_hundred_thousand_results_of_32_bytes_lie_packed)
{
    check_many_results(leave_one_result, NULL, 8 * MIB);
    check_many_results(leave_one, NULL, 8 * MIB);
}

TEST(so_do_those_of_tasks_that_commit_however_they_end)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.on_interrupt = STINT_FAIL;
    options.flags = STINT_COMMIT;
    check_many_results(leave_one, &options, 8 * MIB);
}

static int grow_and_leave_one_result(void *arg, void **value)
{
    stint_free(keep(stint_malloc(256 * KIB)));
    return leave_one_result(arg, value);
}

TEST(results_of_large_tasks_lie_packed_too)
{
    check_many_results(grow_and_leave_one_result, NULL, 8 * MIB);
}

/* How often its own size, in halves. mimalloc before 3.7 gives what is left of large pages back less readily, where the
 * system has huge pages: 100,000 bytes take 3.7 times that, 300,000 bytes 2.9 times. */
static size_t most_halves(size_t size)
{
    return size > 80 * KIB && stint_backend_version() < 30700 ? 10 : 5;
}

/* Results of any size, also of tasks that have grown, if they are made as results. */
static void check_size(stint_fn *leave, size_t size)
{
    static void *results[RESULTS];
    const size_t count = 12 * MIB / size < RESULTS ? 12 * MIB / size : RESULTS;
    memset(results, 1, sizeof results);
    stint_free(run_task(leave, &size, NULL).value); /* what a process needs once */
    give_back();
    size_t before = resident();
    for (size_t i = 0; i < count; i++)
        results[i] = run_task(leave, &size, NULL).value;
    size_t taken = grown(before);
    print_message("%zu bytes: %zu.%zu times\n", size, taken / (count * size), taken * 10 / (count * size) % 10);
    assert_true(taken < count * size * most_halves(size) / 2);
    free_all(results, count);
    give_back();
    assert_true(grown(before) < 8 * MIB);
}

TEST(a_result_of_any_size_takes_at_most_two_and_a_half_times_that)
{
    static const size_t sizes[] = { 100, 1000, 5000, 10000, 20000, 60000, 100000, 300000 };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        check_size(leave_one, sizes[i]);
        check_size(leave_one_result, sizes[i]);
        if (sizes[i] <= 80 * KIB)
            check_size(grow_and_leave_one_result, sizes[i]);
    }
}

#define FIELDS 8

struct record {
    void *fields[FIELDS];
};

static int leave_a_record(void *arg, void **value)
{
    (void)arg;
    struct record *record = stint_malloc(sizeof *record);
    for (size_t i = 0; i < FIELDS; i++)
        record->fields[i] = memset(stint_malloc((size_t)16 << i), 0x5a, (size_t)16 << i);
    *value = record;
    return 0;
}

TEST(a_record_of_many_sizes_takes_about_what_it_holds)
{
    static struct record *records[5000];
    const size_t count = sizeof records / sizeof *records;
    size_t before = resident();
    for (size_t i = 0; i < count; i++)
        records[i] = run_task(leave_a_record, NULL, NULL).value;
    assert_true(grown(before) < count * 6 * KIB); /* it holds 4.1 KiB */
    for (size_t i = 0; i < count; i++) {
        free_all(records[i]->fields, FIELDS);
        stint_free(records[i]);
        records[i] = NULL;
    }
    give_back();
    assert_true(grown(before) < 8 * MIB);
}

/* --- Limits, after others have left something --- */

static int allocate_without_end(void *arg, void **value)
{
    (void)value;
    size_t size = *(size_t *)arg;
    void *block;
    while ((block = stint_malloc(size)) != NULL)
        memset(block, 0x5a, size);
    return 0;
}

struct hog {
    size_t begin;
    size_t most;
};

/* Looks at the process every now and then. */
static int hog_memory(void *arg, void **value)
{
    (void)value;
    struct hog *hog = arg;
    void *block;
    for (size_t i = 0; (block = stint_malloc(48)) != NULL; i++) {
        memset(block, 0x5a, 48);
        size_t held = i % 1024 == 0 ? grown(hog->begin) : 0;
        hog->most = held > hog->most ? held : hog->most;
    }
    return 0;
}

static void leave_blocks_in_a_pool(size_t count)
{
    size_t size = 48;
    stint_pool *pool;
    stint_pool_options options = STINT_POOL_OPTIONS_INIT;
    options.workers = 2;
    assert_int_equal(stint_pool_create(&options, &pool), 0);
    for (size_t i = 0; i < count; i++) {
        stint_future *future;
        stint_outcome outcome;
        assert_int_equal(stint_submit(pool, leave_one, &size, NULL, &future), 0);
        assert_int_equal(stint_future_wait(future, &outcome), 0);
        keep(outcome.value); /* left for good */
        stint_future_release(future);
    }
    assert_int_equal(stint_pool_destroy(pool), 0);
}

static void check_hog(size_t limit)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.memory = limit;
    struct hog hog = { .begin = resident() };
    assert_outcome(run_task(hog_memory, &hog, &options), STINT_ERROR, STINT_REASON_MEMORY_LIMIT, ENOMEM);
    assert_true(hog.most > limit / 2);
    assert_true(hog.most < limit + limit / 8 + 4 * MIB);
    give_back();
    print_message("%zu KiB at most, %zu KiB left\n", hog.most / KIB, grown(hog.begin) / KIB);
    assert_true(grown(hog.begin) < 16 * MIB);
}

TEST(a_limit_holds_after_a_pool_with_committed_blocks_has_gone)
{
    for (int i = 0; i < 3; i++) {
        leave_blocks_in_a_pool(5000);
        check_hog(64 * MIB);
    }
}

#define LINKED 400 /* blocks of 512 bytes that a task leaves */

static int leave_a_list(void *arg, void **value)
{
    (void)arg;
    void **first = NULL;
    for (size_t i = 0; i < LINKED; i++) {
        void **block = memset(stint_malloc(512), 0x5a, 512);
        *block = first;
        first = block;
    }
    *value = first;
    return 0;
}

static void free_list(void **block)
{
    while (block != NULL) {
        void **next = *block;
        stint_free(block);
        block = next;
    }
}

TEST(what_idle_workers_made_comes_back_when_others_have_freed_it)
{
    enum { LISTS = 400 };
    static stint_future *futures[LISTS];
    static void **lists[LISTS];
    stint_pool *pool;
    stint_pool_options options = STINT_POOL_OPTIONS_INIT;
    options.workers = 2;
    assert_int_equal(stint_pool_create(&options, &pool), 0);
    size_t before = resident();
    for (size_t i = 0; i < LISTS; i++)
        assert_int_equal(stint_submit(pool, leave_a_list, NULL, NULL, &futures[i]), 0);
    for (size_t i = 0; i < LISTS; i++) {
        stint_outcome outcome;
        assert_int_equal(stint_future_wait(futures[i], &outcome), 0);
        assert_ok(outcome);
        lists[i] = outcome.value;
        stint_future_release(futures[i]);
    }
    assert_true(grown(before) > LISTS * LINKED * 512 * 9 / 10);
    nanosleep(&(struct timespec){ .tv_nsec = 200000000 }, NULL);
    for (size_t i = 0; i < LISTS; i++)
        free_list(lists[i]);
    for (int i = 0; i < 80 && grown(before) >= 16 * MIB; i++) /* a second, on a quiet machine */
        nanosleep(&(struct timespec){ .tv_nsec = 50000000 }, NULL);
    assert_true(grown(before) < 16 * MIB);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

static void *leave_blocks_and_end(void *arg)
{
    (void)arg;
    size_t size = 48;
    stint_outcome outcome;
    for (size_t i = 0; i < 50; i++) {
        if (stint_run(leave_one, &size, NULL, &outcome) == 0)
            keep(outcome.value);
        keep(stint_malloc(100));
    }
    return NULL;
}

static void run_threads(size_t count, void *(*fn)(void *))
{
    for (size_t i = 0; i < count; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, fn, NULL), 0);
        pthread_join(thread, NULL);
    }
}

TEST(a_limit_holds_after_many_threads_have_ended)
{
    run_threads(500, leave_blocks_and_end);
    check_hog(64 * MIB);
}

/* --- Threads that end with something kept: it is the process's, which may have taken it for itself --- */

static _Thread_local char *volatile in_thread;

static int fail_with_a_pointer_left(void *arg, void **value)
{
    (void)arg;
    (void)value;
    for (size_t i = 0; i < 1000; i++)
        memset(stint_malloc(KIB), 0x5a, KIB);
    in_thread = stint_malloc(100);
    return EIO;
}

static void *serve_and_end(void *arg)
{
    stint_outcome outcome;
    (void)arg;
    stint_run(fail_with_a_pointer_left, NULL, NULL, &outcome);
    return NULL;
}

TEST(what_was_kept_for_a_thread_costs_a_few_pages)
{
    run_threads(10, serve_and_end);
    left_by_the_system(0); /* measures */
    give_back();
    size_t before = resident();
    run_threads(300, serve_and_end);
    give_back();
    assert_true(grown(before) < 300 * 320 * KIB + left_by_the_system(300)); /* of 300 MiB */
}

/* --- Scopes inside one long task --- */

struct nest {
    size_t scopes;
    size_t working; /* of each */
    bool frees;     /* its result at once */
    size_t before;
    size_t most;
};

static int work_and_leave_one(void *arg, void **value)
{
    const struct nest *nest = arg;
    for (size_t done = 0; done < nest->working; done += KIB)
        stint_free(keep(stint_malloc(KIB)));
    *value = stint_malloc(32);
    return 0;
}

static int run_scopes(void *arg, void **value)
{
    (void)value;
    struct nest *nest = arg;
    for (size_t i = 0; i < nest->scopes; i++) {
        stint_outcome outcome;
        if (stint_run(work_and_leave_one, nest, NULL, &outcome) != 0)
            return EINVAL;
        if (nest->frees)
            stint_free(outcome.value);
        if (i % 256 == 0 && grown(nest->before) > nest->most)
            nest->most = grown(nest->before);
    }
    return 0;
}

TEST(inner_scopes_whose_results_are_freed_cost_nothing)
{
    for (size_t working = 0; working <= 128 * KIB; working += 64 * KIB) {
        struct nest nest = {
            .scopes = working == 0 ? 100000 : 2000, .working = working, .frees = true, .before = resident()
        };
        stint_outcome outcome = run_task(run_scopes, &nest, NULL);
        assert_ok(outcome);
        assert_true(nest.most < 8 * MIB);
        assert_true(outcome.usage.peak < MIB);
    }
}

TEST(small_results_of_inner_scopes_lie_packed)
{
    struct nest nest = { .scopes = 100000, .before = resident() };
    assert_ok(run_task(run_scopes, &nest, NULL));
    assert_true(nest.most < 16 * MIB);
}

TEST(pages_that_inner_scopes_keep_from_others_count_for_the_limit)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.memory = 16 * MIB;
    struct nest nest = { .scopes = 40000, .working = 64 * KIB, .before = resident() };
    stint_outcome outcome = run_task(run_scopes, &nest, &options);
    assert_outcome(outcome, STINT_ERROR, STINT_REASON_MEMORY_LIMIT, ENOMEM);
    print_message("%zu KiB at most\n", nest.most / KIB);
    assert_true(nest.most < 64 * MIB);
}

/* --- One grace for a nest of scopes --- */

static int allocate_all_that_is_given(void *arg, void **value)
{
    (void)value;
    size_t *got = arg;
    while (stint_malloc(1000) != NULL)
        *got += 1000;
    return ENOMEM;
}

static int nest_masked(void *arg, void **value)
{
    (void)value;
    stint_outcome outcome;
    stint_mask();
    for (int i = 0; i < 100; i++)
        stint_run(allocate_all_that_is_given, arg, NULL, &outcome);
    stint_unmask();
    return 0;
}

TEST(a_nest_of_scopes_has_one_grace)
{
    size_t got = 0;
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.allocation = 2 * MIB;
    options.grace = MIB;
    assert_limit_passed(run_task(nest_masked, &got, &options));
    assert_in_range(got, 2 * MIB, 3 * MIB);
}

TEST(a_task_that_ended_for_its_limit_leaves_nothing)
{
    size_t size = 3000;
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.memory = 8 * MIB;
    size_t before = resident();
    for (int i = 0; i < 200; i++)
        assert_outcome(run_task(allocate_without_end, &size, &options), STINT_ERROR, STINT_REASON_MEMORY_LIMIT, ENOMEM);
    give_back();
    assert_true(grown(before) < 4 * MIB);
}

TEST_MAIN()
