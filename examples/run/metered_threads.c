/* SPDX-License-Identifier: MIT
 *
 * Threads that the program starts; see metered_threads.h. Each runs in a scope of its own, which charges the account.
 * Other threads use what it allocates, whatever becomes of this one, so nothing may be rolled back: the scope commits.
 * Any thread. */
#include "metered_threads.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <threads.h>

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *), void *arg)
    __attribute__((visibility("default")));
int thrd_create(thrd_t *thread, thrd_start_t function, void *arg) __attribute__((visibility("default")));

static struct {
    struct record *record;
    stint_account *account; /* NULL: the task has not begun, and nothing is metered */
    atomic_bool has_passed;
} threads;

/* What a thread is to run: one of the two functions, with this. */
struct start {
    void *(*function)(void *arg);
    thrd_start_t c11_function;
    void *arg;
    void *result;
    bool has_begun;
};

static int run_function(void *argument, void **unused)
{
    struct start *start = argument;
    (void)unused;
    start->has_begun = true;
    start->result =
        start->function != NULL ? start->function(start->arg) : (void *)(intptr_t)start->c11_function(start->arg);
    return 0;
}

/* A thread that cannot have a scope, for want of memory, runs without. In the child that it forks there is an error
 * when it has run. */
static void run_metered(struct start *start)
{
    stint_options options = STINT_OPTIONS_INIT;
    stint_outcome outcome;
    options.account = threads.account;
    options.on_interrupt = STINT_FAIL;
    options.grace = 1;
    options.flags = STINT_UNTIMED | STINT_ALLOW_UNMETERED | STINT_COMMIT; /* as the task */
    if (stint_run(run_function, start, &options, &outcome) != 0) {
        if (!start->has_begun)
            run_function(start, NULL);
    } else if (outcome.reason == STINT_REASON_ACCOUNT) {
        atomic_store(&threads.has_passed, true);
    }
}

static void *begin(void *argument)
{
    struct start start = *(struct start *)argument;
    free(argument);
    run_metered(&start);
    return start.result;
}

static int create(pthread_t *thread, const pthread_attr_t *attributes, const struct start *wanted)
{
    typedef int create_fn(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    struct start *start = malloc(sizeof *start);
    if (start == NULL)
        return EAGAIN;
    *start = *wanted;
    atomic_fetch_add(&threads.record->threads, 1);
    int error = ((create_fn *)dlsym(RTLD_NEXT, "pthread_create"))(thread, attributes, begin, start);
    if (error != 0)
        free(start);
    return error;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *), void *arg)
{
    typedef int create_fn(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (threads.account == NULL)
        return ((create_fn *)dlsym(RTLD_NEXT, "pthread_create"))(thread, attributes, function, arg);
    return create(thread, attributes, &(struct start){ .function = function, .arg = arg });
}

int thrd_create(thrd_t *thread, thrd_start_t function, void *arg)
{
    typedef int create_fn(thrd_t *, thrd_start_t, void *);
    if (threads.account == NULL)
        return ((create_fn *)dlsym(RTLD_NEXT, "thrd_create"))(thread, function, arg);
    int error = create(thread, NULL, &(struct start){ .c11_function = function, .arg = arg });
    return error == 0 ? thrd_success : error == ENOMEM ? thrd_nomem : thrd_error;
}

void threads_begin(struct record *record, stint_account *account)
{
    threads.record = record;
    threads.account = account;
}

uint64_t threads_allocated(void)
{
    stint_account_usage usage = STINT_ACCOUNT_USAGE_INIT;
    if (threads.account == NULL || atomic_load(&threads.record->threads) == 0)
        return 0;
    return stint_account_read(threads.account, &usage) == 0 ? usage.allocated : 0;
}

bool threads_passed_limit(void)
{
    return atomic_load(&threads.has_passed);
}
