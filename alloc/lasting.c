/* SPDX-License-Identifier: MIT
 *
 * Modules that are never unloaded; see lasting.h. Found once, when this library is loaded: from the program on, by the names
 * that each module says it needs. What was preloaded, or has other names, is none of them, for want of knowledge. */
#include "lasting.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "module_symbol.h"

#define MOST 256

/* Where they begin. Written by a constructor. */
static uintptr_t bases[MOST];
static size_t base_count;

struct candidate {
    struct sti_module module;
    const char *strings;
    const char *name; /* that others need it by */
    bool lasts;
};

struct candidates {
    struct candidate of[MOST];
    size_t count;
};

static const char *file_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static int note_module(struct dl_phdr_info *info, size_t size, void *argument)
{
    struct candidates *all = argument;
    (void)size;
    if (all->count == MOST)
        return 1;
    struct candidate *one = &all->of[all->count++];
    *one = (struct candidate){ .module = sti_module_at(info),
                               .name = file_of(info->dlpi_name),
                               .lasts = info->dlpi_name[0] == '\0' };
    const ElfW(Dyn) *named = NULL;
    for (const ElfW(Dyn) *entry = one->module.dynamic; entry != NULL && entry->d_tag != DT_NULL; entry++) {
        uintptr_t value = entry->d_un.d_ptr;
        if (entry->d_tag == DT_STRTAB) /* of the vDSO it is an offset */
            one->strings = (const char *)(value < info->dlpi_addr ? info->dlpi_addr + value : value);
        else if (entry->d_tag == DT_SONAME)
            named = entry;
    }
    if (named != NULL && one->strings != NULL)
        one->name = one->strings + named->d_un.d_val;
    return 0;
}

static bool mark(struct candidates *all, const char *name)
{
    for (size_t i = 0; i < all->count; i++) {
        struct candidate *one = &all->of[i];
        if (!one->lasts && strcmp(one->name, name) == 0)
            return one->lasts = true;
    }
    return false;
}

/* Whether it has added any. */
static bool mark_needed(struct candidates *all, const struct candidate *by)
{
    bool added = false;
    for (const ElfW(Dyn) *entry = by->module.dynamic; entry != NULL && entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_NEEDED && by->strings != NULL)
            added |= mark(all, by->strings + entry->d_un.d_val);
    }
    return added;
}

__attribute__((constructor)) static void find_modules(void)
{
    struct candidates all = { .count = 0 };
    dl_iterate_phdr(note_module, &all);
    for (bool added = true; added;) {
        added = false;
        for (size_t i = 0; i < all.count; i++)
            added |= all.of[i].lasts && mark_needed(&all, &all.of[i]);
    }
    for (size_t i = 0; i < all.count; i++) {
        if (all.of[i].lasts)
            bases[base_count++] = all.of[i].module.base;
    }
}

bool sti_module_lasts(const struct dl_phdr_info *info)
{
    size_t i = 0;
    while (i < base_count && bases[i] != info->dlpi_addr)
        i++;
    return i < base_count;
}
