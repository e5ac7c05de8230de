/* SPDX-License-Identifier: MIT
 *
 * The mailbox: threads tell the event loop that a query has something for it. What has been posted and not yet been
 * taken is not posted again, so that there is no more mail than there are queries.
 *
 * A list that is only pushed to and emptied at once (Treiber 1986, without the problem of reuse, as nobody pops one).
 * posted: false -> true by the thread that then pushes; true -> false by the loop before it looks at the query, so what
 * is said after that look is posted again. */
#ifndef SERVER_MAILBOX_H
#define SERVER_MAILBOX_H

#include <stdatomic.h>
#include <stdbool.h>

struct mail {
    atomic_bool posted;
    struct mail *next;
};

struct mailbox {
    _Atomic(struct mail *) first;
    int fd; /* an eventfd: readable when there may be mail */
};

/* 0 or an errno value. */
int mailbox_open(struct mailbox *mailbox);
void mailbox_close(struct mailbox *mailbox);

/* Any thread, in a task masked. Allocates nothing and does not block. */
void mailbox_post(struct mailbox *mailbox, struct mail *mail);

/* The loop: all that has been posted, linked by next, the oldest first. Each may be posted again as soon as its posted
 * is false, so read next before. */
struct mail *mailbox_take(struct mailbox *mailbox);

#endif
