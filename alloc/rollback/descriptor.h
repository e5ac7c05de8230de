/* SPDX-License-Identifier: MIT
 *
 * The descriptors that a task has opened; include/stint/fd.h says what becomes of them. */
#ifndef STI_ALLOC_ROLLBACK_DESCRIPTOR_H
#define STI_ALLOC_ROLLBACK_DESCRIPTOR_H

#include <stdbool.h>

#include "mapping.h"

/* --- Descriptors of tasks that own theirs, or are audited. They stand in the record of mappings (mapping.h), as if the
 * numbers were addresses where nothing can be mapped: so they are handed on, forgotten and taken like these, and a
 * range of them is closed as a range of pages is unmapped. Any thread. */

struct sti_open_fds;

/* What a descriptor that is about to be opened will be noted in; of a caller that is no such task's, nothing. */
struct sti_descriptor_owner {
    struct sti_mapped *mapped; /* NULL: nobody's */
    enum sti_mapping_kind kind;
};

/* False: out of memory. */
bool sti_descriptor_begin(struct sti_descriptor_owner *owner);

/* It has been opened, in the place of one that was closed perhaps. Without memory for it, it is nobody's. */
void sti_descriptor_note(const struct sti_descriptor_owner *owner, int descriptor);

/* Does a task own it, or is one audited that opened it? */
bool sti_descriptor_is_noted(int descriptor);

/* These are about to be closed, or handed over: nobody's any more. False: they were nobody's. */
bool sti_descriptor_forget_range(unsigned first, unsigned last);

static inline void sti_descriptor_forget(int descriptor)
{
    if (sti_mapping_any() && descriptor >= 0)
        sti_descriptor_forget_range((unsigned)descriptor, (unsigned)descriptor);
}

/* A scope is rolled back, and its handles are closed: close what it owns, and note in the list (may be NULL) what it
 * would if it did. Its thread, outside of it. */
void sti_descriptors_rollback(struct sti_mapped *mapped, struct sti_open_fds *audited);

/* At start, and in the child of a fork(2). */
void sti_descriptor_note_process(void);

#endif
