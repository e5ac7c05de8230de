/* SPDX-License-Identifier: MIT
 *
 * What the C library and its loader offer beyond POSIX, under glibc's names. glibc has it; for musl it is declared
 * here, and libc.c makes it of what musl has. A later musl that has one of these itself does not compile with this. Any
 * thread, unless a line says otherwise. */
#ifndef STI_ALLOC_PLATFORM_LIBC_H
#define STI_ALLOC_PLATFORM_LIBC_H

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <spawn.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

/* The name of the symbol that the address really lies in, which its module lets others see; NULL: none. */
const char *sti_libc_symbol(const void *address);

/* The folder that the module of the address was loaded from, in PATH_MAX bytes. */
bool sti_libc_folder(const void *address, char *folder);

typedef int sti_libc_visit_fn(struct dl_phdr_info *module, size_t size, void *arg);

#if defined __GLIBC__
#include <execinfo.h>
#include <sys/single_threaded.h>

#define STI_LIBC_PINS_THREADS 1
#define STI_LIBC_UNWINDS_THREADS 1  /* the frames of one that ends have gone when its destructors run */
#define STI_LIBC_KEYS_IN_THREADS 32 /* so many keys have their values in the thread itself */

/* glibc calls what is pushed here when the thread ends: where it comes to that frame, or to the end of another stack
 * that the thread has ended on. It unwinds that one only, so all frames below are still there then. (The macros of
 * pthread.h push what is called after a jump to the frame, or by an unwind that comes to it.) */
void _pthread_cleanup_push(struct _pthread_cleanup_buffer *buffer, void (*function)(void *arg), void *arg);
void _pthread_cleanup_pop(struct _pthread_cleanup_buffer *buffer, int runs);

/* glibc's own index of modules is always true. */
static inline void sti_libc_look(void)
{
}

static inline int sti_libc_visit(sti_libc_visit_fn *visit, void *arg)
{
    return dl_iterate_phdr(visit, arg);
}
#else

/* --- Modules. musl never unloads one, and has no index that can be asked without a lock. So the library has a list of
 * its own that only grows, and is read without a lock, in signal handlers too. It is as the loader's was at the last
 * look: code that a task loads is unknown, and so not left, until the next task begins. */

struct dl_find_object {
    unsigned long long dlfo_flags;
    void *dlfo_map_start;
    void *dlfo_map_end;
    struct link_map *dlfo_link_map; /* ours */
    void *dlfo_eh_frame;
#if defined __aarch64__ || defined __riscv || defined __x86_64__
    unsigned long long reserved[7];
#else
#error "gcc/unwind-dw2-fde-dip.c says how this structure goes on here"
#endif
};

/* Debian's libgcc_eh.a calls it as well. */
__attribute__((visibility("hidden"))) int _dl_find_object(void *address, struct dl_find_object *found);

/* Its list is ours, the program first. Loader and libc are one module here: r_ldbase is no module's. */
extern struct r_debug _r_debug __attribute__((visibility("hidden")));

/* Has anything been loaded? 20 ns. Not in a signal handler, as it takes the loader's lock where that is so. */
void sti_libc_look(void);

/* As dl_iterate_phdr, and as glibc does it: the program comes first, and its name is "". */
int sti_libc_visit(sti_libc_visit_fn *visit, void *arg);

/* --- Clocks: musl waits by its own clock for what is left of the time when a wait begins. --- */

int sem_clockwait(sem_t *semaphore, clockid_t clock, const struct timespec *until);
int pthread_mutex_clocklock(pthread_mutex_t *mutex, clockid_t clock, const struct timespec *until);
int pthread_rwlock_clockwrlock(pthread_rwlock_t *lock, clockid_t clock, const struct timespec *until);

/* --- Threads and processes. --- */

#define PTHREAD_MUTEX_ADAPTIVE_NP PTHREAD_MUTEX_NORMAL
#define PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP PTHREAD_RWLOCK_INITIALIZER
#define __libc_single_threaded 0 /* nobody says so: the threads are counted */
#define STI_LIBC_PINS_THREADS 0  /* no thread can begin on processors of its own */
#define STI_LIBC_UNWINDS_THREADS 0
#define STI_LIBC_KEYS_IN_THREADS PTHREAD_KEYS_MAX
#define __SIGRTMIN 32
typedef int __rlimit_resource_t;

int pthread_attr_setaffinity_np(pthread_attr_t *attributes, size_t size, const cpu_set_t *set);

/* Not 0: musl has none, so nothing is run. */
__attribute__((visibility("hidden"))) int __cxa_thread_atexit_impl(void (*function)(void *), void *argument,
                                                                   void *module);

/* ENOTSUP: what nobody lists cannot be closed. */
int posix_spawn_file_actions_addclosefrom_np(posix_spawn_file_actions_t *actions, int from);

/* The status that the function gets is EXIT_FAILURE: musl tells its own handlers none. One function for the process. */
int on_exit(void (*function)(int status, void *argument), void *argument);

/* --- Words. --- */

void backtrace_symbols_fd(void *const *frames, int count, int fd);
const char *sigabbrev_np(int number);
const char *strerrordesc_np(int error);
#endif

#endif
