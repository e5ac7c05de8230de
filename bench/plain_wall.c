/* SPDX-License-Identifier: MIT
 *
 * wall.* without stint: parse a document in a process of its own. */
#include <libxml/parser.h>
#include <spawn.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "plain.h"
#include "work.h"

#define FORKS 10
#define SPAWNS 10
#define THROUGHPUT_FORKS 60
#define AT_ONCE 2
#define MEMORY_LIMIT ((rlim_t)64 << 20)
#define SELF "/proc/self/exe"

extern char **environ;

static bool await(pid_t process)
{
    int status;
    return process > 0 && waitpid(process, &status, 0) == process && status == 0;
}

static pid_t fork_parse(rlim_t limit)
{
    size_t size;
    const char *order = work_order(&size);
    pid_t child = fork();
    if (child != 0)
        return child;
    struct rlimit rlimit = { limit, limit };
    setrlimit(RLIMIT_AS, &rlimit);
    _exit(work_parse_order(order, size) > 0 ? 0 : 1);
}

void plain_fork_parse_prepare(unsigned workers)
{
    work_parse_first(workers);
    work_hold_much(workers);
}

size_t plain_fork_parse(double *figures)
{
    rlim_t limit = plain_limit(MEMORY_LIMIT);
    double begin = bench_now_ns();
    for (int i = 0; i < FORKS; i++) {
        if (!await(fork_parse(limit)))
            return 0;
    }
    figures[0] = (bench_now_ns() - begin) / FORKS / 1e3;
    return 1;
}

size_t plain_fork_throughput(double *figures)
{
    rlim_t limit = plain_limit(MEMORY_LIMIT);
    pid_t children[AT_ONCE] = { 0 };
    double begin = bench_now_ns();
    for (int i = 0; i < THROUGHPUT_FORKS + AT_ONCE; i++) {
        pid_t *child = &children[i % AT_ONCE];
        if (*child != 0 && !await(*child))
            return 0;
        *child = i < THROUGHPUT_FORKS ? fork_parse(limit) : 0;
    }
    figures[0] = (bench_now_ns() - begin) / THROUGHPUT_FORKS / 1e3;
    return 1;
}

/* The document comes by standard input, the answer is the exit status. */
int plain_parse_main(void)
{
    char order[8192];
    ssize_t size = read(STDIN_FILENO, order, sizeof order);
    return size > 0 && work_parse_order(order, (size_t)size) > 0 ? 0 : 1;
}

static bool spawn_parse(void)
{
    char name[] = SELF;
    char how[] = PLAIN_PARSE;
    char *arguments[] = { name, how, NULL };
    size_t size;
    const char *order = work_order(&size);
    int ends[2];
    pid_t process;
    posix_spawn_file_actions_t actions;
    if (pipe(ends) != 0)
        return false;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[0], STDIN_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[1]);
    bool good = posix_spawn(&process, SELF, &actions, NULL, arguments, environ) == 0;
    posix_spawn_file_actions_destroy(&actions);
    close(ends[0]);
    good = good && write(ends[1], order, size) == (ssize_t)size;
    close(ends[1]);
    return good && await(process);
}

size_t plain_spawn_parse(double *figures)
{
    double begin = bench_now_ns();
    for (int i = 0; i < SPAWNS; i++) {
        if (!spawn_parse())
            return 0;
    }
    figures[0] = (bench_now_ns() - begin) / SPAWNS / 1e3;
    return 1;
}
