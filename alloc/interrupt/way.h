/* SPDX-License-Identifier: MIT
 *
 * The way of a jump: which frames it leaves. A longjmp or setcontext passes frames without a word to them; but what
 * this library keeps of them (scopes, guards, hooks, forks, callbacks) knows where on the stack it lies. Calling thread
 * only.
 *
 * The frames between here and the target are walked, so a jump to another stack, which will be come back from, is told
 * from one that leaves frames for ever. Only jumps that may pass something are walked: some microseconds. */
#ifndef STI_ALLOC_INTERRUPT_WAY_H
#define STI_ALLOC_INTERRUPT_WAY_H

#include <stdbool.h>
#include <stdint.h>

#define STI_WAY_PARTS 4 /* stacks that signal handlers switched to */

struct sti_way {
    uintptr_t target; /* the stack pointer that is jumped to */
    uintptr_t lowest; /* the one that its frame has come to since: room that it took (alloca) lies between */
    unsigned count;
    struct {
        uintptr_t begin;
        uintptr_t end;
    } parts[STI_WAY_PARTS];
};

/* Walk from the caller to the target. False: the target's frame is none of those that have called this one. */
bool sti_way_find(struct sti_way *way, uintptr_t target);

/* Whether an object on the stack lies in a frame that is left. */
static inline bool sti_way_passes(const struct sti_way *way, uintptr_t address)
{
    for (unsigned i = 0; i < way->count; i++) {
        if (address >= way->parts[i].begin && address < way->parts[i].end)
            return true;
    }
    return false;
}

/* Whether a frame is left that had this stack pointer when it called somebody, or might have. */
static inline bool sti_way_passes_frame(const struct sti_way *way, uintptr_t stack_pointer)
{
    bool is_target_s = stack_pointer >= way->lowest && stack_pointer <= way->target;
    return !is_target_s && sti_way_passes(way, stack_pointer);
}

#endif
