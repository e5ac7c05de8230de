/* SPDX-License-Identifier: MIT
 *
 * The hooks: all that a part of the library has done by one that stands above it. They stand here, by the folder that
 * has them done, in the order of the folders; executor/start/hooks.c says which function each of them is. The table is
 * constant, so that it is there before the library's start; the executor's own is executor/base/hooks.h. */
#ifndef STI_ALLOC_PLATFORM_HOOKS_H
#define STI_ALLOC_PLATFORM_HOOKS_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stint/account.h>
#include <stint/interrupt.h>
#include <stint/task.h>

struct stint_report;
struct sti_heap;
struct sti_registers;
struct sti_root;
struct sti_sampling;
struct sti_scope;
struct sti_thread;

/* What the profiler does (sampling.h). All of it is off the common path: nothing is called before a profile has run, or
 * a task with a rate of its own. Thread of the record, or of the scope, unless it says otherwise. */
struct sti_sampling_hooks {
    void (*join)(struct sti_thread *thread); /* the running profile, or leave one that has been stopped */

    /* So many bytes are charged from the thread's used on; it has joined. Returns how many samples fall there, and
     * moves the place of the next one. */
    uint64_t (*draw)(struct sti_thread *thread, uint64_t charge);
    void (*draw_again)(struct sti_thread *thread); /* those bytes were not charged after all */

    void (*meter_outside)(struct sti_thread *thread, uint64_t charge); /* an allocation outside of scopes */
    void *(*made)(struct sti_thread *thread, void *block, size_t size, size_t alignment, const void *caller);
    void (*free)(void *block); /* that may be followed. Any thread */
    void (*end_logged)(struct sti_thread *thread, const struct sti_heap *list, bool committed);
    void (*end_rolled_back)(const void *block); /* a single one, which may be followed, is about to be. Any thread */

    /* Of tasks with a rate, and of what begins and ends above them: before the scope's first allocation, and when its
     * report has been taken or none will be. */
    void (*begin_scope)(const struct sti_scope *scope);
    void (*end_scope)(const struct sti_scope *scope);
    void (*end_thread)(struct sti_sampling *sampling); /* it may be used again with another */
};

/* What those do who make reports; reporting.h explains it but for begin: before a scope begins that a signal may
 * stop. */
struct sti_reporting_hooks {
    void (*begin)(struct sti_scope *scope);
    void (*tripped)(struct sti_scope *scope);
    void (*deferred)(struct sti_thread *thread, stint_deferral rule, const void *culprit,
                     const struct sti_registers *stopped);
    void (*delivered)(struct sti_thread *thread, const struct sti_registers *stopped);
    void (*measured)(struct sti_scope *scope, size_t held);
    void (*kept)(struct stint_report *report, const struct sti_root *root, size_t size);
    void (*begin_end)(struct sti_scope *scope);
    void (*end)(struct sti_scope *scope, const stint_outcome *outcome);
    void (*drop)(struct stint_report *report);
};

typedef void sti_terminate_fn(void);

struct sti_hooks {
    struct sti_sampling_hooks sampling;
    struct sti_reporting_hooks reporting;

    /* A thread has taken this record for itself; NULL: none, and its end is to be told all the same. */
    void (*thread_taken)(struct sti_thread *thread);

    /* The handler that C++ runtimes are to call in the place of theirs (cxx.c), and the one that a runtime had. */
    sti_terminate_fn *terminated;
    void (*terminate_note)(sti_terminate_fn *before);

    /* The end of a worker's stack is near (stack.c): in the handler of the fault. */
    void (*at_stack_end)(struct sti_thread *thread, const struct sti_registers *stopped, bool is_last,
                         const sigset_t *mask);

    /* An interrupt leaves the frames of a scope (interrupt.c): the hooks are called before it is delivered, and dropped
     * with the guards' run when it lands. */
    void (*fire_hooks)(struct sti_scope *scope);
    void (*run_guards)(struct sti_scope *scope);
    void (*drop_hooks)(struct sti_scope *scope);

    /* By an unwind: may it begin here, begin it, and give it up for a jump (unwind.h). */
    bool (*unwind_may_begin)(const struct sti_scope *scope, const void *nothrow_call);
    void (*unwind_leave)(struct sti_scope *scope); /* does not return */
    void (*unwind_give_up)(struct sti_scope *scope);
    void (*unwind_at_boundary)(void); /* an exception is about to leave the function of a scope (boundary.c) */

    /* The thread's innermost scope is about to be left: by a jump, or as the thread ends. It is rolled back, and nobody
     * hears of its outcome. Thread of the scope. */
    void (*abandon_scope)(struct sti_scope *scope);

    /* Charge a record of the library's to the task that makes it (account.c): allocate.h. */
    bool (*record_charge)(size_t size, const void *caller);

    /* An account that is waited for may have a slot (account.h): called by a thread that has left it, or given it more;
     * more tasks may wait than before; and of the slots that are taken more may be those of tasks that sleep: called by
     * a thread that has left an account which had more than its maximum, or has changed that. Under no lock of the
     * caller's. */
    void (*account_has_slot)(stint_account *account);
    void (*account_has_waiting_slot)(void);
    void (*account_has_fewer_slots)(void);

    /* Wake idle threads so that they give back (global.h): each is counted, then asked. */
    void (*wake_idle)(void);
};

extern const struct sti_hooks sti_hooks __attribute__((visibility("hidden")));

#endif
