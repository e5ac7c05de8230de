/* SPDX-License-Identifier: MIT
 *
 * Samples of one task alone, at a rate of its own (stint_options.sample_rate), for its report: no profile need run, and
 * one that does knows nothing of them. Thread of the scope, unless a function says otherwise.
 *
 * A scope with a rate and a report of its heap has a struct sti_rate on its thread's list from its beginning until its
 * report has been taken, or none will be. It is in force on that thread in the scope and in those inside it, and not in
 * what the thread runs meanwhile that is independent of it. Its samples are drawn from a stream of their own, beside
 * the profile's (sample.c): a Poisson process has no memory, so the place of the next one may be drawn anew whenever
 * another rate comes into force.
 *
 * What is sampled lies in the set of followed blocks (followed.h), apart from the profile's: whoever frees a block
 * takes it out and gives back its memory, knowing nothing of callstacks. Those are the rate's, and only its thread
 * reads them. While there is a rate the function behind free is the profiler's. */
#ifndef STI_ALLOC_PROFILE_RATE_H
#define STI_ALLOC_PROFILE_RATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/base/sampling.h"
#include "followed.h"

struct sti_scope;
struct sti_thread;

/* The scope begins, or has ended: on a thread that has a rate, or is about to have one. */
void sti_rate_begin_scope(const struct sti_scope *scope);
void sti_rate_end_scope(const struct sti_scope *scope);

/* Follow the block, with the samples that the thread has drawn last. */
void sti_rate_follow(struct sti_thread *thread, void *block, size_t size, size_t alignment, const void *caller);

/* So many samples fall in what is charged next; *next: as in struct sti_sampling. */
uint64_t sti_rate_draw(struct sti_rate *rate, uint64_t *next, uint64_t used, uint64_t charge);
uint64_t sti_rate_next(struct sti_rate *rate, uint64_t used);

/* Show what the scope's rate has of blocks that live, each with a struct sti_profile_share. False: it has no rate. */
bool sti_rate_show(const struct sti_scope *scope, double *interval, sti_tracked_show_fn *show, void *arg);

/* In the child of a fork(2), where nobody else runs: what has been sampled is not followed any more. */
void sti_rate_forget_all(void);

#endif
