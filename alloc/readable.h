/* SPDX-License-Identifier: MIT
 *
 * Whether the process's variables can be read where they lie: a program may forbid it to pages of its own data, a guard
 * page in a static array or a secret. Any thread. */
#ifndef STI_ALLOC_READABLE_H
#define STI_ALLOC_READABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The program has forbidden some page of a module's data to be read (override_protect.c). Once is for ever. */
void sti_readable_no_more(void);

/* Has it not? */
bool sti_readable_all(void);

/* Copy a page's words, asking the system whether they can be read. The bytes copied, 0 where they cannot be; negative: the
 * system does not answer such questions. */
long sti_readable_copy(void *to, uintptr_t from, size_t size);

#endif
