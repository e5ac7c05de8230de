/* SPDX-License-Identifier: MIT
 *
 * The task is a function with a budget. stint_run runs one in place and tells how it ended; stint_submit of pool.h
 * gives one to a pool.
 *
 *     #include <errno.h>
 *     #include <stdio.h>
 *     #include <stdlib.h>
 *     #include <stint/task.h>
 *
 *     static int copy_text(void *text, void **value)
 *     {
 *         char *copy = malloc(100); // is charged to the task
 *         if (copy == NULL)
 *             return ENOMEM;
 *         snprintf(copy, 100, "%s", (const char *)text);
 *         *value = copy; // the caller's, if the task ends Ok
 *         return 0;
 *     }
 *
 *     int main(void)
 *     {
 *         char text[] = "hello";
 *         stint_options options = STINT_OPTIONS_INIT;
 *         options.budget.memory = 1 << 20;
 *         stint_outcome outcome;
 *         if (stint_run(copy_text, text, &options, &outcome) != 0)
 *             return 1;
 *         printf("%s\n", stint_status_name(outcome.status));
 *         free(outcome.value);
 *         return 0;
 *     }
 *
 * The header has, in this order: the function, its budget, its options, its outcome, stint_run, what a task may call,
 * and results that last.
 *
 * The stack. A task of a pool that uses up its worker's stack ends like one that passes a limit of its budget, and the
 * process goes on. The task ends at once where a preemptible task could be left (interrupt.h), and otherwise at its
 * next sample point, for which 64 KiB more are there. When half of these are in use, a call of stint_run, stint_fork,
 * stint_for or stint_reduce ends the task before it does anything else. If the task uses up all 64 KiB and still may
 * not be left (because it is masked, holds a lock, or runs in a library that is not left), the fault is the program's,
 * like every other fault, and like the end of any other thread's stack. Of nested scopes, the innermost one ends that
 * began above the middle of the stack. A program sets its handler of SIGSEGV before it makes a pool. docs/interrupts.md
 * tells more. The idea is that of libsigsegv (Haible 2002), and of the yellow and red zones of HotSpot's stacks.
 *
 * Threads. A thread that a task starts, by itself or through a library, is not the task's. What the thread allocates is
 * charged to nobody and stays when the task is rolled back; no interrupt reaches the thread, and nobody waits for its
 * end. A stint_run on the thread is a scope of its own. The thread must not use the task's memory after the task has
 * ended without success. So a task that starts threads joins them before its function returns, and pushes a guard that
 * stops and joins them when an interrupt comes. Work that is to be charged to the task, and to end with it, is a
 * subtask (fork.h) or a thread behind a wall (wall.h): there all threads of the child end with its task. */
#ifndef STINT_TASK_H
#define STINT_TASK_H

#include <stint/detail/api.h>

STINT_BEGIN_DECLS

typedef struct stint_token stint_token;
typedef struct stint_account stint_account;
typedef struct stint_context stint_context;
typedef struct stint_completions stint_completions;

/* --- A task and its budget ---------------------------------------------------------------------------------------- */

/* A task's function. The task is Ok if the function returns 0, with *value as its result. Any other code makes the task
 * an Error with that code: an errno value, or a code of the task's own.
 *
 * *value is NULL at the start. Memory that it points to is committed with the task on Ok; any thread may then free it
 * with free. After Error and Cancelled nothing that the task allocated is there any more, and a pointer that it has
 * stored in its caller's data dangles. So a caller looks at the outcome first. arg is passed on as it is. */
typedef int stint_fn(void *arg, void **value);

/* The limits of one task. A field of 0 is no limit. This struct never grows; a new limit becomes a field of
 * stint_options.
 *
 * The allocation limit is the idea of Haskell's setAllocationCounter (Marlow 2014): it bounds the work, and it stops
 * the task at the same place in every run. Here it is exact too: the task is stopped before the first allocation that
 * would pass the limit is made. The memory limit is that of memprof-limits (Munch-Maccagnoni 2020), for each task
 * instead of for the process. */
typedef struct stint_budget {
    /* Bytes that the task may allocate in all; a free gives nothing back. docs/metering.md says what each call is
     * charged. */
    size_t allocation;

    /* Bytes that the task may hold at once: as blocks of its heap, as blocks that libc made for it, and as pages that
     * it has mapped. The task may pass the limit by at most max(64 KiB, limit/128). docs/design.md tells more of both
     * limits for tasks whose subtasks run on several threads. */
    size_t memory;

    /* Nanoseconds from the submission, or from the call of stint_run, to the deadline. The deadline is seen in
     * stint_checkpoint and at sample points: every 16 KiB that the task allocates (every 112 KiB while it allocates
     * that much within a clock tick of some milliseconds), and at the first allocation after the time has come. */
    uint64_t wall_ns;

    /* Nanoseconds of processor time of the thread that the task runs on, and of the threads that run its stolen
     * subtasks. The time of a stolen subtask is added when the subtask ends, so the task may pass its limit by the
     * times of all subtasks that run at that moment. The limit is seen where wall_ns is, and by the same signal where
     * the task is preemptible. What the thread does for another task that this one waits for does not count.
     * UINT64_MAX: the time is measured only. */
    uint64_t cpu_ns;

    /* Nanoseconds that the task may take from the start of its function, however long it was queued before: wall_ns
     * bounds how long its caller waits, run_ns how long it occupies a worker. The earlier of the two deadlines counts,
     * and both are seen in the same way. stint_run queues nothing, so there both count from the call. */
    uint64_t run_ns;
} stint_budget;

/* How an interrupt leaves the task's code. */
typedef enum stint_on_interrupt {
    /* Guards run, newest first, and control then returns to the scope at once. While the code may not be left (a lock
     * is held, or a library is on the stack: interrupt.h), the interrupt waits, and allocations fail once the grace is
     * used up. */
    STINT_JUMP = 0,

    /* Every further allocation returns NULL with ENOMEM (operator new throws std::bad_alloc) until the task returns by
     * itself. This is for code that handles failed allocations well, such as SQLite. */
    STINT_FAIL = 1,

    /* As STINT_JUMP, but frame by frame. C++ destructors run on the way, masked, and so do cleanup attributes in C that
     * was compiled with -fexceptions. At the first frame that lets no exception through, the unwind becomes a jump.
     * This is for C++ (stint.hpp); docs/cpp.md tells all about it. The first such task loads libgcc_s.so.1, if the
     * program has not: a program that confines itself (chroot, seccomp) calls stint_link_check before that. */
    STINT_UNWIND = 2,
} stint_on_interrupt;

/* Which queued task of a pool is taken first: a high one before a normal one before a low one. None starves: of every 8
 * tasks that a worker takes at least one is normal, and of every 64 at least one is low, if there are any. */
typedef enum stint_priority {
    STINT_PRIORITY_NORMAL = 0, /* a task unless it says otherwise */
    STINT_PRIORITY_HIGH,       /* a task that is taken first */
    STINT_PRIORITY_LOW,        /* a task that is taken last */
} stint_priority;

/* What a report tells of a task that does not end Ok (observe.h). */
typedef enum stint_report_level {
    STINT_REPORT_NONE = 0, /* there is no report; in a task's options: the level of its pool counts */
    STINT_REPORT_STACK,    /* where the task was stopped, and how it came to that */
    STINT_REPORT_HEAP,     /* the same, and what the task's memory was made of */
} stint_report_level;

/* How to run one task. STINT_OPTIONS_INIT makes the struct without any limits; it can grow (stint.h). */
typedef struct stint_options {
    size_t size; /* sizeof(stint_options) */

    stint_budget budget; /* the limits of the task */

    /* The token that cancels the task; NULL: none. The library keeps a reference until the task has resolved. */
    stint_token *token;

    stint_on_interrupt on_interrupt; /* how an interrupt leaves the task's code: STINT_JUMP unless set */

    /* What a report of the task tells. stint_submit and its like use this, and stint_run_reported (observe.h);
     * stint_run ignores it. */
    stint_report_level report;

    /* Bytes that the task may still allocate while an interrupt has to wait (interrupt.h); 0: 1 MiB. What libc
     * allocates for itself has 16 MiB besides, since libc makes some of it once for the whole process. */
    size_t grace;

    /* The task's name in reports; NULL: none. The string is not copied: it must outlive the task. */
    const char *name;

    /* True: a signal (SIGRTMAX - 2) to the task's thread also interrupts code that makes no sample points, where the
     * rules of interrupt.h allow it. Blocking system calls then return EINTR. The task may be left at any instruction,
     * in the midst of changing its data, so this is only for code that shares nothing that it writes. A loop that does
     * nothing but call libc, such as for (;;) pause();, is found in libc by every signal and goes on. Such a loop needs
     * a stint_checkpoint, or a wall. */
    bool preemptible;

    /* The account that is charged too (account.h); NULL: none. The library keeps a reference until the task has
     * resolved. */
    stint_account *account;

    stint_priority priority; /* which queued task is taken first; stint_run ignores it */

    /* True: what the task wrote into its blocks is zeroed before other code can get them: in blocks that the task
     * frees, and in all others when the task is rolled back. Not zeroed are: what the task commits; blocks that libc
     * made for itself and has not freed when the task ends; blocks made between stint_keep_begin and stint_keep_end;
     * the task's stack. Scopes inside the task are wiped too. While such a task runs, every free in the process zeroes
     * its block, which costs as much as a memset of it. */
    bool wipe;

    unsigned flags; /* 0, or STINT_UNTIMED, STINT_COMMIT and STINT_ALLOW_UNMETERED */

    /* True: the task's memory is rolled back also if the task ends Ok. This is for tasks that leave nothing of use, and
     * then need not free it. The value is passed on as it is, and must not point to memory of the task. */
    bool discard;

    /* What belongs to the task's request (token.h). NULL: the context of the task that submits or runs this one, if
     * that has one. The library keeps a reference until the task has resolved. */
    stint_context *context;

    /* The queue in which the task leaves a completion, with this data, when it has resolved (future.h); NULL: none. It
     * works as if stint_completions_add had added the future right after the submission, except that the submission
     * fails if there is no memory for it. stint_run ignores both fields. */
    stint_completions *completions;
    void *data;

    /* How densely the task's own allocations are sampled, for its STINT_REPORT_HEAP alone (observe.h): samples a word
     * of 8 bytes, as in stint_memprof_options, from 0 to 1; 0: none. Without such a report the rate changes nothing.
     * What inner scopes allocate is sampled with it, at this rate. */
    double sample_rate;

    /* The percentage of a limit of the budget, from 1 to 100, above which the program is told once, while the task goes
     * on (stint_warnings_set); 0: the program is not told. */
    unsigned warn;
} stint_options;

#define STINT_OPTIONS_INIT STINT_SIZED_INIT_(stint_options) /* no limits */

/* Leave the times out of a task's usage. This is a flag of stint_options. Where the task has no limit of time and the
 * process no limit of memory (memory.h), the library then reads no clock at the task's start and end, and usage.wall_ns
 * and queued_ns are 0. Where the clock is slow, reading it is most of the cost of a short task. Otherwise the flag
 * changes nothing. */
#define STINT_UNTIMED 2U

/* Commit the task's memory however the task ends. This is a flag of stint_options, for STINT_FAIL alone and without
 * discard (otherwise EINVAL): for code whose blocks cannot be told from those of the process. An interpreter such as
 * CPython is such code: a class, an interned string and the exception itself belong to its own tables as soon as they
 * are made. The allocation that would pass a limit fails, those after it have options.grace to tidy up with and then
 * fail too, until the task returns. The outcome says why. The task's handles stay open, and what it has set for its
 * thread stays set. Behind a wall the flag changes nothing. */
#define STINT_COMMIT 4U

/* Go ahead where stint_link_check returns ENOTSUP. This is a flag of stint_options, stint_pool_options and
 * stint_wall_options. Limits and rollbacks then cover the stint_malloc family and nothing else. A block of stint_malloc
 * must be freed by stint_free. A task that may be interrupted must hold no lock while it is not masked, except a
 * stint_mutex. */
#define STINT_ALLOW_UNMETERED 1U

/* --- How a task ended --------------------------------------------------------------------------------------------- */

/* How a task ended. */
typedef enum stint_status {
    STINT_OK = 0,    /* the function returned 0, and nothing had interrupted it: the memory is committed */
    STINT_ERROR,     /* it returned an error, or passed a limit of its budget: the memory is rolled back */
    STINT_CANCELLED, /* its token was set, its pool shut down, or the scope around it ended: the memory is rolled
                        back */
} stint_status;

/* Why a task ended as it did. */
typedef enum stint_reason {
    STINT_REASON_NONE = 0,            /* STINT_OK */
    STINT_REASON_FAILED,              /* STINT_ERROR: the function returned another value than 0 */
    STINT_REASON_ALLOCATION_LIMIT,    /* STINT_ERROR: budget.allocation */
    STINT_REASON_MEMORY_LIMIT,        /* STINT_ERROR: budget.memory */
    STINT_REASON_DEADLINE,            /* STINT_ERROR: budget.wall_ns or run_ns, when the function had begun */
    STINT_REASON_ACCOUNT,             /* STINT_ERROR: a limit of the account, or of one above it */
    STINT_REASON_GLOBAL_MEMORY_LIMIT, /* STINT_ERROR: the process held too much, and chose this task (memory.h) */
    STINT_REASON_TOKEN,               /* STINT_CANCELLED: the task's token, one above it, or stint_future_cancel */
    STINT_REASON_SHUTDOWN,            /* STINT_CANCELLED: the pool was shut down by cancelling */
    STINT_REASON_OUTER,               /* STINT_CANCELLED: a scope around this one was interrupted */
    STINT_REASON_TRACKER,             /* STINT_ERROR: a profile's tracker asked for it (observe.h) */
    STINT_REASON_CPU,                 /* STINT_ERROR: budget.cpu_ns */
    STINT_REASON_EXPIRED,             /* STINT_ERROR: budget.wall_ns, before the function was called */
    STINT_REASON_EXCEPTION,           /* STINT_ERROR: a C++ function threw (stint.hpp) */
    STINT_REASON_STACK,               /* STINT_ERROR: the task had used up its worker's stack */
    STINT_REASON_CRASH,               /* STINT_ERROR, behind a wall: a fault or an abort ended the task's process */
    STINT_REASON_EXIT,                /* STINT_ERROR, behind a wall: the task's code ended its process by exit */
    STINT_REASON_KILLED,              /* STINT_ERROR, behind a wall: somebody else, such as the kernel, killed it */
    STINT_REASON_BROKEN,              /* STINT_ERROR, behind a wall: the task's process said what cannot be true */
} stint_reason;

/* What a task has used. This struct never grows; a later measurement gets a call of its own. */
typedef struct stint_usage {
    uint64_t allocated; /* bytes charged in all: exact, and the same in every run of the same work */

    /* The most bytes that the task held at once, as measured. The true peak may be higher, by at most 1/8 of this
     * number plus a slack of a 16th of allocated, at least 64 KiB and at most 1 MiB. */
    uint64_t peak;

    uint64_t samples;   /* times that the meter left its fast path */
    uint64_t deferred;  /* sample points at which a due interrupt had to wait */
    uint64_t kept;      /* bytes that a rollback kept because a root leads to them (memory.h) */
    uint64_t wall_ns;   /* from the start of the function to its end, to a microsecond; 0 with STINT_UNTIMED */
    uint64_t queued_ns; /* from the submission to the start; 0 for stint_run, and with STINT_UNTIMED */
    uint64_t cpu_ns;    /* processor time, as budget.cpu_ns counts it; 0 unless that is set */

    /* STINT_OK: bytes of blocks and pages that the task left allocated and that are the caller's now; otherwise 0. The
     * number may be too high, never too low. It may include up to 36 KiB of freed blocks among the task's first 256,
     * and free or freed space around blocks of inner scopes. */
    uint64_t committed;
} stint_usage;

/* Bytes of an outcome's message, with the zero at its end. */
#define STINT_MESSAGE_SIZE 96

/* How a task ended, with its value and what it has used. This struct never grows. */
typedef struct stint_outcome {
    stint_status status; /* how it ended */
    stint_reason reason; /* why it ended so */

    /* The error as a number. A program that tells a person prints the reason and the message instead, since strerror of
     * these codes would mislead.
     *   0          STINT_OK
     *   ECANCELED  STINT_CANCELLED
     *   its code   the function failed
     *   ENOMEM     a limit of bytes, the stack, or a std::bad_alloc
     *   EDQUOT     the account, or a tracker
     *   ETIMEDOUT  a deadline, before or after the start, or processor time
     *   EFAULT     behind a wall: a crash
     *   ECHILD     behind a wall: an exit, or a kill
     *   EPROTO     behind a wall: a broken reply
     *   -1         any other exception; a std::system_error has its own code */
    int error;

    void *value;       /* STINT_OK: the task's value, which is the caller's from now on; otherwise NULL */
    stint_usage usage; /* what the task has used */

    /* The payload that the function gave to stint_fail, of so many bytes, for STINT_REASON_FAILED and
     * STINT_REASON_EXCEPTION. Behind a wall (wall.h) the payload of the reasons that exist only there is a
     * stint_wall_death, and for STINT_OK payload_size is the size of the value. Otherwise they are NULL and 0. The
     * payload in a future's outcome belongs to the future, and lives until that is released. The caller of stint_run
     * owns its payload, and frees it with free. */
    const void *payload;
    size_t payload_size;

    /* What the exception says, as far as there is room (STINT_REASON_EXCEPTION), or how the process ended
     * (STINT_REASON_CRASH, STINT_REASON_EXIT, STINT_REASON_KILLED and STINT_REASON_BROKEN). Otherwise it is empty. */
    char message[STINT_MESSAGE_SIZE];
} stint_outcome;

/* Name a status or a reason, for people and logs.
 *
 * Returns a static string. A status is "ok", "error" or "cancelled". A reason is "none", "failed", "allocation-limit",
 * "memory-limit", "deadline", "account", "global-memory-limit", "token", "shutdown", "outer", "tracker", "cpu",
 * "expired", "exception", "stack", "crash", "exit", "killed" or "broken". Any other value is "unknown". */
STINT_API const char *stint_status_name(stint_status status);
STINT_API const char *stint_reason_name(stint_reason reason);

/* --- Running a task ----------------------------------------------------------------------------------------------- */

/* Run fn(arg) as a task here, on the calling thread, and fill *outcome. options may be NULL, which means no limits.
 * When the token of the options is set already, fn is not called, and the task is Cancelled.
 *
 * The task runs in a scope of its own. Scopes nest: inside a task or another stint_run the new scope charges every
 * scope around it too, can have no more than what is left of their budgets, and commits its memory into the scope
 * around it. When a scope around it is interrupted, this one ends with it; in STINT_JUMP the call then does not return.
 * The end of the call is a sample point of the scope around it.
 *
 * The function leaves by returning, and ends before that what it began: guards, hooks, masks, stint_keep_begin, forks.
 * Otherwise the task fails, with EINVAL.
 *
 * A longjmp or setcontext out of the function rolls the task back and runs its guards, and *outcome is not filled. This
 * works where the library overrides these functions (stint_malloc_is_overridden). A task of a pool, and a subtask on
 * another worker, cannot be left like that: it fails, with EINVAL, and the worker goes on. When the thread ends in the
 * function (pthread_exit, pthread_cancel), the task is rolled back as well, but only those guards run whose frames are
 * unwound (interrupt.h). On a stack that the task has made (by makecontext) and switched to, only a thread that was
 * made by the pthread_create or thrd_create that the library overrides may end, so not the main thread: otherwise the
 * task's frames go without a word. A jump to a resume point on another thread's stack is not allowed, as it cannot be
 * told from a switch of stacks (docs/debugging.md).
 *
 * Returns 0 when *outcome is filled, whatever the status of the task. After any error fn was not called:
 *   EINVAL   fn or outcome is NULL; on_interrupt, priority, report or flags is no known value; warn is above 100;
 *            sample_rate is not from 0 to 1; or the options have no size
 *   E2BIG    the options set a field that this library is too old to know
 *   ENOMEM   there is no memory for the record of this thread
 *   ENOTSUP  the program is linked so that stint cannot meter it, and flags do not allow that (stint_link_check). Or
 *            mimalloc is not one that this library was compiled for (stint_backend_version). Or on_interrupt is
 *            STINT_UNWIND, and stint_link_report.unwinds is false: std::terminate is not this library's, or libgcc
 *            cannot be loaded
 *   EAGAIN   the thread that watches preemptible tasks cannot be started
 *   EBUSY    the account has its maximum of running tasks */
STINT_API int stint_run(stint_fn *fn, void *arg, const stint_options *options, stint_outcome *outcome);

/* --- In a task ---------------------------------------------------------------------------------------------------- */

/* Fail with a payload that survives the rollback: a message, or a struct without pointers. A task's function returns
 * what this call returns: return stint_fail(EBADMSG, text, strlen(text) + 1).
 *
 * size bytes from payload are copied into memory of the process. They are in the outcome if the task ends with
 * STINT_REASON_FAILED or STINT_REASON_EXCEPTION; a later call replaces the copy. The copy is charged to the task, which
 * is the innermost scope of the calling thread. If there is no memory for it, or the budget does not allow it, the
 * outcome has no payload. In a subtask on another thread, and outside a scope, nothing is copied. A payload of NULL
 * with a size of 0 drops an earlier copy.
 *
 * Returns error, whatever becomes of the copy. */
STINT_API int stint_fail(int error, const void *payload, size_t size);

/* Read what the calling task has used so far, and what is left to it. *used and *left tell of the innermost scope of
 * the calling thread; *left takes the limits of the scopes around it into account. Either pointer may be NULL. The call
 * reads the clock, and walks the task's heap for used->peak and left->memory, which takes some microseconds.
 *
 * used->kept and used->committed are 0. In *left, UINT64_MAX or SIZE_MAX means that there is no such limit, and 0 that
 * the limit has been passed. left->wall_ns and left->run_ns are both the time until the earlier deadline; left->cpu_ns
 * is processor time. Accounts are left out. In a task that forks, the numbers are what this thread knows: what other
 * threads have charged lately may be missing, and up to a grant of 64 KiB for each may count already. The idea is that
 * of Haskell's getAllocationCounter, for each limit.
 *
 * Returns 0, or:
 *   EINVAL  both pointers are NULL
 *   ENOENT  the calling thread is in no scope */
STINT_API int stint_usage_now(stint_usage *used, stint_budget *left);

/* Tell the name of the task that the calling thread runs. It is stint_options.name, in the task and in what it forks.
 * The name of the innermost scope counts, or else that of the nearest scope around it that has one.
 *
 * Returns the string that the options point to, or NULL: no scope has a name, or the thread runs no task. */
STINT_API const char *stint_task_name(void);

/* --- Results ------------------------------------------------------------------------------------------------------ */

/* Blocks that are a task's result, packed. What a task allocates with malloc lies in pages of its own once the task has
 * grown past some KiB, and a small block that stays there keeps a page of 64 KiB, and the record of the heap, from all
 * other use. These functions instead place a block among what other tasks on the same thread have left: a hundred
 * thousand results of 32 bytes take 4 MB. stint_malloc makes those of more than 80 KiB.
 *
 * In everything else such a block is like any other block of the task. It is charged to the task's budget, rolled back
 * with the task unless that ends Ok, and valid after an Ok; a block of an inner scope is then the outer one's. Any
 * thread may free it, at any time, with free (where the library replaces that) or stint_free. Outside of all scopes, in
 * a subtask that another thread took, and in a task that is wiped, these functions are stint_malloc and its family.
 * Each call is a sample point. The idea is from regions with an outliving parent, as in APR's pools: what is handed up
 * is allocated up. */

/* Allocate size bytes of a result, aligned as malloc's. A size of 0 gives a block that can be freed.
 *
 * Returns the block; or NULL with errno ENOMEM: there is no memory, or the budget is used up. */
STINT_API void *stint_result_malloc(size_t size);

/* Allocate count times size bytes of zeros for a result.
 *
 * Returns the block; or NULL with errno ENOMEM, also where the product does not fit in a size_t. */
STINT_API void *stint_result_calloc(size_t count, size_t size);

/* Move a block into a result of size bytes, with its contents. The block may be any of malloc's family, so this turns
 * one into a result; it is freed. NULL as the block makes the call a stint_result_malloc.
 *
 * Returns the new block; or NULL with errno ENOMEM, and the given block is as it was. */
STINT_API void *stint_result_realloc(void *block, size_t size);

/* Copy a string into a result.
 *
 * Returns the copy; or NULL with errno ENOMEM. */
STINT_API char *stint_result_strdup(const char *string);

STINT_END_DECLS

#endif
