/* SPDX-License-Identifier: MIT
 *
 * The life of threads that are a task's own, from the inside, so that ThreadSanitizer sees it too: it needs a malloc of
 * its own, without which the option is not to be had. Many start, end, are joined and detached at once, by each other
 * and by the end of their tasks. */
#include "support.h"

#include <stdatomic.h>

#include "alloc/scope/joined_thread.h"
#include "alloc/scope/started_thread.h"

#define ROUNDS 60
#define TASKS 3
#define THREADS 5

static int start(pthread_t *id, void *(*function)(void *), void *arg)
{
    const struct sti_start start = { .function = function, .arg = arg };
    return sti_joined_start(id, NULL, &start, __builtin_return_address(0));
}

static int join(pthread_t id)
{
    int error;
    struct sti_joined *joined = sti_joined_begin_join(id, &error);
    if (joined == NULL)
        return error;
    error = sti_plain_join(id, NULL);
    sti_joined_end_join(joined, error == 0);
    return error;
}

struct made {
    atomic_uint blocks;
    void *block[THREADS * 2];
};

static void *allocate(void *arg)
{
    struct made *made = arg;
    for (int i = 0; i < 50; i++)
        stint_free(keep(stint_malloc(500)));
    char *block = stint_malloc(100);
    if (block == NULL)
        return NULL;
    memset(block, 'x', 100);
    made->block[atomic_fetch_add(&made->blocks, 1)] = block;
    return NULL;
}

static void *start_one_more(void *arg)
{
    pthread_t id;
    int error;
    if (start(&id, allocate, arg) == 0)
        sti_joined_detach(id, &error);
    return allocate(arg);
}

static int start_many(void *arg, void **value)
{
    pthread_t ids[THREADS];
    struct made *made = stint_calloc(1, sizeof *made);
    unsigned how = *(unsigned *)arg;
    int started = 0;
    int ignored;
    *value = made;
    while (started < THREADS && start(&ids[started], started % 2 == 0 ? allocate : start_one_more, made) == 0)
        started++;
    for (int i = 0; i < started; i++) {
        if ((how >> i) % 2 == 0)
            join(ids[i]);
        else
            sti_joined_detach(ids[i], &ignored);
    }
    return started < THREADS ? EAGAIN : how % 3 == 2 ? EIO : 0;
}

static void run_one(unsigned how)
{
    stint_options options = STINT_OPTIONS_INIT;
    stint_outcome outcome;
    if (how % 5 == 4)
        options.budget.allocation = 200000 + 10000 * (how % 17);
    if (stint_run(start_many, &how, &options, &outcome) != 0 || outcome.status != STINT_OK)
        return;
    struct made *made = outcome.value;
    for (unsigned i = 0; i < made->blocks; i++) {
        if (((char *)made->block[i])[99] != 'x')
            abort();
        stint_free(made->block[i]);
    }
    stint_free(made);
}

static void *run_some(void *seed)
{
    for (unsigned i = 0; i < ROUNDS; i++)
        run_one((unsigned)(uintptr_t)seed + i);
    return NULL;
}

TEST(threads_start_and_end_in_any_order)
{
    pthread_t ids[TASKS];
    for (uintptr_t i = 0; i < TASKS; i++)
        assert_int_equal(pthread_create(&ids[i], NULL, run_some, (void *)(i * 1000)), 0);
    for (uintptr_t i = 0; i < TASKS; i++)
        assert_int_equal(pthread_join(ids[i], NULL), 0);
}

TEST(the_option_needs_the_overrides)
{
    stint_options options = { .size = sizeof(stint_options), .threads = STINT_THREADS_CHARGED };
    stint_outcome outcome;
    bool can = stint_malloc_is_overridden();
    assert_int_equal(stint_run(do_nothing, NULL, &options, &outcome), can ? 0 : ENOTSUP);
}

TEST_MAIN()
