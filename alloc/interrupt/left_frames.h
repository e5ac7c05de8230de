/* SPDX-License-Identifier: MIT
 *
 * Frames that are left without a word to them: by a jump of the program's, or with forks that they made. What this
 * library keeps of them is ended first. Thread of the scope only. */
#ifndef STI_ALLOC_INTERRUPT_LEFT_FRAMES_H
#define STI_ALLOC_INTERRUPT_LEFT_FRAMES_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/base/scope_state.h"
#include "alloc/base/thread.h"

/* --- The way of a jump: which frames it leaves. A longjmp or setcontext passes frames without a word to them; but what
 * this library keeps of them (scopes, guards, hooks, forks, callbacks) knows where on the stack it lies. Calling thread
 * only.
 *
 * The frames between here and the target are walked, so a jump to another stack, which will be come back from, is told
 * from one that leaves frames for ever. Only jumps that may pass something are walked: some microseconds. */

#define STI_WAY_PARTS 4 /* stacks that signal handlers switched to */

struct sti_way {
    uintptr_t target; /* the stack pointer that is jumped to */
    uintptr_t lowest; /* the one that its frame has come to since: room that it took (alloca) lies between */
    unsigned count;
    struct {
        uintptr_t begin;
        uintptr_t end;
    } parts[STI_WAY_PARTS];
};

/* Walk from the caller to the target. False: the target's frame is none of those that have called this one. */
bool sti_way_find(struct sti_way *way, uintptr_t target);

/* Whether an object on the stack lies in a frame that is left. */
static inline bool sti_way_passes(const struct sti_way *way, uintptr_t address)
{
    for (unsigned i = 0; i < way->count; i++) {
        if (address >= way->parts[i].begin && address < way->parts[i].end)
            return true;
    }
    return false;
}

/* Whether a frame is left that had this stack pointer when it called somebody, or might have. */
static inline bool sti_way_passes_frame(const struct sti_way *way, uintptr_t stack_pointer)
{
    bool is_target_s = stack_pointer >= way->lowest && stack_pointer <= way->target;
    return !is_target_s && sti_way_passes(way, stack_pointer);
}

/* Before a jump to a frame with this stack pointer: whatever it passes is ended. A scope of stint_run is rolled back;
 * guards run, forks are taken back or waited for, hooks go. Does not return where the jump would leave a task of a
 * pool or a stolen subtask: that is where it ends then, with the signal mask that the jump would have set (NULL: none).
 * Where it would leave a callback, the program ends. */
void sti_way_leave(uintptr_t target, const sigset_t *mask);

/* --- Forks that only their own thread can run, in their joins: all of a thread that is no worker, and those of a
 * worker that find no slot. They are counted here, so that a scope that returns without joining them fails. In a scope
 * that a jump left frames of, those from before the jump are not missed. Thread of the forks only. */

extern _Thread_local size_t sti_own_forks __attribute__((visibility("hidden")));

/* Outside of all scopes nobody asks for them. */
static inline void sti_own_fork_begin(void)
{
    sti_own_forks += sti_thread_metered != NULL;
}

static inline void sti_own_fork_end(void)
{
    sti_own_forks -= sti_own_forks > 0;
}

/* --- What a thread's forks look like from below. The executor registers this for each of its threads that can fork, so
 * that a scope can settle the forks of frames that are left. Thread of the forks only, but for wake. */

struct sti_way;

struct sti_forks {
    /* How many forks of this thread are outstanding, not joined yet, in whatever unit the executor counts them. Written
     * by this thread only. Those of a scope lie above those that were there when it opened. */
    const size_t *outstanding;

    /* The frames that made all forks above the first kept ones are about to be left by an interrupt, or have returned
     * without joining them. Drop those that nobody has taken, wait for the others; afterwards *outstanding is kept. The
     * task has been interrupted, so those that were taken come to an end, and a stolen subtask that is started now
     * returns at once. Called inside the scope, masked, before its guards run; where the task is preemptible maybe in a
     * signal handler, which then interrupted the task's own code, inline functions of the executor included. Must not
     * fail. A join after all, by code that kept the unwinding from going on, finds them interrupted. */
    void (*settle)(struct sti_forks *forks, size_t kept);

    /* How many forks are outstanding up to the first, from that place on, of a frame that a jump leaves. */
    size_t (*not_left)(struct sti_forks *forks, size_t from, const struct sti_way *way);

    /* There may be something for the thread to collect (subtask.h), be it asleep. Any thread. */
    void (*wake)(struct sti_forks *forks);
};

/* Register for the calling thread, outside of scopes; NULL: no more. The record has to stay until no task is running
 * any more of which this thread ran a stolen subtask: in the pool's memory. 0, ENOMEM, or ENOTSUP
 * (sti_backend_check). */
int sti_forks_register(struct sti_forks *forks);

/* --- For scopes, and wake for any thread --- */

static inline size_t sti_forks_outstanding(struct sti_thread *thread)
{
    const struct sti_forks *forks = atomic_load_explicit(&thread->forks, memory_order_relaxed);
    return forks != NULL ? *forks->outstanding : 0;
}

static inline bool sti_forks_are_left(const struct sti_scope *scope)
{
    return __builtin_expect(sti_forks_outstanding(scope->thread) != scope->forks, 0) ||
           __builtin_expect(sti_own_forks > scope->own_forks, 0);
}

void sti_forks_wake(struct sti_thread *thread);

/* The scope's frames are about to be left: all of them, or those of the way, inside the scope. */
void sti_forks_settle(struct sti_scope *scope, const struct sti_way *way);

/* The scope's function has returned without joining all it forked. Ends its task; returns the error. */
int sti_forks_give_up(struct sti_scope *scope);

/* --- Scopes of stint_run whose frames are left. --- */

/* The thread's innermost scope is about to be left: by a jump, or as the thread ends. It is rolled back, and nobody
 * hears of its outcome. Thread of the scope. Set at start by the code that closes scopes. */
extern void (*sti_frames_abandon_scope)(struct sti_scope *scope) __attribute__((visibility("hidden")));

/* Below such a scope lie frames of a pool's, which nothing may leave. */
static inline bool sti_frames_are_of_a_pool(const struct sti_scope *scope)
{
    return scope->is_subtask || scope->request->detached;
}

#endif
