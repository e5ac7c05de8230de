/* SPDX-License-Identifier: MIT
 *
 * A token's file descriptor for poll: an event descriptor that becomes readable when the token, or one above it, is set.
 * Made at the first call, written by the watch thread, closed with the token. Any thread. */
#include <errno.h>
#include <stddef.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "process.h"
#include "token.h"
#include "watch.h"

struct sti_token_descriptor {
    struct sti_watch watch;
    const stint_token *token;
    int descriptor;
    bool written;
};

static uint64_t look_at_token(struct sti_watch *watch, uint64_t now)
{
    (void)now;
    struct sti_token_descriptor *made = (struct sti_token_descriptor *)watch;
    if (!made->written && stint_token_is_set(made->token)) {
        made->written = true;
        eventfd_write(made->descriptor, 1);
    }
    return STI_WATCH_NEVER;
}

static int make(const stint_token *token, struct sti_token_descriptor **result)
{
    struct sti_token_descriptor *made = sti_process_calloc(1, sizeof *made);
    if (made == NULL)
        return ENOMEM;
    made->watch.look = look_at_token;
    made->token = token;
    made->descriptor = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int error = made->descriptor < 0 ? errno : sti_watch_begin(&made->watch, STI_WATCH_NEVER);
    if (error != 0) {
        if (made->descriptor >= 0)
            close(made->descriptor);
        sti_process_free(made);
        return error;
    }
    *result = made;
    return 0;
}

void sti_token_descriptor_end(struct sti_token_descriptor *made)
{
    if (made == NULL)
        return;
    sti_watch_end(&made->watch);
    close(made->descriptor);
    sti_process_free(made);
}

int stint_token_descriptor(stint_token *token, int *descriptor)
{
    if (token == NULL || descriptor == NULL)
        return EINVAL;
    struct sti_token_descriptor *made = atomic_load_explicit(&token->descriptor, memory_order_acquire);
    if (made == NULL) {
        struct sti_token_descriptor *mine;
        int error = make(token, &mine);
        if (error != 0)
            return error;
        /* release publishes ours; who comes second throws his away. */
        if (atomic_compare_exchange_strong_explicit(&token->descriptor, &made, mine, memory_order_acq_rel,
                                                    memory_order_acquire))
            made = mine;
        else
            sti_token_descriptor_end(mine);
        if (stint_token_is_set(token))
            sti_watch_wake();
    }
    *descriptor = made->descriptor;
    return 0;
}
