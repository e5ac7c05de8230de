/* SPDX-License-Identifier: MIT
 *
 * The pool: starting it, submitting to it from outside and from inside, its bounds, and that every task is run once. */
#include <signal.h>

#include "pools.h"

TEST(bad_options_are_refused)
{
    stint_pool *pool = NULL;
    stint_pool_options options = STINT_POOL_OPTIONS_INIT;
    assert_int_equal(stint_pool_create(&options, NULL), EINVAL);
    options.workers = 1025;
    assert_int_equal(stint_pool_create(&options, &pool), EINVAL);
    options = (stint_pool_options)STINT_POOL_OPTIONS_INIT;
    options.queue_capacity = ((size_t)1 << 24) + 1;
    assert_int_equal(stint_pool_create(&options, &pool), EINVAL);
    options.queue_capacity = SIZE_MAX;
    assert_int_equal(stint_pool_create(&options, &pool), EINVAL);
    assert_null(pool);
    assert_int_equal(stint_pool_workers(NULL), 0);
}

TEST(bad_submissions_are_refused)
{
    stint_pool *pool = make_pool(.workers = 1);
    stint_future *future = NULL;
    stint_options options = STINT_OPTIONS_INIT;
    assert_int_equal(stint_submit(NULL, do_nothing, NULL, NULL, &future), EINVAL);
    assert_int_equal(stint_submit(pool, NULL, NULL, NULL, &future), EINVAL);
    assert_int_equal(stint_submit(pool, do_nothing, NULL, NULL, NULL), EINVAL);
    memset(&options.on_interrupt, 0x7f, sizeof options.on_interrupt);
    assert_int_equal(stint_submit(pool, do_nothing, NULL, &options, &future), EINVAL);
    assert_null(future);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(the_default_is_a_worker_for_each_allowed_processor)
{
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    stint_pool *pool;
    assert_int_equal(stint_pool_create(NULL, &pool), 0);
    assert_in_range(stint_pool_workers(pool), 1, CPU_COUNT(&before)); /* fewer by a quota: tests/pool/processors.c */
    assert_int_equal(stint_pool_destroy(pool), 0);

    CPU_ZERO(&one);
    for (size_t cpu = 0; CPU_COUNT(&one) == 0; cpu++) {
        if (CPU_ISSET(cpu, &before))
            CPU_SET(cpu, &one);
    }
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(stint_pool_create(NULL, &pool), 0);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    assert_int_equal(stint_pool_workers(pool), 1);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

static int report_thread(void *arg, void **value)
{
    (void)value;
    return pthread_getname_np(pthread_self(), arg, 16);
}

TEST(workers_have_names)
{
    static const struct {
        const char *given;
        const char *expected;
    } cases[] = { { NULL, "stint/0" }, { "mine", "mine/0" }, { "a name that is too long", "a name that is " } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const stint_pool_options options = { .size = sizeof(stint_pool_options), .workers = 1, .name = cases[i].given };
        stint_pool *pool;
        stint_future *future;
        char name[16] = "";
        assert_int_equal(stint_pool_create(&options, &pool), 0);
        assert_int_equal(stint_submit(pool, report_thread, name, NULL, &future), 0);
        take(future);
        assert_string_equal(name, cases[i].expected);
        assert_int_equal(stint_pool_destroy(pool), 0);
    }
}

static int report_mask(void *arg, void **value)
{
    (void)value;
    return pthread_sigmask(SIG_SETMASK, NULL, arg);
}

/* Except signals that the task's own instructions cause: their handlers must see them. */
TEST(signals_are_left_to_the_application)
{
    sigset_t before, after, worker;
    sigemptyset(&worker);
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    stint_pool *pool = make_pool(.workers = 1);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    stint_future *future;
    assert_int_equal(stint_submit(pool, report_mask, &worker, NULL, &future), 0);
    take(future);
    static const int elsewhere[] = { SIGHUP, SIGINT, SIGTERM, SIGCHLD, SIGALRM, SIGPIPE, SIGUSR1, SIGUSR2, SIGWINCH };
    static const int here[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT };
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
        assert_int_equal(sigismember(&worker, elsewhere[i]), 1);
    for (size_t i = 0; i < sizeof here / sizeof *here; i++)
        assert_int_equal(sigismember(&worker, here[i]), 0);
    for (int number = 1; number < 32; number++)
        assert_int_equal(sigismember(&before, number), sigismember(&after, number));
    assert_int_equal(stint_pool_destroy(pool), 0);
}

static int give_back(void *arg, void **value)
{
    *value = arg;
    return arg == NULL ? 77 : 0;
}

TEST(a_task_resolves_with_its_value_or_its_error)
{
    stint_pool *pool = make_pool(.workers = 2);
    stint_future *future;
    stint_outcome outcome;
    assert_int_equal(stint_submit(pool, give_back, pool, NULL, &future), 0);
    assert_int_equal(stint_future_wait(future, &outcome), 0);
    stint_future_release(future);
    assert_int_equal(outcome.status, STINT_OK);
    assert_int_equal(outcome.reason, STINT_REASON_NONE);
    assert_ptr_equal(outcome.value, pool);

    assert_int_equal(stint_submit(pool, give_back, NULL, NULL, &future), 0);
    assert_int_equal(stint_future_wait(future, &outcome), 0);
    stint_future_release(future);
    assert_int_equal(outcome.status, STINT_ERROR);
    assert_int_equal(outcome.reason, STINT_REASON_FAILED);
    assert_int_equal(outcome.error, 77);
    assert_null(outcome.value);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

static int allocate_too_much(void *arg, void **value)
{
    (void)arg;
    for (int i = 0; i < 100; i++)
        *value = stint_malloc(100);
    return 0;
}

TEST(options_are_copied_and_obeyed)
{
    stint_pool *pool = make_pool(.workers = 1);
    struct gate gate = { 0 };
    stint_future *blocker, *future;
    stint_outcome outcome;
    assert_int_equal(stint_submit(pool, gate_hold, &gate, NULL, &blocker), 0);
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.allocation = 1000;
    assert_int_equal(stint_submit(pool, allocate_too_much, NULL, &options, &future), 0);
    options.budget.allocation = 0;
    gate_open(&gate);
    assert_int_equal(stint_future_wait(future, &outcome), 0);
    assert_int_equal(outcome.reason, STINT_REASON_ALLOCATION_LIMIT);
    stint_future_release(future);
    take(blocker);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(the_queue_holds_its_capacity_and_not_one_more)
{
    static const struct {
        size_t asked;
        unsigned held;
    } cases[] = { { 1, 2 }, { 2, 2 }, { 3, 4 }, { 4, 4 }, { 100, 128 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stint_pool *pool = make_pool(.workers = 1, .queue_capacity = cases[i].asked);
        struct gate gate = { 0 };
        atomic_uint ran = 0;
        stint_future *blocker, *futures[128];
        assert_int_equal(stint_submit(pool, gate_hold, &gate, NULL, &blocker), 0);
        gate_await(&gate, 1);
        for (unsigned n = 0; n < cases[i].held; n++)
            assert_int_equal(stint_submit(pool, count_run, &ran, NULL, &futures[n]), 0);
        stint_future *refused = blocker;
        assert_int_equal(stint_submit(pool, count_run, &ran, NULL, &refused), EAGAIN);
        assert_int_equal(stint_submit(pool, count_run, &ran, NULL, &refused), EAGAIN);
        assert_null(refused);
        gate_open(&gate);
        for (unsigned n = 0; n < cases[i].held; n++)
            take(futures[n]);
        assert_int_equal(atomic_load(&ran), cases[i].held);
        assert_int_equal(stint_submit(pool, count_run, &ran, NULL, &futures[0]), 0);
        take(futures[0]);
        take(blocker);
        assert_int_equal(stint_pool_destroy(pool), 0);
    }
}

struct filling {
    stint_pool *pool;
    atomic_uint ran;
    unsigned accepted;
    int refusal;
    stint_future *futures[1024];
};

static int fill_from_inside(void *arg, void **value)
{
    struct filling *filling = arg;
    (void)value;
    for (;;) {
        filling->refusal =
            stint_submit(filling->pool, count_run, &filling->ran, NULL, &filling->futures[filling->accepted]);
        if (filling->refusal != 0 || ++filling->accepted == 1024)
            return 0;
    }
}

TEST(tasks_of_a_task_overflow_into_the_queue_until_that_is_full_too)
{
    struct filling filling = { .pool = make_pool(.workers = 1, .queue_capacity = 64) };
    stint_future *future;
    assert_int_equal(stint_submit(filling.pool, fill_from_inside, &filling, NULL, &future), 0);
    take(future);
    assert_int_equal(filling.refusal, EAGAIN);
    assert_true(filling.accepted > 64);
    assert_true(filling.accepted < 1024);
    for (unsigned i = 0; i < filling.accepted; i++)
        take(filling.futures[i]);
    assert_int_equal(atomic_load(&filling.ran), filling.accepted);
    assert_int_equal(stint_pool_destroy(filling.pool), 0);
}

struct restless {
    stint_pool *pool;
    atomic_bool stop;
};

/* Submits itself again for as long as it may: its worker's deque never runs empty. */
static int go_on(void *arg, void **value)
{
    struct restless *restless = arg;
    (void)value;
    if (atomic_load(&restless->stop))
        return 0;
    stint_future *again;
    int error = stint_submit(restless->pool, go_on, restless, NULL, &again);
    if (error == 0)
        stint_future_release(again);
    return error;
}

TEST(a_busy_deque_does_not_starve_the_queue)
{
    struct restless restless = { .pool = make_pool(.workers = 1) };
    stint_future *first, *future;
    assert_int_equal(stint_submit(restless.pool, go_on, &restless, NULL, &first), 0);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(stint_submit(restless.pool, do_nothing, NULL, NULL, &future), 0);
        take(future);
    }
    atomic_store(&restless.stop, true);
    take(first);
    assert_int_equal(stint_pool_destroy(restless.pool), 0);
}

struct tree {
    stint_pool *pool;
    unsigned n;
};

static int fibonacci(void *arg, void **value)
{
    const struct tree *tree = arg;
    if (tree->n < 2) {
        *value = (void *)(uintptr_t)tree->n;
        return 0;
    }
    struct tree left = { .pool = tree->pool, .n = tree->n - 1 };
    struct tree right = { .pool = tree->pool, .n = tree->n - 2 };
    stint_future *future;
    stint_outcome outcome;
    void *mine = NULL;
    int error = stint_submit(tree->pool, fibonacci, &left, NULL, &future);
    if (error != 0)
        return error;
    int here = fibonacci(&right, &mine);
    error = stint_future_wait(future, &outcome);
    stint_future_release(future);
    *value = (void *)((uintptr_t)mine + (uintptr_t)outcome.value);
    return error != 0 ? error : here != 0 ? here : outcome.error;
}

TEST(tasks_submit_and_await_tasks)
{
    for (unsigned workers = 1; workers <= 3; workers++) {
        struct tree tree = { .pool = make_pool(.workers = workers), .n = 20 };
        stint_future *future;
        stint_outcome outcome;
        assert_int_equal(stint_submit(tree.pool, fibonacci, &tree, NULL, &future), 0);
        assert_int_equal(stint_future_wait(future, &outcome), 0);
        stint_future_release(future);
        assert_int_equal(outcome.error, 0);
        assert_int_equal((uintptr_t)outcome.value, 6765);
        assert_int_equal(stint_pool_destroy(tree.pool), 0);
    }
}

static int submit_to_other(void *arg, void **value)
{
    stint_pool *other = arg;
    stint_future *future;
    int error = stint_submit(other, give_back, other, NULL, &future);
    if (error != 0)
        return error;
    stint_outcome outcome;
    error = stint_future_wait(future, &outcome);
    stint_future_release(future);
    *value = outcome.value;
    return error;
}

TEST(a_task_may_submit_to_another_pool)
{
    stint_pool *first = make_pool(.workers = 1);
    stint_pool *second = make_pool(.workers = 1);
    stint_future *future;
    stint_outcome outcome;
    assert_int_equal(stint_submit(first, submit_to_other, second, NULL, &future), 0);
    assert_int_equal(stint_future_wait(future, &outcome), 0);
    stint_future_release(future);
    assert_int_equal(outcome.status, STINT_OK);
    assert_ptr_equal(outcome.value, second);
    assert_int_equal(stint_pool_destroy(first), 0);
    assert_int_equal(stint_pool_destroy(second), 0);
}

/* --- Many producers, random cancels ------------------------------------------------------------------------------- */

#define PRODUCERS 4
#define TASKS_EACH 20000
#define WINDOW 64

struct producer {
    stint_pool *pool;
    pthread_t thread;
    unsigned seed;
    atomic_uint started;
    unsigned ok, cancelled, failed, other;
};

static int maybe_fail(void *arg, void **value)
{
    struct producer *producer = arg;
    unsigned number = atomic_fetch_add(&producer->started, 1);
    *value = producer;
    return number % 7 == 0 ? EPROTO : 0;
}

static void settle(struct producer *producer, stint_future *future)
{
    stint_outcome first, second;
    bool agreed = stint_future_wait(future, &first) == 0 && stint_future_is_ready(future) &&
                  stint_future_wait_for(future, 0, &second) == 0 && first.status == second.status &&
                  first.reason == second.reason && first.error == second.error && first.value == second.value;
    if (agreed && first.status == STINT_OK && first.value == producer)
        producer->ok++;
    else if (agreed && first.status == STINT_CANCELLED && first.reason == STINT_REASON_TOKEN)
        producer->cancelled++;
    else if (agreed && first.status == STINT_ERROR && first.error == EPROTO)
        producer->failed++;
    else
        producer->other++;
    stint_future_release(future);
}

static void *produce(void *arg)
{
    struct producer *producer = arg;
    stint_future *window[WINDOW];
    size_t oldest = 0;
    size_t newest = 0;
    while (oldest < TASKS_EACH) {
        if (newest < TASKS_EACH && newest - oldest < WINDOW &&
            stint_submit(producer->pool, maybe_fail, producer, NULL, &window[newest % WINDOW]) == 0) {
            newest++;
            unsigned dice = (unsigned)rand_r(&producer->seed);
            if (dice % 3 == 0)
                stint_future_cancel(window[(oldest + dice % (newest - oldest)) % WINDOW]);
        } else if (oldest < newest) {
            settle(producer, window[oldest++ % WINDOW]);
        } else {
            sched_yield();
        }
    }
    return NULL;
}

TEST(every_task_of_many_producers_resolves_once_whoever_cancels_it)
{
    stint_pool *pool = make_pool(.workers = 2, .queue_capacity = 128);
    static struct producer producers[PRODUCERS];
    for (unsigned i = 0; i < PRODUCERS; i++) {
        producers[i] = (struct producer){ .pool = pool, .seed = i + 1 };
        assert_int_equal(pthread_create(&producers[i].thread, NULL, produce, &producers[i]), 0);
    }
    for (unsigned i = 0; i < PRODUCERS; i++)
        pthread_join(producers[i].thread, NULL);
    for (unsigned i = 0; i < PRODUCERS; i++) {
        const struct producer *producer = &producers[i];
        assert_int_equal(producer->other, 0);
        assert_int_equal(producer->ok + producer->failed + producer->cancelled, TASKS_EACH);
        assert_true(producer->ok > 0);
        assert_true(producer->failed > 0);
        /* A task that was cancelled while it ran has started too. */
        assert_true(atomic_load(&producer->started) >= producer->ok + producer->failed);
        assert_true(atomic_load(&producer->started) <= TASKS_EACH);
    }
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST_MAIN()
