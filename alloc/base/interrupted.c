/* SPDX-License-Identifier: MIT
 *
 * The callstack of code that a signal has interrupted; see interrupted.h. In signal handlers. */
#include "interrupted.h"

#include <stdbool.h>
#include <sys/uio.h>
#include <unistd.h>

#include "caller.h"
#include "callstack.h"

#define WORD sizeof(uintptr_t)
#define LARGEST_FRAME ((uintptr_t)1 << 20)

/* Below the stack pointer, which a signal leaves as it is. In an epilogue what has just been popped is still read from
 * there: compilers do not tell of each pop. */
#define RED_ZONE 128

#define MAX_PUSHED 8 /* registers that a function has to save, and a bit */

static STI_CALLER_UNINSTRUMENTED bool read_word(uintptr_t address, uintptr_t stack_end, uintptr_t *word)
{
    if (stack_end != 0) {
        bool is_on_stack = address <= stack_end - WORD;
        if (is_on_stack)
            *word = *(const uintptr_t *)address;
        return is_on_stack;
    }
    const struct iovec here = { .iov_base = word, .iov_len = WORD };
    const struct iovec there = { .iov_base = (void *)address, .iov_len = WORD };
    return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)WORD;
}

/* A function of gcc's that aligns its stack, for vectors or a sanitizer. Its rule is an expression of its own: where
 * its caller's frame ends it has saved among the registers that it pushes, below the frame pointer; and right above
 * that it has pushed its return address once more. So the one is found by the other. */
static bool go_up_aligned(struct sti_interrupted *at, uintptr_t stack_end)
{
    uintptr_t copy;
    if (at->bp < at->sp || at->bp % WORD != 0 || !read_word(at->bp + WORD, stack_end, &copy))
        return false;
    for (uintptr_t slot = at->bp - WORD; slot >= at->bp - MAX_PUSHED * WORD && slot >= at->sp; slot -= WORD) {
        uintptr_t top;
        uintptr_t ip;
        if (!read_word(slot, stack_end, &top) || top <= at->bp || top - at->bp > LARGEST_FRAME || top % WORD != 0 ||
            !read_word(top - WORD, stack_end, &ip) || ip != copy)
            continue;
        at->sp = top;
        at->ip = ip;
        return read_word(at->bp, stack_end, &at->bp);
    }
    return false;
}

/* False: it has no caller, or none that can be found. */
static bool go_up(struct sti_interrupted *at, const struct sti_frame_rule *rule, uintptr_t stack_end)
{
    if (rule->kind == STI_FRAME_OTHER)
        return go_up_aligned(at, stack_end);
    bool by_stack_pointer = rule->kind == STI_FRAME_BY_STACK_POINTER;
    if (!by_stack_pointer && rule->kind != STI_FRAME_BY_FRAME_POINTER)
        return false;
    uintptr_t top = (by_stack_pointer ? at->sp : at->bp) + rule->offset;
    uintptr_t size = top - at->sp;
    if (top <= at->sp || size > LARGEST_FRAME || top % WORD != 0 || rule->saved > size + RED_ZONE)
        return false;
    at->sp = top;
    if (rule->saved != 0 && !read_word(top - rule->saved, stack_end, &at->bp))
        return false;
    return read_word(top - WORD, stack_end, &at->ip) && at->ip != 0;
}

/* In a stub by which one module calls another: the linker's tables have an expression for those, as their second
 * instruction pushes a number. */
static STI_CALLER_UNINSTRUMENTED bool is_in_stub(uintptr_t ip)
{
    const uint8_t *stub = (const uint8_t *)(ip & ~(uintptr_t)15);
    return stub[0] == 0xff && stub[1] == 0x25; /* jmp *slot(%rip): 6 bytes, and the push 5 */
}

static struct sti_frame_rule rule_of_interrupted(uintptr_t ip)
{
    struct sti_frame_rule rule = sti_frame_rule(ip);
    if (rule.kind == STI_FRAME_OTHER && is_in_stub(ip))
        rule = (struct sti_frame_rule){ .kind = STI_FRAME_BY_STACK_POINTER, .offset = (ip & 15) >= 11 ? 16 : 8 };
    return rule;
}

size_t sti_interrupted_callstack(struct sti_interrupted at, uintptr_t stack_end, void **frames, uintptr_t *tops,
                                 size_t depth)
{
    size_t length = 0;
    bool goes_on = depth > 0;
    while (goes_on) {
        /* What returns to an address is the instruction before. */
        struct sti_frame_rule rule = length == 0 ? rule_of_interrupted(at.ip) : sti_frame_rule(at.ip - 1);
        frames[length] = (void *)at.ip;
        goes_on = go_up(&at, &rule, stack_end);
        tops[length++] = at.sp;
        goes_on = goes_on && length < depth;
    }
    return length;
}
