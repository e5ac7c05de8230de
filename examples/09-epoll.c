/* SPDX-License-Identifier: MIT
 *
 * An event loop hands work to a pool, and polls one more descriptor: that of a completion queue. It never blocks on a
 * task. (examples/loops has whole loops, of libev and libuv too.) It prints, in any order:
 *
 *     1000: ok, 168 primes
 *     100000: ok, 9592 primes
 *     1000000000: error, 0 primes */
#include <stdio.h>
#include <stint/stint.h>
#include <sys/epoll.h>

static int count_primes(void *below, void **value)
{
    size_t primes = 0;
    for (long n = 2, divisor; n < *(long *)below; n++) {
        stint_checkpoint();
        for (divisor = 2; divisor * divisor <= n && n % divisor != 0; divisor++)
            continue;
        primes += divisor * divisor > n;
    }
    *value = (void *)primes;
    return 0;
}

static unsigned print_completions(stint_completions *queue)
{
    size_t count;
    stint_completion done[16];
    stint_completions_read(queue, done, 16, &count);
    for (size_t i = 0; i < count; i++)
        printf("%ld: %s, %zu primes\n", *(long *)done[i].data, stint_status_name(done[i].outcome.status),
               (size_t)done[i].outcome.value);
    return (unsigned)count;
}

int main(void)
{
    long requests[] = { 1000, 100000, 1000000000 };
    stint_options options = STINT_OPTIONS_INIT;
    struct epoll_event event = { .events = EPOLLIN };
    stint_future *future;
    stint_pool *pool;
    int loop = epoll_create1(EPOLL_CLOEXEC);
    if (stint_pool_create(NULL, &pool) != 0 || stint_completions_create(&options.completions) != 0 ||
        epoll_ctl(loop, EPOLL_CTL_ADD, stint_completions_fd(options.completions), &event) != 0)
        return 1;
    options.budget.run_ns = 500000000; /* half a second */
    for (int i = 0; i < 3; i++) {
        options.data = &requests[i];
        if (stint_submit(pool, count_primes, &requests[i], &options, &future) != 0)
            return 1;
        stint_future_release(future); /* the completion brings all that is needed */
    }
    for (unsigned left = 3; left > 0 && epoll_wait(loop, &event, 1, -1) >= 0;)
        left -= print_completions(options.completions);
    stint_completions_destroy(options.completions);
    return stint_pool_destroy(pool);
}
