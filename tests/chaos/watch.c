/* SPDX-License-Identifier: MIT
 *
 * Crashes and hangs; see watch.h. */
#include "watch.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct {
    const struct chaos_flight *flights;
    size_t count;
    double patience;
    char run[64];
    atomic_ulong alive;
    atomic_bool ending;
    pthread_t thread;
} watch;

static void say(const char *text)
{
    (void)!write(STDERR_FILENO, text, strlen(text));
}

static void report_crash(int signal)
{
    const struct chaos_flight *flight = chaos_flight_current;
    say("\nchaos: crashed, ");
    say(strsignal(signal));
    say(", ");
    say(watch.run);
    say("\n  last task of this thread: ");
    say(flight != NULL ? flight->repeat : "none");
    say("\n");
    /* SA_RESETHAND: now it is the end of the process. */
    raise(signal);
}

static void report_hang(void)
{
    say("\nchaos: no task has ended for a long time, ");
    say(watch.run);
    for (size_t i = 0; i < watch.count; i++) {
        if (atomic_load_explicit(&watch.flights[i].started_ns, memory_order_relaxed) == 0)
            continue;
        say("\n  on its way, or the last there: ");
        say(watch.flights[i].repeat);
    }
    say("\n");
}

/* Where each thread is, if there is a gdb. Not by fork: its handlers may wait for the lock that is the matter. */
static void print_stacks(void)
{
    char shell[] = "sh", option[] = "-c", command[96];
    char *arguments[] = { shell, option, command, NULL };
    pid_t gdb;
    snprintf(command, sizeof command, "exec gdb -nx -batch -ex 'thread apply all backtrace 24' -p %d", (int)getpid());
    if (posix_spawnp(&gdb, shell, NULL, NULL, arguments, environ) == 0)
        waitpid(gdb, NULL, 0);
}

static void *look_for_hangs(void *unused)
{
    (void)unused;
    unsigned long seen = 0;
    unsigned quiet = 0; /* tenths of a second */
    const struct timespec pause = { .tv_nsec = 100000000 };
    while (!atomic_load_explicit(&watch.ending, memory_order_relaxed)) {
        nanosleep(&pause, NULL);
        unsigned long alive = atomic_load_explicit(&watch.alive, memory_order_relaxed);
        quiet = alive == seen ? quiet + 1 : 0;
        seen = alive;
        if (quiet >= watch.patience * 10) {
            report_hang();
            print_stacks();
            _exit(3);
        }
    }
    return NULL;
}

int chaos_watch_start(const struct chaos_flight *flights, size_t count, const struct chaos_options *options)
{
    watch.flights = flights;
    watch.count = count;
    watch.patience = options->patience;
    snprintf(watch.run, sizeof watch.run, "in the run with --seed 0x%" PRIx64, options->seed);
    static const int crashes[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };
    struct sigaction action = { .sa_handler = report_crash, .sa_flags = (int)SA_RESETHAND | SA_NODEFER | SA_ONSTACK };
    for (size_t i = 0; i < sizeof crashes / sizeof crashes[0]; i++)
        sigaction(crashes[i], &action, NULL);
    return pthread_create(&watch.thread, NULL, look_for_hangs, NULL);
}

void chaos_watch_alive(void)
{
    atomic_fetch_add_explicit(&watch.alive, 1, memory_order_relaxed);
}

void chaos_watch_stop(void)
{
    atomic_store_explicit(&watch.ending, true, memory_order_relaxed);
    pthread_join(watch.thread, NULL);
}
