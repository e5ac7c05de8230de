/* SPDX-License-Identifier: MIT
 *
 * A task is never left in the constructor of a thread_local variable, which would not be made again on its thread; and
 * what comes after it, in the same function, is interrupted as ever. However it was compiled. */
#include "thread_unit.h"

#include <pthread.h>
#include <stint/stint.hpp>

#include "trail.h"

/* clang-format off */
#define UNITS(X)                                                                                                       \
    X(program_0)                                                                                                       \
    X(program_1) X(program_2) X(program_3) X(relaxed_0) X(relaxed_1) X(relaxed_2) X(relaxed_3) X(library_0)            \
        X(library_1) X(library_2) X(library_3)
/* clang-format on */
#define DECLARE(name) extern const first_uses name##_uses;
UNITS(DECLARE)

namespace
{

struct use {
    first_use *function;
    stint_on_interrupt mode;
    stint_reason reason; /* of the first task */
    uint64_t deferred;
    int value;  /* afterwards, on the same thread */
    bool stops; /* a later task that goes on and on after the first use */
};

int call(void *use_, void **)
{
    static_cast<use *>(use_)->function(false);
    sink = malloc(100);
    return 0;
}

int call_and_go_on(void *use_, void **)
{
    static_cast<use *>(use_)->function(true);
    return 0;
}

void *use_first_in_a_task(void *use_)
{
    auto *use = static_cast<struct use *>(use_);
    stint_options options = limited(0);
    options.budget = stint_budget{};
    options.budget.allocation = 10 * 1008;
    options.on_interrupt = use->mode;
    stint_outcome outcome;
    assert_int_equal(stint_run(call, use, &options, &outcome), 0);
    use->reason = outcome.reason;
    use->deferred = outcome.usage.deferred;
    use->value = use->function(false);
    return nullptr;
}

void *use_first_and_go_on(void *use_)
{
    auto *use = static_cast<struct use *>(use_);
    stint_options options = limited(0);
    options.budget = stint_budget{};
    options.budget.wall_ns = 20000000;
    options.on_interrupt = use->mode;
    stint_outcome outcome;
    assert_int_equal(stint_run(call_and_go_on, use, &options, &outcome), 0);
    use->stops = outcome.reason == STINT_REASON_DEADLINE;
    use->value = use->function(false);
    return nullptr;
}

void on_a_new_thread(void *(*function)(void *), use *one)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, nullptr, function, one), 0);
    assert_int_equal(pthread_join(thread, nullptr), 0);
}

void check(const char *unit, const char *name, first_use *function, stint_on_interrupt mode)
{
    use first{ function, mode, STINT_REASON_NONE, 0, 0, false };
    on_a_new_thread(use_first_in_a_task, &first);
    if (first.value != 42 || first.reason != STINT_REASON_ALLOCATION_LIMIT || first.deferred == 0)
        fail_msg("%s %s: value %d, reason %d, deferred %d times", unit, name, first.value, first.reason,
                 static_cast<int>(first.deferred));
    use later{ function, mode, STINT_REASON_NONE, 0, 0, false };
    on_a_new_thread(use_first_and_go_on, &later);
    if (!later.stops || later.value != 42)
        fail_msg("%s %s: value %d, stopped %d", unit, name, later.value, later.stops);
}

TEST(a_variable_is_made_whole_before_its_task_is_left)
{
#define CHECK(name)                                                                                                    \
    for (stint_on_interrupt mode : { STINT_JUMP, STINT_UNWIND }) {                                                     \
        check(#name, "alone", name##_uses.alone, mode);                                                                \
        check(#name, "pointer", name##_uses.pointer, mode);                                                            \
        check(#name, "one of many", name##_uses.one_of_many, mode);                                                    \
        check(#name, "exported", name##_uses.exported, mode);                                                          \
        check(#name, "flag", name##_uses.flag, mode);                                                                  \
    }
    UNITS(CHECK)
}

} // namespace

TEST_MAIN()
