/* SPDX-License-Identifier: MIT
 *
 * The way of a jump: which frames it leaves. A longjmp or setcontext passes frames without a word to them; but what this
 * library keeps of them (scopes, guards, hooks, forks, callbacks) knows where on the stack it lies. Calling thread only.
 *
 * The frames between here and the target are walked, so a jump to another stack, which will be come back from, is told from
 * one that leaves frames for ever. Only jumps that may pass something are walked: some microseconds. */
#ifndef STI_ALLOC_WAY_H
#define STI_ALLOC_WAY_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#define STI_WAY_PARTS 4 /* stacks that signal handlers switched to */

struct sti_way {
    uintptr_t target; /* the stack pointer that is jumped to */
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

/* Before a jump to a frame with this stack pointer: whatever it passes is ended. A scope of stint_run is rolled back; guards
 * run, forks are taken back or waited for, hooks go. Does not return where the jump would leave a task of a pool, a stolen
 * subtask or a callback: that is where it ends then, with the signal mask that the jump would have set (NULL: none). */
void sti_way_leave(uintptr_t target, const sigset_t *mask);

#endif
