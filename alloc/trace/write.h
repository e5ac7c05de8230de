/* SPDX-License-Identifier: MIT
 *
 * What is in the rings, as JSON. The tracer's thread only. */
#ifndef STI_ALLOC_TRACE_WRITE_H
#define STI_ALLOC_TRACE_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sti_trace_file {
    int fd;
    int error; /* the first; nothing is written any more */
    int pid;
    unsigned epoch;
    bool closing;    /* what an event follows from may be left out: no flow ends in it */
    uint64_t events; /* that were written */
    uint64_t lost;
    uint64_t homeless; /* STI_TRACE_HOMELESS as it began */
    size_t length;
    char buffer[(size_t)1 << 16];
};

/* A new trace, with that descriptor. Before any thread knows its number. */
void sti_trace_file_begin(struct sti_trace_file *file, int fd, unsigned epoch);

/* What all rings hold; and the head before it, the rest behind. */
void sti_trace_file_write_head(struct sti_trace_file *file);
void sti_trace_file_drain(struct sti_trace_file *file);
void sti_trace_file_write_end(struct sti_trace_file *file);

#endif
