/* SPDX-License-Identifier: MIT
 *
 * What a system may lack, as the emulation of another processor does, for tests in C and C++: each function tries it,
 * and says in a sentence what is missing; NULL: it is there. */
#ifndef TESTS_LACKS_H
#define TESTS_LACKS_H

#include <dirent.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static inline const char *lack_of_filters(void)
{
    uint32_t action = SECCOMP_RET_ERRNO;
    return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0
               ? NULL
               : "walls need seccomp, which this system does not have";
}

static inline const char *lack_of_pinned_threads(void)
{
#ifdef __GLIBC__
    return NULL;
#else
    return "this libc starts no thread on processors of its own";
#endif
}

static inline const char *lack_of_quarantine(void)
{
#ifdef __GLIBC__
    return NULL;
#else
    return "quarantine needs __cxa_thread_atexit_impl, which this libc does not have";
#endif
}

static inline const char *lack_of_unwound_ends(void)
{
#ifdef __GLIBC__
    return NULL;
#else
    return "this libc ends a thread without unwinding its stack";
#endif
}

static inline const char *lack_of_remote_reads(void)
{
    char byte = 1;
    char copy = 0;
    struct iovec from = { &byte, 1 };
    struct iovec to = { &copy, 1 };
    return syscall(SYS_process_vm_readv, getpid(), &to, 1UL, &from, 1UL, 0UL) == 1
               ? NULL
               : "what may not be readable is read by process_vm_readv, which this system does not have";
}

static inline const char *lack_of_robust_locks(void)
{
    void *list = NULL;
    size_t size = 0;
    return syscall(SYS_get_robust_list, 0, &list, &size) == 0
               ? NULL
               : "this system does not tell of locks whose thread has ended (set_robust_list)";
}

/* As the system counts them. */
static inline unsigned threads_of_the_process(void)
{
    unsigned count = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (const struct dirent *entry; tasks != NULL && (entry = readdir(tasks)) != NULL;)
        count += entry->d_name[0] != '.';
    if (tasks != NULL)
        closedir(tasks);
    return count;
}

/* Asked while the program has no other. Where there seem to be two, the child of a fork(2) has no scopes and no
 * pools. */
static inline const char *lack_of_lone_threads(void)
{
    return threads_of_the_process() == 1 ? NULL : "this system runs a thread of its own beside the program's only one";
}

/* Of a process, by a line of its status: has it the signal in that mask? */
static inline bool has_signal_in(pid_t process, const char *name, int signal)
{
    char path[64], line[256], format[32];
    unsigned long long mask = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)process);
    snprintf(format, sizeof format, "%s: %%llx", name);
    FILE *file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof line, file))
        sscanf(line, format, &mask);
    if (file != NULL)
        fclose(file);
    return (mask & 1ULL << (signal - 1)) != 0;
}

/* An emulation has handlers of its own for all signals, which the system tells of in the program's place. */
static inline const char *lack_of_told_handlers(void)
{
    struct sigaction action;
    bool is_default = sigaction(SIGUSR2, NULL, &action) == 0 && action.sa_handler == SIG_DFL;
    return is_default && has_signal_in(getpid(), "SigCgt", SIGUSR2)
               ? "this system does not tell which signals a program handles"
               : NULL;
}

/* Bytes of this process in memory, read without allocating; 0: the system does not say. */
static inline size_t resident(void)
{
    char text[128] = "";
    int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 0;
    bool is_read = read(file, text, sizeof text - 1) > 0;
    close(file);
    const char *second = is_read ? strchr(text, ' ') : NULL;
    return second != NULL ? strtoul(second, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE) : 0;
}

/* qemu-user 7.2 has a table of all pages of a mapping, of which a reservation of some TiB has too many. */
static inline const char *lack_of_free_reservations(void)
{
    enum { SIZE = 1 << 30, TABLES = 1 << 20 };
    size_t before = resident();
    void *reserved = mmap(NULL, SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    size_t after = resident();
    if (reserved != MAP_FAILED)
        munmap(reserved, SIZE);
    return after < before + TABLES ? NULL : "this system takes memory for what is only reserved";
}

/* --- What an emulation itself keeps of each thread that has ended: qemu-user 7.2 some hundred KiB. It is measured by
 * threads of which neither libc nor the library knows anything. --- */

#if defined(__SANITIZE_THREAD__)
#define MEASURES_THREADS 0 /* it takes each clone(2) for a fork(2) */
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MEASURES_THREADS 0
#endif
#endif
#ifndef MEASURES_THREADS
#define MEASURES_THREADS 1
#endif

static inline int end_at_once(void *arg)
{
    (void)arg;
    return 0;
}

/* False: none can be made. */
static inline bool have_raw_threads_ended(unsigned count)
{
    static char stack[64 << 10] __attribute__((aligned(16)));
    int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_CHILD_CLEARTID;
    while (MEASURES_THREADS && count-- > 0) {
        volatile pid_t alive = 1;
        if (clone(end_at_once, stack + sizeof stack, flags, NULL, NULL, NULL, &alive) < 0)
            return false;
        while (alive != 0)
            sched_yield();
    }
    return MEASURES_THREADS;
}

/* Of so many threads; 0 where the system does what it should. */
static inline size_t left_by_the_system(unsigned threads)
{
    enum { SAMPLE = 100, NOISE = 1 << 10 };
    static size_t of_each = SIZE_MAX;
    if (of_each == SIZE_MAX) {
        size_t before = have_raw_threads_ended(SAMPLE) ? resident() : SIZE_MAX;
        of_each = have_raw_threads_ended(SAMPLE) && resident() > before ? (resident() - before) / SAMPLE : 0;
        of_each = of_each > NOISE ? of_each : 0;
    }
    return threads * of_each;
}

#endif
