/* SPDX-License-Identifier: MIT
 *
 * The limit on the whole process, where the system keeps the thread that looks from running, and whom it then stops.
 * This program says what the process holds, and keeps a thread there for as long as it wants. */
#include "alloc/platform/system.h"
#include "pools.h"

#define LIMIT ((size_t)1 << 40)
#define PATIENCE (500 * MS) /* of which the library has more before it stops a second task */
#define TRIES 20

size_t __wrap_sti_resident(void);

static atomic_size_t held;
static atomic_bool second_is_late; /* the next but one */
static atomic_bool next_is_late;
static struct gate late; /* behind which who reads next comes to a stop */

static atomic_uint looks;

size_t __wrap_sti_resident(void)
{
    atomic_fetch_add(&looks, 1);
    size_t bytes = atomic_load(&held);
    bool is_late = atomic_exchange(&next_is_late, false);
    if (atomic_exchange(&second_is_late, false))
        atomic_store(&next_is_late, true);
    if (is_late)
        gate_hold(&late, NULL);
    return bytes;
}

static atomic_uint reports;

static void count_report(const stint_global_event *event, void *unused)
{
    (void)event;
    (void)unused;
    atomic_store(&held, 0);
    atomic_fetch_add(&reports, 1);
}

static int begin(void **state)
{
    (void)state;
    stint_global_set_report(count_report, NULL);
    return stint_global_set_memory_limit(LIMIT);
}

static int end(void **state)
{
    (void)state;
    stint_global_set_report(NULL, NULL);
    return stint_global_set_memory_limit(0);
}

static atomic_bool holds;

/* The one that looks, and is late. */
static int look(void *arg, void **value)
{
    (void)arg;
    (void)value;
    while (!atomic_load(&holds))
        gate_nap();
    atomic_store(&held, LIMIT + 1);
    atomic_store(&next_is_late, true);
    while (atomic_load(&late.entered) == 0)
        stint_free(keep(stint_malloc(100 * KIB)));
    for (int i = 0; i < 1000; i++)
        stint_free(keep(stint_malloc(100 * KIB)));
    return 0;
}

/* The one that holds most. It is told so, and goes on until its gate opens. */
static int hold_most(void *gate, void **value)
{
    (void)value;
    void *block = keep(stint_malloc(10 * MIB));
    stint_mask();
    atomic_store(&holds, true);
    gate_await(&late, 1);
    while (!stint_is_interrupted())
        stint_free(keep(stint_malloc(100 * KIB)));
    gate_hold(gate, NULL);
    stint_unmask();
    stint_free(block);
    return 0;
}

/* How long it took, from the look on. */
static uint64_t look_late(stint_outcome *of_looker, stint_outcome *of_holder)
{
    struct gate told = { 0 };
    late = (struct gate){ 0 };
    atomic_store(&reports, 0);
    atomic_store(&held, 0);
    atomic_store(&holds, false);
    stint_pool *pool = make_pool(.workers = 2);
    stint_future *holder = submit(pool, hold_most, &told, NULL);
    stint_future *looker = submit(pool, look, NULL, NULL);
    gate_await(&late, 1);
    uint64_t begun = now_ns();
    gate_await(&told, 1);
    gate_open(&late);
    *of_looker = take(looker);
    uint64_t took = now_ns() - begun;
    gate_open(&told);
    *of_holder = take(holder);
    assert_int_equal(stint_pool_destroy(pool), 0);
    return took;
}

/* What it has read was true before another task was stopped for it. */
TEST_WITH(a_look_that_was_held_up_stops_no_second_task, begin, end)
{
    stint_outcome of_looker, of_holder;
    for (int tries = 0; look_late(&of_looker, &of_holder) > PATIENCE && tries < TRIES; tries++)
        ;
    assert_ok(of_looker);
    assert_outcome(of_holder, STINT_ERROR, STINT_REASON_GLOBAL_MEMORY_LIMIT, ENOMEM);
    assert_int_equal(atomic_load(&reports), 1);
}

/* --- The task that was chosen has ended by then, and another one runs on its thread. --- */

/* Where it has looked it reads anew, and is late there. */
static int look_once(void *unused, void **value)
{
    (void)unused;
    (void)value;
    atomic_store(&held, LIMIT + 1);
    atomic_store(&second_is_late, true);
    while (atomic_load(&late.entered) == 0)
        stint_free(keep(stint_malloc(100 * KIB)));
    return 0;
}

static void *run_look_once(void *outcome)
{
    if (stint_run(look_once, NULL, NULL, outcome) != 0)
        *(stint_outcome *)outcome = (stint_outcome){ .error = ENOTSUP };
    return NULL;
}

static int hold_until_looked(void *of_looker, void **looker)
{
    void *block = keep(stint_malloc(10 * MIB));
    assert_int_equal(pthread_create((pthread_t *)looker, NULL, run_look_once, of_looker), 0);
    gate_await(&late, 1);
    stint_free(block);
    return 0;
}

/* The look ends meanwhile. */
static int hold_less(void *looker, void **value)
{
    (void)value;
    void *block = keep(stint_malloc(5 * MIB));
    atomic_store(&held, 0);
    gate_open(&late);
    pthread_join((pthread_t)looker, NULL);
    for (int i = 0; i < 100; i++)
        stint_free(keep(stint_malloc(100 * KIB)));
    stint_free(block);
    return 0;
}

/* Twenty looks take less time than a victim has. */
static int hold_for_some_looks(void *unused, void **value)
{
    (void)unused;
    (void)value;
    void *block = keep(stint_malloc(10 * MIB));
    atomic_store(&looks, 0);
    atomic_store(&held, LIMIT + 1);
    while (atomic_load(&looks) < 20)
        stint_free(keep(stint_malloc(100 * KIB)));
    stint_free(block);
    return 0;
}

TEST_WITH(a_task_is_not_stopped_for_what_the_one_before_it_held, begin, end)
{
    stint_outcome of_looker, of_first, of_second, of_third;
    late = (struct gate){ 0 };
    atomic_store(&held, 0);
    atomic_store(&reports, 0);
    assert_int_equal(stint_run(hold_until_looked, &of_looker, NULL, &of_first), 0);
    assert_ok(of_first);
    assert_int_equal(stint_run(hold_less, of_first.value, NULL, &of_second), 0);
    assert_ok(of_second);
    assert_ok(of_looker);
    assert_int_equal(atomic_load(&reports), 0);

    assert_int_equal(stint_run(hold_for_some_looks, NULL, NULL, &of_third), 0);
    assert_outcome(of_third, STINT_ERROR, STINT_REASON_GLOBAL_MEMORY_LIMIT, ENOMEM);
    assert_int_equal(atomic_load(&reports), 1);
}

/* --- The task that was chosen is slow to end. --- */

/* For so long that a second one is to be chosen. */
static int hold_less_and_look(void *told, void **value)
{
    (void)value;
    void *block = keep(stint_malloc(5 * MIB));
    while (!atomic_load(&holds))
        gate_nap();
    atomic_store(&held, LIMIT + 1);
    while (atomic_load(&((struct gate *)told)->entered) == 0)
        stint_free(keep(stint_malloc(100 * KIB)));
    atomic_store(&held, 2 * LIMIT);
    for (int i = 0; i < 5000; i++) {
        stint_free(keep(stint_malloc(100 * KIB)));
        gate_nap();
    }
    stint_free(block);
    return 0;
}

TEST_WITH(the_next_one_is_stopped_where_the_first_does_not_end, begin, end)
{
    struct gate told = { 0 };
    late = (struct gate){ .entered = 1 }; /* nobody is */
    atomic_store(&held, 0);
    atomic_store(&holds, false);
    atomic_store(&reports, 0);
    stint_pool *pool = make_pool(.workers = 2);
    stint_future *first = submit(pool, hold_most, &told, NULL);
    stint_outcome of_second = run_in_pool(pool, hold_less_and_look, &told, NULL);
    gate_open(&told);
    stint_outcome of_first = take(first);
    assert_outcome(of_first, STINT_ERROR, STINT_REASON_GLOBAL_MEMORY_LIMIT, ENOMEM);
    assert_outcome(of_second, STINT_ERROR, STINT_REASON_GLOBAL_MEMORY_LIMIT, ENOMEM);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

/* --- A task goes on that has run another one meanwhile. --- */

static int hold_until_stopped(void *unused, void **value)
{
    (void)unused;
    (void)value;
    keep(stint_malloc(10 * MIB));
    atomic_store(&held, LIMIT + 1);
    while (atomic_load(&reports) == 0)
        stint_free(keep(stint_malloc(100 * KIB)));
    return 0;
}

static int run_within(void *pool, void **value)
{
    stint_outcome outcome = run_in_pool(pool, hold_until_stopped, NULL, NULL);
    for (int i = 0; i < 100; i++)
        stint_free(keep(stint_malloc(100 * KIB)));
    *value = (void *)(uintptr_t)outcome.reason;
    return 0;
}

TEST_WITH(a_task_is_not_stopped_for_what_one_inside_of_it_held, begin, end)
{
    atomic_store(&held, 0);
    atomic_store(&reports, 0);
    stint_pool *pool = make_pool(.workers = 1);
    stint_outcome outcome = run_in_pool(pool, run_within, pool, NULL);
    assert_ok(outcome);
    assert_int_equal((uintptr_t)outcome.value, STINT_REASON_GLOBAL_MEMORY_LIMIT);
    assert_int_equal(atomic_load(&reports), 1);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

static int be_stopped_after_another(void *pool, void **value)
{
    stint_outcome outcome = run_in_pool(pool, do_nothing, NULL, NULL);
    assert_ok(outcome);
    return hold_until_stopped(NULL, value);
}

TEST_WITH(a_task_that_has_run_another_is_stopped_for_what_it_holds, begin, end)
{
    atomic_store(&held, 0);
    atomic_store(&reports, 0);
    stint_pool *pool = make_pool(.workers = 1);
    stint_outcome outcome = run_in_pool(pool, be_stopped_after_another, pool, NULL);
    assert_outcome(outcome, STINT_ERROR, STINT_REASON_GLOBAL_MEMORY_LIMIT, ENOMEM);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

/* --- A task waits for another, which its worker runs, while a part of it runs elsewhere. --- */

struct parted {
    stint_pool *pool;
    atomic_uint stolen; /* the part has begun */
    struct gate within; /* what runs on top of the task holds its worker here */
    atomic_bool over;
    stint_reason reason; /* of what ran on top of it */
};

static int work_elsewhere(void *arg, void **value)
{
    struct parted *parted = arg;
    (void)value;
    atomic_store(&parted->stolen, 1);
    while (!atomic_load(&parted->over))
        stint_free(keep(stint_malloc(4 * MIB))); /* what all hold is measured for it */
    return 0;
}

/* It holds much, has a part stolen, and runs the other one on top of it. */
static void run_within_parted(struct parted *parted, stint_fn *fn)
{
    void *block = keep(stint_malloc(10 * MIB));
    stint_subtask part;
    stint_fork(&part, work_elsewhere, parted);
    have_stolen(&parted->stolen);
    stint_outcome outcome = run_in_pool(parted->pool, fn, parted, NULL);
    parted->reason = outcome.reason;
    atomic_store(&parted->over, true);
    stint_join(&part, NULL);
    stint_free(block);
}

static int run_parted_until_stopped(void *parted, void **value)
{
    (void)value;
    run_within_parted(parted, hold_until_stopped);
    return 0;
}

TEST_WITH(a_task_whose_part_runs_elsewhere_is_not_stopped_for_what_one_inside_of_it_held, begin, end)
{
    struct parted parted = { .pool = make_pool(.workers = 2) };
    atomic_store(&held, 0);
    atomic_store(&reports, 0);
    stint_outcome outcome = run_in_pool(parted.pool, run_parted_until_stopped, &parted, NULL);
    assert_ok(outcome);
    assert_int_equal(parted.reason, STINT_REASON_GLOBAL_MEMORY_LIMIT);
    assert_int_equal(atomic_load(&reports), 1);
    assert_int_equal(stint_pool_destroy(parted.pool), 0);
}

static int hold_little(void *arg, void **value)
{
    struct parted *parted = arg;
    (void)value;
    void *block = keep(stint_malloc(1 * MIB));
    gate_hold(&parted->within, NULL);
    stint_free(block);
    return 0;
}

static int run_parted(void *parted, void **value)
{
    (void)value;
    run_within_parted(parted, hold_little);
    return 0;
}

static int hold_some_until_stopped(void *unused, void **value)
{
    (void)unused;
    (void)value;
    keep(stint_malloc(5 * MIB));
    atomic_store(&held, LIMIT + 1);
    while (atomic_load(&reports) == 0)
        stint_free(keep(stint_malloc(100 * KIB)));
    return 0;
}

/* Which the other thread measures again and again. */
TEST_WITH(a_task_is_not_stopped_for_what_the_one_around_it_holds, begin, end)
{
    struct parted parted = { .pool = make_pool(.workers = 2) };
    atomic_store(&held, 0);
    atomic_store(&reports, 0);
    stint_future *around = submit(parted.pool, run_parted, &parted, NULL);
    gate_await(&parted.within, 1);
    stint_outcome outcome;
    assert_int_equal(stint_run(hold_some_until_stopped, NULL, NULL, &outcome), 0);
    gate_open(&parted.within);
    assert_outcome(outcome, STINT_ERROR, STINT_REASON_GLOBAL_MEMORY_LIMIT, ENOMEM);
    assert_ok(take(around));
    assert_int_equal(parted.reason, STINT_REASON_NONE);
    assert_int_equal(stint_pool_destroy(parted.pool), 0);
}

/* --- The task that is chosen has stepped aside for a callback. --- */

/* Once to see that it is too much, and once before it chooses. */
static int look_until_seen(void *unused, void **value)
{
    (void)unused;
    (void)value;
    atomic_store(&looks, 0);
    atomic_store(&held, LIMIT + 1);
    while (atomic_load(&looks) < 2)
        stint_free(keep(stint_malloc(100 * KIB)));
    return 0;
}

static void *look_twice(void *unused)
{
    stint_outcome outcome;
    (void)unused;
    assert_int_equal(stint_run(look_until_seen, NULL, NULL, &outcome), 0);
    assert_ok(outcome);
    return NULL;
}

static void be_looked_at(void *unused)
{
    pthread_t looker;
    (void)unused;
    assert_int_equal(pthread_create(&looker, NULL, look_twice, NULL), 0);
    pthread_join(looker, NULL);
}

static int hold_and_call_back(void *unused, void **value)
{
    stint_context *context;
    (void)unused;
    (void)value;
    keep(stint_malloc(10 * MIB));
    assert_int_equal(stint_context_create(NULL, be_looked_at, &context), 0);
    stint_context_release(context);
    for (int i = 0; i < 100; i++)
        stint_free(keep(stint_malloc(100 * KIB)));
    return 0;
}

TEST_WITH(a_task_is_stopped_that_was_chosen_while_it_called_back, begin, end)
{
    stint_outcome outcome;
    atomic_store(&held, 0);
    atomic_store(&reports, 0);
    assert_int_equal(stint_run(hold_and_call_back, NULL, NULL, &outcome), 0);
    assert_outcome(outcome, STINT_ERROR, STINT_REASON_GLOBAL_MEMORY_LIMIT, ENOMEM);
    assert_int_equal(atomic_load(&reports), 1);
}

TEST_MAIN()
