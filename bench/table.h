/* SPDX-License-Identifier: MIT
 *
 * The table for people. Main thread only. */
#ifndef BENCH_TABLE_H
#define BENCH_TABLE_H

#include <stdio.h>

#include "harness.h"

/* What the job has measured, the ratios, and whether the targets are met. Returns how many are missed. */
size_t table_print(const struct job *job, FILE *out);

#endif
