/* SPDX-License-Identifier: MIT
 *
 * What STINT_GUARD of stint/interrupt.h is made of. Nothing here is called by a user. */
#ifndef STINT_DETAIL_GUARD_H
#define STINT_DETAIL_GUARD_H

#include <stint/interrupt.h>

STINT_BEGIN_DECLS

/* Behind STINT_GUARD: a name of its own for each. It has no value of its own before it is pushed: it may be on the list
 * still, where a longjmp has left its block. */
#define STINT_GUARD_COUNTED_(number, release, arg) STINT_GUARD_NAMED_(number, release, arg)
#define STINT_GUARD_NAMED_(number, release, arg)                                                                       \
    __attribute__((cleanup(stint_guard_end_))) stint_guard stint_guard_##number;                                       \
    stint_guard_push(&stint_guard_##number, (release), (arg))

static inline void stint_guard_end_(stint_guard *guard)
{
    stint_guard_pop(guard, true);
}

STINT_END_DECLS

#endif
