/* SPDX-License-Identifier: MIT
 *
 * Nothing may dangle: what a rollback checks before it destroys a task's heap, and how code allocates for the process on
 * purpose.
 *
 * A library may keep a block that it made in a task where it outlives the task: in a static variable, in a thread-local
 * one, as a thread-specific value. Before a heap is destroyed these roots are scanned for pointers to its live blocks:
 * the writable segments of every module, and the thread-local storage and specific values of the thread that the task
 * ran on. Where one is found the heap is kept instead of destroyed: a bounded leak in place of a dangling pointer. A
 * kept heap is looked at again at every later rollback on its thread, and destroyed when nothing points into it any more.
 * The remedy for what is reported is to let the library make that state outside of tasks, or between stint_keep_begin
 * and stint_keep_end. Pointers in other heaps' blocks are not looked for. */
#ifndef STINT_ROOTS_H
#define STINT_ROOTS_H

#include <stint/api.h>

STINT_BEGIN_DECLS

/* Every rollback, every so-manieth, or none. One scan costs about 0.1 ms a MiB of writable segments. */
typedef enum stint_root_scan {
    STINT_ROOT_SCAN_ALWAYS = 0, /* the default */
    STINT_ROOT_SCAN_SAMPLED,    /* one rollback in 64, to find such libraries cheaply; the others are not protected */
    STINT_ROOT_SCAN_NEVER,      /* for programs that know their libraries */
} stint_root_scan;

/* For the whole process, from the next rollback on. Any thread. 0; EINVAL: no known value. */
STINT_API int stint_set_root_scan(stint_root_scan scan);

/* A root that kept a heap from being destroyed. The strings are valid during the call only. */
typedef struct stint_root {
    const void *address; /* of the variable; for a specific value, NULL */
    const char *module;  /* its file's path; the program's own is "" */
    const char *symbol;  /* the variable, where the module exports it; otherwise NULL */
    const char *where;   /* "data", "thread-local" or "specific" */
    uint64_t offset;     /* of the variable in the module (data) or in its thread-local block; for a specific value, the
                            key */
    const char *task;    /* stint_options.name of the task; may be NULL */
    size_t kept;         /* bytes in live blocks of the heap that was kept */
} stint_root;

typedef void stint_root_report(const stint_root *root, void *arg);

/* Be told of every root that keeps a heap, once a root (of the first 256). report is called on the thread of the task,
 * after it, outside its scope; it may allocate, and may not run a scope. NULL: nobody is told. Any thread. */
STINT_API void stint_set_root_report(stint_root_report *report, void *arg);

/* Between these, blocks come from the process's heap and outlive a rollback: for code that fills a cache on purpose. They
 * are charged to the allocation limit and not to the memory limit; interrupts wait. Nests; calling thread's innermost
 * scope; nothing outside of scopes. */
STINT_API void stint_keep_begin(void);
STINT_API void stint_keep_end(void);

STINT_END_DECLS

#endif
