/* SPDX-License-Identifier: MIT
 *
 * What the overrides of locks cost: an uncontended pthread_mutex_lock and unlock through them against libc's own,
 * outside of tasks and inside one. The two are measured in turns, in short runs; the figure is the median over the
 * pairs of runs of the difference. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

#include <stint/stint.h>

#include "measure.h"

#define PAIRS 2001
#define RUN 2000

typedef int mutex_fn(pthread_mutex_t *);

static mutex_fn *plain_lock;
static mutex_fn *plain_unlock;

/* Through pointers for both, as through a library's table of functions. */
static __attribute__((noinline)) double run(mutex_fn *volatile lock, mutex_fn *volatile unlock)
{
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    double begin = now_ns();
    for (int i = 0; i < RUN; i++) {
        lock(&mutex);
        unlock(&mutex);
    }
    return (now_ns() - begin) / RUN;
}

static int measure(void *where, void **value)
{
    static double plain[PAIRS];
    static double overridden[PAIRS];
    static double more[PAIRS];
    (void)value;
    for (int i = 0; i < PAIRS; i++) {
        if (i % 2 == 0)
            plain[i] = run(plain_lock, plain_unlock);
        overridden[i] = run(pthread_mutex_lock, pthread_mutex_unlock);
        if (i % 2 != 0)
            plain[i] = run(plain_lock, plain_unlock);
        more[i] = overridden[i] - plain[i];
    }
    double plain_median = median(plain, PAIRS);
    double overridden_median = median(overridden, PAIRS);
    printf(
        "mutex.pair %-16s %6.2f ns plain, %6.2f ns overridden: %+5.2f ns (half of the pairs within %+.2f and %+.2f)\n",
        (const char *)where, plain_median, overridden_median, median(more, PAIRS), quantile(more, PAIRS, 0.25),
        quantile(more, PAIRS, 0.75));
    return 0;
}

static void *do_nothing(void *unused)
{
    return unused;
}

int main(void)
{
    char outside[] = "outside of tasks";
    char inside[] = "in a task";
    stint_outcome outcome;
    pthread_t thread;
    void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
    *(void **)&plain_lock = dlsym(libc, "pthread_mutex_lock");
    *(void **)&plain_unlock = dlsym(libc, "pthread_mutex_unlock");
    /* A process that never had a second thread is no fair measure: libc leaves out the atomic instructions. */
    if (plain_lock == NULL || plain_unlock == NULL || pthread_create(&thread, NULL, do_nothing, NULL) != 0)
        return 1;
    pthread_join(thread, NULL);
    measure(outside, NULL);
    return stint_run(measure, inside, NULL, &outcome);
}
