/* SPDX-License-Identifier: MIT
 *
 * Modules whose blocks are the process's, whatever task they run in. */
#include "support.h"

void *kept_take(void);
void kept_give(void *item);
char *kept_name(void);
void *other_take(void);
void *listed_take(void);

#define ITEMS 1000
#define MANY 5000 /* more than have been given back before */

static int take_and_give(void *arg, void **value)
{
    void *items[ITEMS];
    (void)value;
    for (int i = 0; i < ITEMS; i++)
        memset(items[i] = kept_take(), 0x5a, 200);
    for (int i = 0; i < ITEMS; i++)
        kept_give(items[i]);
    return *(int *)arg;
}

static int commit_items(void *arg, void **value)
{
    void **items = arg;
    (void)value;
    for (int i = 0; i < ITEMS; i++)
        memset(items[i] = kept_take(), i % 256, 200);
    return 0;
}

TEST(items_of_its_pool_outlive_the_task_that_was_rolled_back)
{
    static void *items[ITEMS];
    int code = EIO;
    stint_outcome outcome = run_task(take_and_give, &code, NULL);
    assert_outcome(outcome, STINT_ERROR, STINT_REASON_FAILED, EIO);
    assert_int_equal(outcome.usage.kept, 0); /* the task's would be, as the library still points there */
    assert_in_range(outcome.usage.allocated, ITEMS * 200, ITEMS * 256);
    assert_ok(run_task(commit_items, items, NULL));
    for (int i = 0; i < 100; i++)
        run_task(take_and_give, &code, NULL);
    for (int i = 0; i < ITEMS; i++) {
        for (int j = 0; j < 200; j++)
            assert_int_equal(((unsigned char *)items[i])[j], i % 256);
        kept_give(items[i]);
    }
}

static int ask_for_the_name(void *arg, void **value)
{
    (void)arg;
    (void)value;
    return kept_name() == NULL ? ENOMEM : EIO;
}

TEST(what_it_makes_when_first_asked_outlives_the_task)
{
    stint_outcome outcome = run_task(ask_for_the_name, NULL, NULL);
    assert_outcome(outcome, STINT_ERROR, STINT_REASON_FAILED, EIO);
    assert_int_equal(outcome.usage.kept, 0);
    assert_string_equal(kept_name(), "made when it is first asked for");
}

static int take_many(void *arg, void **value)
{
    void *items[MANY];
    (void)arg;
    (void)value;
    for (int i = 0; i < MANY; i++)
        items[i] = kept_take();
    for (int i = 0; i < MANY; i++)
        kept_give(items[i]);
    return 0;
}

TEST(its_blocks_do_not_count_for_the_memory_limit)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.memory = 64 * KIB;
    assert_ok(run_task(take_many, NULL, &options));
}

static int take_of_the_other(void *arg, void **value)
{
    (void)value;
    memset(other_take(), 1, 200);
    return *(int *)arg;
}

TEST(blocks_of_other_modules_are_the_task_s)
{
    int code = EIO;
    stint_outcome outcome = run_task(take_of_the_other, &code, NULL);
    assert_in_range(outcome.usage.allocated, 200, 256);
}

static int take_many_of_the_list_s(void *arg, void **value)
{
    (void)arg;
    (void)value;
    for (int i = 0; i < MANY; i++)
        memset(listed_take(), 1, 200);
    return 0;
}

/* More than the limit on memory, which its blocks do not count for. */
static stint_outcome run_with_the_list_s(void)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.memory = 64 * KIB;
    return run_task(take_many_of_the_list_s, NULL, &options);
}

TEST(a_library_of_the_list_is_kept_from_the_start_until_it_is_allowed)
{
    assert_ok(run_with_the_list_s());
    assert_int_equal(stint_module_allow("*"), 0);
    assert_ok(run_with_the_list_s());
    assert_int_equal(stint_module_allow("libfftw3l"), 0);
    assert_outcome(run_with_the_list_s(), STINT_ERROR, STINT_REASON_MEMORY_LIMIT, ENOMEM);
    assert_int_equal(stint_module_keep("libfftw3l"), 0);
    assert_ok(run_with_the_list_s());
    assert_int_equal(stint_module_allow("libfftw3l"), EPERM);
}

static int take_for_ever(void *arg, void **value)
{
    (void)arg;
    (void)value;
    for (;;)
        kept_give(memset(kept_take(), 1, 200));
    return 0;
}

TEST(its_frames_are_protected_and_its_callers_are_not)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.cpu_ns = 20000000;
    options.preemptible = true;
    stint_outcome outcome = run_task(take_for_ever, NULL, &options);
    assert_int_equal(outcome.reason, STINT_REASON_CPU);
    kept_give(kept_take());
}

TEST(bad_names_are_refused)
{
    assert_int_equal(stint_module_keep(NULL), EINVAL);
    assert_int_equal(stint_module_keep(""), EINVAL);
    assert_int_equal(stint_module_keep("lib/x"), EINVAL);
    assert_int_equal(stint_module_keep("libthat-is-nowhere"), ENOENT);
    assert_int_equal(stint_module_keep("libkeep-module-kept"), 0);
}

static int keep_it(void **state)
{
    (void)state;
    return stint_module_keep("libkeep-module-kept");
}

TEST_MAIN_WITH(keep_it, NULL)
