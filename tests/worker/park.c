/* SPDX-License-Identifier: MIT
 *
 * Parking: an idle pool uses no CPU, and no task is left lying while a worker sleeps. */
#include <dirent.h>

#include "alloc/platform/clock.h"
#include "executor/pool/pool.h"
#include "pools.h"

static unsigned parked(stint_pool *pool)
{
    unsigned count = 0;
    for (unsigned i = 0; i < sizeof pool->lot.parked / sizeof *pool->lot.parked; i++)
        count += (unsigned)__builtin_popcountll(atomic_load(&pool->lot.parked[i]));
    return count;
}

static void await_all_parked(stint_pool *pool)
{
    while (parked(pool) < stint_pool_workers(pool))
        gate_nap();
}

static bool read_line(const char *task, const char *file, const char *key, char *line, size_t size)
{
    char path[300];
    snprintf(path, sizeof path, "/proc/self/task/%s/%s", task, file);
    FILE *stream = fopen(path, "r");
    if (stream == NULL)
        return false;
    bool found = false;
    while (!found && fgets(line, (int)size, stream) != NULL)
        found = strncmp(line, key, strlen(key)) == 0;
    fclose(stream);
    return found;
}

struct activity {
    unsigned threads;
    unsigned long switches;
    unsigned long long cpu_ns;
};

/* Of the pools' threads made here, known by their names: how often they gave up the processor, and how long they had
 * it. */
static struct activity measure(void)
{
    struct activity sum = { 0 };
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    const struct dirent *task;
    while ((task = readdir(tasks)) != NULL) {
        char line[200];
        if (!read_line(task->d_name, "comm", "parker/", line, sizeof line))
            continue;
        sum.threads++;
        assert_true(read_line(task->d_name, "status", "voluntary_ctxt_switches:", line, sizeof line));
        sum.switches += strtoul(line + strlen("voluntary_ctxt_switches:"), NULL, 10);
        if (read_line(task->d_name, "schedstat", "", line, sizeof line))
            sum.cpu_ns += strtoull(line, NULL, 10);
    }
    closedir(tasks);
    return sum;
}

static void do_nothing_on(stint_pool *pool)
{
    stint_future *future;
    assert_int_equal(stint_submit(pool, do_nothing, NULL, NULL, &future), 0);
    assert_int_equal(stint_future_wait(future, NULL), 0);
    stint_future_release(future);
}

TEST(an_idle_pool_uses_no_cpu)
{
    stint_pool *pool = make_pool(.workers = 4, .name = "parker");
    for (int i = 0; i < 100; i++)
        do_nothing_on(pool);
    await_all_parked(pool);
    /* From the bit to the sleep; and a tenth of a second later each gives memory back, once. */
    nanosleep(&(struct timespec){ .tv_nsec = 500000000 }, NULL);
    struct activity before = measure();
    nanosleep(&(struct timespec){ .tv_sec = 1, .tv_nsec = 300000000 }, NULL);
    struct activity after = measure();
    assert_int_equal(before.threads, 4);
    assert_int_equal(after.switches, before.switches);
    assert_int_equal(after.cpu_ns, before.cpu_ns);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(a_task_submitted_while_others_run_is_seen_by_a_parked_worker)
{
    stint_pool *pool = make_pool(.workers = 2, .name = "parker");
    for (int i = 0; i < 200; i++) {
        struct gate gate = { 0 };
        stint_future *holder;
        assert_int_equal(stint_submit(pool, gate_hold, &gate, NULL, &holder), 0);
        gate_await(&gate, 1);
        if (i % 2 == 0) {
            while (parked(pool) < 1)
                gate_nap();
        }
        do_nothing_on(pool);
        gate_open(&gate);
        assert_int_equal(stint_future_wait(holder, NULL), 0);
        stint_future_release(holder);
    }
    assert_int_equal(stint_pool_destroy(pool), 0);
}

/* Around the moment at which workers give up searching and park. Beside other programs a wake-up takes milliseconds, so
 * it is tried less often then. */
TEST(no_wake_up_is_lost_whenever_a_task_comes)
{
    stint_pool *pool = make_pool(.workers = 2, .name = "parker");
    unsigned seed = 1;
    uint64_t end = sti_clock_now() + UINT64_C(20000000000);
    for (int i = 0; i < 30000 && (i < 1000 || sti_clock_now() < end); i++) {
        do_nothing_on(pool);
        uint64_t until = sti_clock_now() + (unsigned)rand_r(&seed) % 60000;
        while (sti_clock_now() < until)
            ;
    }
    await_all_parked(pool);
    assert_int_equal(atomic_load(&pool->lot.searching), 0);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

#define TOGETHER 4

struct meeting {
    stint_pool *pool;
    atomic_uint present;
};

/* Ends only when as many tasks as there are workers run at once. */
static int meet(void *arg, void **value)
{
    struct meeting *meeting = arg;
    (void)value;
    atomic_fetch_add(&meeting->present, 1);
    while (atomic_load(&meeting->present) < TOGETHER)
        gate_nap();
    return 0;
}

static int invite_and_meet(void *arg, void **value)
{
    struct meeting *meeting = arg;
    for (int i = 0; i < TOGETHER - 1; i++) {
        stint_future *future;
        int error = stint_submit(meeting->pool, meet, meeting, NULL, &future);
        if (error != 0)
            return error;
        stint_future_release(future);
    }
    return meet(meeting, value);
}

TEST(work_from_outside_wakes_as_many_workers_as_it_needs)
{
    struct meeting meeting = { .pool = make_pool(.workers = TOGETHER, .name = "parker") };
    for (int round = 0; round < 1000; round++) {
        stint_future *futures[TOGETHER];
        atomic_store(&meeting.present, 0);
        if (round % 3 == 0)
            await_all_parked(meeting.pool);
        for (int i = 0; i < TOGETHER; i++)
            assert_int_equal(stint_submit(meeting.pool, meet, &meeting, NULL, &futures[i]), 0);
        for (int i = 0; i < TOGETHER; i++) {
            assert_int_equal(stint_future_wait(futures[i], NULL), 0);
            stint_future_release(futures[i]);
        }
    }
    assert_int_equal(stint_pool_destroy(meeting.pool), 0);
}

TEST(work_from_inside_a_task_wakes_as_many_workers_as_it_needs)
{
    for (int round = 0; round < 300; round++) {
        struct meeting meeting = { .pool = make_pool(.workers = TOGETHER, .name = "parker") };
        stint_future *future;
        stint_outcome outcome;
        if (round % 3 == 0)
            await_all_parked(meeting.pool);
        assert_int_equal(stint_submit(meeting.pool, invite_and_meet, &meeting, NULL, &future), 0);
        assert_int_equal(stint_future_wait(future, &outcome), 0);
        assert_int_equal(outcome.status, STINT_OK);
        stint_future_release(future);
        assert_int_equal(stint_pool_shutdown(meeting.pool, STINT_SHUTDOWN_DRAIN, STINT_FOREVER), 0);
        assert_int_equal(stint_pool_destroy(meeting.pool), 0);
    }
}

TEST(a_pool_of_more_than_64_workers_wakes_and_parks_them_all)
{
    stint_pool *pool = make_pool(.workers = 130, .name = "parker");
    await_all_parked(pool);
    struct gate gate = { 0 };
    stint_future *futures[130];
    for (int i = 0; i < 130; i++)
        assert_int_equal(stint_submit(pool, gate_hold, &gate, NULL, &futures[i]), 0);
    gate_await(&gate, 130); /* all at once */
    assert_int_equal(parked(pool), 0);
    gate_open(&gate);
    for (int i = 0; i < 130; i++) {
        assert_int_equal(stint_future_wait(futures[i], NULL), 0);
        stint_future_release(futures[i]);
    }
    await_all_parked(pool);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST_MAIN()
