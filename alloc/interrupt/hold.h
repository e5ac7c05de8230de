/* SPDX-License-Identifier: MIT
 *
 * What the task's code holds at this instant, and what it has left open: locks, a once or a static initialiser that is
 * being run. While a scope holds anything, interrupts of it and of the scopes around it have to wait: for what, is told
 * to those who ask. Thread of the scope only, unless a function says otherwise.
 *
 * Objects are remembered by address, so that a lock from before the scope that is released inside it is not taken for
 * one of the scope's. A few are; beyond that they are only counted.
 *
 * Locks, of which there may be one around everything that a library does, are as a rule only counted, in one counter a
 * thread, in scopes and outside:
 *
 *   0 or more  so many are held that no scope remembers: by the innermost scope, or outside of scopes. A scope that
 *              opens when nothing is held owns all that is counted until it ends, so it holds a lock exactly when the
 *              counter is not 0.
 *   negative   the locks are remembered by address, since the counter cannot tell whose they are: a scope has opened
 *              while something was held, and has not ended. STI_HOLD_NAMED and what was held outside of scopes.
 *
 * A signal handler that looks at holds finds none of this half done: it leaves code of this library alone
 * (signals.c). */
#ifndef STI_ALLOC_INTERRUPT_HOLD_H
#define STI_ALLOC_INTERRUPT_HOLD_H

#include <limits.h>
#include <stdbool.h>
#include <stint/interrupt.h>

#include "alloc/platform/scope_state.h"
#include "alloc/platform/thread.h"

#define STI_HOLD_NAMED (INT_MIN / 2)

/* Does a thread that holds these have to wait (caller.h)? */
bool sti_rules_hold(const struct sti_holds *holds);

extern _Thread_local int sti_hold_locks __attribute__((visibility("hidden")));

/* What kind it is of is in the lowest bits of its address, where the object itself has zeros. */
enum sti_hold_kind {
    STI_HOLD_LOCK,
    STI_HOLD_ONCE,
    STI_HOLD_STATIC,
    STI_HOLD_KINDS = 3,
};

static inline const volatile void *sti_hold_of_kind(const volatile void *object, enum sti_hold_kind kind)
{
    return (const volatile char *)object + kind;
}

static inline bool sti_hold_any(const struct sti_holds *holds)
{
    return (holds->named | holds->unnamed) != 0;
}

static inline void sti_hold_take(struct sti_holds *holds, const volatile void *object)
{
    if (__builtin_expect(holds->named < STI_HOLD_REMEMBERED, 1))
        holds->objects[holds->named++] = object;
    else
        holds->unnamed++;
}

/* Locks are mostly released newest first; true if that was the case. */
static inline bool sti_hold_release_newest(struct sti_holds *holds, const volatile void *object)
{
    if (__builtin_expect(holds->named == 0 || holds->objects[holds->named - 1] != object, 0))
        return false;
    holds->named--;
    return true;
}

/* Any other, of the scope or of one below it. False: none of them holds it. */
bool sti_hold_release_other(struct sti_scope *innermost, const volatile void *object);

/* The same for locks, which are on no scope's list as long as they are counted. */
void sti_hold_take_lock_by_name(const volatile void *lock);
void sti_hold_release_lock_by_name(const volatile void *lock);

/* The common case; false: it has to follow by name. */
static inline bool sti_hold_count_lock(void)
{
    return __builtin_expect(++sti_hold_locks >= 0, 1);
}

static inline bool sti_hold_discount_lock(void)
{
    return __builtin_expect(--sti_hold_locks >= 0, 1);
}

static inline void sti_hold_take_lock(const volatile void *lock)
{
    if (!sti_hold_count_lock())
        sti_hold_take_lock_by_name(lock);
}

static inline void sti_hold_release_lock(const volatile void *lock)
{
    if (!sti_hold_discount_lock())
        sti_hold_release_lock_by_name(lock);
}

/* Frames of the thread are left: what was held as long as one of them stood is not any more. Locks are. */
struct sti_way;
void sti_hold_leave(struct sti_holds *holds, const struct sti_way *way);
void sti_hold_end_regions(struct sti_holds *holds);

/* Put what is counted on the list of the innermost scope, which is to be looked at. */
void sti_hold_settle(struct sti_scope *innermost);

/* From now on the locks of the scope, which is the thread's innermost, are remembered by address, for whoever asks
 * which it holds. */
void sti_hold_name_locks(struct sti_scope *innermost);

/* The scope opens, or ends: what it still holds is held in the one below. */
void sti_hold_begin(struct sti_scope *scope);
void sti_hold_hand_down(struct sti_scope *scope);

/* False: nobody holds it. */
static inline bool sti_scope_release_hold(struct sti_scope *innermost, const volatile void *object)
{
    return sti_hold_release_newest(&innermost->holds, object) || sti_hold_release_other(innermost, object);
}

/* --- Misuse: what a task's code should have done and has not. It makes the task fail where that can be known for
 * nothing; in debug mode (STINT_DEBUG=1 in the environment, docs/debugging.md) it is told on standard error, too. Any
 * thread. */

/* Constant from the start on. */
extern bool sti_debug_is_on __attribute__((visibility("hidden")));
void sti_debug_ask_environment(void);

/* A line on standard error, in debug mode only; as printf. Allocates nothing; safe in signal handlers but for that. */
void sti_debug_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The calling thread, unless it is the process's first, is called after the innermost task from this scope outwards
 * that has a name; outside of those, as it was before: so valgrind and AddressSanitizer name the task. In debug mode
 * only. */
void sti_debug_name_thread(const struct sti_scope *scope);

/* Say what the task of this scope has done; NULL: the calling thread, which runs none. */
void sti_misuse_note(const struct sti_scope *scope, const char *what);

/* The scope's function has returned: has it left something open? */
static inline bool sti_misuse_is_left(const struct sti_scope *scope)
{
    return scope->guards != NULL || scope->hooks != NULL || scope->masks != scope->finished; /* a keep is a mask, too */
}

/* It has: the error of the task, which is its own code if it has failed anyway. */
int sti_misuse_fail(struct sti_scope *scope, int code);

/* Before the scope ends, however it does: what it still holds is told. */
void sti_misuse_look_at_holds(struct sti_scope *scope);

/* --- What an interrupt has to wait for: the rules of what a scope's code may hold (those of frames on its stack are
 * caller.h's), and what is told to those who ask. Thread of the scope only, unless a function says otherwise. */

/* What the code of this scope alone has masked or holds, settled; STINT_DEFERRAL_NONE: as far as that goes it
 * may be left. */
stint_deferral sti_deferral_of_one(const struct sti_scope *scope);

/* What would defer an interrupt of the scope, or of one around it that is tripped, at this moment, but for frames on
 * the stack: STINT_DEFERRAL_NONE, then. Thread of the scope only; also in a signal handler that found it in code of its
 * own. */
stint_deferral sti_deferral_of(const struct sti_scope *innermost);

/* An interrupt of the thread's scope could not be delivered, for this: count that. Thread of the scope only. */
static inline void sti_deferral_count(struct sti_thread *thread, stint_deferral deferral)
{
    thread->scope->deferred++;
    sti_counter_add_own(&thread->deferrals[deferral]);
}

/* The same, and note why, for whoever asks. */
void sti_deferral_note(struct sti_thread *thread, stint_deferral deferral);

/* What was noted last in the task that the thread runs. Any thread. */
stint_deferral sti_deferral_noted(const struct sti_thread *thread);

#endif
