/* SPDX-License-Identifier: MIT
 *
 * What libc and the kernel keep for a thread beside its specific values: its locale, its signal mask, whether it can be
 * cancelled, its stack for signals, the processors that it may run on, and how it is scheduled. Code changes it for a while and puts it back itself, as parsers of numbers do with the locale; an interrupt
 * comes in between. So what it was is remembered when a scope changes it first, and put back when the scope is rolled back.
 * Thread of the scope only. */
#ifndef STI_ALLOC_THREAD_STATE_H
#define STI_ALLOC_THREAD_STATE_H

#include <locale.h>
#include <sched.h>
#include <signal.h>

struct sti_scope;
struct sti_thread_state;

/* About to be changed, from this: remember it unless the scope did. Without memory for that it is not. */
void sti_thread_state_locale(struct sti_scope *scope, locale_t before);
void sti_thread_state_mask(struct sti_scope *scope, const sigset_t *before);
void sti_thread_state_cancel(struct sti_scope *scope, int before);
void sti_thread_state_cancel_type(struct sti_scope *scope, int before);
void sti_thread_state_stack(struct sti_scope *scope, const stack_t *before);
void sti_thread_state_processors(struct sti_scope *scope, const cpu_set_t *before);
void sti_thread_state_scheduling(struct sti_scope *scope, int policy, const struct sched_param *before);

/* The scope ends. Put everything back; or leave it, for the scope around it to put back. */
void sti_thread_state_rollback(struct sti_scope *scope);
void sti_thread_state_commit(struct sti_scope *scope);

#endif
