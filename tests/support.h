/* SPDX-License-Identifier: MIT
 *
 * Shared by the tests of the lower layer: cmocka, running a task, random numbers, and a table of the allocation
 * functions, so that a test runs with each family of the build.
 *
 * A failing assertion jumps, and would leave a scope open: tasks note what they see, and the test asserts later. */
#ifndef TESTS_SUPPORT_H
#define TESTS_SUPPORT_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "test.h"
#include <stint/stint.h>

#include "lacks.h"
#include "quarantine.h"
#include "repeats.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)
#define MS UINT64_C(1000000) /* nanoseconds */

struct family {
    const char *name;
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void *(*reallocarray)(void *, size_t, size_t);
    void *(*aligned_alloc)(size_t, size_t);
    int (*posix_memalign)(void **, size_t, size_t);
    void (*free)(void *);
    size_t (*usable_size)(const void *);
    char *(*strdup)(const char *);
    char *(*strndup)(const char *, size_t);
};

static const struct family stint_family = {
    "stint_malloc",           stint_malloc,        stint_calloc,         stint_realloc,
    stint_reallocarray,       stint_aligned_alloc, stint_posix_memalign, stint_free,
    stint_malloc_usable_size, stint_strdup,        stint_strndup,
};

/* malloc_usable_size is the same function under both names where malloc is replaced. */
static const struct family libc_family = {
    "malloc", malloc,  calloc, realloc, reallocarray, aligned_alloc, posix_memalign, free, stint_malloc_usable_size,
    strdup,   strndup,
};

/* The i-th family that is metered in this build, NULL after the last. */
static inline const struct family *family_at(unsigned i)
{
    if (i == 0)
        return &stint_family;
    return i == 1 && stint_malloc_is_overridden() ? &libc_family : NULL;
}

/* The most that a task with this measured peak may have held. */
static inline size_t most_behind(const stint_usage *usage)
{
    size_t slack = usage->allocated / 16;
    slack = slack < 64 * KIB ? 64 * KIB : slack < MIB ? slack : MIB;
    return usage->peak + usage->peak / 8 + slack;
}

/* splitmix64 */
static inline uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static inline size_t random_below(uint64_t *state, size_t bound)
{
    return (size_t)(random_next(state) % bound);
}

/* Every order of magnitude up to 2 to the power of bits is as likely. */
static inline size_t random_size(uint64_t *state, unsigned bits)
{
    size_t top = (size_t)1 << random_below(state, bits);
    return top + random_below(state, top);
}

static inline stint_outcome run_task(stint_fn *fn, void *arg, const stint_options *options)
{
    stint_outcome outcome;
    memset(&outcome, 0xa5, sizeof outcome);
    assert_int_equal(stint_run(fn, arg, options, &outcome), 0);
    return outcome;
}

static inline int do_nothing(void *arg, void **value)
{
    (void)arg;
    (void)value;
    return 0;
}

static inline int check_for_ever(void *arg, void **value)
{
    (void)arg;
    (void)value;
    while (!stint_is_interrupted())
        stint_checkpoint();
    return 0;
}

/* Makes no sample points. */
static inline int loop_for_ever(void *arg, void **value)
{
    (void)arg;
    (void)value;
    static volatile bool stopped;
    while (!stopped)
        ;
    return 0;
}

static inline stint_account_usage usage_of(const stint_account *account)
{
    stint_account_usage usage = STINT_ACCOUNT_USAGE_INIT;
    assert_int_equal(stint_account_read(account, &usage), 0);
    return usage;
}

static inline stint_account *make_account_of(stint_account *parent, const stint_account_limits *limits)
{
    stint_account *account;
    assert_int_equal(stint_account_create(parent, limits, &account), 0);
    return account;
}

/* make_account(parent, .running = 1, ...): without the other limits. */
#define make_account(parent, ...)                                                                                      \
    make_account_of(parent, &(stint_account_limits){ .size = sizeof(stint_account_limits), __VA_ARGS__ })

#define assert_outcome(outcome, wanted_status, wanted_reason, wanted_error)                                            \
    do {                                                                                                               \
        const stint_outcome given = (outcome);                                                                         \
        assert_string_equal(stint_reason_name(given.reason), stint_reason_name(wanted_reason));                        \
        assert_int_equal(given.status, wanted_status);                                                                 \
        assert_int_equal(given.error, wanted_error);                                                                   \
        if ((wanted_status) != STINT_OK)                                                                               \
            assert_null(given.value);                                                                                  \
    } while (0)

#define assert_ok(outcome) assert_outcome(outcome, STINT_OK, STINT_REASON_NONE, 0)
#define assert_limit_passed(outcome) assert_outcome(outcome, STINT_ERROR, STINT_REASON_ALLOCATION_LIMIT, ENOMEM)
#define assert_cancelled(outcome, reason) assert_outcome(outcome, STINT_CANCELLED, reason, ECANCELED)

/* So that the compiler does not leave out an allocation whose block is never used. */
static inline void *keep(void *block)
{
    __asm__ volatile("" : "+r"(block) : : "memory");
    return block;
}

/* Overwrites free memory, so that code that still uses a freed block finds other values. */
static inline int fill_blocks(void *arg, void **value)
{
    (void)arg;
    (void)value;
    for (size_t size = 8; size <= 8192; size += size / 8 + 8) {
        for (int i = 0; i < 200; i++)
            memset(keep(malloc(size)), 0xee, size);
    }
    return 0;
}

static inline void *free_it(void *block)
{
    stint_free(block);
    return NULL;
}

static inline void *on_a_thread(void *(*function)(void *), void *arg)
{
    pthread_t thread;
    void *result = NULL;
    assert_int_equal(pthread_create(&thread, NULL, function, arg), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    return result;
}

static inline void assert_ends_well(pid_t child)
{
    int status = -1;
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* --- Time --------------------------------------------------------------------------------------------------------- */

static inline uint64_t read_clock(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000 * MS + (uint64_t)now.tv_nsec;
}

static inline uint64_t now_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

static inline uint64_t thread_time_ns(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

static inline uint64_t process_time_ns(void)
{
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

static inline void nap_ms(unsigned ms)
{
    nanosleep(&(struct timespec){ .tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000 }, NULL);
}

#endif
