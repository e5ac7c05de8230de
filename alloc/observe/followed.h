/* SPDX-License-Identifier: MIT
 *
 * Sampled blocks that are followed: the set of them all, and those of one task that has a rate of its own. */
#ifndef STI_ALLOC_OBSERVE_FOLLOWED_H
#define STI_ALLOC_OBSERVE_FOLLOWED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stint/observe.h>

/* --- The set of sampled blocks that are followed, by address. Any thread; no callback is called in here, and nothing
 * of it is held when a function returns.
 *
 * Each free has to know whether its block is in the set, and nearly none is. So there is a mark for each 256 bytes of
 * address space, modulo 128 MiB, that is set exactly while a block that begins in such 256 bytes is in the set: a free
 * looks at one byte, and marks that lie together belong to blocks that lie together. The blocks of each KiB are on a
 * list, under one of a few locks.
 *
 * A block's free happens after it was handed out, and it was in the set before: so the mark needs no order of its
 * own. */

struct sti_rate;
struct sti_scope;
struct sti_thread;

struct sti_tracked {
    uintptr_t block;
    void *metadata;
    const struct sti_rate *rate; /* of a task's that it is a sample; NULL: the profile's */
    uint64_t number;             /* never 0: blocks that were made at one address are told apart by it */
    bool promoting;              /* its promote callback is running, or about to */
    bool gone;                   /* meanwhile it was taken out, with this end */
    stint_memprof_end end;
    struct sti_tracked *next; /* on its list; once it is out of the set, its holder's */
};

/* Prepare the set before the first block is followed, in this process or one that it was forked from; no function below
 * is called before. 0 or ENOMEM. */
int sti_tracked_prepare(void);

/* Add an entry, whose member gone need not be set. A block may be in the set twice: as a sample of the profile's, and
 * as one of a rate's (below), whose entry is nothing but memory. Where a function does not say so, it knows of the
 * profile's only. */
void sti_tracked_add(struct sti_tracked *entry);

/* Returns a number that no other entry has. */
uint64_t sti_tracked_new_number(void);

/* Take a rate's out. NULL: there is none. */
struct sti_tracked *sti_tracked_take_rated(uintptr_t block);

/* Take the block out. NULL: it is not in the set, or it is being promoted: then the thread that promotes it
 * hears of its end. */
struct sti_tracked *sti_tracked_take(uintptr_t block, stint_memprof_end end);

/* The same of the one with this number, if it is there still; of a rate's, too. */
struct sti_tracked *sti_tracked_take_numbered(uintptr_t block, uint64_t number, stint_memprof_end end);

/* A task's block becomes the process's. Returns it for its promotion, or NULL. It stays in the set. */
struct sti_tracked *sti_tracked_begin_promotion(uintptr_t block, uint64_t number);

/* The promotion is done; it is followed with this metadata (NULL: no more). True: it is out of the set, since it has
 * come to its end meanwhile or is not followed any more, and is the caller's. */
bool sti_tracked_end_promotion(struct sti_tracked *entry, void *metadata);

/* Whether this block is in the set, as a sample of the profile's or of a rate's. */
bool sti_tracked_has(uintptr_t block, uint64_t number);

/* Show the metadata of a block, under the set's lock; a rate's too. */
typedef void sti_tracked_show_fn(uintptr_t block, const void *metadata, void *arg);
void sti_tracked_show(uintptr_t block, uint64_t number, sti_tracked_show_fn *show, void *arg);

/* Take out all of them, chained by next; the end of a block that is being promoted is reported to the promoting
 * thread. */
struct sti_tracked *sti_tracked_take_all(stint_memprof_end end);

/* In the child of a fork(2), where nobody else runs: empty the set, of all. */
void sti_tracked_forget_all(void);

/* --- Samples of one task alone, at a rate of its own (stint_options.sample_rate), for its report: no profile need run,
 * and one that does knows nothing of them. Thread of the scope, unless a function says otherwise.
 *
 * A scope with a rate and a report of its heap has a struct sti_rate on its thread's list from its beginning until its
 * report has been taken, or none will be. The rate is in force on that thread in the scope and in scopes inside it, and
 * not in detached scopes that the thread runs meanwhile. Where a profile runs as well, each sample is drawn for the one
 * or the other (sample.c).
 *
 * What is sampled lies in the set of followed blocks, apart from the profile's: a free takes the block out and gives
 * back its memory, knowing nothing of callstacks. These numbers belong to the rate, and only its thread reads them.
 * While there is a rate the function behind free is the profiler's. */

/* The scope begins, or has ended: on a thread that has a rate, or is about to have one. */
void sti_rate_begin_scope(const struct sti_scope *scope);
void sti_rate_end_scope(const struct sti_scope *scope);

/* The one that is in force in the scope; NULL: none. */
struct sti_rate *sti_rate_around(const struct sti_thread *thread, const struct sti_scope *scope);

/* Follow the block, with the samples that the thread has drawn last. */
void sti_rate_follow(struct sti_thread *thread, void *block, size_t size, size_t alignment, const void *caller);

/* Bytes from one sample to the next; 0: there is no rate. */
double sti_rate_interval(const struct sti_rate *rate);

/* In the child of a fork(2), where nobody else runs: what has been sampled is not followed any more. */
void sti_rate_forget_all(void);

#endif
