/* SPDX-License-Identifier: MIT
 *
 * Producers that offer more than a pool can do: each submission is refused or gets its outcome, and what waits is
 * bounded, in number and in memory. For how long is the program's argument, in seconds. */
#include "pools.h"

#define PRODUCERS 4
#define CAPACITY 64

static unsigned seconds = 1;

struct producer {
    stint_pool *pool;
    stint_account *account; /* NULL: plain tasks */
    pthread_t thread;
    const atomic_bool *enough;
    atomic_ulong ran;
    unsigned long accepted, refused, other;
};

static int work(void *arg, void **value)
{
    struct producer *producer = arg;
    *value = stint_malloc(1000);
    for (volatile int i = 0; i < 10000; i++)
        ;
    stint_free(*value);
    *value = NULL;
    atomic_fetch_add(&producer->ran, 1);
    return 0;
}

static void *produce(void *arg)
{
    struct producer *producer = arg;
    stint_options options = STINT_OPTIONS_INIT;
    options.budget = (stint_budget){ .memory = 1 << 20, .wall_ns = UINT64_C(600000000000) };
    options.account = producer->account;
    while (!atomic_load(producer->enough)) {
        stint_future *future;
        int error = stint_submit(producer->pool, work, producer, &options, &future);
        if (error == 0) {
            producer->accepted++;
            stint_future_release(future);
        } else if (error == EAGAIN) {
            producer->refused++;
        } else {
            producer->other++;
        }
    }
    return NULL;
}

TEST(what_is_offered_beyond_measure_is_refused_and_the_rest_is_done)
{
    stint_pool *pool;
    const stint_pool_options options = { .size = sizeof(stint_pool_options), .workers = 2, .queue_capacity = CAPACITY };
    assert_int_equal(stint_pool_create(&options, &pool), 0);
    stint_account *account;
    const stint_account_limits limits = { .size = sizeof(stint_account_limits), .running = 1 };
    assert_int_equal(stint_account_create(NULL, &limits, &account), 0);
    static struct producer producers[PRODUCERS];
    atomic_bool enough = false;
    size_t before = resident();
    for (unsigned i = 0; i < PRODUCERS; i++) {
        producers[i] = (struct producer){ .pool = pool, .account = i % 2 == 0 ? NULL : account, .enough = &enough };
        assert_int_equal(pthread_create(&producers[i].thread, NULL, produce, &producers[i]), 0);
    }
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    size_t most = before;
    do {
        gate_nap();
        stint_pool_statistics statistics = STINT_POOL_STATISTICS_INIT;
        assert_int_equal(stint_pool_read(pool, &statistics), 0);
        assert_true(statistics.queued <= CAPACITY);
        assert_true(statistics.waiting <= CAPACITY);
        assert_true(statistics.held_back <= CAPACITY);
        size_t held = resident();
        most = held > most ? held : most;
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - begin.tv_sec) * 1000000000 + now.tv_nsec - begin.tv_nsec < (long)seconds * 1000000000);
    atomic_store(&enough, true);
    for (unsigned i = 0; i < PRODUCERS; i++)
        pthread_join(producers[i].thread, NULL);
    assert_int_equal(stint_pool_shutdown(pool, STINT_SHUTDOWN_DRAIN, STINT_FOREVER), 0);
    stint_pool_statistics statistics = STINT_POOL_STATISTICS_INIT;
    assert_int_equal(stint_pool_read(pool, &statistics), 0);
    unsigned long accepted = 0;
    for (unsigned i = 0; i < PRODUCERS; i++) {
        assert_int_equal(producers[i].other, 0);
        assert_true(producers[i].refused > 0);
        assert_true(producers[i].accepted > 0);
        assert_int_equal(atomic_load(&producers[i].ran), producers[i].accepted);
        accepted += producers[i].accepted;
    }
    assert_int_equal(statistics.outcomes[STINT_REASON_NONE], accepted);
    assert_true(most - before < (size_t)32 << 20);
    assert_int_equal(stint_pool_destroy(pool), 0);
    stint_account_release(account);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        seconds = repeats((unsigned)strtoul(argv[1], NULL, 10));
    return run_all_tests(NULL, NULL);
}
