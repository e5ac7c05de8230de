/* SPDX-License-Identifier: MIT
 *
 * Modules whose blocks are the process's: what stint_keep_module names (include/stint/roots.h), and runtimes of OpenMP, for
 * their threads and teams. Any thread. */
#ifndef STI_ALLOC_KEEP_MODULE_H
#define STI_ALLOC_KEEP_MODULE_H

#include <stddef.h>

#include "caller.h"

#define STI_KEPT_MODULES 32

/* When this library is loaded, by one thread. */
void sti_keep_module_at_start(struct sti_caller_module module);

/* Copy them, and say how many they are. */
size_t sti_kept_modules(struct sti_caller_module *modules);

/* Code at this address does what a runtime of OpenMP does before it is at work: if that is what it is, keep its module. */
void sti_keep_openmp(const void *caller);

#endif
