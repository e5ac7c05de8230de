/* SPDX-License-Identifier: MIT
 *
 * Reading a module's table of symbols; see module_symbol.h. Any thread.
 *
 * By its GNU hash table ("ELF GNU hash", Jelinek 2006), which every module has since then, but where its linker was told
 * otherwise: a Bloom filter says most often that a name is not there; a bucket leads to the first symbol of a chain, whose
 * last hash is odd. Symbols that the module only uses are in no chain. */
#include "module_symbol.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define NOT_THE_DEFAULT 0x8000 /* of a version */
#define BITS_OF_WORD (8 * sizeof(ElfW(Addr)))

struct tables {
    uintptr_t base;
    const ElfW(Sym) * symbols;
    const char *strings;
    const ElfW(Versym) * versions; /* NULL: none */
    uint32_t bucket_count;
    uint32_t first_hashed;
    uint32_t filter_size;
    uint32_t filter_shift;
    const ElfW(Addr) * filter;
    const uint32_t *buckets;
    const uint32_t *chains; /* of the symbol first_hashed and those behind it */
};

struct link_map *sti_module_of(const void *address)
{
    struct dl_find_object found;
    return _dl_find_object((void *)(uintptr_t)address, &found) == 0 ? found.dlfo_link_map : NULL;
}

struct sti_module sti_module_loaded(const struct link_map *module)
{
    return module != NULL ? (struct sti_module){ .base = module->l_addr, .dynamic = module->l_ld }
                          : (struct sti_module){ .dynamic = NULL };
}

struct sti_module sti_module_at(const struct dl_phdr_info *info)
{
    struct sti_module module = { .base = info->dlpi_addr };
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            module.dynamic = (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    }
    return module;
}

/* The loader has made addresses of what are offsets in the file; of the vDSO nobody has. */
static const void *pointed_to(uintptr_t base, const ElfW(Dyn) * entry)
{
    uintptr_t value = entry->d_un.d_ptr;
    return (const void *)(value < base ? base + value : value);
}

static bool read_tables(const struct sti_module *module, struct tables *tables)
{
    const uint32_t *header = NULL;
    *tables = (struct tables){ .base = module->base };
    for (const ElfW(Dyn) *entry = module->dynamic; entry != NULL && entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_SYMTAB)
            tables->symbols = pointed_to(module->base, entry);
        else if (entry->d_tag == DT_STRTAB)
            tables->strings = pointed_to(module->base, entry);
        else if (entry->d_tag == DT_VERSYM)
            tables->versions = pointed_to(module->base, entry);
        else if (entry->d_tag == DT_GNU_HASH)
            header = pointed_to(module->base, entry);
    }
    if (header == NULL || tables->symbols == NULL || tables->strings == NULL || header[0] == 0)
        return false;
    tables->bucket_count = header[0];
    tables->first_hashed = header[1];
    tables->filter_size = header[2];
    tables->filter_shift = header[3];
    tables->filter = (const ElfW(Addr) *)(header + 4);
    tables->buckets = (const uint32_t *)(tables->filter + tables->filter_size);
    tables->chains = tables->buckets + tables->bucket_count;
    return true;
}

static uint32_t hash_of(const char *name)
{
    uint32_t hash = 5381;
    for (; *name != '\0'; name++)
        hash = hash * 33 + (unsigned char)*name;
    return hash;
}

static bool may_contain(const struct tables *tables, uint32_t hash)
{
    ElfW(Addr) word = tables->filter[hash / BITS_OF_WORD % tables->filter_size];
    return (word >> (hash % BITS_OF_WORD) & word >> ((hash >> tables->filter_shift) % BITS_OF_WORD) & 1) != 0;
}

static bool is_wanted(const struct tables *tables, uint32_t index, const char *name)
{
    const ElfW(Sym) *symbol = &tables->symbols[index];
    return symbol->st_shndx != SHN_UNDEF &&
           (tables->versions == NULL || (tables->versions[index] & NOT_THE_DEFAULT) == 0) &&
           strcmp(tables->strings + symbol->st_name, name) == 0;
}

/* In its default version, where it has several; NULL: none. */
static const ElfW(Sym) * find(const struct tables *tables, const char *name)
{
    uint32_t hash = hash_of(name);
    if (!may_contain(tables, hash))
        return NULL;
    uint32_t index = tables->buckets[hash % tables->bucket_count];
    if (index < tables->first_hashed)
        return NULL;
    for (;; index++) {
        uint32_t other = tables->chains[index - tables->first_hashed];
        if ((other | 1) == (hash | 1) && is_wanted(tables, index, name))
            return &tables->symbols[index];
        if ((other & 1) != 0)
            return NULL;
    }
}

/* Neither an indirect function, which the loader chooses, nor a thread-local variable. */
static bool has_address(const ElfW(Sym) * symbol)
{
    unsigned type = ELF64_ST_TYPE(symbol->st_info);
    return symbol->st_value != 0 && (type == STT_FUNC || type == STT_OBJECT || type == STT_NOTYPE);
}

void *sti_module_symbol(struct sti_module module, const char *name)
{
    struct tables tables;
    const ElfW(Sym) *symbol = read_tables(&module, &tables) ? find(&tables, name) : NULL;
    return symbol != NULL && has_address(symbol) ? (void *)(tables.base + symbol->st_value) : NULL;
}

/* A table of relocations: its entry in the dynamic section, and that of its size. */
struct relocations {
    const ElfW(Rela) * first;
    size_t count;
};

static struct relocations relocations_of(const struct sti_module *module, ElfW(Sxword) table, ElfW(Sxword) size)
{
    struct relocations relocations = { .first = NULL };
    for (const ElfW(Dyn) *entry = module->dynamic; entry != NULL && entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == table)
            relocations.first = pointed_to(module->base, entry);
        else if (entry->d_tag == size)
            relocations.count = entry->d_un.d_val / sizeof *relocations.first;
    }
    return relocations;
}

static const ElfW(Rela) * find_place(const struct relocations *relocations, uintptr_t offset)
{
    for (size_t i = 0; relocations->first != NULL && i < relocations->count; i++) {
        if (relocations->first[i].r_offset == offset)
            return &relocations->first[i];
    }
    return NULL;
}

const char *sti_module_imported(struct sti_module module, const void *place)
{
    const struct relocations late = relocations_of(&module, DT_JMPREL, DT_PLTRELSZ);
    const struct relocations early = relocations_of(&module, DT_RELA, DT_RELASZ);
    const ElfW(Rela) *relocation = find_place(&late, (uintptr_t)place - module.base);
    if (relocation == NULL)
        relocation = find_place(&early, (uintptr_t)place - module.base);
    struct tables tables;
    if (relocation == NULL || !read_tables(&module, &tables))
        return NULL;
    return tables.strings + tables.symbols[ELF64_R_SYM(relocation->r_info)].st_name;
}

bool sti_module_defines(const struct link_map *module, const char *name)
{
    struct tables tables;
    const struct sti_module loaded = sti_module_loaded(module);
    return read_tables(&loaded, &tables) && find(&tables, name) != NULL;
}

void sti_module_visit_functions(struct sti_module module, sti_module_visit_fn *visit, void *arg)
{
    struct tables tables;
    if (!read_tables(&module, &tables))
        return;
    for (uint32_t bucket = 0; bucket < tables.bucket_count; bucket++) {
        uint32_t index = tables.buckets[bucket];
        bool last = index < tables.first_hashed;
        for (; !last; index++) {
            const ElfW(Sym) *symbol = &tables.symbols[index];
            if (symbol->st_shndx != SHN_UNDEF && has_address(symbol) && ELF64_ST_TYPE(symbol->st_info) == STT_FUNC)
                visit(tables.strings + symbol->st_name, (const void *)(tables.base + symbol->st_value),
                      symbol->st_size, arg);
            last = (tables.chains[index - tables.first_hashed] & 1) != 0;
        }
    }
}

/* abs can be nobody's but libc's. */
void *sti_libc_function(const char *name)
{
    return sti_module_symbol(sti_module_loaded(sti_module_of((const void *)(uintptr_t)abs)), name);
}
