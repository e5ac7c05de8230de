/* SPDX-License-Identifier: MIT
 *
 * The table of docs/benchmarks.md. Main thread only. */
#ifndef BENCH_MARKDOWN_H
#define BENCH_MARKDOWN_H

#include <stdio.h>

#include "harness.h"

void markdown_begin(FILE *out);

/* A line for each of our subjects of the job. */
void markdown_print(const struct job *job, FILE *out);

#endif
