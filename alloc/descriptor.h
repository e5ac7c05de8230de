/* SPDX-License-Identifier: MIT
 *
 * The audit of descriptors; include/stint/descriptor.h says what it is for. Thread of the scope only. */
#ifndef STI_ALLOC_DESCRIPTOR_H
#define STI_ALLOC_DESCRIPTOR_H

#include <stdint.h>

struct sti_descriptors;

/* List those that are open. NULL: they cannot be read, or no memory. */
struct sti_descriptors *sti_descriptors_list(void);

/* How many are open now and not on the list; each is reported under the name of the task. 0 for NULL. Outside of the
 * scope. */
uint64_t sti_descriptors_left(const struct sti_descriptors *before, const char *task);

void sti_descriptors_free(struct sti_descriptors *list);

#endif
