/* SPDX-License-Identifier: MIT
 *
 * Very many walled tasks; one in a hundred crashes, hangs, exits, stops itself, is killed by another process, or is
 * cancelled. Each future resolves as it should, the numbers add up, and nothing is left. The argument is the number of
 * tasks. */
#include "../walls.h"

#define AT_ONCE 32

enum kind { WELL, CRASHES, EXITS, HANGS, STOPS, IS_KILLED, IS_CANCELLED, FAILS, KINDS };

static int do_as_told(const void *input, size_t size, stint_reply *reply)
{
    switch (*(const enum kind *)input) {
    case CRASHES:
        return write_to_null(input, size, reply);
    case EXITS:
        exit(9);
    case HANGS:
    case IS_CANCELLED:
        return spin_for_ever(input, size, reply);
    case STOPS:
        return raise(SIGSTOP);
    case IS_KILLED:
        return raise(SIGKILL);
    case FAILS:
        return EDOM;
    default:
        return stint_reply_write(reply, input, size);
    }
}

static const stint_reason reasons[KINDS] = {
    [CRASHES] = STINT_REASON_CRASH,  [EXITS] = STINT_REASON_EXIT,       [HANGS] = STINT_REASON_DEADLINE,
    [STOPS] = STINT_REASON_DEADLINE, [IS_KILLED] = STINT_REASON_KILLED, [IS_CANCELLED] = STINT_REASON_TOKEN,
    [FAILS] = STINT_REASON_FAILED,
};

static unsigned long total = 2000;

struct submitted {
    stint_future *future;
    enum kind kind;
};

static void submit_one(struct submitted *one, stint_pool *pool, stint_wall *wall, uint64_t *seed)
{
    stint_options options = STINT_OPTIONS_INIT;
    one->kind = random_below(seed, 100) == 0 ? (enum kind)(1 + random_below(seed, KINDS - 1)) : WELL;
    if (one->kind == HANGS || one->kind == STOPS)
        options.budget.run_ns = 5 * MS;
    one->future = submit_walled(pool, wall, do_as_told, &one->kind, sizeof one->kind, &options);
    if (one->kind == IS_CANCELLED)
        stint_future_cancel(one->future);
}

static void take_one(struct submitted *one, uint64_t counted[KINDS])
{
    stint_outcome outcome = take_in_time(one->future);
    assert_string_equal(stint_reason_name(outcome.reason), stint_reason_name(reasons[one->kind]));
    if (one->kind == WELL) {
        assert_int_equal(outcome.payload_size, sizeof one->kind);
        assert_int_equal(*(enum kind *)outcome.value, WELL);
    }
    stint_free(outcome.value);
    counted[one->kind]++;
}

static void run_many(stint_wall_options options)
{
    struct submitted submitted[AT_ONCE] = { { NULL, WELL } };
    uint64_t counted[KINDS] = { 0 };
    uint64_t seed = options.tasks_per_child;
    size_t floors[4] = { SIZE_MAX, SIZE_MAX, SIZE_MAX, SIZE_MAX };
    size_t descriptors = count_descriptors();
    stint_wall *wall = make_wall_of(&options);
    stint_pool *pool = make_pool(.workers = 1);
    for (unsigned long i = 0; i < total + AT_ONCE; i++) {
        struct submitted *one = &submitted[i % AT_ONCE];
        if (i >= AT_ONCE)
            take_one(one, counted);
        if (i < total)
            submit_one(one, pool, wall, &seed);
        size_t *floor = &floors[i * 4 / (total + AT_ONCE)];
        size_t now = resident();
        *floor = now < *floor ? now : *floor;
    }
    stint_wall_statistics statistics = read_wall(wall);
    uint64_t cancelled_queued = counted[IS_CANCELLED]; /* that many at most have never been given to a child */
    assert_in_range(statistics.tasks, total - cancelled_queued, total);
    assert_int_equal(statistics.crashed, counted[CRASHES] + counted[EXITS] + counted[IS_KILLED]);
    assert_in_range(statistics.killed, counted[HANGS] + counted[STOPS],
                    counted[HANGS] + counted[STOPS] + counted[IS_CANCELLED]);
    assert_int_equal(statistics.running, 0);
    assert_int_equal(statistics.retried, 0);
    assert_true(statistics.children >= statistics.crashed + statistics.killed);
    /* The first hundred tasks or so make what all others use again. */
    assert_in_range(floors[3], 0, floors[1] + (total < 1000 ? 4 * MIB : MIB));
    assert_int_equal(count_processes(), 1);
    assert_int_equal(stint_pool_destroy(pool), 0);
    assert_int_equal(stint_wall_destroy(wall), 0);
    assert_int_equal(count_processes(), 0);
    assert_int_equal(count_descriptors(), descriptors);
}

TEST(many_tasks_each_in_a_fresh_child)
{
    run_many(
        (stint_wall_options){ .size = sizeof(stint_wall_options), .children = 4, .tasks_per_child = 1, .spare = 2 });
}

TEST(many_tasks_in_children_that_are_used_again)
{
    run_many((stint_wall_options){
        .size = sizeof(stint_wall_options), .children = 4, .tasks_per_child = STINT_WALL_REUSED });
}

TEST(many_tasks_in_children_that_are_used_a_few_times)
{
    run_many((stint_wall_options){ .size = sizeof(stint_wall_options), .children = 4, .tasks_per_child = 7 });
}

TESTS_NEED(lack_of_filters)

int main(int count, char **arguments)
{
    if (count > 1)
        total = repeats((unsigned)strtoul(arguments[1], NULL, 10));
    return run_all_tests(NULL, NULL);
}
