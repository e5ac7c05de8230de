/* SPDX-License-Identifier: MIT
 *
 * Overrides of what opens and closes descriptors, so that a task that owns its own loses them with a rollback
 * (descriptor.h). Any thread; where no task owns any, a look at the thread's scope and at one number. */
/* No inline versions of these functions in the headers, and each name is to be its own function. */
#undef _FORTIFY_SOURCE
#undef _FILE_OFFSET_BITS
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <netdb.h>
#include <pty.h>
#include <stdarg.h>
#include <stdlib.h>
#include <stint/api.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/fanotify.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <utmp.h>
#if __GLIBC_PREREQ(2, 36)
#include <sys/pidfd.h>
#endif

#include "alloc/base/module.h"
#include "descriptor.h"

static int refuse(void)
{
    errno = ENOMEM;
    return -1;
}

/* --- Opening ------------------------------------------------------------------------------------------------------ */

/* X(name, parameters, arguments) */
#define OPENING_FUNCTIONS(X)                                                                                           \
    X(__open_2, (const char *path, int flags), (path, flags))                                                          \
    X(__open64_2, (const char *path, int flags), (path, flags))                                                        \
    X(__openat_2, (int folder, const char *path, int flags), (folder, path, flags))                                    \
    X(__openat64_2, (int folder, const char *path, int flags), (folder, path, flags))                                  \
    X(creat, (const char *path, mode_t mode), (path, mode))                                                            \
    X(creat64, (const char *path, mode_t mode), (path, mode))                                                          \
    X(mkstemp, (char *path), (path))                                                                                   \
    X(mkstemp64, (char *path), (path))                                                                                 \
    X(mkstemps, (char *path, int suffix), (path, suffix))                                                              \
    X(mkstemps64, (char *path, int suffix), (path, suffix))                                                            \
    X(mkostemp, (char *path, int flags), (path, flags))                                                                \
    X(mkostemp64, (char *path, int flags), (path, flags))                                                              \
    X(mkostemps, (char *path, int suffix, int flags), (path, suffix, flags))                                           \
    X(mkostemps64, (char *path, int suffix, int flags), (path, suffix, flags))                                         \
    X(socket, (int domain, int type, int protocol), (domain, type, protocol))                                          \
    X(accept, (int socket, struct sockaddr *address, socklen_t *size), (socket, address, size))                        \
    X(accept4, (int socket, struct sockaddr *address, socklen_t *size, int flags), (socket, address, size, flags))     \
    X(dup, (int descriptor), (descriptor))                                                                             \
    X(eventfd, (unsigned count, int flags), (count, flags))                                                            \
    X(epoll_create, (int size), (size))                                                                                \
    X(epoll_create1, (int flags), (flags))                                                                             \
    X(timerfd_create, (clockid_t clock, int flags), (clock, flags))                                                    \
    X(memfd_create, (const char *name, unsigned flags), (name, flags))                                                 \
    X(inotify_init, (void), ())                                                                                        \
    X(inotify_init1, (int flags), (flags))                                                                             \
    X(fanotify_init, (unsigned flags, unsigned of_events), (flags, of_events))                                         \
    X(shm_open, (const char *name, int flags, mode_t mode), (name, flags, mode))                                       \
    X(__mq_open_2, (const char *name, int flags), (name, flags))                                                       \
    X(posix_openpt, (int flags), (flags))                                                                              \
    X(getpt, (void), ())                                                                                               \
    X(open_by_handle_at, (int mount, struct file_handle *handle, int flags), (mount, handle, flags))                   \
    X(rresvport, (int *port), (port))                                                                                  \
    X(rresvport_af, (int *port, sa_family_t family), (port, family))
#define OPENING_FUNCTIONS_OF_2_36(X)                                                                                   \
    X(pidfd_open, (pid_t process, unsigned flags), (process, flags))                                                   \
    X(pidfd_getfd, (int process, int descriptor, unsigned flags), (process, descriptor, flags))                        \
    X(fsopen, (const char *name, unsigned flags), (name, flags))                                                       \
    X(fsmount, (int context, unsigned flags, unsigned attributes), (context, flags, attributes))                       \
    X(fspick, (int folder, const char *path, unsigned flags), (folder, path, flags))                                   \
    X(open_tree, (int folder, const char *path, unsigned flags), (folder, path, flags))
#define OPEN_AND_NOTE(call)                                                                                            \
    struct sti_descriptor_owner owner;                                                                                 \
    if (!sti_descriptor_begin(&owner))                                                                                 \
        return refuse();                                                                                               \
    int opened = call;                                                                                                 \
    sti_descriptor_note(&owner, opened);                                                                               \
    return opened;

#define OPENING(name, parameters, arguments)                                                                           \
    STINT_API int name parameters;                                                                                     \
    int name parameters                                                                                                \
    {                                                                                                                  \
        STI_LIBC_FUNCTION(name)                                                                                        \
        OPEN_AND_NOTE(plain arguments)                                                                                 \
    }
OPENING_FUNCTIONS(OPENING)
#if __GLIBC_PREREQ(2, 36)
OPENING_FUNCTIONS_OF_2_36(OPENING)
#endif

/* With a mode, where the flags want one. */
#define OPENING_BY_MODE(name, parameters, last, arguments)                                                             \
    STINT_API int name parameters;                                                                                     \
    int name parameters                                                                                                \
    {                                                                                                                  \
        STI_LIBC_FUNCTION(name)                                                                                        \
        mode_t mode = 0;                                                                                               \
        if ((last & (O_CREAT | __O_TMPFILE)) != 0) {                                                                   \
            va_list list;                                                                                              \
            va_start(list, last);                                                                                      \
            mode = va_arg(list, mode_t);                                                                               \
            va_end(list);                                                                                              \
        }                                                                                                              \
        OPEN_AND_NOTE(plain arguments)                                                                                 \
    }
OPENING_BY_MODE(open, (const char *path, int flags, ...), flags, (path, flags, mode))
OPENING_BY_MODE(__open, (const char *path, int flags, ...), flags, (path, flags, mode))
OPENING_BY_MODE(__open64, (const char *path, int flags, ...), flags, (path, flags, mode))
OPENING_BY_MODE(open64, (const char *path, int flags, ...), flags, (path, flags, mode))
OPENING_BY_MODE(openat, (int folder, const char *path, int flags, ...), flags, (folder, path, flags, mode))
OPENING_BY_MODE(openat64, (int folder, const char *path, int flags, ...), flags, (folder, path, flags, mode))

STINT_API mqd_t mq_open(const char *name, int flags, ...);

mqd_t mq_open(const char *name, int flags, ...)
{
    STI_LIBC_FUNCTION(mq_open)
    mode_t mode = 0;
    struct mq_attr *attributes = NULL;
    if ((flags & O_CREAT) != 0) {
        va_list list;
        va_start(list, flags);
        mode = va_arg(list, mode_t);
        attributes = va_arg(list, struct mq_attr *);
        va_end(list);
    }
    OPEN_AND_NOTE(plain(name, flags, mode, attributes))
}

STINT_API int signalfd(int descriptor, const sigset_t *signals, int flags);

/* It may be one that is there. */
int signalfd(int descriptor, const sigset_t *signals, int flags)
{
    STI_LIBC_FUNCTION(signalfd)
    struct sti_descriptor_owner owner;
    if (!sti_descriptor_begin(&owner))
        return refuse();
    int opened = plain(descriptor, signals, flags);
    if (descriptor < 0)
        sti_descriptor_note(&owner, opened);
    return opened;
}

#define DUPLICATING(name)                                                                                              \
    STINT_API int name(int descriptor, int command, ...);                                                              \
    int name(int descriptor, int command, ...)                                                                         \
    {                                                                                                                  \
        STI_LIBC_FUNCTION(name)                                                                                        \
        struct sti_descriptor_owner owner = { .mapped = NULL };                                                        \
        va_list list;                                                                                                  \
        va_start(list, command);                                                                                       \
        void *argument = va_arg(list, void *);                                                                         \
        va_end(list);                                                                                                  \
        bool opens = command == F_DUPFD || command == F_DUPFD_CLOEXEC;                                                 \
        if (opens && !sti_descriptor_begin(&owner))                                                                    \
            return refuse();                                                                                           \
        int result = plain(descriptor, command, argument);                                                             \
        sti_descriptor_note(&owner, result);                                                                           \
        return result;                                                                                                 \
    }
DUPLICATING(__fcntl)
DUPLICATING(fcntl)
DUPLICATING(fcntl64)

/* --- Two at once -------------------------------------------------------------------------------------------------- */

#define OPENING_TWO(name, parameters, arguments)                                                                       \
    STINT_API int name parameters;                                                                                     \
    int name parameters                                                                                                \
    {                                                                                                                  \
        STI_LIBC_FUNCTION(name)                                                                                        \
        struct sti_descriptor_owner owner;                                                                             \
        if (!sti_descriptor_begin(&owner))                                                                             \
            return refuse();                                                                                           \
        int result = plain arguments;                                                                                  \
        for (int i = 0; result == 0 && i < 2; i++)                                                                     \
            sti_descriptor_note(&owner, both[i]);                                                                      \
        return result;                                                                                                 \
    }
OPENING_TWO(__pipe, (int both[2]), (both))
OPENING_TWO(pipe, (int both[2]), (both))
OPENING_TWO(pipe2, (int both[2], int flags), (both, flags))
OPENING_TWO(socketpair, (int domain, int type, int protocol, int both[2]), (domain, type, protocol, both))

#define TERMINAL char *name, const struct termios *state, const struct winsize *size
STINT_API int openpty(int *main, int *second, TERMINAL);
STINT_API pid_t forkpty(int *main, TERMINAL);

int openpty(int *main, int *second, TERMINAL)
{
    STI_LIBC_FUNCTION(openpty)
    struct sti_descriptor_owner owner;
    if (!sti_descriptor_begin(&owner))
        return refuse();
    int result = plain(main, second, name, state, size);
    if (result == 0) {
        sti_descriptor_note(&owner, *main);
        sti_descriptor_note(&owner, *second);
    }
    return result;
}

pid_t forkpty(int *main, TERMINAL)
{
    STI_LIBC_FUNCTION(forkpty)
    struct sti_descriptor_owner owner;
    if (!sti_descriptor_begin(&owner))
        return refuse();
    pid_t child = plain(main, name, state, size);
    if (child > 0)
        sti_descriptor_note(&owner, *main);
    return child;
}

/* Calls of another machine, with a second connection where one is asked for. */
#define CALLING(name, parameters, arguments)                                                                           \
    STINT_API int name parameters;                                                                                     \
    int name parameters                                                                                                \
    {                                                                                                                  \
        STI_LIBC_FUNCTION(name)                                                                                        \
        struct sti_descriptor_owner owner;                                                                             \
        if (!sti_descriptor_begin(&owner))                                                                             \
            return refuse();                                                                                           \
        int opened = plain arguments;                                                                                  \
        sti_descriptor_note(&owner, opened);                                                                           \
        if (opened >= 0 && second != NULL)                                                                             \
            sti_descriptor_note(&owner, *second);                                                                      \
        return opened;                                                                                                 \
    }
#define COMMAND const char *first_name, const char *other_name, const char *command, int *second
CALLING(rcmd, (char **host, unsigned short port, COMMAND), (host, port, first_name, other_name, command, second))
CALLING(rcmd_af, (char **host, unsigned short port, COMMAND, sa_family_t family),
        (host, port, first_name, other_name, command, second, family))
CALLING(rexec, (char **host, int port, COMMAND), (host, port, first_name, other_name, command, second))
CALLING(rexec_af, (char **host, int port, COMMAND, sa_family_t family),
        (host, port, first_name, other_name, command, second, family))

/* --- Received ----------------------------------------------------------------------------------------------------- */

STINT_API ssize_t recvmsg(int socket, struct msghdr *message, int flags);
STINT_API int recvmmsg(int socket, struct mmsghdr *messages, unsigned count, int flags, struct timespec *timeout);

#define SCM_PIDFD_OF_LINUX 4 /* younger than the headers */

static bool brings_descriptors(const struct cmsghdr *part)
{
    return part->cmsg_level == SOL_SOCKET && (part->cmsg_type == SCM_RIGHTS || part->cmsg_type == SCM_PIDFD_OF_LINUX);
}

static void note_received(const struct sti_descriptor_owner *owner, struct msghdr *message)
{
    struct cmsghdr *part = owner->mapped != NULL ? CMSG_FIRSTHDR(message) : NULL;
    for (; part != NULL; part = CMSG_NXTHDR(message, part)) {
        size_t size = brings_descriptors(part) ? part->cmsg_len - CMSG_LEN(0) : 0;
        for (size_t at = 0; at + sizeof(int) <= size; at += sizeof(int)) {
            int received;
            memcpy(&received, CMSG_DATA(part) + at, sizeof received);
            sti_descriptor_note(owner, received);
        }
    }
}

ssize_t recvmsg(int socket, struct msghdr *message, int flags)
{
    STI_LIBC_FUNCTION(recvmsg)
    struct sti_descriptor_owner owner;
    if (!sti_descriptor_begin(&owner))
        return refuse();
    ssize_t size = plain(socket, message, flags);
    if (size >= 0)
        note_received(&owner, message);
    return size;
}

int recvmmsg(int socket, struct mmsghdr *messages, unsigned count, int flags, struct timespec *timeout)
{
    STI_LIBC_FUNCTION(recvmmsg)
    struct sti_descriptor_owner owner;
    if (!sti_descriptor_begin(&owner))
        return refuse();
    int received = plain(socket, messages, count, flags, timeout);
    for (int i = 0; i < received; i++)
        note_received(&owner, &messages[i].msg_hdr);
    return received;
}

/* --- In a given place --------------------------------------------------------------------------------------------- */

STINT_API int dup3(int descriptor, int place, int flags);

/* Where one of somebody else's was, as standard output is, what is there now is theirs too. */
static bool begin_in_place(int descriptor, int place, struct sti_descriptor_owner *owner)
{
    bool begun = sti_descriptor_begin(owner);
    if (descriptor == place || (owner->mapped != NULL && fcntl(place, F_GETFD) >= 0 && !sti_descriptor_is_noted(place)))
        owner->mapped = NULL;
    return begun;
}

static int end_in_place(int descriptor, int place, const struct sti_descriptor_owner *owner, int result)
{
    if (result < 0 || descriptor == place)
        return result;
    sti_descriptor_forget(place);
    sti_descriptor_note(owner, place);
    return result;
}

#define DUPLICATING_TO(name)                                                                                           \
    STINT_API int name(int descriptor, int place);                                                                     \
    int name(int descriptor, int place)                                                                                \
    {                                                                                                                  \
        STI_LIBC_FUNCTION(name)                                                                                        \
        struct sti_descriptor_owner owner;                                                                             \
        if (!begin_in_place(descriptor, place, &owner))                                                                \
            return refuse();                                                                                           \
        return end_in_place(descriptor, place, &owner, plain(descriptor, place));                                      \
    }
DUPLICATING_TO(__dup2)
DUPLICATING_TO(dup2)

int dup3(int descriptor, int place, int flags)
{
    STI_LIBC_FUNCTION(dup3)
    struct sti_descriptor_owner owner;
    if (!begin_in_place(descriptor, place, &owner))
        return refuse();
    return end_in_place(descriptor, place, &owner, plain(descriptor, place, flags));
}

/* --- Closing: forgotten first, as others may have the same number as soon as it is closed. --- */

#define CLOSING(name)                                                                                                  \
    STINT_API int name(int descriptor);                                                                                \
    int name(int descriptor)                                                                                           \
    {                                                                                                                  \
        STI_LIBC_FUNCTION(name)                                                                                        \
        sti_descriptor_forget(descriptor);                                                                             \
        return plain(descriptor);                                                                                      \
    }
CLOSING(__close)
CLOSING(close)
CLOSING(mq_close)

STINT_API int login_tty(int terminal);
STINT_API int close_range(unsigned first, unsigned last, int flags);
STINT_API void closefrom(int first);

/* It closes it too, when it has put it in the place of the first three. */
int login_tty(int terminal)
{
    STI_LIBC_FUNCTION(login_tty)
    struct sti_descriptor_owner owner = { .mapped = NULL };
    bool is_closed = terminal > STDERR_FILENO && sti_descriptor_is_noted(terminal);
    if (is_closed && !sti_descriptor_begin(&owner))
        return refuse();
    if (is_closed)
        sti_descriptor_forget(terminal);
    int result = plain(terminal);
    if (result != 0)
        sti_descriptor_note(&owner, is_closed ? terminal : -1);
    return result;
}

int close_range(unsigned first, unsigned last, int flags)
{
    STI_LIBC_FUNCTION(close_range)
    if (first <= last && ((unsigned)flags & CLOSE_RANGE_CLOEXEC) == 0 && sti_mapping_any())
        sti_descriptor_forget_range(first, last);
    return plain(first, last, flags);
}

void closefrom(int first)
{
    STI_LIBC_FUNCTION(closefrom)
    if (sti_mapping_any())
        sti_descriptor_forget_range(first > 0 ? (unsigned)first : 0, ~0U);
    plain(first);
}
