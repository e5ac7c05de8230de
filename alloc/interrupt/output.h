/* SPDX-License-Identifier: MIT
 *
 * Text that the library writes to somebody's descriptor: put together in memory first, under whatever locks that takes,
 * and written when none is held, so that a reader that does not read stops nobody but who writes to it. Any thread. */
#ifndef STI_ALLOC_INTERRUPT_OUTPUT_H
#define STI_ALLOC_INTERRUPT_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct sti_output {
    FILE *stream;
    char *bytes;
    size_t size;
};

/* While nothing is charged (sti_memprof_be_quiet). False: ENOMEM. */
bool sti_output_open(struct sti_output *output);

/* The stream is complete, or there was an error, which is returned; ENOMEM. Nothing is left of it then. */
int sti_output_close(struct sti_output *output, int error);

/* The end of the caller's mask: write it all and free it, also where a task is interrupted meanwhile, which it may be
 * wherever write() would block. 0, and what write() reports. */
int sti_output_unmask_and_write(struct sti_output *output, int descriptor);

#endif
