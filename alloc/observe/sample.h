/* SPDX-License-Identifier: MIT
 *
 * A thread's samples. Thread of the record, unless a function says otherwise. */
#ifndef STI_ALLOC_OBSERVE_SAMPLE_H
#define STI_ALLOC_OBSERVE_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stint/observe.h>

/* Count outside of scopes from now on, on the calling thread. Called by each free while a profile runs; the other is
 * called by mimalloc, once in a thousand allocations that leave its fast path. */
void sti_memprof_count_thread(void);
void sti_memprof_heartbeat(bool force, unsigned long long count, void *unused);

/* free while blocks are followed. Any thread. */
void sti_memprof_free(void *block);

/* Functions that the rest of the library calls through sampling.h. */
void sti_memprof_join(struct sti_thread *thread);
uint64_t sti_memprof_draw(struct sti_thread *thread, uint64_t charge);

/* Have another rate in force on the thread, or none. */
void sti_memprof_set_rate(struct sti_thread *thread, struct sti_rate *rate);

void sti_memprof_draw_again(struct sti_thread *thread);
void sti_memprof_meter_outside(struct sti_thread *thread, uint64_t charge);
void *sti_memprof_made_sampled(struct sti_thread *thread, void *block, size_t size, size_t alignment,
                               const void *caller);

#endif
