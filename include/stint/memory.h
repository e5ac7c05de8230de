/* SPDX-License-Identifier: MIT
 *
 * Memory beyond a task's budget: this header has malloc's family under names of its own, memory that outlives a task,
 * because code asks for it or because something outside the task points to it, and the limit on the whole process.
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

/* Allocate, free and measure metered memory, under names of the library's own. Every build has these functions. Where
 * the library replaces malloc (stint_malloc_is_overridden), malloc and its family are the same functions. Inside a
 * scope, blocks come from the task's heap; outside, from the process's. Any thread may free, grow or measure a block.
 *
 * Each function does what the C library's function of the same name does. Two things that the C library leaves open are
 * settled: stint_malloc(0) and stint_realloc(p, 0) return a block that can be freed, and NULL comes with an errno. Each
 * call that allocates is a sample point, at which an interrupt may be delivered.
 *
 * Returns the block, or NULL with an error in errno. stint_posix_memalign returns the error itself, and 0 after
 * success. stint_malloc_usable_size returns the bytes that the block has room for; 0 for NULL. The errors:
 *   ENOMEM  there is no memory, or the budget of the task is used up
 *   EINVAL  the alignment is no power of two */
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
 * ignored.
 *
 * Returns 1; or 0, with nothing done, in the child that fork(2) made of a process with several threads (stint.h). */
STINT_API int stint_malloc_trim(size_t pad);

/* --- Memory that outlives a task ---------------------------------------------------------------------------------- */

/* Allocate for the process, and not for the task, between these two calls. Blocks then come from the process's heap and
 * outlive a rollback. This is for code that fills a cache on purpose. Nor does a rollback undo what is opened then, or
 * set of the thread (docs/interrupts.md). The blocks are charged to the allocation limit of the task, and not to its
 * memory limit. Interrupts wait, and the end of the outermost pair is a sample point. The pairs nest, and concern the
 * innermost scope of the calling thread. Outside of scopes they do nothing. */
STINT_API void stint_keep_begin(void);
STINT_API void stint_keep_end(void);

/* Roots. A library may keep a block that it made in a task where it outlives the task: in a static variable, in a
 * thread-local one, or as a thread-specific value. Before a task's heap is destroyed, these roots are scanned for
 * pointers to its live blocks: the writable segments of every module, and the thread-local storage and specific values
 * of the thread that the task ran on. The block that a root points into is kept, and so are the task's blocks that it
 * points to in turn. They are found as a conservative collector would find them (Boehm and Weiser 1988): by any word
 * that could be an address in a block, also with a type in its upper 16 bits. The result is a leak in place of a
 * dangling pointer. All other blocks go.
 *
 * What is kept is the process's from then on, until it is freed. A library may take it from a list of its own and give
 * it to the next caller, which may be another task; then the block is in use although no root leads to it. The remedy
 * for what is reported is to let the library make that state outside of tasks, or between stint_keep_begin and
 * stint_keep_end.
 *
 * Pages that a task has mapped are treated like its blocks: each mapping as one, or each part of it that counts
 * otherwise than the next (docs/metering.md). Of a reservation, in which there is nothing, only pointers into its first
 * GiB count: some reservations are as large as a good part of all addresses, and any number may look like a pointer
 * into them. Neither pointers in the blocks of other heaps are looked for, nor pointers that are made of offsets. */

/* Which rollbacks scan the roots. One scan costs about 0.04 ms for each MiB of writable segments. */
typedef enum stint_root_scan {
    STINT_ROOT_SCAN_ALWAYS = 0, /* all: the default */
    STINT_ROOT_SCAN_SAMPLED,    /* one rollback in 64, to find such libraries cheaply; the others are not protected */
    STINT_ROOT_SCAN_NEVER,      /* none: for programs that know their libraries */
} stint_root_scan;

/* Choose which rollbacks scan the roots, in the whole process, from the next rollback on.
 *
 * Returns 0, or:
 *   EINVAL  scan is no known value */
STINT_API int stint_roots_set_scan(stint_root_scan scan);

/* A root that kept blocks from a rollback. The strings are valid during the call of the report only. */
typedef struct stint_root {
    const void *address; /* where the variable is; for a specific value, NULL */
    const char *module;  /* the path of its file; "" is the program */
    const char *symbol;  /* the variable's name where the module exports it; otherwise NULL */
    const char *where;   /* "data", "thread-local" or "specific" */
    uint64_t offset;     /* of the variable in the module (data) or in its thread-local block; for a specific value, the
                            key */
    const char *task;    /* stint_options.name of the task; may be NULL */
    size_t kept;         /* bytes in the blocks of the task's heap that this root and others keep */
    size_t kept_in_all;  /* stint_roots_kept_bytes, these included */
    bool too_much;       /* true: that is more than 64 MiB */
} stint_root;

/* Is told of one root; stint_roots_set_report says when. */
typedef void stint_root_report_fn(const stint_root *root, void *arg);

/* Have report(root, arg) called for the roots that keep blocks: once for each root (of the first 256), again when more
 * than 64 MiB are kept, and whenever that has doubled since the last report. The call comes on the thread of the task,
 * after the task, outside its scope. report may allocate, and may not run a scope. NULL: nobody is told. The process
 * has one such function. */
STINT_API void stint_roots_set_report(stint_root_report_fn *report, void *arg);

/* Tell how many bytes roots have kept in this process. Blocks that have been freed since do not count. If more
 * than 16,384 such blocks exist at once, those beyond count for good.
 *
 * Returns the number of bytes. */
STINT_API size_t stint_roots_kept_bytes(void);

/* --- The limit on the process ------------------------------------------------------------------------------------- */

/* The whole process may have a limit, as memprof-limits has it. When the process takes more memory than it should, one
 * task is chosen and stopped, and the others go on; if that is not enough, the next task. */

/* Limit the resident memory of the process to so many bytes; 0 means no limit. The kernel counts these bytes, so shared
 * pages and the program's own count too. The size is compared at once, and from then on every 10 ms while tasks
 * allocate; close to the limit as often as it takes to fill what is left, but not more often than every 0.1 ms. So the
 * limit can be passed by what threads fill in that time, by large blocks that are filled later, and by what the others
 * allocate until the victim has ended.
 *
 * Before a task is stopped, free memory of the thread that looks and of idle workers is given back to the system, which
 * may be enough. Otherwise the task that holds the most memory ends as STINT_ERROR with
 * STINT_REASON_GLOBAL_MEMORY_LIMIT, and its memory is then given back to the system. While a victim is on its way out,
 * or memory is being given back, no other victim is chosen: for a tenth of a second, or for a whole second unless the
 * process grows by a 64th of the limit meanwhile.
 *
 * From the first limit on, the library keeps a descriptor of /proc/self/statm open, closed on exec, so that it can read
 * the size when descriptors have run out. A program may close it with others; the library then opens another one. Where
 * it can get none any more, it takes the most memory that the process has ever had for what the process has.
 *
 * Returns 0, or, with the limit as it was:
 *   ENOTSUP  bytes is STINT_MEMORY_LIMIT_OF_CGROUP, and there is no control group of version 2
 *   ENOENT, EMFILE, ...  as open: /proc/self/statm cannot be read */
STINT_API int stint_global_set_memory_limit(size_t bytes);

/* In place of a number of bytes for stint_global_set_memory_limit: what the process's control group (a container's, a
 * service's) leaves to the process. That is the minimum of memory.high and 15/16 of memory.max over the group and all
 * groups above it that can be seen below /sys/fs/cgroup, where version 2 is; no limit if they set none. It is read
 * once, in the call. The memory of other processes in the group does not count; where there are several, a program
 * gives each a number of its own. */
#define STINT_MEMORY_LIMIT_OF_CGROUP SIZE_MAX

/* Tell the present limit of the process.
 *
 * Returns the limit in bytes; 0: there is none. */
STINT_API size_t stint_global_memory_limit(void);

/* Have the program told when the process comes near its memory limit. The warning (stint_warnings_set in observe.h)
 * comes when the process has more than this percentage of the limit in memory. percent is from 1 to 100; 0 means that
 * nobody is told. The warning comes once, and again after the process has had an eighth less than that. The library
 * looks at it when it looks at the limit: while tasks allocate.
 *
 * Returns 0, or:
 *   EINVAL  percent is above 100 */
STINT_API int stint_global_set_warning(unsigned percent);

/* A task has been chosen as the victim, and has ended. */
typedef struct stint_global_event {
    size_t resident;  /* bytes that the process had in memory */
    size_t limit;     /* bytes that it should not pass */
    const char *task; /* stint_options.name of the victim; may be NULL */
    size_t held;      /* bytes that the victim had when it was last measured */
} stint_global_event;

/* Is told of one victim; stint_global_set_report says when. */
typedef void stint_global_report_fn(const stint_global_event *event, void *arg);

/* Have report(event, arg) called for each victim of the limit. The call comes when the victim has ended, on its thread
 * and outside of its scope. report may not run a scope. NULL: nobody is told. The process has one such function. */
STINT_API void stint_global_set_report(stint_global_report_fn *report, void *arg);

STINT_END_DECLS

#endif
