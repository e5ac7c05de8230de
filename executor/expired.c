/* SPDX-License-Identifier: MIT
 *
 * The thread that runs what follows expired tasks; see expired.h. It inherits the signal mask of the watch's thread, which
 * blocks all: signals are for the application's threads. */
#include "expired.h"

#include <stddef.h>

#include "follow.h"

void sti_expired_init(struct sti_expired *expired)
{
    pthread_mutex_init(&expired->lock, NULL);
    pthread_cond_init(&expired->changed, NULL);
    expired->first = NULL;
    expired->last = NULL;
    expired->started = false;
    expired->ending = false;
}

static struct sti_line_turn *take_line(struct sti_expired *expired)
{
    pthread_mutex_lock(&expired->lock);
    while (expired->first == NULL && !expired->ending)
        pthread_cond_wait(&expired->changed, &expired->lock);
    struct sti_line_turn *line = expired->first;
    expired->first = NULL;
    pthread_mutex_unlock(&expired->lock);
    return line;
}

static void *run_lines(void *argument)
{
    struct sti_expired *expired = argument;
    struct sti_line_turn *line;
    while ((line = take_line(expired)) != NULL)
        sti_follow_run(line);
    return NULL;
}

static bool have_thread(struct sti_expired *expired)
{
    if (!expired->started && pthread_create(&expired->thread, NULL, run_lines, expired) == 0) {
        pthread_setname_np(expired->thread, "stint-expired");
        expired->started = true;
    }
    return expired->started;
}

static void append(struct sti_expired *expired, struct sti_line_turn *line)
{
    *(expired->first != NULL ? &expired->last->next : &expired->first) = line;
    while (line->next != NULL)
        line = line->next;
    expired->last = line;
}

void sti_expired_hand_over(struct sti_expired *expired, struct sti_line_turn *line)
{
    if (line == NULL)
        return;
    pthread_mutex_lock(&expired->lock);
    bool handed = have_thread(expired);
    if (handed)
        append(expired, line);
    pthread_cond_signal(&expired->changed);
    pthread_mutex_unlock(&expired->lock);
    if (!handed)
        sti_follow_run(line);
}

void sti_expired_end(struct sti_expired *expired)
{
    pthread_mutex_lock(&expired->lock);
    expired->ending = true;
    pthread_cond_signal(&expired->changed);
    pthread_mutex_unlock(&expired->lock);
    if (expired->started)
        pthread_join(expired->thread, NULL);
    pthread_cond_destroy(&expired->changed);
    pthread_mutex_destroy(&expired->lock);
}
