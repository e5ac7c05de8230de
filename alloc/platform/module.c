/* SPDX-License-Identifier: MIT
 *
 * The modules of the process, and libc's own functions; see module.h. Any thread. */
#include "module.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "machine.h"

/* --- Reading a module's table of symbols. Any thread.
 *
 * By its GNU hash table ("ELF GNU hash", Jelinek 2006), which every module has since then, but where its linker was
 * told otherwise: a Bloom filter says most often that a name is not there; a bucket leads to the first symbol of a
 * chain, whose last hash is odd. Symbols that the module only uses are in no chain. */

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

const void *sti_module_pointed_to(uintptr_t base, const ElfW(Dyn) * entry)
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
            tables->symbols = sti_module_pointed_to(module->base, entry);
        else if (entry->d_tag == DT_STRTAB)
            tables->strings = sti_module_pointed_to(module->base, entry);
        else if (entry->d_tag == DT_VERSYM)
            tables->versions = sti_module_pointed_to(module->base, entry);
        else if (entry->d_tag == DT_GNU_HASH)
            header = sti_module_pointed_to(module->base, entry);
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

static uint32_t symbol_hash(const char *name)
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

static bool symbol_is_wanted(const struct tables *tables, uint32_t index, const char *name)
{
    const ElfW(Sym) *symbol = &tables->symbols[index];
    return symbol->st_shndx != SHN_UNDEF &&
           (tables->versions == NULL || (tables->versions[index] & NOT_THE_DEFAULT) == 0) &&
           strcmp(tables->strings + symbol->st_name, name) == 0;
}

/* In its default version, where it has several; NULL: none. */
static const ElfW(Sym) * symbol_find(const struct tables *tables, const char *name)
{
    uint32_t hash = symbol_hash(name);
    if (!may_contain(tables, hash))
        return NULL;
    uint32_t index = tables->buckets[hash % tables->bucket_count];
    if (index < tables->first_hashed)
        return NULL;
    for (;; index++) {
        uint32_t other = tables->chains[index - tables->first_hashed];
        if ((other | 1) == (hash | 1) && symbol_is_wanted(tables, index, name))
            return &tables->symbols[index];
        if ((other & 1) != 0)
            return NULL;
    }
}

/* Neither an indirect function, which the loader chooses, nor a thread-local variable. */
static bool symbol_has_address(const ElfW(Sym) * symbol)
{
    unsigned type = ELF64_ST_TYPE(symbol->st_info);
    return symbol->st_value != 0 && (type == STT_FUNC || type == STT_OBJECT || type == STT_NOTYPE);
}

static void *address_of(const struct tables *tables, const char *name)
{
    const ElfW(Sym) *symbol = symbol_find(tables, name);
    return symbol != NULL && symbol_has_address(symbol) ? (void *)(tables->base + symbol->st_value) : NULL;
}

void *sti_module_symbol(struct sti_module module, const char *name)
{
    struct tables tables;
    return read_tables(&module, &tables) ? address_of(&tables, name) : NULL;
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
            relocations.first = sti_module_pointed_to(module->base, entry);
        else if (entry->d_tag == size)
            relocations.count = entry->d_un.d_val / sizeof *relocations.first;
    }
    return relocations;
}

static bool relocation_names(const struct relocations *relocations, const struct tables *tables, const char *name)
{
    size_t i = 0;
    while (relocations->first != NULL && i < relocations->count) {
        const ElfW(Sym) *symbol = &tables->symbols[ELF64_R_SYM(relocations->first[i].r_info)];
        if (strcmp(tables->strings + symbol->st_name, name) == 0)
            return true;
        i++;
    }
    return false;
}

bool sti_module_imports(struct sti_module module, const char *name)
{
    const struct relocations late = relocations_of(&module, DT_JMPREL, DT_PLTRELSZ);
    const struct relocations early = relocations_of(&module, DT_RELA, DT_RELASZ);
    struct tables tables;
    return read_tables(&module, &tables) &&
           (relocation_names(&late, &tables, name) || relocation_names(&early, &tables, name));
}

bool sti_module_defines(const struct link_map *module, const char *name)
{
    struct tables tables;
    const struct sti_module loaded = sti_module_loaded(module);
    return read_tables(&loaded, &tables) && symbol_find(&tables, name) != NULL;
}

/* abs can be nobody's but libc's. */
static bool read_libc(struct tables *tables)
{
    const struct sti_module libc = sti_module_loaded(sti_module_of((const void *)(uintptr_t)abs));
    return read_tables(&libc, tables);
}

void *sti_libc_function(const char *name)
{
    struct tables tables;
    return read_libc(&tables) ? address_of(&tables, name) : NULL;
}

uintptr_t sti_libc_code(const char *name)
{
    struct tables tables;
    const ElfW(Sym) *symbol = read_libc(&tables) ? symbol_find(&tables, name) : NULL;
    if (symbol == NULL || symbol->st_value == 0)
        return 0;
    uintptr_t address = tables.base + symbol->st_value;
    return ELF64_ST_TYPE(symbol->st_info) == STT_GNU_IFUNC ? sti_indirect(address) : address;
}

/* The bits, the number of elements, and the place of the field. */
uintptr_t sti_module_thread_variables(const struct link_map *module)
{
    const uint32_t *field = sti_libc_function("_thread_db_link_map_l_tls_offset");
    if (module == NULL || field == NULL || field[0] != 8 * sizeof(ptrdiff_t) || field[1] != 1)
        return 0;
    return sti_thread_variables(*(const volatile ptrdiff_t *)((uintptr_t)module + field[2]));
}

/* --- libc's own functions of locks, specific values and jumps. Without overrides there is nothing here. Any thread. */

#if STI_OVERRIDES

/* One line for each: X(its name here, libc's, parameters, arguments). */
#define REAL_FUNCTIONS(X)                                                                                              \
    X(sti_real_mutex_lock, pthread_mutex_lock, (pthread_mutex_t * mutex), (mutex))                                     \
    X(sti_real_mutex_trylock, pthread_mutex_trylock, (pthread_mutex_t * mutex), (mutex))                               \
    X(sti_real_mutex_clocklock, pthread_mutex_clocklock,                                                               \
      (pthread_mutex_t * mutex, clockid_t clock, const struct timespec *until), (mutex, clock, until))                 \
    X(sti_real_mutex_unlock, pthread_mutex_unlock, (pthread_mutex_t * mutex), (mutex))                                 \
    X(sti_real_rwlock_rdlock, pthread_rwlock_rdlock, (pthread_rwlock_t * lock), (lock))                                \
    X(sti_real_rwlock_wrlock, pthread_rwlock_wrlock, (pthread_rwlock_t * lock), (lock))                                \
    X(sti_real_rwlock_clockwrlock, pthread_rwlock_clockwrlock,                                                         \
      (pthread_rwlock_t * lock, clockid_t clock, const struct timespec *until), (lock, clock, until))                  \
    X(sti_real_rwlock_unlock, pthread_rwlock_unlock, (pthread_rwlock_t * lock), (lock))                                \
    X(sti_real_specific_create, pthread_key_create, (pthread_key_t * key, void (*destructor)(void *)),                 \
      (key, destructor))                                                                                               \
    X(sti_real_specific_set, pthread_setspecific, (pthread_key_t key, const void *value), (key, value))

#define PLAIN(own_name, name, parameters, arguments)                                                                   \
    int own_name parameters                                                                                            \
    {                                                                                                                  \
        STI_LIBC_FUNCTION(name)                                                                                        \
        return real arguments;                                                                                         \
    }

REAL_FUNCTIONS(PLAIN)

/* An array of words, or a structure of nothing else up to there. */
static inline uintptr_t jump_word(const struct __jmp_buf_tag *resume_point)
{
    return ((const uintptr_t *)(const void *)resume_point->__jmpbuf)[STI_JUMP_WORD];
}

#if STI_JUMP_IS_LEARNT

static uintptr_t disguise; /* set at start */

__attribute__((noinline)) void sti_resume_point_learn(void)
{
    struct __jmp_buf_tag here[1];
    if (_setjmp(here) == 0)
        disguise = jump_word(here) ^ sti_registers_here().sp;
}

static uintptr_t jump_uncovered(uintptr_t word)
{
    return word ^ disguise;
}

#else

void sti_resume_point_learn(void)
{
}

static uintptr_t jump_uncovered(uintptr_t word)
{
    return sti_jump_uncovered(word);
}

#endif

/* glibc keeps it disguised. */
uintptr_t sti_resume_point_stack_pointer(const struct __jmp_buf_tag *resume_point)
{
    return jump_uncovered(jump_word(resume_point));
}

/* What libc calls all of them. */
_Noreturn void sti_real_longjmp(struct __jmp_buf_tag *resume_point, int value)
{
    STI_LIBC_FUNCTION(siglongjmp)
    real(resume_point, value);
    __builtin_unreachable();
}

#endif
