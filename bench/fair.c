/* SPDX-License-Identifier: MIT
 *
 * fair.*: what becomes of an account with short requests beside others that have nothing but endless loops, each
 * stopped after a millisecond of processor time and submitted again at once. All of them use the same workers. */
#include <stdatomic.h>
#include <stdlib.h>

#include "bench.h"
#include "statistics.h"
#include "task.h"

#define MS 1000000
#define LOOP_NS MS
#define GOOD_NS (MS / 10)
#define WINDOW 8 /* requests of the good account that wait or run at once */
#define LOOPS_EACH 2
#define SHARE_NS UINT64_C(40000000) /* of processor time that is due to each of them in a measurement */
#define REQUESTS 100

struct party {
    stint_account *account;
    _Atomic uint64_t used; /* processor time */
};

static struct party parties[65];
static size_t loops; /* of the parties, all but the first */
static atomic_bool going_on;
static _Atomic uint64_t used_in_all;
static atomic_size_t outstanding;

static int loop_for_ever(void *arg, void **value)
{
    (void)arg;
    (void)value;
    while (!stint_is_interrupted())
        stint_checkpoint();
    return 0;
}

static int serve(void *arg, void **value)
{
    (void)arg;
    (void)value;
    bench_spin(GOOD_NS);
    return 0;
}

static void begin_one(struct party *party, stint_fn *fn);

static void count(struct party *party, const stint_outcome *outcome)
{
    if (atomic_load(&going_on))
        atomic_fetch_add(&party->used, outcome->usage.cpu_ns);
    atomic_fetch_add(&used_in_all, outcome->usage.cpu_ns);
}

static void loop_again(stint_future *future, const stint_outcome *outcome, void *arg)
{
    (void)future;
    count(arg, outcome);
    if (atomic_load(&going_on))
        begin_one(arg, loop_for_ever);
    atomic_fetch_sub(&outstanding, 1);
}

static void serve_again(stint_future *future, const stint_outcome *outcome, void *arg)
{
    (void)future;
    count(arg, outcome);
    if (atomic_load(&going_on))
        begin_one(arg, serve);
    atomic_fetch_sub(&outstanding, 1);
}

static stint_future *submit(const struct party *party, stint_fn *fn)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.account = party->account;
    options.budget.cpu_ns = fn == loop_for_ever ? LOOP_NS : UINT64_MAX;
    return bench_submit(fn, NULL, &options);
}

static void begin_one(struct party *party, stint_fn *fn)
{
    stint_future *future = submit(party, fn);
    atomic_fetch_add(&outstanding, 1);
    if (stint_future_then(future, fn == serve ? serve_again : loop_again, party) != 0)
        exit(1);
    stint_future_release(future);
}

static void prepare(unsigned workers, size_t count_of_loops)
{
    bench_prepare_pool(workers);
    loops = count_of_loops;
    for (size_t i = 0; i <= loops; i++) {
        if (stint_account_create(NULL, NULL, &parties[i].account) != 0)
            exit(1);
    }
}

static void begin_loops(void)
{
    atomic_store(&going_on, true);
    for (size_t k = 0; k < LOOPS_EACH; k++) {
        for (size_t i = 1; i <= loops; i++)
            begin_one(&parties[i], loop_for_ever);
    }
}

static void end_all(void)
{
    atomic_store(&going_on, false);
    while (atomic_load(&outstanding) > 0)
        nanosleep(&(struct timespec){ .tv_nsec = MS }, NULL);
}

static size_t measure_share(double *figures)
{
    for (size_t i = 0; i <= loops; i++)
        atomic_store(&parties[i].used, 0);
    begin_loops();
    for (size_t i = 0; i < WINDOW; i++)
        begin_one(&parties[0], serve);
    atomic_store(&used_in_all, 0);
    while (atomic_load(&used_in_all) < (loops + 1) * SHARE_NS)
        nanosleep(&(struct timespec){ .tv_nsec = MS }, NULL);
    end_all();
    double all = 0;
    for (size_t i = 0; i <= loops; i++)
        all += (double)atomic_load(&parties[i].used);
    double good = (double)atomic_load(&parties[0].used);
    figures[0] = good > 0 ? 100 * all / (double)(loops + 1) / good : 0;
    return good > 0;
}

/* One request at a time: it waits for a loop of each of the others at most. */
static size_t measure_p99(double *figures)
{
    static double latencies[REQUESTS];
    begin_loops();
    for (size_t i = 0; i < REQUESTS; i++) {
        double begin = bench_now_ns();
        bench_finish(submit(&parties[0], serve));
        latencies[i] = (bench_now_ns() - begin) / 1000;
    }
    end_all();
    struct figures sorted = { .list = latencies, .count = REQUESTS, .room = REQUESTS };
    figures_sort(&sorted);
    figures[0] = figures_quantile(&sorted, 0.99) / (double)(loops + 1);
    return 1;
}

static void prepare_1(unsigned workers)
{
    prepare(workers, 1);
}

static void prepare_8(unsigned workers)
{
    prepare(workers, 8);
}

static void prepare_64(unsigned workers)
{
    prepare(workers, 64);
}

/* stint-1, -8, -64: beside so many accounts. */
#define SUBJECTS(work)                                                                                                 \
    {                                                                                                                  \
        { "stint-1", .prepare = prepare_1, .measure = (work) },                                                        \
            { "stint-8", .prepare = prepare_8, .measure = (work) },                                                    \
            { "stint-64", .prepare = prepare_64, .measure = (work) },                                                  \
    }

const struct bench bench_fair[] = {
    { .name = "fair.share",
      .unit = "percent",
      .what = "fair share of processor time, of what an account gets beside 1, 8, 64 of endless loops",
      .rounds = 1,
      .no_ratios = true,
      .subjects = SUBJECTS(measure_share),
      .targets = { { "stint-1", BENCH_MEDIAN, 110, NULL },
                   { "stint-8", BENCH_MEDIAN, 110, NULL },
                   { "stint-64", BENCH_MEDIAN, 110, NULL } } },
    { .name = "fair.p99",
      .unit = "us",
      .what = "p99 of a request beside 1, 8, 64 accounts of endless loops of 1 ms, an account",
      .rounds = 1,
      .no_ratios = true,
      .subjects = SUBJECTS(measure_p99) },
    { .name = NULL },
};
