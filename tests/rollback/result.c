/* SPDX-License-Identifier: MIT
 *
 * stint_result_malloc and its family. A result is charged to its task and held by it. It stays valid after Ok, is
 * rolled back otherwise, and any thread may free it at any time. Tried in small and grown tasks, and in scopes inside
 * them. */
#include "repeats.h"
#include "support.h"

struct record {
    struct record *next;
    size_t size;
    unsigned char bytes[];
};

struct job {
    size_t count;
    size_t size;    /* of each result */
    size_t working; /* bytes of other blocks, freed at the end */
    int code;
    struct record *made;
};

static struct record *make_records(size_t count, size_t size)
{
    struct record *list = NULL;
    for (size_t i = 0; i < count; i++) {
        struct record *record = stint_result_malloc(sizeof *record + size);
        if (record == NULL)
            return NULL;
        *record = (struct record){ .next = list, .size = size };
        memset(record->bytes, (int)(i & 0xff), size);
        list = record;
    }
    return list;
}

static size_t free_records(struct record *list)
{
    size_t good = 0;
    while (list != NULL) {
        struct record *next = list->next;
        size_t i = 1;
        while (i < list->size && list->bytes[i] == list->bytes[0])
            i++;
        good += i >= list->size;
        stint_free(list);
        list = next;
    }
    return good;
}

static int do_job(void *arg, void **value)
{
    struct job *job = arg;
    void *working = job->working > 0 ? stint_malloc(job->working) : NULL;
    *value = make_records(job->count, job->size);
    job->made = *value;
    stint_free(working);
    return job->code;
}

TEST(results_are_charged_as_malloc_charges)
{
    struct job job = { .count = 10, .size = 100 - sizeof(struct record) };
    stint_outcome outcome = run_task(do_job, &job, NULL);
    assert_ok(outcome);
    assert_int_equal(outcome.usage.allocated, 10 * 112);
    assert_int_equal(free_records(outcome.value), 10);
}

TEST(results_stay_valid_after_an_ok_of_tasks_of_any_age_and_sizes)
{
    static const size_t sizes[] = { 1, 24, 1000, 5000, 100 * KIB, 2 * MIB };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (size_t working = 0; working <= MIB; working += MIB / 2) {
            struct job job = { .count = 20, .size = sizes[i], .working = working };
            stint_outcome outcome = run_task(do_job, &job, NULL);
            assert_ok(outcome);
            struct job failing = { .count = 20, .size = sizes[i], .working = working, .code = EIO };
            assert_outcome(run_task(do_job, &failing, NULL), STINT_ERROR, STINT_REASON_FAILED, EIO);
            assert_int_equal(free_records(outcome.value), 20);
        }
    }
}

TEST(results_of_a_failed_task_are_taken_back)
{
    size_t before = resident();
    struct job job = { .count = 1000, .size = 4 * KIB, .code = EIO };
    for (unsigned i = 0, count = 20 + repeats(80); i < count; i++)
        assert_outcome(run_task(do_job, &job, NULL), STINT_ERROR, STINT_REASON_FAILED, EIO);
    stint_malloc_trim(0);
    assert_in_range(resident(), 0, before + 16 * MIB); /* of 80 or more */
}

TEST(results_pass_the_allocation_limit_to_the_byte)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.allocation = 64 * KIB;
    struct job job = { .count = 65, .size = KIB - sizeof(struct record) };
    assert_limit_passed(run_task(do_job, &job, &options));
    job.count = 64;
    stint_outcome outcome = run_task(do_job, &job, &options);
    assert_ok(outcome);
    free_records(outcome.value);
}

TEST(results_count_for_the_memory_limit)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.memory = MIB;
    struct job job = { .count = 2048, .size = KIB };
    assert_outcome(run_task(do_job, &job, &options), STINT_ERROR, STINT_REASON_MEMORY_LIMIT, ENOMEM);
    job.count = 512;
    stint_outcome outcome = run_task(do_job, &job, &options);
    assert_ok(outcome);
    free_records(outcome.value);
}

static int make_and_free(void *arg, void **value)
{
    (void)value;
    const struct job *job = arg;
    for (size_t i = 0; i < job->count; i++)
        stint_free(keep(stint_result_malloc(job->size)));
    return job->code;
}

TEST(a_task_that_frees_its_results_as_it_goes_never_passes_its_memory_limit)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.memory = 256 * KIB;
    struct job job = { .count = 100000, .size = KIB };
    assert_ok(run_task(make_and_free, &job, &options));
    job.code = EIO;
    assert_outcome(run_task(make_and_free, &job, &options), STINT_ERROR, STINT_REASON_FAILED, EIO);
}

static void *free_elsewhere(void *block)
{
    stint_free(block);
    return NULL;
}

static void free_on_a_thread(void *block)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, free_elsewhere, block) == 0)
        pthread_join(thread, NULL);
}

/* Half of them are freed by another thread while the task runs, and their memory is got again. */
static int have_some_freed_by_others(void *arg, void **value)
{
    struct job *job = arg;
    struct record *list = NULL;
    for (size_t round = 0; round < 4; round++) {
        for (size_t i = 0; i < job->count; i++) {
            struct record *record = make_records(1, job->size);
            if (i % 2 == 0 && i < 8) {
                free_on_a_thread(record);
            } else {
                record->next = list;
                list = record;
            }
        }
    }
    *value = list;
    job->made = list;
    return job->code;
}

TEST(what_others_free_meanwhile_is_not_freed_again)
{
    struct job job = { .count = 100, .size = 100, .code = EIO };
    for (int i = 0; i < 20; i++)
        assert_outcome(run_task(have_some_freed_by_others, &job, NULL), STINT_ERROR, STINT_REASON_FAILED, EIO);
    job.code = 0;
    stint_outcome outcome = run_task(have_some_freed_by_others, &job, NULL);
    assert_ok(outcome);
    assert_int_equal(free_records(outcome.value), 4 * 96);
}

/* Results of the scopes that end Ok; the others leave nothing. */
static int run_inner_jobs(void *arg, void **value)
{
    struct job *outer = arg;
    struct record *all = NULL;
    for (size_t i = 0; i < outer->count; i++) {
        struct job job = { .count = 3, .size = outer->size, .working = i % 7 == 0 ? MIB : 0, .code = i % 2 ? EIO : 0 };
        stint_outcome outcome;
        if (stint_run(do_job, &job, NULL, &outcome) != 0)
            return EINVAL;
        struct record *last = outcome.value;
        if (last == NULL)
            continue;
        while (last->next != NULL)
            last = last->next;
        last->next = all;
        all = outcome.value;
    }
    *value = all;
    return outer->code;
}

TEST(results_of_inner_scopes_become_the_outer_ones)
{
    struct job job = { .count = 4000, .size = 40 };
    stint_outcome outcome = run_task(run_inner_jobs, &job, NULL);
    assert_ok(outcome);
    assert_int_equal(free_records(outcome.value), 6000);
    job.code = EIO;
    assert_outcome(run_task(run_inner_jobs, &job, NULL), STINT_ERROR, STINT_REASON_FAILED, EIO);
}

static int use_all_functions(void *arg, void **value)
{
    (void)arg;
    char *text = stint_result_strdup("a result");
    unsigned char *zeros = stint_result_calloc(10, 100);
    char *plain = stint_malloc(10);
    if (text == NULL || zeros == NULL || plain == NULL)
        return ENOMEM;
    for (int i = 0; i < 1000; i++) {
        if (zeros[i] != 0)
            return EIO;
    }
    memcpy(plain, "plain one", 10);
    plain = stint_result_realloc(plain, 1000);
    text = stint_result_realloc(text, 3);
    *value = plain;
    int code = memcmp(plain, "plain one", 10) != 0 || memcmp(text, "a r", 3) != 0 ? EIO : 0;
    stint_free(text);
    stint_free(zeros);
    return code;
}

TEST(calloc_strdup_and_realloc_do_what_their_names_say)
{
    stint_outcome outcome = run_task(use_all_functions, NULL, NULL);
    assert_ok(outcome);
    assert_string_equal(outcome.value, "plain one");
    stint_free(outcome.value);
    stint_outcome outside;
    void *value = NULL;
    memset(&outside, 0, sizeof outside);
    assert_int_equal(use_all_functions(NULL, &value), 0); /* outside of all scopes */
    stint_free(value);
    assert_null(stint_result_calloc(SIZE_MAX / 2, 3));
    assert_int_equal(errno, ENOMEM);
}

TEST(results_of_a_wiped_task_are_as_all_its_blocks)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.wipe = true;
    struct job job = { .count = 20, .size = 100 };
    stint_outcome outcome = run_task(do_job, &job, &options);
    assert_ok(outcome);
    assert_int_equal(free_records(outcome.value), 20);
}

/* Enough blocks that the log forgets all of them when an inner scope opens; then the nursery belongs to no task. */
static int give_the_nursery_back(void *arg, void **value)
{
    (void)value;
    void *blocks[4096];
    for (size_t i = 0; i < 4096; i++)
        blocks[i] = stint_result_malloc(100);
    for (size_t i = 0; i < 4096; i++)
        stint_free(blocks[i]);
    stint_outcome inner;
    int error = stint_run(do_nothing, NULL, NULL, &inner);
    stint_malloc_trim(0);
    for (size_t i = 0; error == 0 && i < 10000; i++) {
        if (stint_malloc(1000) == NULL)
            *(size_t *)arg = i;
    }
    return error;
}

static void *run_on_a_new_thread(void *outcome)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.memory = MIB;
    size_t unused = 0;
    stint_run(give_the_nursery_back, &unused, &options, outcome);
    return NULL;
}

TEST(a_task_may_trim_with_nothing_left_of_its_results)
{
    stint_outcome outcome;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run_on_a_new_thread, &outcome), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(outcome.reason, STINT_REASON_MEMORY_LIMIT);
}

TEST_MAIN()
