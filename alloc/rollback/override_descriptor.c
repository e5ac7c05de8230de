/* SPDX-License-Identifier: MIT
 *
 * Overrides of what opens and closes descriptors, so that a task that owns its own loses them with a rollback
 * (descriptor.h). Any thread; where no task owns any, a look at the thread's scope and at one number. */
/* No inline versions of these functions in the headers, and each name is to be its own function. */
#undef _FORTIFY_SOURCE
#undef _FILE_OFFSET_BITS
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <stint/api.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

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
    X(inotify_init1, (int flags), (flags))
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
OPENING_BY_MODE(open64, (const char *path, int flags, ...), flags, (path, flags, mode))
OPENING_BY_MODE(openat, (int folder, const char *path, int flags, ...), flags, (folder, path, flags, mode))
OPENING_BY_MODE(openat64, (int folder, const char *path, int flags, ...), flags, (folder, path, flags, mode))

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
OPENING_TWO(pipe, (int both[2]), (both))
OPENING_TWO(pipe2, (int both[2], int flags), (both, flags))
OPENING_TWO(socketpair, (int domain, int type, int protocol, int both[2]), (domain, type, protocol, both))

/* --- In a given place --------------------------------------------------------------------------------------------- */

STINT_API int dup2(int descriptor, int place);
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

int dup2(int descriptor, int place)
{
    STI_LIBC_FUNCTION(dup2)
    struct sti_descriptor_owner owner;
    if (!begin_in_place(descriptor, place, &owner))
        return refuse();
    return end_in_place(descriptor, place, &owner, plain(descriptor, place));
}

int dup3(int descriptor, int place, int flags)
{
    STI_LIBC_FUNCTION(dup3)
    struct sti_descriptor_owner owner;
    if (!begin_in_place(descriptor, place, &owner))
        return refuse();
    return end_in_place(descriptor, place, &owner, plain(descriptor, place, flags));
}

/* --- Closing: forgotten first, as others may have the same number as soon as it is closed. --- */

STINT_API int close(int descriptor);
STINT_API int close_range(unsigned first, unsigned last, int flags);
STINT_API void closefrom(int first);

int close(int descriptor)
{
    STI_LIBC_FUNCTION(close)
    sti_descriptor_forget(descriptor);
    return plain(descriptor);
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
