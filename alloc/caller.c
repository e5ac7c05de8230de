/* SPDX-License-Identifier: MIT
 *
 * Where libc and the dynamic loader lie; found once, when the library is loaded. */
#include "caller.h"

#include <elf.h>
#include <link.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/auxv.h>

struct sti_caller_system sti_caller_system;

static struct sti_caller_module loaded_range(const struct dl_phdr_info *info)
{
    uintptr_t begin = UINTPTR_MAX;
    uintptr_t end = 0;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD)
            continue;
        uintptr_t first = info->dlpi_addr + segment->p_vaddr;
        if (first < begin)
            begin = first;
        if (first + segment->p_memsz > end)
            end = first + segment->p_memsz;
    }
    return (struct sti_caller_module){ .begin = begin, .size = end > begin ? end - begin : 0 };
}

static int classify(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size;
    (void)unused;
    struct sti_caller_module module = loaded_range(info);
    /* abs can be nobody's but libc's; AT_BASE is where the kernel put the loader. */
    if (sti_caller_in(&module, (const void *)(uintptr_t)abs))
        sti_caller_system.libc = module;
    else if (info->dlpi_addr == getauxval(AT_BASE) && info->dlpi_addr != 0)
        sti_caller_system.loader = module;
    return 0;
}

__attribute__((constructor)) static void find_modules(void)
{
    dl_iterate_phdr(classify, NULL);
}
