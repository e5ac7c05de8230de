/* SPDX-License-Identifier: MIT
 *
 * A wall whose template is a program of its own: beside threads, under attack, and with a program that makes
 * mistakes. */
#include <sys/prctl.h>
#include <sys/wait.h>

#include "../walls.h"

struct fixture {
    stint_pool *pool;
    stint_wall *wall;
    size_t descriptors;
};

/* The program's work, in its first argument. */
static char own_name[] = "wall-serving";
static char way[16];
static char *const arguments[] = { own_name, way, NULL };

/* Beside the threads of the pool. */
static struct fixture begin_with(stint_wall_options options)
{
    struct fixture fixture = { .descriptors = count_descriptors() };
    fixture.pool = make_pool(.workers = 2);
    strcpy(way, "serve");
    options.size = sizeof options;
    options.program = SERVING;
    options.arguments = arguments;
    options.memory = 32 * MIB;
    fixture.wall = make_wall_of(&options);
    return fixture;
}

#define begin(...) begin_with((stint_wall_options){ __VA_ARGS__ })

static stint_outcome call(struct fixture fixture, const char *entry, uint64_t run_ns)
{
    stint_wall_call call = STINT_WALL_CALL_INIT;
    stint_options options = STINT_OPTIONS_INIT;
    stint_future *future;
    call.entry = entry;
    call.input = "on";
    call.input_size = 2;
    options.budget.run_ns = run_ns;
    assert_int_equal(stint_submit_walled_call(fixture.pool, fixture.wall, &call, &options, &future), 0);
    return take_in_time(future);
}

static void end(struct fixture fixture)
{
    assert_replied(call(fixture, "echo", 0), "on");
    assert_int_equal(stint_pool_destroy(fixture.pool), 0);
    assert_int_equal(stint_wall_destroy(fixture.wall), 0);
    assert_int_equal(count_processes(), 0);
    assert_int_equal(count_descriptors(), fixture.descriptors);
}

static void assert_call_ends(struct fixture fixture, const char *entry, stint_reason reason)
{
    stint_outcome outcome = call(fixture, entry, 50 * MS);
    assert_ended(&outcome, STINT_ERROR, reason);
}

/* The first test: while this process has no other thread, its child can make a wall. It adopts the child's
 * processes, and so sees when they have ended. */
TEST(a_program_that_never_serves_ends_with_its_host)
{
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0);
    pid_t host = fork();
    if (host == 0) {
        stint_wall *wall;
        stint_wall_options options = STINT_WALL_OPTIONS_INIT;
        strcpy(way, "never");
        options.program = SERVING;
        options.arguments = arguments;
        stint_wall_create(&options, &wall);
        _exit(0);
    }
    char path[64];
    int served = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", host, host);
    while (served == 0) {
        FILE *children = fopen(path, "r");
        if (children != NULL && fscanf(children, "%d", &served) != 1)
            served = 0;
        if (children != NULL)
            fclose(children);
    }
    usleep(50000); /* it knows its role, and waits */
    kill(host, SIGKILL);
    assert_int_equal(waitpid(host, NULL, 0), host);
    int ended = 0;
    for (int round = 0; round < 500 && ended == 0; round++) {
        ended = waitpid(served, NULL, WNOHANG);
        if (ended == 0)
            usleep(10000);
    }
    if (ended == 0)
        kill(served, SIGKILL);
    assert_int_equal(ended, served);
    prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
}

TEST(served_functions_are_attacked_as_others_are)
{
    for (int sandbox = STINT_WALL_CLOSED; sandbox <= STINT_WALL_OPEN; sandbox++) {
        struct fixture fixture = begin(.children = 2, .sandbox = (stint_wall_sandbox)sandbox);
        assert_call_ends(fixture, "spin", STINT_REASON_DEADLINE);
        assert_call_ends(fixture, "crash", STINT_REASON_CRASH);
        assert_call_ends(fixture, "bomb_with_forks", STINT_REASON_DEADLINE);
        assert_call_ends(fixture, "bomb_with_threads", STINT_REASON_DEADLINE);
        assert_replied(call(fixture, "flood_with_descriptors", 0), "EMFILE");
        assert_replied(call(fixture, "map_everything", 0), "ENOMEM");
        if (sandbox == STINT_WALL_CLOSED)
            assert_replied(call(fixture, "signal_others", 0), "refused");
        else
            assert_call_ends(fixture, "kill_parent", STINT_REASON_KILLED);
        end(fixture);
    }
}

TEST(a_served_function_runs_tasks_that_are_left)
{
    for (int sandbox = STINT_WALL_CLOSED; sandbox <= STINT_WALL_OPEN; sandbox++) {
        struct fixture fixture = begin(.children = 1, .sandbox = (stint_wall_sandbox)sandbox);
        assert_replied(call(fixture, "run_inside", 0), "memory-limit");
        end(fixture);
    }
}

TEST(an_entry_that_is_not_served_is_the_tasks_error)
{
    struct fixture fixture = begin(.children = 1);
    stint_outcome outcome = call(fixture, "nothing of that name", 0);
    assert_ended(&outcome, STINT_ERROR, STINT_REASON_FAILED);
    assert_int_equal(outcome.error, ENOENT);
    end(fixture);
}

TEST(a_served_wall_takes_names_alone)
{
    struct fixture fixture = begin(.children = 1);
    char long_name[65];
    stint_future *future;
    memset(long_name, 'a', 64);
    long_name[64] = '\0';
    const stint_wall_call calls[] = {
        { .size = sizeof *calls, .fn = echo },
        { .size = sizeof *calls, .fn = echo, .entry = "echo" },
        { .size = sizeof *calls },
        { .size = sizeof *calls, .entry = "" },
        { .size = sizeof *calls, .entry = long_name },
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        assert_int_equal(stint_submit_walled_call(fixture.pool, fixture.wall, &calls[i], NULL, &future), EINVAL);
    assert_int_equal(stint_submit_walled(fixture.pool, fixture.wall, echo, NULL, 0, NULL, &future), EINVAL);
    end(fixture);
}

static void assert_not_made(const char *mistake)
{
    char message[256] = "";
    stint_wall *wall;
    stint_wall_options options = STINT_WALL_OPTIONS_INIT;
    size_t descriptors = count_descriptors();
    strcpy(way, mistake);
    options.program = SERVING;
    options.arguments = arguments;
    options.message = message;
    options.message_size = sizeof message;
    assert_int_equal(stint_wall_create(&options, &wall), ECHILD);
    assert_non_null(strstr(message, "before it was ready"));
    assert_int_equal(count_processes(), 0);
    assert_int_equal(count_descriptors(), descriptors);
}

TEST(a_program_that_does_not_serve_makes_no_wall)
{
    assert_not_made("crash");
    assert_not_made("threads");
    assert_not_made("names");
}

static int status_of(const char *mistake)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        execl(SERVING, own_name, mistake, NULL);
        _exit(1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(a_program_that_no_wall_has_started_is_told_so)
{
    assert_int_equal(status_of("names"), 10);
    assert_int_equal(status_of("nobody's"), 10);
    assert_int_equal(stint_wall_serve(NULL, 1), EINVAL);
}

TESTS_NEED(lack_of_filters)

TEST_MAIN()
