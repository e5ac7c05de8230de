/* SPDX-License-Identifier: MIT
 *
 * What a scope changed of its thread's state; see thread_state.h. Thread of the scope only, outside its scope when it ends. */
#include "thread_state.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "preempt.h"
#include "process.h"
#include "rules.h"
#include "scope_state.h"

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
