/* SPDX-License-Identifier: MIT
 *
 * Work that several programs do, each with its own allocator. Each makes one measurement. One thread. */
#ifndef BENCH_WORK_H
#define BENCH_WORK_H

#include <stddef.h>

#include "serve.h"

/* Nanoseconds for a free and a malloc of a small block. Of 512 blocks, which stay in the first cache. */
size_t work_pair(double *figures);
/* The same of 65,536 blocks, which are also written to, as programs do. */
size_t work_used(double *figures);
void work_pair_prepare(unsigned workers);

/* Nanoseconds for a lock and an unlock of an uncontended mutex. */
size_t work_mutex(double *figures);
/* A process that never had a second thread is no fair measure: libc leaves out the atomic instructions. */
void work_mutex_prepare(unsigned workers);

/* Nanoseconds for an mmap of 64 KiB, a write to its first page, and the munmap. */
size_t work_map(double *figures);

/* Milliseconds of processor time for some work of a library, from its first allocation to its last free. */
size_t work_sqlite(double *figures);
size_t work_xml(double *figures);
size_t work_lua(double *figures);
size_t work_json(double *figures);
void work_app_prepare(unsigned workers);

/* In place of the time, the page faults of this thread in a measurement of such work, after a pause of 40
 * milliseconds: what an allocator gave back meanwhile has to be had again. */
size_t work_faults(bench_measure_fn *work, double *figures);
size_t work_sqlite_faults(double *figures);

/* Ten blocks of mixed small sizes, made and freed one by one. */
void work_ten_pairs(void);

/* A document of 4 KB, always the same, and its parsing: how many elements it has, or -1. */
const char *work_order(size_t *size);
int work_parse_order(const char *order, size_t size);
void work_parse_first(unsigned workers);

/* Parse a billion laughs, which takes more memory than there is. Returns if an allocation fails. */
void work_billion_laughs(void);

/* Fill 256 MB, to be held until the process ends. */
void work_hold_much(unsigned workers);

#endif
