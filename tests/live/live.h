/* SPDX-License-Identifier: MIT
 *
 * The library's live records, as tests see them: blocks that it has got for itself and not freed, but for those that
 * are to last (alloc/platform/process.h), and what the watch looks after. Any thread.
 *
 * Weak: a program that is linked with the library as everybody has it counts nothing. */
#ifndef TESTS_LIVE_LIVE_H
#define TESTS_LIVE_LIVE_H

#include <stddef.h>
#include <stdint.h>

/* Later records have a larger number than this. */
__attribute__((weak, visibility("default"))) uint64_t live_number(void);

/* How many of those with larger numbers there are. */
__attribute__((weak, visibility("default"))) size_t live_since(uint64_t number);

/* Prints the makers on stderr. */
__attribute__((weak, visibility("default"))) void live_tell(uint64_t number);

#endif
