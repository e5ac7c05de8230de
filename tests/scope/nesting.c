/* SPDX-License-Identifier: MIT
 *
 * Scopes inside scopes: an Error belongs to the one scope whose limit was passed; an inner scope has at most what the
 * outer ones have left; its committed blocks are the outer scope's. */
#include "support.h"

/* One level of a nest: its options, its function, and its outcome. */
struct level {
    stint_options options;
    size_t before; /* bytes to allocate before the level inside is run */
    size_t after;  /* and after it */
    bool masked;   /* around the level inside */
    struct level *inside;
    volatile bool ran_to_its_end;
    volatile bool guard_ran;
    volatile bool got_null;
    volatile bool filled;
    stint_outcome outcome;
};

static void note_guard(void *arg)
{
    ((struct level *)arg)->guard_ran = true;
}

static void allocate_so_much(struct level *level, size_t bytes)
{
    for (; bytes >= 1024; bytes -= 1024) {
        if (keep(stint_malloc(1024)) == NULL) {
            level->got_null = true;
            return;
        }
    }
}

static int run_level(void *arg, void **value)
{
    struct level *level = arg;
    stint_guard guard;
    (void)value;
    stint_guard_push(&guard, note_guard, level);
    allocate_so_much(level, level->before);
    if (level->inside != NULL) {
        if (level->masked)
            stint_mask();
        int error = stint_run(run_level, level->inside, &level->inside->options, &level->inside->outcome);
        level->inside->filled = error == 0;
        if (level->masked)
            stint_unmask();
        allocate_so_much(level, level->after);
    }
    stint_guard_pop(&guard, false);
    level->ran_to_its_end = true;
    return 0;
}

static struct level level_with(size_t allocation, size_t memory, stint_on_interrupt mode)
{
    struct level level = { .options = STINT_OPTIONS_INIT };
    level.options.budget.allocation = allocation;
    level.options.budget.memory = memory;
    level.options.on_interrupt = mode;
    return level;
}

static void run_nest(struct level *outermost)
{
    outermost->outcome = run_task(run_level, outermost, &outermost->options);
    outermost->filled = true;
}

#define LOW (256 * KIB)
#define HIGH (1024 * KIB)

/* Three scopes, limits of one kind in every order of low, high and none; the innermost allocates for ever. */
static void check_order(const size_t limits[3], bool memory, stint_on_interrupt mode)
{
    struct level levels[3];
    size_t lowest = SIZE_MAX;
    int owner = -1; /* the outermost of those with the lowest limit */
    for (int i = 0; i < 3; i++) {
        levels[i] = level_with(memory ? 0 : limits[i], memory ? limits[i] : 0, mode);
        levels[i].inside = i < 2 ? &levels[i + 1] : NULL;
        if (limits[i] != 0 && limits[i] < lowest) {
            lowest = limits[i];
            owner = i;
        }
    }
    levels[2].before = 2 * HIGH;
    run_nest(&levels[0]);
    for (int i = 0; i < 3; i++) {
        if (i < owner || owner < 0) {
            assert_ok(levels[i].outcome);
            assert_true(levels[i].ran_to_its_end);
            assert_false(levels[i].guard_ran);
        } else if (i == owner) {
            assert_outcome(levels[i].outcome, STINT_ERROR,
                           memory ? STINT_REASON_MEMORY_LIMIT : STINT_REASON_ALLOCATION_LIMIT, ENOMEM);
            assert_true(levels[i].outcome.usage.allocated <= lowest + (memory ? 64 * KIB : 0));
        } else if (mode == STINT_JUMP) {
            assert_false(levels[i].filled); /* the call did not return */
        } else {
            assert_cancelled(levels[i].outcome, STINT_REASON_OUTER);
        }
        if (owner >= 0 && i >= owner) {
            assert_int_equal(levels[i].guard_ran, mode == STINT_JUMP);
            assert_int_equal(levels[i].ran_to_its_end, mode == STINT_FAIL);
        }
    }
    assert_int_equal(levels[2].got_null, owner >= 0 && mode == STINT_FAIL);
}

TEST(an_error_belongs_to_the_scope_whose_limit_was_passed)
{
    static const size_t choices[] = { 0, LOW, HIGH };
    for (unsigned i = 0; i < 27; i++) {
        const size_t limits[3] = { choices[i % 3], choices[i / 3 % 3], choices[i / 9] };
        for (int mode = STINT_JUMP; mode <= STINT_FAIL; mode++) {
            check_order(limits, false, (stint_on_interrupt)mode);
            check_order(limits, true, (stint_on_interrupt)mode);
        }
    }
}

TEST(an_inner_scope_has_no_more_than_the_outer_one_has_left)
{
    struct level inner = level_with(LOW, 0, STINT_JUMP);
    inner.before = 64 * KIB;
    struct level outer = level_with(LOW, 0, STINT_JUMP);
    outer.inside = &inner;
    outer.before = LOW - 64 * KIB;
    run_nest(&outer);
    assert_ok(outer.outcome);
    assert_ok(inner.outcome);
    assert_int_equal(inner.outcome.usage.allocated, 64 * KIB);
    assert_int_equal(outer.outcome.usage.allocated, LOW);

    inner.before += 1024;
    run_nest(&outer);
    assert_limit_passed(outer.outcome);
    assert_int_equal(outer.outcome.usage.allocated, LOW);
}

TEST(a_scope_goes_on_after_an_inner_one_was_stopped)
{
    for (int mode = STINT_JUMP; mode <= STINT_FAIL; mode++) {
        struct level inner = level_with(LOW, 0, (stint_on_interrupt)mode);
        inner.before = HIGH;
        struct level outer = level_with(0, HIGH, STINT_JUMP);
        outer.inside = &inner;
        outer.before = 64 * KIB;
        outer.after = HIGH - 128 * KIB; /* fits, as the inner scope's memory is gone */
        run_nest(&outer);
        assert_ok(outer.outcome);
        assert_limit_passed(inner.outcome);
        assert_int_equal(outer.outcome.usage.allocated, 64 * KIB + LOW + HIGH - 128 * KIB);
    }
}

TEST(what_an_inner_scope_commits_counts_for_the_outer_one)
{
    struct level inner = level_with(0, 0, STINT_JUMP);
    inner.before = 600 * KIB;
    struct level outer = level_with(0, HIGH, STINT_JUMP);
    outer.inside = &inner;
    outer.after = HIGH;
    run_nest(&outer);
    assert_ok(inner.outcome);
    assert_outcome(outer.outcome, STINT_ERROR, STINT_REASON_MEMORY_LIMIT, ENOMEM);
    assert_in_range(outer.outcome.usage.allocated, HIGH - 128 * KIB, HIGH + 64 * KIB);
}

TEST(a_failing_scope_in_a_jumping_one)
{
    struct level inner = level_with(0, 0, STINT_FAIL);
    inner.before = HIGH;
    struct level outer = level_with(LOW, 0, STINT_JUMP);
    outer.inside = &inner;
    run_nest(&outer);
    assert_limit_passed(outer.outcome);
    assert_true(inner.got_null); /* its own code was left in its own way */
    assert_true(inner.ran_to_its_end);
    assert_false(inner.guard_ran);
    assert_true(outer.guard_ran);
    assert_false(outer.ran_to_its_end);
}

TEST(a_jumping_scope_in_a_failing_one)
{
    struct level inner = level_with(0, 0, STINT_JUMP);
    inner.before = HIGH;
    struct level outer = level_with(LOW, 0, STINT_FAIL);
    outer.inside = &inner;
    outer.after = 1024;
    run_nest(&outer);
    assert_limit_passed(outer.outcome);
    assert_true(inner.filled);
    assert_cancelled(inner.outcome, STINT_REASON_OUTER);
    assert_true(inner.guard_ran);
    assert_false(inner.ran_to_its_end);
    assert_true(outer.got_null);
    assert_true(outer.ran_to_its_end);
    assert_false(outer.guard_ran);
}

static void run_inside_a_masked_one(stint_on_interrupt mode)
{
    struct level inner = level_with(0, 0, mode);
    inner.before = LOW + 16 * KIB; /* the rest of it by the grace */
    struct level outer = level_with(LOW, 0, STINT_JUMP);
    outer.inside = &inner;
    outer.masked = true;
    run_nest(&outer);
    assert_limit_passed(outer.outcome);
    assert_false(inner.got_null);
    assert_true(inner.ran_to_its_end);
    assert_ok(inner.outcome);
    assert_true(outer.guard_ran); /* at its unmask */
    assert_false(outer.ran_to_its_end);
}

TEST(a_masked_outer_scope_is_not_interrupted_through_an_inner_one)
{
    run_inside_a_masked_one(STINT_JUMP);
    run_inside_a_masked_one(STINT_FAIL);
}

TEST(an_inner_scope_of_a_masked_one_is_stopped_by_its_own_limit)
{
    struct level inner = level_with(LOW, 0, STINT_JUMP);
    inner.before = HIGH;
    struct level outer = level_with(0, 0, STINT_JUMP);
    outer.inside = &inner;
    outer.masked = true;
    run_nest(&outer);
    assert_ok(outer.outcome);
    assert_limit_passed(inner.outcome);
    assert_true(inner.guard_ran);
}

/* Limits of every kind, one a scope, in every order; all but one are out of reach. */
enum kind { ALLOCATION, MEMORY, WALL, TOKEN, KINDS };

static void check_kinds(const enum kind kinds[3], int owner, stint_token *set, stint_token *unset)
{
    static const stint_reason reasons[KINDS] = {
        [ALLOCATION] = STINT_REASON_ALLOCATION_LIMIT,
        [MEMORY] = STINT_REASON_MEMORY_LIMIT,
        [WALL] = STINT_REASON_DEADLINE,
        [TOKEN] = STINT_REASON_TOKEN,
    };
    struct level levels[3];
    for (int i = 2; i >= 0; i--) {
        bool passed = i == owner;
        levels[i] = level_with(kinds[i] == ALLOCATION ? (passed ? LOW : GIB) : 0,
                               kinds[i] == MEMORY ? (passed ? LOW : GIB) : 0, STINT_JUMP);
        if (kinds[i] == WALL)
            levels[i].options.budget.wall_ns = passed ? 1 : UINT64_C(1000000000000);
        if (kinds[i] == TOKEN)
            levels[i].options.token = passed ? set : unset;
        levels[i].inside = i < 2 ? &levels[i + 1] : NULL;
        levels[i].before = i < 2 ? 1024 : HIGH;
    }
    run_nest(&levels[0]);
    for (int i = 0; i < owner; i++) {
        assert_ok(levels[i].outcome);
        assert_true(levels[i].ran_to_its_end);
    }
    assert_string_equal(stint_reason_name(levels[owner].outcome.reason), stint_reason_name(reasons[kinds[owner]]));
    /* A deadline that has just passed may only be seen at the end. */
    for (int i = owner; kinds[owner] != WALL && i < 3; i++) {
        assert_false(levels[i].ran_to_its_end);
        assert_int_equal(levels[i].filled, i == owner);
    }
}

TEST(limits_of_different_kinds_nest_in_every_order)
{
    stint_token *set;
    stint_token *unset;
    assert_int_equal(stint_token_create(NULL, &set), 0);
    assert_int_equal(stint_token_create(NULL, &unset), 0);
    stint_token_set(set);
    for (unsigned i = 0; i < KINDS * KINDS * KINDS; i++) {
        const enum kind kinds[3] = { i % KINDS, i / KINDS % KINDS, i / KINDS / KINDS };
        for (int owner = 0; owner < 3; owner++)
            check_kinds(kinds, owner, set, unset);
    }
    stint_token_release(set);
    stint_token_release(unset);
}

/* Left by an inner scope: blocks, and a thread-specific value. */
static pthread_key_t key;

static int leave_much(void *arg, void **value)
{
    (void)arg;
    for (size_t i = 0; i < 4 * MIB; i += 4096)
        memset(keep(stint_malloc(4096)), 1, 4096);
    *value = stint_malloc(100);
    return pthread_setspecific(key, *value);
}

static int succeed_in_a_scope_in_a_scope(void *arg, void **value)
{
    stint_outcome outcome;
    stint_fn *inside = arg != NULL ? succeed_in_a_scope_in_a_scope : leave_much;
    int error = stint_run(inside, NULL, NULL, &outcome);
    *value = outcome.value;
    return error != 0 || outcome.status != STINT_OK || outcome.value == NULL;
}

static int succeed_inside_and_fail(void *arg, void **value)
{
    (void)value;
    void *left = NULL;
    return succeed_in_a_scope_in_a_scope(arg, &left) == 0 ? 71 : 72;
}

TEST(an_inner_ok_and_an_outer_rollback_leave_nothing)
{
    char deep[] = "deep";
    size_t before = 0;
    assert_int_equal(pthread_key_create(&key, NULL), 0);
    for (int i = 0; i < 100; i++) {
        stint_outcome outcome = run_task(succeed_inside_and_fail, deep, NULL);
        assert_outcome(outcome, STINT_ERROR, STINT_REASON_FAILED, 71);
        if (stint_malloc_is_overridden()) {
            assert_int_equal(outcome.usage.kept, 0);
            assert_null(pthread_getspecific(key));
        }
        stint_free(pthread_getspecific(key)); /* otherwise it has been kept, and is the process's */
        assert_int_equal(pthread_setspecific(key, NULL), 0);
        if (i == 10)
            before = resident();
    }
    assert_in_range(resident(), 0, before + 16 * MIB + quarantine_room(0));
    assert_int_equal(pthread_key_delete(key), 0);
}

TEST(an_inner_token_cancels_only_the_inner_scope)
{
    stint_token *token;
    assert_int_equal(stint_token_create(NULL, &token), 0);
    struct level inner = level_with(LOW, LOW, STINT_JUMP);
    struct level outer = level_with(0, 0, STINT_FAIL);
    inner.options.token = token;
    stint_token_set(token);
    outer.inside = &inner;
    run_nest(&outer);
    assert_ok(outer.outcome);
    assert_cancelled(inner.outcome, STINT_REASON_TOKEN);
    assert_false(inner.ran_to_its_end);
    stint_token_release(token);
}

struct deep {
    unsigned depth;
    unsigned deepest;
    size_t allocation_of_one; /* limit of the scope at half the depth */
    volatile unsigned ok;
    volatile unsigned guards;
    volatile unsigned errors;
};

static void count_guard(void *arg)
{
    ++*(volatile unsigned *)arg;
}

static int go_deeper(void *arg, void **value)
{
    struct deep *deep = arg;
    stint_guard guard;
    (void)value;
    if (deep->depth == deep->deepest) {
        for (size_t done = 0; done < MIB; done += 1024)
            keep(stint_malloc(1024));
        return 0;
    }
    stint_guard_push(&guard, count_guard, (void *)(uintptr_t)&deep->guards);
    deep->depth++;
    stint_options options = STINT_OPTIONS_INIT;
    if (deep->depth == deep->deepest / 2)
        options.budget.allocation = deep->allocation_of_one;
    stint_outcome outcome;
    stint_run(go_deeper, deep, &options, &outcome);
    deep->ok += outcome.status == STINT_OK;
    deep->errors += outcome.reason == STINT_REASON_ALLOCATION_LIMIT;
    stint_guard_pop(&guard, false);
    return 0;
}

TEST(a_thousand_scopes_inside_each_other)
{
    struct deep deep = { .deepest = 1000 };
    assert_ok(run_task(go_deeper, &deep, NULL));
    assert_int_equal(deep.ok, 1000);
    assert_int_equal(deep.guards, 0);

    deep = (struct deep){ .deepest = 1000, .allocation_of_one = 64 * KIB };
    assert_ok(run_task(go_deeper, &deep, NULL));
    assert_int_equal(deep.errors, 1);
    assert_int_equal(deep.ok, 499);
    assert_int_equal(deep.guards, 500);
}

TEST_MAIN()
