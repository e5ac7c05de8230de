/* SPDX-License-Identifier: MIT
 *
 * What the task's code holds at this instant: locks, a once or a static initialiser that is being run, a caught
 * exception. While a scope holds anything, interrupts of it and of the scopes around it have to wait. Thread of the
 * scope only.
 *
 * Objects are remembered by address, so that a lock from before the scope that is released inside it is not taken for
 * one of the scope's. A few are; beyond that they are only counted. */
#ifndef STI_ALLOC_HOLD_H
#define STI_ALLOC_HOLD_H

#include <stdbool.h>

#define STI_HOLD_REMEMBERED 12

struct sti_scope;

/* What kind it is of is in the lowest bits of its address, where the object itself has zeros. */
enum sti_hold_kind {
    STI_HOLD_LOCK,
    STI_HOLD_ONCE,
    STI_HOLD_STATIC,
    STI_HOLD_CATCH,
    STI_HOLD_KINDS = 3,
};

static inline const volatile void *sti_hold_of_kind(const volatile void *object, enum sti_hold_kind kind)
{
    return (const volatile char *)object + kind;
}

struct sti_holds {
    unsigned named;   /* in objects */
    unsigned unnamed; /* beyond those */
    const volatile void *objects[STI_HOLD_REMEMBERED];
};

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

/* Any other, of the scope or of one below it. */
void sti_hold_release_other(struct sti_scope *innermost, const volatile void *object);

/* Catch blocks that were left by a jump. */
void sti_hold_forget_catches(struct sti_holds *holds);

/* The scope ends; what it still holds is held in the one below. */
void sti_hold_hand_down(struct sti_scope *scope);

#endif
