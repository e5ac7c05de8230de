/* SPDX-License-Identifier: MIT
 *
 * For tests of a process whose main thread has ended by pthread_exit: the system then has a zombie in its place, which
 * has no memory. */
#ifndef TESTS_MAINLESS_H
#define TESTS_MAINLESS_H

#include "support.h"

static inline bool main_thread_has_gone(void)
{
    char path[64];
    char text[256];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)getpid());
    FILE *file = fopen(path, "r");
    bool has_gone = file != NULL && fgets(text, sizeof text, file) != NULL && strstr(text, ") Z ") != NULL;
    if (file != NULL)
        fclose(file);
    return has_gone;
}

static inline void *check_mainless(void *arg)
{
    bool (*is_good)(void) = *(bool (**)(void))arg;
    alarm(30);
    while (!main_thread_has_gone())
        nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
    _exit(is_good() ? 0 : 1);
}

/* Ends the main thread. The process then ends, with status 0 if is_good() says so. */
static inline _Noreturn void end_main_thread(bool (*is_good)(void))
{
    static bool (*check)(void);
    pthread_t thread;
    check = is_good;
    if (pthread_create(&thread, NULL, check_mainless, &check) != 0)
        _exit(2);
    pthread_exit(NULL);
}

/* In a child process. */
static inline void assert_without_main_thread(bool (*is_good)(void))
{
    int status;
    pid_t child = fork();
    if (child == 0)
        end_main_thread(is_good);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

#endif
