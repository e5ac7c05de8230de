/* SPDX-License-Identifier: MIT
 *
 * Modules that are never unloaded: the program, and what it and its libraries were linked with, as the loader has found it
 * when the program started. Their variables can be read without the loader's lock. Any thread. */
#ifndef STI_ALLOC_LASTING_H
#define STI_ALLOC_LASTING_H

#include <link.h>
#include <stdbool.h>

/* False: it may be unloaded, or nothing is known of it. Takes no lock. */
bool sti_module_lasts(const struct dl_phdr_info *info);

#endif
