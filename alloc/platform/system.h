/* SPDX-License-Identifier: MIT
 *
 * What the system says of this process: its control group, how much of it is in memory, and whether the program has any
 * thread left. Any thread. */
#ifndef STI_ALLOC_PLATFORM_SYSTEM_H
#define STI_ALLOC_PLATFORM_SYSTEM_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- The control group of version 2 that this process runs in: where its directory is, what its files say. Any
 * thread; allocates nothing.
 *
 * A group's limits apply to the groups below it too, so a caller that asks for one looks at the group and then at each
 * above it that can be seen from here:
 *
 *     struct sti_cgroup group;
 *     if (sti_cgroup_find(&group, "")) {
 *         do {
 *             sti_cgroup_read(&group, "cpu.max", text, sizeof text) ...
 *         } while (sti_cgroup_ascend(&group));
 *     } */

#define STI_CGROUP_PATH_MAX 4096

struct sti_cgroup {
    size_t top; /* length of the directory that is the highest one visible */
    char directory[STI_CGROUP_PATH_MAX];
};

/* The calling process's group. Every path has root in front of it: "", but for a test. False: there is none that can be
 * seen. */
bool sti_cgroup_find(struct sti_cgroup *group, const char *root);

/* Go to the group above. False: it cannot be seen, and nothing has changed. */
bool sti_cgroup_ascend(struct sti_cgroup *group);

/* What a file of the group says, as a string, cut to size. False: it cannot be read; the root of all groups has few. */
bool sti_cgroup_read(const struct sti_cgroup *group, const char *file, char *text, size_t size);

/* The bytes that the groups leave this process before it is slowed down (memory.high) or has a sixteenth left until it
 * is killed (memory.max). 0: they set no limit. */
size_t sti_cgroup_memory_limit(const char *root);

/* --- How much of this process is in memory. Any thread; allocates nothing.
 *
 * The kernel's answer is in a file, and a file takes a descriptor: which a process may have run out of just when it
 * holds too much of everything. So one is kept, from the first time on. The program may close it with all others, or
 * put another file in its place; so each time it is asked whether it is still the same file, and if not another one is
 * opened. In the child of a fork(2) it would tell of the parent, and is replaced at once. */

/* Open what is kept, if it is not. 0 or an errno value, of open or of a kernel that does not tell. */
int sti_resident_begin(void);

/* Bytes. Where no descriptor can be had, the most that it has ever been (getrusage): never too little. */
size_t sti_resident(void);

/* --- Is no thread left but those of this library that nobody ends (the watch, the tracer, the one that writes a
 * profile when it is asked to)? libc ends the process with its last thread, and for them it never would: so each of
 * them looks now and then, and returns. Any thread. */

/* Start such a thread, which takes no signals: those of the program are for its own. As pthread_create. The thread
 * calls sti_service_end itself before it returns. */
int sti_service_start(pthread_t *id, void *(*function)(void *arg));
void sti_service_end(void);

/* How many there are at this moment; workers of pools, and what else goes on behind a pool's back, are the program's.
 * One that has been counted may not be there yet, and one that is counted no more may be there for some microseconds.
 * A fork beside them by sti_process_fork() has none of them, and starts its own when it needs one. */
unsigned sti_process_own_threads(void);

/* How many threads the process has without those: those of the program, and of pools. One that has been joined may be
 * there a little longer, so it is given a moment to go: a tenth of a second. 0: /proc does not tell. */
unsigned sti_process_threads(void);

/* The main thread has ended: 0.3 µs. Only then a microsecond or two more, to ask whether that holds for all others. */
bool sti_main_thread_has_ended(void);
bool sti_services_are_alone(void);

/* In the child of a fork(2). */
void sti_system_in_child(void);

#endif
