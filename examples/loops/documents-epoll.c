/* SPDX-License-Identifier: MIT
 *
 * documents-epoll [PORT]: examples/server-small.c in a loop of epoll, without a thread for each client. SIGTERM and
 * SIGINT end it. */
#include "documents.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

static int watch(int loop, int descriptor)
{
    struct epoll_event event = { .events = EPOLLIN, .data.fd = descriptor };
    return epoll_ctl(loop, EPOLL_CTL_ADD, descriptor, &event);
}

static int run(struct documents *documents, const sigset_t *ends)
{
    struct epoll_event events[2];
    bool ended = false;
    int loop = epoll_create1(EPOLL_CLOEXEC), signals = signalfd(-1, ends, SFD_CLOEXEC);
    if (loop < 0 || signals < 0 || watch(loop, signals) != 0 || watch(loop, documents->descriptor) != 0)
        return EXIT_FAILURE;
    while (!ended || documents->parsing > 0) {
        int ready = epoll_wait(loop, events, 2, documents_timeout(documents));
        for (int i = 0; i < ready; i++) {
            if (events[i].data.fd != signals || ended)
                continue;
            ended = true;
            epoll_ctl(loop, EPOLL_CTL_DEL, signals, NULL);
            documents_end(documents);
        }
        documents_turn(documents);
    }
    close(signals);
    close(loop);
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    struct documents documents;
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigprocmask(SIG_BLOCK, &ends, NULL); /* in all threads, too, which are made later */
    if (!documents_open(&documents, argc > 1 ? atoi(argv[1]) : 8080))
        return EXIT_FAILURE;
    int status = run(&documents, &ends);
    documents_close(&documents);
    return status;
}
