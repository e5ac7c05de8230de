/* SPDX-License-Identifier: MIT
 *
 * The rollback of heaps: they are destroyed, but for what a root leads to, which becomes the process's (retained.h). In
 * debug mode they are kept for a while, out of reach (quarantine.h). */
#ifndef STI_ALLOC_ROLLBACK_ROLLBACK_H
#define STI_ALLOC_ROLLBACK_ROLLBACK_H

#include <stddef.h>

struct sti_heap;
struct sti_thread;

/* End a list of heaps. Returns the bytes in blocks that it had to keep. Thread of the scope, outside of it. */
size_t sti_heap_rollback(struct sti_thread *thread, struct sti_heap *list, const char *task);

#endif
