/* SPDX-License-Identifier: MIT
 *
 * Giving back to the system what nobody needs: before somebody is stopped because the process holds too much, and
 * before a task is made to wait for that. A thread's free memory can be given back by that thread only. So threads
 * that sleep with nothing to do are woken for it.
 *
 * A round: who asks draws up its number, wakes the idle ones (through whoever lends threads to tasks, who knows them)
 * and waits until each of them has answered: that it has given back, or that it has found work instead. For a second
 * at most, since the system may not let one run. */
#ifndef STI_ALLOC_GIVE_BACK_H
#define STI_ALLOC_GIVE_BACK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* What the calling thread has and does not use. True: there will be more when others have freed what its tasks left. */
bool sti_give_back(void);

/* The same, and that of the threads that are idle. Some milliseconds, or what it takes to give so much back. Any
 * thread. False: one such round is under way already. */
bool sti_give_back_all(void);

/* Wake idle threads: each is counted, then told the round. */
typedef void sti_give_back_wake(uint32_t round);
void sti_give_back_listen(sti_give_back_wake *wake);
void sti_give_back_count(void);

/* One of those who were told of the round has given back, or is not idle any more. */
void sti_give_back_answer(uint32_t round);

#endif
