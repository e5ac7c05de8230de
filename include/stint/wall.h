/* SPDX-License-Identifier: MIT
 *
 * The wall: a task runs in a process of its own, for code that cannot be stopped in place.
 *
 *     #include <stdio.h>
 *     #include <stdlib.h>
 *     #include <stint/wall.h>
 *
 *     static int parse(const void *input, size_t size, stint_reply *reply) // in the child
 *     {
 *         return stint_reply_write(reply, input, size);
 *     }
 *
 *     int main(void)
 *     {
 *         stint_wall_options options = STINT_WALL_OPTIONS_INIT;
 *         stint_wall *wall;
 *         stint_pool *pool;
 *         stint_future *future;
 *         stint_outcome outcome;
 *         if (stint_wall_create(&options, &wall) != 0 || stint_pool_create(NULL, &pool) != 0) // walls before threads
 *             return 1;
 *         if (stint_submit_walled(pool, wall, parse, "hello", 6, NULL, &future) == 0) {
 *             if (stint_future_wait(future, &outcome) == 0 && outcome.status == STINT_OK)
 *                 printf("%s, %zu bytes\n", (const char *)outcome.value, outcome.payload_size); // the reply
 *             free(outcome.value);
 *             stint_future_release(future);
 *         }
 *         stint_pool_destroy(pool);
 *         return stint_wall_destroy(wall);
 *     }
 *
 * A walled task has the budget, the token, the account and the future of any other task, and ends with the same
 * reasons. But whatever its code does, the program goes on: it may dereference NULL, free twice, call abort() or
 * exit(), or loop where no interrupt reaches it. At its deadline, or when it is cancelled, its process is killed at
 * once.
 *
 *     program                                      stint_wall_create forks:
 *       guardian                                     a process that makes the template again when it has died
 *         template                                   runs setup once, and forks the children
 *           child, child, ...                        run the tasks
 *
 * A child sees the program as it was when the wall was made, and what setup has done since; what the program shares at
 * that moment with other processes (MAP_SHARED) it shares with the children. A task gets bytes and descriptors, and
 * gives bytes back. docs/wall.md says when to use it, what it contains, and what it costs.
 *
 * The template is the idea of Android's and chromium's zygotes and of PostgreSQL's postmaster; the sandbox that of
 * sandboxed-api. */
#ifndef STINT_WALL_H
#define STINT_WALL_H

#include <stint/detail/api.h>
#include <stint/future.h>
#include <stint/pool.h>
#include <stint/task.h>

STINT_BEGIN_DECLS

typedef struct stint_wall stint_wall;
typedef struct stint_reply stint_reply;

/* --- A task's function: in the child. --- */

/* What a walled task runs: in the child, in a scope with the task's budget. 0 is Ok with what was written to the reply;
 * anything else is Error with that code. input is size bytes that the child may read; with a size of 0 it is not NULL.
 * It runs on the child's main thread. stint_fail, stint_checkpoint, guards and all else that is said of tasks work in
 * it; futures, tokens and pools of the parent do not. */
typedef int stint_wall_fn(const void *input, size_t size, stint_reply *reply);

/* Add size bytes to the end of the reply. They are charged to the task: they count for its allocation limit. Each
 * piece has to fit in what is left of its memory limit; once written it does not count there, as it is none of its
 * heap. A piece is charged as an allocation is, in multiples of 16 bytes: write larger ones.
 *
 * 0; EMSGSIZE: the reply would be larger than the wall's reply_limit; ENOMEM: the budget does not allow it; EINVAL:
 * reply is NULL, or bytes is with a size above 0. The task's own thread. */
STINT_API int stint_reply_write(stint_reply *reply, const void *bytes, size_t size);

/* The same, but returns where the size bytes lie, for the task to fill in: so a large reply is not copied in the child.
 * What lies there at first is not defined: in a child that is used again it may be an earlier task's, so fill in all of
 * it. The first piece lies at the beginning of a page, and each behind the one before, without a gap. NULL, with errno
 * as stint_reply_write's errors. The task's own thread. */
STINT_API void *stint_reply_reserve(stint_reply *reply, size_t size);

/* The bytes of the reply so far. The task's own thread. */
STINT_API size_t stint_reply_size(const stint_reply *reply);

/* The descriptor number index of those that the task was given (stint_wall_call.fds). It is the task's, and closed when
 * the task has ended. -1: there is no such descriptor. The task's own thread. */
STINT_API int stint_reply_fd(const stint_reply *reply, size_t index);

/* --- Making a wall. --- */

/* What a child may do. What the kernel or this build cannot do is refused by stint_wall_create with ENOTSUP. */
typedef enum stint_wall_sandbox {
    /* Opens no files but those under options.paths; makes no sockets; starts no programs; sends no signals to others;
     * gets no new privileges. By seccomp and, where paths are named, Landlock. */
    STINT_WALL_CLOSED = 0,

    /* Only limits of what it takes: memory, descriptors, processes and threads, file sizes. */
    STINT_WALL_OPEN,
} stint_wall_sandbox;

/* A file, or a folder with all that is in it, that the children of a closed wall may open. */
typedef struct stint_wall_path {
    const char *path;
    bool writable; /* also to be written, made, renamed and deleted; otherwise only to be read */
} stint_wall_path;

/* Called once in each template, before the sandbox closes: load libraries, warm them up, open what is needed. It leaves
 * no threads running, as no child would have them. 0, or an error with which stint_wall_create fails. */
typedef int stint_wall_setup_fn(void *arg);

/* Called in each template just before its filter is loaded, with libseccomp's scmp_filter_ctx, to add rules to it. In a
 * wall that is OPEN the filter allows all that it has no rule for; in a CLOSED one it refuses that with EPERM, and
 * rules for what it allows already change nothing. 0, or an error as setup's. */
typedef int stint_wall_filter_fn(void *filter, void *arg);

/* How to make a wall. Made by STINT_WALL_OPTIONS_INIT; it can grow: stint.h. */
typedef struct stint_wall_options {
    size_t size; /* sizeof(stint_wall_options) */

    const char *name; /* for metrics and messages; NULL: "wall". Copied */

    stint_wall_setup_fn *setup; /* NULL: nothing is to be done */
    void *setup_arg;

    /* The file of a program that is started as the template, in place of a fork of this one, and that calls
     * stint_wall_serve: for hosts that have threads already. It gets arguments (NULL: its own name alone), an empty
     * environment but for what stint_wall_serve needs, and no descriptors but those named. Its functions are called by
     * name (stint_wall_call.entry); it does its own setup before it calls stint_wall_serve. NULL: fork. */
    const char *program;
    char *const *arguments; /* up to a NULL */

    unsigned children; /* tasks that run at once, each in its child; 0: as many as the first task's pool has workers */

    /* How many tasks a child runs before it is replaced; 0: as 1, each task has a fresh one. STINT_WALL_REUSED:
     * until a task does not end Ok. Between two tasks the child's descriptors are closed, and its alarm is stopped.
     * What a task has left allocated, or written into static variables, stays for the next one, as libraries keep
     * caches there; with stint_options.discard its memory is rolled back. A child whose tasks have left 64 MiB is
     * replaced. Handlers of signals, the environment and other timers stay too. Above 1 it needs processes = 0
     * (EINVAL). */
    unsigned tasks_per_child;

    unsigned spare; /* children that are made ahead and wait for a task */

    stint_wall_sandbox sandbox; /* STINT_WALL_CLOSED unless set */
    const stint_wall_path *paths;
    size_t path_count;            /* at most 64 */
    stint_wall_filter_fn *filter; /* NULL: none */
    void *filter_arg;

    /* Descriptors that stay open in the children, under their numbers. All others are closed; standard input is empty,
     * and standard output and error lead nowhere unless they are named here. */
    const int *fds;
    size_t fd_count; /* at most 64 */

    size_t input_limit; /* bytes of a task's input; 0: 64 MiB. At most 4 GiB, as the next one */
    size_t reply_limit; /* bytes of a reply; 0: 64 MiB */

    /* What the kernel allows a child, beside the task's budget. Nobody raises it again, root neither. */
    size_t memory;        /* bytes of memory that a child may add to the template's; 0: 4 GiB. The kernel's limits lie
                           * above it, so that a budget is met first: allocators take more than they give out. They are
                           * three times as much of address space, and 256 MiB; and in a control group (below) an
                           * eighth more in use, and 16 MiB. Input and reply come on top */
    unsigned descriptors; /* that it may open, beside those that it is given; 0: 64. About: it bounds their numbers, and
                           * up to two dozen more may fit */
    unsigned processes;   /* processes and threads that it may start; 0: none. For a user other than root RLIMIT_NPROC
                           * does it, set to what the whole system runs plus this number, so more may be started. Root
                           * needs a control group (below). Where
                           * the kernel is older than 6.12, they are sent no signals in a wall that is CLOSED */
    size_t file_size;     /* bytes of a file that it writes, memfds too; 0: no byte can be written to any file,
                           * not under writable paths either. SIZE_MAX: no limit.
                           * A write beyond it fails with EFBIG */
    size_t stack;         /* bytes of the main thread's stack; 0: 8 MiB */

    /* A folder of a control group hierarchy in which this process may make groups: each child gets a group with limits
     * on memory and processes. NULL: none.
     *   version 2   a folder that is delegated (cgroups(7)), with no process in it, such as systemd makes with
     *               Delegate=yes: /sys/fs/cgroup/system.slice/app.service/walls. Its memory and pids controllers are
     *               given to the groups below it
     *   version 1   a folder of the memory or the pids hierarchy: /sys/fs/cgroup/memory/app. Where the other one has a
     *               folder with the same name, groups are made there, too; where it has not, its limit is not set
     * With processes above 0 there has to be a pids hierarchy or controller. */
    const char *cgroup;

    /* Where to write one sentence that says what is wrong when stint_wall_create fails; NULL: nowhere. There is none
     * where the struct itself is wrong. 512 bytes are enough. */
    char *message;
    size_t message_size;

    size_t queue_capacity; /* tasks that may wait for a child at once; 0: 4096 */
    unsigned flags;        /* 0 or STINT_ALLOW_UNMETERED (stint.h) */
} stint_wall_options;

#define STINT_WALL_OPTIONS_INIT STINT_SIZED_INIT_(stint_wall_options)

#define STINT_WALL_REUSED UINT_MAX

/* Make a wall: fork its guardian and its template, run setup, and wait until that has returned. options may be NULL.
 * The wall is the caller's, to be destroyed. Make walls first, and then pools and threads: a fork takes one thread
 * along.
 *
 * 0.
 * EINVAL: wall is NULL, or an option is out of its range.
 * E2BIG: the options set one that this library is too old to know.
 * EBUSY: the process has other threads, of its own or of a pool (the message says how many). options.program does not
 *   mind. Or setup has left threads running.
 * ENOTSUP: the kernel, or the way in which this library was built, cannot do what the options ask for (the message says
 *   what); or as stint_run.
 * ENOMEM, EAGAIN, EMFILE, ENFILE, ENOENT, ...: as fork, posix_spawn and socketpair.
 * ECHILD: the template ended before it was ready.
 * What setup or the filter has returned.
 * The only thread of the process; with options.program, any thread. Not in a task or a callback (EDEADLK). */
STINT_API int stint_wall_create(const stint_wall_options *options, stint_wall **wall);

/* End all that the wall has started: queued tasks resolve as Cancelled (STINT_REASON_SHUTDOWN), running ones are killed
 * and resolve so too. When it returns, no process of the wall is left, and all callbacks of its tasks have returned.
 *
 * 0, also for NULL; EDEADLK: called in a callback, or in a task of the wall; ENOTSUP: this process was forked from
 * the wall's (nothing has to be done). No other call on the wall may be under way or follow. Any thread. */
STINT_API int stint_wall_destroy(stint_wall *wall);

/* --- Submitting. --- */

/* Submit a task that runs fn(input, size) in a child of the wall. It is a task of the pool: a shutdown of the pool
 * waits for it, or ends it. But no worker of the pool is held by it.
 *
 * fn is a function of this program, or of a library that was loaded when the wall was made. The input is copied to the
 * child when the task begins: it has to stay as it is until the future has resolved. options are those of stint_submit;
 * what differs:
 *
 *   budget          allocation and memory are metered in the child, exactly; the times in the parent. cpu_ns is the
 *                   processor time of all the child's threads
 *   on_interrupt    for the budget's limits of bytes: how the child's code is left. A time that is up, a token or a
 *                   shutdown kill the child
 *   account         allocations and memory are drawn from it as in place
 *   wipe            the input and the reply are zeroed, too
 *   discard         in a child that is used again: after Ok too, its heap is rolled back. For code that keeps nothing
 *                   between calls: a cache that it keeps would point nowhere
 *   preemptible     has no effect
 *
 * Ok: the outcome's value is the reply, a block of outcome.payload_size bytes that is the caller's, to be freed with
 * free(); never NULL. Error: the new reasons are STINT_REASON_CRASH, _EXIT, _KILLED and _BROKEN (task.h), and the
 * outcome's payload is then a stint_wall_death (NULL where there was no memory for it). A reply that nobody frees is
 * not freed with its future, as no task's value is.
 *
 * As stint_submit. EINVAL: also when wall is NULL, or input is with a size above 0, or fn lies in no module that was
 * loaded when the wall was made, or the wall has a program. EMSGSIZE: size is above the wall's input_limit. ENOTSUP:
 * this process was forked from the wall's. Any thread, also in tasks and callbacks. */
STINT_API int stint_submit_walled(stint_pool *pool, stint_wall *wall, stint_wall_fn *fn, const void *input, size_t size,
                                  const stint_options *options, stint_future **future);

#define STINT_WALL_FDS_MAX 16

/* The same with more to say. Made by STINT_WALL_CALL_INIT; it can grow: stint.h. */
typedef struct stint_wall_call {
    size_t size; /* sizeof(stint_wall_call) */

    stint_wall_fn *fn; /* NULL where the wall has a program, and an entry is named */
    const char *entry; /* the name under which the program serves the function; NULL: fn. 63 characters at most */

    const void *input;
    size_t input_size;

    /* Descriptors that the child gets copies of, such as an uploaded file or a socket. They have to stay open until the
     * future has resolved; a task that was to get one that is not open has failed, with EBADF. At most
     * STINT_WALL_FDS_MAX. */
    const int *fds;
    size_t fd_count;

    uint64_t wait_ns; /* where the queue is full, wait so long for a slot, as stint_submit_wait does */
} stint_wall_call;

#define STINT_WALL_CALL_INIT STINT_SIZED_INIT_(stint_wall_call)

/* As stint_submit_walled. EINVAL: also when call is NULL or has no size, or both fn and entry are set or neither, or
 * fd_count is above STINT_WALL_FDS_MAX. With wait_ns above 0 also as stint_submit_wait. */
STINT_API int stint_submit_walled_call(stint_pool *pool, stint_wall *wall, const stint_wall_call *call,
                                       const stint_options *options, stint_future **future);

/* How a child ended that did not answer: the payload of the outcome. It says what the kernel says, but for address,
 * instruction and code, which the child has written itself as it crashed. */
typedef struct stint_wall_death {
    int signal;       /* that ended it; 0: it called exit */
    int code;         /* of a crash: the signal's si_code; 0: not known */
    int status;       /* of an exit */
    bool known;       /* false: nothing is known of its end: it was killed as it was broken, or there was no template
                       * to tell */
    uint64_t address; /* of a crash: the si_addr of SIGSEGV, SIGBUS, SIGFPE and SIGILL */
    uint64_t instruction; /* of a crash: where it was; 0: not known */
} stint_wall_death;

/* --- Asking. --- */

/* Made by STINT_WALL_STATISTICS_INIT before it is read; it can grow: stint.h. */
typedef struct stint_wall_statistics {
    size_t size;       /* sizeof(stint_wall_statistics) */
    uint64_t tasks;    /* that have been given to a child */
    uint64_t children; /* that have been started */
    uint64_t killed;   /* children that the wall has killed: deadlines, tokens, shutdowns */
    uint64_t crashed;  /* children that ended by themselves, or were killed by somebody else */
    uint64_t retried;  /* times that a task was given to another child, as the first died before it began */
    unsigned running;  /* tasks that run now */
    unsigned spare;    /* children that wait for a first task */
    long template_pid; /* 0: not known */
} stint_wall_statistics;

#define STINT_WALL_STATISTICS_INIT STINT_SIZED_INIT_(stint_wall_statistics)

/* 0; EINVAL: an argument is NULL, or *statistics has no size; ENOTSUP: this process was forked from the wall's. Any
 * thread. */
STINT_API int stint_wall_read(stint_wall *wall, stint_wall_statistics *statistics);

/* --- The template as a program of its own. --- */

typedef struct stint_wall_entry {
    const char *name;
    stint_wall_fn *fn;
} stint_wall_entry;

/* In the main function of a program that stint_wall_options.program names, after its setup: serve these functions. It
 * does not return while the wall lives; then it ends the process, with status 0.
 *
 * ENOTCONN: the program was not started by a wall (say so, and exit); EINVAL: entries is NULL, or a name is NULL, empty
 * or too long; EBUSY: the process has other threads. The only thread of the process. */
STINT_API int stint_wall_serve(const stint_wall_entry *entries, size_t count);

STINT_END_DECLS

#endif
