/* SPDX-License-Identifier: MIT
 *
 * The limit on the whole process, where the system keeps the thread that looks from running. This program says what the
 * process holds, and keeps a thread there for as long as it wants. */
#include "alloc/platform/system.h"
#include "pools.h"

#define LIMIT ((size_t)1 << 40)
#define PATIENCE (500 * MS) /* of which the library has more before it stops a second task */
#define TRIES 20

size_t __wrap_sti_resident(void);

static atomic_size_t held;
static atomic_bool next_is_late;
static struct gate late; /* behind which who reads next comes to a stop */

size_t __wrap_sti_resident(void)
{
    size_t bytes = atomic_load(&held);
    if (atomic_exchange(&next_is_late, false))
        gate_hold(&late, NULL);
    return bytes;
}

static atomic_uint reports;

static void count_report(const stint_global_event *event, void *unused)
{
    (void)event;
    (void)unused;
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

TEST_MAIN()
