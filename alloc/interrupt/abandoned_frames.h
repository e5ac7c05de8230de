/* SPDX-License-Identifier: MIT
 *
 * Frames that are left without a word to them: by a jump of the program's, or with forks that they made. What this
 * library keeps of them is ended first. Thread of the scope only. */
#ifndef STI_ALLOC_INTERRUPT_ABANDONED_FRAMES_H
#define STI_ALLOC_INTERRUPT_ABANDONED_FRAMES_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/platform/scope_state.h"
#include "alloc/platform/thread.h"

/* Before a jump to a frame with this stack pointer: whatever it passes is ended. A scope of stint_run is rolled back;
 * guards run, forks are taken back or waited for, hooks go. Does not return where the jump would leave a task of a
 * pool or a stolen subtask: that is where it ends then, with the signal mask that the jump would have set (NULL: none).
 * Where it would leave a callback, the program ends. */
void sti_way_leave(uintptr_t target, const sigset_t *mask);

/* The scope's function has returned without joining all it forked. Ends its task; returns the error. */
int sti_forks_give_up(struct sti_scope *scope);

/* The same of a stolen subtask: all of its task fails. */
int sti_misuse_fail_task(struct sti_scope *branch, int code);

#endif
