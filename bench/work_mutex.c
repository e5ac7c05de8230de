/* SPDX-License-Identifier: MIT
 *
 * An uncontended mutex. */
#include <pthread.h>
#include <stdlib.h>

#include "serve.h"
#include "work.h"

#define PAIRS 2000 /* a slice */

static void *do_nothing(void *unused)
{
    return unused;
}

void work_mutex_prepare(unsigned workers)
{
    pthread_t thread;
    (void)workers;
    if (pthread_create(&thread, NULL, do_nothing, NULL) != 0)
        exit(1);
    pthread_join(thread, NULL);
}

static void slice(void *arg)
{
    for (int i = 0; i < PAIRS; i++) {
        pthread_mutex_lock(arg);
        pthread_mutex_unlock(arg);
    }
}

size_t work_mutex(double *figures)
{
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    figures[0] = bench_slices(slice, &mutex, PAIRS);
    return 1;
}
