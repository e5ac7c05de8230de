/* SPDX-License-Identifier: MIT
 *
 * The undo log of thread-specific values. A library that keeps its per-thread state behind a key (libxml2 does) makes it
 * at its first use on a thread; made inside a scope that is rolled back, it is gone, so the key must get its old value
 * back. Thread of the scope only. */
#ifndef STI_ALLOC_SPECIFIC_H
#define STI_ALLOC_SPECIFIC_H

#include <pthread.h>
#include <stdbool.h>

struct sti_scope;

struct sti_specific_undo {
    struct sti_specific_undo *next; /* older */
    void *value;                    /* before the scope first set the key */
    pthread_key_t key;
};

/* Before a key is set inside the scope. False: out of memory, do not set it. */
bool sti_specific_record(struct sti_scope *scope, pthread_key_t key);

/* A key is about to be deleted: its number may come back as another key. */
void sti_specific_forget(struct sti_scope *innermost, pthread_key_t key);

/* The scope ends: give the keys their old values back, or keep the new ones (for good, or until outer ends). */
void sti_specific_rollback(struct sti_scope *scope);
void sti_specific_commit(struct sti_scope *scope);

/* libc's own pthread_setspecific, whatever this library overrides. Returns what that returns. */
int sti_specific_set_plain(pthread_key_t key, const void *value);

#endif
