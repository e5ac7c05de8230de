/* SPDX-License-Identifier: MIT
 *
 * What a task has changed of its thread, and a rollback puts back: signal mask, locale and the like, and
 * thread-specific values. Thread of the scope only. */
#ifndef STI_ALLOC_ROLLBACK_THREAD_STATE_H
#define STI_ALLOC_ROLLBACK_THREAD_STATE_H

#include <locale.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>

/* --- What libc and the kernel keep for a thread beside its specific values: its locale, its signal mask, whether it
 * can be cancelled, its stack for signals, the processors that it may run on, and how it is scheduled. Code changes it
 * for a while and puts it back itself, as parsers of numbers do with the locale; an interrupt comes in between. So what
 * it was is remembered when a scope changes it first, and put back when the scope is rolled back. Thread of the scope
 * only. */

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

/* --- The undo log of thread-specific values. A library that keeps its per-thread state behind a key (libxml2 does)
 * makes it at its first use on a thread; made inside a scope that is rolled back, it is gone, so the key must get its
 * old value back. Thread of the scope only. */

struct sti_specific_undo {
    struct sti_specific_undo *next; /* older */
    void *value;                    /* before the scope first set the key */
    pthread_key_t key;
};

/* Before a key is set inside the scope. False: out of memory, do not set it. */
bool sti_specific_record(struct sti_scope *scope, pthread_key_t key);

/* A key is about to be deleted: its number may come back as another key. */
void sti_specific_forget(struct sti_scope *innermost, pthread_key_t key);

/* The scope ends: give the keys their old values back, or keep the new ones (for good, or until outer ends). */
void sti_specific_rollback(struct sti_scope *scope);
void sti_specific_commit(struct sti_scope *scope);

/* libc's own pthread_key_create and pthread_setspecific, whatever this library overrides. They return what those
 * return. */
int sti_specific_create_plain(pthread_key_t *key, void (*destructor)(void *value));
int sti_specific_set_plain(pthread_key_t key, const void *value);

#endif
