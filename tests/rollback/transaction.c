/* SPDX-License-Identifier: MIT
 *
 * A task's memory is a transaction: Ok commits it, Error and Cancelled leave nothing of it. */
#include "support.h"

#include <sched.h>
#include <stdatomic.h>

#define BLOCKS 100

struct list {
    struct list *next;
    size_t size;
    unsigned char bytes[];
};

/* A list of blocks of all sizes, filled with a pattern. */
static int make_list(void *arg, void **value)
{
    uint64_t random = *(uint64_t *)arg;
    struct list *list = NULL;
    for (unsigned i = 0; i < BLOCKS; i++) {
        size_t size = random_size(&random, i == 0 ? 21 : 12);
        struct list *item = stint_malloc(sizeof *item + size);
        if (item == NULL)
            return ENOMEM;
        item->next = list;
        item->size = size;
        memset(item->bytes, (int)(size & 0xff), size);
        list = item;
        stint_free(keep(stint_malloc(random_size(&random, 12)))); /* and some that are not kept */
    }
    *value = list;
    return 0;
}

/* Frees the list; returns the number of intact blocks. */
static unsigned take_apart(struct list *list)
{
    unsigned good = 0;
    while (list != NULL) {
        struct list *next = list->next;
        size_t i = 0;
        while (i < list->size && list->bytes[i] == (list->size & 0xff))
            i++;
        good += i == list->size;
        stint_free(list);
        list = next;
    }
    return good;
}

static void *take_apart_elsewhere(void *list)
{
    return (void *)(uintptr_t)take_apart(list);
}

static void *make_elsewhere(void *seed)
{
    stint_outcome outcome;
    return stint_run(make_list, seed, NULL, &outcome) == 0 ? outcome.value : NULL;
}

TEST(an_ok_value_is_read_and_freed_on_any_thread)
{
    for (uint64_t seed = 1; seed <= 100; seed++) {
        stint_outcome outcome = run_task(make_list, &seed, NULL);
        assert_ok(outcome);
        if (seed % 2 == 0)
            assert_int_equal(take_apart(outcome.value), BLOCKS);
        else
            assert_int_equal((uintptr_t)on_a_thread(take_apart_elsewhere, outcome.value), BLOCKS);
    }
}

TEST(an_ok_value_outlives_the_thread_that_made_it)
{
    void *lists[50];
    for (uint64_t seed = 0; seed < 50; seed++) {
        uint64_t copy = seed + 1;
        lists[seed] = on_a_thread(make_elsewhere, &copy);
    }
    for (unsigned i = 0; i < 50; i++) {
        assert_non_null(lists[i]);
        assert_int_equal(i % 2 == 0 ? take_apart(lists[i]) : (uintptr_t)on_a_thread(take_apart_elsewhere, lists[i]),
                         BLOCKS);
    }
}

/* How a task that leaves a list behind ends. */
struct ending {
    uint64_t seed;
    stint_token *token; /* set at the end */
    int code;           /* returned */
    size_t allocate;    /* at the end, beyond the limit */
    struct list **list; /* where to leave it too; NULL: nowhere */
};

static int make_list_and_end(void *arg, void **value)
{
    const struct ending *ending = arg;
    uint64_t seed = ending->seed;
    int error = make_list(&seed, value);
    if (ending->list != NULL)
        *ending->list = *value;
    stint_token_set(ending->token);
    if (ending->allocate != 0)
        keep(stint_malloc(ending->allocate));
    return error != 0 ? error : ending->code;
}

static void run_ending(unsigned round, stint_on_interrupt mode)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.on_interrupt = mode;
    options.budget.memory = 64 * MIB;
    struct ending ending = { .seed = round % 100 };
    stint_status status = STINT_ERROR;
    switch (round % 3) {
    case 0:
        ending.code = 5;
        break;
    case 1:
        ending.allocate = 100 * MIB;
        break;
    default:
        assert_int_equal(stint_token_create(NULL, &ending.token), 0);
        options.token = ending.token;
        status = STINT_CANCELLED;
        break;
    }
    stint_outcome outcome = run_task(make_list_and_end, &ending, &options);
    assert_int_equal(outcome.status, status);
    assert_null(outcome.value);
    stint_token_release(ending.token);
}

TEST(tasks_that_are_not_ok_leave_nothing)
{
    size_t before = 0;
    for (unsigned round = 0, rounds = 500 + repeats(9500); round < rounds; round++) {
        if (round == 500)
            before = resident();
        run_ending(round, round % 2 == 0 ? STINT_JUMP : STINT_FAIL);
    }
    /* 10,000 lists are over 2 GiB. */
    assert_in_range(resident(), 0, before + 16 * MIB);
}

/* How a task ends whose list is to stay: by its code, by its limit, or cancelled. */
static void end_committed(const struct ending *ending, stint_options *options, stint_status status)
{
    struct list *list = NULL;
    struct ending copy = *ending;
    copy.list = &list;
    options->token = ending->token;
    stint_outcome outcome = run_task(make_list_and_end, &copy, options);
    assert_int_equal(outcome.status, status);
    assert_null(outcome.value);
    assert_in_range(outcome.usage.committed, BLOCKS * sizeof *list, SIZE_MAX);
    run_ending(0, STINT_JUMP); /* what is rolled back next to it does not touch it */
    assert_int_equal(take_apart(list), BLOCKS);
}

TEST(a_task_with_commit_keeps_its_memory_however_it_ends)
{
    stint_token *token;
    for (unsigned round = 0; round < 30; round++) {
        stint_options options = STINT_OPTIONS_INIT;
        options.on_interrupt = STINT_FAIL;
        options.flags = STINT_COMMIT;
        options.budget.memory = 64 * MIB;
        end_committed(&(struct ending){ .seed = round + 1, .code = 5 }, &options, STINT_ERROR);
        end_committed(&(struct ending){ .seed = round + 1, .allocate = 100 * MIB }, &options, STINT_ERROR);
        assert_int_equal(stint_token_create(NULL, &token), 0);
        end_committed(&(struct ending){ .seed = round + 1, .token = token }, &options, STINT_CANCELLED);
        stint_token_release(token);
    }
}

TEST(commit_is_for_code_that_is_not_left)
{
    stint_outcome outcome;
    struct ending ending = { .seed = 1 };
    stint_options options = STINT_OPTIONS_INIT;
    options.flags = STINT_COMMIT;
    assert_int_equal(stint_run(make_list_and_end, &ending, &options, &outcome), EINVAL);
    options.on_interrupt = STINT_UNWIND;
    assert_int_equal(stint_run(make_list_and_end, &ending, &options, &outcome), EINVAL);
    options.on_interrupt = STINT_FAIL;
    options.discard = true;
    assert_int_equal(stint_run(make_list_and_end, &ending, &options, &outcome), EINVAL);
}

/* One block that passes the limit, small ones to tidy up with, and then no more. */
static int allocate_after_refusal(void *counted, void **value)
{
    (void)value;
    void *block;
    assert_null(stint_malloc(100 * MIB));
    for (unsigned *count = counted; (block = stint_malloc(16 * KIB)) != NULL; (*count)++)
        stint_free(block);
    assert_null(stint_malloc(16 * KIB));
    return ENOMEM;
}

TEST(a_task_with_commit_has_its_grace_to_tidy_up_with)
{
    unsigned count = 0;
    stint_options options = STINT_OPTIONS_INIT;
    options.on_interrupt = STINT_FAIL;
    options.flags = STINT_COMMIT;
    options.budget.memory = 64 * MIB;
    options.grace = MIB;
    stint_outcome outcome = run_task(allocate_after_refusal, &count, &options);
    assert_outcome(outcome, STINT_ERROR, STINT_REASON_MEMORY_LIMIT, ENOMEM);
    assert_int_equal(count, MIB / (16 * KIB));
    options.flags = count = 0;
    outcome = run_task(allocate_after_refusal, &count, &options);
    assert_int_equal(count, 0);
}

static int ask_for_the_impossible(void *arg, void **value)
{
    (void)arg;
    (void)value;
    assert_null(stint_malloc(100 * MIB));
    stint_mask(); /* without STINT_COMMIT, the interrupt waits */
    assert_null(stint_malloc(PTRDIFF_MAX));
    stint_unmask();
    return ENOMEM;
}

TEST(a_block_that_cannot_be_had_is_not_charged_to_an_endless_grace)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.on_interrupt = STINT_FAIL;
    options.budget.memory = 64 * MIB;
    options.grace = SIZE_MAX;
    for (unsigned round = 0; round < 2; round++) {
        options.flags = round == 0 ? STINT_COMMIT : 0;
        stint_outcome outcome = run_task(ask_for_the_impossible, NULL, &options);
        assert_outcome(outcome, STINT_ERROR, STINT_REASON_MEMORY_LIMIT, ENOMEM);
        assert_in_range(outcome.usage.allocated, 0, MIB);
    }
}

static int fail_inside(void *arg, void **value)
{
    (void)value;
    *(void **)arg = stint_malloc(KIB);
    return ENOENT;
}

struct nested {
    stint_options options; /* of the inner task */
    struct list *list;
    stint_outcome outcome;
};

static int make_inside_and_fail(void *arg, void **value)
{
    (void)value;
    struct nested *nested = arg;
    struct ending ending = { .seed = 1, .code = 5, .list = &nested->list };
    assert_int_equal(stint_run(make_list_and_end, &ending, &nested->options, &nested->outcome), 0);
    void *lost;
    stint_outcome outcome;
    assert_int_equal(stint_run(fail_inside, &lost, NULL, &outcome), 0);
    assert_int_equal(outcome.usage.committed, 0);
    return EIO;
}

TEST(a_task_with_commit_hands_its_memory_to_the_task_around_it)
{
    for (unsigned round = 0; round < 2; round++) {
        bool outer_commits = round == 1;
        struct nested nested = { .options = STINT_OPTIONS_INIT };
        nested.options.on_interrupt = STINT_FAIL;
        nested.options.flags = STINT_COMMIT;
        stint_options options = nested.options;
        options.flags = outer_commits ? STINT_COMMIT : 0;
        static struct nested *used; /* no root leads into the memory: it lies in the process's */
        used = stint_malloc(sizeof *used);
        assert_non_null(used);
        *used = nested;
        stint_outcome outcome = run_task(make_inside_and_fail, used, &options);
        assert_outcome(outcome, STINT_ERROR, STINT_REASON_FAILED, EIO);
        assert_true(used->outcome.usage.committed > 0);
        assert_int_equal(outcome.usage.committed > 0, outer_commits);
        if (outer_commits)
            assert_int_equal(take_apart(used->list), BLOCKS);
        stint_free(used);
    }
}

/* Without the heaps that wait, empty, before they are used again: a first look notes since when, and a second one after
 * 0.1 s ends them (alloc/heap/heap.h). */
static size_t resident_at_rest(void)
{
    stint_malloc_trim(0);
    nanosleep(&(struct timespec){ .tv_nsec = 150000000 }, NULL);
    stint_malloc_trim(0);
    return resident();
}

TEST(ok_values_that_are_freed_leave_nothing)
{
    size_t before = 0;
    for (unsigned round = 0, rounds = 500 + repeats(4500); round < rounds; round++) {
        if (round == 500)
            before = resident_at_rest();
        uint64_t seed = round % 100;
        stint_outcome outcome = run_task(make_list, &seed, NULL);
        assert_ok(outcome);
        assert_int_equal(take_apart(outcome.value), BLOCKS);
    }
    assert_true(resident_at_rest() < before + 16 * MIB);
}

/* Lists go from the thread whose tasks make them to a thread that frees them. */
static _Atomic(struct list *) handed_over;

static void *take_apart_what_comes(void *count)
{
    uintptr_t good = 0;
    for (size_t i = 0; i < *(size_t *)count; i++) {
        struct list *list;
        while ((list = atomic_exchange(&handed_over, NULL)) == NULL)
            sched_yield();
        good += take_apart(list);
    }
    return (void *)good;
}

TEST(ok_values_that_another_thread_frees_leave_nothing)
{
    size_t count = 2000;
    size_t before = 0;
    void *good = NULL;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, take_apart_what_comes, &count), 0);
    for (unsigned round = 0; round < count; round++) {
        if (round == 500)
            before = resident_at_rest();
        uint64_t seed = round % 100;
        stint_outcome outcome = run_task(make_list, &seed, NULL);
        assert_ok(outcome);
        while (atomic_load(&handed_over) != NULL)
            sched_yield();
        atomic_store(&handed_over, outcome.value);
    }
    assert_int_equal(pthread_join(thread, &good), 0);
    assert_int_equal((uintptr_t)good, count * BLOCKS);
    assert_true(resident_at_rest() < before + 16 * MIB);
}

/* Runs make_list in a scope of its own, then ends as planned. */
static int nest_and_end(void *arg, void **value)
{
    const struct ending *ending = arg;
    uint64_t seed = ending->seed;
    stint_outcome inner;
    if (stint_run(make_list, &seed, NULL, &inner) != 0 || inner.status != STINT_OK)
        return EINVAL;
    *value = inner.value;
    return ending->code;
}

TEST(what_an_inner_scope_commits_ends_as_the_outer_one_does)
{
    size_t before = 0;
    for (unsigned round = 0, rounds = 500 + repeats(4500); round < rounds; round++) {
        if (round == 500)
            before = resident();
        struct ending ending = { .seed = round % 100, .code = round % 2 == 0 ? 0 : 9 };
        stint_outcome outcome = run_task(nest_and_end, &ending, NULL);
        assert_int_equal(outcome.error, ending.code);
        if (outcome.status == STINT_OK)
            assert_int_equal(take_apart(outcome.value), BLOCKS);
    }
    assert_in_range(resident(), 0, before + 16 * MIB);
}

struct outside {
    char *grown; /* from before the task, grown in it */
    char *kept;  /* from before the task, only written */
    char *freed; /* from before the task, freed in it */
    int code;
};

static int use_blocks_from_outside(void *arg, void **value)
{
    struct outside *outside = arg;
    char *grown = stint_realloc(outside->grown, 100000);
    if (grown == NULL)
        return ENOMEM;
    outside->grown = NULL;
    strcpy(outside->kept, "written");
    stint_free(outside->freed);
    *value = grown;
    return outside->code;
}

TEST(blocks_from_outside_may_be_used_grown_and_freed_in_a_task)
{
    for (int code = 0; code < 2; code++) {
        struct outside outside = { stint_strdup("grown"), stint_malloc(100), stint_malloc(100), code };
        stint_outcome outcome = run_task(use_blocks_from_outside, &outside, NULL);
        assert_int_equal(outcome.error, code);
        assert_null(outside.grown);
        assert_string_equal(outside.kept, "written"); /* a rollback undoes memory only, so this write stays */
        if (code == 0) {
            assert_string_equal(outcome.value, "grown");
            outcome.value = stint_realloc(outcome.value, 1000000);
            assert_string_equal(outcome.value, "grown");
            stint_free(outcome.value);
        }
        stint_free(outside.kept);
    }
}

TEST_MAIN()
