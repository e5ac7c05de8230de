/* SPDX-License-Identifier: MIT
 *
 * What the program makes of what a child has taken down. In the program; any thread, unless a function says
 * otherwise. */
#ifndef STI_EXECUTOR_WALL_CRASH_REPORT_H
#define STI_EXECUTOR_WALL_CRASH_REPORT_H

#include "crash.h"

/* In the program: an untrusted record, which has been copied, made safe to read (counts within bounds, strings ended).
 * False: nothing was taken down. Any thread. */
bool sti_crash_check(struct sti_crash_record *copy);

/* In the program: a report that tells of this end, or NULL: no memory. checked may be NULL: nothing was taken down.
 * options may be NULL; fn is NULL where the wall has a program, whose addresses mean nothing here; known may be NULL.
 * Any thread. */
struct stint_report *sti_crash_report(const struct sti_crash_record *checked, const stint_outcome *outcome,
                                      const stint_options *options, stint_wall_fn *fn,
                                      const struct sti_crash_modules *known);

/* In the program: the same modules for a report that the child has made itself (sti_report_adopt). 0; ENOMEM. The
 * report's maker's thread. */
int sti_crash_name_modules(struct stint_report *report, stint_wall_fn *fn, const struct sti_crash_modules *known);

#endif
