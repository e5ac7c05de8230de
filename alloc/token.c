/* SPDX-License-Identifier: MIT
 *
 * Tokens. Any thread; setting and reading one also from signal handlers.
 *
 * A set is one store of the flag, then a poke of every thread (thread.h): each thread in a scope either sees the flag
 * in the sample point it is in, or finds its limit at 0 and makes one at its next allocation. Nobody registers with a
 * token, so making, keeping and setting one costs nothing per task. */
#include "token.h"

#include <errno.h>

#include "process.h"
#include "record.h"
#include "thread.h"
#include "watch.h"

int stint_token_create(stint_token **token, stint_token *parent)
{
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
    if (token == NULL)
        return;
    /* seq_cst: before the pokes in the one order that the threads' own limit stores and flag loads are in too. */
    atomic_store_explicit(&token->set, true, memory_order_seq_cst);
    sti_thread_poke_all();
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
    /* acq_rel: the last one sees all that the others did with the token before it frees it. A parent may be freed in
     * turn: a loop, so that a long chain needs no stack. */
    while (token != NULL && atomic_fetch_sub_explicit(&token->references, 1, memory_order_acq_rel) == 1) {
        stint_token *parent = token->parent;
        sti_token_descriptor_end(atomic_load_explicit(&token->descriptor, memory_order_relaxed));
        sti_process_free(token);
        token = parent;
    }
}
