/* SPDX-License-Identifier: MIT
 *
 * The mailbox; see mailbox.h. */
#include "mailbox.h"

#include <errno.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

int mailbox_open(struct mailbox *mailbox)
{
    atomic_init(&mailbox->first, NULL);
    mailbox->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return mailbox->fd < 0 ? errno : 0;
}

void mailbox_close(struct mailbox *mailbox)
{
    close(mailbox->fd);
}

/* Who finds the list empty wakes the loop: what is pushed on top of others comes with them. */
void mailbox_post(struct mailbox *mailbox, struct mail *mail)
{
    if (atomic_exchange_explicit(&mail->posted, true, memory_order_acq_rel))
        return;
    struct mail *first = atomic_load_explicit(&mailbox->first, memory_order_relaxed);
    do {
        mail->next = first;
    } while (!atomic_compare_exchange_weak_explicit(&mailbox->first, &first, mail, memory_order_release,
                                                    memory_order_relaxed));
    if (!first) {
        uint64_t one = 1;
        /* It fails only where the counter is full, and then the loop is being woken. */
        ssize_t written = write(mailbox->fd, &one, sizeof one);
        (void)written;
    }
}

struct mail *mailbox_take(struct mailbox *mailbox)
{
    uint64_t count;
    ssize_t got = read(mailbox->fd, &count, sizeof count);
    (void)got;
    struct mail *newest = atomic_exchange_explicit(&mailbox->first, NULL, memory_order_acquire);
    struct mail *oldest = NULL;
    while (newest) {
        struct mail *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    return oldest;
}
