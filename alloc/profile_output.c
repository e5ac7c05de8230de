/* SPDX-License-Identifier: MIT
 *
 * A buffered stream to a descriptor (profile_output.h). */
#include "profile_output.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#define GZIP (15 + 16) /* the largest window, in gzip's wrapping */
#define MEMORY_LEVEL 8

void sti_output_begin(struct sti_output *output, int fd, bool gzipped)
{
    *output = (struct sti_output){ .fd = fd, .gzipped = gzipped };
    if (gzipped &&
        deflateInit2(&output->zip, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP, MEMORY_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK)
        output->error = ENOMEM;
}

static void flush_buffer(struct sti_output *output)
{
    const unsigned char *next = output->buffer;
    while (output->filled > 0 && output->error == 0) {
        ssize_t written = write(output->fd, next, output->filled);
        if (written >= 0) {
            next += written;
            output->filled -= (size_t)written;
        } else if (errno != EINTR) {
            output->error = errno;
        }
    }
    output->filled = 0;
}

static void copy(struct sti_output *output, const unsigned char *data, size_t size)
{
    while (size > 0 && output->error == 0) {
        size_t room = sizeof output->buffer - output->filled;
        size_t part = size < room ? size : room;
        memcpy(output->buffer + output->filled, data, part);
        output->filled += part;
        data += part;
        size -= part;
        if (output->filled == sizeof output->buffer)
            flush_buffer(output);
    }
}

static void zip(struct sti_output *output, int flush)
{
    int status;
    do {
        output->zip.next_out = output->buffer + output->filled;
        output->zip.avail_out = (uInt)(sizeof output->buffer - output->filled);
        status = deflate(&output->zip, flush);
        output->filled = sizeof output->buffer - output->zip.avail_out;
        if (output->filled == sizeof output->buffer)
            flush_buffer(output);
    } while (output->error == 0 && (output->zip.avail_in > 0 || (flush == Z_FINISH && status == Z_OK)));
}

void sti_output_write(struct sti_output *output, const void *data, size_t size)
{
    if (output->error != 0)
        return;
    if (!output->gzipped) {
        copy(output, data, size);
        return;
    }
    output->zip.next_in = (z_const Bytef *)(uintptr_t)data;
    output->zip.avail_in = (uInt)size;
    zip(output, Z_NO_FLUSH);
}

int sti_output_end(struct sti_output *output)
{
    if (output->gzipped && output->error == 0) {
        output->zip.avail_in = 0;
        zip(output, Z_FINISH);
    }
    flush_buffer(output);
    if (output->gzipped)
        deflateEnd(&output->zip);
    return output->error;
}
