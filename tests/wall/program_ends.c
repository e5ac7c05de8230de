/* SPDX-License-Identifier: MIT
 *
 * When the program ends, in whatever way, nothing of its wall is left, whatever the wall's processes are doing, and
 * whichever of them were stopped or killed before. The program is a child of the test; the test adopts the program's
 * children, so it sees when the last of them has ended. */
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "../walls.h"

#define CHILDREN 2

/* The wall's processes, by number. */
struct tree {
    pid_t program;
    pid_t guardian;
    pid_t template;
    pid_t children[CHILDREN];
};

static size_t list_children(pid_t pid, pid_t *children, size_t room)
{
    size_t count = 0;
    int child;
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", pid, pid);
    FILE *file = fopen(path, "r");
    while (file != NULL && count < room && fscanf(file, "%d", &child) == 1)
        children[count++] = child;
    if (file != NULL)
        fclose(file);
    return count;
}

/* Set in the template, before it forks: then seen in a child, and counted by the test. */
static atomic_uint *begun;

static int note_and_spin(const void *input, size_t size, stint_reply *reply)
{
    atomic_fetch_add(begun, 1);
    return spin_for_ever(input, size, reply);
}

static int note_and_sleep(const void *input, size_t size, stint_reply *reply)
{
    (void)input;
    (void)size;
    (void)reply;
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    atomic_fetch_add(begun, 1);
    for (;;)
        pause();
    return 0;
}

/* The program: it says when its tasks run, and then waits for its end. */
__attribute__((noreturn)) static void be_program(stint_wall_fn *fn, unsigned spare, int told)
{
    stint_wall *wall = NULL;
    stint_pool *pool = NULL;
    stint_future *future;
    stint_wall_options options = STINT_WALL_OPTIONS_INIT;
    options.children = CHILDREN;
    options.spare = spare;
    options.sandbox = STINT_WALL_OPEN;
    if (stint_wall_create(&options, &wall) != 0 || stint_pool_create(NULL, &pool) != 0)
        _exit(1);
    for (int i = 0; i < CHILDREN; i++) {
        if (stint_submit_walled(pool, wall, fn, NULL, 0, NULL, &future) != 0)
            _exit(1);
    }
    while (atomic_load(begun) < CHILDREN)
        usleep(1000);
    struct tree tree = { .program = getpid() };
    stint_wall_statistics statistics = STINT_WALL_STATISTICS_INIT;
    stint_wall_read(wall, &statistics);
    tree.template = (pid_t)statistics.template_pid;
    list_children(tree.program, &tree.guardian, 1);
    list_children(tree.template, tree.children, CHILDREN);
    ssize_t written = write(told, &tree, sizeof tree);
    (void)written;
    for (;;)
        pause();
}

static struct tree start_with(stint_wall_fn *fn, unsigned spare)
{
    int ends[2];
    struct tree tree = { 0 };
    begun = mmap(NULL, sizeof *begun, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0)
        be_program(fn, spare, ends[1]);
    close(ends[1]);
    assert_int_equal(read(ends[0], &tree, sizeof tree), sizeof tree);
    close(ends[0]);
    assert_int_equal(tree.program, pid);
    assert_true(tree.guardian > 0 && tree.template > 0 && tree.children[0] > 0 && tree.children[1] > 0);
    return tree;
}

static struct tree start(stint_wall_fn *fn)
{
    return start_with(fn, 0);
}

/* All present and adopted children of this process have ended, within five seconds, of which a wall may take one.
 * The rest is killed, so that the next test does not find it. */
static void assert_nothing_is_left(void)
{
    pid_t left[16];
    pid_t ended = 1;
    for (int round = 0; round < 500 && ended >= 0; round++) {
        ended = waitpid(-1, NULL, WNOHANG);
        if (ended == 0)
            usleep(10000);
    }
    size_t count = list_children(getpid(), left, 16);
    for (size_t i = 0; i < count; i++) {
        char path[64];
        char name[32] = "";
        snprintf(path, sizeof path, "/proc/%d/comm", left[i]);
        FILE *file = fopen(path, "r");
        if (file != NULL && fgets(name, sizeof name, file) != NULL)
            print_error("%d is left: %s", left[i], name);
        if (file != NULL)
            fclose(file);
        kill(left[i], SIGKILL);
    }
    while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
        ;
    assert_int_equal(count, 0);
    munmap(begun, sizeof *begun);
}

static int adopt_orphans(void **state)
{
    (void)state;
    return prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

static void send_all(int number, const struct tree *tree)
{
    for (int i = 0; i < CHILDREN; i++)
        kill(tree->children[i], number);
}

TEST(a_killed_program_leaves_nothing_running)
{
    struct tree tree = start(note_and_spin);
    kill(tree.program, SIGKILL);
    assert_nothing_is_left();
}

TEST(a_killed_program_leaves_no_spare_children)
{
    struct tree tree = start_with(note_and_spin, 4);
    kill(tree.program, SIGKILL);
    assert_nothing_is_left();
}

TEST(children_that_block_signals_and_sleep_end_with_the_program)
{
    struct tree tree = start(note_and_sleep);
    kill(tree.program, SIGKILL);
    assert_nothing_is_left();
}

TEST(a_program_that_aborts_leaves_nothing_running)
{
    struct tree tree = start(note_and_spin);
    kill(tree.program, SIGABRT);
    assert_nothing_is_left();
}

TEST(a_stopped_template_ends_with_the_program)
{
    struct tree tree = start(note_and_spin);
    kill(tree.template, SIGSTOP);
    kill(tree.program, SIGKILL);
    assert_nothing_is_left();
}

TEST(stopped_children_end_with_the_program)
{
    struct tree tree = start(note_and_spin);
    send_all(SIGSTOP, &tree);
    kill(tree.program, SIGKILL);
    assert_nothing_is_left();
}

TEST(a_stopped_guardian_ends_with_the_program)
{
    struct tree tree = start(note_and_spin);
    kill(tree.guardian, SIGSTOP);
    kill(tree.program, SIGKILL);
    assert_nothing_is_left();
}

TEST(a_template_without_its_guardian_ends_with_the_program)
{
    struct tree tree = start(note_and_spin);
    kill(tree.guardian, SIGKILL);
    usleep(10000);
    kill(tree.program, SIGKILL);
    assert_nothing_is_left();
}

TEST(children_without_template_and_guardian_end_with_the_program)
{
    struct tree tree = start(note_and_spin);
    kill(tree.guardian, SIGKILL);
    kill(tree.template, SIGKILL);
    usleep(10000);
    kill(tree.program, SIGKILL);
    assert_nothing_is_left();
}

TEST(children_end_when_all_three_above_them_are_killed_at_once)
{
    struct tree tree = start(note_and_spin);
    kill(tree.guardian, SIGSTOP);
    kill(tree.template, SIGSTOP);
    kill(tree.program, SIGSTOP);
    kill(tree.guardian, SIGKILL);
    kill(tree.template, SIGKILL);
    kill(tree.program, SIGKILL);
    assert_nothing_is_left();
}

TEST(a_new_templates_children_end_with_the_program)
{
    struct tree tree = start(note_and_spin);
    pid_t next = 0;
    kill(tree.template, SIGKILL);
    for (int round = 0; round < 500 && (list_children(tree.guardian, &next, 1) == 0 || next == tree.template); round++)
        usleep(10000);
    assert_int_not_equal(next, tree.template);
    kill(tree.program, SIGKILL);
    assert_nothing_is_left();
}

/* At any moment of its wall's making, too. */
TEST(a_program_that_is_killed_at_any_moment_leaves_nothing)
{
    uint64_t seed = 1;
    for (int i = 0; i < 100; i++) {
        begun = mmap(NULL, sizeof *begun, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        pid_t pid = fork();
        if (pid == 0)
            be_program(note_and_spin, 2, -1);
        usleep((useconds_t)random_below(&seed, 15000));
        kill(pid, SIGKILL);
        assert_nothing_is_left();
    }
}

TESTS_NEED(lack_of_filters)

TEST_MAIN_WITH(adopt_orphans, NULL)
