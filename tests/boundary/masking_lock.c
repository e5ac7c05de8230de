/* SPDX-License-Identifier: MIT
 *
 * Automatic masking while the task's code holds a lock, of every kind and taken by every function that takes one, and
 * while it runs a once. */
#include "masking.h"

#include <errno.h>
#include <threads.h>
#include <time.h>

#include "lacks.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spinlock;
static mtx_t c_mutex;
static cnd_t c_condition;

/* A way to take a lock, to let it go, and to see whether another thread can have it. */
struct lock {
    const char *name;
    int (*take)(void);
    int (*release)(void);
    int (*try)(void);
};

static const struct timespec long_past = { 1, 0 };

static struct timespec far_ahead(clockid_t clock)
{
    struct timespec time;
    REQUIRE(clock_gettime(clock, &time) == 0);
    time.tv_sec += 1000;
    return time;
}

#define TAKE(name, call)                                                                                               \
    static int name(void)                                                                                              \
    {                                                                                                                  \
        return (call);                                                                                                 \
    }
#define TAKE_UNTIL(name, clock, call)                                                                                  \
    static int name(void)                                                                                              \
    {                                                                                                                  \
        struct timespec until = far_ahead(clock);                                                                      \
        return (call);                                                                                                 \
    }

TAKE(mutex_lock, pthread_mutex_lock(&mutex))
TAKE(mutex_trylock, pthread_mutex_trylock(&mutex))
TAKE_UNTIL(mutex_timedlock, CLOCK_REALTIME, pthread_mutex_timedlock(&mutex, &until))
TAKE_UNTIL(mutex_clocklock, CLOCK_MONOTONIC, pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &until))
TAKE(mutex_unlock, pthread_mutex_unlock(&mutex))
TAKE(rwlock_rdlock, pthread_rwlock_rdlock(&rwlock))
TAKE(rwlock_tryrdlock, pthread_rwlock_tryrdlock(&rwlock))
TAKE_UNTIL(rwlock_timedrdlock, CLOCK_REALTIME, pthread_rwlock_timedrdlock(&rwlock, &until))
TAKE_UNTIL(rwlock_clockrdlock, CLOCK_MONOTONIC, pthread_rwlock_clockrdlock(&rwlock, CLOCK_MONOTONIC, &until))
TAKE(rwlock_wrlock, pthread_rwlock_wrlock(&rwlock))
TAKE(rwlock_trywrlock, pthread_rwlock_trywrlock(&rwlock))
TAKE_UNTIL(rwlock_timedwrlock, CLOCK_REALTIME, pthread_rwlock_timedwrlock(&rwlock, &until))
TAKE_UNTIL(rwlock_clockwrlock, CLOCK_MONOTONIC, pthread_rwlock_clockwrlock(&rwlock, CLOCK_MONOTONIC, &until))
TAKE(rwlock_unlock, pthread_rwlock_unlock(&rwlock))
TAKE(spin_lock, pthread_spin_lock(&spinlock))
TAKE(spin_trylock, pthread_spin_trylock(&spinlock))
TAKE(spin_unlock, pthread_spin_unlock(&spinlock))
TAKE(c_lock, mtx_lock(&c_mutex))
TAKE(c_trylock, mtx_trylock(&c_mutex))
TAKE_UNTIL(c_timedlock, CLOCK_REALTIME, mtx_timedlock(&c_mutex, &until))
TAKE(c_unlock, mtx_unlock(&c_mutex))
TAKE(stream_trylock, ftrylockfile(stderr))

static int stream_lock(void)
{
    flockfile(stderr);
    return 0;
}

static int stream_unlock(void)
{
    funlockfile(stderr);
    return 0;
}

/* A wait gives the mutex back and takes it again. */
static int wait_once(void)
{
    REQUIRE(pthread_mutex_lock(&mutex) == 0);
    return pthread_cond_timedwait(&condition, &mutex, &long_past) == ETIMEDOUT ? 0 : -1;
}

static int c_wait_once(void)
{
    REQUIRE(mtx_lock(&c_mutex) == thrd_success);
    return cnd_timedwait(&c_condition, &c_mutex, &long_past) == thrd_timedout ? 0 : -1;
}

/* Held twice, released once. */
static int lock_twice(void)
{
    REQUIRE(mtx_lock(&c_mutex) == thrd_success && mtx_lock(&c_mutex) == thrd_success);
    return mtx_unlock(&c_mutex);
}

/* More locks than are remembered by name, released oldest first, all but one. */
static int lock_many(void)
{
    static pthread_mutex_t others[20];
    for (int i = 0; i < 20; i++)
        REQUIRE(pthread_mutex_init(&others[i], NULL) == 0 && pthread_mutex_lock(&others[i]) == 0);
    int error = pthread_mutex_lock(&mutex);
    for (int i = 0; i < 20; i++)
        REQUIRE(pthread_mutex_unlock(&others[i]) == 0);
    return error;
}

static int die_with_it(void *unused)
{
    (void)unused;
    return pthread_mutex_lock(&mutex);
}

/* A robust mutex of a thread that ended with it. */
static int lock_a_robust_one(void)
{
    thrd_t thread;
    REQUIRE(thrd_create(&thread, die_with_it, NULL) == thrd_success && thrd_join(thread, NULL) == thrd_success);
    REQUIRE(pthread_mutex_lock(&mutex) == EOWNERDEAD);
    return pthread_mutex_consistent(&mutex);
}

static void make_robust(void)
{
    pthread_mutexattr_t robust;
    REQUIRE(pthread_mutexattr_init(&robust) == 0);
    REQUIRE(pthread_mutexattr_setrobust(&robust, PTHREAD_MUTEX_ROBUST) == 0);
    REQUIRE(pthread_mutex_init(&mutex, &robust) == 0);
}

static void hold(const void *detail)
{
    const struct lock *lock = detail;
    REQUIRE(lock->take() == 0);
    trip_and_allocate();
    REQUIRE(lock->release() == 0);
}

static void *try_to_take(void *detail)
{
    const struct lock *lock = detail;
    CHECK(lock->try() == 0);
    REQUIRE(lock->release() == 0);
    return NULL;
}

static void jump_with_a_lock_held(const void *detail)
{
    const struct lock *lock = detail;
    if (lock->take == lock_a_robust_one)
        make_robust();
    REQUIRE(pthread_spin_init(&spinlock, PTHREAD_PROCESS_PRIVATE) == 0);
    REQUIRE(mtx_init(&c_mutex, mtx_timed | mtx_recursive) == thrd_success);
    REQUIRE(cnd_init(&c_condition) == thrd_success);
    stint_outcome outcome = run_tripped(STINT_JUMP, hold, lock);
    REQUIRE(!masking_rule_on || outcome.usage.deferred > 0);
    struct lock again = *lock;
    in_another_thread(try_to_take, &again);
}

/* No jump leaves a once's function, because a frame of libc is below it. A scope inside that function must not be
 * ended by the scope outside either, so that its object is made once. */

static void *made_once;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static once_flag c_once = ONCE_FLAG_INIT;

static int make_in_a_scope(void *unused, void **value)
{
    (void)unused;
    *value = masking_keep(malloc(100));
    return 0;
}

static void make_it(void)
{
    stint_outcome outcome;
    REQUIRE(stint_run(make_in_a_scope, NULL, NULL, &outcome) == 0);
    made_once = outcome.value;
}

static void run_once(const void *is_c)
{
    trip();
    if (is_c != NULL)
        call_once(&c_once, make_it);
    else
        REQUIRE(pthread_once(&once, make_it) == 0);
}

static void end_a_scope_in_a_once(const void *is_c)
{
    run_tripped(STINT_JUMP, run_once, is_c);
    CHECK(made_once != NULL);
}

static const struct lock locks[] = {
    { "a jump with a mutex held", mutex_lock, mutex_unlock, mutex_trylock },
    { "a jump with a mutex held by trylock", mutex_trylock, mutex_unlock, mutex_trylock },
    { "a jump with a mutex held by timedlock", mutex_timedlock, mutex_unlock, mutex_trylock },
    { "a jump with a mutex held by clocklock", mutex_clocklock, mutex_unlock, mutex_trylock },
    { "a jump with a mutex held after a wait", wait_once, mutex_unlock, mutex_trylock },
    { "a jump with a robust mutex held", lock_a_robust_one, mutex_unlock, mutex_trylock },
    { "a jump with one of many mutexes held", lock_many, mutex_unlock, mutex_trylock },
    { "a jump with a rwlock read by rdlock", rwlock_rdlock, rwlock_unlock, rwlock_trywrlock },
    { "a jump with a rwlock read by tryrdlock", rwlock_tryrdlock, rwlock_unlock, rwlock_trywrlock },
    { "a jump with a rwlock read by timedrdlock", rwlock_timedrdlock, rwlock_unlock, rwlock_trywrlock },
    { "a jump with a rwlock read by clockrdlock", rwlock_clockrdlock, rwlock_unlock, rwlock_trywrlock },
    { "a jump with a rwlock written by wrlock", rwlock_wrlock, rwlock_unlock, rwlock_tryrdlock },
    { "a jump with a rwlock written by trywrlock", rwlock_trywrlock, rwlock_unlock, rwlock_tryrdlock },
    { "a jump with a rwlock written by timedwrlock", rwlock_timedwrlock, rwlock_unlock, rwlock_tryrdlock },
    { "a jump with a rwlock written by clockwrlock", rwlock_clockwrlock, rwlock_unlock, rwlock_tryrdlock },
    { "a jump with a spinlock held", spin_lock, spin_unlock, spin_trylock },
    { "a jump with a spinlock held by trylock", spin_trylock, spin_unlock, spin_trylock },
    { "a jump with a C11 mutex held", c_lock, c_unlock, c_trylock },
    { "a jump with a C11 mutex held by trylock", c_trylock, c_unlock, c_trylock },
    { "a jump with a C11 mutex held by timedlock", c_timedlock, c_unlock, c_trylock },
    { "a jump with a C11 mutex held after a wait", c_wait_once, c_unlock, c_trylock },
    { "a jump with a recursive mutex held once more", lock_twice, c_unlock, c_trylock },
    { "a jump with a stream held by flockfile", stream_lock, stream_unlock, stream_trylock },
    { "a jump with a stream held by ftrylockfile", stream_trylock, stream_unlock, stream_trylock },
};
#define LOCKS (sizeof locks / sizeof locks[0])

int main(int argc, char **argv)
{
    struct masking_case cases[LOCKS + 2];
    size_t count = 0;
    const char *lack = lack_of_robust_locks();
    if (lack != NULL && argc == 1)
        print_message("not tested: robust mutexes: %s\n", lack);
    for (size_t i = 0; i < LOCKS; i++) {
        if (lack == NULL || locks[i].take != lock_a_robust_one)
            cases[count++] =
                (struct masking_case){ locks[i].name, STI_RULE_LOCK, CHECK_FAILS, jump_with_a_lock_held, &locks[i] };
    }
    cases[count++] = (struct masking_case){ "a scope ended in pthread_once", STI_RULE_ONCE, CHECK_FAILS,
                                            end_a_scope_in_a_once, NULL };
    cases[count++] =
        (struct masking_case){ "a scope ended in call_once", STI_RULE_ONCE, CHECK_FAILS, end_a_scope_in_a_once, "C11" };
    return masking_main(argc, argv, cases, count);
}
