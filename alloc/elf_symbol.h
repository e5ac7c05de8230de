/* SPDX-License-Identifier: MIT
 *
 * A module's own symbols: what it defines itself and lets others see, whoever comes before it in the loader's search
 * order. Reads the module's tables; takes no lock, allocates nothing. Any thread; the module must stay loaded. */
#ifndef STI_ALLOC_ELF_SYMBOL_H
#define STI_ALLOC_ELF_SYMBOL_H

#include <link.h>

struct sti_elf_module {
    uintptr_t base;
    const ElfW(Dyn) * dynamic; /* NULL: none */
};

/* The module that has this address; without tables when no module has. */
struct sti_elf_module sti_elf_module_of(const void *address);

/* The same for one that dl_iterate_phdr has come to. */
struct sti_elf_module sti_elf_module_at(const struct dl_phdr_info *info);

/* The address of a function or variable that the module defines; NULL: it does not. */
void *sti_elf_symbol(const struct sti_elf_module *module, const char *name);

/* Call visit for each function that it defines. */
typedef void sti_elf_visit_fn(const char *name, const void *begin, size_t size, void *arg);
void sti_elf_visit_functions(const struct sti_elf_module *module, sti_elf_visit_fn *visit, void *arg);

#endif
