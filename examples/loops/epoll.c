/* SPDX-License-Identifier: MIT
 *
 * An event loop that hands work to a pool: requests come in by epoll; each is a task with its own budget; a completion
 * queue is one more descriptor of the loop. The loop never blocks, and never runs the work.
 *
 *     printf '3\n100\n999999999\n' | examples/loops/epoll
 *
 * counts primes below each number. The last one is told that it has had its half second. */
#include "primes.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

/* What epoll knows the two descriptors by. */
enum { INPUT, COMPLETIONS };

static void wait_once(struct primes *primes, int poll)
{
    struct epoll_event events[2];
    int ready = epoll_wait(poll, events, 2, -1);
    for (int i = 0; i < ready; i++) {
        if (events[i].data.u32 == COMPLETIONS)
            primes_end(primes);
        else
            primes_begin(primes);
    }
    if (!primes->open)
        epoll_ctl(poll, EPOLL_CTL_DEL, STDIN_FILENO, NULL);
}

static int run(struct primes *primes)
{
    int poll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event input = { .events = EPOLLIN, .data.u32 = INPUT };
    struct epoll_event completions = { .events = EPOLLIN, .data.u32 = COMPLETIONS };
    if (poll < 0 || epoll_ctl(poll, EPOLL_CTL_ADD, stint_completions_fd(primes->completions), &completions) != 0)
        return EXIT_FAILURE;
    /* A plain file cannot be polled: it is always ready. */
    if (epoll_ctl(poll, EPOLL_CTL_ADD, STDIN_FILENO, &input) != 0) {
        while (primes->open)
            primes_begin(primes);
    }
    while (primes_go_on(primes))
        wait_once(primes, poll);
    close(poll);
    return EXIT_SUCCESS;
}

int main(void)
{
    struct primes primes;
    if (primes_open(&primes) != 0)
        return EXIT_FAILURE;
    int status = run(&primes);
    primes_close(&primes);
    return status;
}
