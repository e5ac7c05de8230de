/* SPDX-License-Identifier: MIT
 *
 * What a server is without stint: plain threads that run queries, in order, with no limits and no way to stop one. To
 * measure against. */
#ifndef SERVER_THREADS_H
#define SERVER_THREADS_H

struct threads;
struct request;

/* NULL: they could not be started. */
struct threads *threads_create(unsigned count, unsigned long queue);

/* The loop. 0; EAGAIN: so many wait as may. Its end is mail. */
int threads_submit(struct threads *threads, struct request *request);

/* Waits for the queries that run; those that wait are left where they are. */
void threads_destroy(struct threads *threads);

#endif
