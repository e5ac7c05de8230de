/* SPDX-License-Identifier: MIT
 *
 * Guards: which run, in which order, how often, and what they may do. */
#include "repeats.h"
#include "support.h"

#include <setjmp.h>

static stint_options with_limit(size_t allocation)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.allocation = allocation;
    return options;
}

/* Notes of a task's guards, in the order in which they ran. */
static struct {
    char text[64];
    size_t length;
    bool interrupted; /* as seen by the last one */
    bool allocated;
} notes;

static void note(void *arg)
{
    notes.text[notes.length++] = *(const char *)arg;
    notes.interrupted = stint_is_interrupted();
}

static void clear_notes(void)
{
    memset(&notes, 0, sizeof notes);
}

static char letters[] = "abcdefgh";

static void allocate_for_ever(void)
{
    while (keep(stint_malloc(1000)) != NULL)
        ;
}

static int push_three(void *arg, void **value)
{
    stint_guard guards[3];
    (void)arg;
    (void)value;
    for (unsigned i = 0; i < 3; i++)
        stint_guard_push(&guards[i], note, &letters[i]);
    allocate_for_ever();
    return 0;
}

TEST(guards_run_newest_first_and_know_of_the_interrupt)
{
    clear_notes();
    stint_options options = with_limit(64 * KIB);
    assert_limit_passed(run_task(push_three, NULL, &options));
    assert_string_equal(notes.text, "cba");
    assert_true(notes.interrupted);
}

static int push_and_pop(void *arg, void **value)
{
    stint_guard guards[6];
    (void)arg;
    (void)value;
    stint_guard_push(&guards[0], note, &letters[0]);
    stint_guard_push(&guards[1], note, &letters[1]);
    stint_guard_pop(&guards[1], false);
    stint_guard_push(&guards[2], note, &letters[2]);
    stint_guard_pop(&guards[2], true);
    stint_guard_pop(&guards[2], true); /* not on the list any more */
    stint_guard_push(&guards[3], note, &letters[3]);
    allocate_for_ever();
    return 0;
}

TEST(a_popped_guard_runs_on_request_and_no_guard_runs_twice)
{
    clear_notes();
    stint_options options = with_limit(64 * KIB);
    assert_limit_passed(run_task(push_and_pop, NULL, &options));
    assert_string_equal(notes.text, "cda");
}

/* The jump leaves its block, and no frame. */
static int push_again_after_a_jump(void *arg, void **value)
{
    jmp_buf here;
    stint_guard guard;
    volatile int jumps = 0;
    (void)arg;
    (void)value;
    STINT_GUARD(note, &letters[0]);
    if (setjmp(here) < 3) {
        stint_guard_push(&guard, note, &letters[1]);
        STINT_GUARD(note, &letters[2]);
        jumps++;
        longjmp(here, jumps);
    }
    stint_guard_push(&guard, note, &letters[3]);
    allocate_for_ever();
    return 0;
}

TEST(a_guard_that_is_pushed_again_runs_once)
{
    clear_notes();
    stint_options options = with_limit(64 * KIB);
    assert_limit_passed(run_task(push_again_after_a_jump, NULL, &options));
    assert_string_equal(notes.text, "dca");
}

static int pop_all_and_return(void *code, void **value)
{
    stint_guard guards[2];
    (void)value;
    stint_guard_push(&guards[0], note, &letters[0]);
    stint_guard_push(&guards[1], NULL, NULL);
    stint_guard_pop(&guards[1], true);
    stint_guard_pop(&guards[0], false);
    return *(int *)code;
}

TEST(a_task_that_returns_runs_no_guard)
{
    clear_notes();
    for (int code = 0; code < 2; code++)
        assert_int_equal(run_task(pop_all_and_return, &code, NULL).error, code);
    assert_int_equal(notes.length, 0);
}

TEST(a_guard_works_outside_a_scope)
{
    clear_notes();
    stint_guard guard;
    stint_guard_push(&guard, note, &letters[0]);
    stint_guard_pop(&guard, false);
    assert_string_equal(notes.text, "");
    stint_guard_push(&guard, note, &letters[1]);
    stint_guard_pop(&guard, true);
    assert_string_equal(notes.text, "b");
    assert_false(notes.interrupted);
}

static void allocate_and_check(void *arg)
{
    note(arg);
    stint_checkpoint();
    stint_mask();
    stint_unmask();
    void *block = keep(stint_malloc(10000));
    notes.allocated = block != NULL;
    stint_free(block);
    notes.text[notes.length++] = '.';
}

static int push_allocating(void *arg, void **value)
{
    stint_guard guards[2];
    (void)arg;
    (void)value;
    stint_guard_push(&guards[0], allocate_and_check, &letters[0]);
    stint_guard_push(&guards[1], allocate_and_check, &letters[1]);
    allocate_for_ever();
    return 0;
}

TEST(a_guard_is_masked_and_may_allocate)
{
    clear_notes();
    stint_options options = with_limit(64 * KIB);
    assert_limit_passed(run_task(push_allocating, NULL, &options));
    assert_string_equal(notes.text, "b.a.");
    assert_true(notes.allocated);
}

static void run_a_scope(void *arg)
{
    (void)arg;
    int code = 0;
    stint_outcome outcome;
    if (stint_run(pop_all_and_return, &code, NULL, &outcome) == 0 && outcome.status == STINT_OK)
        note(&letters[7]);
}

static int push_one_that_runs_a_scope(void *arg, void **value)
{
    stint_guard guard;
    (void)arg;
    (void)value;
    stint_guard_push(&guard, run_a_scope, NULL);
    allocate_for_ever();
    return 0;
}

TEST(a_guard_may_open_a_scope)
{
    clear_notes();
    stint_options options = with_limit(64 * KIB);
    assert_limit_passed(run_task(push_one_that_runs_a_scope, NULL, &options));
    assert_string_equal(notes.text, "h");
}

static int pop_while_due(void *token, void **value)
{
    stint_guard guards[2];
    (void)value;
    stint_guard_push(&guards[0], note, &letters[0]);
    stint_guard_push(&guards[1], note, &letters[1]);
    stint_token_set(token);
    stint_guard_pop(&guards[1], true); /* its end is the end of a mask: the interrupt */
    note(&letters[2]);
    return 0;
}

TEST(popping_and_running_a_guard_ends_in_a_sample_point)
{
    clear_notes();
    stint_options options = STINT_OPTIONS_INIT;
    assert_int_equal(stint_token_create(NULL, &options.token), 0);
    assert_cancelled(run_task(pop_while_due, options.token, &options), STINT_REASON_TOKEN);
    assert_string_equal(notes.text, "ba");
    stint_token_release(options.token);
}

static int push_inside(void *arg, void **value)
{
    stint_guard guard;
    (void)arg;
    (void)value;
    stint_guard_push(&guard, note, &letters[1]);
    allocate_for_ever();
    return 0;
}

struct around {
    const stint_options *inner;
    stint_outcome outcome;
    volatile bool returned;
};

static int push_around(void *arg, void **value)
{
    struct around *around = arg;
    stint_guard guard;
    (void)value;
    stint_guard_push(&guard, note, &letters[0]);
    stint_run(push_inside, NULL, around->inner, &around->outcome);
    around->returned = true;
    stint_guard_pop(&guard, false);
    return 0;
}

TEST(an_interrupt_of_an_outer_scope_runs_the_inner_guards_then_its_own)
{
    clear_notes();
    struct around around = { .inner = NULL };
    stint_options options = with_limit(64 * KIB);
    assert_limit_passed(run_task(push_around, &around, &options));
    assert_false(around.returned);
    assert_string_equal(notes.text, "ba");
}

TEST(an_interrupt_of_an_inner_scope_runs_no_outer_guard)
{
    clear_notes();
    stint_options inner = with_limit(64 * KIB);
    struct around around = { .inner = &inner };
    assert_ok(run_task(push_around, &around, NULL));
    assert_true(around.returned);
    assert_limit_passed(around.outcome);
    assert_string_equal(notes.text, "b");
}

static int fail_with_guard(void *arg, void **value)
{
    stint_guard guard;
    (void)arg;
    (void)value;
    stint_guard_push(&guard, note, &letters[0]);
    allocate_for_ever();
    stint_guard_pop(&guard, true);
    return 0;
}

TEST(in_fail_mode_the_task_runs_its_guards_itself)
{
    clear_notes();
    stint_options options = with_limit(64 * KIB);
    options.on_interrupt = STINT_FAIL;
    assert_limit_passed(run_task(fail_with_guard, NULL, &options));
    assert_string_equal(notes.text, "a");
}

static void close_descriptor(void *arg)
{
    close(*(int *)arg);
}

static int open_and_allocate(void *arg, void **value)
{
    int *descriptor = arg;
    stint_guard guard;
    (void)value;
    stint_mask();
    *descriptor = open("/dev/null", O_RDONLY);
    stint_guard_push(&guard, close_descriptor, descriptor);
    stint_unmask();
    allocate_for_ever();
    return 0;
}

TEST(no_descriptor_leaks_in_interrupted_tasks)
{
    stint_options options = with_limit(64 * KIB);
    int first = open("/dev/null", O_RDONLY);
    assert_true(first >= 0);
    close(first);
    for (unsigned round = 0, count = repeats(2000); round < count; round++) {
        int descriptor = -1;
        assert_limit_passed(run_task(open_and_allocate, &descriptor, &options));
        assert_int_equal(descriptor, first);
    }
}

static int forget_a_guard_and_fail(void *guard, void **value)
{
    (void)value;
    stint_guard_push(guard, NULL, NULL);
    return EIO;
}

TEST(a_task_that_has_forgotten_a_guard_keeps_its_own_error)
{
    stint_guard guard;
    assert_outcome(run_task(forget_a_guard_and_fail, &guard, NULL), STINT_ERROR, STINT_REASON_FAILED, EIO);
}

TEST_MAIN()
