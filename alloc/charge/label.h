/* SPDX-License-Identifier: MIT
 *
 * Labels: what accounts are called where their tasks are counted (stint/metrics.h). Any thread, unless a function says
 * otherwise.
 *
 * A label is for all accounts of one name, whether they live at once or one after the other: what is counted never
 * shrinks. It stays for good, so there is a most of them. An account without a name of its own, or whose name comes
 * when there is no room, is counted with the one that it lies in; one in no other with all the others of that kind.
 *
 * Each thread counts in tallies of its own, made at the first need: tasks of one account on several threads share no
 * line of the cache for this. A task that never began is counted in the label's own, which is shared. */
#ifndef STI_ALLOC_CHARGE_LABEL_H
#define STI_ALLOC_CHARGE_LABEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stint/task.h>

#include "alloc/base/tally.h"

struct sti_thread;

#define STI_LABELS_MAX 256
#define STI_LABEL_SIZE 128 /* of a name, with its end; the rest of a longer one is left out */
#define STI_LABEL_OTHERS "other"

struct sti_label_tally {
    sti_counter outcomes[STI_REASONS];
    sti_counter charged; /* bytes, of tasks that have ended */
};

struct sti_label {
    struct sti_label *next; /* of its chain */
    uint64_t hash;
    unsigned number;
    struct sti_label_tally shared;
    char name[STI_LABEL_SIZE];
};

/* The label of that name; NULL, or where there is no room: otherwise, which may be NULL: that of the others. */
struct sti_label *sti_label_find(const char *name, struct sti_label *otherwise);

/* A task has ended on the calling thread, whose record this is. */
void sti_label_count(struct sti_thread *thread, struct sti_label *label, stint_reason reason, uint64_t charged);

/* One that has never begun. */
void sti_label_count_unstarted(struct sti_label *label, stint_reason reason);

/* The number-th label, from 0 on; NULL: there are not so many. */
const struct sti_label *sti_label_at(unsigned number);

/* What was counted for it, on all threads. */
struct sti_label_sum {
    uint64_t outcomes[STI_REASONS];
    uint64_t charged;
};
struct sti_label_sum sti_label_read(const struct sti_label *label);

/* Copy a name, as far as it fits, with what is not UTF-8 replaced by question marks. */
void sti_label_copy_name(char *copy, size_t size, const char *name);

/* At start. */
void sti_label_start(void);

#endif
