/* SPDX-License-Identifier: MIT
 *
 * Reading a landing pad; see landing_pad.h. Any thread.
 *
 * It is followed from its first instruction, through the moves that save the exception and the comparisons that look
 * for the right block, to its first call. Where that is a destructor's the ways behind it are followed too, both where
 * one divides, to what they end in: the process's end, a block, or the next frame. gcc calls std::terminate or
 * __cxa_call_terminate by name. clang calls a function of the module's own that has no name at run time, but one shape:
 *
 *   [endbr64]  push %rax | push %rbp; mov %rsp,%rbp  call __cxa_begin_catch  call std::terminate
 *
 * An instruction that is not known, or a way that is too long, leaves it open what comes.
 *
 * Answers are remembered, and may be stale after a dlclose: then an exception is thrown, or not, where it should not
 * be. */
#include "landing_pad.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "alloc/base/callstack.h"
#include "alloc/base/instruction.h"
#include "alloc/base/module.h"

#define MAX_INSTRUCTIONS 64 /* to the first call */

/* Whether these bytes are next; then they are passed. */
static bool pass(const uint8_t **at, const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if ((*at)[i] != (uint8_t)bytes[i])
            return false;
    }
    *at += size;
    return true;
}
#define PASS(at, bytes) pass(at, bytes, sizeof(bytes) - 1)

/* A distance, from what follows it. */
static const uint8_t *pass_target(const uint8_t **at)
{
    int32_t distance = sti_read_s32(*at);
    *at += 4;
    return *at + distance;
}

/* --- What is called ----------------------------------------------------------------------------------------------- */

static bool ends_process(const char *name)
{
    return name != NULL && (strcmp(name, "_ZSt9terminatev") == 0 || strcmp(name, "__cxa_call_terminate") == 0);
}

static bool is_imported(const uint8_t *entry)
{
    return ends_process(sti_module_imported(sti_module_loaded(sti_module_of(entry)), entry));
}

/* By a module that has a runtime of its own. */
static bool is_defined_here(const uint8_t *function, const char *name)
{
    return function == sti_module_symbol(sti_module_loaded(sti_module_of(function)), name);
}

static bool pass_call(const uint8_t **at)
{
    if (!PASS(at, "\xe8") && !PASS(at, "\xff\x15"))
        return false;
    *at += 4;
    return true;
}

/* A function, the linkage table's way to one (jmp *entry), or clang's. */
static bool ends_there(const uint8_t *function)
{
    const uint8_t *at = function;
    (void)PASS(&at, "\xf3\x0f\x1e\xfa");
    if (PASS(&at, "\xff\x25") || PASS(&at, "\xf2\xff\x25"))
        return is_imported(pass_target(&at));
    if ((PASS(&at, "\x50") || PASS(&at, "\x55\x48\x89\xe5")) && pass_call(&at) && pass_call(&at))
        return true;
    return is_defined_here(function, "_ZSt9terminatev") || is_defined_here(function, "__cxa_call_terminate");
}

/* --- The way there ------------------------------------------------------------------------------------------------ */

struct walk {
    const uint8_t *at;
    int64_t selector; /* less what has been subtracted from it */
    int64_t number;   /* the last that was loaded: clang without optimisation does that to compare */
    bool has_number;
    int64_t left; /* the last comparison's */
    int64_t right;
    bool has_compared;
};

static void compare(struct walk *walk, int64_t number)
{
    walk->left = walk->selector;
    walk->right = number;
    walk->has_compared = true;
}

/* An operand in a register or in memory, from the byte that says which. */
static void pass_operand(const uint8_t **at)
{
    uint8_t mode = **at >> 6;
    uint8_t base = *(*at)++ & 7;
    if (mode == 3)
        return;
    if (base == 4)
        base = *(*at)++ & 7; /* of a second byte */
    *at += mode == 1 ? 1 : mode == 2 || (mode == 0 && base == 5) ? 4 : 0;
}

/* gcc from version 16 on subtracts so; of what lies on the stack it is the address. */
static void pass_address(struct walk *walk)
{
    uint8_t mode = walk->at[0] >> 6;
    uint8_t base = walk->at[0] & 7;
    if (mode == 1 && base != 4 && base != 5)
        walk->selector += (int8_t)walk->at[1];
    pass_operand(&walk->at);
}

/* cmp or sub of a register and a number. False: it is something else. */
static bool with_number(struct walk *walk, uint8_t code)
{
    uint8_t what = walk->at[0] & 0xf8;
    int64_t number = code == 0x83 ? (int8_t)walk->at[1] : sti_read_s32(walk->at + 1);
    walk->at += code == 0x83 ? 2 : 5;
    compare(walk, number);
    if (what == 0xe8)
        walk->selector -= number;
    return what == 0xf8 || what == 0xe8;
}

/* The lowest bit of a condition's code turns it around. */
static bool holds(const struct walk *walk, unsigned condition)
{
    bool below = (uint64_t)walk->left < (uint64_t)walk->right;
    bool less = walk->left < walk->right;
    bool equal = walk->left == walk->right;
    switch (condition & ~1U) {
    case 2:
        return below != (condition & 1);
    case 4:
        return equal != (condition & 1);
    case 6:
        return (below || equal) != (condition & 1);
    case 12:
        return less != (condition & 1);
    default: /* 14 */
        return (less || equal) != (condition & 1);
    }
}

/* False: nothing was compared, or not for that. */
static bool jump_if(struct walk *walk, unsigned condition, int64_t distance)
{
    const unsigned known = 1U << 2 | 1U << 4 | 1U << 6 | 1U << 12 | 1U << 14;
    if (!walk->has_compared || (known >> (condition & ~1U) & 1) == 0)
        return false;
    if (holds(walk, condition))
        walk->at += distance;
    return true;
}

/* False: not known. */
static bool step(struct walk *walk)
{
    const uint8_t **at = &walk->at;
    int64_t distance;
    if ((**at & 0xf0) == 0x40) /* a prefix: of 64 bits, or of the upper registers */
        (*at)++;
    uint8_t code = *(*at)++;
    switch (code) {
    case 0x89: /* mov */
    case 0x8b:
        pass_operand(at);
        return true;
    case 0x39: /* cmp of two registers */
    case 0x3b:
        pass_operand(at);
        compare(walk, walk->number);
        return walk->has_number;
    case 0x8d: /* lea */
        pass_address(walk);
        return true;
    case 0x81:
    case 0x83:
        return with_number(walk, code);
    case 0x85: /* test of a register with itself */
        compare(walk, 0);
        (*at)++;
        return (*at)[-1] >> 3 == (0x18 | ((*at)[-1] & 7));
    case 0xb8: /* mov of a number: to %eax, %ecx, %esi */
    case 0xb9:
    case 0xbe:
        walk->number = sti_read_s32(*at);
        walk->has_number = true;
        *at += 4;
        return true;
    case 0xeb: /* jmp */
        *at += 1 + (int8_t)(*at)[0];
        return true;
    case 0xe9:
        *at = pass_target(at);
        return true;
    case 0x0f:
        code = *(*at)++;
        distance = sti_read_s32(*at);
        *at += 4;
        return (code & 0xf0) == 0x80 && jump_if(walk, code & 15U, distance);
    default:
        distance = (int8_t)(*at)[0];
        *at += 1;
        return (code & 0xf0) == 0x70 && jump_if(walk, code & 15U, distance);
    }
}

/* --- The ways behind a destructor --------------------------------------------------------------------------------
 *
 * Destructors may be inlined, with branches of their own, and what a comparison compares is not known any more: so all
 * ways are followed, but where a number is compared that may be a block's, that way is taken which the selector would
 * take. Each ends in a call that does not return. */

#define MAX_WAYS 32
#define MAX_SEEN 512 /* instructions */
#define MAX_NUMBER 64
#define BEGIN_CATCH "__cxa_begin_catch"

enum end {
    UNKNOWN,
    RETURNS, /* a destructor, or whatever else */
    ENDS,
    CATCHES,
    PASSES_ON,
};

struct way {
    uintptr_t at;
    int64_t number; /* that was loaded last; 0: none */
};

struct ways {
    struct way left[MAX_WAYS]; /* to be followed */
    size_t left_count;
    uintptr_t seen[MAX_SEEN];
    size_t seen_count;
    int64_t selector;
    bool ends;
    bool goes_on;
    bool lost;
};

/* One of libgcc's that may land elsewhere than where it was called, by __builtin_eh_return: no other function saves
 * %rdx and %rax as it begins. A program with an unwinder of its own (-static-libgcc) calls it without a name. */
#define BEGINNING 64
static bool is_unwinder(const uint8_t *function)
{
    const uintptr_t begin = (uintptr_t)function;
    uintptr_t at = begin;
    for (uint8_t before = 0; at < begin + BEGINNING;) {
        const struct sti_instruction instruction = sti_instruction_at(at, begin + BEGINNING);
        const uint8_t code = *(const uint8_t *)at;
        if (before == 0x52 && code == 0x50) /* push */
            return true;
        if (instruction.length == 0 || instruction.flow != STI_INSTRUCTION_GOES_ON || code == 0xe8)
            return false;
        before = code;
        at += instruction.length;
    }
    return false;
}

static enum end end_of_named(const char *name)
{
    if (name == NULL)
        return RETURNS;
    if (ends_process(name))
        return ENDS;
    if (strcmp(name, "_Unwind_Resume") == 0)
        return PASSES_ON;
    return strcmp(name, BEGIN_CATCH) == 0 ? CATCHES : RETURNS;
}

static enum end end_of_function(const uint8_t *function)
{
    const uint8_t *at = function;
    if (ends_there(function))
        return ENDS;
    (void)PASS(&at, "\xf3\x0f\x1e\xfa");
    if (!PASS(&at, "\xff\x25") && !PASS(&at, "\xf2\xff\x25"))
        return is_unwinder(function) ? PASSES_ON : is_defined_here(function, BEGIN_CATCH) ? CATCHES : RETURNS;
    const uint8_t *entry = pass_target(&at);
    return end_of_named(sti_module_imported(sti_module_loaded(sti_module_of(entry)), entry));
}

/* UNKNOWN: it is no call. */
static enum end end_of_call(const uint8_t *at)
{
    const uint8_t *behind = at;
    if (PASS(&behind, "\xe8"))
        return end_of_function(pass_target(&behind));
    if (!PASS(&behind, "\xff\x15"))
        return UNKNOWN;
    const uint8_t *entry = pass_target(&behind);
    return end_of_named(sti_module_imported(sti_module_loaded(sti_module_of(entry)), entry));
}

static void add_way(struct ways *ways, uintptr_t at, int64_t number)
{
    if (ways->left_count < MAX_WAYS)
        ways->left[ways->left_count++] = (struct way){ .at = at, .number = number };
    else
        ways->lost = true;
}

/* False: it has been followed from here. */
static bool see(struct ways *ways, uintptr_t at)
{
    for (size_t i = 0; i < ways->seen_count; i++) {
        if (ways->seen[i] == at)
            return false;
    }
    if (ways->seen_count == MAX_SEEN) {
        ways->lost = true;
        return false;
    }
    ways->seen[ways->seen_count++] = at;
    return true;
}

/* The number that the instruction compares something in a register with; 0: none that may be a block's. */
static int64_t compared(const uint8_t *at, int64_t loaded)
{
    int64_t number = 0;
    if ((*at & 0xf0) == 0x40)
        at++;
    if (at[0] == 0x83 && (at[1] & 0xf8) == 0xf8)
        number = (int8_t)at[2];
    else if (at[0] == 0x39 && at[1] >> 6 == 3)
        number = loaded;
    return number > 0 && number <= MAX_NUMBER ? number : 0;
}

static int64_t loaded(const uint8_t *at)
{
    return *at == 0xb8 || *at == 0xb9 || *at == 0xbe ? sti_read_s32(at + 1) : 0;
}

/* je or jne. */
static bool asks_if_equal(const uint8_t *at, bool *equal)
{
    if (at[0] == 0x0f)
        at++;
    *equal = (*at & 1) == 0;
    return (*at & 0x0e) == 4;
}

/* So far as it does not divide. */
static void follow(struct ways *ways, struct way way, uintptr_t end)
{
    int64_t number = 0; /* compared by the instruction before */
    while (!ways->lost && see(ways, way.at)) {
        const uint8_t *code = (const uint8_t *)way.at;
        const struct sti_instruction instruction = sti_instruction_at(way.at, end);
        enum end called = instruction.length >= 5 ? end_of_call(code) : UNKNOWN;
        bool equal;
        if (called > RETURNS) {
            ways->ends |= called == ENDS;
            ways->goes_on |= called == PASSES_ON || (called == CATCHES && ways->selector != 0);
            return;
        }
        uintptr_t next = way.at + instruction.length;
        ways->lost |= instruction.length == 0;
        if (instruction.flow == STI_INSTRUCTION_ENDS)
            return;
        if (instruction.flow == STI_INSTRUCTION_BRANCHES) {
            if (number == 0 || !asks_if_equal(code, &equal))
                add_way(ways, instruction.target, way.number);
            else if (equal == (number == ways->selector))
                next = instruction.target;
        }
        number = compared(code, way.number);
        if (loaded(code) != 0)
            way.number = loaded(code);
        way.at = instruction.flow == STI_INSTRUCTION_JUMPS ? instruction.target : next;
    }
}

/* Where blocks begin is seen by the name of what they call: the C++ runtime's, or the module's own if others may see
 * it. */
static bool shows_blocks(const struct link_map *module)
{
    const struct sti_module tables = sti_module_loaded(module);
    return sti_module_symbol(tables, BEGIN_CATCH) != NULL || sti_module_needs(tables, "libstdc++.so") ||
           sti_module_needs(tables, "libc++.so") || sti_module_needs(tables, "libc++abi.so");
}

static __attribute__((noinline)) bool all_end(const uint8_t *at, int64_t selector)
{
    struct ways ways = { .selector = selector };
    struct dl_find_object module;
    if (_dl_find_object((void *)(uintptr_t)at, &module) != 0 || (selector != 0 && !shows_blocks(module.dlfo_link_map)))
        return false;
    add_way(&ways, (uintptr_t)at, 0);
    while (ways.left_count > 0 && !ways.lost)
        follow(&ways, ways.left[--ways.left_count], (uintptr_t)module.dlfo_map_end);
    return ways.ends && !ways.goes_on && !ways.lost;
}

/* --- From the beginning ------------------------------------------------------------------------------------------- */

static bool look(uintptr_t landing_pad, int64_t selector)
{
    struct walk walk = { .at = (const uint8_t *)landing_pad, .selector = selector };
    (void)PASS(&walk.at, "\xf3\x0f\x1e\xfa");
    for (int i = 0; i < MAX_INSTRUCTIONS; i++) {
        const uint8_t *at = walk.at;
        switch (end_of_call(at)) {
        case UNKNOWN:
            break;
        case ENDS:
            return true;
        case RETURNS:
            return all_end(at, selector);
        default:
            return false;
        }
        if (!step(&walk))
            return all_end(at, selector);
    }
    return false;
}

#define CACHE_BITS 8

bool sti_landing_pad_ends(uintptr_t landing_pad, int64_t selector)
{
    static _Atomic uintptr_t cache[1 << CACHE_BITS];
    const uintptr_t asked = landing_pad << 8 | (uintptr_t)(selector & 0x7f) << 1;
    _Atomic uintptr_t *entry = &cache[(asked >> 1 ^ asked >> (1 + CACHE_BITS)) & ((1 << CACHE_BITS) - 1)];
    uintptr_t word = atomic_load_explicit(entry, memory_order_relaxed);
    if (selector > 0x7f)
        return look(landing_pad, selector);
    if ((word & ~(uintptr_t)1) == asked)
        return (word & 1) != 0;
    bool answer = look(landing_pad, selector);
    atomic_store_explicit(entry, asked | answer, memory_order_relaxed);
    return answer;
}
