/* SPDX-License-Identifier: MIT
 *
 * The event loop; see loop.h. */
#include "loop.h"
#include "chore.h"
#include "client.h"
#include "clock.h"
#include "page.h"
#include "request.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define EVENTS 64
#define COMPLETIONS 64
#define LOOK_MS 50                       /* between two looks whether a phase of the end is over */
#define CANCEL_NS UINT64_C(5000000000)   /* for cancelled queries to notice it */
#define FAREWELL_NS UINT64_C(2000000000) /* for the last answers to be taken */

typedef enum phase {
    PHASE_SERVING,
    PHASE_DRAINING,   /* queries go on */
    PHASE_CANCELLING, /* they are told to stop */
    PHASE_FAREWELL,   /* answers are taken */
    PHASE_OVER,
} phase;

/* A descriptor of the loop's own. */
struct source {
    struct watch watch; /* first */
    struct loop *loop;
    int fd;
};

struct loop {
    struct server *server;
    struct source http, completions, mail, signals;
    phase phase;
    uint64_t phase_ns; /* when it began */
    uint64_t swept_ns;
};

/* Completions and mail */

static void take_completions(struct watch *watch)
{
    const struct server *server = ((struct source *)(void *)watch)->loop->server;
    stint_completion batch[COMPLETIONS];
    size_t count = 0;
    do {
        stint_completions_read(server->completions, batch, COMPLETIONS, &count);
        for (size_t i = 0; i < count; i++) {
            struct arrival *arrival = batch[i].data;
            arrival->done(arrival, &batch[i].outcome);
        }
    } while (count == COMPLETIONS);
}

static void take_mail(struct watch *watch)
{
    struct mail *mail = mailbox_take(&((struct source *)(void *)watch)->loop->server->mailbox);
    while (mail) {
        struct mail *next = mail->next;
        atomic_store_explicit(&mail->posted, false, memory_order_release);
        request_mail(mail);
        mail = next;
    }
}

/* It is asked in each turn anyway. */
static void take_http(struct watch *watch)
{
    (void)watch;
}

/* Tenants */

struct reading {
    struct chore chore;
    struct tenants_file *file;
    char message[TENANTS_MESSAGE];
};

/* Ok in any case: what it has read, and its message, lie outside of the task, or are committed. */
static int read_tenants(void *argument, void **value)
{
    (void)value;
    struct reading *reading = argument;
    reading->file = tenants_file_read(reading->chore.server->options->tenants, reading->message);
    return 0;
}

static void apply_tenants(struct chore *chore, bool ok)
{
    struct reading *reading = (struct reading *)(void *)chore;
    if (ok && reading->file && tenants_apply(chore->server->tenants, reading->file) == 0)
        fprintf(stderr, "stint-sqld: %s was read again\n", chore->server->options->tenants);
    else
        fprintf(stderr, "stint-sqld: the tenants are unchanged: %s\n",
                reading->message[0] ? reading->message : "out of memory");
    if (ok)
        tenants_file_free(reading->file);
    free(reading);
}

static void read_tenants_again(struct server *server)
{
    struct reading *reading = server->options->tenants ? calloc(1, sizeof *reading) : NULL;
    if (!reading)
        return;
    reading->chore.run = read_tenants;
    reading->chore.done = apply_tenants;
    if (chore_begin(server, &reading->chore) != 0)
        free(reading);
}

/* The end */

static void enter(struct loop *loop, phase next)
{
    loop->phase = next;
    loop->phase_ns = clock_now();
}

static void begin_to_drain(struct loop *loop)
{
    MHD_socket listening = MHD_quiesce_daemon(loop->server->daemon);
    if (listening != MHD_INVALID_SOCKET)
        close(listening);
    loop->server->draining = true;
    page_end(loop->server->page);
    enter(loop, PHASE_DRAINING);
}

static void cancel_all(struct loop *loop)
{
    struct server *server = loop->server;
    if (server->pool)
        stint_pool_shutdown(server->pool, STINT_SHUTDOWN_CANCEL, 0);
    for (struct request *request = server->unresolved; request; request = request->next)
        channel_stop(&request->channel);
    enter(loop, PHASE_CANCELLING);
}

static bool has_passed(const struct loop *loop, uint64_t nanoseconds)
{
    return clock_now() - loop->phase_ns > nanoseconds;
}

static bool is_idle(const struct server *server)
{
    return server->unresolved_count == 0 && server->chore_count == 0;
}

/* The next phase, when it is time for it. */
static void look_at_end(struct loop *loop)
{
    struct server *server = loop->server;
    switch (loop->phase) {
    case PHASE_SERVING:
        break;
    case PHASE_DRAINING:
        if (is_idle(server))
            enter(loop, PHASE_FAREWELL);
        else if (has_passed(loop, server->options->drain_ns))
            cancel_all(loop);
        break;
    case PHASE_CANCELLING:
        if (is_idle(server))
            enter(loop, PHASE_FAREWELL);
        else if (has_passed(loop, CANCEL_NS))
            enter(loop, PHASE_OVER);
        break;
    case PHASE_FAREWELL:
        if (server->answering == 0 || has_passed(loop, FAREWELL_NS))
            enter(loop, PHASE_OVER);
        break;
    case PHASE_OVER:
        break;
    }
}

static void take_signals(struct watch *watch)
{
    const struct source *source = (struct source *)(void *)watch;
    struct loop *loop = source->loop;
    struct signalfd_siginfo info;
    while (read(source->fd, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo == SIGHUP)
            read_tenants_again(loop->server);
        else if (loop->phase == PHASE_SERVING)
            begin_to_drain(loop);
        else if (loop->phase == PHASE_DRAINING)
            cancel_all(loop);
    }
}

/* The loop */

static void fill_set(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGHUP);
}

void loop_block_signals(void)
{
    sigset_t set;
    fill_set(&set);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
}

static int add(struct loop *loop, struct source *source, int fd, void (*ready)(struct watch *watch))
{
    *source = (struct source){ .watch = { ready }, .loop = loop, .fd = fd };
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = &source->watch };
    return fd < 0 || epoll_ctl(loop->server->poll, EPOLL_CTL_ADD, fd, &event) != 0 ? errno : 0;
}

static int open_sources(struct loop *loop)
{
    struct server *server = loop->server;
    sigset_t set;
    fill_set(&set);
    int error =
        add(loop, &loop->http, MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd, take_http);
    if (!error)
        error = add(loop, &loop->completions, stint_completions_fd(server->completions), take_completions);
    if (!error)
        error = add(loop, &loop->mail, server->mailbox.fd, take_mail);
    if (!error)
        error = add(loop, &loop->signals, signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK), take_signals);
    return error;
}

static int lesser(int wait, int other)
{
    return wait < 0 || (other >= 0 && other < wait) ? other : wait;
}

/* Milliseconds that nothing has to be done for, if nothing comes. */
static int time_to_wait(const struct loop *loop)
{
    MHD_UNSIGNED_LONG_LONG time;
    int wait = loop->phase == PHASE_SERVING ? -1 : LOOK_MS;
    if (loop->server->clients)
        wait = lesser(wait, 1000);
    if (MHD_get_timeout(loop->server->daemon, &time) == MHD_YES)
        wait = lesser(wait, time < 1000 ? (int)time : 1000);
    return wait;
}

static void turn(struct loop *loop)
{
    struct server *server = loop->server;
    struct epoll_event events[EVENTS];
    int ready = epoll_wait(server->poll, events, EVENTS, time_to_wait(loop));
    for (int i = 0; i < ready; i++) {
        struct watch *watch = events[i].data.ptr;
        watch->ready(watch);
    }
    MHD_run(server->daemon);
    if (clock_now() - loop->swept_ns > UINT64_C(1000000000)) {
        loop->swept_ns = clock_now();
        clients_sweep(server);
    }
    look_at_end(loop);
    requests_bury(server);
    clients_bury(server);
}

int loop_run(struct server *server)
{
    struct loop loop = { .server = server };
    int error = open_sources(&loop);
    while (!error && loop.phase != PHASE_OVER)
        turn(&loop);
    close(loop.signals.fd);
    return error ? error : is_idle(server) ? 0 : ETIMEDOUT;
}
