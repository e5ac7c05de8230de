/* SPDX-License-Identifier: MIT
 *
 * account.*: what two threads cost each other when their tasks charge one account, beside the same tasks with an
 * account for each thread, and with none. In processor time, which grows when a thread waits for a cache line of the
 * other's. */
#include <pthread.h>
#include <stint/stint.h>

#include "bench.h"
#include "task.h"
#include "work.h"

#define THREADS 2

static stint_account *accounts[THREADS];
static pthread_barrier_t start;

/* Both threads do all of it, at the same time. */
struct share {
    pthread_t thread;
    stint_fn *fn;
    size_t tasks;
    stint_account *account;
    double ns; /* a task; 0: one has failed */
};

static int thousand_pairs(void *arg, void **value)
{
    (void)arg;
    (void)value;
    for (int i = 0; i < 100; i++)
        work_ten_pairs();
    return 0;
}

static void *run_share(void *argument)
{
    struct share *share = argument;
    stint_options options = STINT_OPTIONS_INIT;
    stint_outcome outcome;
    size_t ok = 0;
    options.account = share->account;
    pthread_barrier_wait(&start);
    double begin = bench_thread_ns();
    for (size_t i = 0; i < share->tasks; i++)
        ok += stint_run(share->fn, NULL, &options, &outcome) == 0 && outcome.status == STINT_OK;
    share->ns = ok == share->tasks ? (bench_thread_ns() - begin) / (double)share->tasks : 0;
    return NULL;
}

static size_t measure(stint_fn *fn, size_t tasks, double *figures)
{
    struct share shares[THREADS];
    double sum = 0;
    for (size_t i = 0; i < THREADS; i++) {
        shares[i] = (struct share){ .fn = fn, .tasks = tasks, .account = accounts[i] };
        if (pthread_create(&shares[i].thread, NULL, run_share, &shares[i]) != 0)
            return 0;
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(shares[i].thread, NULL);
        if (shares[i].ns == 0)
            return 0;
        sum += shares[i].ns;
    }
    figures[0] = sum / THREADS;
    return 1;
}

static size_t small_tasks(double *figures)
{
    return measure(bench_ten_pairs, 20000, figures);
}

static size_t larger_tasks(double *figures)
{
    return measure(thousand_pairs, 400, figures);
}

static void prepare_none(unsigned workers)
{
    (void)workers;
    pthread_barrier_init(&start, NULL, THREADS);
}

static void prepare_own(unsigned workers)
{
    prepare_none(workers);
    for (size_t i = 0; i < THREADS; i++)
        stint_account_create(NULL, NULL, &accounts[i]);
}

static void prepare_shared(unsigned workers)
{
    prepare_none(workers);
    stint_account_create(NULL, NULL, &accounts[0]);
    accounts[1] = accounts[0];
}

#define SUBJECTS(work)                                                                                                 \
    {                                                                                                                  \
        { "stint-shared", .prepare = prepare_shared, .measure = (work) },                                              \
            { "own", .prepare = prepare_own, .measure = (work) },                                                      \
            { "none", .prepare = prepare_none, .measure = (work) },                                                    \
    }

const struct bench bench_account[] = {
    { .name = "account.small",
      .unit = "ns/op",
      .what = "stint_run of 10 malloc/free pairs on two threads that charge one account",
      .rounds = 10,
      .subjects = SUBJECTS(small_tasks) },
    { .name = "account.shared",
      .unit = "ns/op",
      .what = "the same of 1000 pairs",
      .rounds = 10,
      .subjects = SUBJECTS(larger_tasks),
      .targets = { { "stint-shared", BENCH_RATIO, 1.05, "own" } } },
    { .name = NULL },
};
