/* SPDX-License-Identifier: MIT
 *
 * Waits that would never end. A worker that has slept for long in the midst of a task, in a wait or a join, puts itself on
 * a list of the process, and follows whom it waits for: the task, whoever runs that one and sleeps as well, what he waits
 * for, and so on. Two things are found in this way:
 *
 *   a circle             it waits for itself over others, and none of them has a time-out: the wait fails with EDEADLK.
 *   a slot in a circle   it waits for a task that is held back because its account has its maximum of running tasks; and
 *                        one of these waits for this very worker. That one does not run meanwhile, so the task may be run
 *                        in its place.
 *
 * Whoever comes last closes the circle, and sees it whole: all the others of it are on the list by then, and those who are
 * do not change what they run nor what they wait for before they have left it. A join cannot fail, and who waits with a
 * time-out runs nothing: so who finds something that is another's to do nudges him, and he looks again.
 *
 * A look follows each sleeper once, and of compound futures so many as are ever looked into (compound.h); so it takes as
 * long as there are sleepers, and no longer. What it does not find because of that bound ends by a deadline, a cancellation
 * or a shutdown.
 *
 * Any worker's thread. */
#ifndef STI_EXECUTOR_DEADLOCK_H
#define STI_EXECUTOR_DEADLOCK_H

#include <stdbool.h>

#include "sleeper.h"

enum sti_verdict {
    STI_SLEEP_ON,
    STI_NEVER_ENDS,
    STI_RUN_BEYOND, /* sleeper->beyond */
};

/* The sleeper has slept for long, and will; and it does so no more. In between it looks whether its sleep can end; and
 * again when it has been nudged. */
void sti_deadlock_enter(struct sti_sleeper *sleeper);
enum sti_verdict sti_deadlock_look(struct sti_sleeper *sleeper);
void sti_deadlock_leave(struct sti_sleeper *sleeper);

/* No worker of some pool runs any more: wait for those who may still be looking at them. Any thread. */
void sti_deadlock_forget(void);

#endif
