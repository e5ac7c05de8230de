/* SPDX-License-Identifier: MIT
 *
 * contain.* without stint: a job in a thread, and in a forked process with a limit. */
#include <libxml/parser.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "plain.h"
#include "work.h"

#define JOBS 200 /* threads a measurement; a twentieth of that processes */
#define MEMORY_LIMIT ((rlim_t)64 << 20)

static void *run_job(void *unused)
{
    work_ten_pairs();
    return unused;
}

size_t plain_thread_job(double *figures)
{
    double begin = bench_now_ns();
    for (int i = 0; i < JOBS; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, run_job, NULL) != 0)
            return 0;
        pthread_join(thread, NULL);
    }
    figures[0] = (bench_now_ns() - begin) / JOBS;
    return 1;
}

rlim_t plain_limit(rlim_t more)
{
    unsigned long pages = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    if (statm == NULL || fscanf(statm, "%lu", &pages) != 1)
        exit(1);
    fclose(statm);
    return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + more;
}

static int fork_job(void (*job)(void), rlim_t limit)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        struct rlimit rlimit = { limit, limit };
        setrlimit(RLIMIT_AS, &rlimit);
        job();
        _exit(0);
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status);
}

size_t plain_fork_job(double *figures)
{
    rlim_t limit = plain_limit(MEMORY_LIMIT);
    double begin = bench_now_ns();
    for (int i = 0; i < JOBS / 20; i++) {
        if (!fork_job(work_ten_pairs, limit))
            return 0;
    }
    figures[0] = (bench_now_ns() - begin) / (JOBS / 20.0);
    return 1;
}

size_t plain_fork_bomb(double *figures)
{
    xmlInitParser();
    rlim_t limit = plain_limit(MEMORY_LIMIT);
    double begin = bench_now_ns();
    int good = fork_job(work_billion_laughs, limit);
    figures[0] = (bench_now_ns() - begin) / 1e6;
    return good ? 1 : 0;
}
