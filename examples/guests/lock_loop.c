/* SPDX-License-Identifier: MIT
 *
 * A bad one: loops, with a lock held. */
#include "plugin.h"

#include <pthread.h>
#include <stdbool.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile bool done;

int plugin_run(const char *text, size_t size, char *answer, size_t room)
{
    (void)text;
    (void)size;
    (void)answer;
    (void)room;
    pthread_mutex_lock(&lock);
    while (!done)
        ;
    pthread_mutex_unlock(&lock);
    return 0;
}
