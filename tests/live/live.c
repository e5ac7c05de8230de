/* SPDX-License-Identifier: MIT
 *
 * The library's live records; see live.h. Between the library's files and the functions by which they get records: the
 * linker puts these here in their place (-Wl,--wrap), so the library itself is as everybody has it.
 *
 * A table by address, without a lock: in a signal's handler and in the child of a fork(2) records are made, too. Where
 * the places for an address are taken the record is not counted. */
#include "live.h"

#include <elf.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stint/task.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "alloc/platform/module.h"

#define BITS 17
#define PLACES ((size_t)1 << BITS)
#define REACH 64 /* from an address's own place on */
#define MOST_TOLD 20

/* Not in the program's variables: roots are sought there. */
struct place {
    _Atomic uintptr_t record; /* 0: free */
    _Atomic uintptr_t maker;  /* an address in the function that has made it */
    _Atomic uint64_t number;
};

static _Atomic(struct place *) places;
static _Atomic uint64_t numbers;

/* By system calls, as the library stands in the way of libc's. Of two threads at once one has mapped in vain. */
static struct place *map_places(void)
{
    const size_t size = (PLACES + REACH) * sizeof(struct place);
    long made = syscall(SYS_mmap, NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                        (off_t)0);
    struct place *before = NULL;
    if (made == -1)
        return NULL;
    if (atomic_compare_exchange_strong_explicit(&places, &before, (struct place *)made, memory_order_acq_rel,
                                                memory_order_acquire))
        return (struct place *)made;
    syscall(SYS_munmap, made, size);
    return before;
}

static struct place *first_place(void)
{
    struct place *first = atomic_load_explicit(&places, memory_order_acquire);
    return first != NULL ? first : map_places();
}

static struct place *places_of(const void *record)
{
    struct place *first = first_place();
    return first != NULL ? &first[(uintptr_t)record * UINT64_C(0x9e3779b97f4a7c15) >> (64 - BITS)] : NULL;
}

static void add(void *record, const void *maker)
{
    struct place *place = record != NULL ? places_of(record) : NULL;
    for (size_t i = 0; place != NULL && i < REACH; i++) {
        uintptr_t none = 0;
        if (!atomic_compare_exchange_strong_explicit(&place[i].record, &none, (uintptr_t)record, memory_order_relaxed,
                                                     memory_order_relaxed))
            continue;
        atomic_store_explicit(&place[i].maker, (uintptr_t)maker, memory_order_relaxed);
        atomic_store_explicit(&place[i].number, atomic_fetch_add_explicit(&numbers, 1, memory_order_relaxed) + 1,
                              memory_order_release);
        return;
    }
}

static void drop(const void *record)
{
    struct place *place = record != NULL ? places_of(record) : NULL;
    for (size_t i = 0; place != NULL && i < REACH; i++) {
        if (atomic_load_explicit(&place[i].record, memory_order_relaxed) != (uintptr_t)record)
            continue;
        atomic_store_explicit(&place[i].number, 0, memory_order_relaxed);
        atomic_store_explicit(&place[i].record, 0, memory_order_release);
        return;
    }
}

/* --- What is wrapped ---------------------------------------------------------------------------------------------- */

struct sti_watch;

void *__real_sti_process_malloc(size_t size);
void *__real_sti_process_calloc(size_t count, size_t size);
void *__real_sti_process_realloc(void *block, size_t size);
void *__real_sti_process_aligned(size_t alignment, size_t size);
void __real_sti_process_free(void *block);
int __real_sti_watch_begin(struct sti_watch *watch, uint64_t time);
void __real_sti_watch_end(struct sti_watch *watch);

void *__wrap_sti_process_malloc(size_t size);
void *__wrap_sti_process_calloc(size_t count, size_t size);
void *__wrap_sti_process_realloc(void *block, size_t size);
void *__wrap_sti_process_aligned(size_t alignment, size_t size);
void __wrap_sti_process_free(void *block);
int __wrap_sti_watch_begin(struct sti_watch *watch, uint64_t time);
void __wrap_sti_watch_end(struct sti_watch *watch);
void __real_sti_payload_settle(stint_outcome *outcome);
void __wrap_sti_payload_settle(stint_outcome *outcome);

void *__wrap_sti_process_malloc(size_t size)
{
    void *block = __real_sti_process_malloc(size);
    add(block, __builtin_return_address(0));
    return block;
}

void *__wrap_sti_process_calloc(size_t count, size_t size)
{
    void *block = __real_sti_process_calloc(count, size);
    add(block, __builtin_return_address(0));
    return block;
}

/* Off the table before another thread can get the same block. */
void *__wrap_sti_process_realloc(void *block, size_t size)
{
    drop(block);
    void *moved = __real_sti_process_realloc(block, size);
    add(moved != NULL ? moved : block, __builtin_return_address(0));
    return moved;
}

void *__wrap_sti_process_aligned(size_t alignment, size_t size)
{
    void *block = __real_sti_process_aligned(alignment, size);
    add(block, __builtin_return_address(0));
    return block;
}

void __wrap_sti_process_free(void *block)
{
    drop(block);
    __real_sti_process_free(block);
}

int __wrap_sti_watch_begin(struct sti_watch *watch, uint64_t time)
{
    int error = __real_sti_watch_begin(watch, time);
    if (error == 0)
        add(watch, __builtin_return_address(0));
    return error;
}

void __wrap_sti_watch_end(struct sti_watch *watch)
{
    __real_sti_watch_end(watch);
    drop(watch);
}

/* Outside of tasks the block is the program's from now on. */
void __wrap_sti_payload_settle(stint_outcome *outcome)
{
    __real_sti_payload_settle(outcome);
    drop(outcome->payload);
}

/* --- Looking ------------------------------------------------------------------------------------------------------ */

/* Some tests check that unmapped memory is free: so the table is mapped before. */
uint64_t live_number(void)
{
    first_place();
    return atomic_load_explicit(&numbers, memory_order_relaxed);
}

size_t live_since(uint64_t number)
{
    size_t count = 0;
    const struct place *first = first_place();
    for (size_t i = 0; first != NULL && i < PLACES + REACH; i++)
        count += atomic_load_explicit(&first[i].number, memory_order_acquire) > number;
    return count;
}

/* Internal functions have names in the file only. */
static void tell_name(const char *file, uintptr_t base, uintptr_t address)
{
    struct stat status;
    int descriptor = open(file, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0 || fstat(descriptor, &status) != 0)
        return;
    const char *image = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    close(descriptor);
    if (image == MAP_FAILED)
        return;
    const ElfW(Ehdr) *header = (const void *)image;
    const ElfW(Shdr) *sections = (const void *)(image + header->e_shoff);
    for (size_t i = 0; i < header->e_shnum; i++) {
        if (sections[i].sh_type != SHT_SYMTAB)
            continue;
        const ElfW(Sym) *symbols = (const void *)(image + sections[i].sh_offset);
        const char *names = image + sections[sections[i].sh_link].sh_offset;
        for (size_t k = 0; k < sections[i].sh_size / sizeof *symbols; k++) {
            if (ELF64_ST_TYPE(symbols[k].st_info) == STT_FUNC && address - base >= symbols[k].st_value &&
                address - base < symbols[k].st_value + symbols[k].st_size)
                fprintf(stderr, " by %s", names + symbols[k].st_name);
        }
    }
    munmap((void *)(uintptr_t)image, (size_t)status.st_size);
}

void live_tell(uint64_t number)
{
    size_t told = 0;
    const struct place *first = first_place();
    for (size_t i = 0; first != NULL && i < PLACES + REACH && told < MOST_TOLD; i++) {
        uintptr_t maker = atomic_load_explicit(&first[i].maker, memory_order_relaxed);
        Dl_info info;
        const struct link_map *module = sti_module_of((const void *)maker);
        if (atomic_load_explicit(&first[i].number, memory_order_acquire) <= number)
            continue;
        told++;
        fprintf(stderr, "there is still a record %p, made",
                (void *)atomic_load_explicit(&first[i].record, memory_order_relaxed));
        if (module != NULL && dladdr((const void *)maker, &info) != 0)
            tell_name(info.dli_fname, module->l_addr, maker);
        fprintf(stderr, " (%p)\n", (void *)maker);
    }
}
