/* SPDX-License-Identifier: MIT
 *
 * Reports that there is no memory for, or not for all of them. */
#include "reports.h"

void *__real_sti_process_realloc(void *block, size_t size);
void *__wrap_sti_process_realloc(void *block, size_t size);

static bool is_refused;

void *__wrap_sti_process_realloc(void *block, size_t size)
{
    return is_refused ? NULL : __real_sti_process_realloc(block, size);
}

static int hold_much(void *arg, void **value)
{
    (void)arg;
    for (int i = 0; i < 1000; i++) {
        void **block = stint_malloc(1000);
        *block = *value;
        *value = block;
    }
    return EIO;
}

TEST(without_memory_for_all_of_what_a_task_held_nothing_is_said_of_it)
{
    (void)state;
    stint_options options = options_of(STINT_REPORT_HEAP, 0);
    for (int i = 0; i < 2; i++) {
        is_refused = i == 0;
        stint_report *report = report_of(hold_much, NULL, &options, STINT_REASON_FAILED);
        is_refused = false;
        json_t *read = report_read(report);
        assert_true((json_object_get(read, "what") == NULL) == (i == 0));
        assert_true(number_of(json_at(read, "usage", "held")) > 500000);
        json_decref(read);
        stint_report_release(report);
    }
}

TEST_MAIN()
