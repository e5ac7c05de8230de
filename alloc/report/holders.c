/* SPDX-License-Identifier: MIT
 *
 * Who holds a task's memory, as the running profile tells: of its samples those whose blocks live in the task, by their
 * callstacks. Thread of the scope only. */
#include <stdlib.h>
#include <string.h>

#include "alloc/base/caller.h"
#include "alloc/base/process.h"
#include "alloc/base/scope_state.h"
#include "alloc/base/thread.h"
#include "alloc/profile/memprof.h"
#include "alloc/profile/write.h"
#include "heap.h"

#define SITES 1024 /* callstacks; a power of two. What comes when half of the room is taken is only summed up */

struct found {
    const struct sti_profile_site *site; /* NULL: none */
    uint64_t samples;
    uint64_t objects;
};

struct finding {
    const struct sti_report_index *index;
    uint64_t samples;
    size_t count;
    struct found found[SITES];
};

static struct found *found_for(struct finding *finding, const struct sti_profile_site *site)
{
    size_t at = site->hash % SITES;
    while (finding->found[at].site != NULL && finding->found[at].site != site)
        at = (at + 1) % SITES;
    if (finding->found[at].site == NULL && finding->count == SITES / 2)
        return NULL;
    finding->count += finding->found[at].site == NULL;
    return &finding->found[at];
}

/* Others may free the block at this moment: so what is kept of it is a copy, and the site, which lives on. */
static void note(uintptr_t block, const void *metadata, void *argument)
{
    struct finding *finding = argument;
    const struct sti_profile_share *share = metadata;
    if (sti_report_area_around(finding->index, block) == NULL)
        return;
    finding->samples += share->samples;
    struct found *found = found_for(finding, share->site);
    if (found == NULL)
        return;
    found->site = share->site;
    found->samples += share->samples;
    found->objects += share->objects;
}

static int by_samples(const void *left, const void *right)
{
    const struct found *a = left;
    const struct found *b = right;
    return (a->samples < b->samples) - (a->samples > b->samples);
}

/* What lies above the task is no part of it. */
static size_t length_in_task(const struct sti_profile_site *site)
{
    size_t length = 0;
    while (length < site->length && length < STI_REPORT_HOLDER_DEPTH &&
           !sti_caller_is_this_module(site->callstack[length]))
        length++;
    if (length == 0)
        length = site->length < STI_REPORT_HOLDER_DEPTH ? site->length : (size_t)STI_REPORT_HOLDER_DEPTH;
    return length;
}

static void take(struct stint_report *report, const struct found *found)
{
    struct sti_report_holder *holder = &report->holders[report->holder_count++];
    holder->samples = found->samples;
    holder->bytes = (uint64_t)((double)found->samples * report->interval + 0.5);
    holder->blocks = (found->objects + STI_PROFILE_OBJECT / 2) / STI_PROFILE_OBJECT;
    holder->length = length_in_task(found->site);
    memcpy(holder->frames, found->site->callstack, holder->length * sizeof holder->frames[0]);
}

/* libc's sort may allocate: for nobody. */
static void sort(struct finding *finding)
{
    struct sti_thread *counted = sti_thread_counted;
    sti_thread_counted = NULL;
    qsort(finding->found, SITES, sizeof finding->found[0], by_samples);
    sti_thread_counted = counted;
}

void sti_report_take_holders(struct stint_report *report, const struct sti_scope *scope,
                             const struct sti_report_index *index)
{
    const struct sti_sampling *sampling = &scope->thread->sampling;
    struct finding *finding = sampling->profile != 0 ? sti_process_calloc(1, sizeof *finding) : NULL;
    if (finding == NULL)
        return;
    finding->index = index;
    sti_memprof_hold(); /* the sites stay */
    report->interval = sti_memprof_settings.interval;
    report->is_sampled = sti_memprof_show_logged(sampling, &sti_gathered_tracker, note, finding);
    report->samples = finding->samples;
    sort(finding);
    for (size_t i = 0; i < STI_REPORT_HOLDERS && finding->found[i].samples > 0; i++)
        take(report, &finding->found[i]);
    sti_memprof_leave();
    sti_process_free(finding);
}
