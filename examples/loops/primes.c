/* SPDX-License-Identifier: MIT
 *
 * Lines that are tasks; see primes.h. */
#include "primes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* There was no memory for the completion, so nobody would hear of the task's end: wait for it here. The request is not
 * the task's value, and stays ours. */
static void wait_instead(stint_future *future, struct request *request)
{
    stint_future_wait(future, NULL);
    printf("%lu: %lu primes, seen late\n", request->below, request->primes);
    free(request);
}

static void begin_request(struct primes *primes, const char *line)
{
    struct request *request = calloc(1, sizeof *request);
    stint_options options = STINT_OPTIONS_INIT;
    stint_future *future;
    options.budget.wall_ns = WALL_NS;
    if (request == NULL)
        return;
    request->below = strtoul(line, NULL, 10);
    if (stint_submit(primes->pool, count_primes, request, &options, &future) != 0) {
        printf("%lu: busy\n", request->below);
        free(request);
        return;
    }
    /* The completion brings all that is needed: the future itself can go at once. */
    if (stint_completions_add(primes->completions, future, request) == 0)
        primes->outstanding++;
    else
        wait_instead(future, request);
    stint_future_release(future);
}

static void finish(struct request *request, const stint_outcome *outcome)
{
    if (outcome->status == STINT_OK)
        printf("%lu: %lu primes\n", request->below, request->primes);
    else
        printf("%lu: %s\n", request->below, stint_reason_name(outcome->reason));
    free(request);
}

void primes_end(struct primes *primes)
{
    stint_completion batch[BATCH];
    size_t count;
    do {
        stint_completions_read(primes->completions, batch, BATCH, &count);
        for (size_t i = 0; i < count; i++)
            finish(batch[i].data, &batch[i].outcome);
        primes->outstanding -= (unsigned)count;
    } while (count == BATCH);
    fflush(stdout);
}

void primes_begin(struct primes *primes)
{
    static char text[4096];
    static size_t length;
    ssize_t got = read(STDIN_FILENO, text + length, sizeof text - length);
    primes->open = got > 0;
    if (!primes->open)
        return;
    length += (size_t)got;
    char *line = text;
    for (char *end; (end = memchr(line, '\n', length - (size_t)(line - text))) != NULL; line = end + 1) {
        *end = '\0';
        begin_request(primes, line);
    }
    length -= (size_t)(line - text);
    memmove(text, line, length);
    if (length > LONGEST_LINE)
        length = 0;
}

int primes_open(struct primes *primes)
{
    *primes = (struct primes){ .open = true };
    int error = stint_pool_create(NULL, &primes->pool);
    if (!error && (error = stint_completions_create(&primes->completions)))
        stint_pool_destroy(primes->pool);
    return error;
}

void primes_close(struct primes *primes)
{
    stint_completions_destroy(primes->completions);
    stint_pool_destroy(primes->pool);
}

bool primes_go_on(const struct primes *primes)
{
    return primes->open || primes->outstanding > 0;
}
