/* SPDX-License-Identifier: MIT
 *
 * The template: what it takes over from the program; that it is made again whatever its death; and that no task is
 * lost meanwhile. */
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "../walls.h"

struct fixture {
    stint_wall *wall;
    stint_pool *pool;
    size_t descriptors;
};

static struct fixture begin_with(stint_wall_options options)
{
    struct fixture fixture = { .descriptors = count_descriptors() };
    fixture.wall = make_wall_of(&options);
    fixture.pool = make_pool(.workers = 1);
    return fixture;
}

#define begin(...) begin_with((stint_wall_options){ .size = sizeof(stint_wall_options), __VA_ARGS__ })

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

/* The number of the template, if it differs from this one; 0: there is none within ten seconds. */
static pid_t await_other_template(stint_wall *wall, pid_t before)
{
    for (int round = 0; round < 1000; round++) {
        pid_t now = (pid_t)read_wall(wall).template_pid;
        if (now != before && now != 0)
            return now;
        usleep(10000);
    }
    return 0;
}

static pid_t guardian_of(void)
{
    int pid = 0;
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/children", getpid());
    FILE *children = fopen(path, "r");
    assert_non_null(children);
    assert_int_equal(fscanf(children, "%d", &pid), 1);
    fclose(children);
    return pid;
}

/* --- What it takes over. --- */

TEST(a_program_that_ignores_its_childrens_ends_is_told_of_a_tasks)
{
    void (*before)(int) = signal(SIGCHLD, SIG_IGN);
    struct fixture fixture = begin(.children = 2);
    for (int i = 0; i < 20; i++) {
        stint_outcome outcome = run_walled(fixture.pool, fixture.wall, write_to_null, NULL);
        assert_ended(&outcome, STINT_ERROR, STINT_REASON_CRASH);
    }
    end(fixture);
    signal(SIGCHLD, before);
}

static int ignore_ends(void *arg)
{
    (void)arg;
    signal(SIGCHLD, SIG_IGN);
    return 0;
}

TEST(a_setup_that_ignores_its_childrens_ends_hides_none)
{
    struct fixture fixture = begin(.children = 2, .setup = ignore_ends);
    stint_outcome outcome = run_walled(fixture.pool, fixture.wall, write_to_null, NULL);
    assert_ended(&outcome, STINT_ERROR, STINT_REASON_CRASH);
    end(fixture);
}

static atomic_uint *handled; /* shared with all processes */

static void note_exit(void)
{
    if (handled != NULL)
        atomic_fetch_add(handled, 1);
}

static int exit_in_setup(void *arg)
{
    (void)arg;
    exit(7);
}

static int exit_in_task(const void *input, size_t size, stint_reply *reply)
{
    (void)input;
    (void)size;
    (void)reply;
    exit(3);
}

static int quick_exit_in_task(const void *input, size_t size, stint_reply *reply)
{
    (void)input;
    (void)size;
    (void)reply;
    quick_exit(3);
}

static void share_handled(void)
{
    handled = mmap(NULL, sizeof *handled, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    atexit(note_exit);
    at_quick_exit(note_exit);
}

static void unshare_handled(void)
{
    munmap(handled, sizeof *handled);
    handled = NULL;
}

TEST(what_the_program_has_registered_for_its_end_runs_in_none_of_the_walls_processes)
{
    char message[256] = "";
    stint_wall *wall;
    share_handled();
    stint_wall_options options = STINT_WALL_OPTIONS_INIT;
    options.setup = exit_in_setup;
    options.message = message;
    options.message_size = sizeof message;
    assert_int_equal(stint_wall_create(&options, &wall), ECHILD);
    assert_non_null(strstr(message, "7"));
    struct fixture fixture = begin(.children = 2);
    stint_outcome outcome = run_walled(fixture.pool, fixture.wall, exit_in_task, NULL);
    assert_ended(&outcome, STINT_ERROR, STINT_REASON_EXIT);
    outcome = run_walled(fixture.pool, fixture.wall, quick_exit_in_task, NULL);
    assert_ended(&outcome, STINT_ERROR, STINT_REASON_EXIT);
    end(fixture);
    assert_int_equal(atomic_load(handled), 0);
    unshare_handled();
}

TEST(what_is_buffered_when_the_wall_is_made_is_written_once)
{
    int ends[2];
    char text[64] = "";
    assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
    FILE *stream = fdopen(ends[1], "w");
    fprintf(stream, "once ");
    const int fds[] = { ends[1] };
    struct fixture fixture = begin(.children = 2, .fds = fds, .fd_count = 1);
    fprintf(stream, "and ");
    stint_outcome outcome = run_walled(fixture.pool, fixture.wall, exit_in_task, NULL);
    assert_ended(&outcome, STINT_ERROR, STINT_REASON_EXIT);
    assert_goes_on(fixture);
    fprintf(stream, "only");
    fflush(stream);
    assert_int_equal(read(ends[0], text, sizeof text - 1), 13);
    assert_string_equal(text, "once and only");
    fclose(stream);
    close(ends[0]);
    fixture.descriptors -= 2;
    end(fixture);
}

/* --- Its end. --- */

TEST(a_template_that_is_killed_while_idle_is_made_again)
{
    struct fixture fixture = begin(.children = 2, .spare = 2);
    pid_t template = (pid_t)read_wall(fixture.wall).template_pid;
    for (int i = 0; i < 5; i++) {
        assert_goes_on(fixture);
        assert_int_equal(kill(template, SIGKILL), 0);
        stint_outcome outcome = run_walled(fixture.pool, fixture.wall, reply_nothing, NULL);
        if (outcome.status != STINT_OK) /* in a spare child, which was about to be killed with the template */
            assert_ended(&outcome, STINT_ERROR, STINT_REASON_KILLED);
        stint_free(outcome.value);
        pid_t next = await_other_template(fixture.wall, template);
        assert_int_not_equal(next, 0);
        template = next;
    }
    end(fixture);
}

TEST(a_template_that_is_killed_ends_its_running_tasks_and_no_others)
{
    struct fixture fixture = begin(.children = 2);
    stint_future *running = submit_walled(fixture.pool, fixture.wall, spin_for_ever, NULL, 0, NULL);
    while (read_wall(fixture.wall).running < 1)
        sched_yield();
    usleep(20000);
    kill((pid_t)read_wall(fixture.wall).template_pid, SIGKILL);
    stint_outcome outcome = take_in_time(running);
    assert_ended(&outcome, STINT_ERROR, STINT_REASON_KILLED);
    assert_goes_on(fixture);
    end(fixture);
}

TEST(a_wall_goes_on_without_its_guardian)
{
    struct fixture fixture = begin(.children = 2);
    kill(guardian_of(), SIGKILL);
    assert_goes_on(fixture);
    assert_goes_on(fixture);
    end(fixture);
}

TEST(a_wall_without_guardian_and_template_says_so)
{
    struct fixture fixture = begin(.children = 2);
    stint_future *running = submit_walled(fixture.pool, fixture.wall, spin_for_ever, NULL, 0, NULL);
    while (read_wall(fixture.wall).running < 1)
        sched_yield();
    usleep(20000);
    kill(guardian_of(), SIGKILL);
    kill((pid_t)read_wall(fixture.wall).template_pid, SIGKILL);
    stint_outcome outcome = take_in_time(running);
    assert_ended(&outcome, STINT_ERROR, STINT_REASON_KILLED);
    outcome = run_walled(fixture.pool, fixture.wall, reply_nothing, NULL);
    assert_ended(&outcome, STINT_ERROR, STINT_REASON_KILLED);
    end(fixture);
}

/* It is stopped while it has requests in hand, and while it has none. */
TEST(a_deadline_is_kept_while_the_template_is_stopped)
{
    struct fixture fixture = begin(.children = 2);
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.run_ns = 5 * MS;
    pid_t template = (pid_t)read_wall(fixture.wall).template_pid;
    kill(template, SIGSTOP);
    for (int i = 0; i < 400; i++) { /* more than its socket holds requests */
        stint_outcome outcome = run_walled(fixture.pool, fixture.wall, reply_nothing, &options);
        assert_ended(&outcome, STINT_ERROR, STINT_REASON_DEADLINE);
    }
    stint_future *waiting = submit_walled(fixture.pool, fixture.wall, reply_nothing, NULL, 0, NULL);
    kill(template, SIGCONT);
    stint_outcome outcome = take_in_time(waiting);
    assert_int_equal(outcome.status, STINT_OK);
    stint_free(outcome.value);
    assert_goes_on(fixture);
    end(fixture);
}

TEST(a_wall_whose_template_is_stopped_can_be_destroyed)
{
    struct fixture fixture = begin(.children = 2, .spare = 1);
    stint_future *running = submit_walled(fixture.pool, fixture.wall, spin_for_ever, NULL, 0, NULL);
    while (read_wall(fixture.wall).running < 1)
        sched_yield();
    kill((pid_t)read_wall(fixture.wall).template_pid, SIGSTOP);
    assert_int_equal(stint_pool_destroy(fixture.pool), 0);
    stint_outcome outcome = take(running);
    assert_ended(&outcome, STINT_CANCELLED, STINT_REASON_SHUTDOWN);
    assert_int_equal(stint_wall_destroy(fixture.wall), 0);
    assert_int_equal(count_processes(), 0);
}

TEST(a_wall_whose_guardian_is_stopped_can_be_destroyed)
{
    struct fixture fixture = begin(.children = 2, .spare = 1);
    pid_t template = (pid_t)read_wall(fixture.wall).template_pid;
    assert_goes_on(fixture);
    kill(guardian_of(), SIGSTOP);
    kill(template, SIGSTOP);
    assert_int_equal(stint_pool_destroy(fixture.pool), 0);
    assert_int_equal(stint_wall_destroy(fixture.wall), 0);
    assert_int_equal(count_processes(), 0);
}

/* --- Setup, run again. --- */

static atomic_uint *setups;

static int fail_the_second_time(void *arg)
{
    (void)arg;
    unsigned before = atomic_fetch_add(setups, 1);
    if (before == 1)
        abort();
    return before == 2 ? ENOENT : 0;
}

TEST(a_setup_that_fails_once_it_is_run_again_is_tried_once_more)
{
    setups = mmap(NULL, sizeof *setups, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct fixture fixture = begin(.children = 2, .setup = fail_the_second_time);
    kill((pid_t)read_wall(fixture.wall).template_pid, SIGKILL);
    assert_goes_on(fixture);
    assert_int_equal(atomic_load(setups), 4);
    end(fixture);
    munmap(setups, sizeof *setups);
}

static int fail_but_the_first_time(void *arg)
{
    (void)arg;
    return atomic_fetch_add(setups, 1) == 0 ? 0 : ENOENT;
}

TEST(a_setup_that_always_fails_again_leaves_no_task_waiting)
{
    setups = mmap(NULL, sizeof *setups, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct fixture fixture = begin(.children = 2, .setup = fail_but_the_first_time);
    kill((pid_t)read_wall(fixture.wall).template_pid, SIGKILL);
    stint_outcome outcome = run_walled(fixture.pool, fixture.wall, reply_nothing, NULL);
    assert_ended(&outcome, STINT_ERROR, STINT_REASON_KILLED);
    end(fixture);
    munmap(setups, sizeof *setups);
}

static int stop_the_second_time(void *arg)
{
    (void)arg;
    if (atomic_fetch_add(setups, 1) == 1)
        raise(SIGSTOP);
    return 0;
}

TEST(a_deadline_is_kept_while_a_new_template_is_stopped_in_its_setup)
{
    setups = mmap(NULL, sizeof *setups, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct fixture fixture = begin(.children = 2, .setup = stop_the_second_time);
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.run_ns = 20 * MS;
    kill((pid_t)read_wall(fixture.wall).template_pid, SIGKILL);
    while (atomic_load(setups) < 2)
        usleep(1000);
    for (int i = 0; i < 3; i++) {
        stint_outcome outcome = run_walled(fixture.pool, fixture.wall, reply_nothing, &options);
        assert_ended(&outcome, STINT_ERROR, STINT_REASON_DEADLINE);
    }
    end(fixture);
    munmap(setups, sizeof *setups);
}

/* --- Want of descriptors. --- */

static int allow_few_descriptors(void *arg)
{
    struct rlimit limit = { .rlim_cur = 12, .rlim_max = 4096 };
    (void)arg;
    return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? 0 : errno;
}

TEST(a_template_that_runs_out_of_descriptors_loses_no_task)
{
    struct fixture fixture = begin(.children = 16, .setup = allow_few_descriptors);
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.run_ns = 300 * MS;
    stint_future *futures[16];
    for (int i = 0; i < 16; i++)
        futures[i] = submit_walled(fixture.pool, fixture.wall, spin_for_ever, NULL, 0, &options);
    unsigned killed = 0;
    for (int i = 0; i < 16; i++) {
        stint_outcome outcome = take_in_time(futures[i]);
        assert_int_equal(outcome.status, STINT_ERROR);
        killed += outcome.reason == STINT_REASON_KILLED;
    }
    assert_in_range(killed, 1, 15); /* those for which there was no child */
    assert_goes_on(fixture);
    end(fixture);
}

/* --- What it has open. --- */

/* Descriptors that a program which is started would get, beside the standard ones. */
static int inherited(void)
{
    int count = 0;
    for (int fd = 3; fd < 64; fd++) {
        int flags = fcntl(fd, F_GETFD);
        count += flags >= 0 && (flags & FD_CLOEXEC) == 0;
    }
    return count;
}

static int refuse_inherited(void *arg)
{
    (void)arg;
    return inherited();
}

static int say_inherited(const void *input, size_t size, stint_reply *reply)
{
    (void)input;
    (void)size;
    (void)reply;
    return inherited();
}

TEST(a_program_that_setup_or_a_task_starts_gets_no_descriptor_of_the_wall)
{
    struct fixture fixture = begin(.sandbox = STINT_WALL_OPEN, .setup = refuse_inherited);
    stint_outcome outcome = run_walled(fixture.pool, fixture.wall, say_inherited, NULL);
    assert_int_equal(outcome.error, 0);
    stint_free(outcome.value);
    end(fixture);
}

/* --- When it can make no child. --- */

static atomic_bool *forks_fail; /* shared with the templates */

static int have_forks_fail(void *arg)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOMEM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = { .len = sizeof code / sizeof *code, .filter = code };
    (void)arg;
    if (!atomic_load(forks_fail))
        return 0;
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0
               ? 0
               : errno;
}

TEST(what_keeps_a_template_from_forking_is_told)
{
    forks_fail = mmap(NULL, sizeof *forks_fail, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    atomic_store(forks_fail, true);
    struct fixture fixture = begin(.children = 1, .setup = have_forks_fail);
    stint_outcome outcome = run_walled(fixture.pool, fixture.wall, reply_nothing, NULL);
    assert_ended(&outcome, STINT_ERROR, STINT_REASON_KILLED);
    assert_string_equal(outcome.message, "the template can start no child: Cannot allocate memory");
    atomic_store(forks_fail, false);
    pid_t before = (pid_t)read_wall(fixture.wall).template_pid;
    kill(before, SIGKILL);
    assert_int_not_equal(await_other_template(fixture.wall, before), 0);
    assert_goes_on(fixture);
    end(fixture);
    munmap(forks_fail, sizeof *forks_fail);
}

/* --- Its end. --- */

/* So that its end takes a while. */
static int be_large(void *arg)
{
    const size_t size = (size_t)768 << 20;
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    (void)arg;
    if (memory == MAP_FAILED)
        return ENOMEM;
    memset(memory, 1, size);
    return 0;
}

/* The pipe that it alone has open at its other end is closed with it. */
TEST(a_template_whose_guardian_was_killed_has_ended_when_the_wall_has)
{
    int line[2];
    stint_wall *wall;
    assert_int_equal(pipe(line), 0);
    wall = make_wall(.setup = be_large, .fds = &line[1], .fd_count = 1);
    close(line[1]);
    pid_t guardian = guardian_of();
    kill(guardian, SIGKILL);
    siginfo_t unreaped;
    assert_int_equal(waitid(P_PID, (id_t)guardian, &unreaped, WEXITED | WNOWAIT), 0);
    assert_int_equal(stint_wall_destroy(wall), 0);
    struct pollfd ended = { .fd = line[0] };
    assert_int_equal(poll(&ended, 1, 10), 1);
    close(line[0]);
}

TESTS_NEED(lack_of_filters)

TEST_MAIN()
