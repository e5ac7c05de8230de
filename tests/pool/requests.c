/* SPDX-License-Identifier: MIT
 *
 * An ordinary request, over and over, on pools with default options: it forks two parts; each does some input and
 * output in a blocking region, submits two tasks and waits for the first of them; then the request joins its parts.
 *
 * requests [SECONDS]: for each number of workers. */
#include "pools.h"

#define OUTSTANDING 16
#define PATIENCE (30000 * MS)

static unsigned tenths = 5;

static int compute(void *arg, void **value)
{
    void *block = stint_malloc((size_t)(uintptr_t)arg % 5000);
    (void)value;
    stint_free(block);
    return 0;
}

static int await_first_of_two(stint_pool *pool, uint64_t seed)
{
    stint_future *futures[2];
    stint_future *any;
    for (int i = 0; i < 2; i++) {
        int error = stint_submit(pool, compute, (void *)(uintptr_t)(seed + (uint64_t)i), NULL, &futures[i]);
        if (error != 0)
            return error;
    }
    int error = stint_when_any(futures, 2, &any);
    if (error != 0)
        return error;
    error = stint_future_wait(any, NULL);
    stint_future_release(any);
    stint_future_release(futures[0]);
    stint_future_release(futures[1]);
    return error;
}

struct part {
    stint_pool *pool;
    uint64_t seed;
};

static int do_part(void *arg, void **value)
{
    const struct part *part = arg;
    (void)value;
    stint_blocking_begin();
    nanosleep(&(struct timespec){ .tv_nsec = (long)(part->seed % 1000000) }, NULL);
    stint_blocking_end();
    return await_first_of_two(part->pool, part->seed);
}

static int do_request(void *arg, void **value)
{
    struct part parts[2] = { { arg, 0 }, { arg, 0 } };
    stint_subtask forks[2];
    static atomic_uint requests;
    uint64_t seed = atomic_fetch_add(&requests, 1);
    int error = 0;
    (void)value;
    for (int i = 0; i < 2; i++) {
        parts[i].seed = random_next(&seed);
        stint_fork(&forks[i], do_part, &parts[i]);
    }
    for (int i = 2; i-- > 0;) {
        int of_part = stint_join(&forks[i], NULL);
        error = error == 0 ? of_part : error;
    }
    return error;
}

static void requests_never_hang(unsigned workers)
{
    stint_pool *pool = make_pool(.workers = workers);
    stint_future *outstanding[OUTSTANDING];
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    double end = (double)now.tv_sec + (double)now.tv_nsec * 1e-9 + tenths / 10.0;
    for (int i = 0; i < OUTSTANDING; i++)
        outstanding[i] = submit(pool, do_request, pool, NULL);
    for (size_t i = 0; (double)now.tv_sec + (double)now.tv_nsec * 1e-9 < end; i = (i + 1) % OUTSTANDING) {
        stint_outcome outcome;
        assert_int_equal(stint_future_wait_for(outstanding[i], PATIENCE, &outcome), 0);
        assert_int_equal(outcome.error, 0);
        stint_future_release(outstanding[i]);
        outstanding[i] = submit(pool, do_request, pool, NULL);
        clock_gettime(CLOCK_MONOTONIC, &now);
    }
    for (int i = 0; i < OUTSTANDING; i++)
        assert_ok(take_in_time(outstanding[i]));
    assert_int_equal(stint_pool_shutdown(pool, STINT_SHUTDOWN_DRAIN, PATIENCE), 0);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(requests_never_hang_on_1_worker)
{
    requests_never_hang(1);
}

TEST(requests_never_hang_on_2_workers)
{
    requests_never_hang(2);
}

TEST(requests_never_hang_on_4_workers)
{
    requests_never_hang(4);
}

TEST(requests_never_hang_on_64_workers)
{
    requests_never_hang(64);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        tenths = repeats((unsigned)atoi(argv[1]) * 10);
    return run_all_tests(NULL, NULL);
}
