/* SPDX-License-Identifier: MIT
 *
 * Assumptions: what this library takes to be so of somebody else's insides, of which nobody promises it. Each is tried
 * out before anything is built on it. Where one fails, as with a version of libc or mimalloc that nobody has tried, the
 * one feature that needs it is off, and stint_link_check says which and why. A new use of such knowledge is tried out
 * here, too, and gets a test that makes it fail (tests/platform/assumptions.c). Any thread. */
#ifndef STI_ALLOC_PLATFORM_ASSUMPTION_H
#define STI_ALLOC_PLATFORM_ASSUMPTION_H

#include <stdatomic.h>
#include <stdbool.h>

enum sti_assumption {
    STI_ASSUMED_HEAPS,     /* mimalloc's walks of a heap see each block once, and tell of its pages and their owner */
    STI_ASSUMED_SIZES,     /* a block of mimalloc's is no larger than backend.h expects */
    STI_ASSUMED_COUNTS,    /* mimalloc counts a heap's pages */
    STI_ASSUMED_FRAMES,    /* our own reading of call frame tables finds the frame that has called another */
    STI_ASSUMED_UNWINDER,  /* libgcc finds it, too */
    STI_ASSUMED_JUMPS,     /* libc's setjmp keeps the stack pointer where it is read (sti_resume_point_stack_pointer) */
    STI_ASSUMED_VARIABLES, /* libc keeps where thread-local variables are where it is read
                              (sti_module_thread_variables) */
    STI_ASSUMPTIONS,
};

/* At start: those that take well below a microsecond. Then, before anything else is done for a scope or a pool, what is
 * assumed of mimalloc, once. Before the first scope that may be unwound, what is assumed of the unwinder, which is
 * loaded for it: false, if it cannot be, and the next call tries again. Two threads at once find the same. */
void sti_assumptions_start(void);
void sti_assumptions_before_use(void);
bool sti_assumptions_before_unwinding(void);

/* Does our own reading find frames? Tried at the first question, which may be asked in a signal handler. */
bool sti_assumption_finds_frames(void);

/* Set by the above. */
extern atomic_bool sti_assumption_failures[STI_ASSUMPTIONS] __attribute__((visibility("hidden")));

static inline bool sti_assumption_fails(enum sti_assumption assumption)
{
    return __builtin_expect(atomic_load_explicit(&sti_assumption_failures[assumption], memory_order_relaxed), 0);
}

/* What is off, and why, a line each; NULL: nothing. */
const char *sti_assumptions_describe(void);

#endif
