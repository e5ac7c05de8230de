/* SPDX-License-Identifier: MIT
 *
 * How much of this process is in memory; see resident.h.
 *
 * What is kept is published in three words, of which the descriptor is the last; a reader that sees words of two
 * generations takes its descriptor for another's, and opens one more, which does no harm. Who opens one holds the
 * lock, or where another does, does without keeping it. */
#include "resident.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plain_lock.h"

#define NONE (-1)
#define FIRST_BEHIND_STANDARD 3

static atomic_int kept = NONE;
static atomic_ulong kept_device;
static atomic_ulong kept_inode; /* the kernel gives it to no other file while this one is open */
static atomic_int kept_by;      /* the process */
static pthread_mutex_t renewing = PTHREAD_MUTEX_INITIALIZER;

static bool is_ours(int descriptor)
{
    struct stat status;
    return descriptor >= 0 && fstat(descriptor, &status) == 0 &&
           status.st_dev == atomic_load_explicit(&kept_device, memory_order_relaxed) &&
           status.st_ino == atomic_load_explicit(&kept_inode, memory_order_relaxed);
}

/* 0: it cannot be read, or is of a thread that has ended. */
static size_t read_from(int descriptor)
{
    char text[128];
    ssize_t length = pread(descriptor, text, sizeof text - 1, 0);
    if (length <= 0)
        return 0;
    text[length] = '\0';
    const char *pages = strchr(text, ' ');
    return pages != NULL ? strtoul(pages, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE) : 0;
}

static size_t read_kept(void)
{
    int descriptor = atomic_load_explicit(&kept, memory_order_acquire);
    bool is_own = atomic_load_explicit(&kept_by, memory_order_relaxed) == getpid();
    return is_own && is_ours(descriptor) ? read_from(descriptor) : 0;
}

/* The process's own is empty once its first thread has ended; then it is the calling thread's, for as long as there is
 * one. The error is errno. */
static int open_any(size_t *bytes)
{
    static const char *const paths[] = { "/proc/self/statm", "/proc/thread-self/statm" };
    int descriptor = NONE;
    for (size_t i = 0; i < sizeof paths / sizeof *paths && *bytes == 0; i++) {
        if (descriptor >= 0)
            close(descriptor);
        descriptor = open(paths[i], O_RDONLY | O_CLOEXEC);
        if (descriptor < 0)
            return NONE;
        *bytes = read_from(descriptor);
    }
    if (*bytes > 0)
        return descriptor;
    close(descriptor);
    errno = EIO;
    return NONE;
}

/* Not where a program expects one of the standard three that it has closed. */
static int moved_up(int descriptor)
{
    if (descriptor >= FIRST_BEHIND_STANDARD)
        return descriptor;
    int higher = fcntl(descriptor, F_DUPFD_CLOEXEC, FIRST_BEHIND_STANDARD);
    close(descriptor);
    return higher;
}

static void keep(int descriptor)
{
    struct stat status;
    if (descriptor < 0 || fstat(descriptor, &status) != 0)
        return;
    atomic_store_explicit(&kept_device, status.st_dev, memory_order_relaxed);
    atomic_store_explicit(&kept_inode, status.st_ino, memory_order_relaxed);
    atomic_store_explicit(&kept_by, getpid(), memory_order_relaxed);
    atomic_store_explicit(&kept, descriptor, memory_order_release);
}

/* Under the lock. What is kept and tells nothing any more makes room, so that there is a descriptor for the next. */
static size_t renew(void)
{
    size_t bytes = read_kept();
    if (bytes > 0)
        return bytes;
    int old = atomic_load_explicit(&kept, memory_order_relaxed);
    if (is_ours(old))
        close(old);
    atomic_store_explicit(&kept, NONE, memory_order_relaxed);
    keep(moved_up(open_any(&bytes)));
    return bytes;
}

static size_t read_once(void)
{
    size_t bytes = 0;
    int descriptor = open_any(&bytes);
    if (descriptor >= 0)
        close(descriptor);
    return bytes;
}

static size_t read_any(void)
{
    size_t bytes = read_kept();
    if (bytes > 0)
        return bytes;
    if (sti_plain_mutex_trylock(&renewing) != 0)
        return read_once();
    bytes = renew();
    int error = errno;
    sti_plain_mutex_unlock(&renewing);
    errno = error;
    return bytes;
}

int sti_resident_begin(void)
{
    errno = 0;
    return read_any() > 0 ? 0 : errno != 0 ? errno : EIO;
}

size_t sti_resident(void)
{
    int saved_errno = errno;
    size_t bytes = read_any();
    if (bytes == 0) {
        struct rusage usage;
        getrusage(RUSAGE_SELF, &usage);
        bytes = (size_t)usage.ru_maxrss * 1024;
    }
    errno = saved_errno;
    return bytes;
}

bool sti_resident_keeps(int descriptor)
{
    return descriptor == atomic_load_explicit(&kept, memory_order_acquire) && is_ours(descriptor);
}

/* At once: it may be about to change the root, and see no /proc any more. */
static void renew_in_child(void)
{
    pthread_mutex_init(&renewing, NULL);
    if (atomic_load_explicit(&kept, memory_order_relaxed) != NONE)
        sti_resident_begin();
}

__attribute__((constructor)) static void hear_of_forks(void)
{
    pthread_atfork(NULL, NULL, renew_in_child);
}
