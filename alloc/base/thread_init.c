/* SPDX-License-Identifier: MIT
 *
 * Code that makes a thread's variables; see thread_init.h.
 *
 * How compilers name the byte: by the thread pointer, where the variable is a program's; in a library by what
 * __tls_get_addr has returned for the module, or without optimisation for the variable; and by a register that holds
 * the thread pointer, where the linker has made a program of code for libraries. Where gcc has put the test into
 * another function than the rest (__tls_init.part.0), that it registers a destructor shows what it is.
 *
 * Two ways are followed from instruction to instruction: from the one that sets the byte, and from the beginning and
 * each test without passing that. What only the first comes to is the initialisation. A table of jumps is not followed:
 * what lies behind one is known by neither way, and so is not taken for initialisation.
 *
 * Answers are remembered like the rules in callstack.c, and may be stale like those after a dlclose: then an interrupt
 * comes in such code, or waits in other. */
#include "thread_init.h"

#if defined(__x86_64__)

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "caller.h"
#include "callstack.h"
#include "instruction.h"
#include "module.h"
#include "process.h"

#define LARGEST ((uintptr_t)16 << 10) /* function that is read */
#define WORDS (LARGEST / 64)
#define MAX_SWEEPS 64
#define CACHE_BITS 10

typedef uintptr_t tls_index[2];
extern void *__tls_get_addr(void *index);

struct module {
    uintptr_t begin;
    uintptr_t end;
    const struct link_map *map;
    uintptr_t thread_local_size; /* 0: it has none */
};

struct function {
    struct module module;
    uintptr_t begin;
    uintptr_t end;
    const void *block; /* what __tls_get_addr returns here; NULL: it is not called */
    bool by_pointer;   /* a register holds the thread pointer */
};

/* A bit for each byte at which an instruction begins. */
struct reached {
    uint64_t bits[WORDS];
};

/* --- The module --------------------------------------------------------------------------------------------------- */

/* The first page of a module is that of its file, with its header, as a rule. */
static bool find_module(uintptr_t instruction, struct module *module)
{
    struct dl_find_object found;
    if (_dl_find_object((void *)instruction, &found) != 0)
        return false;
    const ElfW(Ehdr) *header = found.dlfo_map_start;
    *module = (struct module){ .begin = (uintptr_t)found.dlfo_map_start,
                               .end = (uintptr_t)found.dlfo_map_end,
                               .map = found.dlfo_link_map };
    if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_phoff + header->e_phnum * sizeof(ElfW(Phdr)) > 4096)
        return true;
    const ElfW(Phdr) *segments = (const ElfW(Phdr) *)(module->begin + header->e_phoff);
    for (size_t i = 0; i < header->e_phnum; i++) {
        if (segments[i].p_type == PT_TLS)
            module->thread_local_size = (segments[i].p_memsz + segments[i].p_align - 1) & ~(segments[i].p_align - 1);
    }
    return true;
}

static const void *dynamic_entry(const struct module *module, ElfW(Sxword) tag)
{
    for (const ElfW(Dyn) *entry = module->map->l_ld; entry != NULL && entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == tag)
            return (const void *)entry->d_un.d_ptr;
    }
    return NULL;
}

static bool is_slot_of_registration(const struct module *module, uintptr_t slot, ElfW(Sxword) table, ElfW(Sxword) bytes)
{
    const ElfW(Rela) *relocation = dynamic_entry(module, table);
    const ElfW(Sym) *symbols = dynamic_entry(module, DT_SYMTAB);
    const char *names = dynamic_entry(module, DT_STRTAB);
    size_t count = (uintptr_t)dynamic_entry(module, bytes) / sizeof *relocation;
    if (relocation == NULL || symbols == NULL || names == NULL)
        return false;
    for (size_t i = 0; i < count; i++, relocation++) {
        if (module->map->l_addr + relocation->r_offset == slot)
            return strcmp(names + symbols[ELF64_R_SYM(relocation->r_info)].st_name, "__cxa_thread_atexit") == 0;
    }
    return false;
}

static uintptr_t relative(uintptr_t at)
{
    return at + sizeof(int32_t) + (uintptr_t)(intptr_t)sti_read_s32((const void *)at);
}

/* A call of what registers destructors of thread_local variables: by the table of addresses, or by a stub that jumps
 * through it, or itself. */
static bool registers_destructor(const struct module *module, uintptr_t call)
{
    const uint8_t *code = (const uint8_t *)call;
    uintptr_t slot;
    if (code[0] == 0xff && code[1] == 0x15) {
        slot = relative(call + 2);
    } else if (code[0] == 0xe8) {
        uintptr_t stub = relative(call + 1);
        if (stub < module->begin || stub + 16 > module->end)
            return false;
        code = (const uint8_t *)stub;
        code += memcmp(code, "\xf3\x0f\x1e\xfa", 4) == 0 ? 4 : 0;
        code += *code == 0xf2;
        if (code[0] != 0xff || code[1] != 0x25)
            return stub == (uintptr_t)sti_module_symbol(sti_module_loaded(module->map), "__cxa_thread_atexit");
        slot = relative((uintptr_t)code + 2);
    } else {
        return false;
    }
    return is_slot_of_registration(module, slot, DT_JMPREL, DT_PLTRELSZ) ||
           is_slot_of_registration(module, slot, DT_RELA, DT_RELASZ);
}

/* --- The function ------------------------------------------------------------------------------------------------- */

/* The loader has put a module's number there. */
static bool is_pair(const struct module *module, uintptr_t address)
{
    const ElfW(Rela) *relocation = dynamic_entry(module, DT_RELA);
    size_t count = (uintptr_t)dynamic_entry(module, DT_RELASZ) / sizeof *relocation;
    for (size_t i = 0; relocation != NULL && i < count; i++) {
        if (module->map->l_addr + relocation[i].r_offset == address)
            return ELF64_R_TYPE(relocation[i].r_info) == R_X86_64_DTPMOD64;
    }
    return false;
}

/* A pair in the table of addresses: the module's number, and an offset. */
STI_CALLER_UNINSTRUMENTED static uintptr_t *index_at(const struct function *function, uintptr_t pair)
{
    if (pair < function->module.begin || pair + sizeof(tls_index) > function->module.end || pair % 8 != 0)
        return NULL;
    uintptr_t *index = (uintptr_t *)pair;
    return is_pair(&function->module, pair) && index[1] < function->module.thread_local_size ? index : NULL;
}

/* lea of such a pair, whose offset is 0. */
static const void *thread_local_block(const struct function *function, uintptr_t instruction)
{
    if (memcmp((const void *)instruction, "\x48\x8d\x3d", 3) != 0)
        return NULL;
    uintptr_t *index = index_at(function, relative(instruction + 3));
    return index != NULL && index[1] == 0 ? __tls_get_addr(index) : NULL;
}

/* lea of a register and displacement, into the one that the next instruction names; of the first eight registers. clang
 * 19 sets a byte so whose address it needs again. */
#define LEA_SIZE 7
static bool is_lea_for(const uint8_t *lea, const uint8_t *next)
{
    bool has_prefix = (*next >= 0x40 && *next < 0x50) || *next == 0x0f || (*next >= 0x64 && *next < 0x68);
    return !has_prefix && lea[0] == 0x48 && lea[1] == 0x8d && lea[2] >> 6 == 2 && (lea[2] & 7) != 4 &&
           (lea[2] >> 3 & 7) == (next[1] & 7);
}

/* Without optimisation each variable has a call of its own, whose result is used at once; the linker may have made a
 * place relative to the thread pointer of it. Both have 16 bytes. */
#define CALL_SIZE 16
static void follow_address(const struct function *function, uintptr_t at, struct sti_instruction *instruction)
{
    uintptr_t call = at - CALL_SIZE;
    uintptr_t *index = NULL;
    if (at - function->begin < CALL_SIZE) {
        instruction->place = STI_INSTRUCTION_NO_PLACE;
    } else if (memcmp((const void *)call, "\x64\x48\x8b\x04\x25\0\0\0\0\x48\x8d\x80", 12) == 0) {
        instruction->place = STI_INSTRUCTION_BY_THREAD;
        instruction->displacement = sti_read_s32((const void *)(call + 12));
    } else if (memcmp((const void *)call, "\x66\x48\x8d\x3d", 4) == 0 &&
               (index = index_at(function, relative(call + 4))) != NULL) {
        instruction->displacement = (int32_t)index[1];
    } else if (is_lea_for((const uint8_t *)at - LEA_SIZE, (const uint8_t *)at)) {
        instruction->place = STI_INSTRUCTION_BY_REGISTER;
        instruction->displacement = sti_read_s32((const void *)(at - sizeof(int32_t)));
    } else {
        instruction->place = STI_INSTRUCTION_NO_PLACE;
    }
}

static struct sti_instruction read_at(const struct function *function, uintptr_t at)
{
    struct sti_instruction instruction = sti_instruction_at(at, function->end);
    if (instruction.place == STI_INSTRUCTION_AT_REGISTER)
        follow_address(function, at, &instruction);
    if (instruction.place == STI_INSTRUCTION_NO_PLACE)
        instruction.is_byte = instruction.writes_byte = instruction.writes_byte_one = false;
    return instruction;
}

/* What its thread-local variables are named by. False: it cannot be read. */
static bool read_function(struct function *function)
{
    for (uintptr_t at = function->begin; at < function->end;) {
        struct sti_instruction instruction = read_at(function, at);
        if (instruction.length == 0)
            return false;
        if (instruction.length == 7 && function->block == NULL)
            function->block = thread_local_block(function, at);
        if (instruction.place == STI_INSTRUCTION_BY_THREAD && instruction.displacement == 0 && !instruction.is_byte)
            function->by_pointer = true;
        at += instruction.length;
    }
    return true;
}

static bool is_one_before(const struct function *function, int32_t displacement)
{
    const char *pointer = __builtin_thread_pointer();
    return displacement < 0 && (uintptr_t) - (intptr_t)displacement <= function->module.thread_local_size &&
           pointer[displacement] == 1;
}

/* The byte is thread-local, and set as it has to be when this code is at work. */
static bool is_set(const struct function *function, const struct sti_instruction *instruction, uintptr_t at)
{
    int32_t displacement = instruction->displacement;
    if (instruction->place == STI_INSTRUCTION_AT_REGISTER)
        return *(const char *)__tls_get_addr(index_at(function, relative(at - CALL_SIZE + 4))) == 1;
    if (instruction->place == STI_INSTRUCTION_BY_THREAD)
        return is_one_before(function, displacement);
    if (function->block != NULL && displacement >= 0 && (uintptr_t)displacement < function->module.thread_local_size &&
        ((const char *)function->block)[displacement] == 1)
        return true;
    return function->by_pointer && is_one_before(function, displacement);
}

static bool names_same(const struct sti_instruction *one, const struct sti_instruction *other)
{
    return one->place == other->place && one->displacement == other->displacement;
}

/* --- Its ways ----------------------------------------------------------------------------------------------------- */

static bool mark(struct reached *reached, const struct function *function, uintptr_t at)
{
    uintptr_t offset = at - function->begin;
    if (offset >= function->end - function->begin)
        return false;
    bool is_new = (reached->bits[offset / 64] >> offset % 64 & 1) == 0;
    reached->bits[offset / 64] |= UINT64_C(1) << offset % 64;
    return is_new;
}

static bool is_marked(const struct reached *reached, const struct function *function, uintptr_t at)
{
    uintptr_t offset = at - function->begin;
    return (reached->bits[offset / 64] >> offset % 64 & 1) != 0;
}

/* Whether something was found that one more sweep has to go on from. */
static bool sweep(struct reached *reached, const struct function *function, const struct sti_instruction *set,
                  bool from_set)
{
    bool again = false;
    for (uintptr_t at = function->begin; at < function->end;) {
        struct sti_instruction instruction = read_at(function, at);
        uintptr_t next = at + instruction.length;
        bool is_use = names_same(&instruction, set) && (instruction.is_byte || instruction.writes_byte);
        bool is_setting = is_use && instruction.writes_byte;
        if (from_set ? is_setting : (at == function->begin || (is_use && !is_setting)))
            mark(reached, function, at);
        if (is_marked(reached, function, at) && (from_set || !is_setting)) {
            if (instruction.flow == STI_INSTRUCTION_GOES_ON || instruction.flow == STI_INSTRUCTION_BRANCHES)
                mark(reached, function, next);
            if (instruction.flow == STI_INSTRUCTION_BRANCHES || instruction.flow == STI_INSTRUCTION_JUMPS)
                again |= mark(reached, function, instruction.target) && instruction.target <= at;
        }
        at = next;
    }
    return again;
}

/* False: it is not done. */
static bool follow(struct reached *reached, const struct function *function, const struct sti_instruction *set,
                   bool from_set)
{
    unsigned sweeps = 0;
    memset(reached, 0, sizeof *reached);
    while (sweep(reached, function, set, from_set) && ++sweeps < MAX_SWEEPS)
        ;
    return sweeps < MAX_SWEEPS;
}

struct uses {
    bool tested;
    bool written_otherwise;
    bool registers;
    bool contains; /* the instruction in question is in the initialisation */
};

static __attribute__((noinline)) struct uses look_at_uses(const struct function *function,
                                                          const struct sti_instruction *set, uintptr_t wanted)
{
    struct reached by_set;
    struct reached otherwise;
    struct uses uses = { .tested = false };
    if (!follow(&by_set, function, set, true) || !follow(&otherwise, function, set, false))
        return uses;
    for (uintptr_t at = function->begin; at < function->end;) {
        struct sti_instruction instruction = read_at(function, at);
        bool is_in = is_marked(&by_set, function, at) && !is_marked(&otherwise, function, at);
        if (names_same(&instruction, set)) {
            uses.tested |= instruction.is_byte;
            uses.written_otherwise |= instruction.writes_byte && !instruction.writes_byte_one;
        }
        uses.registers |= is_in && registers_destructor(&function->module, at);
        uses.contains |= is_in && wanted - at < instruction.length;
        at += instruction.length;
    }
    return uses;
}

/* By one of the bytes that it sets. */
static bool initialises(const struct function *function, uintptr_t wanted)
{
    for (uintptr_t at = function->begin; at < function->end;) {
        struct sti_instruction instruction = read_at(function, at);
        if (instruction.writes_byte_one && is_set(function, &instruction, at)) {
            struct uses uses = look_at_uses(function, &instruction, wanted);
            if (uses.contains && !uses.written_otherwise && (uses.tested || uses.registers))
                return true;
        }
        at += instruction.length;
    }
    return false;
}

/* Most functions set no byte to 1, by a displacement of 32 bits or without. */
static bool may_set(const struct function *function)
{
    const uint8_t *end = (const uint8_t *)function->end;
    for (const uint8_t *at = (const uint8_t *)function->begin; end - at >= 7; at++) {
        at = memchr(at, 0xc6, (size_t)(end - at) - 6);
        if (at == NULL)
            return false;
        bool has_sib = (at[1] & 7) == 4;
        if (at[1] < 8 && at[1] != 4 && at[1] != 5 && at[2] == 1)
            return true;
        if ((at[1] >> 6 == 2 || (at[1] == 0x04 && at[2] == 0x25)) && end - at >= 7 + has_sib && at[6 + has_sib] == 1)
            return true;
    }
    return false;
}

static __attribute__((noinline)) bool look(const struct module *module, uintptr_t instruction)
{
    struct function function = { .module = *module };
    if (!sti_frame_function(instruction, &function.begin, &function.end) || function.end - function.begin > LARGEST ||
        !may_set(&function))
        return false;
    return read_function(&function) && initialises(&function, instruction);
}

STI_TABLE _Atomic uintptr_t sti_thread_init_answers[1 << CACHE_BITS];

/* An answer is one word: the address and a bit. */
bool sti_thread_init_contains(uintptr_t instruction)
{
    struct module module;
    _Atomic uintptr_t *entry =
        &sti_thread_init_answers[(instruction ^ instruction >> CACHE_BITS) & ((1 << CACHE_BITS) - 1)];
    uintptr_t word = atomic_load_explicit(entry, memory_order_relaxed);
    if (word >> 1 == instruction)
        return (word & 1) != 0;
    if (!find_module(instruction, &module) || module.thread_local_size == 0)
        return false;
    bool answer = look(&module, instruction);
    atomic_store_explicit(entry, instruction << 1 | answer, memory_order_relaxed);
    return answer;
}

#else

bool sti_thread_init_contains(uintptr_t instruction)
{
    (void)instruction;
    return false;
}

#endif
