/* SPDX-License-Identifier: MIT
 *
 * Overrides of what starts threads and programs, and of what changes a thread's state and its specific values, with
 * what undoes that. Any thread. */
#include <errno.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stint/detail/api.h>
#include <sys/types.h>
#include <threads.h>
#include <unistd.h>

#include "alloc/interrupt/boundary.h"
#include "alloc/interrupt/signals.h"
#include "alloc/platform/backend.h"
#include "alloc/platform/caller.h"
#include "alloc/platform/libc.h"
#include "alloc/platform/module.h"
#include "alloc/platform/permanent.h"
#include "alloc/platform/process.h"
#include "alloc/platform/scope_state.h"
#include "alloc/platform/thread.h"
#include "alloc/rollback/quarantine.h"
#include "alloc/rollback/undo.h"

/* --- The start of threads. A thread of the program meets mimalloc before its function is called and not at its first
 * block, in the midst of which it could not join a profile (sti_thread_is_known). Threads that libc starts for itself
 * (timers, aio) meet mimalloc at their first block all the same. A thread is nobody's, whoever has started it. */

STINT_API int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *), void *arg);
STINT_API int thrd_create(thrd_t *thread, thrd_start_t function, void *arg);

/* What a thread is to run: one of the two functions, with this. */
struct start {
    void *(*function)(void *arg);
    thrd_start_t c11_function;
    void *arg;
};

static void thread_leave(void *unused)
{
    (void)unused;
    sti_boundary_leave_all();
}

static void *thread_begin(void *argument)
{
    const struct start start = *(struct start *)argument;
    struct _pthread_cleanup_buffer cleanup;
    sti_process_free(argument);
    sti_thread_begin();
    _pthread_cleanup_push(&cleanup, thread_leave, NULL);
    void *value = start.function != NULL ? start.function(start.arg) : (void *)(intptr_t)start.c11_function(start.arg);
    _pthread_cleanup_pop(&cleanup, 0);
    return value;
}

static int thread_create(pthread_t *thread, const pthread_attr_t *attributes, const struct start *wanted)
{
    STI_LIBC_FUNCTION(pthread_create)
    struct start *start = sti_process_malloc(sizeof *start);
    if (start == NULL)
        return EAGAIN;
    *start = *wanted;
    int error = real(thread, attributes, thread_begin, start);
    if (error != 0)
        sti_process_free(start);
    return error;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *), void *arg)
{
    return thread_create(thread, attributes, &(struct start){ .function = function, .arg = arg });
}

/* glibc's thrd_t is a pthread_t, and its thrd_join takes the result as it is made here. */
int thrd_create(thrd_t *thread, thrd_start_t function, void *arg)
{
    int error = thread_create(thread, NULL, &(struct start){ .c11_function = function, .arg = arg });
    return error == 0 ? thrd_success : error == ENOMEM ? thrd_nomem : thrd_error;
}

/* --- The end of threads: mimalloc looks through their pages there. It does so in the destructor of a key, which is
 * wrapped, so that heaps in quarantine are ended before. */

STINT_API int pthread_key_create(pthread_key_t *key, void (*destructor)(void *value));

typedef void destructor_fn(void *);

static destructor_fn *_Atomic backend_destructor;

static void end_quietly(void *value)
{
    struct sti_thread *thread = sti_thread_own();
    sti_boundary_end_thread();
    if (thread != NULL)
        sti_quarantine_end_thread(thread);
    atomic_load_explicit(&backend_destructor, memory_order_relaxed)(value);
}

static bool destructor_is_backend(destructor_fn *destructor)
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
    if (destructor_is_backend(destructor) &&
        atomic_compare_exchange_strong_explicit(&backend_destructor, &none, destructor, memory_order_relaxed,
                                                memory_order_relaxed))
        destructor = end_quietly;
    return sti_real_specific_create(key, destructor);
}

/* --- Overrides of the calls that set and delete thread-specific values, so that a scope can undo them. Any thread. */

STINT_API int pthread_setspecific(pthread_key_t key, const void *value);
STINT_API int tss_set(tss_t key, void *value);
STINT_API int pthread_key_delete(pthread_key_t key);
STINT_API void tss_delete(tss_t key);

static void undo_specific(struct sti_scope *scope, void *key, void *before)
{
    (void)scope;
    sti_real_specific_set((pthread_key_t)(uintptr_t)key, *(void **)before);
}

static const struct sti_undo_kind of_specific = {
    .size = sizeof(void *), .rule = STI_RULE_SPECIFIC, .sort = STI_UNDO_OF_THREAD, .undo = undo_specific
};

int pthread_setspecific(pthread_key_t key, const void *value)
{
    if (__builtin_expect(sti_thread_metered != NULL, 0)) {
        const void *before = pthread_getspecific(key);
        if (!sti_undo_add(&of_specific, (void *)(uintptr_t)key, &before))
            return ENOMEM;
    }
    return sti_real_specific_set(key, value);
}

/* glibc's tss_t is a pthread_key_t, and its tss_set is its pthread_setspecific. */
int tss_set(tss_t key, void *value)
{
    return pthread_setspecific(key, value) == 0 ? thrd_success : thrd_error;
}

/* Its number may come back as another key. */
int pthread_key_delete(pthread_key_t key)
{
    STI_LIBC_FUNCTION(pthread_key_delete)
    sti_undo_end(&of_specific, (void *)(uintptr_t)key, NULL);
    return real(key);
}

void tss_delete(tss_t key)
{
    pthread_key_delete(key);
}

/* --- Overrides of the calls that change what a thread has of libc and of the kernel, so that a scope can undo them:
 * code changes it for a while and puts it back itself, as parsers of numbers do with the locale; an interrupt comes in
 * between. Any thread. */

STINT_API locale_t uselocale(locale_t locale);
STINT_API int pthread_sigmask(int how, const sigset_t *set, sigset_t *before);
STINT_API int sigprocmask(int how, const sigset_t *set, sigset_t *before);
STINT_API int pthread_setcancelstate(int state, int *before);
STINT_API int pthread_setcanceltype(int type, int *before);

#define OF_THREAD(name, type)                                                                                          \
    static const struct sti_undo_kind of_##name = {                                                                    \
        .size = sizeof(type), .rule = STI_RULE_THREAD_STATE, .sort = STI_UNDO_OF_THREAD, .undo = undo_##name           \
    };

/* There is one of each in a thread, whose record is the key. */
static void thread_state_note(const struct sti_undo_kind *kind, const void *before)
{
    if (__builtin_expect(sti_thread_metered != NULL, 0))
        sti_undo_add(kind, sti_thread_metered, before);
}

static void undo_locale(struct sti_scope *scope, void *thread, void *before)
{
    (void)scope;
    (void)thread;
    uselocale(*(locale_t *)before);
}

OF_THREAD(locale, locale_t)

locale_t uselocale(locale_t locale)
{
    STI_LIBC_FUNCTION(uselocale)
    locale_t before = real(locale);
    if (locale != (locale_t)0 && before != (locale_t)0)
        thread_state_note(&of_locale, &before);
    return before;
}

static void undo_mask(struct sti_scope *scope, void *thread, void *before)
{
    (void)thread;
    if (scope->preemptible)
        sti_preempt_leave_as_before(before, scope->signal_was_blocked);
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

OF_THREAD(mask, sigset_t)

#define MASKING(name)                                                                                                  \
    int name(int how, const sigset_t *set, sigset_t *before)                                                           \
    {                                                                                                                  \
        STI_LIBC_FUNCTION(name)                                                                                        \
        sigset_t mine;                                                                                                 \
        int result = real(how, set, &mine);                                                                            \
        if (result == 0 && set != NULL)                                                                                \
            thread_state_note(&of_mask, &mine);                                                                        \
        if (result == 0 && before != NULL)                                                                             \
            *before = mine;                                                                                            \
        return result;                                                                                                 \
    }

MASKING(pthread_sigmask)
MASKING(sigprocmask)

#define CANCELLING(name)                                                                                               \
    static void undo_##name(struct sti_scope *scope, void *thread, void *before)                                       \
    {                                                                                                                  \
        int unused;                                                                                                    \
        (void)scope;                                                                                                   \
        (void)thread;                                                                                                  \
        name(*(int *)before, &unused);                                                                                 \
    }                                                                                                                  \
    OF_THREAD(name, int)                                                                                               \
    int name(int state, int *before)                                                                                   \
    {                                                                                                                  \
        STI_LIBC_FUNCTION(name)                                                                                        \
        int mine;                                                                                                      \
        int error = real(state, &mine);                                                                                \
        if (error == 0)                                                                                                \
            thread_state_note(&of_##name, &mine);                                                                      \
        if (error == 0 && before != NULL)                                                                              \
            *before = mine;                                                                                            \
        return error;                                                                                                  \
    }

CANCELLING(pthread_setcancelstate)
CANCELLING(pthread_setcanceltype)

/* --- Overrides of the calls that start a program, which is to have the signal mask that signals.h says. Any thread. */

typedef int spawn_fn(pid_t *child, const char *program, const posix_spawn_file_actions_t *actions,
                     const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[]);

STINT_API spawn_fn posix_spawn;
STINT_API spawn_fn posix_spawnp;

/* Attributes are plain values; a copy of them owns nothing. */
static int with_mask(spawn_fn *real, pid_t *child, const char *program, const posix_spawn_file_actions_t *actions,
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
        return real(child, program, actions, attributes, arguments, environment);
    posix_spawnattr_setflags(&changed, (short)(flags | POSIX_SPAWN_SETSIGMASK));
    posix_spawnattr_setsigmask(&changed, mask);
    return real(child, program, actions, &changed, arguments, environment);
}

#define SPAWNING(name)                                                                                                 \
    int name(pid_t *child, const char *program, const posix_spawn_file_actions_t *actions,                             \
             const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[])                  \
    {                                                                                                                  \
        STI_LIBC_FUNCTION(name)                                                                                        \
        return with_mask(real, child, program, actions, attributes, arguments, environment);                           \
    }

SPAWNING(posix_spawn)
SPAWNING(posix_spawnp)
