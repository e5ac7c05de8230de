/* SPDX-License-Identifier: MIT
 *
 * What a module defines itself and lets others see, asked of the module. dlsym cannot be asked that: it goes on from one module to
 * others, in an order that depends on how the program is linked; it takes the loader's lock; and where it is given a module
 * that nobody has opened it ends the process. Any thread, before this library's constructors too; the module must stay loaded.
 * Takes no lock, allocates nothing. */
#ifndef STI_ALLOC_MODULE_SYMBOL_H
#define STI_ALLOC_MODULE_SYMBOL_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sti_module {
    uintptr_t base;
    const ElfW(Dyn) * dynamic; /* NULL: it has no tables */
};

/* The module that an address lies in; NULL: none. */
struct link_map *sti_module_of(const void *address);

/* Its tables; NULL has none. And those of a module that dl_iterate_phdr has come to. */
struct sti_module sti_module_loaded(const struct link_map *module);
struct sti_module sti_module_at(const struct dl_phdr_info *info);

/* The address of a function or variable that the module defines, in its default version where it has several; NULL: it defines
 * none, or a function that is chosen as the program starts (an indirect one). */
void *sti_module_symbol(struct sti_module module, const char *name);

/* Of which function the loader puts the address into this place in the module, now or at the first call; NULL: not known. */
const char *sti_module_imported(struct sti_module module, const void *place);

/* Whether it defines it at all, an indirect one too. */
bool sti_module_defines(const struct link_map *module, const char *name);

/* Call visit for each function that it defines. */
typedef void sti_module_visit_fn(const char *name, const void *begin, size_t size, void *arg);
void sti_module_visit_functions(struct sti_module module, sti_module_visit_fn *visit, void *arg);

/* libc's own function, for the overrides that go on to it. */
void *sti_libc_function(const char *name);

#endif
