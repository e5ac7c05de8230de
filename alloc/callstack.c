/* SPDX-License-Identifier: MIT
 *
 * Callstacks; see callstack.h. Any thread.
 *
 * The cache. An entry is one word, so it is read and written whole: the return address without its lowest bits, which say
 * where in the cache it is, and its rule. Entries are overwritten by others and by nothing else. So after a dlclose an
 * address that comes to lie in another module may have the old rule for a while: then a callstack is wrong from there on.
 * No step of it goes down the stack or far up, so that it reads nothing but the stack. */
#include "callstack.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <unwind.h>

#include "caller.h"
#include "frame_rule.h"

struct slow_walk {
    void **frames;
    size_t depth;
    size_t length;
    uintptr_t caller;
    bool reached;
};

static bool visit(struct slow_walk *walk, uintptr_t address)
{
    walk->reached = walk->reached || address == walk->caller;
    if (walk->reached)
        walk->frames[walk->length++] = (void *)address;
    return walk->length < walk->depth;
}

static _Unwind_Reason_Code visit_frame(struct _Unwind_Context *context, void *walk)
{
    uintptr_t address = _Unwind_GetIP(context);
    return address != 0 && visit(walk, address) ? _URC_NO_REASON : _URC_END_OF_STACK;
}

/* libgcc may be in the middle of its own lists, and wait for itself. */
static bool is_unwinders(const void *caller)
{
    struct dl_find_object found;
    struct dl_find_object unwinder;
    return _dl_find_object((void *)(uintptr_t)caller, &found) == 0 &&
           _dl_find_object((void *)(uintptr_t)_Unwind_Backtrace, &unwinder) == 0 &&
           found.dlfo_link_map == unwinder.dlfo_link_map;
}

static void walk_slowly(struct slow_walk *walk)
{
    walk->length = 0;
    walk->reached = false;
    if (is_unwinders((const void *)walk->caller))
        visit(walk, walk->caller);
    else
        _Unwind_Backtrace(visit_frame, walk);
}

#if defined(__x86_64__)

#define CACHE_BITS 13
#define KIND_BITS 2
#define OFFSET_BITS 16
#define SAVED_BITS 12
#define RULE_BITS (KIND_BITS + OFFSET_BITS + SAVED_BITS)
#define UNIT 8 /* of offsets */
#define LARGEST_FRAME ((uintptr_t)1 << 20)

static _Atomic uint64_t cache[1 << CACHE_BITS];

static uint64_t packed(const struct sti_frame_rule *rule)
{
    uint64_t offset = rule->offset / UNIT;
    uint64_t saved = rule->saved / UNIT;
    bool fits = rule->kind <= STI_FRAME_BY_FRAME_POINTER && rule->offset % UNIT == 0 && rule->saved % UNIT == 0 &&
                offset < 1 << OFFSET_BITS && saved < 1 << SAVED_BITS;
    if (!fits)
        return rule->kind == STI_FRAME_LAST ? STI_FRAME_LAST : STI_FRAME_OTHER;
    return (saved << OFFSET_BITS | offset) << KIND_BITS | (uint64_t)rule->kind;
}

static struct sti_frame_rule unpacked(uint64_t word)
{
    return (struct sti_frame_rule){
        .kind = word & ((1 << KIND_BITS) - 1),
        .offset = (uint32_t)(word >> KIND_BITS & ((1 << OFFSET_BITS) - 1)) * UNIT,
        .saved = (uint32_t)(word >> (KIND_BITS + OFFSET_BITS) & ((1 << SAVED_BITS) - 1)) * UNIT,
    };
}

static __attribute__((noinline)) uint64_t fill(_Atomic uint64_t *entry, uintptr_t address)
{
    /* What returns there is the instruction before. */
    struct sti_frame_rule rule = sti_frame_rule(address - 1);
    uint64_t word = (uint64_t)(address >> CACHE_BITS) << RULE_BITS | packed(&rule);
    atomic_store_explicit(entry, word, memory_order_relaxed);
    return word;
}

static struct sti_frame_rule rule_at(uintptr_t address)
{
    uintptr_t upper = address >> CACHE_BITS;
    _Atomic uint64_t *entry = &cache[(address ^ upper) & ((1 << CACHE_BITS) - 1)];
    uint64_t word = atomic_load_explicit(entry, memory_order_relaxed);
    if (__builtin_expect(word >> RULE_BITS != upper, 0))
        word = fill(entry, address);
    return unpacked(word);
}

struct registers {
    uintptr_t ip;
    uintptr_t sp;
    uintptr_t bp;
};

/* False: there is no such caller. */
static bool step(struct registers *registers, const struct sti_frame_rule *rule)
{
    uintptr_t from = rule->kind == STI_FRAME_BY_STACK_POINTER ? registers->sp : registers->bp;
    uintptr_t frame = from + rule->offset;
    if (frame <= registers->sp || frame - registers->sp > LARGEST_FRAME || frame % UNIT != 0)
        return false;
    if (rule->saved != 0)
        registers->bp = *(const uintptr_t *)(frame - rule->saved);
    registers->ip = *(const uintptr_t *)(frame - UNIT);
    registers->sp = frame;
    return registers->ip != 0;
}

/* False: there is a frame that has no simple rule. */
static STI_CALLER_UNINSTRUMENTED bool walk_quickly(struct slow_walk *walk, struct registers registers)
{
    for (;;) {
        struct sti_frame_rule rule = rule_at(registers.ip);
        if (rule.kind == STI_FRAME_OTHER)
            return false;
        if (rule.kind == STI_FRAME_LAST || !step(&registers, &rule) || !visit(walk, registers.ip))
            return true;
    }
}

#endif

__attribute__((noinline)) size_t sti_callstack(void **frames, size_t depth, const void *caller)
{
    struct slow_walk walk = { .frames = frames, .depth = depth, .caller = (uintptr_t)caller };
    if (depth == 0)
        return 0;
#if defined(__x86_64__)
    struct registers here;
    __asm__ volatile("leaq 0f(%%rip), %0\n\t"
                     "movq %%rsp, %1\n\t"
                     "movq %%rbp, %2\n"
                     "0:"
                     : "=&r"(here.ip), "=&r"(here.sp), "=&r"(here.bp));
    if (walk_quickly(&walk, here))
        return walk.length;
#endif
    walk_slowly(&walk);
    return walk.length;
}
