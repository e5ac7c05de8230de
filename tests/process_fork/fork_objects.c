/* SPDX-License-Identifier: MIT
 *
 * The child of a fork(2) in whose moment another thread had the lock of an object: such as a group, or a completion
 * queue, whose descriptor it was ringing or silencing. */
#include <sys/eventfd.h>

#include "../pools.h"
#include "executor/base/object_lock.h"

#define PATIENCE 20 /* seconds until a child that hangs is ended */

static struct sti_object_lock lock;

static void *take_and_stay(void *gate)
{
    sti_object_lock_take(&lock);
    gate_hold(gate, NULL);
    sti_object_lock_give(&lock);
    return NULL;
}

static int take_in_child(void)
{
    alarm(PATIENCE);
    for (int i = 0; i < 2; i++) {
        sti_object_lock_take(&lock);
        sti_object_lock_give(&lock);
    }
    return 0;
}

TEST(in_the_child_nobody_has_the_lock_of_an_object)
{
    struct gate gate = { .open = false };
    pthread_t other;
    sti_object_lock_init(&lock);
    assert_int_equal(pthread_create(&other, NULL, take_and_stay, &gate), 0);
    gate_await(&gate, 1);
    pid_t child = fork();
    if (child == 0)
        _exit(take_in_child());
    assert_ends_well(child);
    gate_open(&gate);
    assert_int_equal(pthread_join(other, NULL), 0);
}

/* --- Completion queues. The descriptor becomes one that blocks, a pipe's: whoever rings or silences stays there, with
 * the lock. --- */

static stint_completions *queue;
static stint_future *resolved;

static void put_in_its_place(int end)
{
    int fd = stint_completions_fd(queue);
    assert_int_equal(dup2(end, fd), fd);
}

static void fill(int end)
{
    uint64_t word = 0;
    assert_int_equal(fcntl(end, F_SETFL, O_NONBLOCK), 0);
    while (write(end, &word, sizeof word) > 0)
        ;
    assert_int_equal(fcntl(end, F_SETFL, 0), 0);
}

static void *add_one(void *unused)
{
    stint_completions_add(queue, resolved, NULL);
    return unused;
}

static size_t read_one(void)
{
    stint_completion completion;
    size_t count = 0;
    stint_completions_read(queue, &completion, 1, &count);
    return count;
}

static void *read_one_there(void *unused)
{
    read_one();
    return unused;
}

static int use_it_in_child(int end)
{
    alarm(PATIENCE);
    dup2(end, stint_completions_fd(queue));
    add_one(NULL);
    bool is_there = read_one() == 1;
    stint_completions_destroy(queue);
    return is_there ? 0 : 1;
}

/* While the other thread is held up. */
static void assert_it_can_be_used_in_child(void)
{
    int end = eventfd(0, EFD_NONBLOCK);
    nap_ms(50); /* by then it is */
    pid_t child = fork();
    if (child == 0)
        _exit(use_it_in_child(end));
    assert_ends_well(child);
    close(end);
}

static int open_queue(void **state)
{
    (void)state;
    stint_pool *pool = make_pool(.workers = 1);
    resolved = submit(pool, do_nothing, NULL, NULL);
    assert_int_equal(stint_future_wait(resolved, NULL), 0);
    assert_int_equal(stint_pool_destroy(pool), 0);
    return stint_completions_create(&queue);
}

static int close_queue(void **state)
{
    (void)state;
    stint_completions_destroy(queue);
    stint_future_release(resolved);
    return 0;
}

TEST_WITH(a_queue_that_another_thread_was_ringing_can_be_used_in_the_child, open_queue, close_queue)
{
    int ends[2];
    static uint64_t words[1 << 16];
    pthread_t other;
    assert_int_equal(pipe(ends), 0);
    fill(ends[1]);
    put_in_its_place(ends[1]);
    assert_int_equal(pthread_create(&other, NULL, add_one, NULL), 0);
    assert_it_can_be_used_in_child();
    assert_true(read(ends[0], words, sizeof words) > 0);
    assert_int_equal(pthread_join(other, NULL), 0);
    close(ends[0]);
    close(ends[1]);
}

TEST_WITH(a_queue_that_another_thread_was_reading_can_be_used_in_the_child, open_queue, close_queue)
{
    int ends[2];
    uint64_t word = 0;
    pthread_t other;
    assert_int_equal(pipe(ends), 0);
    put_in_its_place(ends[0]);
    assert_int_equal(pthread_create(&other, NULL, read_one_there, NULL), 0);
    assert_it_can_be_used_in_child();
    assert_int_equal(write(ends[1], &word, sizeof word), sizeof word);
    assert_int_equal(pthread_join(other, NULL), 0);
    close(ends[0]);
    close(ends[1]);
}

TEST_MAIN()
