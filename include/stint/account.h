/* SPDX-License-Identifier: MIT
 *
 * The account is a ledger that several tasks charge. They may be those of a tenant or of a request. Accounts nest: what
 * is charged to one is charged to those above it too.
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
 * Haskell's limits know one task, and memprof-limits also the whole process. An account is what lies between, and nests
 * like a control group.
 *
 * A scope inside another one of the same account, or of an account below it, charges the account once, through the
 * outer scope, and does not count as one more running task.
 *
 * Tasks draw grants from the ledger (of 256 KiB, or less near the limit) and give back what they did not use. While
 * tasks run, the ledger is ahead of what they have charged by at most a grant each. When they have ended, it is
 * exact. */
#ifndef STINT_ACCOUNT_H
#define STINT_ACCOUNT_H

#include <stint/detail/api.h>
#include <stint/task.h>

STINT_BEGIN_DECLS

/* --- Accounts ----------------------------------------------------------------------------------------------------- */

/* The limits of an account. A field of 0 is no limit. STINT_ACCOUNT_LIMITS_INIT makes the struct; it can grow
 * (stint.h). */
typedef struct stint_account_limits {
    size_t size; /* sizeof(stint_account_limits) */

    size_t allocation; /* bytes that the account's tasks may allocate in all, as long as the account lives */

    /* Bytes that its running tasks may hold at once. What a task has committed does not count once the task has
     * ended. */
    size_t memory;

    /* Tasks that may run at once. For one more, stint_run returns EBUSY, and a pool holds a submitted task back in its
     * queue until one of them has ended. A task that waits for another of its own account, directly or through tasks in
     * between, makes way for it: the other one is run in its place, whatever the maximum. */
    unsigned running;

    const char *name; /* what profiles and metrics call the account; NULL: "account" and a number. Copied */

    /* The account's share of the time of a pool's workers, beside the other accounts that have tasks waiting there,
     * like cpu.weight of a control group: 1 to 10000; 0 means 100, which is also what all tasks without an account have
     * together. An account with twice the weight of another gets twice the time, over a long run; the numbers of its
     * tasks may differ. Only this account's own tasks count: accounts below it have weights of their own. */
    unsigned weight;

    /* Tasks of this account and of those below it that may wait in pools' queues at once. One more is refused with
     * EDQUOT; stint_submit_wait waits until one of them has begun or is gone. */
    size_t waiting;

    /* The percentage of allocation or of memory, from 1 to 100, above which the program is told once
     * (stint_warnings_set), and once again after stint_account_set_limits; 0: the program is not told. */
    unsigned warn;
} stint_account_limits;

#define STINT_ACCOUNT_LIMITS_INIT STINT_SIZED_INIT_(stint_account_limits) /* none */

/* Make an account below parent, with these limits. parent may be NULL: the account is below none. limits may be NULL:
 * there are none. limits are copied. The caller owns one reference to the account, and gives it back with
 * stint_account_release. The account keeps its parent alive.
 *
 * Returns 0, or:
 *   EINVAL  account is NULL, the weight is above 10000, warn is above 100, or the limits have no size
 *   E2BIG   the limits set a field that this library is too old to know
 *   ENOMEM  there is no memory */
STINT_API int stint_account_create(stint_account *parent, const stint_account_limits *limits, stint_account **account);

/* Replace all limits of an account, from now on. Its name stays, and limits->name is not read. What is in use beyond a
 * lower limit is not taken back, but nothing more is granted until enough has been given back; a running task may still
 * use up its grant. Tasks that waited for what a higher limit allows begin, or are put into the queue.
 *
 * Returns 0, or:
 *   EINVAL  an argument is NULL, or as stint_account_create
 *   E2BIG   as stint_account_create */
STINT_API int stint_account_set_limits(stint_account *account, const stint_account_limits *limits);

/* What an account has and has had. STINT_ACCOUNT_USAGE_INIT makes the struct before it is read; it can grow
 * (stint.h). */
typedef struct stint_account_usage {
    size_t size;        /* sizeof(stint_account_usage) */
    uint64_t allocated; /* bytes drawn: exact when no task of the account runs */
    uint64_t memory;    /* bytes reserved for running tasks: what they hold, and up to 1/8 + 64 KiB more each; up to
                         * 1/8 + 2 MiB where neither the account nor one above it limits memory */
    unsigned running;   /* tasks that run now, or are about to */
    uint64_t started;   /* tasks that have started so far */
    uint64_t waiting;   /* tasks that wait in pools' queues now */
} stint_account_usage;

#define STINT_ACCOUNT_USAGE_INIT STINT_SIZED_INIT_(stint_account_usage)

/* Read the ledger of an account, while it changes. Each number is right by itself, at some moment during the call.
 *
 * Returns 0, or:
 *   EINVAL  an argument is NULL, or *usage has no size */
STINT_API int stint_account_read(const stint_account *account, stint_account_usage *usage);

/* Tell the name of an account, which must not be NULL.
 *
 * Returns a string that lives as long as the account. */
STINT_API const char *stint_account_name(const stint_account *account);

/* Take another reference to an account, or give one back. The account is freed with its last reference; tasks have
 * references of their own. NULL does nothing.
 *
 * Returns account (stint_account_retain). */
STINT_API stint_account *stint_account_retain(stint_account *account);
STINT_API void stint_account_release(stint_account *account);

STINT_END_DECLS

#endif
