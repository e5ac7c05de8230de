/* SPDX-License-Identifier: MIT
 *
 * For tests of walls: making them, submitting to them, and what a child may do. A test makes its wall before its pool,
 * and has ended both when it ends: so the next test finds one thread. */
#ifndef TESTS_WALLS_H
#define TESTS_WALLS_H

#include <dirent.h>
#include <signal.h>

#include "pools.h"

static inline stint_wall *make_wall_of(stint_wall_options *options)
{
    static char message[256];
    stint_wall *wall = NULL;
    options->message = message;
    options->message_size = sizeof message;
    int error = stint_wall_create(options, &wall);
    if (error != 0)
        print_error("%s: %s\n", strerror(error), message);
    assert_int_equal(error, 0);
    return wall;
}

/* make_wall(.children = 2, ...): the other options are as they are by default. */
#define make_wall(...) make_wall_of(&(stint_wall_options){ .size = sizeof(stint_wall_options), __VA_ARGS__ })

static inline stint_future *submit_walled(stint_pool *pool, stint_wall *wall, stint_wall_fn *fn, const void *input,
                                          size_t size, const stint_options *options)
{
    stint_future *future;
    assert_int_equal(stint_submit_walled(pool, wall, fn, input, size, options, &future), 0);
    return future;
}

static inline stint_outcome run_walled(stint_pool *pool, stint_wall *wall, stint_wall_fn *fn,
                                       const stint_options *options)
{
    return take_in_time(submit_walled(pool, wall, fn, NULL, 0, options));
}

static inline stint_wall_statistics read_wall(stint_wall *wall)
{
    stint_wall_statistics statistics = STINT_WALL_STATISTICS_INIT;
    assert_int_equal(stint_wall_read(wall, &statistics), 0);
    return statistics;
}

/* An Ok outcome whose reply is this text; the reply is freed. */
static inline void assert_replied(stint_outcome outcome, const char *text)
{
    assert_int_equal(outcome.status, STINT_OK);
    assert_int_equal(outcome.payload_size, strlen(text));
    assert_memory_equal(outcome.value, text, strlen(text));
    stint_free(outcome.value);
}

static inline void assert_ended(const stint_outcome *outcome, stint_status status, stint_reason reason)
{
    assert_string_equal(stint_reason_name(outcome->reason), stint_reason_name(reason));
    assert_int_equal(outcome->status, status);
    assert_null(outcome->value);
}

/* Children of this process, reaped or not. */
static inline size_t count_processes(void)
{
    size_t count = 0;
    int pid;
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/children", getpid());
    FILE *children = fopen(path, "r");
    while (children != NULL && fscanf(children, "%d", &pid) == 1)
        count++;
    if (children != NULL)
        fclose(children);
    return count;
}

static inline size_t count_descriptors(void)
{
    size_t count = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (folder != NULL && readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

/* --- In the child. --- */

static inline int echo(const void *input, size_t size, stint_reply *reply)
{
    return stint_reply_write(reply, input, size);
}

static inline int reply_nothing(const void *input, size_t size, stint_reply *reply)
{
    (void)input;
    (void)size;
    (void)reply;
    return 0;
}

static inline int spin_for_ever(const void *input, size_t size, stint_reply *reply)
{
    (void)input;
    (void)size;
    (void)reply;
    volatile bool for_ever = true;
    while (for_ever)
        ;
    return 0;
}

static inline int write_to_null(const void *input, size_t size, stint_reply *reply)
{
    volatile int *volatile nowhere = NULL;
    (void)input;
    (void)size;
    (void)reply;
    *nowhere = 1;
    return 0;
}

static inline int allocate_for_ever(const void *input, size_t size, stint_reply *reply)
{
    void **list = NULL;
    (void)input;
    (void)size;
    (void)reply;
    for (;;) {
        void **node = (void **)keep(malloc(1000));
        if (node == NULL)
            return ENOMEM;
        *node = list;
        list = node;
    }
}

/* Its process's number, as text. */
static inline int say_pid(const void *input, size_t size, stint_reply *reply)
{
    char text[32];
    (void)input;
    (void)size;
    snprintf(text, sizeof text, "%d", getpid());
    return stint_reply_write(reply, text, strlen(text) + 1);
}

#endif
