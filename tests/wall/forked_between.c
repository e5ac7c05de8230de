/* SPDX-License-Identifier: MIT
 *
 * A fork of the program at the moment at which a driver makes the ends of a new child. fork(2) waits until they are
 * where it finds them, and closes them. The system call itself waits for nobody: then there are copies that nobody
 * closes, and what happens to that child is seen all the same. */
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "../walls.h"
#include "executor/wall/area.h"

static atomic_bool is_awaited; /* the driver is to wait at the moment that is meant */
static atomic_bool is_there;
static atomic_bool has_forked;
static atomic_bool is_forking; /* by fork(2) */
static atomic_int *deaths;     /* children that are to die before they say hello; shared with the template */

int __real_sti_wall_area_make(const struct sti_wall_layout *layout);
int __wrap_sti_wall_area_make(const struct sti_wall_layout *layout);

/* The child's socket has been made. */
int __wrap_sti_wall_area_make(const struct sti_wall_layout *layout)
{
    if (atomic_exchange(&is_awaited, false)) {
        atomic_store(&is_there, true);
        while (!atomic_load(&has_forked) && !atomic_load(&is_forking))
            sched_yield();
        if (atomic_load(&is_forking))
            usleep(20000);
    }
    return __real_sti_wall_area_make(layout);
}

static void die_young(void)
{
    if (atomic_fetch_sub(deaths, 1) > 0)
        _exit(1);
}

static int have_children_die(void *arg)
{
    (void)arg;
    return pthread_atfork(NULL, NULL, die_young);
}

/* In a fork: until it is killed; where the test fails, and does not kill it, for a minute. */
__attribute__((noreturn)) static void live_on(void)
{
    sleep(60);
    _exit(0);
}

static pid_t fork_between(void)
{
    while (!atomic_load(&is_there))
        sched_yield();
    pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid == 0)
        live_on();
    atomic_store(&has_forked, true);
    return pid;
}

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

static void run_forked_between(int dying, uint64_t run_ns, stint_reason reason)
{
    deaths = mmap(NULL, sizeof *deaths, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    stint_wall *wall = make_wall(.children = 1, .setup = have_children_die);
    stint_pool *pool = make_pool(.workers = 1);
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.run_ns = run_ns;
    atomic_store(deaths, dying);
    atomic_store(&is_there, false);
    atomic_store(&has_forked, false);
    atomic_store(&is_awaited, true);
    stint_future *future = submit_walled(pool, wall, reply_nothing, NULL, 0, &options);
    pid_t fork_of_program = fork_between();
    stint_outcome outcome = take_in_time(future);
    assert_string_equal(stint_reason_name(outcome.reason), stint_reason_name(reason));
    stint_free(outcome.value);
    size_t left = 1;
    for (int round = 0; round < 500 && left > 0; round++) {
        left = count_children_of(read_wall(wall).template_pid);
        usleep(10000);
    }
    assert_int_equal(left, 0);
    assert_int_equal(stint_pool_destroy(pool), 0);
    assert_int_equal(stint_wall_destroy(wall), 0);
    kill(fork_of_program, SIGKILL);
    assert_int_equal(waitpid(fork_of_program, NULL, 0), fork_of_program);
    munmap(deaths, sizeof *deaths);
}

TEST(a_child_that_dies_before_it_says_hello_is_missed)
{
    run_forked_between(1, 20000 * MS, STINT_REASON_NONE);
}

TEST(a_child_ends_that_nobody_asks_about_any_more)
{
    run_forked_between(0, MS / 100, STINT_REASON_DEADLINE);
}

/* How many descriptors a fork(2) has. */
static size_t count_in_fork(void)
{
    int status;
    pid_t pid = fork();
    if (pid == 0)
        _exit((int)count_descriptors());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return (size_t)WEXITSTATUS(status);
}

TEST(a_fork_has_none_of_a_childs_descriptors)
{
    stint_wall *wall = make_wall(.children = 1, .tasks_per_child = STINT_WALL_REUSED);
    stint_pool *pool = make_pool(.workers = 1);
    atomic_store(&has_forked, false);
    atomic_store(&is_there, false);
    atomic_store(&is_forking, false);
    atomic_store(&is_awaited, true);
    stint_future *future = submit_walled(pool, wall, reply_nothing, NULL, 0, NULL);
    while (!atomic_load(&is_there))
        sched_yield();
    atomic_store(&is_forking, true);
    size_t between = count_in_fork();
    stint_outcome outcome = take_in_time(future);
    assert_int_equal(outcome.status, STINT_OK);
    stint_free(outcome.value);
    size_t after = count_in_fork();
    assert_int_equal(between, after);
    assert_int_equal(stint_pool_destroy(pool), 0);
    assert_int_equal(stint_wall_destroy(wall), 0);
}

TESTS_NEED(lack_of_filters)

TEST_MAIN()
