/* SPDX-License-Identifier: MIT
 *
 * The profiler's interface: what a tracker sees, and what is refused. */
#include <math.h>
#include <stdatomic.h>
#include <wchar.h>

#include "tracker.h"

static void refuse(stint_memprof_options options)
{
    assert_int_equal(stint_memprof_start(&options), EINVAL);
}

TEST(a_bad_option_is_refused)
{
    struct seen seen = { 0 };
    stint_memprof_options options = options_for(&seen);
    assert_int_equal(stint_memprof_start(NULL), EINVAL);
    options.interval = 0;
    refuse(options); /* nor a rate */
    options.rate = 1.0000001;
    refuse(options);
    options.rate = -0.5;
    refuse(options);
    options.rate = (double)NAN;
    refuse(options);
    options = options_for(&seen);
    options.rate = 0.5; /* both */
    refuse(options);
    options = options_for(&seen);
    options.interval = 7;
    refuse(options);
    options = options_for(&seen);
    options.callstack_depth = STINT_MEMPROF_DEPTH_MAX + 1;
    refuse(options);
    options = options_for(&seen);
    options.tracker.alloc = NULL;
    refuse(options);
    assert_int_equal(stint_memprof_stop(), EINVAL);
}

TEST(a_second_start_is_refused_until_the_stop)
{
    struct seen seen = { 0 };
    stint_memprof_options options = options_for(&seen);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(stint_memprof_start(&options), 0);
        assert_int_equal(stint_memprof_start(&options), EBUSY);
        assert_int_equal(stint_memprof_stop(), 0);
        assert_int_equal(stint_memprof_stop(), EINVAL);
    }
}

static void *change_inside(const stint_memprof_allocation *allocation, void *arg)
{
    struct seen *seen = arg;
    (void)allocation;
    stint_memprof_options options = options_for(seen);
    seen->start_inside = stint_memprof_start(&options);
    seen->stop_inside = stint_memprof_stop();
    return NULL;
}

TEST(a_callback_can_neither_start_nor_stop)
{
    struct seen seen = { 0 };
    stint_memprof_options options = options_for(&seen);
    options.tracker.alloc = change_inside;
    assert_int_equal(stint_memprof_start(&options), 0);
    stint_free(keep(stint_malloc(LARGE_BLOCK)));
    stop_profile();
    assert_int_equal(seen.start_inside, EBUSY);
    assert_int_equal(seen.stop_inside, EDEADLK);
}

TEST(a_rate_is_samples_a_word)
{
    struct seen seen = { 0 };
    stint_memprof_options options = options_for(&seen);
    options.interval = 0;
    options.rate = 1;
    assert_int_equal(stint_memprof_start(&options), 0);
    stint_free(keep(stint_malloc(LARGE_BLOCK)));
    assert_true(seen.last.interval == 8);
    assert_in_range(seen.last.samples, LARGE_BLOCK / 8 - 200, LARGE_BLOCK / 8 + 200); /* 6 standard errors */
    stop_profile();
}

struct step {
    const struct family *family;
    struct seen *seen;
    void *block;
    void *other;
    int allocs[8];
    stint_memprof_source sources[8];
    bool in_task_heap[8];
    uint64_t charged[8];
    size_t size[8];
    int count;
    stint_account *account;
    bool said_task;
    bool said_account;
    int code;
};

static void note_step(struct step *step)
{
    int i = step->count++;
    step->allocs[i] = step->seen->allocs;
    step->sources[i] = step->seen->last.source;
    step->in_task_heap[i] = step->seen->last.in_task_heap;
    step->charged[i] = step->seen->last.charged;
    step->size[i] = step->seen->last.size;
}

static int allocate_in_every_way(void *arg, void **value)
{
    struct step *step = arg;
    const struct family *family = step->family;
    (void)value;
    family->free(family->malloc(LARGE_BLOCK + 1));
    note_step(step);
    family->free(family->calloc(2, LARGE_BLOCK));
    note_step(step);
    void *block = family->realloc(NULL, LARGE_BLOCK);
    note_step(step);
    block = family->realloc(block, 8 * LARGE_BLOCK);
    note_step(step);
    family->free(block);
    family->free(family->aligned_alloc(256, LARGE_BLOCK));
    note_step(step);
    stint_keep_begin();
    family->free(family->malloc(LARGE_BLOCK));
    stint_keep_end();
    note_step(step);
    step->said_task = strcmp(step->seen->last.task, "the task") == 0;
    step->said_account = step->seen->last.account == step->account;
    return 0;
}

TEST(a_tracker_is_told_what_and_whose)
{
    stint_account *account;
    assert_int_equal(stint_account_create(NULL, NULL, &account), 0);
    for (unsigned i = 0; family_at(i) != NULL; i++) {
        struct seen seen = { 0 };
        struct step step = { .family = family_at(i), .seen = &seen, .account = account };
        stint_options options = STINT_OPTIONS_INIT;
        options.name = "the task";
        options.account = account;
        start(&seen);
        assert_ok(run_task(allocate_in_every_way, &step, &options));
        stop_profile();
        const size_t sizes[] = { LARGE_BLOCK + 1, 2 * LARGE_BLOCK, LARGE_BLOCK,
                                 8 * LARGE_BLOCK, LARGE_BLOCK,     LARGE_BLOCK };
        const stint_memprof_source sources[] = {
            STINT_MEMPROF_TASK_HEAP, STINT_MEMPROF_TASK_HEAP, STINT_MEMPROF_TASK_HEAP,
            STINT_MEMPROF_TASK_HEAP, STINT_MEMPROF_ALIGNED,   STINT_MEMPROF_PROCESS_HEAP,
        };
        for (int k = 0; k < step.count; k++) {
            assert_int_equal(step.allocs[k], k + 1);
            assert_int_equal(step.size[k], sizes[k]);
            assert_int_equal(step.sources[k], sources[k]);
            assert_int_equal(step.in_task_heap[k], k < 5);
            assert_int_equal(step.charged[k], (sizes[k] + (k == 4 ? 256 : 0) + 15) / 16 * 16);
        }
        assert_true(step.said_task);
        assert_true(step.said_account);
        assert_int_equal(seen.allocs, 6);
        assert_int_equal(seen.ends[STINT_MEMPROF_FREED], 6);
        assert_int_equal(seen.promotes, 0);
        assert_int_equal(seen.unknown, 0);
    }
    stint_account_release(account);
}

TEST(blocks_outside_of_tasks_are_sampled)
{
    for (unsigned i = 0; family_at(i) != NULL; i++) {
        const struct family *family = family_at(i);
        struct seen seen = { 0 };
        start(&seen);
        void *block = family->malloc(LARGE_BLOCK);
        assert_int_equal(seen.allocs, 1);
        assert_int_equal(seen.last.source, STINT_MEMPROF_PROCESS_HEAP);
        assert_null(seen.last.task);
        block = family->realloc(block, 4 * LARGE_BLOCK);
        assert_int_equal(seen.allocs, 2);
        assert_int_equal(seen.ends[STINT_MEMPROF_FREED], 1);
        void *same = family->realloc(block, 4 * LARGE_BLOCK - 1);
        assert_ptr_equal(same, block);
        assert_int_equal(seen.allocs, 2);
        family->free(block);
        assert_int_equal(seen.ends[STINT_MEMPROF_FREED], 2);
        stop_profile();
        family->free(keep(family->malloc(LARGE_BLOCK)));
        assert_int_equal(seen.allocs, 2);
    }
}

static int have_libc_allocate(void *arg, void **value)
{
    static char text[LARGE_BLOCK];
    (void)arg;
    (void)value;
    memset(text, 'x', LARGE_BLOCK - 1);
    setenv("STINT_MEMPROF_TEST", text, 1);
    return EIO;
}

TEST(what_libc_allocates_is_foreign)
{
    struct seen seen = { 0 };
    if (!stint_malloc_is_overridden())
        skip_because("malloc is not stint's");
    setenv("STINT_MEMPROF_TEST", "", 1); /* the list of variables has been made */
    start(&seen);
    assert_outcome(run_task(have_libc_allocate, NULL, NULL), STINT_ERROR, STINT_REASON_FAILED, EIO);
    stop_profile();
    assert_int_equal(seen.allocs, 1);
    assert_int_equal(seen.last.source, STINT_MEMPROF_FOREIGN);
    assert_false(seen.last.in_task_heap);
    assert_true(seen.last.callstack_length > 1);
    assert_int_equal(seen.ends[STINT_MEMPROF_STOPPED], 1);
}

struct other_thread {
    struct seen *seen;
    int allocs;
};

static void *allocate_elsewhere(void *arg)
{
    (void)arg;
    /* Some for it to join the profile. */
    for (int i = 0; i < 4; i++)
        stint_free(keep(stint_malloc(256 * KIB)));
    stint_free(keep(stint_malloc(LARGE_BLOCK)));
    return NULL;
}

TEST(a_thread_that_runs_no_task_joins)
{
    struct seen seen = { 0 };
    pthread_t thread;
    start(&seen);
    assert_int_equal(pthread_create(&thread, NULL, allocate_elsewhere, NULL), 0);
    pthread_join(thread, NULL);
    stop_profile();
    assert_true(seen.allocs > 0);
    assert_int_equal(seen.last.size, LARGE_BLOCK);
    assert_int_equal(seen.ends[STINT_MEMPROF_FREED], seen.allocs);
}

static int leave_two_blocks(void *arg, void **value)
{
    struct step *step = arg;
    step->block = stint_malloc(LARGE_BLOCK);
    step->other = stint_malloc(LARGE_BLOCK);
    stint_free(keep(stint_malloc(LARGE_BLOCK)));
    if (step->code == 0)
        *value = step->block;
    return step->code;
}

TEST(a_block_of_a_task_that_ends_ok_is_promoted)
{
    struct seen seen = { 0 };
    struct step step = { 0 };
    start(&seen);
    assert_ok(run_task(leave_two_blocks, &step, NULL));
    assert_int_equal(seen.promotes, 2);
    assert_int_equal(seen.ends[STINT_MEMPROF_FREED], 1);
    stint_free(step.block);
    assert_int_equal(seen.ends[STINT_MEMPROF_FREED], 2);
    stop_profile();
    assert_int_equal(seen.ends[STINT_MEMPROF_STOPPED], 1);
    stint_free(step.other);
    assert_int_equal(seen.ends[STINT_MEMPROF_FREED], 2);
    assert_int_equal(seen.ends[STINT_MEMPROF_ROLLED_BACK], 0);
    assert_int_equal(seen.allocs, 3);
    assert_int_equal(seen.unknown, 0);
}

TEST(a_block_of_a_task_that_fails_is_rolled_back)
{
    struct seen seen = { 0 };
    struct step *step = calloc(1, sizeof *step); /* where no root scan looks */
    step->code = 7;
    start(&seen);
    assert_outcome(run_task(leave_two_blocks, step, NULL), STINT_ERROR, STINT_REASON_FAILED, 7);
    assert_int_equal(seen.ends[STINT_MEMPROF_ROLLED_BACK], 2);
    assert_int_equal(seen.ends[STINT_MEMPROF_FREED], 1);
    assert_int_equal(seen.promotes, 0);
    stop_profile();
    assert_int_equal(seen.ends[STINT_MEMPROF_STOPPED], 0);
    free(step);
}

static int run_inner(void *arg, void **value)
{
    struct step *step = arg;
    stint_outcome outcome;
    (void)value;
    int error = stint_run(leave_two_blocks, step, NULL, &outcome);
    step->count = step->seen->promotes;
    return error != 0 ? error : 5;
}

TEST(what_an_inner_task_commits_goes_with_the_outer_one)
{
    struct seen seen = { 0 };
    struct step *step = calloc(1, sizeof *step);
    step->seen = &seen;
    start(&seen);
    assert_outcome(run_task(run_inner, step, NULL), STINT_ERROR, STINT_REASON_FAILED, 5);
    stop_profile();
    assert_int_equal(step->count, 0);
    assert_int_equal(seen.promotes, 0);
    assert_int_equal(seen.ends[STINT_MEMPROF_ROLLED_BACK], 2);
    free(step);
}

TEST(what_a_tracker_does_not_follow_has_no_end)
{
    struct seen seen = { .silent = true };
    struct step step = { 0 };
    start(&seen);
    assert_ok(run_task(leave_two_blocks, &step, NULL));
    stint_free(step.block);
    stint_free(step.other);
    stop_profile();
    assert_int_equal(seen.promotes + seen.ends[0] + seen.ends[1] + seen.ends[2], 0);
}

static void *forget_at_promotion(void *metadata, void *arg)
{
    note_promote(metadata, arg);
    return NULL;
}

TEST(promotion_may_end_the_following)
{
    struct seen seen = { 0 };
    struct step step = { 0 };
    stint_memprof_options options = options_for(&seen);
    options.tracker.promote = forget_at_promotion;
    assert_int_equal(stint_memprof_start(&options), 0);
    assert_ok(run_task(leave_two_blocks, &step, NULL));
    stint_free(step.block);
    stint_free(step.other);
    stop_profile();
    assert_int_equal(seen.promotes, 2);
    assert_int_equal(seen.ends[0] + seen.ends[1] + seen.ends[2], 1);
}

/* 0, or the number of what went wrong. */
static int follow_anew(const struct seen *of_parent, void *first, void *second)
{
    struct seen seen = { .silent = false };
    stint_memprof_options options = options_for(&seen);
    stint_free(first);
    if (stint_memprof_stop() != EINVAL || stint_memprof_start(&options) != 0)
        return 1;
    stint_free(second);
    void *block = keep(stint_malloc(LARGE_BLOCK));
    void *left = keep(stint_malloc(LARGE_BLOCK));
    stint_free(block);
    if (stint_memprof_stop() != 0)
        return 2;
    stint_free(left);
    if (seen.allocs != 2 || seen.ends[STINT_MEMPROF_FREED] != 1 || seen.ends[STINT_MEMPROF_STOPPED] != 1)
        return 3;
    return seen.unknown != 0 || of_parent->ends[STINT_MEMPROF_FREED] != 0 ? 4 : 0;
}

TEST(the_child_of_a_fork_follows_no_block_of_its_parent_s_and_can_follow_its_own)
{
    if (lack_of_lone_threads() != NULL)
        skip_because(lack_of_lone_threads());
    struct seen seen = { .silent = false };
    start(&seen);
    void *first = keep(stint_malloc(LARGE_BLOCK));
    void *second = keep(stint_malloc(LARGE_BLOCK));
    assert_int_equal(seen.allocs, 2);
    pid_t child = fork();
    if (child == 0) {
        int wrong = follow_anew(&seen, first, second);
        pid_t grandchild = wrong == 0 ? fork() : -1;
        if (grandchild == 0)
            _exit(follow_anew(&seen, NULL, NULL));
        int status = 1;
        _exit(wrong != 0 || waitpid(grandchild, &status, 0) != grandchild ? wrong : WEXITSTATUS(status));
    }
    assert_ends_well(child);
    stint_free(first);
    assert_int_equal(seen.ends[STINT_MEMPROF_FREED], 1);
    stop_profile();
    assert_int_equal(seen.ends[STINT_MEMPROF_STOPPED], 1);
    stint_free(second);
}

TEST_MAIN()
