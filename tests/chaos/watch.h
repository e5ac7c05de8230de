/* SPDX-License-Identifier: MIT
 *
 * Detects the worst: a handler that names the task in which the process crashed, and a thread that ends the process if
 * no task has ended for a long time. Called by main. */
#ifndef CHAOS_WATCH_H
#define CHAOS_WATCH_H

#include "flight.h"

/* Before the first pool. The seed of the run is printed with each report; after how long one is due, the options
 * say. */
int chaos_watch_start(const struct chaos_flight *flights, size_t count, const struct chaos_options *options);

/* Main is getting on: a flight has landed, a lock was found free. */
void chaos_watch_alive(void);

void chaos_watch_stop(void);

#endif
