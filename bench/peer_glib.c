/* SPDX-License-Identifier: MIT
 *
 * The peer GLib, whose GThreadPool gives no result back: stint-bench-glib. */
#include <glib.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "serve.h"

#define STREAM 100000

static GThreadPool *pool;
static atomic_size_t done;

static void count(gpointer task, gpointer unused)
{
    (void)task;
    (void)unused;
    atomic_fetch_add_explicit(&done, 1, memory_order_relaxed);
}

static void prepare(unsigned workers)
{
    pool = g_thread_pool_new(count, NULL, (gint)workers, TRUE, NULL);
    if (pool == NULL)
        exit(1);
}

static size_t stream(double *figures)
{
    atomic_store_explicit(&done, 0, memory_order_relaxed);
    double begin = bench_process_ns();
    for (size_t i = 0; i < STREAM; i++)
        g_thread_pool_push(pool, &done, NULL);
    while (atomic_load_explicit(&done, memory_order_relaxed) < STREAM)
        g_thread_yield();
    figures[0] = (bench_process_ns() - begin) / STREAM;
    return 1;
}

int main(int argc, char **argv)
{
    static const struct bench_work works[] = {
        { "submit.future", "glib-pool", prepare, stream },
        { NULL, NULL, NULL, NULL },
    };
    return bench_serve_main(works, argc, argv);
}
