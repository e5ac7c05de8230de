/* SPDX-License-Identifier: MIT
 *
 * Writing to somebody's descriptor; see output.h. Any thread. */
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <stint/guard.h>
#include <stint/interrupt.h>
#include <unistd.h>

#include "alloc/base/thread.h"

#define AT_A_TIME ((size_t)4096) /* a pipe or a socket that can be written to takes so much at once */
#define LOOK_EVERY 10            /* milliseconds, while it cannot */

bool sti_output_open(struct sti_output *output)
{
    *output = (struct sti_output){ .bytes = NULL };
    output->stream = open_memstream(&output->bytes, &output->size);
    return output->stream != NULL;
}

int sti_output_close(struct sti_output *output, int error)
{
    bool is_whole = ferror(output->stream) == 0;
    is_whole = fclose(output->stream) == 0 && is_whole && output->bytes != NULL;
    if (error == 0 && !is_whole)
        error = ENOMEM;
    if (error != 0)
        free(output->bytes);
    return error;
}

/* An interrupt that need not wait for a reader waits for the end of what is written. A sleep in write() has no sample
 * points. Who does not want to sleep is told so by write(). False: the task is to
 * stop. */
static bool await(int descriptor)
{
    struct pollfd polled = { .fd = descriptor, .events = POLLOUT };
    int flags = fcntl(descriptor, F_GETFL);
    bool goes_on = true;
    while (goes_on && flags >= 0 && (flags & O_NONBLOCK) == 0 && poll(&polled, 1, LOOK_EVERY) <= 0) {
        stint_unmask();
        stint_mask();
        goes_on = !stint_is_interrupted();
    }
    return goes_on;
}

static int write_all(int descriptor, const char *bytes, size_t size)
{
    while (size > 0) {
        bool is_in_task = sti_thread_metered != NULL;
        if (is_in_task && !await(descriptor))
            return ECANCELED;
        ssize_t written = write(descriptor, bytes, is_in_task && size > AT_A_TIME ? AT_A_TIME : size);
        if (written < 0 && errno != EINTR)
            return errno;
        if (written == 0)
            return EIO;
        if (written > 0) {
            bytes += written;
            size -= (size_t)written;
        }
    }
    return 0;
}

int sti_output_write_and_unmask(struct sti_output *output, int descriptor)
{
    int saved_errno = errno;
    stint_guard guard;
    stint_guard_push(&guard, free, output->bytes);
    int error = write_all(descriptor, output->bytes, output->size);
    errno = saved_errno;
    stint_guard_pop(&guard, true);
    stint_unmask();
    return error;
}
