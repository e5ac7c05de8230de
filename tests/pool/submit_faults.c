/* SPDX-License-Identifier: MIT
 *
 * stint_pool_create and stint_submit when memory or threads run out, at each possible place: the right error, and
 * nothing left behind. This program defines the allocator's functions and pthread_create itself, passes the calls on,
 * counts the blocks, and fails a chosen call. */
#include <dirent.h>
#include <dlfcn.h>
#include <mimalloc.h>

#include "pools.h"

/* --- The calls in between ----------------------------------------------------------------------------------------- */

static atomic_long blocks;
static _Thread_local unsigned countdown; /* the call that will fail: the countdown-th on this thread; 0: none */
static _Thread_local bool in_pthread_create;
static _Thread_local int due_error; /* of the call that failed */
static atomic_bool starve_workers;
static _Thread_local bool is_test_thread;

static bool must_fail(int error)
{
    bool starved = atomic_load(&starve_workers) && !is_test_thread;
    if (!starved && (countdown == 0 || --countdown > 0))
        return false;
    if (!starved)
        due_error = in_pthread_create ? EAGAIN : error;
    errno = error; /* libc relies on it */
    return true;
}

static void *counted(void *block)
{
    if (block != NULL)
        atomic_fetch_add(&blocks, 1);
    return block;
}

#define REAL(name)                                                                                                     \
    static typeof(name) *_Atomic real;                                                                                 \
    if (real == NULL) {                                                                                                \
        typeof(name) *found;                                                                                           \
        *(void **)&found = dlsym(RTLD_NEXT, #name);                                                                    \
        real = found;                                                                                                  \
    }

/* mimalloc calls some of these itself, for its records of heaps and threads, which are not the library's. */
static bool is_mimalloc(void *caller)
{
    static void *_Atomic module;
    struct dl_find_object found;
    if (module == NULL) {
        void *version = dlsym(RTLD_DEFAULT, "mi_version");
        assert_int_equal(_dl_find_object(version, &found), 0);
        module = found.dlfo_map_start;
    }
    return _dl_find_object(caller, &found) == 0 && found.dlfo_map_start == module;
}

#define PASSED_ON(call)                                                                                                \
    if (is_mimalloc(__builtin_return_address(0)))                                                                      \
        return call;

void *mi_malloc(size_t size)
{
    REAL(mi_malloc);
    PASSED_ON(real(size))
    return must_fail(ENOMEM) ? NULL : counted(real(size));
}

void *mi_zalloc(size_t size)
{
    REAL(mi_zalloc);
    PASSED_ON(real(size))
    return must_fail(ENOMEM) ? NULL : counted(real(size));
}

void *mi_malloc_aligned(size_t size, size_t alignment)
{
    REAL(mi_malloc_aligned);
    PASSED_ON(real(size, alignment))
    return must_fail(ENOMEM) ? NULL : counted(real(size, alignment));
}

void *mi_realloc(void *block, size_t size)
{
    REAL(mi_realloc);
    PASSED_ON(real(block, size))
    if (must_fail(ENOMEM))
        return NULL;
    return block == NULL ? counted(real(block, size)) : real(block, size);
}

void mi_free(void *block)
{
    REAL(mi_free);
    if (block != NULL && !is_mimalloc(__builtin_return_address(0)))
        atomic_fetch_sub(&blocks, 1);
    real(block);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *argument)
{
    REAL(pthread_create);
    if (must_fail(EAGAIN))
        return EAGAIN;
    in_pthread_create = true;
    int error = real(thread, attributes, body, argument);
    in_pthread_create = false;
    return error;
}

/* --- Counting ----------------------------------------------------------------------------------------------------- */

static unsigned count_threads(void)
{
    unsigned count = 0;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    const struct dirent *task;
    while ((task = readdir(tasks)) != NULL)
        count += task->d_name[0] != '.';
    closedir(tasks);
    return count;
}

/* A worker gives back the record of a task some time after the task's future has resolved. */
static void assert_no_more_blocks_than(long expected)
{
    for (int i = 0; i < 100000 && atomic_load(&blocks) > expected; i++)
        gate_nap();
    assert_true(atomic_load(&blocks) <= expected);
}

/* A joined thread may be listed for a moment longer, also where the expected ones were counted. */
static void await_threads(unsigned expected)
{
    while (count_threads() > expected)
        gate_nap();
}

static int run(void *arg, void **value)
{
    (void)value;
    if (arg != NULL)
        atomic_fetch_add((atomic_uint *)arg, 1);
    return 0;
}

#define MAX_WORKERS 3

static stint_pool *make_unwarmed_pool(unsigned workers, size_t capacity)
{
    stint_pool *pool;
    const stint_pool_options options = { .size = sizeof(stint_pool_options),
                                         .workers = workers,
                                         .queue_capacity = capacity };
    assert_int_equal(stint_pool_create(&options, &pool), 0);
    return pool;
}

/* Waits until all workers run: libc, mimalloc and the library have then made the blocks of a new thread, before
 * anything is counted. */
static void await_workers(stint_pool *pool, unsigned workers)
{
    struct gate gate = { 0 };
    stint_future *futures[MAX_WORKERS];
    for (unsigned i = 0; i < workers; i++)
        assert_int_equal(stint_submit(pool, gate_hold, &gate, NULL, &futures[i]), 0);
    gate_await(&gate, workers);
    gate_open(&gate);
    for (unsigned i = 0; i < workers; i++) {
        assert_int_equal(stint_future_wait(futures[i], NULL), 0);
        stint_future_release(futures[i]);
    }
}

static stint_pool *make_warm_pool(unsigned workers, size_t capacity)
{
    stint_pool *pool = make_unwarmed_pool(workers, capacity);
    await_workers(pool, workers);
    return pool;
}

static int warm_up(void **state)
{
    (void)state;
    assert_int_equal(stint_pool_destroy(make_warm_pool(MAX_WORKERS, 0)), 0);
    return 0;
}

/* --- The tests ---------------------------------------------------------------------------------------------------- */

/* Before the warm-up: the worker's thread must have no record yet. */
TEST(a_worker_without_memory_fails_the_task_and_not_the_process)
{
    stint_future *future;
    stint_outcome outcome;
    atomic_uint ran = 0;
    atomic_store(&starve_workers, true);
    stint_pool *pool = make_unwarmed_pool(1, 0);
    assert_int_equal(stint_submit(pool, run, &ran, NULL, &future), 0);
    assert_int_equal(stint_future_wait(future, &outcome), 0);
    atomic_store(&starve_workers, false);
    stint_future_release(future);
    assert_int_equal(outcome.status, STINT_ERROR);
    assert_int_equal(outcome.reason, STINT_REASON_FAILED);
    assert_int_equal(outcome.error, ENOMEM);
    assert_int_equal(atomic_load(&ran), 0);

    assert_int_equal(stint_submit(pool, run, &ran, NULL, &future), 0);
    assert_int_equal(stint_future_wait(future, &outcome), 0);
    stint_future_release(future);
    assert_int_equal(outcome.status, STINT_OK);
    assert_int_equal(atomic_load(&ran), 1);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST_WITH(a_pool_that_cannot_be_made_leaves_nothing, warm_up, NULL)
{
    const stint_pool_options options = { .size = sizeof(stint_pool_options), .workers = 3 };
    unsigned threads_before = count_threads();
    unsigned without_memory = 0;
    unsigned without_threads = 0;
    for (unsigned nth = 1;; nth++) {
        long before = atomic_load(&blocks);
        stint_pool *pool = NULL;
        due_error = 0;
        countdown = nth;
        int error = stint_pool_create(&options, &pool);
        countdown = 0;
        if (error == 0) {
            assert_int_equal(due_error, 0);
            assert_int_equal(stint_pool_destroy(pool), 0);
            assert_no_more_blocks_than(before);
            break;
        }
        assert_int_equal(error, due_error);
        assert_null(pool);
        await_threads(threads_before);
        assert_no_more_blocks_than(before);
        without_memory += error == ENOMEM;
        without_threads += error == EAGAIN;
    }
    assert_true(without_memory >= 3); /* the pool, its workers, its queue */
    assert_true(without_threads >= 3);
    await_threads(threads_before);
}

/* Whatever is refused must leave the task's token as it was: the last reference here frees it. */
static void assert_refused(stint_pool *pool, unsigned nth, int expected)
{
    long before = atomic_load(&blocks);
    stint_options options = STINT_OPTIONS_INIT;
    assert_int_equal(stint_token_create(NULL, &options.token), 0);
    stint_future *future = NULL;
    countdown = nth;
    int error = stint_submit(pool, run, NULL, &options, &future);
    countdown = 0;
    assert_int_equal(error, expected);
    assert_null(future);
    stint_token_release(options.token);
    assert_no_more_blocks_than(before);
}

TEST(a_submission_without_memory_leaves_nothing)
{
    stint_pool *pool = make_warm_pool(1, 0);
    for (unsigned nth = 1;; nth++) {
        long before = atomic_load(&blocks);
        stint_future *future;
        due_error = 0;
        countdown = nth;
        int error = stint_submit(pool, run, NULL, NULL, &future);
        countdown = 0;
        if (error == 0) {
            assert_true(nth > 1);
            assert_int_equal(stint_future_wait(future, NULL), 0);
            stint_future_release(future);
            break;
        }
        assert_int_equal(error, due_error);
        assert_int_equal(error, ENOMEM);
        assert_no_more_blocks_than(before);
        assert_refused(pool, nth, ENOMEM);
    }
    assert_int_equal(stint_pool_destroy(pool), 0);
}

/* One that may wait, and none before it: what was refused for lack of memory does not count. */
TEST(a_submission_without_memory_does_not_wait_in_its_account)
{
    stint_pool *pool = make_warm_pool(1, 0);
    stint_options options = { .size = sizeof options, .account = make_account(NULL, .waiting = 1) };
    struct gate gate = { 0 };
    stint_future *future;
    stint_future *holder = submit(pool, gate_hold, &gate, NULL);
    gate_await(&gate, 1);
    int error = ENOMEM;
    unsigned refused = 0;
    for (unsigned nth = 1; error == ENOMEM; nth++) {
        countdown = nth;
        error = stint_submit(pool, run, NULL, &options, &future);
        countdown = 0;
        refused += error == ENOMEM;
        assert_int_equal(usage_of(options.account).waiting, error == 0);
    }
    assert_int_equal(error, 0);
    assert_true(refused >= 3); /* the task, its entry in the queue, and that of its account */
    gate_open(&gate);
    take(holder);
    take(future);
    assert_int_equal(stint_pool_destroy(pool), 0);
    stint_account_release(options.account);
}

TEST(a_submission_to_a_full_or_a_closed_pool_leaves_nothing)
{
    stint_pool *pool = make_warm_pool(1, 2);
    struct gate gate = { 0 };
    stint_future *holder, *queued[2];
    assert_int_equal(stint_submit(pool, gate_hold, &gate, NULL, &holder), 0);
    gate_await(&gate, 1);
    for (int i = 0; i < 2; i++)
        assert_int_equal(stint_submit(pool, run, NULL, NULL, &queued[i]), 0);
    assert_refused(pool, 0, EAGAIN);
    assert_int_equal(stint_pool_shutdown(pool, STINT_SHUTDOWN_DRAIN, 0), ETIMEDOUT);
    assert_refused(pool, 0, ESHUTDOWN);
    gate_open(&gate);
    assert_int_equal(stint_pool_destroy(pool), 0);
    stint_future_release(holder);
    stint_future_release(queued[0]);
    stint_future_release(queued[1]);
}

struct inside {
    stint_pool *pool;
    int first, second;
};

static int submit_without_memory(void *arg, void **value)
{
    struct inside *inside = arg;
    stint_future *future = NULL;
    (void)value;
    countdown = 1;
    inside->first = stint_submit(inside->pool, run, NULL, NULL, &future);
    countdown = 0;
    inside->second = stint_submit(inside->pool, run, NULL, NULL, &future);
    if (inside->second == 0) {
        stint_future_wait(future, NULL);
        stint_future_release(future);
    }
    return 0;
}

TEST(a_task_may_try_again_after_a_submission_without_memory)
{
    struct inside inside = { .pool = make_warm_pool(1, 0) };
    stint_future *future;
    stint_outcome outcome;
    assert_int_equal(stint_submit(inside.pool, submit_without_memory, &inside, NULL, &future), 0);
    assert_int_equal(stint_future_wait(future, &outcome), 0);
    stint_future_release(future);
    assert_int_equal(outcome.status, STINT_OK);
    assert_int_equal(inside.first, ENOMEM);
    assert_int_equal(inside.second, 0);
    assert_int_equal(stint_pool_destroy(inside.pool), 0);
}

static int sleep_without_a_spare(void *arg, void **value)
{
    (void)value;
    countdown = 1;
    stint_blocking_begin();
    bool tried = countdown == 0;
    countdown = 0;
    stint_blocking_end();
    stint_blocking_begin(); /* there is one now */
    stint_blocking_end();
    *(bool *)arg = tried;
    return 0;
}

TEST(a_region_for_which_no_spare_can_be_started_does_without)
{
    unsigned threads_before = count_threads();
    stint_pool *pool = make_warm_pool(1, 0);
    bool tried = false;
    for (int i = 0; i < 3; i++) {
        stint_future *future;
        stint_outcome outcome;
        assert_int_equal(stint_submit(pool, sleep_without_a_spare, &tried, NULL, &future), 0);
        assert_int_equal(stint_future_wait(future, &outcome), 0);
        stint_future_release(future);
        assert_int_equal(outcome.status, STINT_OK);
        assert_int_equal(tried, i == 0);
    }
    await_threads(threads_before + 2);
    assert_int_equal(stint_pool_destroy(pool), 0);
    await_threads(threads_before);
}

static void count_call(stint_future *future, const stint_outcome *outcome, void *arg)
{
    (void)future;
    (void)outcome;
    atomic_fetch_add((atomic_uint *)arg, 1);
}

/* Without memory no callback is taken and no compound made; with memory, each gives back what it took. */
TEST(what_follows_a_future_needs_memory_only_when_it_is_asked_for)
{
    stint_pool *pool = make_warm_pool(1, 0);
    struct gate gate = { 0 };
    atomic_uint calls = 0;
    long before = atomic_load(&blocks);
    stint_future *future, *all = NULL, *any = NULL;
    assert_int_equal(stint_submit(pool, gate_hold, &gate, NULL, &future), 0);
    long with_task = atomic_load(&blocks);
    countdown = 1;
    assert_int_equal(stint_future_then(future, count_call, &calls), ENOMEM);
    countdown = 1;
    assert_int_equal(stint_when_all(&future, 1, &all), ENOMEM);
    countdown = 1;
    assert_int_equal(stint_when_any(&future, 1, &any), ENOMEM);
    countdown = 0;
    assert_null(all);
    assert_null(any);
    assert_no_more_blocks_than(with_task);

    assert_int_equal(stint_when_all(&future, 1, &all), 0);
    assert_int_equal(stint_when_any(&all, 1, &any), 0);
    assert_int_equal(stint_future_then(any, count_call, &calls), 0);
    stint_future_release(future);
    stint_future_release(all);
    assert_int_equal(atomic_load(&calls), 0);
    gate_open(&gate);
    assert_int_equal(stint_future_wait(any, NULL), 0);
    stint_future_release(any);
    assert_int_equal(stint_pool_shutdown(pool, STINT_SHUTDOWN_DRAIN, STINT_FOREVER), 0);
    assert_int_equal(atomic_load(&calls), 1);
    assert_no_more_blocks_than(before);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

/* A future that is added without memory does not arrive; one that was added needs no more memory to arrive. */
TEST(a_completion_queue_takes_its_memory_when_futures_are_added)
{
    stint_pool *pool = make_warm_pool(1, 0);
    struct gate gate = { 0 };
    long before = atomic_load(&blocks);
    stint_completions *queue = NULL;
    countdown = 1;
    assert_int_equal(stint_completions_create(&queue), ENOMEM);
    countdown = 0;
    assert_null(queue);
    assert_no_more_blocks_than(before);
    assert_int_equal(stint_completions_create(&queue), 0);
    stint_future *future;
    assert_int_equal(stint_submit(pool, gate_hold, &gate, NULL, &future), 0);
    countdown = 1;
    assert_int_equal(stint_completions_add(queue, future, NULL), ENOMEM);
    countdown = 0;
    for (int i = 0; i < 3; i++)
        assert_int_equal(stint_completions_add(queue, future, NULL), 0);
    atomic_store(&starve_workers, true);
    gate_open(&gate);
    assert_int_equal(stint_future_wait(future, NULL), 0);
    stint_future_release(future);
    assert_int_equal(stint_pool_shutdown(pool, STINT_SHUTDOWN_DRAIN, STINT_FOREVER), 0);
    atomic_store(&starve_workers, false);
    stint_completion completions[4];
    size_t count;
    assert_int_equal(stint_completions_read(queue, completions, 2, &count), 0);
    assert_int_equal(count, 2);
    stint_completions_destroy(queue);
    assert_no_more_blocks_than(before);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

/* A whole life of a pool, with tasks of every fate, gives every block back. */
TEST(a_pool_and_its_tasks_give_all_memory_back)
{
    long before = atomic_load(&blocks);
    for (int round = 0; round < 20; round++) {
        stint_pool *pool = make_warm_pool(3, 0);
        stint_future *futures[300];
        for (int i = 0; i < 300; i++) {
            assert_int_equal(stint_submit(pool, run, NULL, NULL, &futures[i]), 0);
            if (i % 3 == 0)
                stint_future_cancel(futures[i]);
            if (i % 5 == 0)
                stint_future_release(futures[i]);
        }
        if (round % 2 == 0)
            assert_int_equal(stint_pool_shutdown(pool, STINT_SHUTDOWN_DRAIN, STINT_FOREVER), 0);
        assert_int_equal(stint_pool_destroy(pool), 0);
        for (int i = 0; i < 300; i++) {
            if (i % 5 != 0)
                stint_future_release(futures[i]);
        }
    }
    assert_no_more_blocks_than(before);
}

int main(void)
{
    is_test_thread = true;
    return run_all_tests(NULL, NULL);
}
