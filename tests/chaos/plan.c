/* SPDX-License-Identifier: MIT
 *
 * From a seed to a plan. */
#include "plan.h"

#include <inttypes.h>
#include <stdio.h>

/* Deadlines are seldom: the clock that they are compared with may tick every 4 ms only, so each takes that long. */
const struct chaos_reason_traits chaos_reasons[CHAOS_REASONS] = {
    [CHAOS_ALLOCATION] = { "allocation", 84, STINT_ERROR, STINT_REASON_ALLOCATION_LIMIT, 0, false },
    [CHAOS_MEMORY] = { "memory", 40, STINT_ERROR, STINT_REASON_MEMORY_LIMIT, 0, false },
    [CHAOS_TOKEN] = { "token", 40, STINT_CANCELLED, STINT_REASON_TOKEN, 400000, false },
    [CHAOS_CANCEL] = { "cancel", 34, STINT_CANCELLED, STINT_REASON_TOKEN, 400000, false },
    [CHAOS_DEADLINE] = { "deadline", 2, STINT_ERROR, STINT_REASON_DEADLINE, 8000000, false },
    [CHAOS_PREEMPTION] = { "preemption", 40, STINT_ERROR, STINT_REASON_DEADLINE, 400000, true },
    [CHAOS_STACK] = { "stack", 20, STINT_ERROR, STINT_REASON_STACK, 0, true },
};

static uint64_t part(uint64_t seed, uint64_t which)
{
    uint64_t state = seed + which * UINT64_C(0xd1342543de82ef95);
    return chaos_random(&state);
}

static bool is_possible(const struct chaos_library *library, const struct chaos_options *options)
{
    if (options->library != NULL)
        return library == options->library;
    return (options->mode < 0 || library->modes & 1u << options->mode) &&
           (options->reason < 0 || !chaos_reasons[options->reason].preempting || library->preemptible);
}

static size_t pick_library(uint64_t random, const struct chaos_options *options)
{
    size_t possible[CHAOS_LIBRARIES];
    size_t count = 0;
    for (size_t i = 0; chaos_libraries[i] != NULL; i++) {
        if (is_possible(chaos_libraries[i], options))
            possible[count++] = i;
    }
    return possible[random % count];
}

static stint_on_interrupt pick_mode(uint64_t random, const struct chaos_library *library,
                                    const struct chaos_options *options)
{
    if (options->mode >= 0)
        return (stint_on_interrupt)options->mode;
    unsigned mode = (unsigned)(random % CHAOS_MODES);
    while (!(library->modes & 1u << mode))
        mode = (mode + 1) % CHAOS_MODES;
    return (stint_on_interrupt)mode;
}

static enum chaos_reason pick_reason(uint64_t random, const struct chaos_library *library,
                                     const struct chaos_options *options)
{
    if (options->reason >= 0)
        return (enum chaos_reason)options->reason;
    unsigned sum = 0;
    for (unsigned i = 0; i < CHAOS_REASONS; i++)
        sum += chaos_reasons[i].weight;
    unsigned left = (unsigned)(random % sum);
    unsigned reason = 0;
    while (left >= chaos_reasons[reason].weight)
        left -= chaos_reasons[reason++].weight;
    if (chaos_reasons[reason].preempting && options->sampled)
        return CHAOS_ALLOCATION;
    return chaos_reasons[reason].preempting && !library->preemptible ? CHAOS_TOKEN : (enum chaos_reason)reason;
}

struct chaos_plan chaos_plan_make(uint64_t seed, const struct chaos_options *options)
{
    struct chaos_plan plan = { .seed = seed, .library_index = pick_library(part(seed, 1), options) };
    plan.library = chaos_libraries[plan.library_index];
    plan.mode = pick_mode(part(seed, 2), plan.library, options);
    plan.reason = pick_reason(part(seed, 3), plan.library, options);
    plan.variant = (unsigned)(part(seed, 4) % CHAOS_VARIANTS);
    plan.point = (double)(part(seed, 5) >> 11) / 0x1p53;
    plan.scopes = (unsigned)(part(seed, 6) % 3);
    plan.limited = (unsigned)(part(seed, 7) % (plan.scopes + 1));
    /* A future is cancelled from outside. A deadline counts from when the task was queued, or the scope began. */
    if (plan.reason == CHAOS_CANCEL)
        plan.limited = 0;
    if (chaos_reasons[plan.reason].outcome == STINT_REASON_DEADLINE && plan.limited == 0)
        plan.limited = plan.scopes = 1;
    if (plan.reason == CHAOS_STACK) /* the innermost uses it up */
        plan.limited = plan.scopes;
    return plan;
}

struct chaos_plan chaos_plan_clean(size_t library, unsigned variant)
{
    return (struct chaos_plan){
        .library = chaos_libraries[library], .library_index = library, .variant = variant, .reason = CHAOS_NONE
    };
}

void chaos_plan_print(const struct chaos_plan *plan, char line[CHAOS_REPEAT_SIZE])
{
    if (plan->reason == CHAOS_NONE)
        snprintf(line, CHAOS_REPEAT_SIZE, "a clean run of %s, variant %u", plan->library->name, plan->variant);
    else
        snprintf(line, CHAOS_REPEAT_SIZE, "chaos --library %s --mode %s --reason %s --task 0x%" PRIx64,
                 plan->library->name, chaos_mode_name(plan->mode), chaos_reasons[plan->reason].name, plan->seed);
}
