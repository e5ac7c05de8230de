/* SPDX-License-Identifier: MIT
 *
 * What other threads of the program allocate. */
#ifndef RUN_METERED_THREADS_H
#define RUN_METERED_THREADS_H

#include "record.h"

/* The main thread's task begins: from now on each thread that starts charges what it allocates to the account. */
void threads_begin(struct record *record, stint_account *account);

/* Bytes that all have allocated, and up to 256 KiB more for each that is alive; 0: there was none. With what the task
 * has charged, if that charges the account. */
uint64_t threads_allocated(void);

/* One has ended after it was refused what the account does not allow. */
bool threads_passed_limit(void);

#endif
