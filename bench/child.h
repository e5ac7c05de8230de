/* SPDX-License-Identifier: MIT
 *
 * The harness's end of a subject's process: start it, ask it for measurements, end it. One thread. */
#ifndef BENCH_CHILD_H
#define BENCH_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct child {
    pid_t process; /* 0: none */
    int ask;
    int answer;
};

/* Whether the subject's program was built. program is NULL for our own. */
bool child_program_exists(const char *program);

/* 0 or an errno value. */
int child_start(struct child *child, const char *program, const char *bench, const char *subject, unsigned workers);

/* One measurement of up to BENCH_FIGURES_MAX figures. 0: it failed, or the process has ended. */
size_t child_measure(const struct child *child, double *figures);

/* Make a measurement that is under way fail. Safe in a hook. */
void child_kill(const struct child *child);

void child_end(struct child *child);

#endif
