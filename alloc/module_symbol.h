/* SPDX-License-Identifier: MIT
 *
 * What a module defines, asked of the module itself. dlsym cannot be asked that: it goes on from one module to others, in an
 * order that depends on how the program is linked; it takes the loader's lock; and where it is given a module that nobody
 * has opened it ends the process. Any thread, before this library's constructors too. Takes no lock, allocates nothing. */
#ifndef STI_ALLOC_MODULE_SYMBOL_H
#define STI_ALLOC_MODULE_SYMBOL_H

#include <stdbool.h>

struct link_map;

/* The module that an address lies in; NULL: none. */
struct link_map *sti_module_of(const void *address);

/* The address of a function that the module defines, in its default version where it has several; NULL: it defines none, or
 * one that is chosen as the program starts (an indirect one). */
void *sti_module_symbol(const struct link_map *module, const char *name);

/* Whether it defines it at all, an indirect one too. */
bool sti_module_defines(const struct link_map *module, const char *name);

/* libc's own function, for the overrides that go on to it. */
void *sti_libc_function(const char *name);

#endif
