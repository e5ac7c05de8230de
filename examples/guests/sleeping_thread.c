/* SPDX-License-Identifier: MIT
 *
 * A bad one: waits for a thread that sleeps for ever. */
#include "plugin.h"

#include <errno.h>
#include <pthread.h>
#include <unistd.h>

static void *sleep_on(void *unused)
{
    for (;;)
        pause();
    return unused;
}

int plugin_run(const char *text, size_t size, char *answer, size_t room)
{
    pthread_t thread;
    (void)text;
    (void)size;
    (void)answer;
    (void)room;
    int error = pthread_create(&thread, NULL, sleep_on, NULL);
    return error != 0 ? error : pthread_join(thread, NULL);
}
