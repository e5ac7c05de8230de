/* SPDX-License-Identifier: MIT
 *
 * For the mimalloc that becomes part of libstint: it asks the system for pages by system calls. libstint overrides what
 * it would call otherwise, to charge tasks what they map, and mimalloc's arenas are nobody's. */
#ifndef STINT_SYSTEM_CALLS_H
#define STINT_SYSTEM_CALLS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline void *stint_system_mmap(void *address, size_t length, int protection, int flags, int descriptor,
                                      off_t offset)
{
    return (void *)syscall(SYS_mmap, address, length, protection, flags, descriptor, offset);
}

static inline int stint_system_munmap(void *address, size_t length)
{
    return (int)syscall(SYS_munmap, address, length);
}

static inline int stint_system_mprotect(void *address, size_t length, int protection)
{
    return (int)syscall(SYS_mprotect, address, length, protection);
}

#define mmap stint_system_mmap
#define munmap stint_system_munmap
#define mprotect stint_system_mprotect

#endif
