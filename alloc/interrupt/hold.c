/* SPDX-License-Identifier: MIT
 *
 * What the task's code holds, the rules by which an interrupt waits for it, and the note of that for those who ask; see
 * hold.h. Thread of the scope only. */
#include "hold.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "alloc/platform/caller.h"
#include "alloc/platform/instrumentation.h"
#include "alloc/platform/scope_state.h"
#include "alloc/platform/thread.h"
#include "alloc/platform/tracing.h"
#include "cxx.h"
#include "way.h"

/* --- What the task's code holds. Thread of the scope only. --- */

_Thread_local int sti_hold_locks;

static bool hold_forget(struct sti_holds *holds, const volatile void *object)
{
    for (unsigned i = holds->named; i-- > 0;) {
        if (holds->objects[i] == object) {
            holds->objects[i] = holds->objects[--holds->named];
            return true;
        }
    }
    return false;
}

bool sti_hold_release_other(struct sti_scope *innermost, const volatile void *object)
{
    for (struct sti_scope *scope = innermost; scope != NULL; scope = scope->below) {
        if (hold_forget(&scope->holds, object))
            return true;
    }
    for (struct sti_scope *scope = innermost; scope != NULL; scope = scope->below) {
        if (scope->holds.unnamed > 0) {
            scope->holds.unnamed--;
            return true;
        }
    }
    return false;
}

static enum sti_hold_kind hold_kind(const volatile void *object)
{
    return (enum sti_hold_kind)((uintptr_t)object & STI_HOLD_KINDS);
}

/* A pthread_cleanup_push's lies on the stack itself. */
void sti_hold_leave(struct sti_holds *holds, const struct sti_way *way)
{
    for (unsigned i = holds->named; i-- > 0;) {
        if (hold_kind(holds->objects[i]) != STI_HOLD_STATIC && sti_way_passes(way, (uintptr_t)holds->objects[i]))
            holds->objects[i] = holds->objects[--holds->named];
    }
}

void sti_hold_end_regions(struct sti_holds *holds)
{
    for (unsigned i = holds->named; i-- > 0;) {
        if (hold_kind(holds->objects[i]) != STI_HOLD_LOCK)
            holds->objects[i] = holds->objects[--holds->named];
    }
}

/* The counter has been moved already, for the common case; for a thread that has stepped aside (context.h) it stays
 * so. */
void sti_hold_take_lock_by_name(const volatile void *lock)
{
    struct sti_scope *scope = sti_scope_innermost();
    if (scope == NULL)
        return;
    sti_hold_locks--;
    sti_hold_take(&scope->holds, lock);
}

/* Also a lock that was on a list before the counting began, or one that nobody took. */
void sti_hold_release_lock_by_name(const volatile void *lock)
{
    sti_hold_locks++;
    struct sti_scope *scope = sti_scope_innermost();
    if (scope != NULL && sti_scope_release_hold(scope, lock))
        return;
    if (sti_hold_locks < 0 && sti_hold_locks > STI_HOLD_NAMED)
        sti_hold_locks--;
}

void sti_hold_settle(struct sti_scope *innermost)
{
    if (sti_hold_locks <= 0)
        return;
    innermost->holds.unnamed += (unsigned)sti_hold_locks;
    sti_hold_locks = 0;
}

static __attribute__((noinline)) void begin_naming(struct sti_scope *scope, struct sti_scope *owner)
{
    if (owner != NULL)
        sti_hold_settle(owner);
    scope->names_locks = true;
    sti_hold_locks += STI_HOLD_NAMED;
}

void sti_hold_name_locks(struct sti_scope *innermost)
{
    if (sti_hold_locks >= 0)
        begin_naming(innermost, innermost);
}

void sti_hold_begin(struct sti_scope *scope)
{
    scope->holds.named = 0;
    scope->holds.unnamed = 0;
    scope->names_locks = false;
    bool held_below = scope->below != NULL && sti_hold_any(&scope->below->holds);
    if (__builtin_expect(sti_hold_locks > 0 || (sti_hold_locks == 0 && held_below), 0))
        begin_naming(scope, scope->below);
}

static int count_locks(const struct sti_holds *holds)
{
    int count = (int)holds->unnamed;
    for (unsigned i = 0; i < holds->named; i++)
        count += hold_kind(holds->objects[i]) == STI_HOLD_LOCK;
    return count;
}

static void hand_down(struct sti_holds *holds, struct sti_holds *below)
{
    for (unsigned i = 0; i < holds->named; i++)
        sti_hold_take(below, holds->objects[i]);
    below->unnamed += holds->unnamed;
}

void sti_hold_hand_down(struct sti_scope *scope)
{
    if (scope->names_locks)
        sti_hold_locks -= STI_HOLD_NAMED;
    if (__builtin_expect(!sti_hold_any(&scope->holds), 1))
        return;
    if (scope->below != NULL)
        hand_down(&scope->holds, &scope->below->holds);
    else
        sti_hold_locks += count_locks(&scope->holds);
}

/* --- The rules about what is held. --- */

bool sti_rules_hold(const struct sti_holds *holds)
{
    static const unsigned rules[] = {
        [STI_HOLD_LOCK] = STI_RULE_LOCK,
        [STI_HOLD_ONCE] = STI_RULE_ONCE,
        [STI_HOLD_STATIC] = STI_RULE_STATIC,
    };
    if (sti_rules_off == 0)
        return sti_hold_any(holds);
    if (holds->unnamed > 0 && sti_rule_is_on(STI_RULE_LOCK)) /* most of them are locks */
        return true;
    for (unsigned i = 0; i < holds->named; i++) {
        if (sti_rule_is_on(rules[hold_kind(holds->objects[i])]))
            return true;
    }
    return false;
}

/* --- Misuse and debug mode. Any thread. --- */

#define LONGEST_LINE 256

bool sti_debug_is_on;

void sti_debug_ask_environment(void)
{
    const char *value = secure_getenv("STINT_DEBUG");
    sti_debug_is_on = value != NULL && strcmp(value, "") != 0 && strcmp(value, "0") != 0;
    if (sti_debug_is_on)
        atomic_fetch_or_explicit(&sti_scopes_observed, STI_OBSERVED_DEBUG, memory_order_relaxed);
}

/* Whatever the task's limits are, and without a sample point in what libc does here. */
void sti_debug_say(const char *format, ...)
{
    if (!sti_debug_is_on)
        return;
    struct sti_thread *counted = sti_thread_counted;
    int saved_errno = errno;
    sti_thread_counted = NULL;
    char line[LONGEST_LINE];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line - 1, format, arguments);
    va_end(arguments);
    size_t size = length < 0 ? 0 : (size_t)length < sizeof line - 1 ? (size_t)length : sizeof line - 2;
    line[size++] = '\n';
    (void)!write(STDERR_FILENO, line, size);
    sti_thread_counted = counted;
    errno = saved_errno;
}

#define THREAD_NAME_SIZE 16

static _Thread_local char own_name[THREAD_NAME_SIZE];

void sti_debug_name_thread(const struct sti_scope *scope)
{
    char name[THREAD_NAME_SIZE];
    if (gettid() == getpid())
        return;
    if (scope != NULL && scope->below == NULL && scope->thread->scope == scope)
        prctl(PR_GET_NAME, own_name);
    while (scope != NULL && scope->request->options->name == NULL)
        scope = scope->below;
    snprintf(name, sizeof name, "%s", scope != NULL ? scope->request->options->name : own_name);
    if (name[0] != '\0')
        prctl(PR_SET_NAME, name); /* AddressSanitizer takes no notice of pthread_setname_np */
}

static const char *name_of(const struct sti_scope *scope)
{
    const char *name = scope != NULL ? scope->request->options->name : NULL;
    return name != NULL ? name : scope != NULL ? "(without a name)" : "(none)";
}

void sti_misuse_note(const struct sti_scope *scope, const char *what)
{
    sti_debug_say("stint: task %s: %s", name_of(scope), what);
}

int sti_misuse_fail(struct sti_scope *scope, int code)
{
    if (scope->guards != NULL)
        sti_misuse_note(scope, "returned without popping a guard");
    if (scope->hooks != NULL)
        sti_misuse_note(scope, "returned without popping a hook");
    if (scope->keeps > 0)
        sti_misuse_note(scope, "returned without stint_keep_end");
    else if (scope->masks != scope->finished)
        sti_misuse_note(scope, "returned without stint_unmask");
    return code != 0 ? code : EINVAL;
}

void sti_misuse_look_at_holds(struct sti_scope *scope)
{
    sti_hold_settle(scope);
    if (sti_hold_any(&scope->holds))
        sti_misuse_note(scope, "ends while it holds a lock");
}

/* --- What an interrupt has to wait for, but for frames on the stack: which of the rules is the first to hold, and the
 * note of it for those who ask. Thread of the scope, some in its signal handlers too. */

static stint_deferral of_holds(const struct sti_holds *holds)
{
    static const stint_deferral kinds[] = {
        [STI_HOLD_LOCK] = STINT_DEFERRAL_LOCK,
        [STI_HOLD_ONCE] = STINT_DEFERRAL_ONCE,
        [STI_HOLD_STATIC] = STINT_DEFERRAL_STATIC,
    };
    if (!sti_rules_hold(holds))
        return STINT_DEFERRAL_NONE;
    return holds->named > 0 ? kinds[hold_kind(holds->objects[holds->named - 1])] : STINT_DEFERRAL_LOCK;
}

/* On its way an exception has to arrive: the runtime counts it, and may have made it in its reserve of memory. A jump
 * out of a catch block would leave its exception on the runtime's list of the thread. */
stint_deferral sti_deferral_of_one(const struct sti_scope *scope)
{
    if (scope->masks > 0)
        return STINT_DEFERRAL_MASK;
    if (sti_rule_is_on(STI_RULE_THROW) && sti_cxx_is_throwing(&scope->cxx, 0))
        return STINT_DEFERRAL_THROW;
    if (sti_rule_is_on(STI_RULE_CATCH) && sti_cxx_is_catching(&scope->cxx))
        return STINT_DEFERRAL_CATCH;
    return of_holds(&scope->holds);
}

stint_deferral sti_deferral_of(const struct sti_scope *innermost)
{
    stint_deferral deferral = innermost->masks == 0 && sti_hold_locks > 0 && sti_rule_is_on(STI_RULE_LOCK)
                                  ? STINT_DEFERRAL_LOCK
                                  : STINT_DEFERRAL_NONE;
    for (const struct sti_scope *scope = innermost; deferral == STINT_DEFERRAL_NONE && scope != NULL;) {
        deferral = sti_deferral_of_one(scope);
        scope = scope->tripped == STINT_REASON_NONE ? scope->outer : NULL;
    }
    return deferral;
}

void sti_deferral_note(struct sti_thread *thread, stint_deferral deferral)
{
    sti_deferral_count(thread, deferral);
    atomic_store_explicit(&thread->deferral, (int)deferral, memory_order_relaxed);
    STI_PROBE2(deferred, thread->scope, deferral);
    if (sti_trace_runs())
        sti_trace_interrupt(STI_TRACE_DEFERRED, (int)deferral);
}

stint_deferral sti_deferral_noted(const struct sti_thread *thread)
{
    return (stint_deferral)atomic_load_explicit(&thread->deferral, memory_order_relaxed);
}
