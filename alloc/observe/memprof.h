/* SPDX-License-Identifier: MIT
 *
 * What the files of the profiler share: the running profile, and calls of the user's tracker. Each function says its
 * thread.
 *
 * Stop. A thread that reads the profile, or holds a followed block, is a user of the profile meanwhile. To stop is to
 * take the profile's number away, to wait until there is no user, and to take all that is left out of the set. Between
 * users and the stopping thread there is a handshake (thread.h):
 *
 *   user:     count + 1 (seq_cst) ... load number (seq_cst): is it that profile's?
 *   stopping: store 0 into number (seq_cst) ... load count (seq_cst): is it 0?
 *
 * A block can be added by a user of the running profile only, so that after the wait the set can only shrink. */
#ifndef STI_ALLOC_OBSERVE_MEMPROF_H
#define STI_ALLOC_OBSERVE_MEMPROF_H

#include <stdbool.h>
#include <stdint.h>
#include <stint/observe.h>

#include "alloc/platform/backend.h"
#include "alloc/platform/sampling.h"

struct sti_rate;
struct sti_tracked;

/* The profile's options, with the interval filled in. Constant while it has users, but for the count. */
extern struct sti_memprof_settings {
    stint_memprof_options options;
    double interval;
    _Atomic uint64_t joined; /* threads so far; each has a seed of its own */
} sti_memprof_settings;

/* Be a user. The first: of this profile; false: it does not run any more, and nothing is to be left. The second: of
 * what is in the set. Any thread. */
bool sti_memprof_enter(uint64_t profile);
void sti_memprof_hold(void);
void sti_memprof_leave(void);

/* Is the calling thread in a callback, or paused? */
bool sti_memprof_is_calling(void);

/* The calling thread behaves as in a callback: nothing is sampled, nothing charged, and interrupts wait. The thread is
 * a user meanwhile, so that the tracker is still there for what the thread frees. Calling thread; does not nest. */
struct sti_memprof_pause {
    struct sti_thread *counted;
    struct sti_scope *masked;
    int saved_errno;
};
struct sti_memprof_pause sti_memprof_pause_begin(void);
void sti_memprof_pause_end(const struct sti_memprof_pause *pause);

/* Call the user's functions, masked and with sampling off. Calling thread, which is a user. alloc is not to be called
 * in a callback; there dealloc waits until that has ended. dealloc frees the entry. */
void *sti_memprof_call_alloc(const stint_memprof_allocation *allocation);
void *sti_memprof_call_promote(void *metadata);
void sti_memprof_call_dealloc(struct sti_tracked *entry);

/* A block that may be followed has come to this end: as a sample of the profile, and of a rate. Any thread. */
void sti_memprof_end_block(const void *block, stint_memprof_end end);

/* Make room in the log of the thread for one more block; then note it, before it is in the set. The thread's own. */
bool sti_memprof_reserve_log(struct sti_sampling *sampling);
void sti_memprof_log(struct sti_sampling *sampling, const struct sti_tracked *entry, const sti_backend_heap *heap);

/* Take the blocks of a rate (followed.h) out of the set, and out of the log. The thread's own. */
void sti_memprof_drop_logged(struct sti_sampling *sampling, const struct sti_rate *rate);

/* Show what is followed of blocks in heaps of the thread's, each with a struct sti_profile_share, and the bytes from
 * one sample to the next: of the rate in force in the scope, or else of the profile that runs. False: there is neither,
 * or the profile has another tracker. The thread's own. */
bool sti_memprof_show(const struct sti_scope *scope, double *interval,
                      void (*show)(uintptr_t block, const void *metadata, void *arg), void *arg);

/* Hooks of sampling (hooks.h). */
void sti_memprof_end_logged(struct sti_thread *thread, const struct sti_heap *list, bool committed);
void sti_memprof_end_single(const void *block);
void sti_memprof_end_thread(struct sti_sampling *sampling);

/* In the child of a fork(2). */
void sti_memprof_in_child(void);

#endif
