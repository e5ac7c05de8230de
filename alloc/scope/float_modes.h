/* SPDX-License-Identifier: MIT
 *
 * The floating-point modes of the calling thread: how is rounded, and what traps. They have to survive a call, but
 * longjmp leaves them as it finds them: as the interrupted code had set them, or in a signal handler as the system sets
 * them. So a landing puts them back. */
#ifndef STI_ALLOC_SCOPE_FLOAT_MODES_H
#define STI_ALLOC_SCOPE_FLOAT_MODES_H

#include <stdint.h>

struct float_modes {
    uint32_t sse;
    uint16_t x87;
};

static inline struct float_modes float_modes_now(void)
{
    struct float_modes modes;
    __asm__ volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(modes.sse), "=m"(modes.x87));
    return modes;
}

static inline void float_modes_set(const struct float_modes *modes)
{
    __asm__ volatile("ldmxcsr %0\n\tfldcw %1" : : "m"(modes->sse), "m"(modes->x87));
}

#endif
