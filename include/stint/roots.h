/* SPDX-License-Identifier: MIT
 *
 * Nothing may dangle: what a rollback checks before it destroys a task's heap, and how code allocates for the process
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
#ifndef STINT_ROOTS_H
#define STINT_ROOTS_H

#include <stint/api.h>

STINT_BEGIN_DECLS

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

STINT_END_DECLS

#endif
