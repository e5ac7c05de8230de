/* SPDX-License-Identifier: MIT
 *
 * The child of a process with several threads is part of a process: whatever the others were doing at that moment, no
 * child hangs that allocates and ends; this library's calls say ENOTSUP there. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

#include "pools.h"

#define PATIENCE 20 /* seconds until a child that hangs is ended */
#define BLOCKS 64
#define SLOTS 256

/* --- Threads that make, exchange and free blocks, and run tasks that are rolled back. --- */

static atomic_bool enough;
static _Atomic(void *) slots[SLOTS];

static int allocate_and_fail(void *random, void **value)
{
    (void)value;
    for (int i = 0; i < 100; i++)
        keep(stint_malloc(16 + random_below(random, 20000)));
    return EIO;
}

static void *work(void *number)
{
    uint64_t random = (uintptr_t)number;
    while (!atomic_load(&enough)) {
        stint_outcome outcome;
        stint_run(allocate_and_fail, &random, NULL, &outcome);
        for (int i = 0; i < 100; i++)
            stint_free(
                atomic_exchange(&slots[random_below(&random, SLOTS)], stint_malloc(16 + random_below(&random, 3000))));
    }
    return NULL;
}

static pthread_t threads[3];

static int start_threads(void **state)
{
    (void)state;
    atomic_store(&enough, false);
    for (uintptr_t i = 0; i < sizeof threads / sizeof *threads; i++) {
        if (pthread_create(&threads[i], NULL, work, (void *)(i + 1)) != 0)
            return 1;
    }
    return 0;
}

static int end_threads(void **state)
{
    (void)state;
    atomic_store(&enough, true);
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++)
        pthread_join(threads[i], NULL);
    for (size_t i = 0; i < SLOTS; i++)
        stint_free(atomic_exchange(&slots[i], NULL));
    return 0;
}

/* --- malloc. --- */

static void *blocks[BLOCKS]; /* of the parent's, each filled with its number */

static bool keeps_parents_blocks(void)
{
    for (size_t i = 0; i < BLOCKS; i++) {
        const unsigned char *block = blocks[i];
        if (block[0] != i || block[99] != i)
            return false;
        if (i % 2 == 0)
            stint_free(blocks[i]);
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        unsigned char *moved = stint_realloc(blocks[i], 5000);
        if (moved == NULL || moved == blocks[i] || moved[0] != i || moved[99] != i || moved[99] != *(char *)blocks[i])
            return false;
        stint_free(moved);
    }
    return true;
}

static bool allocates(void)
{
    for (size_t size = 1; size < 200000; size += size / 3 + 1) {
        char *block = keep(stint_malloc(size));
        char *zeros = keep(stint_calloc(1, size));
        char *aligned = keep(stint_aligned_alloc(64, size));
        if (block == NULL || zeros == NULL || zeros[size - 1] != 0 || ((uintptr_t)aligned & 63) != 0 ||
            stint_malloc_usable_size(block) < size)
            return false;
        memset(block, 1, size);
        block = stint_realloc(block, 2 * size);
        if (block == NULL || block[size - 1] != 1)
            return false;
        stint_free(block);
        stint_free(zeros);
        stint_free(aligned);
    }
    return true;
}

static void make_blocks(void)
{
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = keep(stint_malloc(100));
        memset(blocks[i], (int)i, 100);
    }
}

static void free_blocks(void)
{
    for (size_t i = 0; i < BLOCKS; i++)
        stint_free(blocks[i]);
}

/* One thread of its own, which ends; then it ends by exit(3), or at once. */
static void *allocate_on_thread(void *good)
{
    *(bool *)good = allocates();
    return NULL;
}

static void live_in_part(unsigned number)
{
    bool good = false;
    pthread_t thread;
    alarm(PATIENCE);
    if (!keeps_parents_blocks() || !allocates())
        _exit(1);
    if (number % 4 == 0 &&
        (pthread_create(&thread, NULL, allocate_on_thread, &good) != 0 || pthread_join(thread, NULL) != 0 || !good))
        _exit(2);
    if (number % 2 == 0)
        _exit(0);
    exit(0);
}

TEST_WITH(children_beside_threads_at_work_allocate_and_end, start_threads, end_threads)
{
    unsigned count = repeats(300);
    make_blocks();
    for (unsigned i = 0; i < count; i++) {
        fflush(NULL);
        pid_t child = fork();
        if (child == 0)
            live_in_part(i);
        assert_ends_well(child);
    }
    free_blocks();
}

static void load_a_library(void)
{
    alarm(PATIENCE);
    _exit(dlopen("libresolv.so.2", RTLD_NOW) != NULL ? 0 : 3);
}

TEST_WITH(children_beside_rollbacks_load_a_library, start_threads, end_threads)
{
    for (unsigned count = repeats(300); count > 0; count--) {
        pid_t child = fork();
        if (child == 0)
            load_a_library();
        assert_ends_well(child);
    }
}

/* --- Calls. --- */

static void never_called(stint_future *future, const stint_outcome *outcome, void *arg)
{
    (void)future;
    (void)outcome;
    (void)arg;
    _exit(100);
}

/* The number of the first that says something else. */
static int ask_everything(stint_pool *pool, stint_future *running, stint_completions *queue)
{
    stint_pool_statistics statistics = STINT_POOL_STATISTICS_INIT;
    stint_account_usage usage = STINT_ACCOUNT_USAGE_INIT;
    stint_completion completions[4];
    stint_outcome outcome;
    stint_continuation continuation;
    stint_future *future = running;
    stint_pool *other = NULL;
    stint_group *group = NULL;
    stint_token *token = NULL;
    stint_account *account = NULL;
    size_t count = 1;
    const int said[] = {
        stint_run(do_nothing, NULL, NULL, &outcome),
        stint_pool_create(NULL, &other),
        stint_submit(pool, do_nothing, NULL, NULL, &future),
        stint_submit_wait(pool, do_nothing, NULL, NULL, STINT_FOREVER, &future),
        stint_submit_at(pool, do_nothing, NULL, NULL, 0, &future),
        stint_future_wait(running, &outcome),
        stint_future_wait_for(running, 0, &outcome),
        stint_future_then(running, never_called, NULL),
        stint_future_add_continuation(running, &continuation, never_called, NULL),
        stint_when_all(&running, 1, &future),
        stint_completions_read(queue, completions, 4, &count),
        stint_completions_add(queue, running, NULL),
        stint_group_create(&group),
        stint_token_create(NULL, &token),
        stint_account_create(NULL, NULL, &account),
        stint_account_read(NULL, &usage),
        stint_pool_read(pool, &statistics),
        stint_pool_shutdown(pool, STINT_SHUTDOWN_CANCEL, STINT_FOREVER),
        stint_pool_destroy(pool),
        stint_metrics_write(STDERR_FILENO),
        stint_roots_set_scan(STINT_ROOT_SCAN_ALWAYS),
        stint_when_any_index(running, &count),
        stint_usage_now(NULL, NULL),
        stint_mutex_init(NULL),
        stint_mutex_destroy(NULL),
        stint_module_allow(NULL),
        stint_module_keep(NULL),
        stint_module_protect(NULL),
    };
    stint_future_cancel(running);
    stint_future_release(running);
    stint_completions_destroy(queue);
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        if (said[i] != ENOTSUP)
            return 1 + (int)i;
    }
    return count == 0 && future == NULL && other == NULL ? 0 : 99;
}

TEST(every_call_says_that_it_is_not_supported)
{
    struct gate gate = { .open = false };
    stint_completions *queue;
    stint_completion completion;
    size_t count;
    stint_pool *pool = make_pool(.workers = 1);
    stint_future *done = submit(pool, do_nothing, NULL, NULL);
    assert_int_equal(stint_future_wait(done, NULL), 0);
    stint_future *running = submit(pool, gate_hold, &gate, NULL);
    gate_await(&gate, 1);
    assert_int_equal(stint_completions_create(&queue), 0);
    assert_int_equal(stint_completions_add(queue, done, NULL), 0);
    pid_t child = fork();
    if (child == 0) {
        alarm(PATIENCE);
        _exit(ask_everything(pool, running, queue));
    }
    assert_ends_well(child);
    assert_int_equal(stint_completions_read(queue, &completion, 1, &count), 0);
    assert_int_equal(count, 1); /* which the child has not taken */
    gate_open(&gate);
    assert_ok(take(running));
    stint_future_release(done);
    stint_completions_destroy(queue);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

/* --- Functions that the library has called. --- */

struct forked {
    pid_t child;
    int error;
};

/* In the child nothing is counted and nothing is interrupted. */
static int fork_and_go_on(void *arg, void **value)
{
    struct forked *forked = arg;
    (void)value;
    void *before = keep(stint_malloc(1000));
    forked->child = fork();
    if (forked->child != 0)
        return 0;
    alarm(PATIENCE);
    stint_free(before);
    for (int i = 0; i < 100; i++)
        if (keep(stint_malloc(MIB)) == NULL)
            _exit(10);
    stint_checkpoint();
    return 0;
}

static void *fork_in_stint_run(void *arg)
{
    struct forked *forked = arg;
    stint_options options = STINT_OPTIONS_INIT;
    stint_outcome outcome;
    options.budget.memory = options.budget.allocation = MIB;
    forked->error = stint_run(fork_and_go_on, forked, &options, &outcome);
    if (forked->child == 0)
        _exit(forked->error == ENOTSUP ? 0 : 11);
    return NULL;
}

TEST(stint_run_returns_to_its_caller_in_the_child_of_its_task)
{
    struct forked forked = { .child = -1 };
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, fork_in_stint_run, &forked), 0);
    pthread_join(thread, NULL);
    assert_int_equal(forked.error, 0);
    assert_ends_well(forked.child);
}

TEST(a_worker_ends_in_the_child_of_its_task)
{
    struct forked forked = { .child = -1 };
    stint_pool *pool = make_pool(.workers = 2);
    stint_options options = STINT_OPTIONS_INIT;
    options.account = make_account(NULL);
    assert_ok(run_in_pool(pool, fork_and_go_on, &forked, &options));
    assert_ends_well(forked.child);
    stint_account_release(options.account);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

static void fork_in_callback(stint_future *future, const stint_outcome *outcome, void *arg)
{
    struct forked *forked = arg;
    (void)future;
    (void)outcome;
    forked->child = fork();
    if (forked->child == 0)
        alarm(PATIENCE);
}

TEST(a_callback_s_thread_ends_in_its_child)
{
    struct forked forked = { .child = -1 };
    stint_pool *pool = make_pool(.workers = 1);
    stint_future *future = submit(pool, do_nothing, NULL, NULL);
    assert_int_equal(stint_future_wait(future, NULL), 0);
    assert_int_equal(stint_future_then(future, fork_in_callback, &forked), 0);
    assert_ends_well(forked.child);
    stint_future_release(future);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST_MAIN()
