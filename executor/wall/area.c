/* SPDX-License-Identifier: MIT
 *
 * Messages between the processes of a wall, and the area of a child; see area.h. Any process of a wall, any thread. */
#include "area.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "alloc/observe/report.h"
#include "alloc/platform/instrumentation.h"
#include "alloc/platform/machine.h"

/* --- The area. By system calls themselves: the caller may be in a task, which none of this belongs to. --- */

static size_t area_rounded(size_t size)
{
    return (size + sti_page_size() - 1) / sti_page_size() * sti_page_size();
}

struct sti_wall_layout sti_wall_layout(const struct sti_wall_config *config)
{
    struct sti_wall_layout layout;
    layout.report = area_rounded(sizeof(struct sti_wall_area));
    layout.report_room = area_rounded(sizeof(struct stint_report));
    layout.input = layout.report + layout.report_room;
    layout.reply = layout.input + area_rounded(config->input_limit);
    layout.size = layout.reply + area_rounded(config->reply_limit);
    return layout;
}

int sti_wall_area_make(const struct sti_wall_layout *layout)
{
    int fd = (int)syscall(SYS_memfd_create, "stint-wall", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -1;
    if (syscall(SYS_ftruncate, fd, layout->size) != 0 ||
        syscall(SYS_fcntl, fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
        int error = errno;
        syscall(SYS_close, fd);
        errno = error;
        return -1;
    }
    return fd;
}

struct sti_wall_area *sti_wall_area_map(int fd, const struct sti_wall_layout *layout)
{
#ifdef STI_SANITIZED
    void *area = mmap(NULL, layout->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return area != MAP_FAILED ? area : NULL;
#else
    long area = syscall(SYS_mmap, NULL, layout->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)0);
    return area != -1 ? (struct sti_wall_area *)area : NULL;
#endif
}

void sti_wall_area_unmap(struct sti_wall_area *area, const struct sti_wall_layout *layout)
{
#ifdef STI_SANITIZED
    munmap(area, layout->size);
#else
    syscall(SYS_munmap, area, layout->size);
#endif
}

/* --- Messages. --- */

/* What of the union a message of this kind has. 0: there is no such kind. */
static size_t message_size(uint32_t kind)
{
    struct sti_wall_message *none = NULL;
    const size_t head = offsetof(struct sti_wall_message, ready);
    switch (kind) {
    case STI_WALL_SPAWN:
        return head;
    case STI_WALL_READY:
        return head + sizeof none->ready;
    case STI_WALL_TASK:
        return head + sizeof none->task;
    case STI_WALL_GRANT:
    case STI_WALL_DRAW:
        return head + sizeof none->draw;
    case STI_WALL_HELLO:
        return head + sizeof none->hello;
    case STI_WALL_WARNING:
        return head + sizeof none->warning;
    case STI_WALL_DONE:
        return head + sizeof none->done;
    default:
        return 0;
    }
}

union control {
    struct cmsghdr header;
    char room[CMSG_SPACE(sizeof(int) * STINT_WALL_FDS_MAX)];
};

int sti_wall_send(int socket, const struct sti_wall_message *message, const int *fds, unsigned count, bool wait)
{
    union control control;
    struct iovec part = { .iov_base = (void *)(uintptr_t)message, .iov_len = message_size(message->kind) };
    struct msghdr packet = { .msg_iov = &part, .msg_iovlen = 1 };
    if (count > 0) {
        packet.msg_control = control.room;
        packet.msg_controllen = (__typeof__(packet.msg_controllen))CMSG_SPACE(sizeof(int) * count);
        memset(control.room, 0, sizeof control.room);
        struct cmsghdr *header = CMSG_FIRSTHDR(&packet);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = (__typeof__(header->cmsg_len))CMSG_LEN(sizeof(int) * count);
        memcpy(CMSG_DATA(header), fds, sizeof(int) * count);
    }
    long sent;
    do
        sent = syscall(SYS_sendmsg, socket, &packet, MSG_NOSIGNAL | (wait ? 0 : MSG_DONTWAIT));
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? errno : 0;
}

static void close_all(const int *fds, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        syscall(SYS_close, fds[i]);
}

/* As many as there is room for; the kernel has dropped the others. */
static unsigned take_descriptors(struct msghdr *packet, int *fds, unsigned room)
{
    struct cmsghdr *header = CMSG_FIRSTHDR(packet);
    if (header == NULL || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
        return 0;
    unsigned count = (unsigned)((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    int all[STINT_WALL_FDS_MAX];
    memcpy(all, CMSG_DATA(header), count * sizeof(int));
    unsigned taken = count < room ? count : room;
    memcpy(fds, all, taken * sizeof(int));
    close_all(all + taken, count - taken);
    return taken;
}

int sti_wall_receive(int socket, struct sti_wall_message *message, int *fds, unsigned *count, bool wait)
{
    union control control;
    struct iovec part = { .iov_base = message, .iov_len = sizeof *message };
    struct msghdr packet = { .msg_iov = &part, .msg_iovlen = 1 };
    if (fds != NULL) {
        packet.msg_control = control.room;
        packet.msg_controllen = sizeof control.room;
    }
    long received;
    do
        received = syscall(SYS_recvmsg, socket, &packet, MSG_CMSG_CLOEXEC | (wait ? 0 : MSG_DONTWAIT));
    while (received < 0 && errno == EINTR);
    unsigned came = received >= 0 && fds != NULL ? take_descriptors(&packet, fds, *count) : 0;
    if (count != NULL)
        *count = came;
    if (received < 0)
        return errno;
    if (received == 0)
        return EPIPE;
    size_t size = (size_t)received >= sizeof message->kind ? message_size(message->kind) : 0;
    if (size != 0 && (size_t)received == size && (packet.msg_flags & MSG_TRUNC) == 0)
        return 0;
    close_all(fds, came);
    return EPROTO;
}

bool sti_wall_send_modules(int socket, const struct sti_crash_modules *modules)
{
    ssize_t sent;
    do
        sent = send(socket, modules, sizeof *modules, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)sizeof *modules;
}

bool sti_wall_receive_modules(int socket, struct sti_crash_modules *modules)
{
    ssize_t received;
    do
        received = recv(socket, modules, sizeof *modules, 0);
    while (received < 0 && errno == EINTR);
    if (received != (ssize_t)sizeof *modules || modules->count > STI_CRASH_KNOWN)
        return false;
    for (size_t i = 0; i < modules->count; i++)
        modules->list[i].path[sizeof modules->list[i].path - 1] = '\0';
    return true;
}
