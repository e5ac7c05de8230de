/* SPDX-License-Identifier: MIT
 *
 * Tokens from the inside: for scopes, which look at them, and for the executor, which embeds them in its tasks. */
#ifndef STI_ALLOC_INTERRUPT_TOKEN_H
#define STI_ALLOC_INTERRUPT_TOKEN_H

#include <stdatomic.h>
#include <stddef.h>
#include <stint/token.h>

struct sti_token_fd;

struct stint_token {
    atomic_bool set;
    atomic_uint references;
    stint_token *parent;
    _Atomic(struct sti_token_fd *) descriptor; /* NULL until somebody asks for it */
};

static inline bool sti_token_is_set(const stint_token *token)
{
    for (; token != NULL; token = token->parent) {
        if (atomic_load_explicit(&token->set, memory_order_seq_cst))
            return true;
    }
    return false;
}

/* A token inside somebody else's memory, with one reference that is never given back; parent is retained. */
static inline void sti_token_init(stint_token *token, stint_token *parent)
{
    atomic_init(&token->set, false);
    atomic_init(&token->references, 1);
    token->parent = parent;
    atomic_init(&token->descriptor, NULL);
    if (parent != NULL)
        stint_token_retain(parent);
}

/* End an embedded token: gives the parent back. Nobody may look at it any more. */
static inline void sti_token_end(stint_token *token)
{
    if (token->parent != NULL)
        stint_token_release(token->parent);
}

/* The token goes; NULL: it had none. */
void sti_token_fd_end(struct sti_token_fd *made);

#endif
