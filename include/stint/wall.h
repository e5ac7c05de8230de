/* SPDX-License-Identifier: MIT
 *
 * Behind a wall a task runs in a process of its own, for code that cannot be stopped in place.
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
 * reasons. But whatever its code does, the program goes on: the code may dereference NULL, free twice, call abort or
 * exit, or loop where no interrupt reaches it. At its deadline, or when it is cancelled, its process is killed at once.
 *
 *     program                                      stint_wall_create forks:
 *       guardian                                     a process that makes the template again when it has died
 *         template                                   runs setup once, and forks the children
 *           child, child, ...                        run the tasks
 *
 * A child sees the program as it was when the wall was made, and what setup has done since. What the program shares at
 * that moment with other processes (MAP_SHARED) it shares with the children. A task gets bytes and descriptors, and
 * gives bytes back. docs/wall.md says when to use a wall, what it contains, and what it costs.
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

/* --- A task's function, in the child ------------------------------------------------------------------------------ */

/* The reply of a walled task, to which its function writes. */
typedef struct stint_reply stint_reply;

/* A walled task's function, which runs in the child, in a scope with the task's budget. The task is Ok if it returns 0,
 * with what was written to the reply. Any other code makes the task an Error with that code.
 *
 * input is size bytes that the child may read; with a size of 0 it is not NULL. The function runs on the child's main
 * thread. stint_fail, stint_checkpoint, guards and all else that is said of tasks work in it. Futures, tokens and pools
 * of the parent do not. */
typedef int stint_wall_fn(const void *input, size_t size, stint_reply *reply);

/* Add size bytes to the end of the reply. They are charged to the task and count for its allocation limit, as an
 * allocation does, in multiples of 16 bytes; so larger pieces are better. Each piece has to fit in what is left of the
 * memory limit. Once it is written it counts there no more, as it is no part of the task's heap.
 *
 * Threads: the task's own thread.
 *
 * Returns 0, or:
 *   EMSGSIZE  the reply would be larger than the wall's reply_limit
 *   ENOMEM    the budget does not allow it
 *   EINVAL    reply is NULL, or bytes is NULL and size is not 0 */
STINT_API int stint_reply_write(stint_reply *reply, const void *bytes, size_t size);

/* Add size bytes to the end of the reply, for the task to fill in. So a large reply is not copied in the child.
 * What lies there at first is not defined: in a child that is used again it may be an earlier task's, so the task fills
 * in all of it. The first piece lies at the beginning of a page, and each behind the one before, without a gap.
 *
 * Threads: the task's own thread.
 *
 * Returns where the bytes lie; or NULL, with an error of stint_reply_write in errno. */
STINT_API void *stint_reply_reserve(stint_reply *reply, size_t size);

/* Tell the size of the reply so far.
 *
 * Threads: the task's own thread.
 *
 * Returns the number of bytes. */
STINT_API size_t stint_reply_size(const stint_reply *reply);

/* Get the descriptor number index of those that the task was given (stint_wall_call.fds). It is the task's, and closed
 * when the task has ended.
 *
 * Threads: the task's own thread.
 *
 * Returns the descriptor; -1: there is no such one. */
STINT_API int stint_reply_fd(const stint_reply *reply, size_t index);

/* --- Making a wall ------------------------------------------------------------------------------------------------ */

/* What a child may do. stint_wall_create refuses with ENOTSUP what the kernel or this build cannot do. */
typedef enum stint_wall_sandbox {
    /* The child opens no files except those under options.paths, makes no sockets, starts no programs, sends no signals
     * to others, and gets no new privileges. seccomp does this and, where paths are named, Landlock. */
    STINT_WALL_CLOSED = 0,

    /* The child has only limits of what it takes: memory, descriptors, processes and threads, file sizes. */
    STINT_WALL_OPEN,
} stint_wall_sandbox;

/* A file, or a folder with all that is in it, that the children of a closed wall may open. */
typedef struct stint_wall_path {
    const char *path; /* the file or the folder */
    bool writable;    /* true: also to be written, made, renamed and deleted; false: only to be read */
} stint_wall_path;

/* Set a template up, before the sandbox closes: load libraries, warm them up, open what is needed. It is called once in
 * each template. It leaves no threads running, as no child would have them.
 *
 * Returns 0, or an error, with which stint_wall_create fails. */
typedef int stint_wall_setup_fn(void *arg);

/* Add rules to a template's filter, which is libseccomp's scmp_filter_ctx, just before it is loaded. It is called once
 * in each template. In a wall that is STINT_WALL_OPEN the filter allows all that it has no rule for. In a
 * STINT_WALL_CLOSED one it refuses that with EPERM, and rules for what it allows already change nothing.
 *
 * Returns 0, or an error, with which stint_wall_create fails. */
typedef int stint_wall_filter_fn(void *filter, void *arg);

/* How to make a wall. STINT_WALL_OPTIONS_INIT makes the struct, with a closed sandbox; it can grow (stint.h). */
typedef struct stint_wall_options {
    size_t size; /* sizeof(stint_wall_options) */

    const char *name; /* the wall's name in metrics and messages; NULL: "wall". Copied */

    stint_wall_setup_fn *setup; /* sets each template up; NULL: nothing is to be done */
    void *setup_arg;            /* its argument */

    /* The file of a program that is started as the template, in place of a fork of this one, and that calls
     * stint_wall_serve; NULL: a fork. It is for hosts that have threads already. The program gets arguments (NULL: its
     * own name alone), an environment with nothing in it but what stint_wall_serve needs, and no descriptors but those
     * named. Its functions are called by name (stint_wall_call.entry). It does its own setup before it calls
     * stint_wall_serve. */
    const char *program;
    char *const *arguments; /* up to a NULL */

    unsigned children; /* tasks that run at once, each in its child; 0: as many as the first task's pool has workers */

    /* How many tasks a child runs before it is replaced. 0 is the same as 1: each task has a fresh child.
     * STINT_WALL_REUSED: as many as come, until a task does not end Ok. Between two tasks the child's descriptors are
     * closed, and its alarm is stopped. What a task has left allocated, or written into static variables, stays for the
     * next one, as libraries keep caches there; with stint_options.discard its memory is rolled back. Handlers of
     * signals, the environment and other timers stay too. A child whose tasks have left 64 MiB is replaced. More than 1
     * needs processes to be 0 (EINVAL). */
    unsigned tasks_per_child;

    unsigned spare; /* children that are made ahead and wait for a task */

    stint_wall_sandbox sandbox;   /* STINT_WALL_CLOSED unless set */
    const stint_wall_path *paths; /* what the children of a closed wall may open */
    size_t path_count;            /* at most 64 */
    stint_wall_filter_fn *filter; /* adds rules to the filter; NULL: none */
    void *filter_arg;             /* the argument behind it */

    /* Descriptors that stay open in the children, under their numbers, at most 64. All others are closed. Standard
     * input is empty, and standard output and error lead nowhere unless they are named here. */
    const int *fds;
    size_t fd_count;

    size_t input_limit; /* bytes of a task's input; 0: 64 MiB; at most 4 GiB */
    size_t reply_limit; /* bytes of a reply; 0: 64 MiB; at most 4 GiB */

    /* Bytes of memory that a child may add to the template's; 0: 4 GiB. The kernel's limits lie above this, so that a
     * budget is met first, as allocators take more than they give out: three times as much of address space, and 256
     * MiB; and in a control group an eighth more in use, and 16 MiB. Input and reply come on top. Nobody raises the
     * kernel's limits again, root neither. */
    size_t memory;

    /* Descriptors that a child may open, beside those that it is given; 0: 64. The limit bounds their numbers, so up to
     * two dozen more may fit. */
    unsigned descriptors;

    /* Processes and threads that a child may start; 0: none. For a user other than root RLIMIT_NPROC does it, set to
     * what the whole system runs plus this number, so more may be started. Root needs a control group. In a wall that
     * is STINT_WALL_CLOSED they are sent no signals where the kernel is older than 6.12. */
    unsigned processes;

    /* Bytes of a file that a child writes, memfds too; 0: no byte can be written to any file, not under writable paths
     * either; SIZE_MAX: no limit. A write beyond it fails with EFBIG. */
    size_t file_size;

    size_t stack; /* bytes of the main thread's stack; 0: 8 MiB */

    /* A folder of a control group hierarchy in which this process may make groups: each child gets a group with limits
     * on memory and processes. NULL: none. With processes above 0 there has to be a pids hierarchy or controller.
     *   version 2  a folder that is delegated (cgroups(7)), with no process in it, such as systemd makes with
     *              Delegate=yes: /sys/fs/cgroup/system.slice/app.service/walls. Its memory and pids controllers are
     *              given to the groups below it
     *   version 1  a folder of the memory or the pids hierarchy: /sys/fs/cgroup/memory/app. Where the other one has a
     *              folder with the same name, groups are made there too; where it has not, its limit is not set */
    const char *cgroup;

    /* Where stint_wall_create writes one sentence that says what is wrong when it fails; NULL: nowhere. There is none
     * where the struct itself is wrong. 512 bytes are enough. */
    char *message;
    size_t message_size;

    size_t queue_capacity; /* tasks that may wait for a child at once; 0: 4096 */
    unsigned flags;        /* 0 or STINT_ALLOW_UNMETERED */
} stint_wall_options;

#define STINT_WALL_OPTIONS_INIT STINT_SIZED_INIT_(stint_wall_options)

/* A child runs tasks until one does not end Ok: for stint_wall_options.tasks_per_child. */
#define STINT_WALL_REUSED UINT_MAX

/* Make a wall: fork its guardian and its template, run setup, and wait until that has returned. options may be NULL,
 * which means STINT_WALL_OPTIONS_INIT. The caller owns the wall, and destroys it with stint_wall_destroy. A program
 * makes its walls first, and then pools and threads, as a fork takes one thread along.
 *
 * Threads: the only thread of the process; with options->program any thread. Not in a task or a callback.
 *
 * Returns 0, what setup or the filter has returned, or:
 *   EINVAL   wall is NULL, an option is out of its range, or the options have no size
 *   E2BIG    the options set a field that this library is too old to know
 *   EBUSY    the process has other threads, of its own or of a pool (the message says how many), and options->program
 *            is NULL; or setup has left threads running
 *   ENOTSUP  the kernel, or the way in which this library was built, cannot do what the options ask for (the message
 *            says what); or stint cannot meter this program (stint_link_check)
 *   EDEADLK  the call is in a task or a callback
 *   ECHILD   the template ended before it was ready
 *   ENOMEM, EAGAIN, EMFILE, ENFILE, ENOENT, ...  as fork, posix_spawn and socketpair */
STINT_API int stint_wall_create(const stint_wall_options *options, stint_wall **wall);

/* Destroy a wall, and end all that it has started: queued tasks resolve as Cancelled (STINT_REASON_SHUTDOWN), running
 * ones are killed and resolve so too. When the call returns 0, no process of the wall is left, and all callbacks of its
 * tasks have returned. No other call on the wall may be under way or follow.
 *
 * Returns 0, also for NULL, or:
 *   EDEADLK    the call is in a callback, or in a task of the wall
 *   ENOTSUP    this process was forked from the wall's, and nothing has to be done
 *   ECANCELED  the calling task, in STINT_FAIL, is to stop; the wall is being ended, and is not freed */
STINT_API int stint_wall_destroy(stint_wall *wall);

/* --- Submitting --------------------------------------------------------------------------------------------------- */

/* Submit a task that runs fn(input, size) in a child of the wall. It is a task of the pool: a shutdown of the pool
 * waits for it, or ends it. But it occupies no worker of the pool.
 *
 * fn is a function of this program, or of a library that was loaded when the wall was made. The input is copied to the
 * child when the task begins, and has to stay as it is until the future has resolved. options are those of
 * stint_submit, with these differences:
 *
 *   budget        allocation and memory are metered in the child, exactly; the times in the parent. cpu_ns is the
 *                 processor time of all the child's threads
 *   on_interrupt  how a limit of bytes leaves the child's code. A time that is up, a token or a shutdown kill the child
 *   account       allocations and memory are drawn from it as in place
 *   wipe          the input and the reply are zeroed, too
 *   discard       in a child that is used again, its heap is rolled back after Ok too. It is for code that keeps
 *                 nothing between calls: a cache that it keeps would point nowhere
 *   preemptible   has no effect
 *
 * If the task is Ok, the outcome's value is the reply, a block of outcome.payload_size bytes that the caller frees with
 * free. It is never NULL, and is not freed with its future, as no task's value is. If it is an Error with
 * STINT_REASON_CRASH, STINT_REASON_EXIT, STINT_REASON_KILLED or STINT_REASON_BROKEN (task.h), the outcome's payload is
 * a stint_wall_death; NULL where there was no memory for it.
 *
 * Returns 0, or:
 *   EINVAL    as stint_submit; wall is NULL; input is NULL and size is not 0; fn lies in no module that was loaded when
 *             the wall was made; or the wall has a program
 *   EMSGSIZE  size is above the wall's input_limit
 *   ENOTSUP   as stint_submit, or this process was forked from the wall's
 *   EAGAIN    the queue of the wall is full; or, at its first task, the system allows no more threads
 *   EMFILE, ENFILE  at the wall's first task: there are no more descriptors
 *   E2BIG, EDQUOT, ESHUTDOWN, ENOMEM  as stint_submit */
STINT_API int stint_submit_walled(stint_pool *pool, stint_wall *wall, stint_wall_fn *fn, const void *input, size_t size,
                                  const stint_options *options, stint_future **future);

/* The most descriptors of stint_wall_call. */
#define STINT_WALL_FDS_MAX 16

/* A call of a function behind a wall. STINT_WALL_CALL_INIT makes the struct; it can grow (stint.h). */
typedef struct stint_wall_call {
    size_t size; /* sizeof(stint_wall_call) */

    stint_wall_fn *fn; /* the function; NULL where the wall has a program, and an entry is named */
    const char *entry; /* the name under which the program serves the function, at most 63 characters; NULL: fn */

    const void *input; /* bytes that the function gets */
    size_t input_size; /* how many bytes these are */

    /* Descriptors that the child gets copies of, such as an uploaded file or a socket, at most STINT_WALL_FDS_MAX. They
     * have to stay open until the future has resolved. A task that was to get one that is not open fails, with
     * EBADF. */
    const int *fds;
    size_t fd_count;

    uint64_t wait_ns; /* nanoseconds to wait for a slot where the queue is full, as stint_submit_wait does; 0: none */
} stint_wall_call;

#define STINT_WALL_CALL_INIT STINT_SIZED_INIT_(stint_wall_call)

/* Submit a task behind a wall, with more to say. It is submitted as by stint_submit_walled, with descriptors, with a
 * function of the wall's program, or with a wait for a slot.
 *
 * Returns 0, or:
 *   EINVAL  as stint_submit_walled; call is NULL or has no size; both fn and entry are set, or neither; or fd_count is
 *           above STINT_WALL_FDS_MAX
 *   ETIMEDOUT, ECANCELED, EDEADLK  with wait_ns above 0, as stint_submit_wait
 *   EMSGSIZE, ENOTSUP, EAGAIN, EMFILE, ENFILE, E2BIG, EDQUOT, ESHUTDOWN, ENOMEM  as stint_submit_walled */
STINT_API int stint_submit_walled_call(stint_pool *pool, stint_wall *wall, const stint_wall_call *call,
                                       const stint_options *options, stint_future **future);

/* How a child ended that did not answer: the payload of the outcome. It says what the kernel says, except for address,
 * instruction and code, which the child has written itself as it crashed. */
typedef struct stint_wall_death {
    int signal;       /* the signal that ended the child; 0: it called exit */
    int code;         /* of a crash: the signal's si_code; 0: not known */
    int status;       /* of an exit: its status */
    bool known;       /* false: nothing is known of its end. It was killed as it was broken, or there was no template to
                         tell */
    uint64_t address; /* of a crash: the si_addr of SIGSEGV, SIGBUS, SIGFPE and SIGILL */
    uint64_t instruction; /* of a crash: where it was; 0: not known */
} stint_wall_death;

/* --- Looking at a wall -------------------------------------------------------------------------------------------- */

/* The numbers of a wall. STINT_WALL_STATISTICS_INIT makes the struct before it is read; it can grow (stint.h). */
typedef struct stint_wall_statistics {
    size_t size;       /* sizeof(stint_wall_statistics) */
    uint64_t tasks;    /* tasks that have been given to a child */
    uint64_t children; /* children that have been started */
    uint64_t killed;   /* children that the wall has killed: deadlines, tokens, shutdowns */
    uint64_t crashed;  /* children that ended by themselves, or were killed by somebody else */
    uint64_t retried;  /* times that a task was given to another child, as the first died before it began */
    unsigned running;  /* tasks that run now */
    unsigned spare;    /* children that wait for a first task */
    long template_pid; /* the template's process; 0: not known */
} stint_wall_statistics;

#define STINT_WALL_STATISTICS_INIT STINT_SIZED_INIT_(stint_wall_statistics)

/* Read the numbers of a wall. Each is right by itself, at some moment during the call.
 *
 * Returns 0, or:
 *   EINVAL   an argument is NULL, or *statistics has no size
 *   ENOTSUP  this process was forked from the wall's */
STINT_API int stint_wall_read(stint_wall *wall, stint_wall_statistics *statistics);

/* --- The template as a program of its own ------------------------------------------------------------------------- */

/* A function that a wall's program serves. */
typedef struct stint_wall_entry {
    const char *name;  /* the name in stint_wall_call.entry, at most 63 characters */
    stint_wall_fn *fn; /* the function */
} stint_wall_entry;

/* Serve functions to a wall: in the main function of a program that stint_wall_options.program names, after its setup.
 * The call does not return while the wall lives; then it ends the process, with status 0.
 *
 * Threads: the only thread of the process.
 *
 * Returns an error, and never 0:
 *   EINVAL    entries or a function is NULL, or a name is NULL, empty or too long
 *   ENOTCONN  no wall has started the program, which says so and exits
 *   EBUSY     the process has other threads */
STINT_API int stint_wall_serve(const stint_wall_entry *entries, size_t count);

STINT_END_DECLS

#endif
