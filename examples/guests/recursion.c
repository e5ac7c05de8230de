/* SPDX-License-Identifier: MIT
 *
 * A bad one: calls itself for ever, with a lock held. */
#include "plugin.h"

#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int go_down(volatile int *above)
{
    volatile int level = *above + 1;
    return level != 0 ? go_down(&level) + level : 0;
}

int plugin_run(const char *text, size_t size, char *answer, size_t room)
{
    volatile int top = 0;
    (void)text;
    (void)size;
    (void)answer;
    (void)room;
    pthread_mutex_lock(&lock);
    return go_down(&top);
}
