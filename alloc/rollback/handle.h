/* SPDX-License-Identifier: MIT
 *
 * What a task has opened: handles of libc, which a rollback closes. */
#ifndef STI_ALLOC_ROLLBACK_HANDLE_H
#define STI_ALLOC_ROLLBACK_HANDLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- Handles of libc's that a scope has opened: a FILE, a DIR, a compiled regular expression. What lies behind one is
 * libc's memory, and a descriptor or a mapping besides, so no rollback of a heap takes it back; and a stream into a
 * block of the task's would go on writing there. So the overrides of the functions that open one note it here, and a
 * rollback calls what closes it, before the task's memory goes. A commit forgets them: then they are the caller's, or
 * the scope's around it.
 *
 * A handle that a variable still points to is left open, as a heap would be kept (roots.h): a library may have made it
 * once for the process. So are all of a task's where a root points into what it leaves.
 *
 * Any thread may close a handle. One lock for all: beside what it costs to open one, that is nothing. */

struct sti_scope;
struct sti_thread;

/* What a rollback does; copy is what was noted with the handle. Outside of scopes, by the thread that rolls back. */
typedef void sti_handle_fn(void *key, void *copy);
struct sti_handle_kind {
    sti_handle_fn *close;
    sti_handle_fn *leave; /* it is left open: have it touch none of the task's memory. NULL: it does not. copy stays */
    bool calls_back;      /* to close it calls what the user has written */
};

struct sti_handle {
    void *key; /* an address that no other open handle has */
    const struct sti_handle_kind *kind;
    struct sti_scope *scope;          /* whose it is; NULL: a group's */
    const struct sti_thread *thread;  /* that scope's */
    struct sti_handle *next;          /* of the scope's, newest first */
    struct sti_handle **link;         /* what points to it */
    struct sti_handle *next_of_table; /* with the same hash */
    _Alignas(max_align_t) unsigned char copy[];
};

/* The calling thread's innermost scope has opened it; outside of scopes, between stint_keep_begin and stint_keep_end,
 * and without memory for this it is the process's. */
void sti_handle_add(void *key, const struct sti_handle_kind *kind, const void *copy, size_t size);

extern atomic_size_t sti_handle_count __attribute__((visibility("hidden")));
struct sti_handle *sti_handle_take_noted(const void *key);
void sti_handle_drop(struct sti_handle *handle);

/* It is about to be closed, or handed over. NULL: no scope's; otherwise to be dropped. */
static inline struct sti_handle *sti_handle_take(const void *key)
{
    /* relaxed: the thread that closes a handle has it from the one that opened it */
    if (__builtin_expect(atomic_load_explicit(&sti_handle_count, memory_order_relaxed) == 0, 1))
        return NULL;
    return sti_handle_take_noted(key);
}

/* The same where nothing was noted with it. True: it was a scope's. */
static inline bool sti_handle_forget(const void *key)
{
    struct sti_handle *handle = sti_handle_take(key);
    if (__builtin_expect(handle == NULL, 1))
        return false;
    sti_handle_drop(handle);
    return true;
}

/* The scope is rolled back, with its heaps still there: close what it has open. True: the roots have been scanned for
 * that, and none leads into the heaps. Its thread, outside of it. */
bool sti_handles_rollback(struct sti_scope *scope, const char *task);

/* It is committed: what it has open is the scope's around it, or nobody's. */
void sti_handles_commit(struct sti_scope *scope, struct sti_scope *outer);

/* The thread ends, in scopes that will never end: nothing of them may be touched any more. */
void sti_handles_end_thread(const struct sti_thread *thread);

/* From one list to another, whose scope this is; NULL: a group's, to which any thread of it may move at any time. */
void sti_handles_move(struct sti_handle **from, struct sti_handle **to, struct sti_scope *scope);

#endif
