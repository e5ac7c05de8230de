/* SPDX-License-Identifier: MIT
 *
 * The undo log: what a task does beside its memory, and a rollback undoes. Each function says its thread. */
#ifndef STI_ALLOC_ROLLBACK_UNDO_H
#define STI_ALLOC_ROLLBACK_UNDO_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "alloc/platform/process.h"

/* --- A scope's log. The overrides of the functions that change something (override_thread.c,
 * interpose/override_handle.c) note the change in the log of the innermost scope, with what undoes it. A rollback
 * undoes all that is noted, the newest first, before the task's memory goes; a commit drops it; an inner scope that
 * ends Ok appends its log to that of the scope around it. There are three sorts:
 *
 * - what is the thread's own: a thread-specific value, the locale, the signal mask, cancellation. Only that thread can
 *   undo it. Of several changes in a scope the first is noted, which knows how it was before.
 * - what the kernel has been told of pages of the task's heaps: before others get them they are pages like any other
 *   (interpose/override_mapping.c).
 * - a handle of libc's: a FILE, a DIR, a regex_t. What lies behind one is libc's memory, and a descriptor besides, so
 *   no rollback of a heap takes it back; and a stream into a block of the task's would go on writing there. Any thread
 *   may close a handle, which ends its entry. One that a variable still leads to is left open, as a heap would be kept
 *   (roots.h): a library may have made it once for the process.
 *
 * (Mappings have a record of their own, since parts of one can be unmapped: mapping.h.) */

struct sti_scope;
struct sti_thread;
struct sti_undo_log;

/* Outside of the scope, by the thread that rolls it back. before: a copy of what was noted, which the entry has. */
typedef void sti_undo_fn(struct sti_scope *scope, void *key, void *before);

enum sti_undo_sort {
    STI_UNDO_OF_THREAD, /* the thread's own */
    STI_UNDO_OF_PAGES,
    STI_UNDO_OF_LIBC, /* a handle, whose key is an address that no other open one has */
};

struct sti_undo_kind {
    size_t size;   /* of what is noted */
    unsigned rule; /* of caller.h; 0: none */
    enum sti_undo_sort sort;
    sti_undo_fn *undo;
    bool (*leave)(void *key, void *before); /* a handle is left open: have it touch none of the task's memory. True: it
                                               needs the entry from now on. NULL: it touches none */
};

/* The calling thread's innermost scope has changed this, or is about to. Outside of scopes, and between
 * stint_keep_begin and stint_keep_end, it is changed for good. False: out of memory, and it is not noted. */
bool sti_undo_add(const struct sti_undo_kind *kind, void *key, const void *before);

extern atomic_size_t sti_undo_count __attribute__((visibility("hidden")));
bool sti_undo_end_noted(const struct sti_undo_kind *kind, const void *key, void *before);

/* There is nothing to undo any more: the handle is about to be closed, or the key deleted, in which case it is ended
 * for all threads. True: the calling thread's innermost scope had noted it; before (may be NULL) gets what. Any
 * thread. */
static inline bool sti_undo_end(const struct sti_undo_kind *kind, const void *key, void *before)
{
    /* relaxed: the thread that closes a handle has it from the one that opened it. In part of a process (process.h) the
     * lock may be held for ever */
    if (__builtin_expect(atomic_load_explicit(&sti_undo_count, memory_order_relaxed) == 0, 1) ||
        sti_process_is_partial())
        return false;
    return sti_undo_end_noted(kind, key, before);
}

/* The scope ends, with its heaps still there. Its thread, outside of it. */
void sti_undo_commit(struct sti_scope *scope);
void sti_undo_rollback(struct sti_scope *scope, const char *task);

/* A task on several threads. The scope of a stolen subtask ends, and its thread goes on to something else before the
 * outcome is known: what is the thread's own is undone now, the handles are the group's. And the task ends: they are
 * its scope's. Their thread. */
void sti_undo_hand_in(struct sti_scope *subtask, struct sti_undo_log **group);
void sti_undo_take_over(struct sti_undo_log **group, struct sti_scope *scope);

#endif
