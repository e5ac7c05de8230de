/* SPDX-License-Identifier: MIT
 *
 * An event loop that hands work to a pool: lines of standard input, or of pipes and sockets in a server, come in by
 * epoll; each is a task with its own budget; a completion queue is one more descriptor of the loop. The loop never
 * blocks, and never runs the work.
 *
 *     printf '3\n100\n999999999\n' | examples/epoll
 *
 * counts primes below each number. The last one is told that it has had its half second. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <stint/stint.h>

#define BATCH 32
#define LONGEST_LINE 64
#define WALL_NS UINT64_C(500000000)

struct request {
    unsigned long below;
    unsigned long primes;
};

static bool is_prime(unsigned long n)
{
    for (unsigned long divisor = 2; divisor * divisor <= n; divisor++) {
        if (n % divisor == 0)
            return false;
    }
    return n >= 2;
}

static int count_primes(void *arg, void **value)
{
    struct request *request = arg;
    for (unsigned long n = 0; n < request->below; n++) {
        stint_checkpoint(); /* it allocates nothing, so this is where it can be stopped */
        request->primes += is_prime(n);
    }
    *value = request;
    return 0;
}

struct loop {
    stint_pool *pool;
    stint_completions *completions;
    unsigned outstanding;
};

/* There was no memory for the completion, so nobody would hear of the task's end: wait for it here. The request is not
 * the task's value, and stays ours. */
static void wait_instead(stint_future *future, struct request *request)
{
    stint_future_wait(future, NULL);
    printf("%lu: %lu primes, seen late\n", request->below, request->primes);
    free(request);
}

static void begin_request(struct loop *loop, const char *line)
{
    struct request *request = calloc(1, sizeof *request);
    stint_options options = STINT_OPTIONS_INIT;
    stint_future *future;
    options.budget.wall_ns = WALL_NS;
    if (request == NULL)
        return;
    request->below = strtoul(line, NULL, 10);
    if (stint_submit(loop->pool, count_primes, request, &options, &future) != 0) {
        printf("%lu: busy\n", request->below);
        free(request);
        return;
    }
    /* The completion brings all that is needed: the future itself can go at once. */
    if (stint_completions_add(loop->completions, future, request) == 0)
        loop->outstanding++;
    else
        wait_instead(future, request);
    stint_future_release(future);
}

static void end_requests(struct loop *loop)
{
    stint_completion batch[BATCH];
    size_t count;
    stint_completions_read(loop->completions, batch, BATCH, &count);
    for (size_t i = 0; i < count; i++) {
        struct request *request = batch[i].data;
        if (batch[i].outcome.status == STINT_OK)
            printf("%lu: %lu primes\n", request->below, request->primes);
        else
            printf("%lu: %s\n", request->below, stint_reason_name(batch[i].outcome.reason));
        free(request);
        loop->outstanding--;
    }
    fflush(stdout);
}

/* False: there are no more. */
static bool read_lines(struct loop *loop)
{
    static char text[4096];
    static size_t length;
    ssize_t got = read(STDIN_FILENO, text + length, sizeof text - length);
    if (got <= 0)
        return false;
    length += (size_t)got;
    char *line = text;
    for (char *end; (end = memchr(line, '\n', length - (size_t)(line - text))) != NULL; line = end + 1) {
        *end = '\0';
        begin_request(loop, line);
    }
    length -= (size_t)(line - text);
    memmove(text, line, length);
    if (length > LONGEST_LINE)
        length = 0;
    return true;
}

static int run(struct loop *loop)
{
    int poll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event input = { .events = EPOLLIN, .data.fd = STDIN_FILENO };
    struct epoll_event completions = { .events = EPOLLIN, .data.fd = stint_completions_fd(loop->completions) };
    bool open = true;
    if (poll < 0 || epoll_ctl(poll, EPOLL_CTL_ADD, completions.data.fd, &completions) != 0)
        return EXIT_FAILURE;
    /* A plain file cannot be polled: it is always ready. */
    if (epoll_ctl(poll, EPOLL_CTL_ADD, STDIN_FILENO, &input) != 0) {
        while (read_lines(loop))
            continue;
        open = false;
    }
    while (open || loop->outstanding > 0) {
        struct epoll_event events[2];
        int ready = epoll_wait(poll, events, 2, -1);
        for (int i = 0; i < ready; i++) {
            if (events[i].data.fd == completions.data.fd) {
                end_requests(loop);
            } else if (!read_lines(loop)) {
                epoll_ctl(poll, EPOLL_CTL_DEL, STDIN_FILENO, NULL);
                open = false;
            }
        }
    }
    close(poll);
    return EXIT_SUCCESS;
}

int main(void)
{
    struct loop loop = { .outstanding = 0 };
    if (stint_pool_create(NULL, &loop.pool) != 0 || stint_completions_create(&loop.completions) != 0)
        return EXIT_FAILURE;
    int status = run(&loop);
    stint_completions_destroy(loop.completions);
    stint_pool_destroy(loop.pool);
    return status;
}
