/* SPDX-License-Identifier: MIT
 *
 * documents-libuv [PORT]: the loop of documents-epoll.c on libuv. */
#include "documents.h"

#include <signal.h>
#include <stdlib.h>
#include <uv.h>

struct loop {
    struct documents documents;
    uv_poll_t ready;
    uv_timer_t timer;
    uv_signal_t ends[2];
    bool ended;
};

/* uv_run returns when nothing is watched any more. */
static void stop(struct loop *loop)
{
    uv_poll_stop(&loop->ready);
    uv_timer_stop(&loop->timer);
}

static void timer_has_come(uv_timer_t *timer);

static void turn(struct loop *loop)
{
    documents_turn(&loop->documents);
    int ms = documents_timeout(&loop->documents);
    if (loop->ended && loop->documents.parsing == 0)
        stop(loop);
    else if (ms >= 0)
        uv_timer_start(&loop->timer, timer_has_come, (uint64_t)ms, 0);
    else
        uv_timer_stop(&loop->timer);
}

static void timer_has_come(uv_timer_t *timer)
{
    turn(timer->data);
}

static void has_something(uv_poll_t *poll, int status, int events)
{
    (void)status, (void)events;
    turn(poll->data);
}

static void signal_has_come(uv_signal_t *signal, int number)
{
    (void)number;
    struct loop *loop = signal->data;
    for (int i = 0; i < 2; i++)
        uv_signal_stop(&loop->ends[i]);
    loop->ended = true;
    documents_end(&loop->documents);
    turn(loop);
}

static void run(struct loop *loop, uv_loop_t *uv)
{
    const int numbers[] = { SIGINT, SIGTERM };
    loop->ready.data = loop->timer.data = loop;
    uv_timer_init(uv, &loop->timer);
    uv_poll_init(uv, &loop->ready, loop->documents.descriptor);
    uv_poll_start(&loop->ready, UV_READABLE, has_something);
    for (int i = 0; i < 2; i++) {
        loop->ends[i].data = loop;
        uv_signal_init(uv, &loop->ends[i]);
        uv_signal_start(&loop->ends[i], signal_has_come, numbers[i]);
    }
    uv_run(uv, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&loop->ready, NULL);
    uv_close((uv_handle_t *)&loop->timer, NULL);
    uv_close((uv_handle_t *)&loop->ends[0], NULL);
    uv_close((uv_handle_t *)&loop->ends[1], NULL);
    uv_run(uv, UV_RUN_DEFAULT); /* lets go of what was closed */
}

int main(int argc, char **argv)
{
    struct loop loop = { .ended = false };
    if (!documents_open(&loop.documents, argc > 1 ? atoi(argv[1]) : 8080))
        return EXIT_FAILURE;
    run(&loop, uv_default_loop());
    uv_loop_close(uv_default_loop());
    documents_close(&loop.documents);
    return EXIT_SUCCESS;
}
