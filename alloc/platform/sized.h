/* SPDX-License-Identifier: MIT
 *
 * Structs of the interface that can grow: the first field of each is its size, as the program that made it was compiled
 * (include/stint/stint.h). Here they are taken from a program, and filled for it, whichever of the two is the newer, in
 * the manner of Linux's copy_struct_from_user (clone3, openat2).
 *
 * What is added to such a struct goes to its end, where nothing that was padding before can hold it, and means at 0
 * what was so without it. What a field means never changes. The smallest struct that is accepted is that of the first
 * release, which its last field names for ever; anything smaller was never given a size. Any thread. */
#ifndef STI_ALLOC_PLATFORM_SIZED_H
#define STI_ALLOC_PLATFORM_SIZED_H

#include <stddef.h>

#define STI_SIZED_UP_TO(type, last) (offsetof(type, last) + sizeof(((type *)0)->last))

/* What is larger is no size. */
#define STI_SIZED_MAX 4096

/* Take a program's struct into ours, of so many bytes: what the program does not know is 0 there, and the size is ours.
 * first: the size in the first release. 0; EINVAL: it has no size; E2BIG: it has something behind what we know. */
int sti_sized_in(void *ours, size_t size, size_t first, const void *given);

/* Fill a program's struct from ours: what the program does not know is left out, what we do not know is 0, and the size
 * stays the program's. 0; EINVAL: it has no size. */
int sti_sized_out(void *given, size_t first, const void *ours, size_t size);

#endif
