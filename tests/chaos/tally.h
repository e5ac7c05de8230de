/* SPDX-License-Identifier: MIT
 *
 * Counts, the line of progress, the summary. Called by main; any thread may report roots. */
#ifndef CHAOS_TALLY_H
#define CHAOS_TALLY_H

#include "flight.h"

void chaos_tally_start(const struct chaos_options *options);

/* A flight has landed with this outcome, and, if not NULL, this complaint. */
void chaos_tally_flight(const struct chaos_flight *flight, const stint_outcome *outcome, const char *complaint);

/* Something was wrong outside of tasks. */
void chaos_tally_failure(const char *what, const char *which);

/* At the end of a batch, when no task runs: judges descriptors, and memory that has run away. */
void chaos_tally_batch(void);

/* Interrupts so far; when one task is repeated, tasks, since that one may always run through. */
uint64_t chaos_tally_done(void);
double chaos_tally_seconds(void);
unsigned chaos_tally_failures(void);

/* In a process of some tasks: all counts go into the file; and out of it, into those of its parent. False: they did not
 * come. */
void chaos_tally_begin_process(void);
void chaos_tally_hand_over(int file);
bool chaos_tally_take_over(int file);

/* Judges memory, prints all, returns the number of failures. */
unsigned chaos_tally_end(void);

#endif
