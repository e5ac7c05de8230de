/* SPDX-License-Identifier: MIT
 *
 * The task: a function, its budget, its outcome, and stint_run, which runs one in place. */
#ifndef STINT_TASK_H
#define STINT_TASK_H

#include <stint/link.h>

STINT_BEGIN_DECLS

typedef struct stint_token stint_token;
typedef struct stint_account stint_account;
typedef struct stint_context stint_context;
typedef struct stint_completions stint_completions;

/* What a task runs. 0 is Ok with *value; anything else is Error with that code (an errno value, or a code of the task's
 * own). *value is NULL at the start; memory it points to is committed with the task on Ok and may then be freed with
 * free() from any thread. */
typedef int stint_fn(void *arg, void **value);

/* The limits of one task. 0 in a field: no such limit.
 *
 * The allocation limit is the idea of Haskell's setAllocationCounter (Marlow 2014): it bounds work, is deterministic,
 * and is exact here: the task is stopped at the first allocation that would pass it, before that allocation is made.
 * The memory limit is that of memprof-limits (Munch-Maccagnoni 2020), per task instead of per process. */
typedef struct stint_budget {
    /* Bytes the task may allocate in all; a free gives nothing back. docs/metering.md says how each call is charged. */
    size_t allocation;

    /* Bytes the task may hold at once, as blocks of its heap and of libc's for it; passed by at most max(64 KiB,
     * limit/128). For a task whose subtasks run on several threads see docs/design.md, of both limits. */
    size_t memory;

    /* Nanoseconds it may take: from the submission, or from the call of stint_run. Looked at in sample points (at the
     * latest every 16 KiB that are allocated, or every 128 KiB while that takes less than milliseconds, and at the
     * first allocation after the time has come) and in stint_checkpoint. */
    uint64_t wall_ns;

    /* Nanoseconds of processor time, of the thread it runs on and of those that run its stolen subtasks, each of which
     * is added when it has ended; so what runs at once may pass the limit by as much each. Looked at like the wall
     * limit, and by the same signal where the task is preemptible. What the thread does for a task that this one waits
     * for does not count. UINT64_MAX: only measure it. */
    uint64_t cpu_ns;

    /* Nanoseconds it may take from the start of its function, however long it waited before: wall_ns bounds how long
     * somebody waits for it, run_ns how long it keeps a worker. Of the two deadlines the earlier one holds; looked at
     * in the same places. For stint_run, which never waits, both count from the call. */
    uint64_t run_ns;
} stint_budget;

/* How an interrupt leaves the task's code. */
typedef enum stint_on_interrupt {
    /* Guards run, newest first, then control returns to the scope at once; for code that holds no lock. */
    STINT_JUMP = 0,

    /* Every further allocation returns NULL with ENOMEM (operator new throws std::bad_alloc) until the task returns by
     * itself; for code that handles that well, such as SQLite. */
    STINT_FAIL = 1,

    /* As STINT_JUMP, but frame by frame: C++ destructors and, in C compiled with -fexceptions, cleanup attributes run
     * on the way, masked; for C++ (stint.hpp). docs/cpp.md tells all about it. */
    STINT_UNWIND = 2,
} stint_on_interrupt;

/* Which waiting task of a pool is taken first: a high one before a normal one before a low one. But of every 8 tasks
 * that a worker takes at least one is normal, and of every 64 at least one low, where there are any: so none
 * starves. */
typedef enum stint_priority {
    STINT_PRIORITY_NORMAL = 0,
    STINT_PRIORITY_HIGH,
    STINT_PRIORITY_LOW,
} stint_priority;

typedef struct stint_options {
    stint_budget budget;

    /* Cancels the task when set; NULL: none. Retained while the task is unresolved. */
    stint_token *token;

    stint_on_interrupt on_interrupt; /* STINT_JUMP unless set */

    /* Bytes that may still be allocated where an interrupt has to wait (see interrupt.h); 0: 1 MiB. */
    size_t grace;

    /* For reports; may be NULL. Not copied: it must outlive the task. */
    const char *name;

    /* Also interrupt code that makes no sample points, by a signal (SIGRTMAX - 2) to its thread, where the rules of
     * interrupt.h allow it. Blocking system calls then return EINTR. The task's own data may be left at any
     * instruction: only for code that shares nothing it writes. */
    bool preemptible;

    /* A ledger that is charged too (account.h); NULL: none. Retained while the task is unresolved. */
    stint_account *account;

    /* Count and report the descriptors that it leaves open when it is rolled back (fd.h). */
    bool audit_fds;

    /* For stint_submit; stint_run takes no notice of it. */
    stint_priority priority;

    /* Zero what the task wrote into its blocks before anybody else can get them: the blocks that it frees, and when it
     * is rolled back all others. Left as they are: what it commits, blocks that libc made for itself and has not freed
     * when the task ends, blocks made between stint_keep_begin and stint_keep_end, its stack. Scopes inside it are
     * wiped too. While such a task runs, every free of the process zeroes its block, which costs as much as a memset of
     * it. */
    bool wipe;

    unsigned flags; /* of STINT_UNTIMED (below) and STINT_ALLOW_UNMETERED (link.h) */

    /* Roll back what it leaves if it ends Ok too: for tasks whose memory nobody wants, which need not free it then. The
     * value is passed on as it is, and must not point to memory of the task's. */
    bool discard;

    /* What belongs to its request (context.h); NULL: the context of the task that submits or runs it, if that has one.
     * Retained while the task is unresolved. */
    stint_context *context;

    /* For stint_submit and its like; stint_run takes no notice of these two. When the task has resolved, leave a
     * completion in this queue (completions.h; NULL: none), with this data. It is as if the future had been added right
     * after the submission, but the submission fails if it cannot be. */
    stint_completions *completions;
    void *data;
} stint_options;

/* clang-format off */
#define STINT_OPTIONS_INIT \
    { { 0, 0, 0, 0, 0 }, NULL, STINT_JUMP, 0, NULL, false, NULL, false, STINT_PRIORITY_NORMAL, false, 0,           \
      false, NULL, NULL, NULL }
/* clang-format on */

/* In options.flags: nobody asks how long the task took. Where it has no limit of time either, and the process no limit
 * of memory (global.h), its start and end read no clock, which is a good part of what a short task costs where a
 * reading is slow; its usage.wall_ns and queued_ns are 0. Otherwise it changes nothing. */
#define STINT_UNTIMED 2U

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
    STINT_REASON_GLOBAL_MEMORY_LIMIT, /* the process held too much, and this task was chosen (global.h): STINT_ERROR */
    STINT_REASON_TOKEN,               /* the task's token, one above it, or stint_future_cancel: STINT_CANCELLED */
    STINT_REASON_SHUTDOWN,            /* the pool was shut down by cancelling: STINT_CANCELLED */
    STINT_REASON_OUTER,               /* a scope around this one was interrupted: STINT_CANCELLED */
    STINT_REASON_TRACKER,             /* a profile's tracker asked for it (memprof.h): STINT_ERROR */
    STINT_REASON_CPU,                 /* budget.cpu_ns: STINT_ERROR */
    STINT_REASON_EXPIRED,             /* budget.wall_ns had passed before its function was called: STINT_ERROR */
    STINT_REASON_EXCEPTION,           /* the function threw (exception.h): STINT_ERROR */
} stint_reason;

/* What was measured. */
typedef struct stint_usage {
    uint64_t allocated; /* bytes charged in all, exact and the same in every run of the same work */
    uint64_t peak;    /* most bytes that were seen held at once: the truth is at most 1/8 and a slack above it, which is
                       * a 16th of what was allocated, at least 64 KiB and at most 1 MiB */
    uint64_t samples; /* times the meter left its fast path */
    uint64_t deferred;  /* sample points at which a due interrupt had to wait */
    uint64_t kept;      /* bytes of a rolled-back task that were kept because a root leads to them: roots.h */
    uint64_t open_fds;  /* left open by an audited task that was rolled back */
    uint64_t wall_ns;   /* from the start of the function to its end, to a microsecond; 0: STINT_UNTIMED */
    uint64_t queued_ns; /* from the submission to the start; 0 for stint_run, and STINT_UNTIMED */
    uint64_t cpu_ns;    /* processor time of the thread; 0 unless budget.cpu_ns is set */
    uint64_t committed; /* STINT_OK: bytes of blocks that it left allocated, which are the caller's now; otherwise 0 */
} stint_usage;

#define STINT_MESSAGE_SIZE 96

typedef struct stint_outcome {
    stint_status status;
    stint_reason reason;

    /* STINT_OK: 0. STINT_ERROR: the function's own code, ENOMEM for the byte limits, EDQUOT for the account and the
     * tracker, ETIMEDOUT for the deadline, before or after the start, and for processor time; for an
     * exception ENOMEM if it is std::bad_alloc, and -1 if not. STINT_CANCELLED: ECANCELED. */
    int error;

    void *value; /* STINT_OK: the task's value, the caller's from now on; otherwise NULL */
    stint_usage usage;

    /* STINT_ERROR by stint_fail: a copy of what the function had to say about it; otherwise NULL and 0. A future's
     * stays until the future is released, and is the future's; that of stint_run is the caller's, to be freed with
     * free(). */
    const void *payload;
    size_t payload_size;

    /* STINT_REASON_EXCEPTION: what the exception says, as far as there is room; otherwise empty. */
    char message[STINT_MESSAGE_SIZE];
} stint_outcome;

/* Run fn(arg) here, on the calling thread, in a scope of its own, and fill *outcome. options may be NULL: no limits.
 * Scopes nest: inside a task or another stint_run the new scope charges every scope around it too, can have no more
 * than what they have left, and its memory is committed into the scope around it. When a scope around it is
 * interrupted, this one ends with it and, in STINT_JUMP, the call does not return.
 *
 * Any thread, any number at once. The function is to leave by returning or, in C++, by an exception. What it has to
 * undo before (guards, hooks, masks, stint_keep_begin, forks) it must have undone: otherwise it has failed, with
 * EINVAL. When a longjmp or setcontext leaves it, or the thread ends in it (pthread_exit, pthread_cancel), it is rolled
 * back, its guards run, and nobody hears of its outcome; not the longjmp where nothing is overridden
 * (stint_malloc_is_overridden). A task of a pool, and a subtask on another worker, cannot be left like that: it fails,
 * with EINVAL, and the worker goes on; but do not jump to a landing on another thread's stack, which nobody can tell
 * from a switch of stacks. docs/debugging.md.
 *
 * 0: *outcome is filled, whatever the task's status. EINVAL: fn or outcome is NULL, or on_interrupt or flags is no
 * known value. ENOMEM: no memory for this thread's record; ENOTSUP: the program is linked so that stint cannot meter it
 * (link.h), and flags do not allow that, or the mimalloc that the loader found is not one that this library was
 * compiled for (stint_backend_version); EAGAIN: the thread that watches preemptible tasks could not be started; EBUSY:
 * the account has its maximum of running tasks (in these cases fn was not called). */
STINT_API int stint_run(stint_fn *fn, void *arg, const stint_options *options, stint_outcome *outcome);

/* To be returned by a task's function: an error with something to say about it, a message or a struct, that survives
 * the rollback:
 *
 *     return stint_fail(EBADMSG, text, strlen(text) + 1);
 *
 * size bytes from payload are copied into memory of the process's, and are in the outcome if the task ends with
 * STINT_REASON_FAILED; what a later call of the task copies takes its place. They are charged to the task. It concerns
 * the innermost scope of the calling thread; called in a subtask on another thread, or outside a scope, nothing is
 * copied. Returns error, whatever becomes of the copy: if there is no memory for it, or the task must not have it, the
 * outcome has no payload. payload may be NULL when size is 0: then an earlier copy is dropped. */
STINT_API int stint_fail(int error, const void *payload, size_t size);

/* What the innermost scope of the calling thread has used so far, and what is left to it of its own limits and those of
 * the scopes around it; in a task's function, in what it forks, and in what that calls. Either may be NULL, and is then
 * not measured. Of a task that forks, the numbers are what is known on this thread: what others have charged since they
 * were last asked may be missing, and up to a grant of 64 KiB each may count already. Reads the clock; used->peak, and
 * left->memory, are measured for it, which walks the task's heap: some microseconds. Of *used, kept, open_fds and
 * committed are 0.
 *
 * In *left, UINT64_MAX or SIZE_MAX: no such limit. left->wall_ns and left->run_ns are both the time until the earlier
 * deadline, left->cpu_ns is processor time. A limit that is passed has 0 left. Accounts are not looked at. (Haskell's
 * getAllocationCounter, for each limit.)
 * 0; EINVAL: both are NULL; ENOENT: the calling thread is in no scope. Any thread. */
STINT_API int stint_usage_now(stint_usage *used, stint_budget *left);

/* stint_options.name of the task that the calling thread runs: its innermost scope's, or else that of the nearest scope
 * around it that has one; in what it forks too. The string is whoever's it was when the task was given it, and lives as
 * long as the task at least. NULL: none has a name, or no task is run here. Any thread. */
STINT_API const char *stint_task_name(void);

/* "ok", "error", "cancelled"; and "none", "failed", "allocation-limit", "memory-limit", "deadline", "account",
 * "global-memory-limit", "token",
 * "shutdown", "outer", "tracker", "cpu", "expired", "exception". "unknown" for any other value. Static strings; any
 * thread. */
STINT_API const char *stint_status_name(stint_status status);
STINT_API const char *stint_reason_name(stint_reason reason);

STINT_END_DECLS

#endif
