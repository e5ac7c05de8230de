/* SPDX-License-Identifier: MIT
 *
 * Completion queues: every future that was added arrives once, and the descriptor tells so. */
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>

#include "pools.h"

static stint_completions *make_queue(void)
{
    stint_completions *queue;
    assert_int_equal(stint_completions_create(&queue), 0);
    return queue;
}

static bool is_readable(const stint_completions *queue, int timeout_ms)
{
    struct pollfd poll_fd = { .fd = stint_completions_fd(queue), .events = POLLIN };
    int ready = poll(&poll_fd, 1, timeout_ms);
    assert_true(ready >= 0);
    return ready == 1 && (poll_fd.revents & POLLIN) != 0;
}

static size_t read_some(stint_completions *queue, stint_completion *array, size_t max)
{
    size_t count = SIZE_MAX;
    assert_int_equal(stint_completions_read(queue, array, max, &count), 0);
    assert_true(count <= max);
    return count;
}

TEST(bad_arguments_are_refused)
{
    stint_completions *queue = make_queue();
    stint_pool *pool = make_pool(.workers = 1, .queue_capacity = 1 << 16);
    stint_future *future = submit(pool, give, NULL, NULL);
    stint_completion completion;
    size_t count = 7;
    assert_int_equal(stint_completions_create(NULL), EINVAL);
    assert_int_equal(stint_completions_add(NULL, future, NULL), EINVAL);
    assert_int_equal(stint_completions_add(queue, NULL, NULL), EINVAL);
    assert_int_equal(stint_completions_fd(NULL), -1);
    assert_int_equal(stint_completions_read(NULL, &completion, 1, &count), EINVAL);
    assert_int_equal(count, 0);
    assert_int_equal(stint_completions_read(queue, &completion, 1, NULL), EINVAL);
    assert_int_equal(stint_completions_read(queue, NULL, 1, &count), EINVAL);
    assert_int_equal(stint_completions_read(queue, NULL, 0, &count), 0);
    stint_completions_destroy(NULL);
    stint_completions_destroy(queue);
    stint_future_release(future);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(without_a_descriptor_no_queue_is_made)
{
    struct rlimit before, none;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    stint_completions *queue = NULL;
    int error = stint_completions_create(&queue);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(error, EMFILE);
    assert_null(queue);
}

static int fail_with_text(void *text, void **value)
{
    (void)value;
    return stint_fail(EBADMSG, text, 3000);
}

TEST(a_payload_lives_until_the_next_reading_although_the_future_has_been_released)
{
    static char text[3000];
    memset(text, 'x', sizeof text - 1);
    stint_pool *pool = make_pool(.workers = 1, .queue_capacity = 1 << 16);
    stint_completions *queue = make_queue();
    const stint_options options = { .size = sizeof options, .completions = queue };
    for (int i = 0; i < 100; i++) {
        stint_completion completion;
        stint_future *future = submit(pool, fail_with_text, text, &options);
        stint_future_release(future);
        while (read_some(queue, &completion, 1) == 0)
            is_readable(queue, 1000);
        stint_future_release(submit(pool, give, NULL, NULL)); /* another task's record */
        assert_int_equal(completion.outcome.payload_size, sizeof text);
        assert_memory_equal(completion.outcome.payload, text, sizeof text);
    }
    stint_future_release(submit(pool, fail_with_text, text, &options)); /* read by nobody */
    assert_int_equal(stint_pool_destroy(pool), 0);
    stint_completions_destroy(queue);
}

TEST(a_future_arrives_when_it_has_resolved_with_all_that_was_added)
{
    stint_pool *pool = make_pool(.workers = 1, .queue_capacity = 1 << 16);
    stint_completions *queue = make_queue();
    struct gate gate = { 0 };
    int data[3];
    stint_future *futures[3] = { submit(pool, gate_hold, &gate, NULL), submit(pool, give, &data, NULL),
                                 submit(pool, give, pool, NULL) };
    for (int i = 0; i < 3; i++)
        assert_int_equal(stint_completions_add(queue, futures[i], &data[i]), 0);
    stint_completion completions[4];
    assert_false(is_readable(queue, 0));
    assert_int_equal(read_some(queue, completions, 4), 0);
    stint_future_cancel(futures[2]); /* arrives first */
    assert_true(is_readable(queue, 0));
    gate_open(&gate);
    assert_int_equal(stint_future_wait(futures[1], NULL), 0);
    assert_int_equal(stint_pool_destroy(pool), 0);
    static const int order[] = { 2, 0, 1 };
    assert_int_equal(read_some(queue, completions, 4), 3);
    for (int i = 0; i < 3; i++) {
        assert_ptr_equal(completions[i].future, futures[order[i]]);
        assert_ptr_equal(completions[i].data, &data[order[i]]);
        assert_int_equal(completions[i].outcome.status, order[i] == 2 ? STINT_CANCELLED : STINT_OK);
    }
    assert_ptr_equal(completions[2].outcome.value, &data);
    assert_int_equal(read_some(queue, completions, 4), 0);
    assert_false(is_readable(queue, 0));
    for (int i = 0; i < 3; i++)
        stint_future_release(futures[i]);
    stint_completions_destroy(queue);
}

TEST(a_future_that_has_resolved_arrives_at_once_as_often_as_it_is_added)
{
    stint_pool *pool = make_pool(.workers = 1, .queue_capacity = 1 << 16);
    stint_completions *queues[2] = { make_queue(), make_queue() };
    stint_future *future = submit(pool, give, pool, NULL);
    assert_int_equal(stint_future_wait(future, NULL), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(stint_completions_add(queues[i % 2], future, pool), 0);
    stint_future_release(future);
    stint_completion completions[4];
    for (int i = 0; i < 2; i++) {
        assert_true(is_readable(queues[i], 0));
        assert_int_equal(read_some(queues[i], completions, 4), 2);
        assert_ptr_equal(completions[1].outcome.value, pool);
        stint_completions_destroy(queues[i]);
    }
    assert_int_equal(stint_pool_destroy(pool), 0);
}

#define MANY 100

/* However many arrive, an unread queue wakes its reader once; and however few are read, it stays readable until the
 * last. */
TEST(the_descriptor_is_written_once_and_stays_readable_until_all_is_read)
{
    stint_pool *pool = make_pool(.workers = 1, .queue_capacity = 1 << 16);
    stint_completions *queue = make_queue();
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < MANY; i++) {
            stint_future *future = submit(pool, give, NULL, NULL);
            assert_int_equal(stint_future_wait(future, NULL), 0);
            assert_int_equal(stint_completions_add(queue, future, NULL), 0);
            stint_future_release(future);
        }
        eventfd_t rings = 0;
        assert_int_equal(eventfd_read(stint_completions_fd(queue), &rings), 0);
        assert_int_equal(rings, 1);
        assert_int_equal(eventfd_write(stint_completions_fd(queue), rings), 0);
        stint_completion completions[7];
        for (int left = MANY; left > 0;) {
            assert_true(is_readable(queue, 0));
            size_t count = read_some(queue, completions, 7);
            assert_int_equal(count, left < 7 ? left : 7);
            left -= (int)count;
        }
        assert_int_equal(read_some(queue, completions, 7), 0);
        assert_false(is_readable(queue, 0));
    }
    stint_completions_destroy(queue);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(a_queue_may_go_with_completions_in_it_and_futures_outstanding)
{
    stint_pool *pool = make_pool(.workers = 2, .queue_capacity = 1 << 16);
    for (int round = 0; round < 200; round++) {
        stint_completions *queue = make_queue();
        struct gate gate = { 0 };
        stint_future *futures[4] = { submit(pool, gate_hold, &gate, NULL), submit(pool, give, NULL, NULL),
                                     submit(pool, give, NULL, NULL), submit(pool, give, NULL, NULL) };
        for (int i = 0; i < 4; i++)
            assert_int_equal(stint_completions_add(queue, futures[i], NULL), 0);
        if (round % 2 == 0)
            assert_int_equal(stint_future_wait(futures[3], NULL), 0);
        int descriptor = stint_completions_fd(queue);
        stint_completions_destroy(queue);
        assert_int_equal(write(descriptor, "12345678", 8), -1);
        int other = eventfd(0, EFD_NONBLOCK); /* may get the number: nothing may be written to it */
        gate_open(&gate);
        for (int i = 0; i < 4; i++) {
            assert_int_equal(stint_future_wait(futures[i], NULL), 0);
            stint_future_release(futures[i]);
        }
        eventfd_t rings;
        assert_int_equal(eventfd_read(other, &rings), -1);
        close(other);
    }
    assert_int_equal(stint_pool_destroy(pool), 0);
}

struct adder {
    stint_completions *queue;
    stint_pool *pool;
    int error;
    size_t count;
    stint_completion completion;
};

static int add_in_task(void *arg, void **value)
{
    struct adder *adder = arg;
    (void)value;
    stint_future *child;
    adder->error = stint_submit(adder->pool, give, adder, NULL, &child);
    if (adder->error != 0)
        return 0;
    adder->error = stint_completions_add(adder->queue, child, adder);
    stint_future_wait(child, NULL);
    stint_future_release(child);
    while (adder->error == 0 && adder->count == 0)
        adder->error = stint_completions_read(adder->queue, &adder->completion, 1, &adder->count);
    return EIO; /* rolled back: the queue has nothing of the task's */
}

TEST(a_task_may_add_and_read)
{
    struct adder adder = { .pool = make_pool(.workers = 1, .queue_capacity = 1 << 16), .queue = make_queue() };
    stint_future *future = submit(adder.pool, add_in_task, &adder, NULL);
    stint_outcome outcome;
    assert_int_equal(stint_future_wait(future, &outcome), 0);
    assert_int_equal(outcome.error, EIO);
    stint_future_release(future);
    assert_int_equal(adder.error, 0);
    assert_ptr_equal(adder.completion.outcome.value, &adder);
    stint_completions_destroy(adder.queue);
    assert_int_equal(stint_pool_destroy(adder.pool), 0);
}

/* --- Loops -------------------------------------------------------------------------------------------------------- */

#define TASKS 20000

struct reader {
    stint_completions *queue;
    atomic_uint *seen;
    atomic_uint *left;
    uint32_t events;
    size_t max;
};

static void *read_in_a_loop(void *arg)
{
    struct reader *reader = arg;
    stint_completion completions[64];
    int loop = epoll_create1(0);
    struct epoll_event event = { .events = reader->events };
    epoll_ctl(loop, EPOLL_CTL_ADD, stint_completions_fd(reader->queue), &event);
    while (atomic_load(reader->left) > 0) {
        /* Several loops share the queue: a loop that sleeps when another takes the last completion must look now and
         * then. */
        if (epoll_wait(loop, &event, 1, 20) != 1)
            continue;
        size_t count;
        do {
            if (stint_completions_read(reader->queue, completions, reader->max, &count) != 0)
                return reader;
            for (size_t i = 0; i < count; i++)
                atomic_fetch_add((atomic_uint *)completions[i].data, 1);
            atomic_fetch_sub(reader->left, (unsigned)count);
        } while ((reader->events & EPOLLET) != 0 && count > 0);
    }
    close(loop);
    return NULL;
}

TEST(loops_of_every_kind_see_each_future_once)
{
    static atomic_uint seen[TASKS];
    static const uint32_t events[] = { EPOLLIN, EPOLLIN | EPOLLET };
    for (int round = 0; round < 4; round++) {
        int readers = 1 + round / 2;
        stint_pool *pool = make_pool(.workers = 2, .queue_capacity = 1 << 16);
        atomic_uint left = TASKS;
        memset(seen, 0, sizeof seen);
        struct reader reader = { make_queue(), seen, &left, events[round % 2], round % 2 == 0 ? 64 : 5 };
        pthread_t threads[2];
        for (int i = 0; i < readers; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, read_in_a_loop, &reader), 0);
        for (int i = 0; i < TASKS; i++) {
            stint_future *future = submit(pool, give, NULL, NULL);
            assert_int_equal(stint_completions_add(reader.queue, future, &seen[i]), 0);
            if (i % 7 == 0)
                stint_future_cancel(future);
            stint_future_release(future);
        }
        for (int i = 0; i < readers; i++) {
            void *failed;
            pthread_join(threads[i], &failed);
            assert_null(failed);
        }
        for (int i = 0; i < TASKS; i++)
            assert_int_equal(atomic_load(&seen[i]), 1);
        stint_completions_destroy(reader.queue);
        assert_int_equal(stint_pool_destroy(pool), 0);
    }
}

static int give_argument(void *arg, void **value)
{
    *value = arg;
    return 0;
}

/* Whatever becomes of the tasks: those that are submitted each leave one, the others none. */
TEST(a_task_whose_options_name_a_queue_leaves_a_completion_there)
{
    stint_pool *pool;
    const stint_pool_options pool_options = { .size = sizeof(stint_pool_options), .workers = 1, .queue_capacity = 2 };
    stint_completions *queue;
    struct gate gate = { 0 };
    int data[8];
    unsigned submitted = 0;
    unsigned read = 0;
    assert_int_equal(stint_pool_create(&pool_options, &pool), 0);
    assert_int_equal(stint_completions_create(&queue), 0);
    stint_future *holder;
    assert_int_equal(stint_submit(pool, gate_hold, &gate, NULL, &holder), 0);
    gate_await(&gate, 1);
    for (int i = 0; i < 8; i++) {
        stint_options options = STINT_OPTIONS_INIT;
        options.completions = queue;
        options.data = &data[i];
        options.priority = i % 2 == 0 ? STINT_PRIORITY_NORMAL : STINT_PRIORITY_HIGH;
        stint_future *future;
        int error = stint_submit(pool, give_argument, &data[i], &options, &future);
        assert_true(error == 0 || error == EAGAIN);
        data[i] = error;
        submitted += error == 0;
        if (i == 1)
            stint_future_cancel(future);
        stint_future_release(future);
    }
    assert_true(submitted >= 4 && submitted < 8);
    gate_open(&gate);
    assert_int_equal(stint_pool_shutdown(pool, STINT_SHUTDOWN_DRAIN, STINT_FOREVER), 0);
    stint_options options = STINT_OPTIONS_INIT;
    options.completions = queue;
    stint_future *late;
    assert_int_equal(stint_submit(pool, give_argument, NULL, &options, &late), ESHUTDOWN);
    stint_completion completions[8];
    size_t count;
    assert_int_equal(stint_completions_read(queue, completions, 8, &count), 0);
    for (; read < count; read++) {
        assert_int_equal(*(int *)completions[read].data, 0);
        *(int *)completions[read].data = -1;
        assert_int_equal(completions[read].outcome.status,
                         completions[read].data == &data[1] ? STINT_CANCELLED : STINT_OK);
        if (completions[read].outcome.status == STINT_OK)
            assert_ptr_equal(completions[read].outcome.value, completions[read].data);
    }
    assert_int_equal(read, submitted);
    stint_future_release(holder);
    assert_int_equal(stint_pool_destroy(pool), 0);
    stint_completions_destroy(queue);
}

/* --- Threads that are cancelled, which none of these calls does --- */

static __attribute__((noinline)) void use_while_cancelled(stint_completions *queue)
{
    stint_completion completion;
    stint_pool *pool = make_pool(.workers = 1);
    stint_future *future = submit(pool, do_nothing, NULL, NULL);
    assert_int_equal(stint_future_wait(future, NULL), 0);
    assert_int_equal(stint_pool_destroy(pool), 0);
    stint_completions *other = make_queue();
    pthread_cancel(pthread_self());
    stint_completions_add(queue, future, NULL); /* rings */
    read_some(queue, &completion, 1);
    stint_completions_destroy(other);
    stint_future_release(future);
}

/* A frame with variables that a cancel leaves stays poisoned for AddressSanitizer, so this one has none. */
static void *use_and_be_cancelled(void *queue)
{
    use_while_cancelled(queue);
    pthread_testcancel();
    return NULL;
}

TEST(a_thread_that_is_cancelled_leaves_the_queue_to_the_others)
{
    stint_completions *queue = make_queue();
    stint_completion completion;
    pthread_t thread;
    void *result;
    assert_int_equal(pthread_create(&thread, NULL, use_and_be_cancelled, queue), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, PTHREAD_CANCELED);
    alarm(20); /* it would wait for ever */
    assert_int_equal(read_some(queue, &completion, 1), 0);
    stint_completions_destroy(queue);
    alarm(0);
}

TEST_MAIN()
