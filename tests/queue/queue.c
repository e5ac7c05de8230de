/* SPDX-License-Identifier: MIT
 *
 * The submission queue: order, capacity, and that each entry comes out exactly once. */
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "test.h"

#include "executor/base/queue.h"

static void *entry(size_t number)
{
    return (void *)(uintptr_t)number;
}

TEST(it_holds_its_capacity_and_gives_back_in_order)
{
    static const struct {
        size_t asked;
        size_t held;
    } cases[] = { { 0, 2 }, { 1, 2 }, { 2, 2 }, { 3, 4 }, { 4, 4 }, { 1000, 1024 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sti_queue queue;
        assert_true(sti_queue_init(&queue, cases[i].asked));
        size_t pushed = 0;
        size_t popped = 0;
        for (int lap = 0; lap < 5; lap++) {
            while (pushed - popped < cases[i].held)
                assert_true(sti_queue_push(&queue, entry(++pushed)));
            assert_false(sti_queue_push(&queue, entry(999999)));
            assert_true(sti_queue_is_ready(&queue));
            assert_false(sti_queue_is_empty(&queue));
            /* Leave one, so that the laps begin at different slots. */
            while (pushed - popped > 1)
                assert_ptr_equal(sti_queue_pop(&queue), entry(++popped));
        }
        assert_ptr_equal(sti_queue_pop(&queue), entry(++popped));
        assert_null(sti_queue_pop(&queue));
        assert_false(sti_queue_is_ready(&queue));
        assert_true(sti_queue_is_empty(&queue));
        sti_queue_end(&queue);
    }
}

#define PRODUCERS 3
#define CONSUMERS 2
#define EACH ((size_t)300000)

struct stress {
    struct sti_queue queue;
    atomic_uint producers;
    atomic_uchar taken[PRODUCERS * EACH];
};

struct side {
    struct stress *stress;
    pthread_t thread;
    size_t first;
    size_t count;
    size_t out_of_order;
};

static void *produce(void *argument)
{
    const struct side *side = argument;
    for (size_t i = 0; i < EACH;) {
        if (sti_queue_push(&side->stress->queue, entry(side->first + i + 1)))
            i++;
        else
            sched_yield();
    }
    return NULL;
}

/* One consumer gets the entries of one producer in order. */
static void *consume(void *argument)
{
    struct side *side = argument;
    size_t newest[PRODUCERS] = { 0 };
    bool over = false;
    for (;;) {
        const void *got = sti_queue_pop(&side->stress->queue);
        if (got == NULL && over)
            return NULL;
        if (got == NULL) {
            over = atomic_load(&side->stress->producers) == 0;
            sched_yield();
            continue;
        }
        size_t number = (size_t)((uintptr_t)got - 1);
        side->out_of_order += number + 1 <= newest[number / EACH];
        newest[number / EACH] = number + 1;
        atomic_fetch_add_explicit(&side->stress->taken[number], 1, memory_order_relaxed);
        side->count++;
    }
}

TEST(each_entry_of_many_producers_reaches_one_of_many_consumers)
{
    static struct stress stress;
    assert_true(sti_queue_init(&stress.queue, 64));
    struct side producers[PRODUCERS];
    struct side consumers[CONSUMERS];
    atomic_store(&stress.producers, PRODUCERS);
    for (size_t i = 0; i < PRODUCERS; i++) {
        producers[i] = (struct side){ .stress = &stress, .first = i * EACH };
        assert_int_equal(pthread_create(&producers[i].thread, NULL, produce, &producers[i]), 0);
    }
    for (size_t i = 0; i < CONSUMERS; i++) {
        consumers[i] = (struct side){ .stress = &stress };
        assert_int_equal(pthread_create(&consumers[i].thread, NULL, consume, &consumers[i]), 0);
    }
    for (size_t i = 0; i < PRODUCERS; i++)
        pthread_join(producers[i].thread, NULL);
    atomic_store(&stress.producers, 0);
    size_t count = 0;
    for (size_t i = 0; i < CONSUMERS; i++) {
        pthread_join(consumers[i].thread, NULL);
        assert_int_equal(consumers[i].out_of_order, 0);
        count += consumers[i].count;
    }
    assert_int_equal(count, PRODUCERS * EACH);
    for (size_t i = 0; i < PRODUCERS * EACH; i++)
        assert_int_equal(atomic_load_explicit(&stress.taken[i], memory_order_relaxed), 1);
    assert_true(sti_queue_is_empty(&stress.queue));
    sti_queue_end(&stress.queue);
}

TEST_MAIN()
