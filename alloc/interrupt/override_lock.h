/* SPDX-License-Identifier: MIT
 *
 * What the overrides of locks do at start and around a fork(2). */
#ifndef STI_ALLOC_INTERRUPT_OVERRIDE_LOCK_H
#define STI_ALLOC_INTERRUPT_OVERRIDE_LOCK_H

/* At start: find out what a flag of pthread_once is that is done. */
void sti_override_lock_start(void);

/* In the child of a fork(2). */
void sti_override_lock_in_child(void);

#endif
