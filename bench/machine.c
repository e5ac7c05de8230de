/* SPDX-License-Identifier: MIT
 *
 * What the machine's primitives cost, and sums of them; see machine.h. */
#include "machine.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#define OPERATIONS 2000 /* a slice */
#define WAKES 15        /* a measurement */
#define SLEEP_US 5000
#define LOOKS 20000

static int do_nothing(int argument)
{
    return argument;
}

static void call_slice(void *arg)
{
    int (*volatile function)(int) = do_nothing;
    (void)arg;
    for (int i = 0; i < OPERATIONS; i++)
        function(i);
}

static void clock_slice(void *arg)
{
    struct timespec now;
    (void)arg;
    for (int i = 0; i < OPERATIONS; i++)
        clock_gettime(CLOCK_MONOTONIC, &now);
}

static void locked_slice(void *word)
{
    for (int i = 0; i < OPERATIONS; i++)
        atomic_fetch_add((atomic_uint *)word, 1);
}

static double cost(void (*slice)(void *))
{
    static _Alignas(64) atomic_uint word;
    return bench_slices(slice, &word, OPERATIONS);
}

struct sleeper {
    sem_t wake;
    double awake; /* when it was woken last */
    atomic_int wakes;
};

static void *sleep_and_note(void *argument)
{
    struct sleeper *sleeper = argument;
    for (int i = 0; i < WAKES; i++) {
        while (sem_wait(&sleeper->wake) != 0)
            ;
        sleeper->awake = bench_now_ns();
        atomic_fetch_add_explicit(&sleeper->wakes, 1, memory_order_release);
    }
    return NULL;
}

/* Who wakes goes on for a while, as programs do: so the other needs a processor of its own. */
static double wake_once(struct sleeper *sleeper, int before)
{
    usleep(SLEEP_US);
    double begin = bench_now_ns();
    sem_post(&sleeper->wake);
    for (int look = 1; atomic_load_explicit(&sleeper->wakes, memory_order_acquire) == before; look++) {
        if (look % LOOKS == 0)
            sched_yield();
    }
    return sleeper->awake - begin;
}

/* Each wake is a figure. */
size_t machine_wake(double *figures)
{
    struct sleeper sleeper = { .awake = 0 };
    pthread_t thread;
    sem_init(&sleeper.wake, 0, 0);
    if (pthread_create(&thread, NULL, sleep_and_note, &sleeper) != 0)
        return 0;
    for (int i = 0; i < WAKES; i++)
        figures[i] = wake_once(&sleeper, i);
    pthread_join(thread, NULL);
    sem_destroy(&sleeper.wake);
    return WAKES;
}

static size_t give(double *figures, double figure)
{
    figures[0] = figure;
    return 1;
}

size_t machine_call(double *figures)
{
    return give(figures, cost(call_slice));
}

size_t machine_clock(double *figures)
{
    return give(figures, cost(clock_slice));
}

size_t machine_locked(double *figures)
{
    return give(figures, cost(locked_slice));
}

size_t machine_two_wakes(double *figures)
{
    size_t count = machine_wake(figures);
    for (size_t i = 0; i < count; i++)
        figures[i] *= 2;
    return count;
}

/* Two readings of the clock, for what it took. Eight atomic instructions: into the queue and out of it, the fence
 * after it, the claim, the outcome, who waits for it, and the references of both. Sixteen calls: submit, wait and
 * release with an allocation and a free of the task, the worker's loop, and the task itself. */
size_t machine_submission(double *figures)
{
    return give(figures, 16 * cost(call_slice) + 2 * cost(clock_slice) + 8 * cost(locked_slice));
}
