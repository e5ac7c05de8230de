/* SPDX-License-Identifier: MIT
 *
 * What the profiler registers, and the marks of what it follows; see sampling.h. Any thread. */
#include "sampling.h"

_Atomic uint64_t sti_sampling_profile;
atomic_bool sti_sampling_follows;
_Atomic uint8_t sti_sampling_marks[STI_SAMPLING_MARKS];
const struct sti_sampling_hooks *sti_sampling_hooks;

void sti_sampling_register(const struct sti_sampling_hooks *hooks)
{
    sti_sampling_hooks = hooks;
}

void sti_sampling_end_thread(struct sti_sampling *sampling)
{
    if (sti_sampling_hooks != NULL)
        sti_sampling_hooks->end_thread(sampling);
}
