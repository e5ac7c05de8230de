/* SPDX-License-Identifier: MIT
 *
 * A buffered stream to a descriptor, gzipped or plain. One thread. */
#ifndef STI_ALLOC_PROFILE_OUTPUT_H
#define STI_ALLOC_PROFILE_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <zlib.h>

struct sti_output {
    int fd;
    int error; /* the first; what is written after it is dropped */
    bool gzipped;
    z_stream zip;
    size_t filled;
    unsigned char buffer[16384];
};

void sti_output_begin(struct sti_output *output, int fd, bool gzipped);
void sti_output_write(struct sti_output *output, const void *data, size_t size);

/* Write what is buffered. 0, or the errno value of what went wrong since it began. */
int sti_output_end(struct sti_output *output);

#endif
