/* SPDX-License-Identifier: MIT
 *
 * Libraries made for the tests of masking: they know nothing of tasks, and do what careless libraries do. The test
 * loads them by name; masking_hook is the test's. */
#ifndef TESTS_MASKING_LIBRARY_H
#define TESTS_MASKING_LIBRARY_H

/* In the test program: what a library calls back in the middle of its work. */
void masking_hook(void);

/* A block that holds MASKING_CONTENT, made at the first call and kept from then on: in a static variable, in a
 * thread-local one, as a specific value. */
#define MASKING_CONTENT "made once"
#define MASKING_SIZE 1000
const char *masking_static(void);
const char *masking_thread_local(void);
const char *masking_specific(void);

/* The same, but the specific value is set before it is whole, with the hook called in between. */
const char *masking_set_early(void);

/* Calls the hook while it is busy. */
void masking_work(void);
int masking_is_busy(void);

/* The first byte of a large thread-local variable. */
char *masking_large_thread_local(void);

#endif
