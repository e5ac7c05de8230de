/* SPDX-License-Identifier: MIT
 *
 * What a task has changed of its thread, and a rollback puts back: signal mask, locale and the like, and
 * thread-specific values; see thread_state.h. Thread of the scope only. */
#include "thread_state.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "alloc/base/caller.h"
#include "alloc/base/module.h"
#include "alloc/base/process.h"
#include "alloc/base/scope_state.h"
#include "alloc/interrupt/signals.h"

/* --- What a scope changed of its thread's state. Thread of the scope only, outside its scope when it ends. */

enum {
    LOCALE = 1 << 0,
    MASK = 1 << 1,
    CANCEL = 1 << 2,
    CANCEL_TYPE = 1 << 3,
    STACK = 1 << 4,
    PROCESSORS = 1 << 5,
    SCHEDULING = 1 << 6,
};

/* As it was before; of what is in changed. */
struct sti_thread_state {
    unsigned changed;
    locale_t locale;
    sigset_t mask;
    int cancel;
    int cancel_type;
    stack_t stack;
    cpu_set_t processors;
    int policy;
    struct sched_param priority;
};

/* To note what had not been changed yet, otherwise NULL. */
static struct sti_thread_state *begin(struct sti_scope *scope, unsigned what)
{
    if (scope->thread_state == NULL && sti_rule_is_on(STI_RULE_THREAD_STATE))
        scope->thread_state = sti_process_calloc(1, sizeof *scope->thread_state);
    struct sti_thread_state *state = scope->thread_state;
    if (state == NULL || (state->changed & what) != 0)
        return NULL;
    state->changed |= what;
    return state;
}

void sti_thread_state_locale(struct sti_scope *scope, locale_t before)
{
    struct sti_thread_state *state = begin(scope, LOCALE);
    if (state != NULL)
        state->locale = before;
}

void sti_thread_state_mask(struct sti_scope *scope, const sigset_t *before)
{
    struct sti_thread_state *state = begin(scope, MASK);
    if (state != NULL)
        state->mask = *before;
}

void sti_thread_state_cancel(struct sti_scope *scope, int before)
{
    struct sti_thread_state *state = begin(scope, CANCEL);
    if (state != NULL)
        state->cancel = before;
}

void sti_thread_state_cancel_type(struct sti_scope *scope, int before)
{
    struct sti_thread_state *state = begin(scope, CANCEL_TYPE);
    if (state != NULL)
        state->cancel_type = before;
}

void sti_thread_state_stack(struct sti_scope *scope, const stack_t *before)
{
    struct sti_thread_state *state = begin(scope, STACK);
    if (state != NULL)
        state->stack = *before;
}

void sti_thread_state_processors(struct sti_scope *scope, const cpu_set_t *before)
{
    struct sti_thread_state *state = begin(scope, PROCESSORS);
    if (state != NULL)
        state->processors = *before;
}

void sti_thread_state_scheduling(struct sti_scope *scope, int policy, const struct sched_param *before)
{
    struct sti_thread_state *state = begin(scope, SCHEDULING);
    if (state == NULL)
        return;
    state->policy = policy;
    state->priority = *before;
}

/* Of the kernel's, what it lets a thread have back. */
static void schedule_as_before(const struct sti_thread_state *state)
{
    if ((state->changed & PROCESSORS) != 0)
        sched_setaffinity(0, sizeof state->processors, &state->processors);
    if ((state->changed & SCHEDULING) != 0)
        sched_setscheduler(0, state->policy, &state->priority);
}

void sti_thread_state_rollback(struct sti_scope *scope)
{
    struct sti_thread_state *state = scope->thread_state;
    if (state == NULL)
        return;
    scope->thread_state = NULL;
    if ((state->changed & LOCALE) != 0)
        uselocale(state->locale);
    if ((state->changed & MASK) != 0) {
        if (scope->preemptible)
            sti_preempt_leave_as_before(&state->mask, scope->signal_was_blocked);
        pthread_sigmask(SIG_SETMASK, &state->mask, NULL);
    }
    if ((state->changed & STACK) != 0)
        sigaltstack(&state->stack, NULL);
    schedule_as_before(state);
    int unused;
    if ((state->changed & CANCEL_TYPE) != 0)
        pthread_setcanceltype(state->cancel_type, &unused);
    if ((state->changed & CANCEL) != 0)
        pthread_setcancelstate(state->cancel, &unused);
    sti_process_free(state);
}

static void hand_over(struct sti_scope *outer, const struct sti_thread_state *state)
{
    if ((state->changed & LOCALE) != 0)
        sti_thread_state_locale(outer, state->locale);
    if ((state->changed & MASK) != 0)
        sti_thread_state_mask(outer, &state->mask);
    if ((state->changed & CANCEL) != 0)
        sti_thread_state_cancel(outer, state->cancel);
    if ((state->changed & CANCEL_TYPE) != 0)
        sti_thread_state_cancel_type(outer, state->cancel_type);
    if ((state->changed & STACK) != 0)
        sti_thread_state_stack(outer, &state->stack);
    if ((state->changed & PROCESSORS) != 0)
        sti_thread_state_processors(outer, &state->processors);
    if ((state->changed & SCHEDULING) != 0)
        sti_thread_state_scheduling(outer, state->policy, &state->priority);
}

void sti_thread_state_commit(struct sti_scope *scope)
{
    struct sti_thread_state *state = scope->thread_state;
    if (state == NULL)
        return;
    scope->thread_state = NULL;
    if (scope->outer != NULL)
        hand_over(scope->outer, state);
    sti_process_free(state);
}

/* --- The undo log of thread-specific values. A list, newest first, one entry a key: scopes set few keys. --- */

static bool is_recorded(const struct sti_specific_undo *undo, pthread_key_t key)
{
    while (undo != NULL && undo->key != key)
        undo = undo->next;
    return undo != NULL;
}

bool sti_specific_record(struct sti_scope *scope, pthread_key_t key)
{
    if (!sti_rule_is_on(STI_RULE_SPECIFIC) || is_recorded(scope->specifics, key))
        return true;
    struct sti_specific_undo *undo = sti_process_malloc(sizeof *undo);
    if (undo == NULL)
        return false;
    *undo = (struct sti_specific_undo){ .next = scope->specifics, .value = pthread_getspecific(key), .key = key };
    scope->specifics = undo;
    return true;
}

void sti_specific_forget(struct sti_scope *innermost, pthread_key_t key)
{
    for (struct sti_scope *scope = innermost; scope != NULL; scope = scope->below) {
        struct sti_specific_undo **link = &scope->specifics;
        while (*link != NULL && (*link)->key != key)
            link = &(*link)->next;
        struct sti_specific_undo *undo = *link;
        if (undo == NULL)
            continue;
        *link = undo->next;
        sti_process_free(undo);
    }
}

void sti_specific_rollback(struct sti_scope *scope)
{
    while (scope->specifics != NULL) {
        struct sti_specific_undo *undo = scope->specifics;
        scope->specifics = undo->next;
        sti_specific_set_plain(undo->key, undo->value);
        sti_process_free(undo);
    }
}

void sti_specific_commit(struct sti_scope *scope)
{
    while (scope->specifics != NULL) {
        struct sti_specific_undo *undo = scope->specifics;
        scope->specifics = undo->next;
        if (scope->outer == NULL || is_recorded(scope->outer->specifics, undo->key)) {
            sti_process_free(undo);
        } else {
            undo->next = scope->outer->specifics;
            scope->outer->specifics = undo;
        }
    }
}

int sti_specific_set_plain(pthread_key_t key, const void *value)
{
    /* Found at the first call, which may come from another library's constructor before any of ours has run. Two
     * threads at once find the same. */
    static int (*_Atomic plain)(pthread_key_t, const void *);
    int (*set)(pthread_key_t, const void *) = atomic_load_explicit(&plain, memory_order_relaxed);
    if (__builtin_expect(set == NULL, 0)) {
        *(void **)&set = sti_libc_function("pthread_setspecific");
        atomic_store_explicit(&plain, set, memory_order_relaxed);
    }
    return set(key, value);
}

int sti_specific_create_plain(pthread_key_t *key, void (*destructor)(void *value))
{
#if STI_OVERRIDES
    int (*plain)(pthread_key_t *, void (*)(void *));
    *(void **)&plain = sti_libc_function("pthread_key_create");
    return plain(key, destructor);
#else
    return pthread_key_create(key, destructor);
#endif
}
