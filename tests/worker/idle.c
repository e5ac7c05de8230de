/* SPDX-License-Identifier: MIT
 *
 * A worker that has slept for long gives memory back by itself. This program takes the place of the function that does
 * so, counts its calls, and passes them on. */
#include "pools.h"

#include "alloc/meter/global.h"

static atomic_uint calls;
static atomic_bool others_may_free; /* what the worker's tasks have left */

bool __real_sti_give_back(void);
bool __wrap_sti_give_back(void);

bool __wrap_sti_give_back(void)
{
    atomic_fetch_add(&calls, 1);
    return __real_sti_give_back() || atomic_load(&others_may_free);
}

static void await_calls(unsigned wanted)
{
    for (int i = 0; i < 60000 && atomic_load(&calls) < wanted; i++)
        nap_ms(1);
    assert_true(atomic_load(&calls) >= wanted);
}

TEST(a_worker_that_has_been_idle_for_long_gives_back_and_again_while_others_may_free)
{
    stint_pool *pool = make_pool(.workers = 1);
    atomic_store(&others_may_free, true);
    assert_ok(take(submit(pool, do_nothing, NULL, NULL)));
    await_calls(3);
    atomic_store(&others_may_free, false);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST_MAIN()
