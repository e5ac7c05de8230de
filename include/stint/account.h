/* SPDX-License-Identifier: MIT
 *
 * The account: a ledger that several tasks charge, such as those of a tenant or of a request. Accounts nest: what is
 * charged to one is charged to those above it too.
 *
 *     #include <stdio.h>
 *     #include <stint/account.h>
 *
 *     static int allocate(void *unused, void **value)
 *     {
 *         (void)unused;
 *         *value = NULL;
 *         return 0;
 *     }
 *
 *     int main(void)
 *     {
 *         stint_account_limits limits = STINT_ACCOUNT_LIMITS_INIT;
 *         limits.allocation = 64 << 20; // of all its tasks together
 *         stint_account *tenant;
 *         stint_outcome outcome;
 *         if (stint_account_create(NULL, &limits, &tenant) != 0)
 *             return 1;
 *         stint_options options = STINT_OPTIONS_INIT;
 *         options.account = tenant;
 *         if (stint_run(allocate, NULL, &options, &outcome) == 0)
 *             printf("%s\n", stint_status_name(outcome.status));
 *         stint_account_release(tenant);
 *         return 0;
 *     }
 *
 * Haskell's limits know one task, memprof-limits also the whole process; an account is what lies between, and nests
 * like a control group.
 *
 * A scope inside another one of the same account, or of an account below it, charges the account once, through the
 * outer scope, and does not count as one more running task.
 *
 * Tasks draw grants from the ledger (of 256 KiB, or less near the limit) and give back what they did not use. So while
 * tasks run, the ledger is ahead of what they have charged by at most a grant each; when they have ended it is
 * exact. */
#ifndef STINT_ACCOUNT_H
#define STINT_ACCOUNT_H

#include <stint/detail/api.h>
#include <stint/task.h>

STINT_BEGIN_DECLS

/* 0 in a field: no such limit. Made by STINT_ACCOUNT_LIMITS_INIT; it can grow: stint.h. */
typedef struct stint_account_limits {
    size_t size; /* sizeof(stint_account_limits) */

    size_t allocation; /* bytes that its tasks may allocate in all, as long as the account lives */

    /* Bytes that its running tasks may hold at once. What a task has committed no longer counts once it has ended. */
    size_t memory;

    /* Tasks that may run at once. For one more, stint_run returns EBUSY; a task that was submitted to a pool is held
     * back in its queue until one of them has ended. A task that waits for another of its own account, directly or
     * through tasks in between, makes way for it: the other one is run in its place, whatever the maximum. */
    unsigned running;

    const char *name; /* copied; what profiles call the account. NULL: "account" and a number */

    /* Its share of the time of a pool's workers beside the other accounts that have tasks waiting there, like
     * cpu.weight of a control group: 1 to 10000; 0 means 100, which is also what all tasks without an account have
     * together. An account with twice the weight of another gets twice
     * the time, over a long run; the numbers of its tasks may differ. Only this account's own tasks count:
     * accounts below it have weights of their own. */
    unsigned weight;

    /* Tasks of this account and of those below it that may wait in pools' queues at once. One more is refused with
     * EDQUOT; stint_submit_wait waits until one of them has begun or is gone. */
    size_t waiting;

    /* Tell the program once when more than this percentage of allocation or of memory is in use, 1 to 100
     * (stint_warnings_set); 0: do not. Once again after stint_account_set_limits. */
    unsigned warn;
} stint_account_limits;

#define STINT_ACCOUNT_LIMITS_INIT STINT_SIZED_INIT_(stint_account_limits) /* none */

/* Made by STINT_ACCOUNT_USAGE_INIT before it is read; it can grow: stint.h. */
typedef struct stint_account_usage {
    size_t size;        /* sizeof(stint_account_usage) */
    uint64_t allocated; /* bytes drawn; exact when no task of the account runs */
    uint64_t memory;    /* bytes reserved for running tasks: what they hold, and up to 1/8 + 64 KiB more each */
    unsigned running;   /* tasks that run now, or are about to */
    uint64_t started;   /* tasks that have started so far */
    uint64_t waiting;   /* tasks that wait in pools' queues now */
} stint_account_usage;

#define STINT_ACCOUNT_USAGE_INIT STINT_SIZED_INIT_(stint_account_usage)

/* Make an account below parent (NULL: none) with these limits (NULL: none; copied). The caller owns one reference; the
 * account keeps its parent alive.
 *
 * 0; EINVAL: account is NULL, the weight above 10000, warn above 100, or limits without their size; E2BIG: they set one
 * that this library is too old to know; ENOMEM. Any thread. */
STINT_API int stint_account_create(stint_account *parent, const stint_account_limits *limits, stint_account **account);

/* Replace all limits of an account; its name stays (limits->name is not read). They apply from now on. What is in use
 * beyond a lower limit is not taken back, but nothing more is granted until enough has been given back; a running task
 * may still use up its grant. Tasks that waited for what a higher limit allows begin, or are put into the queue.
 *
 * 0; EINVAL and E2BIG: as stint_account_create, and where an argument is NULL (nothing was changed). Any thread. */
STINT_API int stint_account_set_limits(stint_account *account, const stint_account_limits *limits);

/* Read the ledger while it changes: each number is right by itself, at some moment during the call.
 *
 * 0; EINVAL: an argument is NULL, or *usage has no size. Any thread. */
STINT_API int stint_account_read(const stint_account *account, stint_account_usage *usage);

/* The account's name: a string that lives as long as the account, which must not be NULL. Any thread. */
STINT_API const char *stint_account_name(const stint_account *account);

/* Take another reference (returns account); give one back, the last of which frees the account. Tasks have references
 * of their own. NULL is allowed, and does nothing. Any thread. */
STINT_API stint_account *stint_account_retain(stint_account *account);
STINT_API void stint_account_release(stint_account *account);

STINT_END_DECLS

#endif
