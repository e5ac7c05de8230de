/* SPDX-License-Identifier: MIT
 *
 * The loop of epoll.c on libuv: what libuv knows of a pool is one descriptor. */
#include "primes.h"

#include <stdlib.h>
#include <unistd.h>
#include <uv.h>

struct loop {
    struct primes primes;
    uv_poll_t input, completions;
    bool polled; /* the input: a plain file cannot be, as it is always ready */
};

/* uv_run returns when nothing is watched any more. */
static void stop_what_is_over(struct loop *loop)
{
    if (!loop->primes.open && loop->polled)
        uv_poll_stop(&loop->input);
    if (!primes_go_on(&loop->primes))
        uv_poll_stop(&loop->completions);
}

static void input_ready(uv_poll_t *watcher, int status, int events)
{
    (void)status, (void)events;
    struct loop *loop = watcher->data;
    primes_begin(&loop->primes);
    stop_what_is_over(loop);
}

static void completions_ready(uv_poll_t *watcher, int status, int events)
{
    (void)status, (void)events;
    struct loop *loop = watcher->data;
    primes_end(&loop->primes);
    stop_what_is_over(loop);
}

static int run(struct loop *loop, uv_loop_t *uv)
{
    loop->input.data = loop->completions.data = loop;
    if (uv_poll_init(uv, &loop->completions, stint_completions_fd(loop->primes.completions)) != 0 ||
        uv_poll_start(&loop->completions, UV_READABLE, completions_ready) != 0)
        return EXIT_FAILURE;
    loop->polled = uv_poll_init(uv, &loop->input, STDIN_FILENO) == 0;
    if (loop->polled)
        uv_poll_start(&loop->input, UV_READABLE, input_ready);
    while (!loop->polled && loop->primes.open)
        primes_begin(&loop->primes);
    if (primes_go_on(&loop->primes))
        uv_run(uv, UV_RUN_DEFAULT);
    if (loop->polled)
        uv_close((uv_handle_t *)&loop->input, NULL);
    uv_close((uv_handle_t *)&loop->completions, NULL);
    uv_run(uv, UV_RUN_DEFAULT); /* lets go of what was closed */
    return EXIT_SUCCESS;
}

int main(void)
{
    struct loop loop = { .polled = false };
    if (primes_open(&loop.primes) != 0)
        return EXIT_FAILURE;
    int status = run(&loop, uv_default_loop());
    uv_loop_close(uv_default_loop());
    primes_close(&loop.primes);
    return status;
}
