/* SPDX-License-Identifier: MIT
 *
 * What the library does around a fork(2). */
#ifndef STI_EXECUTOR_START_FORKS_H
#define STI_EXECUTOR_START_FORKS_H

/* At start: hear of each fork(2). */
void sti_forks_start(void);

#endif
