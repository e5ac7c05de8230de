/* SPDX-License-Identifier: MIT
 *
 * start.*: a program that does nothing, but to name what it is linked with, so that it is loaded; and, when it is asked
 * to serve, starts itself again and again. */
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(START_STINT)
#include <stint/version.h>
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

int main(int argc, char **argv)
{
    static const struct bench_work works[] = {
        { "start.empty", START_SUBJECT, NULL, start_several },
        { NULL, NULL, NULL, NULL },
    };
    if (argc > 1)
        return bench_serve_main(works, argc, argv);
    return name_all() ? 0 : 1;
}
