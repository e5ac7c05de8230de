/* SPDX-License-Identifier: MIT
 *
 * What another thread does to a future just before the library begins to follow it. This program takes the place of the
 * function that does so, and passes the calls on. */
#include "compounds.h"
#include "executor/task/compound.h"
#include "executor/task/continuation.h"

static void (*before)(struct sti_continuation *continuation); /* the next call; NULL: nothing */

void __real_sti_continuation_add(struct sti_continuation *continuation);
void __wrap_sti_continuation_add(struct sti_continuation *continuation);

void __wrap_sti_continuation_add(struct sti_continuation *continuation)
{
    if (before != NULL)
        before(continuation);
    __real_sti_continuation_add(continuation);
}

static struct gate first_gate;
static unsigned members_seen;

/* When the second member is about to be attached, the first one decides. */
static void decide(struct sti_continuation *continuation)
{
    struct sti_compound *compound = ((struct sti_share *)continuation)->compound;
    if (members_seen++ == 0)
        return;
    gate_open(&first_gate);
    while (!stint_future_is_ready(&compound->future))
        gate_nap();
}

TEST(a_member_that_is_attached_when_another_has_decided_is_not_followed)
{
    stint_pool *pool = make_pool(.workers = 2);
    struct gate gate = { 0 };
    stint_future *members[] = { submit(pool, gate_hold, &first_gate, NULL), submit(pool, gate_hold, &gate, NULL) };
    gate_await(&first_gate, 1);
    gate_await(&gate, 1);
    before = decide;
    stint_future *any = any_of(members, 2);
    before = NULL;
    assert_int_equal(members_seen, 2);
    assert_int_equal(index_of(any), 0);
    assert_false(sti_continuation_is_followed(members[1]));
    stint_future_release(any);
    gate_open(&gate);
    for (int i = 0; i < 2; i++)
        assert_ok(take(members[i]));
    assert_int_equal(stint_pool_destroy(pool), 0);
}

static void cancel_at_once(struct sti_continuation *continuation)
{
    before = NULL;
    stint_future_cancel(continuation->task);
}

TEST(a_task_that_is_cancelled_before_it_is_in_line_has_no_turn)
{
    stint_pool *pool = make_pool(.workers = 1);
    stint_serial *serial;
    stint_future *future;
    atomic_uint ran = 0;
    assert_int_equal(stint_serial_create(pool, 1, &serial), 0);
    for (int i = 0; i < 3; i++) {
        before = cancel_at_once;
        assert_int_equal(stint_serial_submit(serial, count_run, &ran, NULL, &future), 0);
        assert_null(before);
        assert_cancelled(take_in_time(future), STINT_REASON_TOKEN);
        assert_int_equal(stint_serial_submit(serial, count_run, &ran, NULL, &future), 0);
        assert_ok(take_in_time(future));
    }
    assert_int_equal(atomic_load(&ran), 3);
    stint_serial_release(serial);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST_MAIN()
