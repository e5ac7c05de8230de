/* SPDX-License-Identifier: MIT
 *
 * The writing of what was gathered: a copy of its numbers, so that each format and each line of it is of one moment
 * (profile_snapshot.h). Thread of the caller. */
#include "profile_write.h"

#include <errno.h>
#include <stdlib.h>

#include "profile_snapshot.h"

/* A site that is added meanwhile is left out. */
static struct sti_profile_snapshot *take_snapshot(const struct sti_gathered *gathered)
{
    size_t most = atomic_load_explicit(&gathered->sites, memory_order_relaxed);
    struct sti_profile_snapshot *snapshot = malloc(sizeof *snapshot + most * sizeof snapshot->entries[0]);
    if (snapshot == NULL)
        return NULL;
    snapshot->count = 0;
    for (size_t i = 0; i < STI_PROFILE_CHAINS; i++) {
        const struct sti_profile_site *site = atomic_load_explicit(&gathered->chains[i], memory_order_acquire);
        for (; site != NULL && snapshot->count < most; site = site->next) {
            snapshot->entries[snapshot->count++] =
                (struct sti_profile_entry){ .site = site, .values = sti_profile_values(gathered, site) };
        }
    }
    return snapshot;
}

int sti_profile_write(const struct sti_profile_means *means, const struct sti_gathered *gathered, uint64_t duration,
                      int fd, stint_profile_kind kind)
{
    struct sti_profile_snapshot *snapshot = take_snapshot(gathered);
    if (snapshot == NULL)
        return ENOMEM;
    snapshot->demangle = means->demangle;
    snapshot->started = gathered->started;
    snapshot->duration = duration;
    snapshot->interval = gathered->interval;
    int error = means->writer->write(snapshot, fd, kind);
    free(snapshot);
    return error;
}
