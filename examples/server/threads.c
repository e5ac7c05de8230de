/* SPDX-License-Identifier: MIT
 *
 * Plain threads that run queries; see threads.h. */
#include "threads.h"
#include "request.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

struct threads {
    pthread_mutex_t lock; /* over all below */
    pthread_cond_t more;
    struct request *oldest, *newest; /* linked by queued */
    unsigned long waiting, queue;
    bool ending;
    unsigned count;
    pthread_t thread[];
};

static struct request *take(struct threads *threads)
{
    pthread_mutex_lock(&threads->lock);
    while (!threads->oldest && !threads->ending)
        pthread_cond_wait(&threads->more, &threads->lock);
    struct request *request = threads->ending ? NULL : threads->oldest;
    if (request) {
        threads->oldest = request->queued;
        threads->waiting--;
    }
    pthread_mutex_unlock(&threads->lock);
    return request;
}

/* The loop may free the request as soon as it has been told that it is finished, and it reads that with the inbox. */
static void finish(struct request *request, int error)
{
    struct mailbox *mailbox = &request->server->mailbox;
    request->error = error;
    atomic_store_explicit(&request->finished, true, memory_order_release);
    mailbox_post(mailbox, &request->mail);
}

static void *work(void *argument)
{
    struct threads *threads = argument;
    struct request *request;
    query_give_way(NULL, 0);
    while ((request = take(threads))) {
        void *value = NULL;
        finish(request, query_run(&request->record, &value));
    }
    return NULL;
}

struct threads *threads_create(unsigned count, unsigned long queue)
{
    struct threads *threads = calloc(1, sizeof *threads + count * sizeof(pthread_t));
    if (!threads)
        return NULL;
    pthread_mutex_init(&threads->lock, NULL);
    pthread_cond_init(&threads->more, NULL);
    threads->queue = queue;
    while (threads->count < count && pthread_create(&threads->thread[threads->count], NULL, work, threads) == 0)
        threads->count++;
    if (threads->count == count)
        return threads;
    threads_destroy(threads);
    return NULL;
}

int threads_submit(struct threads *threads, struct request *request)
{
    pthread_mutex_lock(&threads->lock);
    bool full = threads->waiting == threads->queue;
    if (!full) {
        request->queued = NULL;
        if (threads->oldest)
            threads->newest->queued = request;
        else
            threads->oldest = request;
        threads->newest = request;
        threads->waiting++;
        pthread_cond_signal(&threads->more);
    }
    pthread_mutex_unlock(&threads->lock);
    return full ? EAGAIN : 0;
}

void threads_destroy(struct threads *threads)
{
    pthread_mutex_lock(&threads->lock);
    threads->ending = true;
    pthread_cond_broadcast(&threads->more);
    pthread_mutex_unlock(&threads->lock);
    for (unsigned i = 0; i < threads->count; i++)
        pthread_join(threads->thread[i], NULL);
    pthread_cond_destroy(&threads->more);
    pthread_mutex_destroy(&threads->lock);
    free(threads);
}
