/* SPDX-License-Identifier: MIT
 *
 * What the overrides of locks do around a fork(2). */
#ifndef STI_ALLOC_INTERPOSE_OVERRIDE_LOCK_H
#define STI_ALLOC_INTERPOSE_OVERRIDE_LOCK_H

/* In the child of a fork(2). */
void sti_override_lock_in_child(void);

#endif
