/* SPDX-License-Identifier: MIT
 *
 * The lines of delayed tasks that are due and wait for a slot (delays.h, whose lock all of this is under). A line
 * counts as one of submitters: queue_slots.h has the order. */
#ifndef STI_EXECUTOR_TASK_DUE_H
#define STI_EXECUTOR_TASK_DUE_H

#include <stddef.h>

#include "alloc/interrupt/watch.h"
#include "delays.h"
#include "executor/pool/pool_state.h"
#include "submit.h"

static inline bool sti_due_change(sti_task *task, int from, int to)
{
    return atomic_compare_exchange_strong_explicit(&task->state, &from, to, memory_order_acquire, memory_order_relaxed);
}

/* Of the line that ends with this link. */
static inline struct sti_delayed ***sti_due_end_of(struct sti_delays *delays, struct sti_delayed **link)
{
    struct sti_due_line *line = delays->lines;
    while (line->end != link)
        line++;
    return &line->end;
}

/* There may be slots for tasks of the one kind and none for those of the other. */
static inline struct sti_due_line *sti_due_line_of(const struct sti_delayed *delayed)
{
    return &delayed->home->delays.lines[sti_admission_is_plain(&delayed->task) ? STI_DUE_PLAIN : STI_DUE_OTHERS];
}

/* A task counts as a submitter that waits from when it stands in line until it has a slot or has been ended, also while
 * somebody has it in hand to try: or who made a slot meanwhile would find nobody waiting for it. */
static inline void sti_due_count(struct sti_delayed *delayed, int change)
{
    sti_queue_slots_count(&delayed->home->queue_slots, sti_admission_is_plain(&delayed->task), change);
}

static inline void sti_due_leave(struct sti_delayed *delayed)
{
    struct sti_delays *delays = &delayed->home->delays;
    *delayed->link_due = delayed->next_due;
    if (delayed->next_due != NULL)
        delayed->next_due->link_due = delayed->link_due;
    else
        *sti_due_end_of(delays, &delayed->next_due) = delayed->link_due;
    delayed->link_due = NULL;
}

static inline void sti_due_stand(struct sti_delayed *delayed, struct sti_delayed **link)
{
    struct sti_delays *delays = &delayed->home->delays;
    delayed->link_due = link;
    delayed->next_due = *link;
    *(*link != NULL ? &(*link)->link_due : sti_due_end_of(delays, link)) = &delayed->next_due;
    *link = delayed;
    atomic_store_explicit(&delayed->task.state, STI_TASK_DUE, memory_order_release);
}

/* It is still counted. Those that are being ended leave the line by themselves. */
static inline struct sti_delayed *sti_due_take_first(const struct sti_due_line *line)
{
    struct sti_delayed *first = line->first;
    while (first != NULL && !sti_due_change(&first->task, STI_TASK_DUE, STI_TASK_NEW))
        first = first->next_due;
    if (first != NULL)
        sti_due_leave(first);
    return first;
}

/* Those whose accounts had their maximum are the first again. */
static inline void sti_due_ask_capped(struct sti_delays *delays)
{
    struct sti_due_line *capped = &delays->lines[STI_DUE_CAPPED];
    struct sti_due_line *others = &delays->lines[STI_DUE_OTHERS];
    if (capped->first == NULL)
        return;
    *capped->end = others->first;
    if (others->first != NULL)
        others->first->link_due = capped->end;
    else
        others->end = capped->end;
    others->first = capped->first;
    others->first->link_due = &others->first;
    capped->first = NULL;
    capped->end = &capped->first;
}

#endif
