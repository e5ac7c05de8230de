/* SPDX-License-Identifier: MIT
 *
 * start.*: a program that does nothing, but to name what it is linked with, so that it is loaded; and, when it is asked
 * to serve, starts itself again and again, or forks. */
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(START_STINT)
#include <stint/stint.h>
#endif
#if defined(START_MIMALLOC)
#include <mimalloc.h>
#endif
#if defined(START_PROFILER)
#include <elfutils/libdwfl.h>
#include <libelf.h>
#include <protobuf-c/protobuf-c.h>
#include <zlib.h>
#endif

#include "serve.h"

#define STARTS 15 /* a measurement */
#define SELF "/proc/self/exe"

extern char **environ;

static int name_all(void)
{
    int named = 1;
#if defined(START_STINT)
    named &= stint_version()[0] != '\0';
#endif
#if defined(START_MIMALLOC)
    named &= mi_version() > 0;
#endif
#if defined(START_PROFILER)
    named &= protobuf_c_version()[0] != '\0' && zlibVersion()[0] != '\0' && elf_version(EV_CURRENT) != EV_NONE &&
             dwfl_errno() == 0;
#endif
    return named;
}

/* Microseconds from its start to its end; 0: it failed. */
static double start_one(void)
{
    char name[] = SELF;
    char *arguments[] = { name, NULL };
    pid_t process;
    int status;
    double begin = bench_now_ns();
    if (posix_spawn(&process, SELF, NULL, NULL, arguments, environ) != 0 || waitpid(process, &status, 0) != process)
        return 0;
    return status == 0 ? (bench_now_ns() - begin) / 1e3 : 0;
}

static size_t start_several(double *figures)
{
    for (size_t i = 0; i < STARTS; i++) {
        figures[i] = start_one();
        if (figures[i] == 0)
            return 0;
    }
    return STARTS;
}

/* --- start.fork --- */

#define FORKS 30 /* a measurement */

/* Microseconds from the fork to when its child has been waited for; 0: it failed. */
static double fork_one(void)
{
    int status;
    double begin = bench_now_ns();
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    if (child < 0 || waitpid(child, &status, 0) != child)
        return 0;
    return status == 0 ? (bench_now_ns() - begin) / 1e3 : 0;
}

static size_t fork_several(double *figures)
{
    for (size_t i = 0; i < FORKS; i++) {
        figures[i] = fork_one();
        if (figures[i] == 0)
            return 0;
    }
    return FORKS;
}

#if defined(START_STINT)
static int grow(void *unused, void **value)
{
    (void)unused;
    while (malloc(1000) != NULL)
        ;
    *value = NULL;
    return 0;
}

static void use_stint(unsigned workers)
{
    (void)workers;
    stint_options options = STINT_OPTIONS_INIT;
    stint_outcome outcome;
    options.budget.memory = (size_t)1 << 20;
    for (int i = 0; i < 10; i++)
        stint_run(grow, NULL, &options, &outcome);
}
#endif

int main(int argc, char **argv)
{
    static const struct bench_work works[] = {
        { "start.empty", START_SUBJECT, NULL, start_several },
        { "start.fork", START_SUBJECT, NULL, fork_several },
#if defined(START_STINT)
        { "start.fork", START_SUBJECT "-used", use_stint, fork_several },
#endif
        { NULL, NULL, NULL, NULL },
    };
    if (argc > 1)
        return bench_serve_main(works, argc, argv);
    return name_all() ? 0 : 1;
}
