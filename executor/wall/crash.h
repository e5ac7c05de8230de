/* SPDX-License-Identifier: MIT
 *
 * What a child takes down as it crashes, and what the program makes of it. The child may be in any state by then, and
 * may lie: it only writes numbers into its area, and the program copies them before it looks at them. */
#ifndef STI_EXECUTOR_WALL_CRASH_H
#define STI_EXECUTOR_WALL_CRASH_H

#include <stdbool.h>
#include <stdint.h>
#include <stint/report.h>
#include <stint/wall.h>

#define STI_CRASH_DEPTH 64
#define STI_CRASH_MODULES 16
#define STI_CRASH_PATH_SIZE 128

/* Lies in the area. Zeros: nothing was taken down. */
struct sti_crash_record {
    uint32_t taken; /* written last */
    int32_t signal;
    int32_t code;
    uint32_t length;
    uint64_t address;
    uint64_t instruction;
    uint64_t frames[STI_CRASH_DEPTH]; /* instructions, innermost first: of the fault, then return addresses */

    /* The modules that the frames lie in, for those that the program has not loaded itself. */
    uint32_t module_count;
    struct {
        uint64_t begin;
        uint64_t end;
        char path[STI_CRASH_PATH_SIZE]; /* its end, where it is longer */
    } modules[STI_CRASH_MODULES];
};

/* In a child, before its first task: have faults and aborts taken down in the record, on a stack of their own, before
 * they end the process as they would have. */
void sti_crash_watch(struct sti_crash_record *record);

/* In the program: an untrusted record, which has been copied, made safe to read (counts within bounds, strings ended).
 * False: nothing was taken down. Any thread. */
bool sti_crash_check(struct sti_crash_record *copy);

/* In the program: a report that tells of this end, or NULL: no memory. name may be NULL. Any thread. */
struct stint_report *sti_crash_report(const struct sti_crash_record *checked, const stint_outcome *outcome,
                                      const stint_options *options, stint_wall_fn *fn);

#endif
