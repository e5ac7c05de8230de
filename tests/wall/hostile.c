/* SPDX-License-Identifier: MIT
 *
 * A hostile child: it knows the descriptor of its socket and the address of its area, and sends and writes what it
 * likes. Its own task ends, its process is gone, and the next task is not affected. */
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "../walls.h"
#include "alloc/observe/report.h"
#include "executor/wall/area.h"

/* The first of the wall's own descriptors, where none is named. */
#define SOCKET 3

#define LIMIT ((size_t)1 << 20)

/* The largest grant at once, and the number of grants until their sum is impossible. */
#define LARGEST_GRANT ((uint64_t)1 << 47)
#define MOST_GRANTS 512

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

#define begin(...) begin_with((stint_wall_options){ .size = sizeof(stint_wall_options), .children = 1, __VA_ARGS__ })

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

/* The template's children, when those that are ending have ended: up to five seconds. */
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

/* The state of a child of the template, if it is the only one; its number is in *child. 0: it is not. */
static char state_of_only_child(long template_pid, int *child)
{
    char path[64];
    char state = 0;
    int more;
    snprintf(path, sizeof path, "/proc/%ld/task/%ld/children", template_pid, template_pid);
    FILE *children = fopen(path, "r");
    bool is_only = children != NULL && fscanf(children, "%d", child) == 1 && fscanf(children, "%d", &more) != 1;
    if (children != NULL)
        fclose(children);
    if (!is_only)
        return 0;
    snprintf(path, sizeof path, "/proc/%d/stat", *child);
    FILE *status = fopen(path, "r");
    if (status != NULL && fscanf(status, "%*d (stint-child) %c", &state) != 1)
        state = 0;
    if (status != NULL)
        fclose(status);
    return state;
}

/* The spare child, stopped. An earlier child that has answered may still be there, and ends, stopped or not. */
static pid_t stop_spare_child(stint_wall *wall)
{
    long template_pid = read_wall(wall).template_pid;
    int child = 0;
    int now = 0;
    for (;;) {
        while (state_of_only_child(template_pid, &child) != 'S')
            usleep(1000);
        kill(child, SIGSTOP);
        usleep(10000); /* for the other one to end, and for this one to be seen stopped */
        if (state_of_only_child(template_pid, &now) == 'T' && now == child)
            return child;
        kill(child, SIGCONT); /* it was the one that was to end, or the other one has not ended yet */
    }
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

/* --- What the child does. --- */

static void say(struct sti_wall_message *message)
{
    sti_wall_send(SOCKET, message, NULL, 0, true);
}

static void say_done(void)
{
    struct sti_wall_message message = { .kind = STI_WALL_DONE };
    say(&message);
}

static void linger(void)
{
    volatile bool for_ever = true;
    while (for_ever)
        ;
}

static int answer_and_linger(const void *input, size_t size, stint_reply *reply)
{
    say_done();
    linger();
    return echo(input, size, reply);
}

static int shut_and_linger(const void *input, size_t size, stint_reply *reply)
{
    shutdown(SOCKET, SHUT_RDWR);
    linger();
    return echo(input, size, reply);
}

static int say_nothing_and_linger(const void *input, size_t size, stint_reply *reply)
{
    send(SOCKET, "", 0, 0);
    linger();
    return echo(input, size, reply);
}

static int speak_for_the_template(const void *input, size_t size, stint_reply *reply)
{
    struct sti_wall_message message = { .kind = STI_WALL_READY };
    say(&message);
    linger();
    return echo(input, size, reply);
}

/* It has asked for the next before it is answered the last, so that there is always something to hear. */
static int draw_for_ever(const void *input, size_t size, stint_reply *reply)
{
    struct sti_wall_message message = { .kind = STI_WALL_DRAW, .draw = { .number = 0, .amount = 1 } };
    for (int ahead = 0; ahead < 100; ahead++)
        say(&message);
    while (sti_wall_receive(SOCKET, &message, NULL, NULL, true) == 0) {
        message.kind = STI_WALL_DRAW;
        message.draw.amount = 1;
        say(&message);
    }
    return echo(input, size, reply);
}

/* Any kind, any size, any bytes, with descriptors or without; then it goes on. The seed is its input. */
static int babble(const void *input, size_t size, stint_reply *reply)
{
    uint64_t seed = *(const uint64_t *)input;
    static union {
        struct sti_wall_message message;
        unsigned char bytes[2 * sizeof(struct sti_wall_message)];
    } said;
    int fds[STINT_WALL_FDS_MAX];
    for (unsigned i = 0; i < STINT_WALL_FDS_MAX; i++)
        fds[i] = (int)random_below(&seed, 3);
    for (size_t i = 0; i < sizeof said; i++)
        said.bytes[i] = random_below(&seed, 2) == 0 ? 0 : (unsigned char)random_next(&seed);
    said.message.kind = (uint32_t)random_below(&seed, 10);
    if (random_below(&seed, 2) == 0)
        sti_wall_send(SOCKET, &said.message, fds, (unsigned)random_below(&seed, STINT_WALL_FDS_MAX + 1), true);
    else
        send(SOCKET, &said, random_below(&seed, sizeof said + 1), 0);
    return random_below(&seed, 4) != 0 ? echo(input, size, reply) : (linger(), 0);
}

/* More than the socket holds, and nothing is read. */
static int talk_for_ever(const void *input, size_t size, stint_reply *reply)
{
    struct sti_wall_message message = { .kind = STI_WALL_DRAW, .draw = { .number = 1, .amount = 1 } };
    for (;;)
        say(&message);
    return echo(input, size, reply);
}

/* A reply and a payload, each as large as one may be: but there is one place for both. */
static int answer_twice(const void *input, size_t size, stint_reply *reply)
{
    struct sti_wall_message message = { .kind = STI_WALL_DONE };
    message.done.reply_size = message.done.payload_size = LIMIT;
    say(&message);
    linger();
    return echo(input, size, reply);
}

/* Claims to have used more than any task can, in the number at this offset. */
static int say_used(size_t at)
{
    struct sti_wall_message message = { .kind = STI_WALL_DONE };
    const uint64_t much = UINT64_MAX / 2;
    memcpy((char *)&message.done.usage + at, &much, sizeof much);
    say(&message);
    linger();
    return 0;
}

static int have_used(const void *input, size_t size, stint_reply *reply)
{
    (void)size;
    (void)reply;
    return say_used(*(const size_t *)input);
}

/* All that there is, over and over: the sum would begin anew. The grants are counted. */
static int draw_all(const void *input, size_t size, stint_reply *reply)
{
    struct sti_wall_message message = { .kind = STI_WALL_DRAW };
    (void)input;
    (void)size;
    for (unsigned granted = 0; granted < 2 * MOST_GRANTS; granted++) {
        message.kind = STI_WALL_DRAW;
        message.draw.number = STI_WALL_MEMORY;
        message.draw.amount = LARGEST_GRANT;
        say(&message);
        if (sti_wall_receive(SOCKET, &message, NULL, NULL, true) != 0 || message.draw.amount == 0)
            return stint_reply_write(reply, &granted, sizeof granted);
    }
    return ERANGE;
}

static struct sti_wall_layout layout(void)
{
    struct sti_wall_config config = { .input_limit = LIMIT, .reply_limit = LIMIT };
    return sti_wall_layout(&config);
}

/* It changes its answer after it has sent it. */
static int answer_and_change(const void *input, size_t size, stint_reply *reply)
{
    struct sti_wall_message message = { .kind = STI_WALL_DONE };
    volatile unsigned char *bytes = stint_reply_reserve(reply, LIMIT);
    (void)input;
    (void)size;
    message.done.reply_size = LIMIT;
    say(&message);
    for (unsigned char number = 1;; number++) {
        for (size_t i = 0; i < LIMIT; i += 64)
            bytes[i] = number;
    }
    return 0;
}

/* The same with a report of a task that has failed: it is possible for moments. */
static int report_and_change(const void *input, size_t size, stint_reply *reply)
{
    struct sti_wall_message message = { .kind = STI_WALL_DONE };
    char *report = (char *)(uintptr_t)input - layout().input + layout().report;
    (void)size;
    (void)reply;
    memset(report, 0, sizeof(struct stint_report));
    message.done.reason = STINT_REASON_FAILED;
    message.done.error = 1;
    message.done.report_size = sizeof(struct stint_report);
    say(&message);
    for (;;) {
        memset(report, 0xff, sizeof(struct stint_report));
        memset(report, 0, sizeof(struct stint_report));
    }
    return 0;
}

static atomic_uint *begun; /* shared with all processes: how often the next two have been begun */

/* Sets the state back to that of a task that has not begun, and ends. */
static int unbegin_and_end(const void *input, size_t size, stint_reply *reply)
{
    struct sti_wall_area *area = (struct sti_wall_area *)((uintptr_t)input - layout().input);
    (void)size;
    (void)reply;
    atomic_fetch_add(begun, 1);
    atomic_store(&area->state, STI_WALL_OFFERED);
    _exit(3);
}

/* Asks for a grant, leaves it unread, as if its task had not begun, and ends. */
static int draw_and_end(const void *input, size_t size, stint_reply *reply)
{
    struct sti_wall_message message = { .kind = STI_WALL_DRAW, .draw = { .number = 0, .amount = 1 } };
    int waiting = 0;
    (void)reply;
    atomic_fetch_add(begun, 1);
    say(&message);
    while (ioctl(SOCKET, FIONREAD, &waiting) == 0 && waiting == 0)
        ;
    return unbegin_and_end(input, size, reply);
}

/* --- */

static stint_outcome run_for(struct fixture fixture, stint_wall_fn *fn, uint64_t run_ns, stint_account *account)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.run_ns = run_ns;
    options.account = account;
    return run_walled(fixture.pool, fixture.wall, fn, &options);
}

TEST(a_child_that_goes_on_after_its_answer_is_killed)
{
    struct fixture fixture = begin();
    stint_outcome outcome = run_for(fixture, answer_and_linger, 0, NULL);
    assert_int_equal(outcome.status, STINT_OK);
    stint_free(outcome.value);
    assert_int_equal(count_left(fixture.wall), 0);
    assert_goes_on(fixture);
    end(fixture);
}

TEST(a_child_that_shuts_its_socket_is_killed)
{
    struct fixture fixture = begin();
    stint_outcome outcome = run_for(fixture, shut_and_linger, 0, NULL);
    assert_ended(&outcome, STINT_ERROR, STINT_REASON_BROKEN);
    assert_int_equal(count_left(fixture.wall), 0);
    assert_goes_on(fixture);
    end(fixture);
}

TEST(a_message_of_no_bytes_is_no_end)
{
    struct fixture fixture = begin();
    stint_outcome outcome = run_for(fixture, say_nothing_and_linger, 0, NULL);
    assert_ended(&outcome, STINT_ERROR, STINT_REASON_BROKEN);
    assert_int_equal(count_left(fixture.wall), 0);
    assert_goes_on(fixture);
    end(fixture);
}

TEST(a_child_cannot_speak_for_its_template)
{
    struct fixture fixture = begin();
    stint_outcome outcome = run_for(fixture, speak_for_the_template, 0, NULL);
    assert_ended(&outcome, STINT_ERROR, STINT_REASON_BROKEN);
    assert_int_equal(read_wall(fixture.wall).retried, 0);
    assert_int_equal(count_left(fixture.wall), 0);
    assert_goes_on(fixture);
    end(fixture);
}

TEST(a_deadline_is_kept_while_a_child_draws_without_end)
{
    struct fixture fixture = begin();
    stint_account *account = make_account(NULL, .memory = GIB);
    stint_outcome outcome = run_for(fixture, draw_for_ever, 50 * MS, account);
    assert_ended(&outcome, STINT_ERROR, STINT_REASON_DEADLINE);
    assert_int_equal(count_left(fixture.wall), 0);
    assert_goes_on(fixture);
    stint_account_release(account);
    end(fixture);
}

TEST(a_child_that_asks_and_does_not_listen_has_broken_its_word)
{
    struct fixture fixture = begin();
    stint_account *account = make_account(NULL, .memory = GIB);
    stint_outcome outcome = run_for(fixture, talk_for_ever, 0, account);
    assert_ended(&outcome, STINT_ERROR, STINT_REASON_BROKEN);
    assert_int_equal(outcome.payload_size, sizeof(stint_wall_death));
    assert_int_equal(usage_of(account).memory, 0);
    assert_goes_on(fixture);
    stint_account_release(account);
    end(fixture);
}

TEST(an_answer_that_is_twice_as_large_as_its_place_is_not_wiped)
{
    struct fixture fixture = begin(.input_limit = LIMIT, .reply_limit = LIMIT);
    stint_options options = STINT_OPTIONS_INIT;
    options.wipe = true;
    stint_outcome outcome = run_walled(fixture.pool, fixture.wall, answer_twice, &options);
    assert_ended(&outcome, STINT_ERROR, STINT_REASON_BROKEN);
    assert_goes_on(fixture);
    end(fixture);
}

TEST(numbers_that_cannot_be_spoil_no_sum)
{
    static const size_t numbers[] = { offsetof(stint_usage, allocated), offsetof(stint_usage, peak),
                                      offsetof(stint_usage, samples),   offsetof(stint_usage, deferred),
                                      offsetof(stint_usage, kept),      offsetof(stint_usage, cpu_ns),
                                      offsetof(stint_usage, committed) };
    struct fixture fixture = begin();
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        stint_outcome outcome =
            take_in_time(submit_walled(fixture.pool, fixture.wall, have_used, &numbers[i], sizeof numbers[i], NULL));
        assert_ended(&outcome, STINT_ERROR, STINT_REASON_BROKEN);
        assert_int_equal(outcome.usage.allocated, 0);
    }
    assert_goes_on(fixture);
    end(fixture);
}

TEST(what_a_child_draws_has_a_sum_that_can_be)
{
    struct fixture fixture = begin();
    stint_account *account = make_account(NULL, .memory = 0);
    stint_outcome outcome = run_for(fixture, draw_all, 0, account);
    assert_int_equal(outcome.status, STINT_OK);
    assert_int_equal(outcome.payload_size, sizeof(unsigned));
    assert_int_equal(*(unsigned *)outcome.value, MOST_GRANTS - 1);
    stint_free(outcome.value);
    assert_int_equal(usage_of(account).memory, 0);
    assert_goes_on(fixture);
    stint_account_release(account);
    end(fixture);
}

static void assert_begun_once(stint_wall_fn *fn, unsigned times)
{
    struct fixture fixture = begin(.input_limit = LIMIT, .reply_limit = LIMIT);
    stint_account *account = make_account(NULL, .memory = GIB);
    atomic_store(begun, 0);
    stint_outcome outcome = run_for(fixture, fn, 0, account);
    assert_ended(&outcome, STINT_ERROR, STINT_REASON_EXIT);
    assert_string_equal(outcome.message, "exit status 3");
    assert_int_equal(atomic_load(begun), times);
    assert_int_equal(read_wall(fixture.wall).retried, 0);
    assert_goes_on(fixture);
    stint_account_release(account);
    end(fixture);
}

TEST(a_task_that_says_it_has_not_begun_is_not_begun_again)
{
    begun = mmap(NULL, sizeof *begun, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_begun_once(unbegin_and_end, 1);
    assert_begun_once(draw_and_end, 2); /* the one in the other */
    munmap(begun, sizeof *begun);
}

TEST(a_task_that_its_child_has_not_read_is_given_to_another)
{
    struct fixture fixture = begin(.spare = 1);
    for (int round = 0; round < 20; round++) {
        pid_t spare = stop_spare_child(fixture.wall);
        stint_future *future = submit_walled(fixture.pool, fixture.wall, echo, "on", 2, NULL);
        while (read_wall(fixture.wall).tasks == (uint64_t)round)
            sched_yield();
        usleep((unsigned)round * 100);
        kill(spare, SIGKILL);
        assert_replied(take_in_time(future), "on");
    }
    assert_int_not_equal(read_wall(fixture.wall).retried, 0);
    end(fixture);
}

static uint64_t sum_of(const unsigned char *bytes, size_t size)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < size; i++)
        sum = sum * 31 + bytes[i];
    return sum;
}

TEST(a_reply_that_changes_while_it_is_read_is_the_programs_own_then)
{
    struct fixture fixture = begin(.input_limit = LIMIT, .reply_limit = LIMIT, .tasks_per_child = 2);
    for (int round = 0; round < 10; round++) {
        stint_outcome outcome = run_walled(fixture.pool, fixture.wall, answer_and_change, NULL);
        assert_int_equal(outcome.status, STINT_OK);
        assert_int_equal(outcome.payload_size, LIMIT);
        uint64_t sum = sum_of(outcome.value, LIMIT);
        usleep(2000); /* the child is used again, so it goes on */
        assert_int_equal(sum_of(outcome.value, LIMIT), sum);
        stint_free(outcome.value);
        stint_options options = STINT_OPTIONS_INIT;
        options.budget.run_ns = MS;
        outcome = run_walled(fixture.pool, fixture.wall, reply_nothing, &options);
        assert_ended(&outcome, STINT_ERROR, STINT_REASON_DEADLINE);
    }
    end(fixture);
}

TEST(a_report_that_changes_while_it_is_read_is_possible_or_none)
{
    struct fixture fixture = begin(.input_limit = LIMIT, .reply_limit = LIMIT);
    stint_options options = STINT_OPTIONS_INIT;
    int nowhere = open("/dev/null", O_WRONLY);
    options.report = STINT_REPORT_HEAP;
    for (int round = 0; round < 100; round++) {
        stint_future *future =
            submit_walled(fixture.pool, fixture.wall, report_and_change, &round, sizeof round, &options);
        stint_outcome outcome;
        assert_int_equal(stint_future_wait_for(future, 60000 * MS, &outcome), 0);
        assert_ended(&outcome, STINT_ERROR, STINT_REASON_FAILED);
        stint_report *report = NULL;
        if (stint_future_report(future, &report) == 0) {
            for (int kind = STINT_REPORT_TEXT; kind <= STINT_REPORT_JSON; kind++)
                assert_int_equal(stint_report_write(report, nowhere, (stint_report_kind)kind), 0);
            stint_report_release(report);
        }
        stint_future_release(future);
    }
    close(nowhere);
    assert_goes_on(fixture);
    end(fixture);
}

TEST(whatever_a_child_says_its_task_ends_and_nothing_is_left)
{
    struct fixture fixture = begin();
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.run_ns = 20 * MS;
    size_t descriptors = 0;
    for (uint64_t seed = 0; seed < 120; seed++) {
        stint_outcome outcome =
            take_in_time(submit_walled(fixture.pool, fixture.wall, babble, &seed, sizeof seed, &options));
        if (outcome.status == STINT_OK)
            stint_free(outcome.value);
        else if (outcome.reason != STINT_REASON_DEADLINE && outcome.reason != STINT_REASON_FAILED &&
                 outcome.reason != STINT_REASON_EXIT)
            assert_ended(&outcome, STINT_ERROR, STINT_REASON_BROKEN);
        if (seed == 0)
            descriptors = count_descriptors();
        assert_in_range(count_descriptors(), descriptors - 3, descriptors + 3);
    }
    assert_int_equal(count_left(fixture.wall), 0);
    assert_goes_on(fixture);
    end(fixture);
}

TESTS_NEED(lack_of_filters)

TEST_MAIN()
