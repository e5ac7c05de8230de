/* SPDX-License-Identifier: MIT
 *
 * Calls of the library's own that fail; see shim.h. A part of the library that tests/faults is linked with. It may be
 * called before anything has started, in a signal handler, and in the child of a fork(2). */
#include "shim.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <mimalloc.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static struct faults *_Atomic used;
/* --- What the library's own calls have mapped. It may be unmapped through the overrides, too: as theirs, which the
 * library's own calls of mmap pass as well. --- */

#define MAPPINGS 4096

static struct mapping {
    uintptr_t begin, end; /* 0: free */
} mappings[MAPPINGS];
static atomic_flag is_locked = ATOMIC_FLAG_INIT;
static atomic_long mapped;

static void note(void *address, size_t length, bool is_made)
{
    uintptr_t begin = (uintptr_t)address;
    uintptr_t end = begin + ((length + 4095) & ~(size_t)4095);
    while (atomic_flag_test_and_set(&is_locked))
        ;
    for (size_t i = 0; i < MAPPINGS; i++) {
        struct mapping *mapping = &mappings[i];
        if (is_made && mapping->end == 0) {
            *mapping = (struct mapping){ begin, end };
            atomic_fetch_add(&mapped, (long)(end - begin));
            break;
        }
        if (is_made || mapping->begin >= end || mapping->end <= begin)
            continue;
        uintptr_t from = mapping->begin > begin ? mapping->begin : begin;
        uintptr_t to = mapping->end < end ? mapping->end : end;
        atomic_fetch_sub(&mapped, (long)(to - from));
        if (from == mapping->begin)
            mapping->begin = to;
        else
            mapping->end = from; /* of one with a hole, the rest is forgotten */
        if (mapping->begin >= mapping->end)
            *mapping = (struct mapping){ 0, 0 };
    }
    atomic_flag_clear(&is_locked);
}

void faults_use(struct faults *faults)
{
    atomic_store(&used, faults);
}

long faults_mapped(void)
{
    return atomic_load(&mapped);
}

void faults_name(unsigned long address, char *text, size_t size)
{
    Dl_info info;
    if (dladdr((const void *)address, &info) == 0)
        snprintf(text, size, "%#lx", address);
    else
        snprintf(text, size, "%s+%#lx", info.dli_fname, address - (unsigned long)(uintptr_t)info.dli_fbase);
}

static const int errors[FAULT_COUNT][2] = {
#define X(name, what, one, other) { one, other },
    FAULT_KINDS(X)
#undef X
};

/* The error with which this call fails; 0: it does not. */
static int fault(enum fault_kind kind, const void *caller)
{
    struct faults *faults = atomic_load_explicit(&used, memory_order_relaxed);
    if (faults == NULL || !atomic_load_explicit(&faults->is_armed, memory_order_acquire))
        return 0;
    unsigned long call = atomic_fetch_add(&faults->calls[kind], 1) + 1;
    unsigned long number = atomic_load(&faults->number);
    if (atomic_load(&faults->kind) != (int)kind || call < number || (call > number && !atomic_load(&faults->for_ever)))
        return 0;
    atomic_fetch_add(&faults->failed, 1);
    atomic_store(&faults->where, (uintptr_t)caller);
    return errors[kind][atomic_load(&faults->uses_other)];
}

/* WRAP(result, name, parameters, kind, what it returns when it fails, arguments): a function that sets errno. */
#define WRAP(result, name, parameters, kind, failure, arguments)                                                       \
    result __real_##name parameters;                                                                                   \
    result __wrap_##name parameters;                                                                                   \
    result __wrap_##name parameters                                                                                    \
    {                                                                                                                  \
        int error = fault(FAULT_##kind, __builtin_return_address(0));                                                  \
        if (error == 0)                                                                                                \
            return __real_##name arguments;                                                                            \
        errno = error;                                                                                                 \
        return failure;                                                                                                \
    }

/* One that returns its error. */
#define WRAP_ERROR(name, parameters, kind, arguments)                                                                  \
    int __real_##name parameters;                                                                                      \
    int __wrap_##name parameters;                                                                                      \
    int __wrap_##name parameters                                                                                       \
    {                                                                                                                  \
        int error = fault(FAULT_##kind, __builtin_return_address(0));                                                  \
        return error == 0 ? __real_##name arguments : error;                                                           \
    }

/* --- Memory ------------------------------------------------------------------------------------------------------- */

WRAP(void *, mi_malloc, (size_t size), ALLOCATION, NULL, (size))
WRAP(void *, mi_zalloc, (size_t size), ALLOCATION, NULL, (size))
WRAP(void *, mi_malloc_aligned, (size_t size, size_t alignment), ALLOCATION, NULL, (size, alignment))
WRAP(void *, mi_realloc, (void *block, size_t size), ALLOCATION, NULL, (block, size))
WRAP(void *, mi_theap_malloc, (mi_theap_t * theap, size_t size), ALLOCATION, NULL, (theap, size))
WRAP(void *, mi_theap_malloc_small, (mi_theap_t * theap, size_t size), ALLOCATION, NULL, (theap, size))
WRAP(void *, mi_theap_zalloc, (mi_theap_t * theap, size_t size), ALLOCATION, NULL, (theap, size))
WRAP(void *, mi_theap_malloc_aligned, (mi_theap_t * theap, size_t size, size_t alignment), ALLOCATION, NULL,
     (theap, size, alignment))
WRAP(mi_heap_t *, mi_heap_new, (void), ALLOCATION, NULL, ())

void *__real_mmap64(void *address, size_t length, int protection, int flags, int descriptor, off64_t offset);
void *__wrap_mmap64(void *address, size_t length, int protection, int flags, int descriptor, off64_t offset);
int __real_munmap(void *address, size_t length);
int __wrap_munmap(void *address, size_t length);

void *__wrap_mmap64(void *address, size_t length, int protection, int flags, int descriptor, off64_t offset)
{
    int error = fault(FAULT_MAPPING, __builtin_return_address(0));
    void *place = error == 0 ? __real_mmap64(address, length, protection, flags, descriptor, offset) : MAP_FAILED;
    if (error != 0)
        errno = error;
    else if (place != MAP_FAILED && (flags & MAP_FIXED) == 0)
        note(place, length, true);
    return place;
}

int __wrap_munmap(void *address, size_t length)
{
    int error = fault(FAULT_UNMAPPING, __builtin_return_address(0));
    note(address, length, false);
    if (error == 0)
        return __real_munmap(address, length);
    errno = error;
    return -1;
}

WRAP(int, mprotect, (void *address, size_t length, int protection), PROTECTION, -1, (address, length, protection))
WRAP(int, madvise, (void *address, size_t length, int advice), ADVICE, -1, (address, length, advice))

/* What mimalloc and others ask of the system comes by the library's overrides, which ask libc. */

long __real_syscall(long number, ...);

static void *failing_mmap64(void *address, size_t length, int protection, int flags, int descriptor, off64_t offset)
{
    int error = fault(FAULT_BACKEND, __builtin_return_address(0));
    errno = error;
    return error == 0 ? (void *)__real_syscall(SYS_mmap, address, length, protection, flags, descriptor, offset)
                      : MAP_FAILED;
}

static int noted_munmap(void *address, size_t length)
{
    note(address, length, false);
    return (int)__real_syscall(SYS_munmap, address, length);
}

static int failing_mprotect(void *address, size_t length, int protection)
{
    int error = fault(FAULT_BACKEND, __builtin_return_address(0));
    errno = error;
    return error == 0 ? (int)__real_syscall(SYS_mprotect, address, length, protection) : -1;
}

static int failing_madvise(void *address, size_t length, int advice)
{
    int error = fault(FAULT_BACKEND, __builtin_return_address(0));
    errno = error;
    return error == 0 ? (int)__real_syscall(SYS_madvise, address, length, advice) : -1;
}

void *__real_sti_libc_function(const char *name);
void *__wrap_sti_libc_function(const char *name);

void *__wrap_sti_libc_function(const char *name)
{
    void *found = __real_sti_libc_function(name);
    if (strcmp(name, "mmap64") == 0 || strcmp(name, "mmap") == 0)
        *(typeof(failing_mmap64) **)&found = failing_mmap64;
    else if (strcmp(name, "munmap") == 0)
        *(typeof(noted_munmap) **)&found = noted_munmap;
    else if (strcmp(name, "mprotect") == 0)
        *(typeof(failing_mprotect) **)&found = failing_mprotect;
    else if (strcmp(name, "madvise") == 0)
        *(typeof(failing_madvise) **)&found = failing_madvise;
    return found;
}

/* --- Threads, processes and signals ------------------------------------------------------------------------------- */

WRAP_ERROR(pthread_create,
           (pthread_t * thread, const pthread_attr_t *attributes, void *(*body)(void *), void *argument), THREAD,
           (thread, attributes, body, argument))
WRAP_ERROR(pthread_attr_init, (pthread_attr_t * attributes), OBJECT, (attributes))
WRAP_ERROR(pthread_getattr_np, (pthread_t thread, pthread_attr_t *attributes), OBJECT, (thread, attributes))
WRAP_ERROR(pthread_attr_setaffinity_np, (pthread_attr_t * attributes, size_t size, const cpu_set_t *set), OBJECT,
           (attributes, size, set))
WRAP_ERROR(pthread_mutex_init, (pthread_mutex_t * mutex, const pthread_mutexattr_t *attributes), OBJECT,
           (mutex, attributes))
WRAP(int, sem_init, (sem_t * semaphore, int shared, unsigned value), OBJECT, -1, (semaphore, shared, value))
WRAP_ERROR(posix_spawn_file_actions_adddup2, (posix_spawn_file_actions_t * actions, int fd, int to), OBJECT,
           (actions, fd, to))
WRAP_ERROR(posix_spawn,
           (pid_t * process, const char *path, const posix_spawn_file_actions_t *actions,
            const posix_spawnattr_t *attributes, char *const *arguments, char *const *environment),
           PROCESS, (process, path, actions, attributes, arguments, environment))
WRAP(pid_t, fork, (void), PROCESS, -1, ())
WRAP(int, sigaction, (int number, const struct sigaction *action, struct sigaction *before), SIGNAL, -1,
     (number, action, before))
WRAP(int, sigaltstack, (const stack_t *stack, stack_t *before), SIGNAL, -1, (stack, before))
WRAP(int, waitid, (idtype_t type, id_t id, siginfo_t *information, int options), WAIT, -1,
     (type, id, information, options))
WRAP(pid_t, waitpid, (pid_t process, int *status, int options), WAIT, -1, (process, status, options))
WRAP(int, setrlimit64, (__rlimit_resource_t resource, const struct rlimit64 *limit), LIMIT, -1, (resource, limit))
WRAP(void *, dlopen, (const char *file, int mode), LOAD, NULL, (file, mode))

int __real_prctl(int option, ...);
int __wrap_prctl(int option, ...);

int __wrap_prctl(int option, ...)
{
    unsigned long more[4];
    va_list list;
    va_start(list, option);
    for (int i = 0; i < 4; i++)
        more[i] = va_arg(list, unsigned long);
    va_end(list);
    int error = fault(FAULT_LIMIT, __builtin_return_address(0));
    errno = error;
    return error == 0 ? __real_prctl(option, more[0], more[1], more[2], more[3]) : -1;
}

/* --- Descriptors -------------------------------------------------------------------------------------------------- */

#define WRAP_OPEN(name, parameters, arguments)                                                                         \
    int __real_##name parameters;                                                                                      \
    int __wrap_##name parameters;                                                                                      \
    int __wrap_##name parameters                                                                                       \
    {                                                                                                                  \
        va_list list;                                                                                                  \
        va_start(list, flags);                                                                                         \
        mode_t mode = va_arg(list, mode_t);                                                                            \
        va_end(list);                                                                                                  \
        int error = fault(FAULT_DESCRIPTOR, __builtin_return_address(0));                                              \
        errno = error;                                                                                                 \
        return error == 0 ? __real_##name arguments : -1;                                                              \
    }

WRAP_OPEN(open64, (const char *path, int flags, ...), (path, flags, mode))
WRAP_OPEN(openat64, (int folder, const char *path, int flags, ...), (folder, path, flags, mode))
WRAP(int, eventfd, (unsigned value, int flags), DESCRIPTOR, -1, (value, flags))
WRAP(int, signalfd, (int fd, const sigset_t *set, int flags), DESCRIPTOR, -1, (fd, set, flags))
WRAP(int, socketpair, (int domain, int type, int protocol, int *ends), DESCRIPTOR, -1, (domain, type, protocol, ends))
WRAP(int, pipe2, (int *ends, int flags), DESCRIPTOR, -1, (ends, flags))
WRAP(int, dup2, (int from, int to), DESCRIPTOR, -1, (from, to))
WRAP(int, dup3, (int from, int to, int flags), DESCRIPTOR, -1, (from, to, flags))
WRAP(int, poll, (struct pollfd * sources, nfds_t count, int timeout), POLL, -1, (sources, count, timeout))
WRAP(ssize_t, read, (int fd, void *to, size_t size), TRANSFER, -1, (fd, to, size))
WRAP(ssize_t, write, (int fd, const void *from, size_t size), TRANSFER, -1, (fd, from, size))
WRAP(ssize_t, pread64, (int fd, void *to, size_t size, off64_t at), TRANSFER, -1, (fd, to, size, at))
WRAP(ssize_t, send, (int fd, const void *from, size_t size, int flags), MESSAGE, -1, (fd, from, size, flags))
WRAP(ssize_t, recv, (int fd, void *to, size_t size, int flags), MESSAGE, -1, (fd, to, size, flags))

int __real_close(int fd);
int __wrap_close(int fd);

/* Linux has closed it all the same. */
int __wrap_close(int fd)
{
    int error = fault(FAULT_CLOSE, __builtin_return_address(0));
    int result = __real_close(fd);
    if (error == 0)
        return result;
    errno = error;
    return -1;
}

/* --- System calls without a function of libc's, or past it -------------------------------------------------------- */

long __wrap_syscall(long number, ...);

/* FAULT_COUNT: it cannot fail so, or nothing would be told of it: who kills, wakes or masks is not heard of again. */
static enum fault_kind kind_of(long number, const long *more)
{
    switch (number) {
    case SYS_mmap:
        return FAULT_MAPPING;
    case SYS_munmap:
        return FAULT_UNMAPPING;
    case SYS_mprotect:
    case SYS_pkey_mprotect:
        return FAULT_PROTECTION;
    case SYS_madvise:
        return FAULT_ADVICE;
    case SYS_futex:
        return (more[1] & FUTEX_CMD_MASK) == FUTEX_WAKE ? FAULT_COUNT : FAULT_FUTEX;
    case SYS_tgkill:
        return more[2] >= SIGRTMIN ? FAULT_SIGNAL : FAULT_COUNT;
    case SYS_memfd_create:
    case SYS_eventfd2:
    case SYS_socketpair:
    case SYS_pipe2:
    case SYS_pidfd_open:
    case SYS_dup3:
        return FAULT_DESCRIPTOR;
    case SYS_ftruncate:
    case SYS_fcntl:
    case SYS_getsockopt:
    case SYS_ioctl:
        return FAULT_OBJECT;
    case SYS_close:
        return FAULT_CLOSE;
    case SYS_ppoll:
        return FAULT_POLL;
    case SYS_sendmsg:
    case SYS_recvmsg:
        return FAULT_MESSAGE;
    case SYS_capset:
    case SYS_seccomp:
    case SYS_landlock_create_ruleset:
    case SYS_landlock_add_rule:
    case SYS_landlock_restrict_self:
        return FAULT_LIMIT;
    default:
        return FAULT_COUNT;
    }
}

long __wrap_syscall(long number, ...)
{
    long more[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++)
        more[i] = va_arg(list, long);
    va_end(list);
    enum fault_kind kind = kind_of(number, more);
    int error = kind != FAULT_COUNT ? fault(kind, __builtin_return_address(0)) : 0;
    if (error == 0 || kind == FAULT_CLOSE) {
        long result = __real_syscall(number, more[0], more[1], more[2], more[3], more[4], more[5]);
        if (error == 0) {
            if (number == SYS_mmap && result != -1)
                note((void *)result, (size_t)more[1], true);
            else if (number == SYS_munmap)
                note((void *)more[0], (size_t)more[1], false);
            return result;
        }
    }
    if (number == SYS_munmap)
        note((void *)more[0], (size_t)more[1], false);
    errno = error;
    return -1;
}
