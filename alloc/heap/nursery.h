/* SPDX-License-Identifier: MIT
 *
 * The nursery of a thread: a heap that the small tasks of a thread share, one after the other. So what each leaves lies
 * packed with what others left, and a small task costs neither a heap's birth nor its end. Thread of the nursery only.
 *
 * A scope is young until it has allocated 256 blocks or 32 KiB there, or asks for a block above 80 KiB; then it
 * moves on to a heap of its own. While it is young each of its blocks is written down in the nursery's log, above those
 * of the scopes around it. A commit forgets them: the blocks stay where they are, and are the process's. A rollback
 * frees those that live.
 *
 * Which live? Others may have freed some meanwhile, and the scope may have got the same memory again; but nobody except
 * the scope, and those inside it, has allocated in the nursery since it opened. So a logged block that a walk of the
 * heap finds alive is the scope's. To keep that true, a scope that opens on top of another task's (one that waits
 * meanwhile) gets another nursery while there is anything in the log; so that walks stay short, there is a new one when
 * much was left in the old one. mimalloc gives up none of its pages while the thread lives (backend.h): so others may
 * free what earlier tasks have left while the blocks are walked.
 *
 * What stint_result_malloc makes lies there too, however old its scope is, up to that size. */
#ifndef STI_ALLOC_HEAP_NURSERY_H
#define STI_ALLOC_HEAP_NURSERY_H

#include <stdbool.h>
#include <stddef.h>

#include "alloc/platform/backend.h"
#include "alloc/platform/scope_state.h"

struct sti_heap;
struct sti_nursery;
struct sti_scope;
struct sti_thread;

/* The scope, no stolen subtask inside another scope of its task, opens as the thread's innermost. no_nursery: it is
 * never young. */
void sti_nursery_open(struct sti_thread *thread, struct sti_scope *scope, bool no_nursery);

/* A block for the innermost scope, while that is young. NULL: it is not, or not with this block; or there is no
 * memory. */
void *sti_nursery_malloc(struct sti_thread *thread, size_t size);

/* False: the innermost scope has no nursery, or the block is too large. */
bool sti_nursery_takes_result(const struct sti_thread *thread, size_t size);

/* A block for it, however many it has. NULL: out of memory. */
void *sti_nursery_malloc_result(struct sti_thread *thread, size_t size);

/* The innermost scope's blocks are the process's from now on, or those of the scope around it. */
void sti_nursery_commit(struct sti_thread *thread, struct sti_scope *scope);

/* To roll them back: returns those that live, as single blocks, or NULL: there are none. */
struct sti_heap *sti_nursery_begin_rollback(struct sti_thread *thread, struct sti_scope *scope);

/* Those of a scope, and of all that are open inside it, that live now; nothing changes. NULL: none, or out of
 * memory. */
struct sti_heap *sti_nursery_list(struct sti_thread *thread, const struct sti_scope *scope);

/* Is it the heap of one that the thread has in use? */
bool sti_nursery_has(const struct sti_thread *thread, const sti_backend_heap *backend);

/* Whether young blocks live is not looked at in the end where they hold no more than this: those of a task that has
 * none above 4 KiB never do. */
#define STI_NURSERY_LOOKED_AT ((size_t)36 << 10)

/* Bring what is known of the scope's held up to date. It, and scopes inside it, are open. */
void sti_nursery_measure(struct sti_thread *thread, struct sti_scope *scope);

/* For heap.h's functions of these names. */
void sti_nursery_give_back(struct sti_thread *thread);
void sti_nursery_end_thread(struct sti_thread *thread);

#endif
