/* SPDX-License-Identifier: MIT
 *
 * The limit on the whole process, as memprof-limits has it: when the process holds more than it should, one task is
 * chosen and stopped, and the others go on; if that is not enough, the next. */
#ifndef STINT_GLOBAL_H
#define STINT_GLOBAL_H

#include <stint/task.h>

STINT_BEGIN_DECLS

/* Who is stopped: the task that holds most, the one that started last, or the one that was about to allocate. */
typedef enum stint_victim {
    STINT_VICTIM_LARGEST = 0, /* the default */
    STINT_VICTIM_NEWEST,
    STINT_VICTIM_SELF,
} stint_victim;

/* Limit what the process holds: its resident memory, as the kernel counts it (so shared pages and the program's own are
 * in). 0: no limit. It is looked at by running tasks, each time they have allocated a 256th of it (at least 256 KiB, at
 * most 4 MiB), so it can be passed by that much a running task, and by what the others take until the victim has ended.
 * Before somebody is stopped, what the looking thread and idle workers have free is given back to the system, which may
 * be enough. The victim ends as STINT_ERROR with STINT_REASON_GLOBAL_MEMORY_LIMIT. While one is on its way out, or
 * memory is being given back, no other is chosen, for a tenth of a second, and for a whole one unless the process grows
 * by a 64th of the limit meanwhile; what the victim held is given back to the system when it has ended.
 *
 * From the first limit on the library keeps a descriptor of /proc/self/statm, closed on exec, so that it can read the
 * size when descriptors have run out. A program may close it with others: another is opened. Where none can be had any
 * more, the most that the process has ever held counts as what it holds.
 * 0; ENOENT, EMFILE and others of open: /proc/self/statm cannot be read. Any thread. */
STINT_API int stint_global_set_memory_limit(size_t bytes);

/* In place of a number of bytes: what the process's control group (a container's, a service's) leaves it. That is the
 * least of memory.high and 15/16 of memory.max, or in version 1 of memory.limit_in_bytes, of the group and of all above
 * it that can be seen; no limit if they set none. Read once, in this call. What other processes of the group hold does
 * not count, so where there are several, give each a number of its own. */
#define STINT_MEMORY_LIMIT_OF_CGROUP SIZE_MAX

/* The limit that holds now, in bytes; 0: none. Any thread. */
STINT_API size_t stint_global_memory_limit(void);

/* 0; EINVAL: no known value. Any thread. */
STINT_API int stint_global_set_victim(stint_victim victim);

/* A task has been chosen. */
typedef struct stint_global_event {
    size_t resident;  /* bytes the process holds */
    size_t limit;     /* that it should not pass */
    const char *task; /* stint_options.name of the victim; may be NULL */
    size_t held;      /* by the victim, when it was last measured */
} stint_global_event;

typedef void stint_global_report_fn(const stint_global_event *event, void *arg);

/* Be told of each victim, when it has ended, on its thread and outside of its scope; report may not run a scope. NULL:
 * nobody is told. Any thread. */
STINT_API void stint_global_set_report(stint_global_report_fn *report, void *arg);

STINT_END_DECLS

#endif
