/* SPDX-License-Identifier: MIT
 *
 * What follows tasks that expired. The watch's thread, which ends them (monitor.h), is one for the process and keeps all
 * its deadlines: so it resolves the futures and wakes who sleeps, and hands what follows, which may be the application's
 * code, to a thread of the pool. That is started at the first need, sleeps in between and ends with the pool. One pool's
 * slow callbacks delay nobody's deadline; they delay those of the same pool that come after them. */
#ifndef STI_EXECUTOR_EXPIRED_H
#define STI_EXECUTOR_EXPIRED_H

#include <pthread.h>
#include <stdbool.h>

struct sti_line_turn;

struct sti_expired {
    pthread_mutex_t lock; /* for the rest */
    pthread_cond_t changed;
    struct sti_line_turn *first; /* the line */
    struct sti_line_turn *last;
    pthread_t thread;
    bool started;
    bool ending;
};

void sti_expired_init(struct sti_expired *expired);

/* Nothing is handed over any more. Returns when all of it has run. */
void sti_expired_end(struct sti_expired *expired);

/* Have the line (sti_follow_let_go) run. Where no thread can be started it is run here. The watch's thread. */
void sti_expired_hand_over(struct sti_expired *expired, struct sti_line_turn *line);

#endif
