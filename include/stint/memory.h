/* SPDX-License-Identifier: MIT
 *
 * Memory beside a task's budget: malloc's family under names of its own, what a rollback keeps as something outside
 * the task points to it, how code allocates for the process on purpose, and the limit on the whole process.
 *
 *     #include <stdio.h>
 *     #include <stint/memory.h>
 *
 *     int main(void)
 *     {
 *         stint_global_set_memory_limit((size_t)1 << 30); // then the task that holds most is stopped
 *         char *copy = stint_strdup("in the heap of the process");
 *         if (copy == NULL)
 *             return 1;
 *         printf("%s, %zu bytes kept\n", copy, stint_roots_kept_bytes());
 *         stint_free(copy);
 *         return 0;
 *     } */
#ifndef STINT_MEMORY_H
#define STINT_MEMORY_H

#include <stint/detail/api.h>
#include <stint/task.h>

STINT_BEGIN_DECLS

/* --- The metered functions ---------------------------------------------------------------------------------------- */

/* The metered allocation functions under names of their own. They exist in every build; where the library replaces
 * malloc (see stint_malloc_is_overridden), malloc and its family are the same functions. Inside a scope blocks come
 * from the task's heap, outside from the process's. A block may be freed, grown or measured from any thread.
 *
 * Semantics are those of the C library's functions of the same name. Two things that those leave open: stint_malloc(0)
 * and stint_realloc(p, 0) return a block that can be freed, and NULL always comes with errno ENOMEM (EINVAL for an
 * alignment that is no power of two): there is no memory, or the task's budget is exhausted. Any thread; not from
 * signal handlers. Each may be where an interrupt is delivered. */

STINT_API void *stint_malloc(size_t size);
STINT_API void *stint_calloc(size_t count, size_t size);
STINT_API void *stint_realloc(void *block, size_t size);
STINT_API void *stint_reallocarray(void *block, size_t count, size_t size);
STINT_API void *stint_aligned_alloc(size_t alignment, size_t size);
STINT_API int stint_posix_memalign(void **block, size_t alignment, size_t size);
STINT_API void stint_free(void *block);
STINT_API size_t stint_malloc_usable_size(const void *block);
STINT_API char *stint_strdup(const char *string);
STINT_API char *stint_strndup(const char *string, size_t length);

/* Give free memory back to the system: the process's, and what the calling thread keeps for its next tasks. Without
 * this call that happens some time later, and when a worker of a pool has been idle for a tenth of a second. pad is
 * ignored. Returns 1. Any thread. */
STINT_API int stint_malloc_trim(size_t pad);

/* --- Roots: nothing may dangle ------------------------------------------------------------------------------------ */

/* Nothing may dangle: what a rollback checks before it destroys a task's heap, and how code allocates for the process
 * on purpose.
 *
 * A library may keep a block that it made in a task where it outlives the task: in a static variable, in a thread-local
 * one, as a thread-specific value. Before a heap is destroyed these roots are scanned for pointers to its live blocks:
 * the writable segments of every module, and the thread-local storage and specific values of the thread that the task
 * ran on. The block that one points into is kept, and the task's blocks that it points to in turn, as a conservative
 * collector would find them (any word that could be an address in a block, also with a type in its upper 16 bits): a
 * leak in place of a dangling pointer. All others go. The method is that of Boehm and Weiser (1988).
 *
 * What is kept is the process's from then on, and stays until it is freed: a library that takes it from its list gives
 * it to the next caller, which may be another task, and then it is in use although no root leads to it.
 * stint_roots_kept_bytes tells how much there is. The remedy for what is reported is to let the library make that state
 * outside of tasks, or between stint_keep_begin and stint_keep_end. Pages that a task has mapped are treated like its
 * blocks, each mapping as one, or each part that counts otherwise than the next (docs/metering.md). Of a reservation,
 * in which there is nothing, only pointers into its first GiB count: some are as large as a good part of all addresses,
 * and any number may look like one in them. Pointers in other heaps' blocks are not looked for, nor pointers that are
 * made of offsets. */

/* Which rollbacks scan the roots. One scan costs about 0.04 ms for each MiB of writable segments. */
typedef enum stint_root_scan {
    STINT_ROOT_SCAN_ALWAYS = 0, /* all, the default */
    STINT_ROOT_SCAN_SAMPLED,    /* one rollback in 64, to find such libraries cheaply; the others are not protected */
    STINT_ROOT_SCAN_NEVER,      /* for programs that know their libraries */
} stint_root_scan;

/* Choose which rollbacks scan, in the whole process, from the next one on. 0; EINVAL: no known value. Any thread. */
STINT_API int stint_roots_set_scan(stint_root_scan scan);

/* A root that kept blocks from being taken back. The strings are valid during the call only. */
typedef struct stint_root {
    const void *address; /* of the variable; for a specific value, NULL */
    const char *module;  /* its file's path; the program's own is "" */
    const char *symbol;  /* the variable, where the module exports it; otherwise NULL */
    const char *where;   /* "data", "thread-local" or "specific" */
    uint64_t offset;     /* of the variable in the module (data) or in its thread-local block; for a specific value, the
                            key */
    const char *task;    /* stint_options.name of the task; may be NULL */
    size_t kept;         /* bytes in the blocks of its heap that are kept, by this root and others */
    size_t kept_in_all;  /* stint_roots_kept_bytes, with these */
    bool too_much;       /* that is more than 64 MiB */
} stint_root;

/* Told of one root; see stint_roots_set_report. */
typedef void stint_root_report_fn(const stint_root *root, void *arg);

/* Be told of every root that keeps blocks: once for each root (of the first 256), again when more than 64 MiB are kept,
 * and whenever that has doubled since the last report. report is called on the thread of the task, after
 * it, outside its scope; it may allocate, and may not run a scope. NULL: nothing is reported. There is one for the
 * whole process. Any thread. */
STINT_API void stint_roots_set_report(stint_root_report_fn *report, void *arg);

/* Bytes in blocks that roots have kept in this process and that have not been freed since. Of more than 16,384 blocks
 * at once the others count for good. Any thread. */
STINT_API size_t stint_roots_kept_bytes(void);

/* Between these, blocks come from the process's heap and outlive a rollback: for code that fills a cache on purpose.
 * Nor does a rollback undo what is opened then, or set of the thread (docs/interrupts.md). The blocks are charged to
 * the allocation limit and not to the memory limit. Interrupts are deferred; the end of the outermost pair is a sample
 * point. Nests. Any thread: of its innermost scope; outside of scopes they do nothing. */
STINT_API void stint_keep_begin(void);
STINT_API void stint_keep_end(void);

/* --- The limit on the process ------------------------------------------------------------------------------------- */

/* The limit on the whole process, as memprof-limits has it: when the process takes more memory than it should, one task
 * is chosen and stopped, and the others go on; if that is not enough, the next. */

/* Limit the process's resident memory to so many bytes, as the kernel counts it: shared pages and the program's own
 * count too. 0: no limit. It is compared at once, and from then on every 10 ms while tasks allocate; close to the limit
 * as often as it takes to fill what is left, but not more often than every 0.1 ms. So it can be passed by what threads
 * fill in that time, by large blocks that are filled later, and by what the others allocate until the victim has ended.
 *
 * Before a task is stopped, free memory of the thread that looks and of idle workers is given back to the system, which
 * may be enough. Otherwise the task that holds the most memory ends as STINT_ERROR with
 * STINT_REASON_GLOBAL_MEMORY_LIMIT, and its memory is then given back to the system. While a victim is on its way out,
 * or memory is being given back, no other victim is chosen: for a tenth of a second, or for a whole second unless the
 * process grows by a 64th of the limit meanwhile.
 *
 * From the first limit on, the library keeps a descriptor of /proc/self/statm open, closed on exec, so that it can read
 * the size when descriptors have run out. A program may close it with others: another one is opened. Where none can be
 * had any more, the most memory that the process has ever had counts as what it has.
 *
 * 0; ENOENT, EMFILE and others of open: /proc/self/statm cannot be read; ENOTSUP: STINT_MEMORY_LIMIT_OF_CGROUP, and
 * there is no control group of version 2 (the limit is what it was). Any thread. */
STINT_API int stint_global_set_memory_limit(size_t bytes);

/* In place of a number of bytes: what the process's control group (a container's, a service's) leaves it. That is the
 * minimum of memory.high and 15/16 of memory.max over the group and all groups above it that can be seen below
 * /sys/fs/cgroup, where version 2 is; no limit if they set none. Read once, in the call. The memory of other processes
 * in the group does not count: where there are several, give each a number of its own. */
#define STINT_MEMORY_LIMIT_OF_CGROUP SIZE_MAX

/* The present limit in bytes; 0: none. Any thread. */
STINT_API size_t stint_global_memory_limit(void);

/* Tell the program when the process has more than this percentage of its limit in memory, 1 to 100 (stint_warnings_set
 * in observe.h); 0: do not. Once, and once again after it has had an eighth less than that. It is looked at when the
 * limit is: while tasks allocate.
 *
 * 0; EINVAL: more than 100. Any thread. */
STINT_API int stint_global_set_warning(unsigned percent);

/* A task has been chosen. */
typedef struct stint_global_event {
    size_t resident;  /* bytes that the process has in memory */
    size_t limit;     /* bytes that it should not pass */
    const char *task; /* stint_options.name of the victim; may be NULL */
    size_t held;      /* bytes that the victim had when it was last measured */
} stint_global_event;

/* Told of one victim; see stint_global_set_report. */
typedef void stint_global_report_fn(const stint_global_event *event, void *arg);

/* Be told of each victim, when it has ended, on its thread and outside of its scope; report may not run a scope. NULL:
 * nothing is reported. There is one for the whole process. Any thread. */
STINT_API void stint_global_set_report(stint_global_report_fn *report, void *arg);

STINT_END_DECLS

#endif
