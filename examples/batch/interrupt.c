/* SPDX-License-Identifier: MIT
 *
 * Ctrl-C; see interrupt.h. */
#include "interrupt.h"
#include "clock.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

#define EXIT_INTERRUPTED 130

/* Half of the second in which it ends is for what runs, the other half for the report. */
#define STOP_NS UINT64_C(500000000)
#define END_NS UINT64_C(1000000000)

static _Atomic uint64_t came_ns; /* 0: not yet */
static stint_token *_Atomic to_set;

/* Setting a token is allowed in a signal handler. */
static void interrupt(int signal)
{
    (void)signal;
    uint64_t now = clock_now();
    uint64_t first = 0;
    bool is_first =
        atomic_compare_exchange_strong_explicit(&came_ns, &first, now, memory_order_acq_rel, memory_order_acquire);
    if (!is_first && now - first > END_NS)
        _exit(EXIT_INTERRUPTED);
    stint_token_set(atomic_load_explicit(&to_set, memory_order_acquire));
}

static void fill_set(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGINT);
}

void interrupt_catch(void)
{
    const struct sigaction action = { .sa_handler = interrupt, .sa_flags = SA_RESTART };
    sigset_t set;
    fill_set(&set);
    sigaction(SIGINT, &action, NULL);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

bool interrupt_came(void)
{
    return atomic_load_explicit(&came_ns, memory_order_acquire) != 0;
}

bool interrupt_is_over(void)
{
    uint64_t came = atomic_load_explicit(&came_ns, memory_order_acquire);
    return came && clock_now() - came > STOP_NS;
}

/* The handler sees the token, or this function sees that it came. */
void interrupt_sets(stint_token *token)
{
    atomic_store_explicit(&to_set, token, memory_order_seq_cst);
    if (interrupt_came())
        stint_token_set(token);
}

/* The signal comes in ppoll only: before it, and it would not end the wait. */
ssize_t interrupt_read(int file, void *to, size_t size)
{
    struct pollfd input = { .fd = file, .events = POLLIN };
    sigset_t set, before;
    fill_set(&set);
    pthread_sigmask(SIG_BLOCK, &set, &before);
    while (!interrupt_came() && ppoll(&input, 1, NULL, &before) <= 0)
        continue;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return interrupt_came() ? 0 : read(file, to, size);
}
