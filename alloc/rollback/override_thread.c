/* SPDX-License-Identifier: MIT
 *
 * Overrides of what starts threads and programs, and of what changes a thread's state and its specific values. Any
 * thread. */
#include <errno.h>
#include <locale.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stint/api.h>
#include <sys/types.h>
#include <threads.h>
#include <unistd.h>

#include "alloc/base/backend.h"
#include "alloc/base/caller.h"
#include "alloc/base/lasting.h"
#include "alloc/base/module.h"
#include "alloc/base/process.h"
#include "alloc/base/thread.h"
#include "alloc/interrupt/signals.h"
#include "kept.h"
#include "thread_state.h"

/* --- The start of threads. A thread of the program meets mimalloc before its function is called and not at its first
 * block: mimalloc takes locks there that it does not look after at a fork(2), so it does so while none happens
 * (process.h). Threads that libc starts for itself (timers, aio) meet mimalloc at their first block all the same. A
 * thread is nobody's, whoever has started it. */

STINT_API int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *), void *arg);
STINT_API int thrd_create(thrd_t *thread, thrd_start_t function, void *arg);

/* What a thread is to run: one of the two functions, with this. */
struct start {
    void *(*function)(void *arg);
    thrd_start_t c11_function;
    void *arg;
};

static void *begin(void *argument)
{
    const struct start start = *(struct start *)argument;
    sti_process_free(argument);
    sti_thread_begin();
    return start.function != NULL ? start.function(start.arg) : (void *)(intptr_t)start.c11_function(start.arg);
}

static int create(pthread_t *thread, const pthread_attr_t *attributes, const struct start *wanted)
{
    STI_LIBC_FUNCTION(pthread_create)
    struct start *start = sti_process_malloc(sizeof *start);
    if (start == NULL)
        return EAGAIN;
    *start = *wanted;
    int error = plain(thread, attributes, begin, start);
    if (error != 0)
        sti_process_free(start);
    return error;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *), void *arg)
{
    return create(thread, attributes, &(struct start){ .function = function, .arg = arg });
}

/* glibc's thrd_t is a pthread_t, and its thrd_join takes the result as it is made here. */
int thrd_create(thrd_t *thread, thrd_start_t function, void *arg)
{
    int error = create(thread, NULL, &(struct start){ .c11_function = function, .arg = arg });
    return error == 0 ? thrd_success : error == ENOMEM ? thrd_nomem : thrd_error;
}

/* --- The end of threads: mimalloc takes locks there, too. It does so in the destructor of a key, which is wrapped. */

STINT_API int pthread_key_create(pthread_key_t *key, void (*destructor)(void *value));

typedef void destructor_fn(void *);

static destructor_fn *_Atomic backend_destructor;

static void end_quietly(void *value)
{
    struct sti_thread *thread = sti_thread_own();
    if (thread != NULL)
        sti_quarantine_end_thread(thread);
    atomic_load_explicit(&backend_destructor, memory_order_relaxed)(value);
}

static bool is_backend(destructor_fn *destructor)
{
    const struct link_map *module = sti_module_of((const void *)(uintptr_t)destructor);
    return destructor != NULL && module == sti_module_of(sti_backend_address());
}

/* mimalloc has one key. This library's own are made by libc's function: they may be in the same module. A
 * runtime of OpenMP makes one before its first team, so that one that has come by dlopen is known by then. */
int pthread_key_create(pthread_key_t *key, void (*destructor)(void *value))
{
    sti_keep_openmp(STI_CALLER());
    destructor_fn *none = NULL;
    if (is_backend(destructor) && atomic_compare_exchange_strong_explicit(&backend_destructor, &none, destructor,
                                                                          memory_order_relaxed, memory_order_relaxed))
        destructor = end_quietly;
    return sti_specific_create_plain(key, destructor);
}

/* --- Overrides of the calls that set and delete thread-specific values, so that a scope can undo them. Any thread. */

STINT_API int pthread_setspecific(pthread_key_t key, const void *value);
STINT_API int tss_set(tss_t key, void *value);
STINT_API int pthread_key_delete(pthread_key_t key);
STINT_API void tss_delete(tss_t key);

int pthread_setspecific(pthread_key_t key, const void *value)
{
    struct sti_thread *thread = sti_thread_metered;
    if (__builtin_expect(thread != NULL, 0) && !sti_specific_record(thread->scope, key))
        return ENOMEM;
    return sti_specific_set_plain(key, value);
}

/* glibc's tss_t is a pthread_key_t, and its tss_set is its pthread_setspecific. */
int tss_set(tss_t key, void *value)
{
    return pthread_setspecific(key, value) == 0 ? thrd_success : thrd_error;
}

int pthread_key_delete(pthread_key_t key)
{
    struct sti_thread *thread = sti_thread_metered;
    if (__builtin_expect(thread != NULL, 0))
        sti_specific_forget(thread->scope, key);
    int (*plain)(pthread_key_t);
    *(void **)&plain = sti_libc_function("pthread_key_delete");
    return plain(key);
}

void tss_delete(tss_t key)
{
    pthread_key_delete(key);
}

/* --- Overrides of the calls that change what a thread has of libc and of the kernel, so that a scope can undo them
 * (thread_state.h). Any thread. */

STINT_API locale_t uselocale(locale_t locale);
STINT_API int pthread_sigmask(int how, const sigset_t *set, sigset_t *before);
STINT_API int sigprocmask(int how, const sigset_t *set, sigset_t *before);
STINT_API int pthread_setcancelstate(int state, int *before);
STINT_API int pthread_setcanceltype(int type, int *before);
STINT_API int sigaltstack(const stack_t *stack, stack_t *before);
STINT_API int sched_setaffinity(pid_t thread, size_t size, const cpu_set_t *processors);
STINT_API int pthread_setaffinity_np(pthread_t thread, size_t size, const cpu_set_t *processors);
STINT_API int sched_setscheduler(pid_t thread, int policy, const struct sched_param *priority);
STINT_API int sched_setparam(pid_t thread, const struct sched_param *priority);
STINT_API int pthread_setschedparam(pthread_t thread, int policy, const struct sched_param *priority);

typedef locale_t locale_fn(locale_t);
typedef int mask_fn(int, const sigset_t *, sigset_t *);
typedef int cancel_fn(int, int *);
typedef int stack_fn(const stack_t *, stack_t *);
typedef int affinity_fn(pid_t, size_t, const cpu_set_t *);
typedef int thread_affinity_fn(pthread_t, size_t, const cpu_set_t *);
typedef int scheduler_fn(pid_t, int, const struct sched_param *);
typedef int param_fn(pid_t, const struct sched_param *);
typedef int thread_param_fn(pthread_t, int, const struct sched_param *);

/* Two threads at once find the same. */
#define PLAIN(type, name)                                                                                              \
    static type *_Atomic found;                                                                                        \
    type *plain = atomic_load_explicit(&found, memory_order_relaxed);                                                  \
    if (__builtin_expect(plain == NULL, 0)) {                                                                          \
        *(void **)&plain = sti_libc_function(name);                                                                    \
        atomic_store_explicit(&found, plain, memory_order_relaxed);                                                    \
    }

locale_t uselocale(locale_t locale)
{
    PLAIN(locale_fn, "uselocale")
    locale_t before = plain(locale);
    if (__builtin_expect(sti_thread_metered != NULL, 0) && locale != (locale_t)0 && before != (locale_t)0)
        sti_thread_state_locale(sti_thread_metered->scope, before);
    return before;
}

int pthread_sigmask(int how, const sigset_t *set, sigset_t *before)
{
    PLAIN(mask_fn, "pthread_sigmask")
    if (__builtin_expect(sti_thread_metered == NULL, 1) || set == NULL)
        return plain(how, set, before);
    sigset_t mine;
    int error = plain(how, set, &mine);
    if (error != 0)
        return error;
    sti_thread_state_mask(sti_thread_metered->scope, &mine);
    if (before != NULL)
        *before = mine;
    return 0;
}

int sigprocmask(int how, const sigset_t *set, sigset_t *before)
{
    PLAIN(mask_fn, "sigprocmask")
    if (__builtin_expect(sti_thread_metered == NULL, 1) || set == NULL)
        return plain(how, set, before);
    sigset_t mine;
    int result = plain(how, set, &mine);
    if (result != 0)
        return result;
    sti_thread_state_mask(sti_thread_metered->scope, &mine);
    if (before != NULL)
        *before = mine;
    return 0;
}

int pthread_setcancelstate(int state, int *before)
{
    PLAIN(cancel_fn, "pthread_setcancelstate")
    int mine;
    int error = plain(state, &mine);
    if (error == 0 && sti_thread_metered != NULL)
        sti_thread_state_cancel(sti_thread_metered->scope, mine);
    if (error == 0 && before != NULL)
        *before = mine;
    return error;
}

int pthread_setcanceltype(int type, int *before)
{
    PLAIN(cancel_fn, "pthread_setcanceltype")
    int mine;
    int error = plain(type, &mine);
    if (error == 0 && sti_thread_metered != NULL)
        sti_thread_state_cancel_type(sti_thread_metered->scope, mine);
    if (error == 0 && before != NULL)
        *before = mine;
    return error;
}

/* A stack for signals may be the task's memory. */
int sigaltstack(const stack_t *stack, stack_t *before)
{
    PLAIN(stack_fn, "sigaltstack")
    stack_t mine;
    int result = plain(stack, &mine);
    if (result != 0)
        return result;
    if (stack != NULL && sti_thread_metered != NULL)
        sti_thread_state_stack(sti_thread_metered->scope, &mine);
    if (before != NULL)
        *before = mine;
    return 0;
}

/* --- How the thread is scheduled ---------------------------------------------------------------------------------- */

static bool is_own(pid_t thread)
{
    return thread == 0 || thread == gettid();
}

static void note_processors(bool own)
{
    cpu_set_t before;
    if (own && sti_thread_metered != NULL && sched_getaffinity(0, sizeof before, &before) == 0)
        sti_thread_state_processors(sti_thread_metered->scope, &before);
}

static void note_scheduling(bool own)
{
    struct sched_param before;
    if (!own || sti_thread_metered == NULL)
        return;
    int policy = sched_getscheduler(0);
    if (policy >= 0 && sched_getparam(0, &before) == 0)
        sti_thread_state_scheduling(sti_thread_metered->scope, policy, &before);
}

int sched_setaffinity(pid_t thread, size_t size, const cpu_set_t *processors)
{
    PLAIN(affinity_fn, "sched_setaffinity")
    note_processors(is_own(thread));
    return plain(thread, size, processors);
}

int pthread_setaffinity_np(pthread_t thread, size_t size, const cpu_set_t *processors)
{
    PLAIN(thread_affinity_fn, "pthread_setaffinity_np")
    note_processors(pthread_equal(thread, pthread_self()));
    return plain(thread, size, processors);
}

int sched_setscheduler(pid_t thread, int policy, const struct sched_param *priority)
{
    PLAIN(scheduler_fn, "sched_setscheduler")
    note_scheduling(is_own(thread));
    return plain(thread, policy, priority);
}

int sched_setparam(pid_t thread, const struct sched_param *priority)
{
    PLAIN(param_fn, "sched_setparam")
    note_scheduling(is_own(thread));
    return plain(thread, priority);
}

int pthread_setschedparam(pthread_t thread, int policy, const struct sched_param *priority)
{
    PLAIN(thread_param_fn, "pthread_setschedparam")
    note_scheduling(pthread_equal(thread, pthread_self()));
    return plain(thread, policy, priority);
}

/* --- Overrides of the calls that start a program, which is to have the signal mask that signals.h says. Any thread. */

typedef int spawn_fn(pid_t *child, const char *program, const posix_spawn_file_actions_t *actions,
                     const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[]);

STINT_API spawn_fn posix_spawn;
STINT_API spawn_fn posix_spawnp;

/* Attributes are plain values; a copy of them owns nothing. */
static int with_mask(spawn_fn *plain, pid_t *child, const char *program, const posix_spawn_file_actions_t *actions,
                     const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[])
{
    posix_spawnattr_t changed;
    short flags = 0;
    sigset_t wanted;
    if (attributes != NULL) {
        changed = *attributes;
        posix_spawnattr_getflags(&changed, &flags);
    } else {
        posix_spawnattr_init(&changed);
    }
    if ((flags & POSIX_SPAWN_SETSIGMASK) != 0)
        posix_spawnattr_getsigmask(&changed, &wanted);
    else
        pthread_sigmask(SIG_SETMASK, NULL, &wanted);
    const sigset_t *mask = sti_child_mask(&wanted);
    if (mask == &wanted)
        return plain(child, program, actions, attributes, arguments, environment);
    posix_spawnattr_setflags(&changed, (short)(flags | POSIX_SPAWN_SETSIGMASK));
    posix_spawnattr_setsigmask(&changed, mask);
    return plain(child, program, actions, &changed, arguments, environment);
}

#define SPAWNING(name)                                                                                                 \
    int name(pid_t *child, const char *program, const posix_spawn_file_actions_t *actions,                             \
             const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[])                  \
    {                                                                                                                  \
        STI_LIBC_FUNCTION(name)                                                                                        \
        return with_mask(plain, child, program, actions, attributes, arguments, environment);                          \
    }

SPAWNING(posix_spawn)
SPAWNING(posix_spawnp)
