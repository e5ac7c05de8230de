/* SPDX-License-Identifier: MIT
 *
 * The program's end of a child; see child.h. By system calls themselves where the library replaces them: the caller is
 * in the midst of a task, to which none of this belongs. */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "alloc/platform/process.h"
#include "group.h"

#define KILL_PATIENCE_MS 100
#define ASK_PATIENCE_MS 10
#define END_PATIENCE_MS 200
#define ENDING_PATIENCE_MS 500

static void close_fd(int fd)
{
    if (fd >= 0)
        syscall(SYS_close, fd);
}

static bool poll_one(int fd, int timeout_ms)
{
    struct pollfd source = { .fd = fd, .events = POLLIN };
    struct timespec timeout = { .tv_sec = timeout_ms / 1000, .tv_nsec = timeout_ms % 1000 * 1000000L };
    return syscall(SYS_ppoll, &source, 1, &timeout, NULL, 0) > 0;
}

/* --- Asking for one. --- */

static int child_make_group(struct sti_wall_child *child, const struct sti_wall_config *config)
{
    if (config->cgroup[0] == '\0')
        return 0;
    child->group = sti_wall_group_make(config);
    return child->group != NULL ? 0 : errno;
}

/* Send the template the child's end of the socket, its area, and its end of the pipe. */
static int send_request(struct sti_wall_child *child, int control, int its_end, int area, int ending)
{
    struct sti_wall_message request = { .kind = STI_WALL_SPAWN };
    int fds[STINT_WALL_FDS_MAX] = { its_end, area, ending };
    unsigned count = 3;
    if (child->group != NULL)
        count += (unsigned)sti_wall_group_fds(child->group, fds + count);
    return sti_wall_send(control, &request, fds, count, false);
}

static int make_ends(struct sti_wall_child *child, const struct sti_wall_config *config, int control)
{
    int ends[2];
    int line[2] = { -1, -1 };
    if (syscall(SYS_socketpair, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return errno;
    child->socket = ends[0];
    int error = syscall(SYS_pipe2, line, O_CLOEXEC | O_NONBLOCK) == 0 ? 0 : errno;
    child->ending = line[0];
    int area = error == 0 ? sti_wall_area_make(&child->layout) : -1;
    if (error == 0 && area < 0)
        error = errno;
    if (error == 0 && (child->area = sti_wall_area_map(area, &child->layout)) == NULL)
        error = errno;
    if (error == 0 && syscall(SYS_madvise, child->area, child->layout.size, MADV_DONTFORK) != 0)
        error = errno; /* the children of another wall, which is made later, would have it too */
    if (error == 0)
        error = child_make_group(child, config);
    if (error == EAGAIN)
        error = ENOMEM; /* of locked memory: what is to be tried again is the template alone */
    if (error == 0)
        error = send_request(child, control, ends[1], area, line[1]);
    close_fd(area);
    close_fd(line[1]);
    close_fd(ends[1]);
    return error;
}

struct sti_wall_child *sti_wall_child_ask(const struct sti_wall_config *config, int control)
{
    struct sti_wall_child *child = sti_process_calloc(1, sizeof *child);
    if (child == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    child->socket = child->process = child->ending = -1;
    child->layout = sti_wall_layout(config);
    int error = make_ends(child, config, control);
    if (error == 0)
        return child;
    sti_wall_child_end(child);
    errno = error == ECONNRESET ? EPIPE : error;
    return NULL;
}

/* --- Talking to it. --- */

int sti_wall_child_offer(struct sti_wall_child *child, const struct sti_wall_message *task, const int *fds)
{
    atomic_store_explicit(&child->area->state, STI_WALL_OFFERED, memory_order_release);
    child->tasks++;
    child->has_spoken = false;
    int error = sti_wall_send(child->socket, task, fds, task->task.fd_count, false);
    return error == ECONNRESET ? EPIPE : error;
}

bool sti_wall_child_withdraw(struct sti_wall_child *child)
{
    uint32_t offered = STI_WALL_OFFERED;
    return atomic_compare_exchange_strong_explicit(&child->area->state, &offered, STI_WALL_WITHDRAWN,
                                                   memory_order_acq_rel, memory_order_relaxed);
}

/* Where somebody else still has its end of the socket, a fork(2) or the template, that is not closed, and holds what is
 * unread. When it is closed that is told first and then thrown away: so it is asked for in the other order. */
static bool has_unread(struct sti_wall_child *child)
{
    int bytes = 0;
    int error = 0;
    socklen_t size = sizeof error;
    if (child->has_left_unread || (syscall(SYS_ioctl, child->socket, SIOCOUTQ, &bytes) == 0 && bytes > 0))
        return true;
    child->has_left_unread =
        syscall(SYS_getsockopt, child->socket, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == ECONNRESET;
    return child->has_left_unread;
}

/* What is unread is the task, unless it has been answered since: to be answered it has to speak. */
bool sti_wall_child_has_begun(struct sti_wall_child *child)
{
    return child->has_spoken || !has_unread(child);
}

/* The first that a child says, before it has run anything of others'. */
static int take_hello(struct sti_wall_child *child, const struct sti_wall_message *message, const int *fds,
                      unsigned count)
{
    if (child->process >= 0 || count != 1 || message->hello.pid <= 0) {
        for (unsigned i = 0; i < count; i++)
            close_fd(fds[i]);
        return EPROTO;
    }
    child->process = fds[0];
    child->pid = message->hello.pid;
    return EAGAIN;
}

static int hear_once(struct sti_wall_child *child, struct sti_wall_message *message)
{
    int fds[1] = { -1 };
    unsigned count;
    bool may_have = child->process < 0;
    int error;
    do {
        count = 1;
        error = sti_wall_receive(child->socket, message, may_have ? fds : NULL, &count, false);
        child->has_left_unread = child->has_left_unread || error == ECONNRESET;
    } while (error == ECONNRESET);
    if (error != 0)
        return error;
    if (message->kind == STI_WALL_HELLO)
        return take_hello(child, message, fds, count);
    for (unsigned i = 0; i < count; i++)
        close_fd(fds[i]);
    child->has_spoken = true;
    return 0;
}

int sti_wall_child_hear(struct sti_wall_child *child, struct sti_wall_message *message)
{
    bool had_hello = child->process >= 0;
    int error = hear_once(child, message);
    if (error == EAGAIN && !had_hello && child->process >= 0)
        error = hear_once(child, message);
    return error;
}

/* --- Its end. --- */

/* One that has not said hello ends when it finds that its task has been withdrawn, or its socket closed. One that has
 * begun has said hello, whatever it has made of the state since. */
void sti_wall_child_kill(struct sti_wall_child *child)
{
    struct sti_wall_message message;
    if (child->process < 0) {
        sti_wall_child_withdraw(child);
        sti_wall_child_hear(child, &message);
    }
    if (child->process < 0)
        return;
    syscall(SYS_pidfd_send_signal, child->process, SIGKILL, NULL, 0);
    poll_one(child->process, KILL_PATIENCE_MS);
}

bool sti_wall_child_ask_where(struct sti_wall_child *child)
{
    if (child->process < 0 || !sti_wall_child_has_begun(child))
        return false;
    syscall(SYS_pidfd_send_signal, child->process, STI_CRASH_ASK, NULL, 0);
    return poll_one(child->process, ASK_PATIENCE_MS);
}

bool sti_wall_child_has_ended(const struct sti_wall_child *child)
{
    return child->process < 0 || poll_one(child->process, END_PATIENCE_MS);
}

bool sti_wall_child_await_ending(const struct sti_wall_child *child, struct sti_wall_ending *ending)
{
    poll_one(child->ending, ENDING_PATIENCE_MS);
    return syscall(SYS_read, child->ending, ending, sizeof *ending) == (long)sizeof *ending;
}

uint64_t sti_wall_child_clock(const struct sti_wall_child *child)
{
    clockid_t clock;
    struct timespec now;
    if (child->pid <= 0 || clock_getcpuclockid(child->pid, &clock) != 0 || clock_gettime(clock, &now) != 0)
        return 0;
    return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

static void close_descriptors(struct sti_wall_child *child)
{
    close_fd(child->socket);
    close_fd(child->process);
    close_fd(child->ending);
    child->socket = child->process = child->ending = -1;
}

void sti_wall_child_close(struct sti_wall_child *child)
{
    if (child->process >= 0)
        syscall(SYS_pidfd_send_signal, child->process, SIGKILL, NULL, 0);
    close_descriptors(child);
}

void sti_wall_child_end(struct sti_wall_child *child)
{
    sti_wall_child_close(child);
    if (child->area != NULL)
        sti_wall_area_unmap(child->area, &child->layout);
    sti_wall_group_end(child->group);
    sti_process_free(child);
}

void sti_wall_child_close_in_fork(struct sti_wall_child *child)
{
    close_descriptors(child);
    if (child->group != NULL)
        sti_wall_group_close_in_fork(child->group);
}
