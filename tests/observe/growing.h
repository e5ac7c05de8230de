/* SPDX-License-Identifier: MIT
 *
 * A task that grows until it is stopped, in calls that a report is to name. */
#ifndef STINT_TESTS_GROWING_H
#define STINT_TESTS_GROWING_H

#include "reports.h"

static volatile int sink;

/* Each call is followed by something, so that none is a tail call. */
NOINLINE static void *grow_list(void *list, size_t size)
{
    void **node = malloc(size);
    if (node == NULL)
        return NULL;
    *node = list;
    sink++;
    return node;
}

NOINLINE static int grow_for_ever(void *list)
{
    while (list != NULL)
        list = grow_list(list, 1000);
    sink++;
    return ENOMEM;
}

static int grow(void *arg, void **value)
{
    (void)value;
    int error = grow_for_ever(arg);
    sink++;
    return error;
}

#endif
