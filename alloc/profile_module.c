/* SPDX-License-Identifier: MIT
 *
 * The module that writes profiles, as the library sees it (profile_writer.h). Thread of the caller. */
#include <errno.h>
#include <stdlib.h>
#include <stint/api.h>

#include "profile_symbols.h"
#include "profile_writer.h"

int sti_profile_symbols(const struct sti_profile_snapshot *snapshot, struct sti_symbols *symbols)
{
    size_t count = 0;
    for (size_t i = 0; i < snapshot->count; i++)
        count += snapshot->entries[i].site->length;
    uintptr_t *addresses = malloc((count + 1) * sizeof *addresses);
    if (addresses == NULL)
        return ENOMEM;
    count = 0;
    for (size_t i = 0; i < snapshot->count; i++) {
        const struct sti_profile_site *site = snapshot->entries[i].site;
        for (size_t j = 0; j < site->length; j++)
            addresses[count++] = sti_profile_call(site->callstack[j]);
    }
    int error = sti_symbols_open(symbols, addresses, count, snapshot->demangle);
    free(addresses);
    return error;
}

static int write_kind(const struct sti_profile_snapshot *snapshot, int fd, stint_profile_kind kind)
{
    return kind == STINT_PROFILE_PPROF ? sti_profile_write_pprof(snapshot, fd)
                                       : sti_profile_write_collapsed(snapshot, fd, kind);
}

STINT_API const struct sti_profile_writer sti_profile_writer = { .write = write_kind };
