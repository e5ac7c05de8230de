/* SPDX-License-Identifier: MIT
 *
 * The signal mask of child processes. A thread of a pool has signals blocked so that the application's handlers run on the
 * application's threads. A program that a task starts there, or the child of its fork, is to have those that the thread had
 * blocked which made the pool, or nobody could end it. */
#ifndef STI_ALLOC_CHILD_H
#define STI_ALLOC_CHILD_H

#include <sys/select.h> /* sigset_t */

/* Of the calling thread: what is blocked for the library's sake, and what a child has blocked instead. Both stay as long as
 * the thread. */
struct sti_child_masks {
    sigset_t own;
    sigset_t child;
};
void sti_child_set_masks(const struct sti_child_masks *masks);

/* What a child has blocked whose parent, the calling thread, has this, or asks for this. */
const sigset_t *sti_child_mask(const sigset_t *mask);

#endif
