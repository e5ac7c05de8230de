/* SPDX-License-Identifier: MIT
 *
 * A fork while another thread is in mimalloc with a lock of its: the child allocates, and runs tasks, all the same. The
 * visit of all heaps stands for whatever takes such a lock, since it calls back under it. */
#include "support.h"

#include <dlfcn.h>
#include <stdatomic.h>

#define PATIENCE 20 /* seconds until a child that hangs is ended */

static bool (*visit_heaps)(void *process, bool (*visit)(void *heap, void *arg), void *arg);
static void *(*main_process)(void);

static atomic_bool holds_the_lock;
static atomic_bool enough;

static bool hold_the_lock(void *heap, void *arg)
{
    (void)heap;
    (void)arg;
    atomic_store(&holds_the_lock, true);
    while (!atomic_load(&enough))
        usleep(1000);
    return false;
}

static void *visit(void *unused)
{
    visit_heaps(main_process(), hold_the_lock, NULL);
    return unused;
}

/* So much that it gets heaps of its own. */
static int allocate_much(void *arg, void **value)
{
    (void)arg;
    (void)value;
    for (size_t size = 16; size < MIB; size *= 2)
        keep(stint_malloc(size));
    return EIO;
}

static int run_tasks(void)
{
    for (int i = 0; i < 20; i++) {
        stint_outcome outcome;
        if (stint_run(allocate_much, NULL, NULL, &outcome) != 0 || outcome.error != EIO)
            return 1;
    }
    return 0;
}

TEST(a_child_takes_locks_of_threads_that_it_does_not_have)
{
    *(void **)&visit_heaps = dlsym(RTLD_DEFAULT, "mi_subproc_visit_heaps");
    *(void **)&main_process = dlsym(RTLD_DEFAULT, "mi_subproc_main");
    if (visit_heaps == NULL || main_process == NULL)
        skip();
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, visit, NULL), 0);
    while (!atomic_load(&holds_the_lock))
        usleep(1000);
    pid_t child = fork();
    if (child == 0) {
        alarm(PATIENCE);
        _exit(run_tasks());
    }
    int status = -1;
    bool ended = child > 0 && waitpid(child, &status, 0) == child;
    atomic_store(&enough, true);
    pthread_join(thread, NULL);
    assert_true(ended);
    assert_int_equal(status, 0);
}

TEST_MAIN()
