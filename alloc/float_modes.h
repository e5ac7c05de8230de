/* SPDX-License-Identifier: MIT
 *
 * The thread's floating-point modes: rounding, traps, denormals. They have to survive a call, but longjmp leaves them as
 * it finds them: as the interrupted code had set them, or in a signal handler as the system sets them. Any thread. */
#ifndef STI_ALLOC_FLOAT_MODES_H
#define STI_ALLOC_FLOAT_MODES_H

#include <stdint.h>

struct sti_float_modes {
    uint32_t sse;
    uint16_t x87;
};

static inline struct sti_float_modes sti_float_modes_now(void)
{
    struct sti_float_modes modes;
    __asm__ volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(modes.sse), "=m"(modes.x87));
    return modes;
}

static inline void sti_float_modes_set(const struct sti_float_modes *modes)
{
    __asm__ volatile("ldmxcsr %0\n\tfldcw %1" : : "m"(modes->sse), "m"(modes->x87));
}

#endif
