/* SPDX-License-Identifier: MIT
 *
 * Accounts from the inside: the meter draws bytes and reserves memory, scopes enter and leave. Any thread. */
#ifndef STI_ALLOC_ACCOUNT_H
#define STI_ALLOC_ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>
#include <stint/account.h>

/* One more task runs in the account and those above it. False: one of them has its maximum. */
bool sti_account_enter(stint_account *account);
void sti_account_leave(stint_account *account);

/* Draw bytes for allocations, at least need and at most wanted. Returns how many; 0: there are not so many left. */
uint64_t sti_account_draw(stint_account *account, uint64_t need, uint64_t wanted);

/* The task has ended: it drew so much and used so much, which may be more (the grace). */
void sti_account_settle(stint_account *account, uint64_t drawn, uint64_t used);

/* Change what a task reserves of the memory limit; a smaller reservation is always granted. */
bool sti_account_reserve(stint_account *account, uint64_t before, uint64_t now);

#endif
