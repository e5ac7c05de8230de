/* SPDX-License-Identifier: MIT
 *
 * OpenMP in a plugin that a program without it loads, before its tasks or in one: what its runtime allocates is the
 * process's, as in a program that is linked with it. */
#include "support.h"

#include <dlfcn.h>

typedef int sum_fn(int threads);
static sum_fn *sum;
static const char *plugin;

static bool load(void)
{
    void *module = dlopen(plugin, RTLD_NOW);
    if (module != NULL)
        *(void **)&sum = dlsym(module, "sum_in_parallel");
    return sum != NULL;
}

/* *arg: so many threads. */
static int sum_and_fail(void *arg, void **value)
{
    int threads = *(int *)arg;
    (void)value;
    if (sum == NULL && !load())
        return EIO;
    return sum(threads) == threads * (threads + 1) / 2 ? EAGAIN : EIO;
}

/* In a process of its own, which has not loaded it yet. 0: all went well. */
static int use_in_tasks(bool before)
{
    if (before && !load())
        return 1;
    for (int threads = 2; threads <= 6; threads++) {
        if (run_task(sum_and_fail, &threads, NULL).error != EAGAIN)
            return 2;
        run_task(fill_blocks, NULL, NULL);
        for (int again = 6; again > 0; again--) {
            if (sum(again) != again * (again + 1) / 2)
                return 3;
        }
    }
    return 0;
}

static void assert_works(bool before)
{
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        _exit(use_in_tasks(before));
    }
    assert_ends_well(child);
}

TEST(a_runtime_that_was_loaded_before_the_task_outlives_it)
{
    assert_works(true);
}

TEST(a_runtime_that_the_task_loads_outlives_it)
{
    assert_works(false);
}

int main(int count, char **arguments)
{
    assert_int_equal(count, 2);
    plugin = arguments[1];
    return run_all_tests(NULL, NULL);
}
