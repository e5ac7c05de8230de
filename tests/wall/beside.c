/* SPDX-License-Identifier: MIT
 *
 * A wall beside what else the program does: forks of its own, other walls, many threads, tasks that are jumped out of
 * while they submit; and what children have of their own: random numbers, descriptors, memory. */
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
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
    options.size = sizeof options;
    fixture.wall = make_wall_of(&options);
    fixture.pool = make_pool(.workers = 1);
    return fixture;
}

#define begin(...) begin_with((stint_wall_options){ __VA_ARGS__ })

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

static int name_of(pid_t pid, char name[32])
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/comm", pid);
    name[0] = '\0';
    FILE *file = fopen(path, "r");
    if (file == NULL || fgets(name, 32, file) == NULL)
        name[0] = '\0';
    if (file != NULL)
        fclose(file);
    return name[0] != '\0';
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

/* In a fork: until it is killed; where the test fails, and does not kill it, for a minute. */
__attribute__((noreturn)) static void live_on(void)
{
    sleep(60);
    _exit(0);
}

/* --- First, while this process has no other thread: it makes a program. --- */

TEST(the_wall_ends_with_the_program_though_a_fork_of_that_lives_on)
{
    int ends[2];
    pid_t pids[2];
    char name[32];
    assert_int_equal(pipe(ends), 0);
    pid_t program = fork();
    if (program == 0) {
        struct fixture fixture = { .wall = NULL };
        stint_future *future;
        stint_wall_create(NULL, &fixture.wall);
        stint_pool_create(NULL, &fixture.pool);
        if (stint_submit_walled(fixture.pool, fixture.wall, spin_for_ever, NULL, 0, NULL, &future) != 0)
            _exit(1);
        usleep(20000);
        pids[0] = (pid_t)read_wall(fixture.wall).template_pid;
        pids[1] = fork();
        if (pids[1] == 0)
            live_on();
        ssize_t written = write(ends[1], pids, sizeof pids);
        _exit(written == sizeof pids ? 0 : 1);
    }
    assert_int_equal(read(ends[0], pids, sizeof pids), sizeof pids);
    assert_ends_well(program);
    bool is_there = true;
    for (int round = 0; round < 300 && is_there; round++) {
        is_there = name_of(pids[0], name) && strcmp(name, "stint-template\n") == 0 && count_children_of(pids[0]) > 0;
        usleep(10000);
    }
    kill(pids[1], SIGKILL);
    assert_false(is_there);
    close(ends[0]);
    close(ends[1]);
}

/* --- Descriptors that are short. --- */

/* Where the first task found none for the rings of all drivers, it is refused, and the next one is not waited for by a
 * driver that nobody can wake. */
TEST(a_wall_that_found_no_descriptors_for_its_drivers_finds_them_later)
{
    struct fixture fixture = begin(.children = 8);
    struct rlimit before, low;
    stint_future *future;
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.run_ns = 20 * MS;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    low = before;
    low.rlim_cur = count_descriptors() + 2;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    int refused = stint_submit_walled(fixture.pool, fixture.wall, spin_for_ever, NULL, 0, &options, &future);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(refused, EMFILE);
    for (int i = 0; i < 16; i++) {
        stint_outcome outcome = run_walled(fixture.pool, fixture.wall, spin_for_ever, &options);
        assert_ended(&outcome, STINT_ERROR, STINT_REASON_DEADLINE);
    }
    end(fixture);
}

/* --- fork(2) of the program. --- */

static int ask_everything(struct fixture fixture)
{
    stint_wall_statistics statistics = STINT_WALL_STATISTICS_INIT;
    stint_wall_call call = STINT_WALL_CALL_INIT;
    stint_future *future;
    call.fn = echo;
    return stint_wall_read(fixture.wall, &statistics) == ENOTSUP &&
                   stint_submit_walled(fixture.pool, fixture.wall, echo, NULL, 0, NULL, &future) == ENOTSUP &&
                   stint_submit_walled_call(fixture.pool, fixture.wall, &call, NULL, &future) == ENOTSUP &&
                   stint_wall_destroy(fixture.wall) == ENOTSUP
               ? 0
               : 1;
}

TEST(in_a_fork_of_the_program_the_wall_is_refused)
{
    struct fixture fixture = begin(.children = 1, .spare = 2);
    stint_future *running = submit_walled(fixture.pool, fixture.wall, spin_for_ever, NULL, 0, NULL);
    while (read_wall(fixture.wall).running < 1)
        sched_yield();
    pid_t pid = fork();
    if (pid == 0)
        _exit(ask_everything(fixture));
    assert_ends_well(pid);
    stint_future_cancel(running);
    stint_outcome outcome = take_in_time(running);
    assert_ended(&outcome, STINT_CANCELLED, STINT_REASON_TOKEN);
    assert_goes_on(fixture);
    end(fixture);
}

/* Forks that live on, made while tasks begin and end: none of them holds what the end of a child is seen by, or what a
 * child sees the end of the program by. */
TEST(forks_that_live_on_keep_nothing_of_the_wall_alive)
{
    struct fixture fixture = begin(.children = 2, .tasks_per_child = 3, .spare = 1);
    pid_t forks[40];
    stint_future *futures[40];
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.run_ns = 20000 * MS;
    for (int i = 0; i < 40; i++) {
        futures[i] =
            submit_walled(fixture.pool, fixture.wall, i % 5 == 0 ? write_to_null : reply_nothing, NULL, 0, &options);
        forks[i] = fork();
        if (forks[i] == 0)
            live_on();
    }
    for (int i = 0; i < 40; i++) {
        stint_outcome outcome = take_in_time(futures[i]);
        assert_string_equal(stint_reason_name(outcome.reason),
                            stint_reason_name(i % 5 == 0 ? STINT_REASON_CRASH : STINT_REASON_NONE));
        stint_free(outcome.value);
    }
    long template = read_wall(fixture.wall).template_pid;
    size_t left = 100; /* two of the drivers, and a spare one */
    for (int round = 0; round < 300 && left > 3; round++) {
        left = count_children_of(template);
        usleep(10000);
    }
    assert_in_range(left, 0, 3);
    assert_int_equal(stint_pool_destroy(fixture.pool), 0);
    assert_int_equal(stint_wall_destroy(fixture.wall), 0);
    for (int i = 0; i < 40; i++) {
        kill(forks[i], SIGKILL);
        waitpid(forks[i], NULL, 0);
    }
    assert_int_equal(count_processes(), 0);
}

/* --- Walls beside each other. --- */

TEST(walls_beside_each_other_end_in_any_order)
{
    size_t descriptors = count_descriptors();
    stint_wall *walls[5];
    for (int i = 0; i < 5; i++)
        walls[i] = make_wall(.children = 1, .spare = 1);
    stint_pool *pool = make_pool(.workers = 2);
    stint_future *futures[25];
    for (int i = 0; i < 25; i++)
        futures[i] = submit_walled(pool, walls[i % 5], i % 7 == 0 ? write_to_null : reply_nothing, NULL, 0, NULL);
    for (int i = 0; i < 25; i++) {
        stint_outcome outcome = take_in_time(futures[i]);
        assert_int_equal(outcome.status, i % 7 == 0 ? STINT_ERROR : STINT_OK);
        stint_free(outcome.value);
    }
    for (int i = 0; i < 5; i++) {
        assert_int_equal(stint_wall_destroy(walls[(i * 3 + 1) % 5]), 0);
        assert_int_equal(count_processes(), 4U - (unsigned)i);
        for (int other = i + 1; other < 5; other++)
            assert_replied(take_in_time(submit_walled(pool, walls[(other * 3 + 1) % 5], echo, "on", 2, NULL)), "on");
    }
    assert_int_equal(stint_pool_destroy(pool), 0);
    assert_int_equal(count_descriptors(), descriptors);
}

/* --- Many threads. --- */

struct submitter {
    struct fixture fixture;
    unsigned index;
    unsigned wrong;
};

static void *submit_many(void *arg)
{
    struct submitter *own = arg;
    for (unsigned i = 0; i < 50; i++) {
        unsigned sent = own->index * 1000 + i;
        stint_future *future;
        stint_outcome outcome;
        stint_wall_call call = STINT_WALL_CALL_INIT;
        call.fn = echo;
        call.input = &sent;
        call.input_size = sizeof sent;
        call.wait_ns = 60000 * MS;
        if (stint_submit_walled_call(own->fixture.pool, own->fixture.wall, &call, NULL, &future) != 0 ||
            stint_future_wait(future, &outcome) != 0 || outcome.status != STINT_OK ||
            outcome.payload_size != sizeof sent || *(unsigned *)outcome.value != sent)
            own->wrong++;
        else
            stint_free(outcome.value);
        stint_future_release(future);
    }
    return NULL;
}

TEST(many_threads_submit_to_a_queue_that_is_full)
{
    struct fixture fixture = begin(.children = 2, .queue_capacity = 2, .tasks_per_child = STINT_WALL_REUSED);
    pthread_t threads[8];
    struct submitter submitters[8];
    for (unsigned i = 0; i < 8; i++) {
        submitters[i] = (struct submitter){ .fixture = fixture, .index = i };
        assert_int_equal(pthread_create(&threads[i], NULL, submit_many, &submitters[i]), 0);
    }
    for (unsigned i = 0; i < 8; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(submitters[i].wrong, 0);
    }
    end(fixture);
}

/* --- Waiting for a slot. --- */

static struct fixture crowded;

static int wait_for_slot(void *arg, void **value)
{
    (void)value;
    stint_future *future;
    stint_wall_call call = STINT_WALL_CALL_INIT;
    call.fn = reply_nothing;
    call.wait_ns = 60000 * MS;
    atomic_fetch_add((atomic_uint *)arg, 1);
    int error = stint_submit_walled_call(crowded.pool, crowded.wall, &call, NULL, &future);
    if (error == 0)
        stint_future_release(future);
    return error;
}

TEST(a_task_that_is_stopped_while_it_waits_for_a_slot_leaves_nothing)
{
    crowded = begin(.children = 1, .queue_capacity = 2);
    atomic_uint waiting = 0;
    stint_future *held[8];
    unsigned count = 0;
    while (count < 8 &&
           stint_submit_walled(crowded.pool, crowded.wall, spin_for_ever, NULL, 0, NULL, &held[count]) == 0) {
        count++;
        usleep(5000);
    }
    assert_in_range(count, 2, 7);
    for (int i = 0; i < 200; i++) {
        stint_options options = STINT_OPTIONS_INIT;
        options.on_interrupt = STINT_JUMP;
        atomic_store(&waiting, 0);
        stint_future *future = submit(crowded.pool, wait_for_slot, &waiting, &options);
        while (atomic_load(&waiting) == 0)
            sched_yield();
        if (i % 2 == 0)
            usleep((useconds_t)(i % 50) * 10);
        stint_future_cancel(future);
        stint_outcome outcome = take_in_time(future);
        assert_ended(&outcome, STINT_CANCELLED, STINT_REASON_TOKEN);
    }
    for (unsigned i = 0; i < count; i++) {
        stint_future_cancel(held[i]);
        take_in_time(held[i]);
    }
    stint_outcome outcome =
        run_in_pool(crowded.pool, wait_for_slot, &waiting, NULL); /* cancelled ones may be queued yet */
    assert_int_equal(outcome.status, STINT_OK);
    end(crowded);
}

/* --- What a child has of its own. --- */

static int draw_random(const void *input, size_t size, stint_reply *reply)
{
    (void)input;
    (void)size;
    double real = drand48();
    uint64_t drawn[4] = { (uint64_t)rand(), (uint64_t)random(), 0, arc4random() };
    memcpy(&drawn[2], &real, sizeof real);
    return stint_reply_write(reply, drawn, sizeof drawn);
}

TEST(random_numbers_do_not_repeat_from_child_to_child)
{
    struct fixture fixture = begin(.children = 1);
    uint64_t drawn[20][4];
    for (int i = 0; i < 20; i++) {
        stint_outcome outcome = run_walled(fixture.pool, fixture.wall, draw_random, NULL);
        assert_int_equal(outcome.payload_size, sizeof drawn[i]);
        memcpy(drawn[i], outcome.value, sizeof drawn[i]);
        stint_free(outcome.value);
    }
    for (int kind = 0; kind < 4; kind++) {
        int equal = 0; /* one in four billion may be, by chance */
        for (int i = 0; i < 20; i++) {
            for (int j = 0; j < i; j++)
                equal += drawn[i][kind] == drawn[j][kind];
        }
        assert_in_range(equal, 0, 1);
    }
    end(fixture);
}

static int counter;

static int count_up(const void *input, size_t size, stint_reply *reply)
{
    (void)input;
    (void)size;
    counter++;
    return stint_reply_write(reply, &counter, sizeof counter);
}

static int count_in(struct fixture fixture)
{
    stint_outcome outcome = run_walled(fixture.pool, fixture.wall, count_up, NULL);
    assert_int_equal(outcome.status, STINT_OK);
    int counted = *(int *)outcome.value;
    stint_free(outcome.value);
    return counted;
}

TEST(a_fresh_child_sees_nothing_of_earlier_tasks_and_a_used_one_their_static_variables)
{
    struct fixture fresh = begin(.children = 1);
    for (int i = 0; i < 3; i++)
        assert_int_equal(count_in(fresh), 1);
    end(fresh);
    struct fixture used = begin(.children = 1, .tasks_per_child = 2);
    assert_int_equal(count_in(used), 1);
    assert_int_equal(count_in(used), 2);
    assert_int_equal(count_in(used), 1);
    end(used);
}

static int open_more(const void *input, size_t size, stint_reply *reply)
{
    (void)input;
    (void)size;
    int count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    for (int i = 0; i < 20; i++) {
        if (dup(1) < 0)
            return errno;
    }
    return stint_reply_write(reply, &count, sizeof count);
}

TEST(descriptors_that_a_task_leaves_open_are_closed)
{
    struct fixture fixture = begin(.children = 1, .tasks_per_child = STINT_WALL_REUSED);
    int first = 0;
    for (int i = 0; i < 10; i++) {
        stint_outcome outcome = run_walled(fixture.pool, fixture.wall, open_more, NULL);
        assert_int_equal(outcome.status, STINT_OK);
        first = i == 0 ? *(int *)outcome.value : first;
        assert_int_equal(*(int *)outcome.value, first);
        stint_free(outcome.value);
    }
    assert_int_equal(read_wall(fixture.wall).children, 1);
    end(fixture);
}

static int close_standard(const void *input, size_t size, stint_reply *reply)
{
    return close(1) == 0 ? echo(input, size, reply) : errno;
}

static int replace_standard(const void *input, size_t size, stint_reply *reply)
{
    int ends[2];
    return pipe(ends) == 0 && dup2(ends[0], 0) == 0 ? echo(input, size, reply) : errno;
}

TEST(a_child_whose_standard_descriptors_have_changed_is_not_used_again)
{
    struct fixture fixture = begin(.children = 1, .tasks_per_child = STINT_WALL_REUSED);
    for (unsigned i = 0; i < 3; i++) {
        assert_replied(run_walled(fixture.pool, fixture.wall, close_standard, NULL), "");
        assert_replied(run_walled(fixture.pool, fixture.wall, replace_standard, NULL), "");
    }
    assert_int_equal(read_wall(fixture.wall).children, 6);
    end(fixture);
}

static int set_alarm(const void *input, size_t size, stint_reply *reply)
{
    (void)input;
    (void)size;
    (void)reply;
    ualarm(5000, 0);
    return 0;
}

static int sleep_a_little(const void *input, size_t size, stint_reply *reply)
{
    (void)input;
    (void)size;
    (void)reply;
    nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
    return 0;
}

TEST(an_alarm_of_one_task_does_not_end_the_next)
{
    stint_wall *wall = make_wall(.children = 1, .tasks_per_child = STINT_WALL_REUSED);
    stint_pool *pool = make_pool(.workers = 1);
    assert_replied(run_walled(pool, wall, set_alarm, NULL), "");
    assert_replied(run_walled(pool, wall, sleep_a_little, NULL), "");
    assert_int_equal(read_wall(wall).children, 1);
    assert_int_equal(stint_pool_destroy(pool), 0);
    assert_int_equal(stint_wall_destroy(wall), 0);
}

TESTS_NEED(lack_of_filters)

TEST_MAIN()
