/* SPDX-License-Identifier: MIT
 *
 * What stopped tasks held is not resident beside what the next ones take: it goes back to the system at once, or when
 * there are 64 MiB of it. */
#include "support.h"

#define LEFT_MAX (72 * MIB) /* 64 of rolled back heaps, and what the program needs */

static int hold(void *bytes, void **value)
{
    (void)value;
    for (size_t held = 0; held < *(size_t *)bytes; held += MIB / 16)
        memset(stint_malloc(MIB / 16), 1, MIB / 16);
    return 1;
}

static void left_by_tasks_of(size_t bytes, int count)
{
    size_t before = resident();
    for (int i = 0; i < count; i++) {
        assert_outcome(run_task(hold, &bytes, NULL), STINT_ERROR, STINT_REASON_FAILED, 1);
        assert_true(resident() < before + LEFT_MAX + quarantine_room(bytes));
    }
}

TEST(what_a_large_task_held_is_gone_when_its_outcome_is_told)
{
    left_by_tasks_of(200 * MIB, 3);
}

TEST(what_many_small_tasks_held_does_not_add_up)
{
    left_by_tasks_of(MIB, 300);
}

TEST_MAIN()
