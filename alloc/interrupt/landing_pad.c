/* SPDX-License-Identifier: MIT
 *
 * Reading a landing pad; see landing_pad.h. Any thread.
 *
 * It is followed from its first instruction, through the moves that save the exception and the comparisons that look for
 * the right block, to its first call, and that is the end of it: what is called ends the process, or is something else.
 * gcc calls std::terminate or __cxa_call_terminate by name. clang calls a function of the module's own that has no name at
 * run time, but one shape:
 *
 *   [endbr64]  push %rax | push %rbp; mov %rsp,%rbp  call __cxa_begin_catch  call std::terminate
 *
 * An instruction that is none of those, or a jump that depends on something else, leaves it open what comes. */
#include "landing_pad.h"

#include <stddef.h>
#include <string.h>

#include "alloc/base/callstack.h"
#include "alloc/base/module.h"

#define MAX_INSTRUCTIONS 64

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
static bool is_defined_here(const uint8_t *function)
{
    const struct sti_module module = sti_module_loaded(sti_module_of(function));
    return function == sti_module_symbol(module, "_ZSt9terminatev") ||
           function == sti_module_symbol(module, "__cxa_call_terminate");
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
    return is_defined_here(function);
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

bool sti_landing_pad_ends(uintptr_t landing_pad, int64_t selector)
{
    struct walk walk = { .at = (const uint8_t *)landing_pad, .selector = selector };
    (void)PASS(&walk.at, "\xf3\x0f\x1e\xfa");
    for (int i = 0; i < MAX_INSTRUCTIONS; i++) {
        if (PASS(&walk.at, "\xe8"))
            return ends_there(pass_target(&walk.at));
        if (PASS(&walk.at, "\xff\x15"))
            return is_imported(pass_target(&walk.at));
        if (!step(&walk))
            return false;
    }
    return false;
}
