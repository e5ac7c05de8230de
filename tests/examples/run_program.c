/* SPDX-License-Identifier: MIT
 *
 * A program that knows nothing of stint, for run.sh: does what its arguments say, one after the other. */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void say_goodbye(void)
{
    char *text = strdup("goodbye");
    printf("%s\n", text != NULL ? text : "no memory");
    free(text);
}

/* In blocks of a KiB, all of which are written. */
static __attribute__((noinline)) void hold(size_t kibibytes)
{
    for (size_t i = 0; i < kibibytes; i++) {
        char *block = malloc(1024);
        if (block == NULL) {
            puts("refused");
            return;
        }
        memset(block, 1, 1024);
        __asm__ volatile("" : : "r"(block) : "memory");
    }
    puts("held");
}

static __attribute__((noinline)) void allocate(size_t kibibytes)
{
    for (size_t i = 0; i < kibibytes; i++) {
        void *volatile block = malloc(1024);
        free(block);
    }
}

static void *hold_in_thread(void *kibibytes)
{
    hold((size_t)(uintptr_t)kibibytes);
    return NULL;
}

/* A list of as many blocks, of a KiB each, or of less where there is no more memory. */
static void *make_list(void *kibibytes)
{
    void **first = NULL;
    for (size_t i = 0; i < (size_t)(uintptr_t)kibibytes; i++) {
        void **block = malloc(1024);
        if (block == NULL) {
            puts("refused");
            break;
        }
        *block = first;
        first = block;
    }
    return first;
}

static void *make_list_and_exit(void *kibibytes)
{
    void *list = make_list(kibibytes);
    puts("held");
    pthread_exit(list);
}

/* Its child ends as the thread returns. */
static void *fork_and_say(void *unused)
{
    if (fork() == 0)
        printf("once ");
    else
        wait(NULL);
    fflush(stdout);
    return unused;
}

static void *hold_and_end_program(void *kibibytes)
{
    hold((size_t)(uintptr_t)kibibytes);
    exit(3);
}

static void walk_list_of_thread(void *(*function)(void *), size_t kibibytes)
{
    pthread_t thread;
    void *list = NULL;
    pthread_create(&thread, NULL, function, (void *)(uintptr_t)kibibytes);
    pthread_join(thread, &list);
    while (list != NULL) {
        void *next = *(void **)list;
        free(list);
        list = next;
    }
    puts("good");
}

/* It looks through what the main thread has made, and lives when that ends. */
static void *read_for_ever(void *block)
{
    const volatile char *bytes = block;
    for (;;) {
        for (size_t i = 0; i < 1024; i++)
            (void)bytes[i];
    }
    return NULL;
}

static void start_readers(size_t count)
{
    pthread_t thread;
    for (size_t i = 0; i < count; i++)
        pthread_create(&thread, NULL, read_for_ever, calloc(1, 1024));
}

static void start(size_t count, void (*what)(size_t), size_t argument)
{
    for (size_t i = 0; i < count; i++) {
        if (fork() == 0) {
            what(argument);
            exit(0);
        }
    }
}

static void sleep_for(size_t seconds)
{
    sleep((unsigned)seconds);
}

static void hold_and_sleep(size_t kibibytes)
{
    hold(kibibytes);
    fflush(stdout);
    sleep(2);
}

static void *sleepers_of_thread(void *count)
{
    start((size_t)(uintptr_t)count, sleep_for, 5);
    sleep(5);
    return NULL;
}

/* Each ends as soon as its parent has. */
static void start_orphans(size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (fork() == 0) {
            if (fork() == 0)
                usleep(1000);
            _exit(0);
        }
        wait(NULL);
        usleep(20000);
    }
}

/* Each the child of the one before; and none ends by itself. */
static void start_chain(size_t length)
{
    signal(SIGTERM, SIG_IGN);
    while (length-- > 0 && fork() == 0)
        continue;
    sleep(20);
}

static void execute(char **arguments)
{
    if (fork() == 0) {
        execv(arguments[0], arguments);
        _exit(127);
    }
    while (wait(NULL) > 0)
        continue;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *what = argv[i];
        size_t number = i + 1 < argc ? strtoul(argv[i + 1], NULL, 10) : 0;
        pthread_t thread;
        if (strcmp(what, "goodbye") == 0)
            atexit(say_goodbye);
        else if (strcmp(what, "hold") == 0)
            hold(number), i++;
        else if (strcmp(what, "allocate") == 0)
            allocate(number), i++;
        else if (strcmp(what, "thread") == 0)
            pthread_create(&thread, NULL, hold_in_thread, (void *)(uintptr_t)number), pthread_join(thread, NULL), i++;
        else if (strcmp(what, "thread_ends_program") == 0)
            pthread_create(&thread, NULL, hold_and_end_program, (void *)(uintptr_t)number), pause();
        else if (strcmp(what, "thread_forks") == 0)
            pthread_create(&thread, NULL, fork_and_say, NULL), pthread_join(thread, NULL);
        else if (strcmp(what, "thread_leaves") == 0)
            walk_list_of_thread(make_list, number), i++;
        else if (strcmp(what, "thread_exits") == 0)
            walk_list_of_thread(make_list_and_exit, number), i++;
        else if (strcmp(what, "living_threads") == 0)
            start_readers(number), i++;
        else if (strcmp(what, "sleepers") == 0)
            start(number, sleep_for, 5), i++;
        else if (strcmp(what, "thread_sleepers") == 0)
            pthread_create(&thread, NULL, sleepers_of_thread, (void *)(uintptr_t)number), pthread_join(thread, NULL),
                i++;
        else if (strcmp(what, "orphans") == 0)
            start_orphans(number), i++;
        else if (strcmp(what, "chain") == 0)
            start_chain(number), i++;
        else if (strcmp(what, "holders") == 0)
            start(number, hold_and_sleep, 20000), i++;
        else if (strcmp(what, "open") == 0)
            puts(dup(1) < 0 ? "no descriptor" : "opened");
        else if (strcmp(what, "sleep") == 0)
            sleep((unsigned)number), i++;
        else if (strcmp(what, "wait") == 0)
            while (wait(NULL) > 0)
                continue;
        else if (strcmp(what, "run") == 0)
            return execute(argv + i + 1), 0;
        else if (strcmp(what, "ignore_children_and_become") == 0)
            return signal(SIGCHLD, SIG_IGN), execv(argv[i + 1], argv + i + 1);
        else if (strcmp(what, "spin") == 0)
            for (;;)
                __asm__ volatile("");
        else if (strcmp(what, "abort") == 0)
            abort();
        else if (strcmp(what, "_exit") == 0)
            _exit((int)number);
        else if (strcmp(what, "exit") == 0)
            exit((int)number);
        else if (strcmp(what, "return") == 0)
            return (int)number;
        else
            return 99;
        fflush(stdout);
    }
    return 0;
}
