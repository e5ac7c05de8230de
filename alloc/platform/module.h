/* SPDX-License-Identifier: MIT
 *
 * The modules of the process: what their symbols are called; and libc's own functions, whatever this library overrides.
 * Any thread. */
#ifndef STI_ALLOC_PLATFORM_MODULE_H
#define STI_ALLOC_PLATFORM_MODULE_H

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "libc.h"

/* --- What a module defines itself and lets others see, asked of the module. dlsym cannot be asked that: it goes on
 * from one module to others, in an order that depends on how the program is linked; it takes the loader's lock; and
 * where it is given a module that nobody has opened it ends the process. Any thread, before this library's start
 * too; the module must stay loaded. Takes no lock, allocates nothing. */

struct sti_module {
    uintptr_t base;
    const ElfW(Dyn) * dynamic; /* NULL: it has no tables */
};

/* The module that an address lies in; NULL: none. */
struct link_map *sti_module_of(const void *address);

/* The tables of a loaded module (NULL has none), and of a module that dl_iterate_phdr has come to. */
struct sti_module sti_module_loaded(const struct link_map *module);
struct sti_module sti_module_at(const struct dl_phdr_info *info);

/* What an entry of a module's dynamic section points to. The loader has made addresses of what are offsets in the file;
 * of the vDSO nobody has, and on riscv64 these sections are not written to. */
const void *sti_module_pointed_to(uintptr_t base, const ElfW(Dyn) * entry);

/* The address of a function or variable that the module defines, in its default version where it has several; NULL: it
 * defines none, or a function that is chosen as the program starts (an indirect one). */
void *sti_module_symbol(struct sti_module module, const char *name);

/* Does the loader look for this function or variable for it, among what all modules let others see? */
bool sti_module_imports(struct sti_module module, const char *name);

/* Whether it defines it at all, an indirect one too. */
bool sti_module_defines(const struct link_map *module, const char *name);

/* Where the calling thread has the thread-local variables of a module whose place is the same in every thread; 0: it is
 * not, or the module is not known. Of such a module that was loaded after the thread began dl_iterate_phdr says
 * nothing: the loader has set no pointer to the variables. Where it has said so to itself is told by libc to debuggers
 * alone (libthread_db), so it is tried out (assumption.h). */
uintptr_t sti_module_thread_variables(const struct link_map *module);

/* libc's own function, for the overrides that go on to it. */
void *sti_libc_function(const char *name);

/* The same, of an indirect function too: the code that it has chosen for this processor. Only to be compared. */
uintptr_t sti_libc_code(const char *name);

/* --- libc's own function of the same name, for an override of it that goes on to that. Any thread. --- */

/* Declares plain, which is it. Found at the first call, which takes no lock: so that may come before this library's
 * start, with any lock held, and in signal handlers. Two threads at once find the same. */
#define STI_LIBC_FUNCTION(name)                                                                                        \
    static __typeof__(name) *_Atomic found;                                                                            \
    __typeof__(name) *real = atomic_load_explicit(&found, memory_order_relaxed);                                       \
    if (__builtin_expect(real == NULL, 0)) {                                                                           \
        *(void **)&real = sti_libc_function(#name);                                                                    \
        atomic_store_explicit(&found, real, memory_order_relaxed);                                                     \
    }

/* --- libc's own functions of locks and specific values, whatever this library overrides: a lock taken with these does
 * not make interrupts wait, and a value set with these is no task's. Any thread. Without overrides they are called by
 * their names, so that a sanitizer sees them. */

#if STI_OVERRIDES
int sti_real_mutex_lock(pthread_mutex_t *mutex);
int sti_real_mutex_trylock(pthread_mutex_t *mutex);
int sti_real_mutex_clocklock(pthread_mutex_t *mutex, clockid_t clock, const struct timespec *until);
int sti_real_mutex_unlock(pthread_mutex_t *mutex);
int sti_real_rwlock_rdlock(pthread_rwlock_t *lock);
int sti_real_rwlock_wrlock(pthread_rwlock_t *lock);
int sti_real_rwlock_clockwrlock(pthread_rwlock_t *lock, clockid_t clock, const struct timespec *until);
int sti_real_rwlock_unlock(pthread_rwlock_t *lock);
int sti_real_specific_create(pthread_key_t *key, void (*destructor)(void *value));
int sti_real_specific_set(pthread_key_t key, const void *value);
#else
#define sti_real_specific_create pthread_key_create
#define sti_real_specific_set pthread_setspecific
#define sti_real_mutex_lock pthread_mutex_lock
#define sti_real_mutex_trylock pthread_mutex_trylock
#define sti_real_mutex_unlock pthread_mutex_unlock
#define sti_real_rwlock_rdlock pthread_rwlock_rdlock
#define sti_real_rwlock_wrlock pthread_rwlock_wrlock
#define sti_real_rwlock_unlock pthread_rwlock_unlock
#if defined __SANITIZE_THREAD__
/* The sanitizer does not know the other. */
#define sti_real_rwlock_clockwrlock(lock, clock, until) ((void)(until), pthread_rwlock_trywrlock(lock))
#define sti_real_mutex_clocklock(mutex, clock, until) ((void)(until), sched_yield(), sti_timed_out(mutex))
static inline int sti_timed_out(pthread_mutex_t *mutex)
{
    int answer = pthread_mutex_trylock(mutex);
    return answer == EBUSY ? ETIMEDOUT : answer;
}
#else
#define sti_real_mutex_clocklock pthread_mutex_clocklock
#define sti_real_rwlock_clockwrlock pthread_rwlock_clockwrlock
#endif
#endif

/* --- libc's own longjmp, whatever this library overrides: a jump to a resume point of ours has seen to what it passes.
 * Any thread. */

#if STI_OVERRIDES
_Noreturn void sti_real_longjmp(struct __jmp_buf_tag *resume_point, int value);

/* The stack pointer that the code at the resume point has: libc does not say where it keeps it (assumption.h). */
uintptr_t sti_resume_point_stack_pointer(const struct __jmp_buf_tag *resume_point);

/* At start, before that. */
void sti_resume_point_learn(void);
#else
#define sti_real_longjmp longjmp
#endif

#endif
