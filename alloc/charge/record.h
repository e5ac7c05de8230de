/* SPDX-License-Identifier: MIT
 *
 * What a task is charged for records of this library's. Calling thread only. */
#ifndef STI_ALLOC_CHARGE_RECORD_H
#define STI_ALLOC_CHARGE_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "meter.h"

/* --- The library's own records that a task makes: tokens, accounts, futures, and what follows these. They come from
 * the process's heap (process.h), as others may have references to them when the task has ended; but they are charged
 * to the task like the blocks that libc makes for itself, so that no task makes more of them than its allocation limit
 * allows. Calling thread only, at the beginning of a public function: it is a sample point, which may not return. */

/* When that may be a sample point. */
bool sti_record_charge_beyond(struct sti_thread *thread, uint64_t charge, const void *caller);

/* Charge a record of so many bytes to the innermost scope, if there is one. caller: who called the public function.
 * False: ENOMEM is to be returned. thread: sti_thread_metered. */
static inline bool sti_record_charge_to(struct sti_thread *thread, size_t size, const void *caller)
{
    uint64_t charge = sti_meter_rounded(size);
    return __builtin_expect(thread == NULL, 1) || __builtin_expect(sti_meter_charge_fast(thread, charge), 1) ||
           sti_record_charge_beyond(thread, charge, caller);
}

static inline bool sti_record_charge(size_t size, const void *caller)
{
    return sti_record_charge_to(sti_thread_metered, size, caller);
}

#endif
