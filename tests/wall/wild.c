/* SPDX-License-Identifier: MIT
 *
 * A child whose code has gone wild: it overwrites what it shares with the program, takes what it can get, closes or
 * unmaps what the wall's own code in it needs, ends in odd places, or plays with processes and signals. */
#include <link.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "../walls.h"
#include "executor/wall/area.h"

#define LIMIT ((size_t)1 * MIB)

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

static stint_outcome run_for(struct fixture fixture, stint_wall_fn *fn, uint64_t run_ns)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.run_ns = run_ns;
    return run_walled(fixture.pool, fixture.wall, fn, &options);
}

/* --- What is shared. --- */

static struct sti_wall_layout layout(void)
{
    struct sti_wall_config config = { .input_limit = LIMIT, .reply_limit = LIMIT };
    return sti_wall_layout(&config);
}

static char *area_of(const void *input)
{
    return (char *)(uintptr_t)input - layout().input;
}

/* The seed is its input. */
static int scribble(const void *input, size_t size, stint_reply *reply)
{
    uint64_t seed = *(const uint64_t *)input;
    char *area = area_of(input);
    size_t whole = layout().size;
    for (int i = 0; i < 20000; i++) {
        size_t at = random_below(&seed, random_below(&seed, 2) == 0 ? 4096 : whole - 8);
        uint64_t word = random_below(&seed, 4) == 0 ? random_below(&seed, 5) : random_next(&seed);
        memcpy(area + at, &word, 1 + random_below(&seed, 8));
    }
    switch (random_below(&seed, 4)) {
    case 0:
        return write_to_null(input, size, reply);
    case 1:
        return stint_fail(EBADMSG, area, 1000);
    default:
        return stint_reply_write(reply, area, random_below(&seed, LIMIT));
    }
}

TEST(whatever_is_written_over_the_area_the_task_ends)
{
    struct fixture fixture = begin();
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.run_ns = 10000 * MS;
    options.report = STINT_REPORT_HEAP;
    for (uint64_t seed = 0; seed < 100; seed++) {
        stint_outcome outcome =
            take_in_time(submit_walled(fixture.pool, fixture.wall, scribble, &seed, sizeof seed, &options));
        if (outcome.status == STINT_OK)
            stint_free(outcome.value);
        else
            assert_int_equal(outcome.status, STINT_ERROR);
    }
    assert_goes_on(fixture);
    end(fixture);
}

static int resize_area(const void *input, size_t size, stint_reply *reply)
{
    (void)size;
    char path[64];
    snprintf(path, sizeof path, "/proc/self/map_files/%lx-%lx", (unsigned long)(uintptr_t)area_of(input),
             (unsigned long)(uintptr_t)area_of(input) + layout().size);
    int fd = open(path, O_RDWR);
    if (fd < 0)
        return errno;
    if (ftruncate(fd, 0) == 0 || errno != EPERM || ftruncate(fd, 1 << 30) == 0 || (errno != EPERM && errno != EFBIG) ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) == 0)
        return EINVAL;
    return stint_reply_write(reply, "kept", 4);
}

TEST(a_child_cannot_change_the_size_of_its_area)
{
    struct fixture fixture = begin(.sandbox = STINT_WALL_OPEN);
    uint64_t any = 0;
    assert_replied(take_in_time(submit_walled(fixture.pool, fixture.wall, resize_area, &any, sizeof any, NULL)),
                   "kept");
    end(fixture);
}

/* --- What the wall's own code in the child needs. --- */

static int close_everything(const void *input, size_t size, stint_reply *reply)
{
    syscall(SYS_close_range, 0, UINT_MAX, 0);
    return echo(input, size, reply);
}

static int close_everything_and_spin(const void *input, size_t size, stint_reply *reply)
{
    syscall(SYS_close_range, 0, UINT_MAX, 0);
    return spin_for_ever(input, size, reply);
}

static int unmap_area(const void *input, size_t size, stint_reply *reply)
{
    munmap(area_of(input), layout().size);
    return echo(input, size, reply);
}

static int unmap_all_above(const void *input, size_t size, stint_reply *reply)
{
    munmap((void *)4096, (size_t)0x7fffffff0000 - 4096);
    return echo(input, size, reply);
}

static jmp_buf *outside;

static int jump_out(const void *input, size_t size, stint_reply *reply)
{
    if (outside != NULL)
        longjmp(*outside, 1);
    return echo(input, size, reply);
}

static int end_thread(const void *input, size_t size, stint_reply *reply)
{
    (void)input;
    (void)size;
    (void)reply;
    pthread_exit(NULL);
}

static int exit_in_loop_over_modules(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)info;
    (void)size;
    (void)arg;
    exit(5);
}

static int exit_with_the_loaders_lock(const void *input, size_t size, stint_reply *reply)
{
    dl_iterate_phdr(exit_in_loop_over_modules, NULL);
    return echo(input, size, reply);
}

static int exit_in_comparison(const void *one, const void *other)
{
    (void)one;
    (void)other;
    _exit(6);
}

static int exit_in_qsort(const void *input, size_t size, stint_reply *reply)
{
    char bytes[2] = { 0 };
    qsort(bytes, 2, 1, exit_in_comparison);
    return echo(input, size, reply);
}

TEST(code_that_takes_the_ground_from_under_its_child_ends_its_task)
{
    static stint_wall_fn *const functions[] = {
        close_everything, close_everything_and_spin,  unmap_area,   unmap_all_above, end_thread, jump_out,
        exit_in_qsort,    exit_with_the_loaders_lock, write_to_null
    };
    jmp_buf somewhere;
    if (setjmp(somewhere) != 0) /* only a child gets here: the template's frame, which lies where this one did */
        _exit(99);
    outside = &somewhere;
    struct fixture fixture = begin();
    uint64_t any = 0;
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.run_ns = 2000 * MS;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        stint_outcome outcome =
            take_in_time(submit_walled(fixture.pool, fixture.wall, functions[i], &any, sizeof any, &options));
        assert_int_equal(outcome.status, STINT_ERROR);
        assert_int_not_equal(outcome.reason, STINT_REASON_DEADLINE);
        assert_goes_on(fixture);
    }
    end(fixture);
}

/* --- What it takes. --- */

static int reply_a_gibibyte(const void *input, size_t size, stint_reply *reply)
{
    (void)input;
    (void)size;
    int error = 0;
    for (size_t i = 0; i < 1024 && error == 0; i++)
        error = stint_reply_reserve(reply, MIB) != NULL ? 0 : errno;
    return error;
}

TEST(a_reply_of_a_gibibyte_is_refused)
{
    struct fixture fixture = begin();
    assert_int_equal(run_walled(fixture.pool, fixture.wall, reply_a_gibibyte, NULL).error, EMSGSIZE);
    end(fixture);
}

/* --- Itself in itself. --- */

static int make_another(const void *input, size_t size, stint_reply *reply)
{
    stint_pool *pool;
    stint_wall *wall;
    (void)input;
    (void)size;
    int pools = stint_pool_create(NULL, &pool);
    int walls = stint_wall_create(NULL, &wall);
    return stint_reply_write(reply, &(int[2]){ pools, walls }, 2 * sizeof(int));
}

TEST(a_walled_task_makes_no_wall)
{
    struct fixture fixture = begin();
    stint_outcome outcome = run_for(fixture, make_another, 5000 * MS);
    assert_int_equal(outcome.status, STINT_OK);
    assert_int_equal(((int *)outcome.value)[1], EDEADLK);
    stint_free(outcome.value);
    assert_goes_on(fixture);
    end(fixture);
}

/* --- Stopping itself. --- */

static int stop_itself(const void *input, size_t size, stint_reply *reply)
{
    raise(SIGSTOP);
    return stint_reply_write(reply, input, size);
}

TEST(a_child_that_stops_itself_is_killed_at_its_deadline)
{
    struct fixture fixture = begin();
    stint_outcome outcome = run_for(fixture, stop_itself, 20 * MS);
    assert_ended(&outcome, STINT_ERROR, STINT_REASON_DEADLINE);
    assert_goes_on(fixture);
    end(fixture);
}

static int send_pid_and_stop(const void *input, size_t size, stint_reply *reply)
{
    int pid = getpid();
    (void)input;
    (void)size;
    if (write(stint_reply_fd(reply, 0), &pid, sizeof pid) != sizeof pid)
        return EIO;
    raise(SIGSTOP);
    return stint_reply_write(reply, "awake", 5);
}

TEST(a_child_that_was_stopped_goes_on)
{
    struct fixture fixture = begin();
    int ends[2];
    int pid;
    stint_future *future;
    assert_int_equal(pipe(ends), 0);
    stint_wall_call call = STINT_WALL_CALL_INIT;
    call.fn = send_pid_and_stop;
    call.fds = &ends[1];
    call.fd_count = 1;
    assert_int_equal(stint_submit_walled_call(fixture.pool, fixture.wall, &call, NULL, &future), 0);
    assert_int_equal(read(ends[0], &pid, sizeof pid), sizeof pid);
    usleep(50000);
    assert_false(stint_future_is_ready(future));
    kill(pid, SIGCONT);
    assert_replied(take_in_time(future), "awake");
    close(ends[0]);
    close(ends[1]);
    end(fixture);
}

/* --- Descriptors that cannot be passed on. --- */

TEST(a_descriptor_that_is_not_open_is_the_callers_error)
{
    struct fixture fixture = begin();
    const int closed = 1000;
    stint_future *future;
    stint_wall_call call = STINT_WALL_CALL_INIT;
    call.fn = echo;
    call.fds = &closed;
    call.fd_count = 1;
    assert_int_equal(stint_submit_walled_call(fixture.pool, fixture.wall, &call, NULL, &future), 0);
    stint_outcome outcome = take_in_time(future);
    assert_ended(&outcome, STINT_ERROR, STINT_REASON_FAILED);
    assert_int_equal(outcome.error, EBADF);
    assert_goes_on(fixture);
    end(fixture);
}

TESTS_NEED(lack_of_filters)

TEST_MAIN()
