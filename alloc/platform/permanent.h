/* SPDX-License-Identifier: MIT
 *
 * What lasts as long as the process: modules that are never unloaded, and whether the variables in them can be read.
 * Any thread. */
#ifndef STI_ALLOC_PLATFORM_PERMANENT_H
#define STI_ALLOC_PLATFORM_PERMANENT_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "caller.h"

/* --- Modules that are never unloaded: the program, and what it and its libraries were linked with, as the loader has
 * found it when the program started. Their variables can be read without the loader's lock. Any thread. */

/* False: it may be unloaded, or nothing is known of it. Takes no lock. */
bool sti_module_lasts(const struct dl_phdr_info *info);

/* --- Modules whose blocks are the process's: what stint_module_keep names (include/stint/interrupt.h), libraries of
 * which it is known that they need it (caller.c), and runtimes of OpenMP, for their threads and teams. Any thread. */

#define STI_KEPT_MODULES 64

/* When this library is loaded, by one thread. */
void sti_module_keep_at_start(struct sti_caller_module module);

/* What it allocates from now on belongs to the task that it runs in. */
void sti_module_keep_no_more(struct sti_caller_module module);

/* Copy them, and say how many they are. */
size_t sti_kept_modules(struct sti_caller_module *modules);

/* Code at this address does what a runtime of OpenMP does before it is at work: if that is what it is, keep its
 * module. */
void sti_keep_openmp(const void *caller);

/* --- Whether the process's variables and blocks can be read where they lie: a program may forbid it to pages of its
 * own data, a guard page in a static array or a secret. Any thread. */

/* Of modules; and of what mimalloc has made: a guard page, say, lies below a stack that was allocated. */
enum sti_readable { STI_READABLE_DATA, STI_READABLE_HEAPS };

/* True: no page has been forbidden, and none is before the end, until which other threads wait with that: it comes
 * soon, and the thread waits for no other meanwhile. False: one has, which is for ever; there is no end. */
bool sti_readable_begin(enum sti_readable what);
void sti_readable_end(enum sti_readable what);

/* Copy words, asking the system whether they can be read. The bytes copied: of a page all, or 0 where they cannot be
 * read; of several pages less where one of them cannot. Negative: the system does not answer such questions. */
long sti_readable_copy(void *to, uintptr_t from, size_t size);

/* The page there is about to have this protection: note whether one is forbidden, and wait for those who read. */
void sti_readable_note(const void *address, int protection);

/* The system's own mprotect, with a key or without, whatever this library overrides. */
#define STI_NO_KEY (-1)
int sti_real_protect(void *address, size_t length, int protection, int key);

/* Is it that of a runtime of OpenMP, or of what stint_module_keep has added? Their blocks are the process's.
 * Cold. */
bool sti_caller_is_kept(const void *caller);

/* At start. */
void sti_permanent_start(void);

#endif
