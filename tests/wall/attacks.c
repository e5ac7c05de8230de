/* SPDX-License-Identifier: MIT
 *
 * Attacks on the machine and on other tasks, in closed walls and in open ones, with control groups and without: each
 * ends its own task at most, the next task is not affected, and nothing is left. */
#include <sys/stat.h>

#include "../walls.h"
#include "attacks.h"

#define LIMIT ((size_t)1 << 20)

/* A folder of control groups of this test's; empty: none can be made here. */
static char folders[2][128];

static bool have_folder(unsigned number, const char *hierarchy)
{
    snprintf(folders[number], sizeof folders[number], "/sys/fs/cgroup/%s/stint-attacks-%d", hierarchy, (int)getpid());
    return mkdir(folders[number], 0755) == 0;
}

static int make_folders(void **state)
{
    (void)state;
    if (!have_folder(0, "memory"))
        folders[0][0] = '\0';
    else if (!have_folder(1, "pids")) {
        rmdir(folders[0]);
        folders[0][0] = '\0';
    }
    return 0;
}

static int remove_folders(void **state)
{
    (void)state;
    return folders[0][0] == '\0' || (rmdir(folders[0]) == 0 && rmdir(folders[1]) == 0) ? 0 : -1;
}

struct fixture {
    stint_wall *wall;
    stint_pool *pool;
    size_t descriptors;
};

static struct fixture begin_with(stint_wall_options options)
{
    struct fixture fixture = { .descriptors = count_descriptors() };
    options.size = sizeof options;
    options.children = 1;
    options.input_limit = options.reply_limit = LIMIT;
    options.memory = 32 * MIB;
    fixture.wall = make_wall_of(&options);
    fixture.pool = make_pool(.workers = 1);
    return fixture;
}

#define begin(...) begin_with((stint_wall_options){ __VA_ARGS__ })

static size_t count_children_of(long pid)
{
    size_t count = 0;
    int child;
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/task/%ld/children", pid, pid);
    FILE *children = fopen(path, "r");
    while (children != NULL && fscanf(children, "%d", &child) == 1)
        count++;
    if (children != NULL)
        fclose(children);
    return count;
}

/* The template's children, which adopts what they leave: when those that are ending have ended, up to five seconds. */
static size_t count_left(stint_wall *wall)
{
    size_t count = 1;
    for (int round = 0; round < 500 && count > 0; round++) {
        count = count_children_of(read_wall(wall).template_pid);
        if (count > 0)
            usleep(10000);
    }
    return count;
}

static void assert_goes_on(struct fixture fixture)
{
    assert_replied(take_in_time(submit_walled(fixture.pool, fixture.wall, echo, "on", 2, NULL)), "on");
}

static void end(struct fixture fixture)
{
    assert_int_equal(stint_pool_destroy(fixture.pool), 0);
    assert_int_equal(stint_wall_destroy(fixture.wall), 0);
    assert_int_equal(count_processes(), 0);
    assert_int_equal(count_descriptors(), fixture.descriptors);
}

static stint_outcome run_for(struct fixture fixture, stint_wall_fn *fn, uint64_t run_ns)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.run_ns = run_ns;
    return run_walled(fixture.pool, fixture.wall, fn, &options);
}

/* Each kind of wall: closed, open, and both with groups, where there may be some processes, too. */
static bool next_kind(unsigned *number, stint_wall_options *options)
{
    unsigned kinds = folders[0][0] != '\0' ? 6 : 2;
    if (*number == kinds)
        return false;
    *options = (stint_wall_options){ .sandbox = *number % 2 == 0 ? STINT_WALL_CLOSED : STINT_WALL_OPEN };
    options->cgroup = *number >= 2 ? folders[0] : NULL;
    options->processes = *number >= 4 ? 8 : 0;
    ++*number;
    return true;
}

static void assert_bomb_ends(stint_wall_fn *bomb)
{
    stint_wall_options options;
    for (unsigned number = 0; next_kind(&number, &options);) {
        struct fixture fixture = begin_with(options);
        stint_outcome outcome = run_for(fixture, bomb, 100 * MS);
        assert_ended(&outcome, STINT_ERROR, STINT_REASON_DEADLINE);
        assert_int_equal(count_left(fixture.wall), 0);
        assert_goes_on(fixture);
        end(fixture);
    }
}

TEST(a_fork_bomb_ends_at_its_deadline_and_leaves_nothing)
{
    assert_bomb_ends(bomb_with_forks);
}

TEST(a_thread_bomb_ends_at_its_deadline_and_leaves_nothing)
{
    assert_bomb_ends(bomb_with_threads);
}

static void assert_stopped_by(stint_wall_fn *flood, const char *error)
{
    stint_wall_options options;
    for (unsigned number = 0; next_kind(&number, &options);) {
        struct fixture fixture = begin_with(options);
        assert_replied(run_walled(fixture.pool, fixture.wall, flood, NULL), error);
        assert_goes_on(fixture);
        end(fixture);
    }
}

TEST(a_flood_of_descriptors_meets_a_limit)
{
    assert_stopped_by(flood_with_descriptors, "EMFILE");
}

TEST(a_mapping_of_everything_meets_a_limit)
{
    assert_stopped_by(map_everything, "ENOMEM");
}

TEST(memory_ends_a_task_by_the_meter_and_otherwise_by_the_group)
{
    stint_wall_options options;
    for (unsigned number = 0; next_kind(&number, &options);) {
        struct fixture fixture = begin_with(options);
        stint_options task_options = STINT_OPTIONS_INIT;
        task_options.budget.memory = 16 * MIB;
        stint_outcome outcome = run_walled(fixture.pool, fixture.wall, allocate_for_ever, &task_options);
        assert_ended(&outcome, STINT_ERROR, STINT_REASON_MEMORY_LIMIT);
        outcome = run_walled(fixture.pool, fixture.wall, fill_memory, NULL);
        if (options.cgroup == NULL) {
            assert_replied(outcome, "ENOMEM");
        } else {
            assert_ended(&outcome, STINT_ERROR, STINT_REASON_KILLED);
            assert_string_equal(outcome.message, "killed by the kernel, for want of memory in its control group");
        }
        assert_goes_on(fixture);
        end(fixture);
    }
}

TEST(a_closed_child_signals_nobody)
{
    stint_wall_options options;
    for (unsigned number = 0; next_kind(&number, &options);) {
        /* One that may start processes signals those, and so its group and all that it may. */
        if (options.sandbox != STINT_WALL_CLOSED || options.processes > 0)
            continue;
        struct fixture fixture = begin_with(options);
        assert_replied(run_walled(fixture.pool, fixture.wall, signal_others, NULL), "refused");
        assert_goes_on(fixture);
        end(fixture);
    }
}

TEST(an_open_child_that_kills_its_template_ends_its_own_task)
{
    stint_wall_fn *const killers[] = { kill_parent, kill_group };
    for (unsigned i = 0; i < 2; i++) {
        struct fixture fixture = begin(.sandbox = STINT_WALL_OPEN, .spare = 1);
        for (int round = 0; round < 5; round++) {
            stint_outcome outcome = run_walled(fixture.pool, fixture.wall, killers[i], NULL);
            assert_ended(&outcome, STINT_ERROR, STINT_REASON_KILLED);
            assert_goes_on(fixture);
        }
        end(fixture);
    }
}

TESTS_NEED(lack_of_filters)

TEST_MAIN_WITH(make_folders, remove_folders)
