/* SPDX-License-Identifier: MIT
 *
 * What the profile of the process does at start and around a fork(2). */
#ifndef STI_ALLOC_OBSERVE_PROFILE_H
#define STI_ALLOC_OBSERVE_PROFILE_H

/* At start: STINT_PROFILE. */
void sti_profile_ask_environment(void);

/* In the child of a fork(2). */
void sti_profile_in_child(void);

#endif
