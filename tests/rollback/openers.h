/* SPDX-License-Identifier: MIT
 *
 * For tests of descriptors that a task owns: which are open, and functions that open one in a way of their own. */
#ifndef TESTS_ROLLBACK_OPENERS_H
#define TESTS_ROLLBACK_OPENERS_H

#include "support.h"

#include <fcntl.h>

static inline int open_descriptors(void)
{
    int count = 0;
    for (int i = 0; i < 256; i++)
        count += fcntl(i, F_GETFD) >= 0;
    return count;
}

static inline bool is_open(int descriptor)
{
    return fcntl(descriptor, F_GETFD) >= 0;
}

typedef int open_fn(void);

#define OPENER(name, expression)                                                                                       \
    static int open_by_##name(void)                                                                                    \
    {                                                                                                                  \
        return expression;                                                                                             \
    }

#endif
