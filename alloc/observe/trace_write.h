/* SPDX-License-Identifier: MIT
 *
 * What is in the rings, as JSON. The tracer's thread only. */
#ifndef STI_ALLOC_OBSERVE_TRACE_WRITE_H
#define STI_ALLOC_OBSERVE_TRACE_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "alloc/platform/tracing.h"

struct sti_trace_file {
    int fd;
    dev_t device; /* what it is of, */
    ino_t number; /* in there: the program may close it, and open another */
    int error;    /* the first; nothing is written any more */
    int pid;
    unsigned epoch;
    uint64_t begun_ns;
    bool closing;    /* what an event follows from may be left out: no flow ends in it */
    uint64_t events; /* that were written */
    uint64_t lost;
    uint64_t homeless; /* STI_TRACE_HOMELESS as it began */
    char process[32];  /* what each event says of it */
    size_t process_length;
    const struct sti_thread *next; /* whose ring is drained next; NULL: the first one's */
    size_t length;
    char buffer[(size_t)1 << 16];
};

/* A new trace, with that descriptor. Before any thread knows its number. 0; or why the descriptor cannot be looked
 * at. */
int sti_trace_file_begin(struct sti_trace_file *file, int fd, unsigned epoch);

/* So many records at most of what the rings hold; and the head before it, the rest behind. */
void sti_trace_file_write_head(struct sti_trace_file *file);
void sti_trace_file_drain(struct sti_trace_file *file, size_t most);
void sti_trace_file_write_end(struct sti_trace_file *file);

#endif
