/* SPDX-License-Identifier: MIT
 *
 * Writing to somebody's descriptor, and where the environment says; see output.h. Any thread. */
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <stint/interrupt.h>
#include <string.h>
#include <unistd.h>

#include "alloc/platform/thread.h"

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

/* Where the system does not say, write() will. */
static bool must_wait(int descriptor)
{
    struct pollfd polled = { .fd = descriptor, .events = POLLOUT };
    int ready = poll(&polled, 1, LOOK_EVERY);
    return ready == 0 || (ready < 0 && errno == EINTR);
}

/* An interrupt that need not wait for a reader waits for the end of what is written. A sleep in write() has no sample
 * points. Who does not want to sleep is told so by write(). False: the task is to stop. */
static bool descriptor_await(int descriptor)
{
    int flags = fcntl(descriptor, F_GETFL);
    bool goes_on = true;
    while (goes_on && flags >= 0 && (flags & O_NONBLOCK) == 0 && must_wait(descriptor)) {
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
        if (is_in_task && !descriptor_await(descriptor))
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

/* --- For the environment. --- */

char *sti_environment_path(const char *pattern)
{
    char *expanded = NULL;
    size_t size;
    FILE *stream = open_memstream(&expanded, &size);
    if (stream == NULL)
        return NULL;
    const char *mark;
    while ((mark = strstr(pattern, "%p")) != NULL) {
        fwrite(pattern, 1, (size_t)(mark - pattern), stream);
        fprintf(stream, "%d", getpid());
        pattern = mark + 2;
    }
    fputs(pattern, stream);
    return fclose(stream) == 0 ? expanded : NULL;
}

void sti_environment_complain(const char *variable, const char *about, const char *what)
{
    char line[PATH_MAX + 256];
    int length = snprintf(line, sizeof line, "stint: %s: %s: %s\n", variable, about, what);
    size_t size = length < (int)sizeof line ? (size_t)length : sizeof line - 1;
    if (length > 0 && write(STDERR_FILENO, line, size) < 0)
        return; /* then there is nobody to tell */
}
