/* SPDX-License-Identifier: MIT
 *
 * The signal mask of child processes; see child.h. Calling thread only. */
#include "child.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

#include "preempt.h"

static _Thread_local const struct sti_child_masks *of_thread;

void sti_child_set_masks(const struct sti_child_masks *masks)
{
    of_thread = masks;
}

/* Apart from what nobody can block, and the signal that a preemptible task lets through. */
static void leave_out(sigset_t *set)
{
    sigaddset(set, SIGKILL);
    sigaddset(set, SIGSTOP);
    sti_preempt_leave_as_before(set, true);
}

static bool are_equal(sigset_t a, sigset_t b)
{
    leave_out(&a);
    leave_out(&b);
    int number = 1;
    while (number <= SIGRTMAX && sigismember(&a, number) == sigismember(&b, number))
        number++;
    return number > SIGRTMAX;
}

/* A task that has changed its mask wants the child to have that one. */
const sigset_t *sti_child_mask(const sigset_t *mask)
{
    return of_thread != NULL && are_equal(*mask, of_thread->own) ? &of_thread->child : mask;
}

static void set_mask_in_child(void)
{
    sigset_t mask;
    if (of_thread == NULL || pthread_sigmask(SIG_SETMASK, NULL, &mask) != 0)
        return;
    pthread_sigmask(SIG_SETMASK, sti_child_mask(&mask), NULL);
}

__attribute__((constructor)) static void hear_of_forks(void)
{
    pthread_atfork(NULL, NULL, set_mask_in_child);
}
