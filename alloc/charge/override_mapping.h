/* SPDX-License-Identifier: MIT
 *
 * What the overrides of mappings share: override_mapping.c, where it is, and override_moving.c. Calling thread only. */
#ifndef STI_ALLOC_CHARGE_OVERRIDE_MAPPING_H
#define STI_ALLOC_CHARGE_OVERRIDE_MAPPING_H

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>

#include "alloc/base/backend.h"
#include "alloc/base/caller.h"
#include "alloc/base/scope_state.h"
#include "alloc/rollback/mapping.h"
#include "allocate.h"

#define STI_MAPPING_PAGE ((size_t)4096)
#define STI_MAPPING_LARGEST ((size_t)1 << 62)

/* The thread's record if it is a task that asks; otherwise NULL. */
struct sti_thread *sti_mapping_asker(const void *caller);

/* The task is charged for the records that there are beyond so many. That is no sample point, as no memory that is
 * given back is to be refused: the next one sees it. With the lock of the record; NULL: nobody is. */
void sti_mapping_charge_records(struct sti_thread *thread, size_t paid);

static inline size_t sti_mapping_round_up(size_t length, size_t page)
{
    return length <= STI_MAPPING_LARGEST ? (length + page - 1) & ~(page - 1) : 0;
}

static inline void *sti_mapping_fail(struct sti_mapping *mapping)
{
    sti_mapping_drop(mapping);
    errno = ENOMEM;
    return MAP_FAILED;
}

/* At start. */
void sti_override_mapping_start(void);

#endif
