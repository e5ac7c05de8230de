/* SPDX-License-Identifier: MIT
 *
 * For the scripts that test profiles from outside: allocates in tasks, then does what its first argument says. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stint/stint.h>

#define BLOCKS 20000

static void *volatile kept;

static __attribute__((noinline)) void allocate_and_keep(size_t size)
{
    void **block = stint_malloc(size);
    if (block != NULL)
        *block = kept;
    kept = block;
}

static __attribute__((noinline)) void allocate_and_free(size_t size)
{
    void *volatile block = stint_malloc(size);
    stint_free(block);
}

static int work(void *fails, void **value)
{
    (void)value;
    void *before = kept;
    for (size_t i = 0; i < BLOCKS; i++) {
        allocate_and_free(16 + i % 500);
        if (i % 4 == 0)
            allocate_and_keep(16 + i % 3000);
    }
    if (fails != NULL)
        kept = before;
    return fails != NULL;
}

static void work_in_tasks(void)
{
    int fails;
    stint_account *account;
    stint_account_limits limits = { .size = sizeof(stint_account_limits), .name = "tenant;one" };
    stint_options options = STINT_OPTIONS_INIT;
    stint_outcome outcome;
    if (stint_account_create(NULL, &limits, &account) != 0)
        exit(1);
    options.account = account;
    options.name = "committed";
    stint_run(work, NULL, &options, &outcome);
    options.name = "rolled back";
    stint_run(work, &fails, &options, &outcome);
    stint_account_release(account);
    work(NULL, NULL);
}

static void print_totals(void)
{
    stint_profile_totals totals = STINT_PROFILE_TOTALS_INIT;
    int error = stint_profile_read(&totals);
    if (error == 0)
        dprintf(STDOUT_FILENO, "%ju %ju %ju %ju\n", (uintmax_t)totals.alloc_objects, (uintmax_t)totals.alloc_bytes,
                (uintmax_t)totals.inuse_objects, (uintmax_t)totals.inuse_bytes);
    else
        dprintf(STDOUT_FILENO, "%s\n", strerror(error));
}

static void write_file(const char *path, stint_profile_kind kind)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    int error = stint_profile_write(fd, kind);
    if (error != 0) {
        dprintf(STDERR_FILENO, "%s: %s\n", path, strerror(error));
        exit(error == ENOTSUP ? 77 : 1);
    }
    close(fd);
}

static void take_signal(int number)
{
    (void)number;
    if (write(STDOUT_FILENO, "mine\n", 5) < 0)
        _exit(1);
}

static void work_in_child(void)
{
    pid_t child = fork();
    if (child == 0) {
        struct sigaction action;
        stint_outcome outcome;
        if (stint_run(work, NULL, NULL, &outcome) != ENOTSUP)
            exit(1);
        print_totals();
        exit(sigaction(SIGUSR2, NULL, &action) == 0 && action.sa_handler == SIG_DFL ? 0 : 1);
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        exit(1);
}

static void *outlive_main(void *main_thread)
{
    pthread_join(*(pthread_t *)main_thread, NULL);
    work_in_tasks();
    return NULL;
}

/* The process ends with its last thread, because no thread has called exit. */
static void end_main_first(void)
{
    static pthread_t main_thread;
    pthread_t other;
    main_thread = pthread_self();
    if (pthread_create(&other, NULL, outlive_main, &main_thread) != 0)
        exit(1);
    pthread_exit(NULL);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    char byte;
    if (strcmp(what, "write") == 0 && argc == 5) {
        stint_profile_options options = STINT_PROFILE_OPTIONS_INIT;
        options.interval = 2048;
        if (stint_profile_start(&options) != 0)
            return 1;
    }
    work_in_tasks();
    if (strcmp(what, "fork") == 0)
        work_in_child();
    if (strcmp(what, "handle") == 0)
        signal(SIGUSR2, take_signal);
    if (strcmp(what, "wait") == 0 || strcmp(what, "handle") == 0) {
        dprintf(STDOUT_FILENO, "ready\n");
        while (read(STDIN_FILENO, &byte, 1) > 0)
            ;
    }
    if (strcmp(what, "leave") == 0 && chdir("/") != 0)
        return 1;
    if (strcmp(what, "exit") == 0)
        _exit(0);
    if (strcmp(what, "mainless") == 0)
        end_main_first();
    stint_profile_stop();
    print_totals();
    if (strcmp(what, "write") == 0 && argc == 5) {
        write_file(argv[2], STINT_PROFILE_PPROF);
        write_file(argv[3], STINT_PROFILE_COLLAPSED);
        write_file(argv[4], STINT_PROFILE_COLLAPSED_INUSE);
    }
    return 0;
}
