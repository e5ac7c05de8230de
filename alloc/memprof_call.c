/* SPDX-License-Identifier: MIT
 *
 * Calls of the user's tracker. Calling thread.
 *
 * In a callback the allocation functions see no record: what it allocates is not sampled, not charged, and comes from the
 * process's heap. The scope is masked, so nothing leaves the callback but its return. What it frees may be followed, and
 * is taken out of the set at once; only the call waits, so that a tracker may hold a lock of its own while it frees. */
#include "memprof_inner.h"

#include <errno.h>

#include "boundary.h"
#include "process.h"
#include "scope_state.h"
#include "thread.h"

static _Thread_local struct {
    bool inside;
    struct sti_tracked *waiting; /* for their dealloc */
} calling;

bool sti_memprof_is_calling(void)
{
    return calling.inside;
}

struct sti_quiet sti_memprof_be_quiet(void)
{
    struct sti_quiet quiet = {
        .counted = sti_thread_counted,
        .masked = sti_thread_metered != NULL ? sti_thread_metered->scope : NULL,
        .saved_errno = errno,
    };
    sti_memprof_hold();
    if (quiet.masked != NULL)
        quiet.masked->masks++;
    sti_thread_counted = NULL;
    calling.inside = true;
    return quiet;
}

/* What they make goes back by their second argument: one that is left by an exception or a jump has made nothing. */
static int make_metadata(void *allocation, void *metadata, void *unused)
{
    (void)unused;
    const stint_memprof_options *options = &sti_memprof_settings.options;
    *(void **)metadata = options->tracker.alloc(allocation, options->arg);
    return 0;
}

static int promote_metadata(void *before, void *metadata, void *unused)
{
    (void)unused;
    const stint_memprof_options *options = &sti_memprof_settings.options;
    *(void **)metadata = options->tracker.promote(before, options->arg);
    return 0;
}

static int drop_metadata(void *tracked, void *unused, void *neither)
{
    (void)unused;
    (void)neither;
    const struct sti_tracked *entry = tracked;
    const stint_memprof_options *options = &sti_memprof_settings.options;
    options->tracker.dealloc(entry->metadata, entry->end, options->arg);
    return 0;
}

static void dealloc(struct sti_tracked *entry)
{
    if (entry->metadata != NULL && sti_memprof_settings.options.tracker.dealloc != NULL)
        sti_boundary_callback("tracker", entry, NULL, NULL, drop_metadata);
    sti_process_free(entry);
}

void sti_memprof_end_quiet(const struct sti_quiet *quiet)
{
    while (calling.waiting != NULL) {
        struct sti_tracked *entry = calling.waiting;
        calling.waiting = entry->next;
        dealloc(entry);
    }
    calling.inside = false;
    sti_thread_counted = quiet->counted;
    if (quiet->masked != NULL)
        quiet->masked->masks--;
    sti_memprof_leave();
    errno = quiet->saved_errno;
}

void *sti_memprof_call_alloc(const stint_memprof_allocation *allocation)
{
    struct sti_quiet quiet = sti_memprof_be_quiet();
    void *metadata = NULL;
    sti_boundary_callback("tracker", (void *)(uintptr_t)allocation, &metadata, NULL, make_metadata);
    sti_memprof_end_quiet(&quiet);
    return metadata;
}

void *sti_memprof_call_promote(void *metadata)
{
    if (sti_memprof_settings.options.tracker.promote == NULL)
        return metadata;
    struct sti_quiet quiet = sti_memprof_be_quiet();
    void *promoted = metadata;
    sti_boundary_callback("tracker", metadata, &promoted, NULL, promote_metadata);
    sti_memprof_end_quiet(&quiet);
    return promoted;
}

void sti_memprof_call_dealloc(struct sti_tracked *entry)
{
    if (calling.inside) {
        entry->next = calling.waiting;
        calling.waiting = entry;
        return;
    }
    struct sti_quiet quiet = sti_memprof_be_quiet();
    dealloc(entry);
    sti_memprof_end_quiet(&quiet);
}
