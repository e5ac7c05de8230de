/* SPDX-License-Identifier: MIT
 *
 * Subjects' processes; see child.h. */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "serve.h"

extern char **environ;

/* Programs lie beside this one. */
static bool find_program(const char *program, char path[PATH_MAX])
{
    ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);
    if (length <= 0)
        return false;
    path[length] = '\0';
    if (program == NULL)
        return true;
    char *name = strrchr(path, '/') + 1;
    size_t room = (size_t)(path + PATH_MAX - name);
    return snprintf(name, room, "%s", program) < (int)room;
}

bool child_program_exists(const char *program)
{
    char path[PATH_MAX];
    return find_program(program, path) && access(path, X_OK) == 0;
}

int child_start(struct child *child, const char *program, const char *bench, const char *subject, unsigned workers)
{
    char path[PATH_MAX];
    char number[16];
    int ask[2];
    int answer[2];
    if (!find_program(program, path))
        return ENOENT;
    snprintf(number, sizeof number, "%u", workers);
    const char *arguments[] = { path, "--serve", bench, subject, number, NULL };
    if (pipe2(ask, O_CLOEXEC) != 0)
        return errno;
    if (pipe2(answer, O_CLOEXEC) != 0) {
        int error = errno;
        close(ask[0]);
        close(ask[1]);
        return error;
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ask[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, answer[1], STDOUT_FILENO);
    /* It writes to none of its arguments. */
    int error = posix_spawn(&child->process, path, &actions, NULL, (char *const *)(uintptr_t)arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ask[0]);
    close(answer[1]);
    child->ask = ask[1];
    child->answer = answer[0];
    if (error != 0) {
        close(child->ask);
        close(child->answer);
        child->process = 0;
    }
    return error;
}

static bool read_whole(int descriptor, void *into, size_t size)
{
    char *next = into;
    while (size > 0) {
        ssize_t got = read(descriptor, next, size);
        if (got <= 0)
            return false;
        next += got;
        size -= (size_t)got;
    }
    return true;
}

size_t child_measure(const struct child *child, double *figures)
{
    uint64_t count;
    if (write(child->ask, "g", 1) != 1 || !read_whole(child->answer, &count, sizeof count) ||
        count > BENCH_FIGURES_MAX || !read_whole(child->answer, figures, count * sizeof *figures))
        return 0;
    return count;
}

void child_kill(const struct child *child)
{
    if (child->process != 0)
        kill(child->process, SIGKILL);
}

void child_end(struct child *child)
{
    if (child->process == 0)
        return;
    child_kill(child);
    close(child->ask);
    close(child->answer);
    waitpid(child->process, NULL, 0);
    child->process = 0;
}
