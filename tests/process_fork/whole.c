/* SPDX-License-Identifier: MIT
 *
 * Children of children of a process with one thread, like a wall's children: each is a whole process, whose limits
 * count to the byte, and has only the threads that it asked for. Once it has one, its own children are not whole. */
#include <stdatomic.h>
#include <sys/mman.h>

#include "support.h"

#define PATIENCE 20 /* seconds until a child that hangs is ended */
#define LIMIT MIB
#define SIZE ((size_t)1024)

/* --- The tasks. --- */

static size_t allocations; /* that the last task has made */

static int allocate_until_stopped(void *arg, void **value)
{
    (void)arg;
    (void)value;
    for (allocations = 0; keep(stint_malloc(SIZE)) != NULL; allocations++)
        ;
    return ENOMEM;
}

struct way {
    stint_on_interrupt on_interrupt;
    bool is_of_memory; /* or of allocation */
};

static const struct way ways[] = {
    { STINT_JUMP, false }, { STINT_FAIL, false }, { STINT_JUMP, true }, { STINT_FAIL, true }
};
#define WAYS (sizeof ways / sizeof *ways)

/* As the process with one thread has counted, before any fork. */
static size_t expected_allocations[WAYS];
static uint64_t expected_allocated[WAYS];

static bool run_way(const struct way *way, stint_outcome *outcome)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.on_interrupt = way->on_interrupt;
    *(way->is_of_memory ? &options.budget.memory : &options.budget.allocation) = LIMIT;
    return stint_run(allocate_until_stopped, NULL, &options, outcome) == 0 && outcome->status == STINT_ERROR &&
           outcome->reason == (way->is_of_memory ? STINT_REASON_MEMORY_LIMIT : STINT_REASON_ALLOCATION_LIMIT) &&
           outcome->usage.peak <= LIMIT + 64 * KIB;
}

static bool limits_are_as_before(void)
{
    for (size_t i = 0; i < WAYS; i++) {
        stint_outcome outcome;
        if (!run_way(&ways[i], &outcome) || outcome.usage.allocated > LIMIT + 64 * KIB)
            return false;
        if (ways[i].is_of_memory
                ? outcome.usage.allocated < LIMIT - LIMIT / 8
                : allocations != expected_allocations[i] || outcome.usage.allocated != expected_allocated[i])
            return false;
    }
    return true;
}

static int set_own_token(void *token, void **value)
{
    (void)value;
    stint_token_set(token);
    for (;;)
        stint_checkpoint();
    return 0;
}

static bool token_ends_a_task(void)
{
    stint_options options = STINT_OPTIONS_INIT;
    stint_outcome outcome;
    if (stint_token_create(NULL, &options.token) != 0)
        return false;
    bool is_right = stint_run(set_own_token, options.token, &options, &outcome) == 0 &&
                    outcome.status == STINT_CANCELLED && outcome.reason == STINT_REASON_TOKEN;
    stint_token_release(options.token);
    return is_right;
}

static bool deadline_ends_a_task_and_needs_one_thread(void)
{
    stint_options options = STINT_OPTIONS_INIT;
    stint_outcome outcome;
    options.budget.wall_ns = MS;
    return stint_run(check_for_ever, NULL, &options, &outcome) == 0 && outcome.reason == STINT_REASON_DEADLINE &&
           threads_of_the_process() == 2;
}

static void *run_limits_on_thread(void *good)
{
    *(bool *)good = limits_are_as_before();
    return NULL;
}

static bool thread_can_run_tasks(void)
{
    bool good = false;
    pthread_t thread;
    return pthread_create(&thread, NULL, run_limits_on_thread, &good) == 0 && pthread_join(thread, NULL) == 0 && good;
}

static bool is_refused(void)
{
    stint_outcome outcome;
    return stint_run(check_for_ever, NULL, NULL, &outcome) == ENOTSUP;
}

/* --- The processes. --- */

static atomic_uint *endings; /* shared: handlers that have been called at the end of children */

static void count_exit(void)
{
    atomic_fetch_add(endings, 1);
}

static void count_exit_with_status(int status, void *arg)
{
    (void)arg;
    atomic_fetch_add(endings, status == 0 ? 1 : 1000);
}

static bool is_alone(void)
{
    return threads_of_the_process() == 1;
}

/* 0, or the number of what went wrong. */
static int use_limits(void)
{
    if (!is_alone())
        return 10;
    if (!limits_are_as_before())
        return 11;
    if (!token_ends_a_task())
        return 12;
    return is_alone() ? 0 : 13;
}

static int status_of(pid_t child)
{
    int status = -1;
    if (child < 0 || waitpid(child, &status, 0) != child)
        return 1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

static int use_whole_process(void)
{
    int wrong = use_limits();
    if (wrong != 0)
        return wrong;
    pid_t child = fork();
    if (child == 0)
        _exit(use_limits());
    if (status_of(child) != 0)
        return 20;
    if (!deadline_ends_a_task_and_needs_one_thread())
        return 21;
    if (!thread_can_run_tasks())
        return 22;
    child = fork(); /* beside the library's thread */
    if (child == 0)
        _exit(is_refused() ? 0 : 24);
    return status_of(child) != 0 ? 23 : 0;
}

/* One after another. The last status other than 0. */
static int fork_children(unsigned count)
{
    int wrong = 0;
    for (unsigned i = 0; i < count && wrong == 0; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(PATIENCE);
            if (atexit(count_exit) != 0 || on_exit(count_exit_with_status, NULL) != 0)
                _exit(2);
            exit(use_whole_process());
        }
        wrong = status_of(child);
    }
    return wrong;
}

static void assert_children_of_a_child_are_whole(unsigned count)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        alarm(10 * PATIENCE);
        _exit(is_alone() ? fork_children(count) : 3);
    }
    assert_int_equal(status_of(child), 0);
    assert_int_equal(atomic_exchange(endings, 0), 2 * count);
}

static void count_as_before(void)
{
    for (size_t i = 0; i < WAYS; i++) {
        stint_outcome outcome;
        assert_true(run_way(&ways[i], &outcome));
        expected_allocations[i] = allocations;
        expected_allocated[i] = outcome.usage.allocated;
    }
}

static int share_endings(void **state)
{
    (void)state;
    endings = mmap(NULL, sizeof *endings, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return endings != MAP_FAILED ? 0 : 1;
}

/* Each allocation is charged by its size. */
TEST(grandchildren_of_a_process_that_has_run_nothing_are_whole)
{
    assert_true(is_alone());
    size_t fits = LIMIT / SIZE;
    for (size_t i = 0; i < WAYS; i++) {
        expected_allocations[i] = fits;
        expected_allocated[i] = fits * SIZE;
    }
    assert_children_of_a_child_are_whole(10);
}

TEST(grandchildren_of_a_process_that_has_run_tasks_are_whole_hundreds_of_times)
{
    count_as_before();
    assert_int_equal(use_limits(), 0);
    assert_children_of_a_child_are_whole(repeats(200));
    assert_true(is_alone());
    assert_int_equal(use_limits(), 0);
}

TESTS_NEED(lack_of_lone_threads)

TEST_MAIN_WITH(share_endings, NULL)
