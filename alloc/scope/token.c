/* SPDX-License-Identifier: MIT
 *
 * Tokens, and their file descriptors; see interrupt/token.h. Any thread. */
#include <errno.h>
#include <stddef.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "alloc/interrupt/token.h"
#include "alloc/interrupt/watch.h"
#include "alloc/meter/allocate.h"
#include "alloc/platform/process.h"
#include "alloc/platform/thread.h"

/* --- Tokens. Any thread; setting and reading one also from signal handlers.
 *
 * A set is one store of the flag, then a request for a sample to every thread (thread.h): each thread in a scope either
 * sees the flag in the sample point it is in, or finds its limit at 0 and makes one at its next allocation. Nobody
 * registers with a token, so making, keeping and setting one costs nothing per task. */

int stint_token_create(stint_token *parent, stint_token **token)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    if (token == NULL)
        return EINVAL;
    if (!sti_record_charge(sizeof(stint_token), STI_CALLER()))
        return ENOMEM;
    stint_token *created = sti_process_malloc(sizeof *created);
    if (created == NULL)
        return ENOMEM;
    sti_token_init(created, parent);
    *token = created;
    return 0;
}

void stint_token_set(stint_token *token)
{
    if (sti_process_is_partial() || token == NULL)
        return;
    /* seq_cst: the flag of a request for samples (thread.h), and of the watch (watch.h). */
    atomic_store_explicit(&token->set, true, memory_order_seq_cst);
    sti_thread_request_samples();
    sti_watch_wake();
}

bool stint_token_is_set(const stint_token *token)
{
    return sti_token_is_set(token);
}

stint_token *stint_token_retain(stint_token *token)
{
    if (token != NULL)
        atomic_fetch_add_explicit(&token->references, 1, memory_order_relaxed);
    return token;
}

void stint_token_release(stint_token *token)
{
    if (sti_process_is_partial())
        return;
    /* acq_rel: the last one sees all that the others did with the token before it frees it. A parent may be freed in
     * turn: a loop, so that a long chain needs no stack. */
    while (token != NULL && atomic_fetch_sub_explicit(&token->references, 1, memory_order_acq_rel) == 1) {
        stint_token *parent = token->parent;
        sti_token_fd_end(atomic_load_explicit(&token->descriptor, memory_order_relaxed));
        sti_process_free(token);
        token = parent;
    }
}

/* --- A token's file descriptor for poll: an event descriptor that becomes readable when the token, or one above it, is
 * set. Made at the first call, written by the watch thread, closed with the token. Any thread. */

struct sti_token_fd {
    struct sti_watch watch;
    const stint_token *token;
    int descriptor;
    bool written;
};

static uint64_t look_at_token(struct sti_watch *watch, uint64_t now)
{
    (void)now;
    struct sti_token_fd *made = (struct sti_token_fd *)watch;
    if (!made->written && stint_token_is_set(made->token)) {
        made->written = true;
        eventfd_write(made->descriptor, 1);
    }
    return STI_WATCH_NEVER;
}

static bool tell_token(struct sti_watch *watch)
{
    const struct sti_token_fd *made = (const struct sti_token_fd *)watch;
    return !made->written && stint_token_is_set(made->token);
}

static int token_fd_make(const stint_token *token, struct sti_token_fd **result)
{
    struct sti_token_fd *made = sti_process_calloc(1, sizeof *made);
    if (made == NULL)
        return ENOMEM;
    made->watch.look = look_at_token;
    made->watch.tell = tell_token;
    made->token = token;
    made->descriptor = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int error = made->descriptor < 0 ? errno : sti_watch_begin(&made->watch, STI_WATCH_NEVER);
    if (error == 0)
        *result = made;
    else
        sti_token_fd_end(made);
    return error;
}

void sti_token_fd_end(struct sti_token_fd *made)
{
    if (made == NULL)
        return;
    sti_watch_end(&made->watch);
    if (made->descriptor >= 0)
        close(made->descriptor);
    sti_process_free(made);
}

int stint_token_fd(stint_token *token, int *descriptor)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    if (token == NULL || descriptor == NULL)
        return EINVAL;
    struct sti_token_fd *made = atomic_load_explicit(&token->descriptor, memory_order_acquire);
    if (made == NULL) {
        struct sti_token_fd *mine;
        int error = token_fd_make(token, &mine);
        if (error != 0)
            return error;
        /* release publishes ours; the thread that comes second throws its own away. */
        if (atomic_compare_exchange_strong_explicit(&token->descriptor, &made, mine, memory_order_acq_rel,
                                                    memory_order_acquire))
            made = mine;
        else
            sti_token_fd_end(mine);
        if (stint_token_is_set(token))
            sti_watch_wake();
    }
    *descriptor = made->descriptor;
    return 0;
}
