/* SPDX-License-Identifier: MIT
 *
 * Text that the library writes to somebody's descriptor: put together in memory first, under whatever locks that takes,
 * and written when none is held, so that a reader that does not read stops nobody but who writes to it. And what it
 * writes because a variable of the environment asks for it. Any thread. */
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

/* While nothing is charged (sti_memprof_pause_begin). False: ENOMEM. */
bool sti_output_open(struct sti_output *output);

/* The stream is complete, or there was an error, which is returned; ENOMEM. Nothing is left of it then. */
int sti_output_close(struct sti_output *output, int error);

/* Write it all and free it; then the caller's mask ends. In between it is lifted where write() would wait for a reader,
 * so that a task may be interrupted there. 0; ECANCELED: in STINT_FAIL, it was; and what write() reports. */
int sti_output_write_and_unmask(struct sti_output *output, int descriptor);

/* --- What variables of the environment ask for: a path with the process's number in it; and how an error is told that
 * has no caller to go to. Constructors and destructors of this library. */

/* The path with the process's number in place of each %p, to be freed by free(); NULL: no memory. */
char *sti_environment_path(const char *pattern);

/* One line on standard error. */
void sti_environment_complain(const char *variable, const char *about, const char *what);

#endif
