/* SPDX-License-Identifier: MIT
 *
 * The command line of stint-bench. */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

struct bench_options {
    bool list;
    bool quick;
    const char *only;     /* NULL: every bench */
    size_t runs;          /* 0: as quick says */
    const char *json;     /* NULL: none; "-": standard output */
    const char *markdown; /* NULL: none */
    const char *compare;
};

/* Prints help or what is wrong, and ends the process, where that is asked for. */
struct bench_options bench_options_read(int argc, char **argv);

#endif
