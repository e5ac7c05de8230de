/* SPDX-License-Identifier: MIT
 *
 * Forks while other threads roll back tasks, start and end, at any moment of theirs: no child hangs, in the loader, in
 * mimalloc, in a rollback of its own, or in an account whose task is not there. As many as the argument says. */
#include "support.h"

#include <link.h>
#include <stdatomic.h>

#define PATIENCE 10 /* seconds until a child that hangs is ended */
#define THREADS 2

static unsigned forks = 150;  /* of each test */
static char large[512 << 10]; /* so that a scan of the roots takes long */
static atomic_bool enough;

static void told_of_a_root(const stint_root *root, void *arg)
{
    (void)root;
    (void)arg;
}

static int allocate_and_fail(void *arg, void **value)
{
    (void)arg;
    (void)value;
    for (size_t size = 16; size < 4096; size *= 2)
        keep(stint_malloc(size));
    return EIO;
}

static void *roll_back_on_and_on(void *arg)
{
    const stint_options options = { .size = sizeof(stint_options),
                                    .account = arg,
                                    .budget = { .wall_ns = 1000000000 } };
    stint_outcome outcome;
    for (unsigned i = 0; !atomic_load(&enough); i++) {
        stint_run(allocate_and_fail, NULL, &options, &outcome);
        stint_roots_set_report(told_of_a_root, NULL);
        if (i % 64 == 0)
            usleep(100); /* the forks have to come to their turn on two processors */
    }
    return NULL;
}

static int note_module(struct dl_phdr_info *info, size_t size, void *count)
{
    (void)info;
    (void)size;
    ++*(unsigned *)count;
    return 0;
}

static int live_in_child(stint_account *account)
{
    unsigned modules = 0;
    dl_iterate_phdr(note_module, &modules);
    if (modules == 0)
        return 1;
    const stint_options options = { .size = sizeof(stint_options), .account = account };
    for (int i = 0; i < 2; i++) {
        stint_outcome outcome;
        if (stint_run(allocate_and_fail, NULL, &options, &outcome) != 0)
            return 2;
        if (outcome.status != STINT_ERROR || outcome.error != EIO)
            return 3;
    }
    stint_account_usage usage = STINT_ACCOUNT_USAGE_INIT;
    if (stint_account_read(account, &usage) != 0 || usage.running != 0 || usage.memory != 0)
        return 4;
    stint_roots_set_report(NULL, NULL);
    stint_global_set_report(NULL, NULL);
    return 0;
}

/* Fork so many children, each of which runs live(arg); how many did not end well, of whom the first's status. */
static unsigned fork_children(int (*live)(stint_account *account), stint_account *account, int *first)
{
    unsigned bad = 0;
    for (unsigned i = 0; i < forks && bad < 3; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(PATIENCE);
            _exit(live(account));
        }
        int status = -1;
        bool ended = child > 0 && waitpid(child, &status, 0) == child && status == 0;
        *first = bad == 0 ? status : *first;
        bad += !ended;
    }
    return bad;
}

TEST(no_child_hangs_whatever_its_parent_rolled_back)
{
    memset(large, 0, sizeof large);
    stint_account *account;
    const stint_account_limits limits = { .size = sizeof(stint_account_limits),
                                          .running = THREADS,
                                          .memory = 64 * MIB };
    assert_int_equal(stint_account_create(NULL, &limits, &account), 0);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, roll_back_on_and_on, account), 0);
    int first = 0;
    unsigned bad = fork_children(live_in_child, account, &first);
    atomic_store(&enough, true);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(first, 0);
    assert_int_equal(bad, 0);
    stint_account_usage usage = STINT_ACCOUNT_USAGE_INIT;
    assert_int_equal(stint_account_read(account, &usage), 0);
    assert_int_equal(usage.running, 0);
    assert_int_equal(usage.memory, 0);
    stint_account_release(account);
    stint_roots_set_report(NULL, NULL);
}

/* --- Threads that start and end ----------------------------------------------------------------------------------- */

static void *live_shortly(void *arg)
{
    void *blocks[8];
    for (size_t i = 0; i < 8; i++)
        blocks[i] = stint_malloc((size_t)16 << i);
    stint_outcome outcome;
    stint_run(allocate_and_fail, NULL, NULL, &outcome);
    for (size_t i = 0; i < 8; i++)
        stint_free(blocks[i]);
    return arg;
}

static void *start_threads_on_and_on(void *arg)
{
    while (!atomic_load(&enough)) {
        pthread_t threads[2];
        for (int i = 0; i < 2; i++)
            pthread_create(&threads[i], NULL, live_shortly, NULL);
        for (int i = 0; i < 2; i++)
            pthread_join(threads[i], NULL);
    }
    return arg;
}

static int start_threads_in_child(stint_account *unused)
{
    (void)unused;
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, live_shortly, NULL) != 0 || pthread_join(thread, NULL) != 0)
            return 1;
        live_shortly(NULL);
    }
    return 0;
}

TEST(no_child_hangs_whatever_threads_its_parent_started_and_ended)
{
    if (!stint_malloc_is_overridden())
        skip(); /* a sanitizer's own locks do not stand it */
    atomic_store(&enough, false);
    pthread_t starter;
    assert_int_equal(pthread_create(&starter, NULL, start_threads_on_and_on, NULL), 0);
    int first = 0;
    unsigned bad = fork_children(start_threads_in_child, NULL, &first);
    atomic_store(&enough, true);
    pthread_join(starter, NULL);
    assert_int_equal(first, 0);
    assert_int_equal(bad, 0);
}

int main(int count, char **arguments)
{
    if (count > 1)
        forks = (unsigned)strtoul(arguments[1], NULL, 10);
    return run_all_tests(NULL, NULL);
}
