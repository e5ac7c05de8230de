/* SPDX-License-Identifier: MIT
 *
 * When the frames of an interrupted task go, no hook that lies on them is on its list any more: the watch would read
 * it. This program takes the place of what follows, and looks at the list before it passes the calls on. */
#include "support.h"

#include <setjmp.h>

#include "alloc/interrupt/unwind.h"
#include "alloc/platform/scope_state.h"
#include "alloc/platform/thread.h"

static const struct sti_scope *observed;
static unsigned looked, left_on_list;

static void look_at_list(const struct sti_scope *scope)
{
    if (scope != observed)
        return;
    looked++;
    left_on_list += scope->hooks != NULL;
}

_Noreturn void __real_sti_real_longjmp(jmp_buf environment, int value);
_Noreturn void __wrap_sti_real_longjmp(jmp_buf environment, int value);
_Noreturn void __real_sti_unwind_leave(struct sti_scope *scope);
_Noreturn void __wrap_sti_unwind_leave(struct sti_scope *scope);

/* All frames of the task are about to go at once. */
_Noreturn void __wrap_sti_real_longjmp(jmp_buf environment, int value)
{
    look_at_list(sti_scope_innermost());
    __real_sti_real_longjmp(environment, value);
}

/* They are about to go one after the other. */
_Noreturn void __wrap_sti_unwind_leave(struct sti_scope *scope)
{
    look_at_list(scope);
    __real_sti_unwind_leave(scope);
}

static void do_not_care(void *arg)
{
    (void)arg;
}

static int be_interrupted(void *token, void **value)
{
    stint_hook hooks[2];
    (void)value;
    observed = sti_scope_innermost();
    for (int i = 0; i < 2; i++) {
        if (stint_hook_push(&hooks[i], do_not_care, NULL) != 0)
            return EIO;
    }
    stint_token_set(token);
    stint_free(keep(stint_malloc(100)));
    stint_checkpoint();
    return EPROTO;
}

static void interrupt_in(stint_on_interrupt mode, unsigned times)
{
    stint_options options = { .size = sizeof options, .on_interrupt = mode };
    assert_int_equal(stint_token_create(NULL, &options.token), 0);
    looked = left_on_list = 0;
    assert_cancelled(run_task(be_interrupted, options.token, &options), STINT_REASON_TOKEN);
    assert_in_range(looked, times, 2);
    assert_int_equal(left_on_list, 0);
    stint_token_release((stint_token *)(uintptr_t)options.token);
}

TEST(a_jump_leaves_no_hook_on_the_list)
{
    interrupt_in(STINT_JUMP, 1);
}

TEST(an_unwinding_leaves_no_hook_on_the_list)
{
    interrupt_in(STINT_UNWIND, 2);
}

TEST_MAIN()
