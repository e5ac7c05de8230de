/* SPDX-License-Identifier: MIT
 *
 * The task: a function with a budget. stint_run runs one in place and says how it ended; stint_submit of pool.h gives
 * one to a pool.
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
 * In this order: the function, its budget, its options, its outcome, stint_run, what a task may call, results that
 * last. */
#ifndef STINT_TASK_H
#define STINT_TASK_H

#include <stint/detail/api.h>

STINT_BEGIN_DECLS

typedef struct stint_token stint_token;
typedef struct stint_account stint_account;
typedef struct stint_context stint_context;
typedef struct stint_completions stint_completions;

/* What a task runs. 0 is Ok with *value; anything else is Error with that code (an errno value, or a code of the task's
 * own). *value is NULL at the start; memory it points to is committed with the task on Ok and may then be freed with
 * free() from any thread. After Error and Cancelled nothing that it allocated is there any more: what it has written
 * into structures of its caller's may point nowhere, so look at the outcome first. arg is not copied. */
typedef int stint_fn(void *arg, void **value);

/* The limits of one task. 0 in a field: no such limit. This struct never grows. A new limit becomes a field of
 * stint_options.
 *
 * The allocation limit is the idea of Haskell's setAllocationCounter (Marlow 2014): it bounds work and is
 * deterministic. Here it is exact too: the task is stopped at the first allocation that would pass it, before that
 * allocation is made. The memory limit is that of memprof-limits (Munch-Maccagnoni 2020), per task instead of per
 * process. */
typedef struct stint_budget {
    /* Bytes the task may allocate in all; a free gives nothing back. docs/metering.md says how each call is charged. */
    size_t allocation;

    /* Bytes the task may hold at once, as blocks of its heap and of libc's for it, and as pages that it has mapped;
     * passed by at most max(64 KiB, limit/128). For a task whose subtasks run on several threads see docs/design.md, of
     * both limits. */
    size_t memory;

    /* Nanoseconds that it may take, from the submission or from the call of stint_run. Checked in stint_checkpoint and
     * at sample points: at the latest every 16 KiB that are allocated (every 112 KiB while the task allocates that much
     * within a clock tick of some milliseconds), and at the first allocation after the time has come. */
    uint64_t wall_ns;

    /* Nanoseconds of processor time, of the thread that it runs on and of those that run its stolen subtasks. A stolen
     * subtask's time is added when the subtask ends. So the task may pass its limit by the time of all subtasks that
     * run at that moment. Checked like the wall limit, and by the same signal where the task is preemptible. What the
     * thread does for a task that this one waits for does not count. UINT64_MAX: only measure it. */
    uint64_t cpu_ns;

    /* Nanoseconds that it may take from the start of its function, however long it was queued before: wall_ns bounds
     * how long its caller waits, run_ns how long it occupies a worker. The earlier of the two deadlines counts; both
     * are checked in the same way. For stint_run, which queues nothing, both count from the call. */
    uint64_t run_ns;
} stint_budget;

/* How an interrupt leaves the task's code. */
typedef enum stint_on_interrupt {
    /* Guards run, newest first, then control returns to the scope at once; while the code may not be left
     * (a lock is held, or a library is on the stack: interrupt.h), it waits, and allocations fail when the grace is
     * exhausted. */
    STINT_JUMP = 0,

    /* Every further allocation returns NULL with ENOMEM (operator new throws std::bad_alloc) until the task returns by
     * itself; for code that handles that well, such as SQLite. */
    STINT_FAIL = 1,

    /* As STINT_JUMP, but frame by frame: C++ destructors and, in C compiled with -fexceptions, cleanup attributes run
     * on the way, masked, up to the first frame that lets no exception through; from there it is a jump. For C++
     * (stint.hpp). docs/cpp.md tells all about it. */
    STINT_UNWIND = 2,
} stint_on_interrupt;

/* Which queued task of a pool is taken first: a high one before a normal one before a low one. But of every 8 tasks
 * that a worker takes at least one is normal, and of every 64 at least one is low, where there are any: so none
 * starves. */
typedef enum stint_priority {
    STINT_PRIORITY_NORMAL = 0,
    STINT_PRIORITY_HIGH,
    STINT_PRIORITY_LOW,
} stint_priority;

/* What a report is to tell of a task that does not end Ok (observe.h). */
typedef enum stint_report_level {
    STINT_REPORT_NONE = 0, /* there is none; in a task's options: what its pool's say */
    STINT_REPORT_STACK,    /* where it was stopped, and how it came to that */
    STINT_REPORT_HEAP,     /* and what its memory was made of */
} stint_report_level;

/* How to run one task. Made by STINT_OPTIONS_INIT, or with .size = sizeof(stint_options): one that was only zeroed is
 * refused with EINVAL. It can grow: stint.h. */
typedef struct stint_options {
    size_t size; /* sizeof(stint_options) */

    stint_budget budget;

    /* Cancels the task when set; NULL: none. Retained while the task is unresolved. */
    stint_token *token;

    stint_on_interrupt on_interrupt; /* STINT_JUMP unless set */

    /* For stint_submit and its like, and stint_run_reported (observe.h); stint_run ignores it. */
    stint_report_level report;

    /* Bytes that may still be allocated where an interrupt has to wait (see interrupt.h); 0: 1 MiB. What libc allocates
     * for itself has 16 MiB besides, as some of it is made once, for the whole process. */
    size_t grace;

    /* For reports; may be NULL. Not copied: it must outlive the task. */
    const char *name;

    /* Also interrupt code that makes no sample points, by a signal (SIGRTMAX - 2) to its thread, where the rules of
     * interrupt.h allow it. Blocking system calls then return EINTR. The task's own data may be left at any
     * instruction: only for code that shares nothing it writes. A loop that does nothing but call libc, such as
     * for (;;) pause();, is found in libc by every signal, and goes on: it needs a stint_checkpoint, or a wall. */
    bool preemptible;

    /* A ledger that is charged too (account.h); NULL: none. Retained while the task is unresolved. */
    stint_account *account;

    /* For stint_submit and its like; stint_run ignores it. */
    stint_priority priority;

    /* Zero what the task wrote into its blocks before other code can get them: the blocks that it frees, and when it is
     * rolled back all others. Left as they are: what it commits, blocks that libc made for itself and has not freed
     * when the task ends, blocks made between stint_keep_begin and stint_keep_end, its stack. Scopes inside it are
     * wiped too. While such a task runs, every free of the process zeroes its block, which costs as much as a memset of
     * it. */
    bool wipe;

    unsigned flags; /* of STINT_UNTIMED (below) and STINT_ALLOW_UNMETERED (stint.h) */

    /* Roll back its memory also if it ends Ok: for tasks that leave nothing of use, and then need not free it. The
     * value is passed on as it is, and must not point to memory of the task's. */
    bool discard;

    /* What belongs to its request (token.h); NULL: the context of the task that submits or runs it, if that has one.
     * Retained while the task is unresolved. */
    stint_context *context;

    /* For stint_submit and its like; stint_run ignores these two. When the task has resolved, leave a completion in
     * this queue (future.h; NULL: none), with this data: as if the future were added by stint_completions_add
     * right after the submission, but if there is no memory for that, the submission fails. */
    stint_completions *completions;
    void *data;

    /* For its STINT_REPORT_HEAP alone (observe.h): so many samples a word of 8 bytes that it allocates, as
     * stint_memprof_options has it, up to 1; 0: none. Without such a report it changes nothing. What inner scopes
     * allocate is sampled with it, at this rate. */
    double sample_rate;

    /* Tell the program once when the task has used more than this percentage of a limit of its budget, 1 to 100, and
     * let it go on (stint_warnings_set); 0: do not. EINVAL: more than 100. */
    unsigned warn;
} stint_options;

#define STINT_OPTIONS_INIT STINT_SIZED_INIT_(stint_options) /* no limits */

/* In options.flags: the times in its usage are not needed. Where the task has no limit of time either, and the process
 * no limit of memory (memory.h), stint reads no clock at its start and end. Where the clock is slow, that is most of
 * the cost of a short task.; its usage.wall_ns and queued_ns are 0. Otherwise it changes nothing. */
#define STINT_UNTIMED 2U

/* In the flags of stint_options and stint_pool_options: go ahead where stint_link_check says ENOTSUP. Then limits and
 * rollbacks cover the stint_malloc family and nothing else, a block of stint_malloc must be freed by stint_free, and a
 * task that may be interrupted must hold no lock but a stint_mutex where it is not masked. */
#define STINT_ALLOW_UNMETERED 1U

typedef enum stint_status {
    STINT_OK = 0,    /* the function returned 0 and nothing had tripped: its memory is committed */
    STINT_ERROR,     /* it returned an error, or passed a limit of its budget: its memory is rolled back */
    STINT_CANCELLED, /* its token was set, its pool was shut down, or the scope around it ended: rolled back */
} stint_status;

typedef enum stint_reason {
    STINT_REASON_NONE = 0,            /* status is STINT_OK */
    STINT_REASON_FAILED,              /* the function returned nonzero: STINT_ERROR */
    STINT_REASON_ALLOCATION_LIMIT,    /* budget.allocation: STINT_ERROR */
    STINT_REASON_MEMORY_LIMIT,        /* budget.memory: STINT_ERROR */
    STINT_REASON_DEADLINE,            /* budget.wall_ns or run_ns, when its function had begun: STINT_ERROR */
    STINT_REASON_ACCOUNT,             /* a limit of the account, or of one above it: STINT_ERROR */
    STINT_REASON_GLOBAL_MEMORY_LIMIT, /* the process held too much, and this task was chosen (memory.h): STINT_ERROR */
    STINT_REASON_TOKEN,               /* the task's token, one above it, or stint_future_cancel: STINT_CANCELLED */
    STINT_REASON_SHUTDOWN,            /* the pool was shut down by cancelling: STINT_CANCELLED */
    STINT_REASON_OUTER,               /* a scope around this one was interrupted: STINT_CANCELLED */
    STINT_REASON_TRACKER,             /* a profile's tracker asked for it (observe.h): STINT_ERROR */
    STINT_REASON_CPU,                 /* budget.cpu_ns: STINT_ERROR */
    STINT_REASON_EXPIRED,             /* budget.wall_ns had passed before its function was called: STINT_ERROR */
    STINT_REASON_EXCEPTION,           /* a C++ function threw (stint.hpp): STINT_ERROR */
    STINT_REASON_STACK,               /* it had used up the stack of its worker (below): STINT_ERROR */
    STINT_REASON_CRASH,               /* walled (wall.h): its process was ended by a fault or an abort: STINT_ERROR */
    STINT_REASON_EXIT,                /* walled: its code ended its process by exit: STINT_ERROR */
    STINT_REASON_KILLED,              /* walled: somebody else, such as the kernel, killed its process: STINT_ERROR */
    STINT_REASON_BROKEN,              /* walled: its process has said what cannot be true: STINT_ERROR */
} stint_reason;

/* What was measured. This struct and the next one stay as they are; what is measured later gets a call of its own. */
typedef struct stint_usage {
    uint64_t allocated; /* bytes charged in all, exact and the same in every run of the same work */
    uint64_t peak; /* maximum of bytes that it held at once, as measured: the true peak may be higher, by at most 1/8 of
                      this number plus a slack. The slack is a 16th of `allocated`, within 64 KiB and 1 MiB. */
    uint64_t samples;   /* times the meter left its fast path */
    uint64_t deferred;  /* sample points at which a due interrupt had to wait */
    uint64_t kept;      /* bytes of a rolled-back task that were kept because a root leads to them: memory.h */
    uint64_t wall_ns;   /* from the start of the function to its end, to a microsecond; 0: STINT_UNTIMED */
    uint64_t queued_ns; /* from the submission to the start; 0 for stint_run, and STINT_UNTIMED */
    uint64_t cpu_ns;    /* processor time, as budget.cpu_ns counts it; 0 unless that is set */
    uint64_t committed; /* STINT_OK: bytes of blocks and pages that it left allocated, which are the caller's now;
                         * otherwise 0. The number may be too high, never too low. It may include up to 36 KiB of freed
                         * blocks among the task's first 256, and free or freed space around blocks of inner scopes. */
} stint_usage;

#define STINT_MESSAGE_SIZE 96 /* bytes, with the zero at the end */

typedef struct stint_outcome {
    stint_status status;
    stint_reason reason;

    /* STINT_OK: 0. STINT_CANCELLED: ECANCELED. STINT_ERROR: the function's own code; for the limits of bytes and the
     * stack ENOMEM; for the account and the tracker EDQUOT; for a deadline, before or after the start, and for
     * processor time ETIMEDOUT; for an exception the code of a std::system_error, ENOMEM if it is std::bad_alloc, and
     * otherwise -1; of a walled task for a crash EFAULT, for an exit and a kill ECHILD, for a broken reply EPROTO. To
     * tell a person, print the reason and the message; strerror of these codes would mislead. */
    int error;

    void *value; /* STINT_OK: the task's value, the caller's from now on; otherwise NULL */
    stint_usage usage;

    /* STINT_ERROR by stint_fail: a copy of the payload that the function gave, of so many bytes; otherwise NULL and 0.
     * In a future's outcome it belongs to the future, and lives until that is released; in that of stint_run it is the
     * caller's, to be freed with free(). Of a walled task (wall.h): for the reasons that only such a one has a
     * stint_wall_death; and for STINT_OK payload_size is the size of the value. */
    const void *payload;
    size_t payload_size;

    /* STINT_REASON_EXCEPTION: what the exception says, as far as there is room. STINT_REASON_CRASH, _EXIT, _KILLED and
     * _BROKEN: how the process ended. Otherwise empty. */
    char message[STINT_MESSAGE_SIZE];
} stint_outcome;

/* Run fn(arg) here, on the calling thread, in a scope of its own, and fill *outcome. options may be NULL: no limits.
 * Scopes nest: inside a task or another stint_run the new scope charges every scope around it too, can have no more
 * than what they have left, and its memory is committed into the scope around it. When a scope around it is
 * interrupted, this one ends with it and, in STINT_JUMP, the call does not return. The end is a sample point.
 *
 * The function must leave by returning (stint.h), and must have ended what it began (guards, hooks, masks,
 * stint_keep_begin, forks): otherwise it has failed, with EINVAL.
 *
 * When a longjmp or setcontext leaves it, it is rolled back, its guards run, and *outcome is not filled; but only where
 * the library overrides it (stint_malloc_is_overridden). A task of a pool, and a subtask on another worker, cannot be
 * left like that: it fails, with EINVAL, and the worker goes on. When the thread ends in it (pthread_exit,
 * pthread_cancel), it is rolled back as well, but of its guards only those run whose frames are unwound (interrupt.h).
 * Do not jump to a resume point on another thread's stack, which cannot be told from a switch of stacks
 * (docs/debugging.md).
 *
 * 0: *outcome is filled, whatever the task's status; fn is not called where the token is set already. In the other
 * cases fn was not called.
 * EINVAL: fn or outcome is NULL, or on_interrupt, priority, report or flags is no known
 *   value, or warn is above 100, or sample_rate is not from 0 to 1, or the options have no size, as they were made
 *   without STINT_OPTIONS_INIT.
 * E2BIG: the options set a field that this library is too old to know (stint.h).
 * ENOMEM: there is no memory for this thread's record.
 * ENOTSUP: the program is linked so that stint cannot meter it (stint.h), and flags do not allow that; or the mimalloc
 *   that the loader found is not one that this library was compiled for (stint_backend_version); or on_interrupt is
 *   STINT_UNWIND, and std::terminate is not this library's (stint.h); or libgcc, which the first task loads, cannot be:
 *   a program that confines itself before (chroot, seccomp) calls stint_link_check first.
 * EAGAIN: the thread that watches preemptible tasks could not be started.
 * EBUSY: the account has its maximum of running tasks.
 * Any thread; any number at once. */
STINT_API int stint_run(stint_fn *fn, void *arg, const stint_options *options, stint_outcome *outcome);

/* To be returned by a task's function: an error with a payload, such as a message or a struct without pointers, that
 * survives the rollback:
 *
 *     return stint_fail(EBADMSG, text, strlen(text) + 1);
 *
 * size bytes from payload are copied into memory of the process's, and are in the outcome if the task ends with
 * STINT_REASON_FAILED or STINT_REASON_EXCEPTION; a later call replaces the copy. They are charged to the task, the
 * innermost scope of the calling thread; in a subtask on another thread, and outside a scope, nothing is copied.
 * payload may be NULL when size is 0: then an earlier copy is dropped.
 *
 * Returns error, whatever becomes of the copy: if there is no memory for it, or the budget does not allow it, the
 * outcome has no payload. Any thread. */
STINT_API int stint_fail(int error, const void *payload, size_t size);

/* What the innermost scope of the calling thread has used so far, and what is left to it of its own limits and those of
 * the scopes around it; in a task's function, in what it forks, and in what that calls. Either may be NULL, and is then
 * not measured. Reads the clock, and walks the task's heap for used->peak and left->memory: some microseconds. In
 * *used, kept and committed are 0. Of a task that forks, the numbers are what is known on this thread: what
 * other threads have charged lately may be missing, and up to a grant of 64 KiB for each may count already.
 *
 * In *left, UINT64_MAX or SIZE_MAX: no such limit. left->wall_ns and left->run_ns are both the time until the earlier
 * deadline, left->cpu_ns is processor time. A limit that is passed has 0 left. Accounts are left out. The idea is that
 * of Haskell's getAllocationCounter, for each limit.
 *
 * 0; EINVAL: both are NULL; ENOENT: the calling thread is in no scope. Any thread. */
STINT_API int stint_usage_now(stint_usage *used, stint_budget *left);

/* stint_options.name of the task that the calling thread runs: that of its innermost scope, or else of the nearest
 * scope around it that has one; in what it forks too. It is the string that the options pointed to, which must outlive
 * the task. NULL: none has a name, or no task is run here. Any thread. */
STINT_API const char *stint_task_name(void);

/* The names of statuses and reasons: "ok", "error", "cancelled"; and "none", "failed", "allocation-limit",
 * "memory-limit", "deadline", "account", "global-memory-limit", "token", "shutdown", "outer", "tracker", "cpu",
 * "expired", "exception", "stack", "crash", "exit", "killed", "broken". "unknown" for any other value. Static strings.
 * Any thread. */
STINT_API const char *stint_status_name(stint_status status);
STINT_API const char *stint_reason_name(stint_reason reason);

/* The stack. A task of a pool that uses up what there is of its worker's stack ends like one that passes a limit of its
 * budget, instead of ending the process: at once where the rules of interrupt.h allow it, as those for a preemptible
 * task do, or else at the next sample point, for which there are 64 KiB more. If it uses those up too and still may not
 * be left (masked, or with a lock held, or inside a library that is not left), the fault is the program's, as all other
 * faults are, and as the end of any other thread's stack is. Of nested scopes the innermost one ends that began above
 * the middle of the stack. A program's handler of SIGSEGV is to be set before it makes a pool. docs/interrupts.md tells
 * all about it; the idea is that of libsigsegv (Haible 2002), and of the yellow and red zones of HotSpot's stacks. */

/* Threads. A thread that a task starts, by itself or by a library, is not the task's. What the thread allocates is the
 * process's: it is charged to nobody, stays when the task is rolled back, and no interrupt comes to the thread; nobody
 * waits for its end. A stint_run on the thread is a scope of its own. So the thread must not use the task's memory any
 * more when the task has ended without success: a task that starts threads joins them before its function returns, and
 * pushes a guard that stops and joins them when an interrupt comes. What is to be charged to the task, and to end with
 * it, is a subtask (fork.h), or a thread behind a wall (wall.h), where all threads of the child end with its task. */

/* --- Results ------------------------------------------------------------------------------------------------------ */

/* Blocks that are a task's result. What a task allocates with malloc lies, once it has grown past some KiB, in pages of
 * its own, and a small block that is left there keeps a page of 64 KiB, and the heap's record, from all other use.
 * What these functions make lies packed with what other tasks on the same thread have left: a hundred thousand results
 * of 32 bytes take 4 MB. One of more than 80 KiB is made as stint_malloc makes it.
 *
 * In everything else such a block is like any other of the task: charged to its budget, the task's as long as it runs,
 * rolled back with it if it does not end Ok, and valid after that if it does; one of an inner scope is then the outer
 * one's. It may be freed on any thread, at any time, with free (where the library replaces it) or stint_free. Outside
 * of all scopes, and in a subtask that another thread took, or a task that is wiped, these functions are stint_malloc
 * and its family.
 *
 * The idea is from regions with an outliving parent, as in APR's pools: what is handed up is allocated up.
 *
 * Any thread; not from signal handlers. Each may be where an interrupt is delivered. NULL comes with errno ENOMEM. */

/* size bytes, aligned as malloc's. A size of 0 gives a block that can be freed. */
STINT_API void *stint_result_malloc(size_t size);

/* count times size bytes of zeros. ENOMEM also if the product does not fit in a size_t. */
STINT_API void *stint_result_calloc(size_t count, size_t size);

/* A block of size bytes with the contents of the given one, which is freed. That may be any block of malloc's family,
 * so this turns one into a result. A NULL block: as stint_result_malloc. When NULL is returned the given block is left
 * as it is. */
STINT_API void *stint_result_realloc(void *block, size_t size);

/* A copy of the string. */
STINT_API char *stint_result_strdup(const char *string);

STINT_END_DECLS

#endif
