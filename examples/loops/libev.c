/* SPDX-License-Identifier: MIT
 *
 * The loop of epoll.c on libev: what libev knows of a pool is one descriptor. It takes care of plain files itself. */
#include "primes.h"

#include <ev.h>
#include <stdlib.h>
#include <unistd.h>

struct loop {
    struct primes primes;
    ev_io input, completions;
};

/* ev_run returns when nothing is watched any more. */
static void stop_what_is_over(struct ev_loop *ev, struct loop *loop)
{
    if (!loop->primes.open)
        ev_io_stop(ev, &loop->input);
    if (!primes_go_on(&loop->primes))
        ev_io_stop(ev, &loop->completions);
}

static void input_ready(struct ev_loop *ev, ev_io *watcher, int events)
{
    (void)events;
    struct loop *loop = watcher->data;
    primes_begin(&loop->primes);
    stop_what_is_over(ev, loop);
}

static void completions_ready(struct ev_loop *ev, ev_io *watcher, int events)
{
    (void)events;
    struct loop *loop = watcher->data;
    primes_end(&loop->primes);
    stop_what_is_over(ev, loop);
}

static void run(struct loop *loop, struct ev_loop *ev)
{
    loop->input.data = loop->completions.data = loop;
    ev_io_init(&loop->completions, completions_ready, stint_completions_fd(loop->primes.completions), EV_READ);
    ev_io_start(ev, &loop->completions);
    ev_io_init(&loop->input, input_ready, STDIN_FILENO, EV_READ);
    ev_io_start(ev, &loop->input);
    ev_run(ev, 0);
}

int main(void)
{
    struct loop loop;
    struct ev_loop *ev = ev_default_loop(0);
    if (!ev || primes_open(&loop.primes) != 0)
        return EXIT_FAILURE;
    run(&loop, ev);
    ev_loop_destroy(ev);
    primes_close(&loop.primes);
    return EXIT_SUCCESS;
}
