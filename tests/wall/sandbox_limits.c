/* SPDX-License-Identifier: MIT
 *
 * The limits of a wall's child: it gets errors and lives on, and the meter's limits come before the kernel's. */
#include <alloc/platform/libc.h>
#include <executor/wall/limits.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "boxed.h"

/* --- Descriptors. --- */

static int flood_descriptors(void)
{
    int count = 0;
    while (dup(0) >= 0)
        count++;
    return errno == EMFILE ? count : -errno;
}

TEST(a_flood_of_descriptors_ends)
{
    struct sti_wall_config config = closed();
    config.descriptors = 10;
    struct boxed result = boxed(&config, flood_descriptors);
    assert_true(result.answer >= 10);
    assert_true(result.answer <= 10 + STINT_WALL_FDS_MAX + 7);
}

#define HIGH 700
#define LOW 10
#define LOW_COUNT 40

static int open_named(void)
{
    for (int fd = LOW; fd < LOW + LOW_COUNT; fd++)
        if (dup2(0, fd) != fd)
            return -1;
    return dup2(0, HIGH) == HIGH ? 0 : -1;
}

static int use_named(void)
{
    return fcntl(HIGH, F_GETFD) >= 0 ? flood_descriptors() : -1;
}

TEST(named_descriptors_take_none_away)
{
    struct sti_wall_config config = closed();
    config.descriptors = 20;
    config.fd_count = LOW_COUNT + 1;
    for (int i = 0; i < LOW_COUNT; i++)
        config.fds[i] = LOW + i;
    config.fds[LOW_COUNT] = HIGH;
    struct boxed result = boxed_in(&config, NO_GROUPS, open_named, use_named);
    assert_true(result.answer >= 20);
    assert_true(result.answer <= 21 + STINT_WALL_FDS_MAX + 7);
}

/* --- Memory. --- */

static int map_everything(void)
{
    int count = 0;
    while (mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) !=
           MAP_FAILED)
        count++;
    return errno == ENOMEM ? count * 4 : -errno;
}

TEST(mapping_everything_ends_and_the_process_lives)
{
    struct sti_wall_config config = closed();
    struct boxed result = boxed(&config, map_everything);
    assert_int_equal(result.status, 0);
    assert_in_range(result.answer, 64, sti_limits_address_space(&config) / MIB);
}

struct eater {
    size_t block;
    size_t memory;
};

static struct eater eater;

static int eat(void *arg, void **value)
{
    const struct eater *meal = arg;
    for (;;) {
        char **block = stint_malloc(meal->block);
        if (block == NULL)
            return ENOMEM;
        *block = *value;
        *value = (void *)block;
    }
}

/* Allocates as a child's task does. Returns the reason, or a negative error. */
static int eat_in_task(void)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.memory = eater.memory;
    stint_outcome outcome;
    int error = stint_run(eat, &eater, &options, &outcome);
    return error != 0 ? -error : (int)outcome.reason;
}

static int warm_up(void)
{
    stint_outcome outcome;
    return stint_run(do_nothing, NULL, NULL, &outcome);
}

TEST(the_meter_stops_a_task_before_the_kernel_does)
{
    static const struct eater eaters[] = {
        { 16, 16 * MIB },          { 24, 100 * MIB },        { 5000, 250 * MIB },      { 200000, 500 * MIB },
        { 3 * MIB, 4000 * MIB },   { 9 * MIB, 1000 * MIB },  { 17 * MIB, 1000 * MIB }, { 17 * MIB, 4000 * MIB },
        { 33 * MIB, 1000 * MIB },  { 33 * MIB, 4000 * MIB }, { 40 * MIB, 4000 * MIB }, { 65 * MIB, 4000 * MIB },
        { 129 * MIB, 4000 * MIB },
    };
    for (size_t i = 0; i < sizeof eaters / sizeof eaters[0]; i++) {
        eater = eaters[i];
        struct sti_wall_config config = closed();
        config.memory = eater.memory;
        struct boxed result = boxed_in(&config, NO_GROUPS, warm_up, eat_in_task);
        assert_int_equal(result.status, 0);
        assert_string_equal(stint_reason_name((stint_reason)result.answer), "memory-limit");
    }
}

static int use_stack(void)
{
    volatile char here[4 * MIB];
    for (size_t i = sizeof here; i > 0; i -= 4096)
        here[i - 1] = 1;
    return 0;
}

TEST(the_stack_is_as_large_as_is_said)
{
    struct sti_wall_config config = closed();
    config.stack = 5 * MIB;
    assert_passes(&config, use_stack);
    config.stack = MIB;
    struct boxed result = boxed(&config, use_stack);
    assert_true(WIFSIGNALED(result.status));
    assert_int_equal(WTERMSIG(result.status), SIGSEGV);
    assert_false(WCOREDUMP(result.status));
}

/* --- Files. --- */

static int write_to_memory_file(void)
{
    int file = memfd_create("boxed", 0);
    CHECK(file >= 0);
    REFUSED(EFBIG, write(file, "x", 1));
    REFUSED(EFBIG, ftruncate(file, 1));
    return 0;
}

static int write_a_page(void)
{
    char page[8192] = "";
    int file = memfd_create("boxed", 0);
    CHECK(write(file, page, sizeof page) == 4096);
    REFUSED(EFBIG, write(file, page, 1));
    int ends[2];
    CHECK(pipe(ends) == 0 && write(ends[1], page, sizeof page) == sizeof page);
    return 0;
}

TEST(a_write_beyond_the_size_fails_and_the_process_lives)
{
    struct sti_wall_config config = closed();
    assert_passes(&config, write_to_memory_file);
    config.file_size = 4096;
    assert_passes(&config, write_a_page);
    config = open_config();
    assert_passes(&config, write_to_memory_file);
}

/* --- For good. --- */

static int raise_limits(void)
{
    static const int resources[] = { RLIMIT_AS,      RLIMIT_NOFILE, RLIMIT_FSIZE,    RLIMIT_CORE,
                                     RLIMIT_MEMLOCK, RLIMIT_RTPRIO, RLIMIT_MSGQUEUE, RLIMIT_STACK };
    for (size_t i = 0; i < sizeof resources / sizeof resources[0]; i++) {
        struct rlimit limit;
        CHECK(getrlimit((__rlimit_resource_t)resources[i], &limit) == 0);
        CHECK(limit.rlim_max != RLIM_INFINITY && limit.rlim_cur == limit.rlim_max);
        limit.rlim_max++;
        REFUSED(EPERM, setrlimit((__rlimit_resource_t)resources[i], &limit));
    }
    return 0;
}

TEST(limits_are_not_raised_again_by_root_neither)
{
    struct sti_wall_config config = closed();
    assert_passes(&config, raise_limits);
    config = open_config();
    assert_passes(&config, raise_limits);
}

static int read_oom(void)
{
    char text[16] = "";
    int file = open("/proc/self/oom_score_adj", O_RDONLY);
    CHECK(file >= 0 && read(file, text, sizeof text - 1) > 0);
    CHECK(atoi(text) == 1000);
    return 0;
}

static int lower_limits(void)
{
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur > 3);
    limit.rlim_cur = 3;
    REFUSED(EPERM, setrlimit(RLIMIT_NOFILE, &limit));
    return 0;
}

TEST(a_closed_child_lowers_no_limit_for_the_next_task)
{
    struct sti_wall_config config = closed();
    assert_passes(&config, lower_limits);
}

/* A resource that may be raised can be taken again. */
static int take_privilege_back(void)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct data[2];
    CHECK(syscall(SYS_capget, &header, data) == 0);
    data[0].effective |= 1U << CAP_SYS_RESOURCE;
    REFUSED(EPERM, syscall(SYS_capset, &header, data));
    return 0;
}

TEST(the_privilege_to_raise_limits_is_gone)
{
    struct sti_wall_config config = open_config();
    assert_passes(&config, take_privilege_back);
}

TEST(children_go_first_when_memory_is_short)
{
    struct sti_wall_config config = open_config();
    assert_passes(&config, read_oom);
}

/* --- Processes of somebody who is not root. --- */

static int become_nobody(void)
{
    if (prctl(PR_SET_KEEPCAPS, 0) != 0)
        return -1;
    return setgid(65534) == 0 && setuid(65534) == 0 ? 0 : -1;
}

/* All of them at once; each waits for an end of the pipe. */
static int count_forks(void)
{
    int ends[2], count = 0;
    char byte;
    if (pipe(ends) != 0)
        return -1;
    for (;; count++) {
        pid_t child = fork();
        if (child == 0) {
            close(ends[1]);
            _exit(read(ends[0], &byte, 1) < 0);
        }
        if (child < 0)
            break;
        if (count == 100000)
            return -2;
    }
    int error = errno;
    close(ends[1]);
    while (wait(NULL) > 0)
        ;
    return error == EAGAIN ? count : -error;
}

static void bound_forks_of_nobody(struct sti_wall_config config)
{
    config.processes = 5;
    struct boxed result = boxed_in(&config, NO_GROUPS, become_nobody, count_forks);
    assert_string_equal(result.message, "");
    assert_true(result.answer >= 5);
    assert_true(result.answer < 100000);
}

TEST(processes_are_bounded_without_a_group)
{
    if (getuid() != 0)
        skip_because("only root may take another user's name");
    bound_forks_of_nobody(closed());
    bound_forks_of_nobody(open_config());
}

static int work_with_processes(void)
{
    int status;
    pid_t child = fork();
    if (child == 0)
        abort();
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    CHECK(kill(child, SIGKILL) == 0);
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    REFUSED(EPERM, kill(getppid(), 0));
    REFUSED(EPERM, kill(1, 0));
    REFUSED(EPERM, syscall(SYS_clone, SIGCHLD | CLONE_NEWUSER, NULL, NULL, NULL, NULL));
    REFUSED(EPERM, syscall(SYS_clone, SIGCHLD | CLONE_PARENT, NULL, NULL, NULL, NULL));
    REFUSED(EPERM, setsid());
    return 0;
}

static int landlock_version(void)
{
    return (int)syscall(444, NULL, 0, 1);
}

TEST(a_child_with_processes_signals_them_alone)
{
    if (landlock_version() < 6)
        skip_because("the kernel's Landlock is older than its version 6");
    struct sti_wall_config config = closed();
    config.processes = 5;
    assert_passes(&config, work_with_processes);
}

/* --- Asking beforehand. --- */

static void assert_unsupported(const struct sti_wall_config *config, const char *word)
{
    char message[STI_WALL_MESSAGE_SIZE] = "";
    assert_int_equal(sti_sandbox_check(config, message, sizeof message), ENOTSUP);
    if (strstr(message, word) == NULL)
        fail_msg("\"%s\" does not name %s", message, word);
    size_t length = strlen(message);
    assert_true(length < sizeof message - 1 && message[length - 1] == '.');
    assert_int_equal(sti_sandbox_check(config, NULL, 0), ENOTSUP);
}

TEST(what_can_be_done_is_not_refused)
{
    char message[STI_WALL_MESSAGE_SIZE] = "";
    struct sti_wall_config config = closed();
    name_path(&config, "/tmp", true);
    assert_int_equal(sti_sandbox_check(&config, message, sizeof message), 0);
    assert_string_equal(message, "");
}

TEST(what_cannot_be_done_is_said)
{
    struct sti_wall_config config = closed();
    if (getuid() == 0) {
        config.processes = 1;
        assert_unsupported(&config, "options.cgroup");
        config.processes = 0;
    }
    snprintf(config.cgroup, sizeof config.cgroup, "/tmp");
    assert_unsupported(&config, "/tmp");
    config.cgroup[0] = '\0';
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    config.descriptors = (unsigned)limit.rlim_max;
    assert_unsupported(&config, "options.descriptors");
}

TESTS_NEED(lack_of_filters)

TEST_MAIN()
