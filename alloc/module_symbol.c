/* SPDX-License-Identifier: MIT
 *
 * Looking up a symbol in one module, by its GNU hash table ("ELF GNU hash", Jelinek 2006): every module has one since then,
 * but where its linker was told otherwise. Any thread; module_symbol.h says why not by dlsym. */
#include "module_symbol.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define NOT_THE_DEFAULT 0x8000 /* of a version */

struct tables {
    const ElfW(Sym) * symbols;
    const char *names;
    const ElfW(Versym) * versions; /* NULL: none */
    const uint32_t *hash;
};

/* The loader has added the module's base to these addresses where it could write to them. */
static const void *address_of(const struct link_map *module, const ElfW(Dyn) * entry)
{
    uintptr_t address = entry->d_un.d_ptr;
    return (const void *)(address < module->l_addr ? address + module->l_addr : address);
}

static bool find_tables(const struct link_map *module, struct tables *tables)
{
    *tables = (struct tables){ .symbols = NULL };
    for (const ElfW(Dyn) *entry = module->l_ld; entry != NULL && entry->d_tag != DT_NULL; entry++) {
        switch (entry->d_tag) {
        case DT_SYMTAB:
            tables->symbols = address_of(module, entry);
            break;
        case DT_STRTAB:
            tables->names = address_of(module, entry);
            break;
        case DT_VERSYM:
            tables->versions = address_of(module, entry);
            break;
        case DT_GNU_HASH:
            tables->hash = address_of(module, entry);
            break;
        default:
            break;
        }
    }
    return tables->symbols != NULL && tables->names != NULL && tables->hash != NULL;
}

static uint32_t hash_of(const char *name)
{
    uint32_t hash = 5381;
    for (; *name != '\0'; name++)
        hash = hash * 33 + (unsigned char)*name;
    return hash;
}

static bool is_wanted(const struct tables *tables, uint32_t index, const char *name)
{
    const ElfW(Sym) *symbol = &tables->symbols[index];
    return symbol->st_shndx != SHN_UNDEF &&
           (tables->versions == NULL || (tables->versions[index] & NOT_THE_DEFAULT) == 0) &&
           strcmp(tables->names + symbol->st_name, name) == 0;
}

/* The table: four sizes, a Bloom filter (passed over here), the first symbol of each bucket, and for each symbol from
 * first on its hash, whose lowest bit ends its bucket. */
static const ElfW(Sym) * find(const struct tables *tables, const char *name)
{
    uint32_t buckets = tables->hash[0];
    uint32_t first = tables->hash[1];
    const ElfW(Addr) *filter = (const void *)&tables->hash[4];
    const uint32_t *bucket = (const void *)&filter[tables->hash[2]];
    const uint32_t *chain = &bucket[buckets];
    uint32_t hash = hash_of(name);
    uint32_t index = buckets > 0 ? bucket[hash % buckets] : 0;
    if (index < first)
        return NULL;
    for (;; index++) {
        uint32_t found = chain[index - first];
        if ((found | 1) == (hash | 1) && is_wanted(tables, index, name))
            return &tables->symbols[index];
        if ((found & 1) != 0)
            return NULL;
    }
}

void *sti_module_symbol(const struct link_map *module, const char *name)
{
    struct tables tables;
    const ElfW(Sym) *symbol = find_tables(module, &tables) ? find(&tables, name) : NULL;
    if (symbol == NULL || ELF64_ST_TYPE(symbol->st_info) == STT_GNU_IFUNC)
        return NULL;
    return (void *)(module->l_addr + symbol->st_value);
}

bool sti_module_defines(const struct link_map *module, const char *name)
{
    struct tables tables;
    return find_tables(module, &tables) && find(&tables, name) != NULL;
}

struct link_map *sti_module_of(const void *address)
{
    struct dl_find_object found;
    return _dl_find_object((void *)(uintptr_t)address, &found) == 0 ? found.dlfo_link_map : NULL;
}

/* abs can be nobody's but libc's. */
void *sti_libc_function(const char *name)
{
    const struct link_map *libc = sti_module_of((const void *)(uintptr_t)abs);
    return libc != NULL ? sti_module_symbol(libc, name) : NULL;
}
