/* SPDX-License-Identifier: MIT
 *
 * A library that counts how often its work begins and ends, which shows how often it was left in its midst. */
#ifndef TESTS_BOUNDARY_LEFT_LIBRARY_H
#define TESTS_BOUNDARY_LEFT_LIBRARY_H

#include <stdatomic.h>

struct left_library {
    unsigned long begun, ended;
    unsigned long refused;        /* allocations that it saw fail */
    volatile atomic_bool ends;    /* what spin waits for */
    int (*work)(unsigned blocks); /* makes and frees this many blocks of 1,000 bytes; -1: one was refused, and the rest
                                     not made */
    void (*call)(void (*function)(void *), void *arg); /* and back */
    void (*spin)(void);                                /* without a sample point */
};

#define LEFT_LIBRARIES(X) X(unlisted) X(allowed) X(pattern) X(protected) X(variable)
#define DECLARE_LEFT_LIBRARY(name) extern struct left_library left_##name;
LEFT_LIBRARIES(DECLARE_LEFT_LIBRARY)

#endif
