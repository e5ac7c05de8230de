/* SPDX-License-Identifier: MIT
 *
 * libgcc's unwinder. */
#ifndef STI_ALLOC_PLATFORM_UNWINDER_H
#define STI_ALLOC_PLATFORM_UNWINDER_H

#include <stdbool.h>
#include <stdint.h>

/* Before what may need it where nothing may be loaded: load it. Once is enough. */
void sti_unwinder_load(void);

/* False: it could not be, for want of a descriptor, or as the process has confined itself meanwhile. */
bool sti_unwinder_is_loaded(void);

/* Is this the personality of frames that were compiled from C? */
bool sti_unwinder_is_of_c(uintptr_t personality);

#endif
