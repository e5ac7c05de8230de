/* SPDX-License-Identifier: MIT
 *
 * What the machine's primitives cost, and sums of them; see machine.h. */
#include "machine.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define OPERATIONS 2000 /* a slice */
#define WAKES 15        /* a measurement */
#define SLEEP_US 5000
#define LOOKS 20000
#define TRIPS 300
#define PACED_TRIPS 20
#define FORKS 30
#define BYTES ((size_t)16 << 20)

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

/* --- Two processes. --- */

struct turn {
    atomic_uint asked; /* each is a futex */
    atomic_uint answered;
};

static void *share(size_t size)
{
    void *shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        exit(1);
    return shared;
}

static void await_turn(atomic_uint *word, unsigned turn)
{
    while (atomic_load_explicit(word, memory_order_acquire) != turn)
        syscall(SYS_futex, word, FUTEX_WAIT, turn - 1, NULL, NULL, 0);
}

static void give_turn(atomic_uint *word, unsigned turn)
{
    atomic_store_explicit(word, turn, memory_order_release);
    syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* Microseconds of the trip. */
static double trip(struct turn *turns, unsigned turn)
{
    double begin = bench_now_ns();
    give_turn(&turns->asked, turn);
    await_turn(&turns->answered, turn);
    return (bench_now_ns() - begin) / 1e3;
}

static pid_t start_answering(struct turn *turns, unsigned trips)
{
    pid_t other = fork();
    if (other != 0)
        return other;
    for (unsigned turn = 1; turn <= trips; turn++) {
        await_turn(&turns->asked, turn);
        give_turn(&turns->answered, turn);
    }
    _exit(0);
}

/* The first trip, on which the other process comes to be, does not count. */
static bool make_trips(unsigned pause_us, unsigned trips, double *figures)
{
    struct turn *turns = share(sizeof *turns);
    pid_t other = start_answering(turns, trips + 1);
    if (other < 0)
        return false;
    trip(turns, 1);
    for (unsigned i = 0; i < trips; i++) {
        if (pause_us != 0)
            usleep(pause_us);
        figures[i] = trip(turns, i + 2);
    }
    waitpid(other, NULL, 0);
    munmap(turns, sizeof *turns);
    return true;
}

static size_t give_mean(const double *list, size_t count, double *figures)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += list[i];
    return give(figures, sum / (double)count);
}

size_t machine_trip(double *figures)
{
    double all[TRIPS];
    return make_trips(0, TRIPS, all) ? give_mean(all, TRIPS, figures) : 0;
}

size_t machine_paced_trip(double *figures)
{
    return make_trips(MACHINE_PACE_US, PACED_TRIPS, figures) ? PACED_TRIPS : 0;
}

static bool fork_once(void)
{
    int status;
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

size_t machine_fork(double *figures)
{
    double begin = bench_now_ns();
    for (int i = 0; i < FORKS; i++) {
        if (!fork_once())
            return 0;
    }
    return give(figures, (bench_now_ns() - begin) / FORKS / 1e3);
}

static char *source;
static char *shared;

void machine_copies_prepare(unsigned workers)
{
    (void)workers;
    source = malloc(BYTES);
    shared = share(BYTES);
    if (source == NULL)
        exit(1);
    memset(source, 1, BYTES);
    memset(shared, 1, BYTES);
}

static bool copy_twice(void)
{
    memcpy(shared, source, BYTES);
    char *copy = malloc(BYTES);
    if (copy == NULL)
        return false;
    memcpy(copy, shared, BYTES);
    __asm__ volatile("" : : "r"(copy) : "memory"); /* somebody reads it, as far as the compiler knows */
    free(copy);
    return true;
}

size_t machine_copies(double *figures)
{
    for (size_t i = 0; i < MACHINE_COPIES; i++) {
        double begin = bench_now_ns();
        if (!copy_twice())
            return 0;
        figures[i] = (bench_now_ns() - begin) / 1e6;
    }
    return MACHINE_COPIES;
}
