/* SPDX-License-Identifier: MIT
 *
 * Attacks of code behind a wall on the machine and on other tasks: for tests that run it in a fork of theirs, and for
 * the program that serves it by name (serving/serving.c). */
#ifndef TESTS_WALL_ATTACKS_H
#define TESTS_WALL_ATTACKS_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stint/stint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MANY 100000

static inline int bomb_with_forks(const void *input, size_t size, stint_reply *reply)
{
    (void)input;
    (void)size;
    (void)reply;
    for (;;)
        fork();
    return 0;
}

static inline void *be_a_thread(void *unused)
{
    for (;;)
        pause();
    return unused;
}

static inline int bomb_with_threads(const void *input, size_t size, stint_reply *reply)
{
    pthread_t thread;
    (void)input;
    (void)size;
    (void)reply;
    for (;;)
        pthread_create(&thread, NULL, be_a_thread, NULL);
    return 0;
}

/* Replies what has stopped it, if that was in time. */
static inline int flood_with_descriptors(const void *input, size_t size, stint_reply *reply)
{
    int opened = 0;
    (void)input;
    (void)size;
    while (opened < MANY && dup(0) >= 0)
        opened++;
    const char *text = errno == EMFILE && opened < 200 ? "EMFILE" : "no end";
    return stint_reply_write(reply, text, strlen(text));
}

/* By the system call itself, as the library meters mmap(). A page in each megabyte is written to. */
static inline int map_everything(const void *input, size_t size, stint_reply *reply)
{
    int mapped = 0;
    (void)input;
    (void)size;
    for (; mapped < MANY; mapped++) {
        long at = syscall(SYS_mmap, NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, (off_t)0);
        if (at == -1)
            break;
        *(volatile char *)at = 1;
    }
    const char *text = errno == ENOMEM ? "ENOMEM" : "no end";
    return stint_reply_write(reply, text, strlen(text));
}

/* Its own memory, all of it. */
static inline int fill_memory(const void *input, size_t size, stint_reply *reply)
{
    for (int mapped = 0; mapped < MANY; mapped++) {
        long at = syscall(SYS_mmap, NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, (off_t)0);
        if (at == -1)
            break;
        memset((void *)at, 1, 1 << 20);
    }
    return map_everything(input, size, reply);
}

/* Whom it can reach: its parent, its group, the first process, all processes. It only asks, so that nothing is hurt
 * if that is allowed. Replies with the names. */
static inline int signal_others(const void *input, size_t size, stint_reply *reply)
{
    const pid_t others[] = { getppid(), -getppid(), 0, 1, -1 };
    char text[64] = "refused";
    (void)input;
    (void)size;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (kill(others[i], 0) == 0 || errno != EPERM)
            snprintf(text, sizeof text, "not to %d", others[i]);
    }
    if (syscall(SYS_tgkill, getppid(), getppid(), 0) == 0 || syscall(SYS_tkill, getppid(), 0) == 0 ||
        syscall(SYS_pidfd_open, getppid(), 0) >= 0)
        snprintf(text, sizeof text, "by another call");
    return stint_reply_write(reply, text, strlen(text));
}

static inline int kill_parent(const void *input, size_t size, stint_reply *reply)
{
    (void)input;
    (void)size;
    (void)reply;
    kill(getppid(), SIGKILL);
    for (;;)
        pause();
    return 0;
}

static inline int kill_group(const void *input, size_t size, stint_reply *reply)
{
    (void)input;
    (void)size;
    (void)reply;
    kill(0, SIGKILL);
    return 0;
}

#endif
