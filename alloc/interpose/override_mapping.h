/* SPDX-License-Identifier: MIT
 *
 * The overrides of what asks the system itself for pages: override_mapping.c. */
#ifndef STI_ALLOC_INTERPOSE_OVERRIDE_MAPPING_H
#define STI_ALLOC_INTERPOSE_OVERRIDE_MAPPING_H

/* At start. */
void sti_override_mapping_start(void);

#endif
