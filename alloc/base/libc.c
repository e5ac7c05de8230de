/* SPDX-License-Identifier: MIT
 *
 * libc's own functions of locks and jumps; see libc.h. Without overrides there is nothing here. Any thread. */
#include "libc.h"

#include <stdatomic.h>

#include "module.h"

#if STI_OVERRIDES

/* One line for each: X(plain, name, parameters, arguments). */
#define PLAIN_FUNCTIONS(X)                                                                                             \
    X(sti_plain_mutex_lock, pthread_mutex_lock, (pthread_mutex_t * mutex), (mutex))                                    \
    X(sti_plain_mutex_trylock, pthread_mutex_trylock, (pthread_mutex_t * mutex), (mutex))                              \
    X(sti_plain_mutex_clocklock, pthread_mutex_clocklock,                                                              \
      (pthread_mutex_t * mutex, clockid_t clock, const struct timespec *until), (mutex, clock, until))                 \
    X(sti_plain_mutex_unlock, pthread_mutex_unlock, (pthread_mutex_t * mutex), (mutex))                                \
    X(sti_plain_rwlock_rdlock, pthread_rwlock_rdlock, (pthread_rwlock_t * lock), (lock))                               \
    X(sti_plain_rwlock_wrlock, pthread_rwlock_wrlock, (pthread_rwlock_t * lock), (lock))                               \
    X(sti_plain_rwlock_unlock, pthread_rwlock_unlock, (pthread_rwlock_t * lock), (lock))

/* Until they are found each is one that finds them all: the first call may come from a constructor before ours, but must not
 * come with a lock held, under which the loader's would be taken. relaxed: what the pointers lead to was there before this
 * library, and two threads at once find the same. */
#define POINTER(plain, name, parameters, arguments)                                                                    \
    static int first_##name parameters;                                                                                \
    static int(*_Atomic libc_##name) parameters = first_##name;
#define FIND(plain, name, parameters, arguments)                                                                       \
    {                                                                                                                  \
        int(*found) parameters;                                                                                        \
        *(void **)&found = sti_libc_function(#name);                                                                   \
        atomic_store_explicit(&libc_##name, found, memory_order_relaxed);                                              \
    }
#define LIBC(name) atomic_load_explicit(&libc_##name, memory_order_relaxed)
#define FIRST_CALL(plain, name, parameters, arguments)                                                                 \
    __attribute__((cold)) static int first_##name parameters                                                           \
    {                                                                                                                  \
        find_all();                                                                                                    \
        return LIBC(name) arguments;                                                                                   \
    }
#define PLAIN(plain, name, parameters, arguments)                                                                      \
    int plain parameters                                                                                               \
    {                                                                                                                  \
        return LIBC(name) arguments;                                                                                   \
    }

PLAIN_FUNCTIONS(POINTER)

__attribute__((constructor)) static void find_all(void)
{
    PLAIN_FUNCTIONS(FIND)
}

PLAIN_FUNCTIONS(FIRST_CALL)
PLAIN_FUNCTIONS(PLAIN)

/* siglongjmp is what libc calls all of them. Two threads at once find the same. */
_Noreturn void sti_plain_longjmp(struct __jmp_buf_tag *landing, int value)
{
    typedef void jump_fn(struct __jmp_buf_tag *, int);
    static jump_fn *_Atomic found;
    jump_fn *plain = atomic_load_explicit(&found, memory_order_relaxed);
    if (__builtin_expect(plain == NULL, 0)) {
        *(void **)&plain = sti_libc_function("siglongjmp");
        atomic_store_explicit(&found, plain, memory_order_relaxed);
    }
    plain(landing, value);
    __builtin_unreachable();
}

#endif
