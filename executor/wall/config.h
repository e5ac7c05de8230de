/* SPDX-License-Identifier: MIT
 *
 * What a wall is made with, as its guardian, its template and its children know it. The configuration is written before
 * the first of them is forked, or sent to the program that is the template, and never changes: so it has no pointers
 * but those that mean something in a fork of the same program. Any thread. */
#ifndef STI_EXECUTOR_WALL_CONFIG_H
#define STI_EXECUTOR_WALL_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stint/wall.h>

#define STI_WALL_NAME_SIZE 64
#define STI_WALL_PATHS_MAX 64
#define STI_WALL_PATH_SIZE 256
#define STI_WALL_FDS_MAX 64
#define STI_WALL_MESSAGE_SIZE 512 /* as wall.h promises */

struct sti_wall_config {
    char name[STI_WALL_NAME_SIZE];
    stint_wall_setup_fn *setup; /* NULL in a program's */
    void *setup_arg;
    stint_wall_filter_fn *filter; /* NULL in a program's */
    void *filter_arg;
    stint_wall_sandbox sandbox;
    size_t input_limit;
    size_t reply_limit;
    size_t memory;
    size_t file_size; /* SIZE_MAX: no limit */
    size_t stack;
    unsigned descriptors;
    unsigned processes;
    bool reuses;                     /* a child may get a second task */
    char cgroup[STI_WALL_PATH_SIZE]; /* empty: none */
    size_t path_count;
    struct {
        char path[STI_WALL_PATH_SIZE];
        bool writable;
    } paths[STI_WALL_PATHS_MAX];
    size_t fd_count;
    int fds[STI_WALL_FDS_MAX]; /* that stay open */
};

#endif
