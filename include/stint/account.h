/* SPDX-License-Identifier: MIT
 *
 * The account: a ledger that several tasks charge, a tenant's or a request's. Accounts nest: what is charged to one is
 * charged to those above it too. Where Haskell's limits and memprof-limits know one task or the whole process, an
 * account is what lies between.
 *
 * A scope inside one of the same account, or of one below it, charges the account through that one: once, and as no
 * further task that runs.
 *
 * Tasks draw grants from the ledger (of 256 KiB, or less near the limit) and give back what they did not use. So while
 * tasks run the ledger is ahead of what they have charged by at most a grant each, and when they have ended it is
 * exact. */
#ifndef STINT_ACCOUNT_H
#define STINT_ACCOUNT_H

#include <stint/task.h>

STINT_BEGIN_DECLS

/* 0 in a field: no such limit. */
typedef struct stint_account_limits {
    size_t allocation; /* bytes its tasks may allocate in all, for ever */

    /* Bytes its running tasks may hold at once; what a task commits counts no more when it has ended. */
    size_t memory;

    /* Tasks that may run at once. For one more stint_run returns EBUSY; what was submitted to a pool is held back in
     * its queue until one of them has ended. A task that waits for one of its own account, over others too, makes way
     * for it: that one is run in its place, whatever the maximum. */
    unsigned running;

    const char *name; /* copied; what profiles call the account. NULL: "account" and a number */

    /* Its share of a pool's processor time beside the other accounts that have tasks waiting there, as cpu.weight of a
     * control group: 1 to 10000; 0: 100, which is also what all tasks without an account have together. With twice the
     * weight of another it gets twice the time. It is this account's own tasks that count, not those of accounts below
     * it, which have weights of their own. */
    unsigned weight;

    /* Tasks that may wait in pools' queues at once, not begun, of this account and those below it. One more is refused
     * with EDQUOT; stint_submit_wait waits until one has begun or is gone. */
    size_t waiting;
} stint_account_limits;

typedef struct stint_account_usage {
    uint64_t allocated; /* bytes drawn; exact when no task of the account runs */
    uint64_t memory;    /* bytes reserved by running tasks: what they hold, and up to 1/8 + 64 KiB more each */
    unsigned running;   /* tasks that run now, or are about to */
    uint64_t started;   /* tasks that have started so far */
    uint64_t waiting;   /* tasks that wait in pools' queues now */
} stint_account_usage;

/* Make an account below parent (NULL: none). limits may be NULL. The caller owns one reference; the account keeps its
 * parent alive. 0; EINVAL: account is NULL, or the weight above 10000; ENOMEM. Any thread. */
STINT_API int stint_account_create(stint_account *parent, const stint_account_limits *limits, stint_account **account);

/* Give a living account other limits, all of them; its name stays (limits->name is not looked at). From now on they
 * hold: what more of something has been taken than it may now have is not taken back, but there is no more until less
 * is in use. A running task may still use up what it has been granted. Tasks that waited for what there is now begin,
 * or are put. 0; EINVAL: an argument is NULL, or the weight above 10000 (nothing was changed). Any thread. */
STINT_API int stint_account_set_limits(stint_account *account, const stint_account_limits *limits);

/* Read the ledger, live. 0; EINVAL: an argument is NULL. Any thread; each number is right by itself. */
STINT_API int stint_account_read(const stint_account *account, stint_account_usage *usage);

/* What it is called; lives as long as the account, which must not be NULL. Any thread. */
STINT_API const char *stint_account_name(const stint_account *account);

/* Take another reference (returns account), give one back. Tasks hold their own. NULL is allowed. Any thread. */
STINT_API stint_account *stint_account_retain(stint_account *account);
STINT_API void stint_account_release(stint_account *account);

STINT_END_DECLS

#endif
