/* SPDX-License-Identifier: MIT
 *
 * Calls of the library's own that fail. The linker puts shim.c between the library's objects and the functions that
 * they call (-Wl,--wrap), so the library itself is as everybody has it, and no call of the program's or of another
 * library's fails. The state lies in memory that processes share: the calls of a wall's processes count, too. */
#ifndef TESTS_FAULTS_SHIM_H
#define TESTS_FAULTS_SHIM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* X(name, what it is, its errors: the one or the other in turn) */
#define FAULT_KINDS(X)                                                                                                 \
    X(ALLOCATION, "allocation", ENOMEM, ENOMEM)                                                                        \
    X(BACKEND, "page of mimalloc's", ENOMEM, EAGAIN)                                                                   \
    X(MAPPING, "mmap", ENOMEM, EAGAIN)                                                                                 \
    X(UNMAPPING, "munmap", ENOMEM, ENOMEM)                                                                             \
    X(PROTECTION, "mprotect", ENOMEM, EACCES)                                                                          \
    X(ADVICE, "madvise", ENOMEM, EAGAIN)                                                                               \
    X(THREAD, "pthread_create", EAGAIN, ENOMEM)                                                                        \
    X(PROCESS, "fork", EAGAIN, ENOMEM)                                                                                 \
    X(FUTEX, "futex", EINTR, EAGAIN)                                                                                   \
    X(SIGNAL, "signal", EAGAIN, EPERM)                                                                                 \
    X(POLL, "poll", EINTR, ENOMEM)                                                                                     \
    X(DESCRIPTOR, "descriptor", EMFILE, ENFILE)                                                                        \
    X(CLOSE, "close", EINTR, EIO)                                                                                      \
    X(TRANSFER, "read or write", EINTR, EIO)                                                                           \
    X(MESSAGE, "message", EINTR, ENOMEM)                                                                               \
    X(WAIT, "wait for a process", EINTR, EINTR)                                                                        \
    X(LOAD, "dlopen", ENOMEM, ENOMEM)                                                                                  \
    X(OBJECT, "object of libc's", ENOMEM, EAGAIN)                                                                      \
    X(LIMIT, "limit or privilege", EPERM, EINVAL)

enum fault_kind {
#define X(name, what, one, other) FAULT_##name,
    FAULT_KINDS(X)
#undef X
        FAULT_COUNT
};

struct faults {
    atomic_bool is_armed;
    atomic_int kind;        /* that fails; FAULT_COUNT: none does */
    atomic_ulong number;    /* which of them, from 1 on */
    atomic_bool for_ever;   /* and all after it */
    atomic_bool uses_other; /* error */
    atomic_ulong calls[FAULT_COUNT];
    atomic_ulong failed;    /* how many have */
    atomic_uintptr_t where; /* the return address of the last that has, in the library */
};

/* The library's state; NULL: nothing fails. Shared memory, made by the test before anything is armed. */
__attribute__((visibility("default"))) void faults_use(struct faults *faults);

/* Bytes that the library's own calls have mapped and not unmapped, in this process. */
__attribute__((visibility("default"))) long faults_mapped(void);

/* What is at an address of the library's, into text. */
__attribute__((visibility("default"))) void faults_name(unsigned long address, char *text, size_t size);

#endif
