/* SPDX-License-Identifier: MIT
 *
 * Accounts from the inside: the meter draws bytes and reserves memory, scopes enter and leave. Any thread. */
#ifndef STI_ALLOC_METER_ACCOUNT_H
#define STI_ALLOC_METER_ACCOUNT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stint/account.h>
#include <stint/task.h>

#include "alloc/platform/tally.h"

/* In these functions end is an account above the other, at which they stop: a scope around this one charges it already,
 * and those above it (NULL: none does). */

/* One more task runs in the account and those above it. False: one of them has its maximum. NULL has none. */
bool sti_account_enter(stint_account *account, const stint_account *end);
void sti_account_leave(stint_account *account, const stint_account *end);

/* The first half of the same, without a call of the hook, for a caller that does not know yet whether the task will
 * start: the account that has its maximum, or NULL when the task is in. After a refusal sti_account_notify(account,
 * refuser) must follow, when the caller holds no lock. */
stint_account *sti_account_try_enter(stint_account *account);

/* The same, whatever the maximum. */
void sti_account_enter_beyond(stint_account *account);

/* The other half: the task starts. */
void sti_account_count_start(stint_account *account, const stint_account *end);

/* Wait for a slot of this account, and no more. In between, a hook is called with it whenever it may have one;
 * a caller that has begun to wait must try once more. The account is the caller's to keep alive. */
void sti_account_await(stint_account *account);
void sti_account_await_no_more(stint_account *account);

/* Call the hook for each account from this one up to end, without it, that is waited for. */
void sti_account_notify(stint_account *account, const stint_account *end);

/* Notify waiters of this account alone. */
void sti_account_notify_itself(stint_account *account);

/* Whether it could have one more running task itself, this moment; and how many it has. */
bool sti_account_has_slot(const stint_account *account);
uint64_t sti_account_running(const stint_account *account);

/* Whether it has its maximum of waiting tasks itself. */
bool sti_account_is_waiting_full(const stint_account *account);

/* One more task waits in the account and those above it. False: one of them has its maximum. NULL has none. */
bool sti_account_begin_waiting(stint_account *account);

/* The waiting task has begun, or is gone. True: one of the accounts had its maximum, and has not now, so a submitter
 * may be waiting for that. */
bool sti_account_end_waiting(stint_account *account);

/* The account's share of processor time; also for NULL. */
unsigned sti_account_weight(const stint_account *account);

/* The account that it lies in; NULL: none. */
const stint_account *sti_account_parent(const stint_account *account);

/* Whether inner is this account or lies below it. */
bool sti_account_contains(const stint_account *account, const stint_account *inner);

/* Whether some account contains both. */
bool sti_account_have_common(const stint_account *one, const stint_account *other);

/* Draw from the scopes' accounts, by grants, what their thread needs for its used to become after. Returns the
 * outermost scope whose account refuses, or NULL. And back, what has been drawn for more than a grant, as it was
 * refused. */
struct sti_scope;
struct sti_scope *sti_account_draw(struct sti_scope *innermost, uint64_t after);
void sti_account_draw_back(struct sti_scope *innermost);

/* The task has ended: it drew so much and used so much, which may be more (the grace). */
void sti_account_settle(stint_account *account, const stint_account *end, uint64_t drawn, uint64_t used);

/* So many bytes more, of what it has been charged (0) or of memory (1), as for a task of the account's. False: it, or
 * one above it, has not so much left. */
bool sti_account_take(stint_account *account, unsigned number, uint64_t bytes);

/* In a child of a wall: the account stands for one of which another process has the ledger. granted is how much of each
 * of the two it has. When an amount is used up, the account calls ask for more; ask returns whether the ledger has
 * granted it. One account a process; its one thread. */
void sti_account_follow(stint_account *account, const uint64_t granted[2],
                        bool (*ask)(unsigned number, uint64_t bytes));

/* Is there a limit on memory, of the account or of one above it, up to end? */
bool sti_account_limits_memory(const stint_account *account, const stint_account *end);

/* Change what a task reserves of the memory limit; a smaller reservation is always granted. */
bool sti_account_reserve(stint_account *account, const stint_account *end, uint64_t before, uint64_t now);

/* --- What accounts are called where their tasks are counted (stint/observe.h).
 *
 * A label is for all accounts of one name, whether they live at once or one after the other: what is counted never
 * shrinks. A label is never freed, so their number is bounded. An account without a name of its own, or whose name
 * comes when there is no room, is counted with the one that it lies in; one in no other with all the others of that
 * kind. */

#define STI_LABELS_MAX 256
#define STI_LABEL_SIZE 128 /* of a name, with its end; the rest of a longer one is left out */
#define STI_LABEL_OTHERS "other"

/* The first line of the cache has what nearly all tasks are counted in. */
struct sti_label {
    _Alignas(64) sti_counter charged; /* bytes, of tasks that have ended */
    sti_counter outcomes[STI_REASONS];
    char name[STI_LABEL_SIZE]; /* what is not UTF-8 has been replaced by question marks */
};

/* A task has ended, or will not begin. */
void sti_account_count(stint_account *account, stint_reason reason, uint64_t charged);

/* The number-th label, from 0 on; NULL: there are not so many. */
const struct sti_label *sti_label_at(unsigned number);

/* --- Others --- */

/* Where its name lies, for debuggers. */
extern const size_t sti_account_name_offset __attribute__((visibility("hidden")));

#endif
