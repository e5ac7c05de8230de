/* SPDX-License-Identifier: MIT
 *
 * The limit on the whole process, as memprof-limits has it: when the process takes more memory than it should, one task
 * is chosen and stopped, and the others go on; if that is not enough, the next. */
#ifndef STINT_GLOBAL_H
#define STINT_GLOBAL_H

#include <stint/task.h>

STINT_BEGIN_DECLS

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
 * in report.h); 0: do not. Once, and once again after it has had an eighth less than that. It is looked at when the
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
