/* SPDX-License-Identifier: MIT
 *
 * The limit on the whole process. */
#include "support.h"

#include <stdatomic.h>

#define LIMIT (256 * MIB)

static atomic_int reports;
static const char *_Atomic last_task;
static atomic_size_t last_resident;

static void note_report(const stint_global_event *event, void *unused)
{
    (void)unused;
    atomic_store(&last_task, event->task);
    atomic_store(&last_resident, event->resident);
    atomic_fetch_add(&reports, 1);
}

static int setup(void **state)
{
    (void)state;
    atomic_store(&reports, 0);
    stint_global_set_report(note_report, NULL);
    return stint_global_set_memory_limit(LIMIT);
}

static int teardown(void **state)
{
    (void)state;
    stint_global_set_report(NULL, NULL);
    return stint_global_set_memory_limit(0);
}

static int grow_for_ever(void *unused, void **value)
{
    (void)unused;
    (void)value;
    for (;;) {
        void *block = stint_malloc(100 * KIB);
        if (block == NULL)
            return ENOMEM;
        memset(block, 1, 100 * KIB);
    }
}

/* Holds 1 MiB at a time, for a while. */
static int behave(void *unused, void **value)
{
    (void)unused;
    (void)value;
    for (int i = 0; i < 200; i++) {
        void *block = stint_malloc(MIB);
        if (block == NULL)
            return ENOMEM;
        memset(block, 1, MIB);
        stint_free(block);
    }
    return 0;
}

static atomic_bool watching;
static atomic_size_t highest;

static void *watch_resident(void *unused)
{
    (void)unused;
    while (atomic_load(&watching)) {
        size_t now = resident();
        if (now > atomic_load(&highest))
            atomic_store(&highest, now);
        usleep(500);
    }
    return NULL;
}

TEST_WITH(the_hog_is_stopped_and_all_others_end_ok, setup, teardown)
{
    enum { OTHERS = 50 };
    stint_future *futures[OTHERS];
    stint_future *hog;
    stint_pool *pool;
    pthread_t watcher;
    atomic_store(&watching, true);
    assert_int_equal(pthread_create(&watcher, NULL, watch_resident, NULL), 0);
    stint_pool_options two = { .size = sizeof(stint_pool_options), .workers = 2 };
    assert_int_equal(stint_pool_create(&two, &pool), 0);
    stint_options hog_options = { .size = sizeof(stint_options), .name = "hog" };
    stint_options options = { .size = sizeof(stint_options), .name = "other" };
    for (int i = 0; i < OTHERS; i++) {
        if (i == OTHERS / 2)
            assert_int_equal(stint_submit(pool, grow_for_ever, NULL, &hog_options, &hog), 0);
        assert_int_equal(stint_submit(pool, behave, NULL, &options, &futures[i]), 0);
    }
    stint_outcome outcome;
    assert_int_equal(stint_future_wait(hog, &outcome), 0);
    assert_outcome(outcome, STINT_ERROR, STINT_REASON_GLOBAL_MEMORY_LIMIT, ENOMEM);
    stint_future_release(hog);
    for (int i = 0; i < OTHERS; i++) {
        assert_int_equal(stint_future_wait(futures[i], &outcome), 0);
        assert_ok(outcome);
        stint_future_release(futures[i]);
    }
    assert_int_equal(stint_pool_destroy(pool), 0);
    atomic_store(&watching, false);
    assert_int_equal(pthread_join(watcher, NULL), 0);
    assert_int_equal(atomic_load(&reports), 1);
    assert_string_equal(atomic_load(&last_task), "hog");
    assert_true(atomic_load(&last_resident) > LIMIT);
    assert_true(atomic_load(&highest) < LIMIT + LIMIT / 10);
}

TEST_WITH(one_hog_after_the_other_is_stopped, setup, teardown)
{
    for (int i = 0; i < 10; i++)
        assert_outcome(run_task(grow_for_ever, NULL, NULL), STINT_ERROR, STINT_REASON_GLOBAL_MEMORY_LIMIT, ENOMEM);
    assert_int_equal(atomic_load(&reports), 10);
}

TEST_WITH(a_task_that_is_told_by_failing_allocations_is_a_victim_too, setup, teardown)
{
    stint_options options = { .size = sizeof(stint_options), .on_interrupt = STINT_FAIL };
    assert_outcome(run_task(grow_for_ever, NULL, &options), STINT_ERROR, STINT_REASON_GLOBAL_MEMORY_LIMIT, ENOMEM);
}

static void *run_hog(void *outcome)
{
    if (stint_run(grow_for_ever, NULL, NULL, outcome) != 0)
        memset(outcome, 0, sizeof(stint_outcome));
    return NULL;
}

TEST_WITH(if_one_is_not_enough_the_next_is_stopped, setup, teardown)
{
    enum { HOGS = 3 };
    pthread_t threads[HOGS];
    stint_outcome outcomes[HOGS];
    for (int i = 0; i < HOGS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_hog, &outcomes[i]), 0);
    for (int i = 0; i < HOGS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_outcome(outcomes[i], STINT_ERROR, STINT_REASON_GLOBAL_MEMORY_LIMIT, ENOMEM);
    }
    assert_int_equal(atomic_load(&reports), HOGS);
}

/* Two tasks that hold so much; together it is too much, which the second finds when it comes to its last bytes. */
struct holder {
    size_t bytes;
    const atomic_bool *begin;
    atomic_bool holds;
    const atomic_bool *end;
    stint_outcome outcome;
};

static int hold(void *arg, void **value)
{
    struct holder *holder = arg;
    (void)value;
    void **newest = NULL;
    for (size_t held = 0; held < holder->bytes; held += 100 * KIB) {
        void **block = stint_malloc(100 * KIB);
        memset(block, 1, 100 * KIB);
        *block = newest;
        newest = block;
    }
    atomic_store(&holder->holds, true);
    while (!atomic_load(holder->end))
        stint_free(keep(stint_malloc(1000)));
    while (newest != NULL) {
        void **block = newest;
        newest = *block;
        stint_free(block);
    }
    return 0;
}

static atomic_bool always = true;
static atomic_bool either_ended;

static void *run_holder(void *arg)
{
    struct holder *holder = arg;
    while (!atomic_load(holder->begin) && !atomic_load(holder->end))
        usleep(1000);
    stint_options options = { .size = sizeof(stint_options), .name = holder->begin == &always ? "first" : "second" };
    if (stint_run(hold, holder, &options, &holder->outcome) != 0)
        memset(&holder->outcome, 0, sizeof holder->outcome);
    atomic_store(&either_ended, true);
    return NULL;
}

static void hold_too_much(struct holder *first, struct holder *second)
{
    pthread_t threads[2];
    *first = (struct holder){ .bytes = first->bytes, .begin = &always, .end = &either_ended };
    *second = (struct holder){ .bytes = second->bytes, .begin = &first->holds, .end = &either_ended };
    atomic_store(&either_ended, false);
    atomic_store(&reports, 0);
    assert_int_equal(pthread_create(&threads[0], NULL, run_holder, first), 0);
    assert_int_equal(pthread_create(&threads[1], NULL, run_holder, second), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
}

/* A victim that the system keeps from running for longer than a tenth of a second is followed by another: then
 * again. */
static void hold_too_much_until_one_is_enough(struct holder *first, struct holder *second)
{
    int tries = 0;
    do {
        hold_too_much(first, second);
    } while (atomic_load(&reports) > 1 && ++tries < 20);
    assert_int_equal(atomic_load(&reports), 1);
}

TEST_WITH(the_one_that_holds_most_is_stopped_whoever_allocates, setup, teardown)
{
    struct holder first = { .bytes = 150 * MIB };
    struct holder second = { .bytes = 120 * MIB };
    hold_too_much_until_one_is_enough(&first, &second);
    assert_outcome(first.outcome, STINT_ERROR, STINT_REASON_GLOBAL_MEMORY_LIMIT, ENOMEM);
    assert_ok(second.outcome);
    assert_string_equal(atomic_load(&last_task), "first");
}

static int run_hog_inside(void *ended, void **value)
{
    (void)value;
    stint_outcome outcome;
    stint_run(grow_for_ever, NULL, NULL, &outcome);
    *(bool *)ended = true;
    return 0;
}

TEST_WITH(the_whole_task_ends_not_an_inner_scope_alone, setup, teardown)
{
    bool went_on = false;
    assert_outcome(run_task(run_hog_inside, &went_on, NULL), STINT_ERROR, STINT_REASON_GLOBAL_MEMORY_LIMIT, ENOMEM);
    assert_false(went_on);
}

TEST_WITH(without_a_limit_nobody_is_stopped, setup, teardown)
{
    assert_int_equal(stint_global_set_memory_limit(0), 0);
    stint_options options = { .size = sizeof(stint_options), .budget = { .memory = LIMIT + 64 * MIB } };
    assert_outcome(run_task(grow_for_ever, NULL, &options), STINT_ERROR, STINT_REASON_MEMORY_LIMIT, ENOMEM);
    assert_int_equal(atomic_load(&reports), 0);
}

TEST_MAIN()
