/* SPDX-License-Identifier: MIT
 *
 * What a task costs that does nothing: submitted and waited for one at a time, a million from one outside thread, and
 * as a tree of tasks that submit and await tasks. Prints nanoseconds a task: the median of the rounds, and the least.
 *
 * usage: executor_tasks [WORKERS [ROUNDS]] */
#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <stint/stint.h>

#define ROUND_TRIPS 20000
#define STREAM 1000000
#define WINDOW 2048 /* futures held at once */
#define TREE 24
#define ROUNDS_MAX 101

static stint_pool *pool;

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int nothing(void *arg, void **value)
{
    (void)arg;
    (void)value;
    return 0;
}

/* The pool refuses only when its queue is full. */
static stint_future *submit(stint_fn *fn, void *arg)
{
    stint_future *future;
    while (stint_submit(pool, fn, arg, NULL, &future) == EAGAIN)
        sched_yield();
    return future;
}

static void finish(stint_future *future)
{
    stint_future_wait(future, NULL);
    stint_future_release(future);
}

static double round_trips(void)
{
    double begin = now_ns();
    for (int i = 0; i < ROUND_TRIPS; i++)
        finish(submit(nothing, NULL));
    return (now_ns() - begin) / ROUND_TRIPS;
}

static double stream(void)
{
    stint_future *futures[WINDOW];
    double begin = now_ns();
    for (int i = 0; i < STREAM + WINDOW; i++) {
        if (i >= WINDOW)
            finish(futures[i % WINDOW]);
        if (i < STREAM)
            futures[i % WINDOW] = submit(nothing, NULL);
    }
    return (now_ns() - begin) / STREAM;
}

static int fibonacci(void *arg, void **value)
{
    uintptr_t n = (uintptr_t)arg;
    void *right = NULL;
    stint_outcome left;
    if (n < 2) {
        *value = arg;
        return 0;
    }
    stint_future *future = submit(fibonacci, (void *)(n - 1));
    fibonacci((void *)(n - 2), &right);
    stint_future_wait(future, &left);
    stint_future_release(future);
    *value = (void *)((uintptr_t)left.value + (uintptr_t)right);
    return 0;
}

/* Each call with n > 1 submits one task: fib(n + 1) - 1 in all. */
static double tree(void)
{
    stint_outcome outcome;
    double begin = now_ns();
    stint_future *future = submit(fibonacci, (void *)(uintptr_t)TREE);
    stint_future_wait(future, &outcome);
    stint_future_release(future);
    double submitted = 75025 - 1;
    if ((uintptr_t)outcome.value != 46368)
        exit(1);
    return (now_ns() - begin) / submitted;
}

static int ascending(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

static void report(const char *name, double *rounds, size_t count)
{
    qsort(rounds, count, sizeof *rounds, ascending);
    printf("%-28s %8.0f %8.0f\n", name, rounds[count / 2], rounds[0]);
}

int main(int argc, char **argv)
{
    stint_pool_options options = STINT_POOL_OPTIONS_INIT;
    options.workers = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 0;
    size_t rounds = argc > 2 ? strtoul(argv[2], NULL, 10) : 5;
    if (rounds < 1 || rounds > ROUNDS_MAX || stint_pool_create(&pool, &options) != 0) {
        fprintf(stderr, "usage: executor_tasks [WORKERS [ROUNDS]]\n");
        return 2;
    }
    double figures[3][ROUNDS_MAX];
    for (size_t i = 0; i < rounds; i++) {
        figures[0][i] = round_trips();
        figures[1][i] = stream();
        figures[2][i] = tree();
    }
    printf("%u workers; ns a task            median    least\n", stint_pool_workers(pool));
    report("submit, wait, one at a time", figures[0], rounds);
    report("a million from outside", figures[1], rounds);
    report("a tree of tasks", figures[2], rounds);
    return stint_pool_destroy(pool);
}
