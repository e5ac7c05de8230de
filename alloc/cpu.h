/* SPDX-License-Identifier: MIT
 *
 * The limit on processor time. To read a thread's processor time is a system call, so it is read as rarely as can be: it
 * never grows faster than the clock, so a limit of which so much is left cannot be reached before so much time has passed.
 * Thread of the scope, but for what the watch asks. */
#ifndef STI_ALLOC_CPU_H
#define STI_ALLOC_CPU_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct sti_scope;

struct sti_cpu {
    uint64_t limit;         /* 0: not measured */
    _Atomic uint64_t begin; /* of the thread's processor time; what detached scopes used meanwhile is added to it */
    uint64_t look;          /* by sti_clock_now: before that the limit cannot be reached; UINT64_MAX: never */
};

/* The scope, whose below and outer are set, begins and ends. The end returns what was used; 0: not measured. */
void sti_cpu_begin(struct sti_scope *scope, uint64_t limit, uint64_t now);
uint64_t sti_cpu_end(struct sti_scope *scope);

/* What has been used until now. */
uint64_t sti_cpu_used(const struct sti_scope *scope);

/* Whether the limit has been reached, by this time; otherwise look is later than it. */
bool sti_cpu_is_spent(struct sti_scope *scope, uint64_t now);

/* For the watch: when the limit is reached at the earliest, or a time that has passed. UINT64_MAX: there is none. */
uint64_t sti_cpu_watch(const struct sti_scope *scope, uint64_t now);

#endif
