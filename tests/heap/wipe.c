/* SPDX-License-Identifier: MIT
 *
 * options.wipe: the bytes that such a task wrote into its blocks never show in a later block. Each way in which memory
 * can come to another owner is tried without the option too, and the secret must show there, because otherwise the
 * test would test nothing. */
#include "support.h"

#include <sys/uio.h>

/* Another one for each trial, so that what one leaves is no part of the next. */
static uint64_t secret = UINT64_C(0x5ec2e7f00d5ec2e7);

static int change_secret(void **state)
{
    (void)state;
    secret = secret * 5 + 1;
    return 0;
}

static const size_t sizes[] = { 16, 48, 200, 1000, 5000, 30000, 100 * KIB, 300 * KIB, 3 * MIB };
#define SIZES (sizeof sizes / sizeof sizes[0])

static void *with_secret(void *block, size_t size)
{
    uint64_t *words = block;
    for (size_t i = 0; words != NULL && i < size / sizeof secret; i++)
        words[i] = secret;
    return block;
}

static void *make(size_t size)
{
    return with_secret(stint_malloc(size), size);
}

/* --- Looking for it
 * ------------------------------------------------------------------------------------------------ */

#define LOOKED_AT (2 * MIB) /* in blocks of each size */
#define MAX_LOOKED_AT ((size_t)40000)

static size_t count_of(size_t size)
{
    size_t count = LOOKED_AT / size;
    return count < 4 ? 4 : count > MAX_LOOKED_AT ? MAX_LOOKED_AT : count;
}

static bool shows(const uint64_t *block, size_t size)
{
    for (size_t i = 0; i < size / sizeof secret; i++) {
        if (((const volatile uint64_t *)block)[i] == secret)
            return true;
    }
    return false;
}

/* Does the secret show in blocks that are allocated here? */
static bool look_at_size(size_t size)
{
    size_t count = count_of(size);
    void **blocks = stint_malloc(count * sizeof *blocks);
    bool found = shows((uint64_t *)blocks, count * sizeof *blocks);
    for (size_t i = 0; i < count; i++) {
        blocks[i] = stint_malloc(size);
        found = found || shows(blocks[i], size);
    }
    for (size_t i = 0; i < count; i++)
        stint_free(blocks[i]);
    stint_free(blocks);
    return found;
}

static bool look(void)
{
    bool found = false;
    for (size_t i = 0; i < SIZES; i++)
        found = look_at_size(sizes[i]) || found;
    return found;
}

static int look_in_a_task(void *found, void **value)
{
    (void)value;
    *(bool *)found = look() || *(bool *)found;
    return 0;
}

static void *look_on_a_thread(void *found)
{
    *(bool *)found = look();
    return NULL;
}

static bool is_found_anywhere(void)
{
    bool in_task = false, on_thread = false;
    assert_ok(run_task(look_in_a_task, &in_task, NULL));
    on_a_thread(look_on_a_thread, &on_thread);
    return look() || in_task || on_thread;
}

/* --- Leaving it
 * ---------------------------------------------------------------------------------------------------- */

static stint_options options_with(bool wipe)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.wipe = wipe;
    return options;
}

struct trial {
    stint_fn *fn;
    bool wipe;
    bool found;
};

static void *try_it(void *arg)
{
    struct trial *trial = arg;
    stint_options options = options_with(trial->wipe);
    stint_outcome outcome;
    if (stint_run(trial->fn, NULL, &options, &outcome) != 0)
        return NULL;
    stint_free(outcome.value);
    stint_run(look_in_a_task, &trial->found, NULL, &outcome);
    trial->found = look() || trial->found;
    return trial;
}

static bool shows_after(stint_fn *fn, bool wipe)
{
    struct trial trial = { .fn = fn, .wipe = wipe };
    change_secret(NULL);
    assert_non_null(on_a_thread(try_it, &trial));
    if (wipe)
        assert_false(is_found_anywhere());
    return trial.found;
}

/* If mimalloc has given the memory back to the system, or debug mode keeps it in quarantine, the secret does not
 * show. */
static bool shows_without_wiping(stint_fn *fn)
{
    bool shown = false;
    for (int i = 0; i < 10 && !shown; i++)
        shown = shows_after(fn, false);
    return shown;
}

static void assert_wiped(stint_fn *fn)
{
    assert_true(shows_without_wiping(fn) || in_debug_mode());
    assert_false(shows_after(fn, true));
}

static int leave_blocks_and_fail(void *unused, void **value)
{
    (void)unused;
    (void)value;
    for (size_t i = 0; i < SIZES; i++) {
        for (int j = 0; j < 10; j++)
            keep(make(sizes[i]));
    }
    return 1;
}

TEST_WITH(blocks_of_a_rolled_back_task_are_wiped, change_secret, NULL)
{
    assert_wiped(leave_blocks_and_fail);
}

static int free_blocks(void *unused, void **value)
{
    (void)unused;
    (void)value;
    for (size_t i = 0; i < SIZES; i++) {
        void *blocks[10];
        for (int j = 0; j < 10; j++)
            blocks[j] = make(sizes[i]);
        for (int j = 0; j < 10; j++)
            stint_free(blocks[j]);
    }
    return 0;
}

TEST_WITH(blocks_that_the_task_freed_itself_are_wiped, change_secret, NULL)
{
    assert_wiped(free_blocks);
}

static int move_blocks(void *unused, void **value)
{
    (void)unused;
    (void)value;
    for (size_t i = 0; i + 1 < SIZES; i++) {
        char *block = make(sizes[i]);
        block = stint_realloc(block, sizes[i + 1]); /* the old one goes */
        block = stint_realloc(block, 8);            /* and this one */
        stint_free(block);
    }
    return 0;
}

TEST_WITH(blocks_that_realloc_has_moved_are_wiped, change_secret, NULL)
{
    assert_wiped(move_blocks);
}

static int make_aligned_blocks(void *unused, void **value)
{
    (void)unused;
    (void)value;
    for (size_t alignment = 32; alignment <= 64 * KIB; alignment *= 4) {
        for (size_t i = 0; i < SIZES; i++) {
            keep(with_secret(stint_aligned_alloc(alignment, sizes[i]), sizes[i]));
            stint_free(with_secret(stint_aligned_alloc(alignment, sizes[i]), sizes[i]));
        }
    }
    return 1;
}

TEST_WITH(aligned_blocks_are_wiped, change_secret, NULL)
{
    assert_wiped(make_aligned_blocks);
}

static int let_another_thread_free(void *unused, void **value)
{
    (void)unused;
    (void)value;
    for (size_t i = 0; i < SIZES; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, free_it, make(sizes[i])) != 0 || pthread_join(thread, NULL) != 0)
            return 2;
    }
    return 0;
}

TEST_WITH(blocks_that_another_thread_freed_are_wiped, change_secret, NULL)
{
    if (stint_backend_version() < 30503)
        skip_because("this mimalloc gives such memory back to the system at once");
    assert_wiped(let_another_thread_free);
}

static int fail_inside(void *unused, void **value)
{
    (void)unused;
    (void)value;
    stint_outcome inner;
    return stint_run(leave_blocks_and_fail, NULL, NULL, &inner) == 0 ? 0 : 2;
}

TEST_WITH(scopes_inside_are_wiped_like_the_one_around_them, change_secret, NULL)
{
    assert_wiped(fail_inside);
}

static int leave_blocks_inside_and_fail(void *unused, void **value)
{
    (void)unused;
    (void)value;
    stint_options options = options_with(true);
    stint_outcome inner;
    return stint_run(leave_blocks_and_fail, NULL, &options, &inner) == 0 ? 1 : 2;
}

#define NOTED 200

static uintptr_t noted[NOTED]; /* the opposite of each address: no root */
static size_t shown;

static int note_blocks_and_fail(void *unused, void **value)
{
    (void)unused;
    (void)value;
    for (size_t i = 0; i < NOTED; i++)
        noted[i] = ~(uintptr_t)make(5000);
    return 1;
}

/* While the outer one still runs. What has gone back to the system cannot be read. */
static int look_where_the_inner_one_was(void *unused, void **value)
{
    (void)unused;
    (void)value;
    stint_outcome inner;
    shown = 0;
    if (stint_run(note_blocks_and_fail, NULL, NULL, &inner) != 0)
        return 2;
    for (size_t i = 0; i < NOTED; i++) {
        uint64_t word = 0;
        struct iovec here = { &word, sizeof word };
        struct iovec there = { (void *)(~noted[i] + 1000), sizeof word };
        bool is_read = process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)sizeof word;
        shown += is_read && word == secret;
    }
    return 0;
}

TEST_WITH(where_a_scope_inside_a_wiped_one_was_nothing_is_left, change_secret, NULL)
{
    if (lack_of_remote_reads() != NULL)
        skip_because(lack_of_remote_reads());
    stint_options options = options_with(false);
    assert_ok(run_task(look_where_the_inner_one_was, NULL, &options));
    assert_true(shown > 0 || in_debug_mode());
    options = options_with(true);
    assert_ok(run_task(look_where_the_inner_one_was, NULL, &options));
    assert_int_equal(shown, 0);
}

TEST_WITH(a_scope_inside_one_that_is_not_wiped_is_wiped, change_secret, NULL)
{
    assert_false(shows_after(leave_blocks_inside_and_fail, false));
}

static int leave_blocks_for_ever(void *unused, void **value)
{
    (void)unused;
    (void)value;
    while (leave_blocks_and_fail(NULL, NULL) == 1)
        ;
    return 0;
}

TEST_WITH(a_task_that_is_interrupted_is_wiped, change_secret, NULL)
{
    stint_options options = options_with(true);
    options.budget.memory = 32 * MIB;
    assert_outcome(run_task(leave_blocks_for_ever, NULL, &options), STINT_ERROR, STINT_REASON_MEMORY_LIMIT, ENOMEM);
    assert_false(is_found_anywhere());
}

static char *root;

static int leave_a_root(void *unused, void **value)
{
    leave_blocks_and_fail(unused, value);
    root = make(1000);
    return 1;
}

static int fail_with_a_block(void *unused, void **value)
{
    (void)unused;
    (void)value;
    keep(stint_malloc(100));
    return 1;
}

TEST_WITH(a_kept_heap_is_wiped_when_it_goes, change_secret, NULL)
{
    stint_options options = options_with(true);
    assert_true(run_task(leave_a_root, NULL, &options).usage.kept > 0);
    assert_int_equal(*(uint64_t *)(void *)root, secret);
    assert_false(is_found_anywhere());
    root = NULL;
    run_task(fail_with_a_block, NULL, NULL);
    assert_false(is_found_anywhere());
}

/* A task's mapping is copied for the search, as it may be unreadable. */
static int leave_a_mapping(void *unused, void **value)
{
    (void)unused;
    (void)value;
    void *mapping = mmap(NULL, 64 * KIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED)
        return 2;
    root = stint_malloc(1000);
    *(void **)(void *)root = with_secret(mapping, 64 * KIB);
    return 1;
}

TEST_WITH(what_the_search_for_roots_has_copied_is_wiped, change_secret, NULL)
{
    stint_options options = options_with(true);
    assert_outcome(run_task(leave_a_mapping, NULL, &options), STINT_ERROR, STINT_REASON_FAILED, 1);
    assert_false(is_found_anywhere());
    root = NULL;
    run_task(fail_with_a_block, NULL, NULL);
}

static void *leave_small_blocks(void *blocks)
{
    for (int i = 0; i < 2000; i++)
        ((void **)blocks)[i] = stint_malloc(600);
    return NULL;
}

static int leave_many_blocks_and_fail(void *unused, void **value)
{
    (void)unused;
    (void)value;
    for (int i = 0; i < 50000; i++)
        keep(make(600));
    return 1;
}

TEST_WITH(a_heap_that_has_adopted_pages_of_ended_threads_is_wiped, change_secret, NULL)
{
    static void *blocks[2000];
    stint_options options = options_with(true);
    for (int round = 0; round < 3; round++) {
        on_a_thread(leave_small_blocks, blocks);
        run_task(leave_many_blocks_and_fail, NULL, &options);
        assert_false(is_found_anywhere());
        for (int i = 0; i < 2000; i++)
            stint_free(blocks[i]);
        assert_false(is_found_anywhere());
    }
}

static int commit_a_block(void *unused, void **value)
{
    (void)unused;
    *value = make(1000);
    return 0;
}

TEST_WITH(what_a_task_commits_is_left_as_it_is, change_secret, NULL)
{
    stint_options options = options_with(true);
    stint_outcome outcome = run_task(commit_a_block, NULL, &options);
    assert_ok(outcome);
    for (size_t i = 0; i < 1000 / sizeof secret; i++)
        assert_int_equal(((uint64_t *)outcome.value)[i], secret);
    memset(outcome.value, 0, 1000);
    stint_free(outcome.value);
}

TEST_WITH(tasks_of_a_pool_are_wiped, change_secret, NULL)
{
    enum { TASKS = 40 };
    stint_future *futures[TASKS];
    bool found[TASKS] = { false };
    stint_pool *pool;
    stint_options options = options_with(true);
    assert_int_equal(stint_pool_create(NULL, &pool), 0);
    for (int i = 0; i < TASKS; i++) {
        stint_fn *fn = i % 4 == 3 ? look_in_a_task : i % 4 == 2 ? leave_blocks_and_fail : free_blocks;
        assert_int_equal(stint_submit(pool, fn, &found[i], i % 4 == 3 ? NULL : &options, &futures[i]), 0);
    }
    for (int i = 0; i < TASKS; i++) {
        assert_int_equal(stint_future_wait(futures[i], NULL), 0);
        assert_false(found[i]);
        stint_future_release(futures[i]);
    }
    assert_int_equal(stint_pool_destroy(pool), 0);
}

static int leave_blocks(void *unused, void **value)
{
    leave_blocks_and_fail(unused, value);
    return 0;
}

/* On other workers too, whose heaps end later. */
static int fork_and_fail(void *unused, void **value)
{
    (void)unused;
    (void)value;
    stint_subtask subtasks[16];
    for (int i = 0; i < 16; i++)
        stint_fork(&subtasks[i], leave_blocks, NULL);
    for (int i = 16; i-- > 0;)
        stint_join(&subtasks[i], NULL);
    return 1;
}

TEST_WITH(what_forked_subtasks_wrote_is_wiped, change_secret, NULL)
{
    stint_pool *pool;
    stint_pool_options workers = { .size = sizeof(stint_pool_options), .workers = 3 };
    stint_options options = options_with(true);
    bool found = false;
    assert_int_equal(stint_pool_create(&workers, &pool), 0);
    for (int i = 0; i < 8; i++) {
        stint_future *future;
        assert_int_equal(i < 6 ? stint_submit(pool, fork_and_fail, NULL, &options, &future)
                               : stint_submit(pool, look_in_a_task, &found, NULL, &future),
                         0);
        assert_int_equal(stint_future_wait(future, NULL), 0);
        stint_future_release(future);
    }
    assert_false(found);
    assert_int_equal(stint_pool_destroy(pool), 0);
    assert_false(is_found_anywhere());
}

static void *note_alloc(const stint_memprof_allocation *allocation, void *followed)
{
    (void)allocation;
    ++*(int *)followed;
    return followed;
}

static void note_dealloc(void *metadata, stint_memprof_end end, void *followed)
{
    (void)end;
    (void)metadata;
    --*(int *)followed;
}

static int free_and_move(void *arg, void **value)
{
    free_blocks(arg, value);
    return move_blocks(arg, value);
}

TEST(a_profile_and_wiping_go_together)
{
    int followed = 0;
    stint_memprof_options options = STINT_MEMPROF_OPTIONS_INIT;
    options.interval = 64;
    options.tracker = (stint_memprof_tracker){ .alloc = note_alloc, .dealloc = note_dealloc };
    options.arg = &followed;
    assert_int_equal(stint_memprof_start(&options), 0);
    stint_options wiped = options_with(true);
    assert_ok(run_task(free_and_move, NULL, &wiped));
    assert_int_equal(followed, 0); /* each was reported as freed, too */
    assert_ok(run_task(free_and_move, NULL, NULL));
    assert_int_equal(followed, 0);
    assert_int_equal(stint_memprof_stop(), 0);
    change_secret(NULL);
    assert_ok(run_task(free_and_move, NULL, &wiped));
    assert_false(is_found_anywhere());
}

TEST_MAIN()
