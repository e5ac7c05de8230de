/* SPDX-License-Identifier: MIT
 *
 * Walled tasks: the result of each way in which a child's code can end, and that the program goes on. */
#include "../walls.h"

#include <semaphore.h>

static int fail_with_payload(const void *input, size_t size, stint_reply *reply)
{
    (void)stint_reply_write(reply, "half a reply", 12);
    return stint_fail(EBADMSG, input, size);
}

__attribute__((noreturn)) static int abort_itself(const void *input, size_t size, stint_reply *reply)
{
    (void)input;
    (void)size;
    (void)reply;
    abort();
}

__attribute__((noreturn)) static int exit_with_three(const void *input, size_t size, stint_reply *reply)
{
    (void)input;
    (void)size;
    (void)reply;
    exit(3);
}

static int kill_itself(const void *input, size_t size, stint_reply *reply)
{
    (void)input;
    (void)size;
    (void)reply;
    return kill(getpid(), SIGKILL);
}

__attribute__((noinline)) static int allocate_ten_blocks(const void *input, size_t size, stint_reply *reply)
{
    (void)input;
    (void)size;
    (void)reply;
    for (int i = 0; i < 10; i++) {
        void *volatile block = malloc(100); /* or clang does without */
        if (block == NULL)
            return ENOMEM;
    }
    return 0;
}

static int say_name(const void *input, size_t size, stint_reply *reply)
{
    const char *name = stint_task_name();
    (void)input;
    (void)size;
    return stint_reply_write(reply, name, strlen(name));
}

static int recurse(const void *input, size_t size, stint_reply *reply)
{
    volatile char room[1024];
    room[0] = (char)size;
    if (input == NULL) /* never */
        return 0;
    int error = recurse(input, size + 1, reply);
    return error + room[0];
}

struct fixture {
    stint_wall *wall;
    stint_pool *pool;
};

static struct fixture begin(void)
{
    struct fixture fixture = { .wall = make_wall(.children = 2) };
    fixture.pool = make_pool(.workers = 1);
    return fixture;
}

static void end(struct fixture fixture)
{
    assert_int_equal(stint_pool_destroy(fixture.pool), 0);
    assert_int_equal(stint_wall_destroy(fixture.wall), 0);
    assert_int_equal(count_processes(), 0);
}

/* Whatever a child has done: the next one works. */
static void assert_goes_on(struct fixture fixture)
{
    assert_replied(take_in_time(submit_walled(fixture.pool, fixture.wall, echo, "on", 2, NULL)), "on");
}

TEST(a_reply_is_the_value_and_its_size_is_in_the_outcome)
{
    struct fixture fixture = begin();
    assert_replied(take_in_time(submit_walled(fixture.pool, fixture.wall, echo, "some bytes", 10, NULL)), "some bytes");
    stint_outcome outcome = run_walled(fixture.pool, fixture.wall, reply_nothing, NULL);
    assert_non_null(outcome.value);
    assert_int_equal(outcome.payload_size, 0);
    stint_free(outcome.value);
    end(fixture);
}

TEST(an_error_of_the_function_comes_with_its_payload_and_without_its_reply)
{
    struct fixture fixture = begin();
    stint_future *future = submit_walled(fixture.pool, fixture.wall, fail_with_payload, "why", 4, NULL);
    stint_outcome outcome;
    assert_int_equal(stint_future_wait(future, &outcome), 0);
    assert_ended(&outcome, STINT_ERROR, STINT_REASON_FAILED);
    assert_int_equal(outcome.error, EBADMSG);
    assert_int_equal(outcome.payload_size, 4);
    assert_string_equal(outcome.payload, "why");
    stint_future_release(future);
    assert_goes_on(fixture);
    end(fixture);
}

static int fail_as_asked(const void *input, size_t size, stint_reply *reply)
{
    (void)reply;
    return size == sizeof(int) ? *(const int *)input : 0;
}

TEST(an_error_may_be_any_number)
{
    static const int errors[] = { EINTR, EAGAIN, -1, 1000000, INT_MIN };
    struct fixture fixture = begin();
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        stint_future *future =
            submit_walled(fixture.pool, fixture.wall, fail_as_asked, &errors[i], sizeof errors[i], NULL);
        stint_outcome outcome = take_in_time(future);
        assert_ended(&outcome, STINT_ERROR, STINT_REASON_FAILED);
        assert_int_equal(outcome.error, errors[i]);
    }
    end(fixture);
}

struct death {
    stint_wall_fn *fn;
    stint_reason reason;
    int error;
    int signal;
    int status;
};

TEST(a_childs_own_end_is_an_error_that_says_how_it_ended)
{
    static const struct death deaths[] = {
        { write_to_null, STINT_REASON_CRASH, EFAULT, SIGSEGV, 0 },
        { abort_itself, STINT_REASON_CRASH, EFAULT, SIGABRT, 0 },
        { exit_with_three, STINT_REASON_EXIT, ECHILD, 0, 3 },
        { kill_itself, STINT_REASON_KILLED, ECHILD, SIGKILL, 0 },
    };
    struct fixture fixture = begin();
    for (size_t i = 0; i < sizeof deaths / sizeof *deaths; i++) {
        stint_future *future = submit_walled(fixture.pool, fixture.wall, deaths[i].fn, NULL, 0, NULL);
        stint_outcome outcome;
        assert_int_equal(stint_future_wait(future, &outcome), 0);
        assert_ended(&outcome, STINT_ERROR, deaths[i].reason);
        assert_int_equal(outcome.error, deaths[i].error);
        assert_int_equal(outcome.payload_size, sizeof(stint_wall_death));
        const stint_wall_death *death = outcome.payload;
        assert_true(death->known);
        assert_int_equal(death->signal, deaths[i].signal);
        assert_int_equal(death->status, deaths[i].status);
        assert_true(outcome.message[0] != '\0');
        stint_future_release(future);
        assert_goes_on(fixture);
    }
    assert_int_equal(read_wall(fixture.wall).crashed, 4);
    end(fixture);
}

TEST(the_allocation_limit_is_exact_behind_the_wall)
{
    struct fixture fixture = begin();
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.allocation = 10 * 112;
    stint_outcome outcome = run_walled(fixture.pool, fixture.wall, allocate_ten_blocks, &options);
    assert_int_equal(outcome.status, STINT_OK);
    assert_int_equal(outcome.usage.allocated, 10 * 112);
    stint_free(outcome.value);
    options.budget.allocation--;
    outcome = run_walled(fixture.pool, fixture.wall, allocate_ten_blocks, &options);
    assert_ended(&outcome, STINT_ERROR, STINT_REASON_ALLOCATION_LIMIT);
    assert_int_equal(outcome.usage.allocated, 9 * 112);
    end(fixture);
}

static int allocate_and_crash(const void *input, size_t size, stint_reply *reply)
{
    int error = allocate_ten_blocks(input, size, reply);
    return error != 0 ? error : write_to_null(input, size, reply);
}

TEST(what_a_task_had_allocated_when_it_crashed_is_told)
{
    struct fixture fixture = begin();
    stint_outcome outcome = run_walled(fixture.pool, fixture.wall, allocate_and_crash, NULL);
    assert_ended(&outcome, STINT_ERROR, STINT_REASON_CRASH);
    assert_int_equal(outcome.usage.allocated, 10 * 112);
    end(fixture);
}

TEST(the_memory_limit_stops_a_child_that_never_ends_its_list)
{
    struct fixture fixture = begin();
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.memory = 10 * MIB;
    stint_outcome outcome = run_walled(fixture.pool, fixture.wall, allocate_for_ever, &options);
    assert_ended(&outcome, STINT_ERROR, STINT_REASON_MEMORY_LIMIT);
    assert_true(outcome.usage.peak > 9 * MIB && outcome.usage.peak <= 10 * MIB + 128 * KIB);
    end(fixture);
}

TEST(a_recursion_without_end_is_a_crash)
{
    struct fixture fixture = begin();
    stint_outcome outcome = run_walled(fixture.pool, fixture.wall, recurse, NULL);
    assert_ended(&outcome, STINT_ERROR, STINT_REASON_CRASH);
    end(fixture);
}

TEST(a_loop_is_killed_at_its_deadline)
{
    struct fixture fixture = begin();
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.run_ns = 20 * MS;
    stint_outcome outcome = run_walled(fixture.pool, fixture.wall, spin_for_ever, &options);
    assert_ended(&outcome, STINT_ERROR, STINT_REASON_DEADLINE);
    assert_int_equal(outcome.error, ETIMEDOUT);
    assert_true(outcome.usage.wall_ns >= 20 * MS);
    options.budget.run_ns = 0;
    options.budget.wall_ns = 20 * MS;
    outcome = run_walled(fixture.pool, fixture.wall, spin_for_ever, &options);
    assert_ended(&outcome, STINT_ERROR, STINT_REASON_DEADLINE);
    assert_int_equal(read_wall(fixture.wall).killed, 2);
    end(fixture);
}

TEST(processor_time_is_that_of_the_child)
{
    struct fixture fixture = begin();
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.cpu_ns = 20 * MS;
    stint_outcome outcome = run_walled(fixture.pool, fixture.wall, spin_for_ever, &options);
    assert_ended(&outcome, STINT_ERROR, STINT_REASON_CPU);
    assert_true(outcome.usage.cpu_ns >= 20 * MS);
    options.budget.cpu_ns = UINT64_MAX;
    outcome = run_walled(fixture.pool, fixture.wall, reply_nothing, &options);
    assert_int_equal(outcome.status, STINT_OK);
    assert_true(outcome.usage.cpu_ns > 0);
    stint_free(outcome.value);
    end(fixture);
}

TEST(an_account_is_drawn_from_exactly)
{
    struct fixture fixture = begin();
    stint_account *account;
    stint_account_limits limits = STINT_ACCOUNT_LIMITS_INIT;
    stint_account_usage usage = STINT_ACCOUNT_USAGE_INIT;
    limits.allocation = 10 * 112;
    limits.memory = 64 * MIB;
    assert_int_equal(stint_account_create(NULL, &limits, &account), 0);
    stint_options options = STINT_OPTIONS_INIT;
    options.account = account;
    stint_outcome outcome = run_walled(fixture.pool, fixture.wall, allocate_ten_blocks, &options);
    assert_int_equal(outcome.status, STINT_OK);
    stint_free(outcome.value);
    assert_int_equal(stint_account_read(account, &usage), 0);
    assert_int_equal(usage.allocated, 10 * 112);
    outcome = run_walled(fixture.pool, fixture.wall, allocate_ten_blocks, &options);
    assert_ended(&outcome, STINT_ERROR, STINT_REASON_ACCOUNT);
    assert_int_equal(outcome.error, EDQUOT);

    limits.allocation = 0;
    limits.memory = 4 * MIB;
    assert_int_equal(stint_account_set_limits(account, &limits), 0);
    outcome = run_walled(fixture.pool, fixture.wall, allocate_for_ever, &options);
    assert_ended(&outcome, STINT_ERROR, STINT_REASON_ACCOUNT);
    assert_int_equal(stint_account_read(account, &usage), 0);
    assert_int_equal(usage.memory, 0);
    assert_int_equal(usage.running, 0);
    assert_int_equal(usage.started, 3);
    stint_account_release(account);
    end(fixture);
}

TEST(a_killed_child_leaves_its_account_no_running_task_and_no_memory)
{
    struct fixture fixture = begin();
    stint_account *account;
    stint_account_limits limits = STINT_ACCOUNT_LIMITS_INIT;
    stint_account_usage usage = STINT_ACCOUNT_USAGE_INIT;
    limits.running = 1;
    limits.memory = 64 * MIB;
    assert_int_equal(stint_account_create(NULL, &limits, &account), 0);
    stint_options options = STINT_OPTIONS_INIT;
    options.account = account;
    options.budget.run_ns = 10 * MS;
    for (int i = 0; i < 3; i++) {
        stint_outcome outcome = run_walled(fixture.pool, fixture.wall, spin_for_ever, &options);
        assert_ended(&outcome, STINT_ERROR, STINT_REASON_DEADLINE);
    }
    assert_int_equal(stint_account_read(account, &usage), 0);
    assert_int_equal(usage.memory, 0);
    assert_int_equal(usage.running, 0);
    stint_account_release(account);
    end(fixture);
}

TEST(the_task_has_its_name_in_the_child)
{
    struct fixture fixture = begin();
    stint_options options = STINT_OPTIONS_INIT;
    options.name = "parse";
    assert_replied(run_walled(fixture.pool, fixture.wall, say_name, &options), "parse");
    end(fixture);
}

static int send_over(const void *input, size_t size, stint_reply *reply)
{
    (void)input;
    (void)size;
    int fd = stint_reply_fd(reply, 0);
    if (stint_reply_fd(reply, 1) != -1 || fcntl(fd, F_GETFD) < 0)
        return EBADF;
    return write(fd, "through", 7) == 7 ? 0 : errno;
}

TEST(a_child_gets_copies_of_descriptors)
{
    struct fixture fixture = begin();
    int ends[2];
    char text[8] = "";
    stint_future *future;
    assert_int_equal(pipe(ends), 0);
    stint_wall_call call = STINT_WALL_CALL_INIT;
    call.fn = send_over;
    call.fds = &ends[1];
    call.fd_count = 1;
    assert_int_equal(stint_submit_walled_call(fixture.pool, fixture.wall, &call, NULL, &future), 0);
    assert_replied(take_in_time(future), "");
    assert_int_equal(read(ends[0], text, 7), 7);
    assert_string_equal(text, "through");
    close(ends[0]);
    close(ends[1]);
    end(fixture);
}

static int reserve_too_much(const void *input, size_t size, stint_reply *reply)
{
    (void)input;
    (void)size;
    if (stint_reply_reserve(reply, 100) == NULL || stint_reply_reserve(reply, 1) != NULL || errno != EMSGSIZE ||
        stint_reply_write(reply, "x", 1) != EMSGSIZE || stint_reply_size(reply) != 100)
        return EINVAL;
    return E2BIG;
}

TEST(a_reply_and_an_input_have_bounds)
{
    struct fixture fixture = { .wall = make_wall(.children = 1, .reply_limit = 100, .input_limit = 5000) };
    fixture.pool = make_pool(.workers = 1);
    stint_future *future = NULL;
    char *input = calloc(1, 5001);
    assert_int_equal(run_walled(fixture.pool, fixture.wall, reserve_too_much, NULL).error, E2BIG);
    assert_int_equal(stint_submit_walled(fixture.pool, fixture.wall, echo, input, 5001, NULL, &future), EMSGSIZE);
    assert_null(future);
    assert_int_equal(take_in_time(submit_walled(fixture.pool, fixture.wall, reserve_too_much, input, 5000, NULL)).error,
                     E2BIG);
    free(input);
    end(fixture);
}

TEST(wrong_calls_are_refused_and_lose_nothing)
{
    struct fixture fixture = begin();
    stint_future *future = (stint_future *)&fixture;
    stint_wall_call call = STINT_WALL_CALL_INIT;
    stint_wall_call unsized = { .fn = echo };
    int fds[STINT_WALL_FDS_MAX + 1] = { 0 };
    assert_int_equal(stint_submit_walled(NULL, fixture.wall, echo, NULL, 0, NULL, &future), EINVAL);
    assert_null(future);
    assert_int_equal(stint_submit_walled(fixture.pool, NULL, echo, NULL, 0, NULL, &future), EINVAL);
    assert_int_equal(stint_submit_walled(fixture.pool, fixture.wall, NULL, NULL, 0, NULL, &future), EINVAL);
    assert_int_equal(stint_submit_walled(fixture.pool, fixture.wall, echo, NULL, 1, NULL, &future), EINVAL);
    assert_int_equal(stint_submit_walled(fixture.pool, fixture.wall, echo, NULL, 0, NULL, NULL), EINVAL);
    assert_int_equal(
        stint_submit_walled(fixture.pool, fixture.wall, (stint_wall_fn *)(uintptr_t)&future, NULL, 0, NULL, &future),
        EINVAL);
    assert_int_equal(stint_submit_walled_call(fixture.pool, fixture.wall, NULL, NULL, &future), EINVAL);
    assert_int_equal(stint_submit_walled_call(fixture.pool, fixture.wall, &unsized, NULL, &future), EINVAL);
    assert_int_equal(stint_submit_walled_call(fixture.pool, fixture.wall, &call, NULL, &future), EINVAL);
    call.entry = "echo"; /* the wall has no program */
    assert_int_equal(stint_submit_walled_call(fixture.pool, fixture.wall, &call, NULL, &future), EINVAL);
    call.entry = NULL;
    call.fn = echo;
    call.fds = fds;
    call.fd_count = STINT_WALL_FDS_MAX + 1;
    assert_int_equal(stint_submit_walled_call(fixture.pool, fixture.wall, &call, NULL, &future), EINVAL);
    assert_null(future);
    assert_goes_on(fixture);
    end(fixture);
}

TEST(a_descriptor_that_is_not_open_is_an_error_of_the_task)
{
    struct fixture fixture = begin();
    const int fds[] = { 999 };
    stint_wall_call call = STINT_WALL_CALL_INIT;
    stint_future *future;
    call.fn = reply_nothing;
    call.fds = fds;
    call.fd_count = 1;
    assert_int_equal(stint_submit_walled_call(fixture.pool, fixture.wall, &call, NULL, &future), 0);
    stint_outcome outcome = take_in_time(future);
    assert_ended(&outcome, STINT_ERROR, STINT_REASON_FAILED);
    assert_int_equal(outcome.error, EBADF);
    assert_goes_on(fixture);
    end(fixture);
}

static void *wait_for_end(void *end)
{
    while (sem_wait(end) != 0)
        ;
    return NULL;
}

static int start_a_thread(void *unused)
{
    static sem_t never;
    pthread_t thread;
    (void)unused;
    return pthread_create(&thread, NULL, wait_for_end, &never);
}

TEST(a_wall_is_not_made_beside_other_threads)
{
    char message[256];
    pthread_t thread;
    sem_t end;
    stint_wall *wall = NULL;
    stint_wall_options options = STINT_WALL_OPTIONS_INIT;
    options.message = message;
    options.message_size = sizeof message;
    sem_init(&end, 0, 0);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_end, &end), 0);
    assert_int_equal(stint_wall_create(&options, &wall), EBUSY);
    assert_null(wall);
    assert_non_null(strstr(message, "2 threads"));
    sem_post(&end);
    pthread_join(thread, NULL);
    options.setup = start_a_thread;
    assert_int_equal(stint_wall_create(&options, &wall), EBUSY);
    assert_non_null(strstr(message, "left 1 thread running"));
    options.setup = NULL;
    assert_int_equal(stint_wall_create(&options, &wall), 0);
    assert_int_equal(stint_wall_destroy(wall), 0);
}

static int count_areas(const void *input, size_t size, stint_reply *reply)
{
    char line[256];
    size_t count = 0;
    (void)input;
    (void)size;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL)
        count += strstr(line, "stint-wall") != NULL;
    return stint_reply_write(reply, count == 1 ? "one" : "others", count == 1 ? 3 : 6);
}

TEST(a_child_shares_no_memory_with_the_children_of_another_wall)
{
    stint_wall *other = make_wall(.children = 1, .spare = 2);
    stint_wall *wall = make_wall(.children = 1, .sandbox = STINT_WALL_OPEN);
    stint_pool *pool = make_pool(.workers = 1);
    assert_replied(run_walled(pool, wall, count_areas, NULL), "one");
    assert_int_equal(stint_pool_destroy(pool), 0);
    assert_int_equal(stint_wall_destroy(wall), 0);
    assert_int_equal(stint_wall_destroy(other), 0);
}

TESTS_NEED(lack_of_filters)

TEST_MAIN()
