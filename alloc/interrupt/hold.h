/* SPDX-License-Identifier: MIT
 *
 * What the task's code holds at this instant: locks, a once or a static initialiser that is being run. While a scope
 * holds anything, interrupts of it and of the scopes around it have to wait. Thread of the
 * scope only.
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
 * A signal handler that looks at holds finds none of this half done: it leaves code of this library alone (signals.c). */
#ifndef STI_ALLOC_INTERRUPT_HOLD_H
#define STI_ALLOC_INTERRUPT_HOLD_H

#include <limits.h>
#include <stdbool.h>

#include "alloc/base/scope_state.h"

#define STI_HOLD_NAMED (INT_MIN / 2)

extern _Thread_local int sti_hold_locks __attribute__((visibility("hidden")));

/* What kind it is of is in the lowest bits of its address, where the object itself has zeros. */
enum sti_hold_kind {
    STI_HOLD_LOCK,
    STI_HOLD_ONCE,
    STI_HOLD_STATIC,
    STI_HOLD_SEMAPHORE,
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

/* One that is on a list by its name, or none. Safe in signal handlers that find no hold half taken. */
void sti_hold_release_named(struct sti_scope *innermost, const volatile void *object);

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

/* The scope opens, or ends: what it still holds is held in the one below. */
void sti_hold_begin(struct sti_scope *scope);
void sti_hold_hand_down(struct sti_scope *scope);

static inline void sti_scope_take_hold(struct sti_scope *innermost, const volatile void *object)
{
    sti_hold_take(&innermost->holds, object);
}

/* False: nobody holds it. */
static inline bool sti_scope_release_hold(struct sti_scope *innermost, const volatile void *object)
{
    return sti_hold_release_newest(&innermost->holds, object) || sti_hold_release_other(innermost, object);
}

#endif
