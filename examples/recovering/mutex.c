/* SPDX-License-Identifier: MIT
 *
 * The poisoning mutex: a task is stopped between two changes that belong together; the next holder is told, and
 * repairs. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <stint/stint.h>

#define TOTAL 100

static struct accounts {
    stint_mutex mutex;
    int left;
    int right; /* left + right is TOTAL, except while somebody moves money */
} accounts = { .left = TOTAL };

static int move_slowly(void *unused, void **value)
{
    (void)unused;
    int error = stint_mutex_lock(&accounts.mutex);
    if (error != 0)
        return error;
    accounts.left -= 10;
    for (void **node; (node = malloc(1000)) != NULL; *value = node) /* the interrupt comes here */
        *node = *value;
    accounts.right += 10;
    stint_mutex_unlock(&accounts.mutex);
    return 0;
}

static int lock_and_repair(void)
{
    int error = stint_mutex_lock(&accounts.mutex);
    if (error != EOWNERDEAD)
        return error; /* 0, or not held */
    printf("poisoned: %d + %d\n", accounts.left, accounts.right);
    accounts.left = TOTAL - accounts.right;
    return stint_mutex_consistent(&accounts.mutex);
}

int main(void)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.allocation = 1 << 20;
    stint_outcome outcome;
    if (stint_mutex_init(&accounts.mutex) != 0 || stint_run(move_slowly, NULL, &options, &outcome) != 0)
        return 1;
    bool was_broken = accounts.left + accounts.right != TOTAL;
    if (!was_broken || lock_and_repair() != 0)
        return 1;
    printf("repaired: %d + %d\n", accounts.left, accounts.right);
    if (accounts.left + accounts.right != TOTAL || stint_mutex_unlock(&accounts.mutex) != 0)
        return 1;
    return stint_mutex_destroy(&accounts.mutex);
}
