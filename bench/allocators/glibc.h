/* SPDX-License-Identifier: MIT
 *
 * What glibc's own tests of malloc use of its support library, for bench/allocators/run, which gives each of their
 * headers this content. The library itself can only be built as a part of glibc. */
#ifndef GLIBC_SUPPORT_H
#define GLIBC_SUPPORT_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define array_length(array) (sizeof(array) / sizeof *(array))
#define DIAG_PUSH_NEEDS_COMMENT
#define DIAG_POP_NEEDS_COMMENT
#define DIAG_IGNORE_NEEDS_COMMENT(version, option)
#define DIAG_IGNORE_Os_NEEDS_COMMENT(version, option)
#define PTR_IS_ALIGNED(pointer, size) ((uintptr_t)(pointer) % (size) == 0)
#define MALLOC_ALIGNMENT 16
#define MALLOC_ALIGN_MASK 15
#define DEFAULT_TIMEOUT 20
#define SIZE_SZ 8
#define attribute_hidden

extern int support_failures;
extern bool test_verbose;
#define FAIL_RET(...) return support_say(__FILE__, __LINE__, __VA_ARGS__)
#define FAIL(...) support_say(__FILE__, __LINE__, __VA_ARGS__)
#define FAIL_EXIT(status, ...) (FAIL(__VA_ARGS__), exit(status))
#define FAIL_EXIT1(...) FAIL_EXIT(1, __VA_ARGS__)
#define FAIL_UNSUPPORTED(...) FAIL_EXIT(77, __VA_ARGS__)
#define TEST_VERIFY(what) ((what) ? (void)0 : (void)FAIL("not true: %s", #what))
#define TEST_VERIFY_EXIT(what) ((what) ? (void)0 : FAIL_EXIT1("not true: %s", #what))
#define TEST_COMPARE(one, other)                                                                                       \
    ((one) == (other) ? (void)0 : (void)FAIL("%s is not %s: %lld", #one, #other, (long long)(one)))

static __attribute__((unused)) int support_say(const char *file, int line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s:%d: ", file, line);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    support_failures++;
    return 1;
}

#define SUPPORT_CHECKED(type, call, bad)                                                                               \
    ({                                                                                                                 \
        type checked_ = (call);                                                                                        \
        if (checked_ == (bad))                                                                                         \
            FAIL_EXIT1("%s: %m", #call);                                                                               \
        checked_;                                                                                                      \
    })
#define SUPPORT_IS_0(call)                                                                                             \
    ({                                                                                                                 \
        int error_ = (call);                                                                                           \
        if (error_ != 0)                                                                                               \
            FAIL_EXIT1("%s: %s", #call, strerror(error_));                                                             \
    })
#define xmalloc(size) SUPPORT_CHECKED(void *, malloc(size), NULL)
#define xcalloc(count, size) SUPPORT_CHECKED(void *, calloc(count, size), NULL)
#define xrealloc(block, size) SUPPORT_CHECKED(void *, realloc(block, size), NULL)
#define xstrdup(text) SUPPORT_CHECKED(char *, strdup(text), NULL)
#define xfork() SUPPORT_CHECKED(pid_t, fork(), -1)
#define xwaitpid(pid, status, flags) SUPPORT_CHECKED(pid_t, waitpid(pid, status, flags), -1)
#define xopen(path, flags, mode) SUPPORT_CHECKED(int, open(path, flags, mode), -1)
#define xclose(fd) SUPPORT_CHECKED(int, close(fd), -1)
#define xmmap(at, size, protection, flags, fd)                                                                         \
    SUPPORT_CHECKED(void *, mmap(at, size, protection, flags, fd, 0), MAP_FAILED)
#define xmunmap(at, size) SUPPORT_CHECKED(int, munmap(at, size), -1)
#define xmprotect(at, size, protection) SUPPORT_CHECKED(int, mprotect(at, size, protection), -1)
#define xsysconf(name) SUPPORT_CHECKED(long, sysconf(name), -1)
#define xsignal(number, handler) SUPPORT_CHECKED(sighandler_t, signal(number, handler), SIG_ERR)
#define xpthread_join(thread)                                                                                          \
    ({                                                                                                                 \
        void *value_;                                                                                                  \
        SUPPORT_IS_0(pthread_join(thread, &value_));                                                                   \
        value_;                                                                                                        \
    })
#define xpthread_create(attributes, function, argument)                                                                \
    ({                                                                                                                 \
        pthread_t thread_;                                                                                             \
        SUPPORT_IS_0(pthread_create(&thread_, attributes, function, argument));                                        \
        thread_;                                                                                                       \
    })
#define xpthread_kill(thread, number) SUPPORT_IS_0(pthread_kill(thread, number))
#define xpthread_cancel(thread) SUPPORT_IS_0(pthread_cancel(thread))
#define xpthread_barrier_init(barrier, attributes, count) SUPPORT_IS_0(pthread_barrier_init(barrier, attributes, count))
#define xpthread_barrier_destroy(barrier) SUPPORT_IS_0(pthread_barrier_destroy(barrier))
#define xpthread_barrierattr_init(attributes) SUPPORT_IS_0(pthread_barrierattr_init(attributes))
#define xpthread_barrierattr_destroy(attributes) SUPPORT_IS_0(pthread_barrierattr_destroy(attributes))
#define xpthread_barrierattr_setpshared(attributes, shared)                                                            \
    SUPPORT_IS_0(pthread_barrierattr_setpshared(attributes, shared))

static __attribute__((unused)) void xpthread_barrier_wait(pthread_barrier_t *barrier)
{
    int error = pthread_barrier_wait(barrier);
    if (error != 0 && error != PTHREAD_BARRIER_SERIAL_THREAD)
        FAIL_EXIT1("pthread_barrier_wait: %s", strerror(error));
}

static __attribute__((unused)) void *support_shared_allocate(size_t size)
{
    return xmmap(NULL, size, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | MAP_SHARED, -1);
}

static __attribute__((unused)) void write_message(const char *text)
{
    if (write(STDERR_FILENO, text, strlen(text)) < 0)
        _exit(1);
}

#define support_shared_free(block) ((void)(block)) /* the process ends soon */

#endif
