/* SPDX-License-Identifier: MIT
 *
 * What the kernel lets a wall's child take of each resource; see limits.h.
 *
 * Address space. An allocator takes more of it than it gives out: of mimalloc's arenas, blocks of 33 MiB leave more
 * than half unused, and the last arena is a third of all. Up to 2.7 times a task's memory limit have been met, so a
 * child may add three times config->memory, and 256 MiB; and the area, which it maps.
 *
 * Descriptors. RLIMIT_NOFILE is no number of descriptors: it bounds the numbers that new ones may have. Descriptors
 * that are open already stay open, and occupy some of the numbers below it: the named ones, the wall's own, and what
 * the task is given. These are added, so that at least config->descriptors more can be opened.
 *
 * File sizes. RLIMIT_FSIZE holds for memfds too, for writes and for ftruncate: what is written into one is in no
 * address space, and would be memory without a bound. A mapping of the area is written without it. */
#include "limits.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "alloc/platform/libc.h"
#include "refuse.h"

#define MIB ((size_t)1 << 20)

/* Standard input, output and error, the channel, the area, and two control groups. */
#define OWN_DESCRIPTORS 7

/* The kernel's, as /proc/PID/oom_score_adj has it: before all that has not asked for the same. */
#define FIRST_TO_BE_KILLED "1000"

/* The template's, for its children. */
static struct rlimit descriptors, file_size;
static size_t threads_before; /* of the whole system */

static size_t limits_sum(size_t a, size_t b)
{
    size_t total;
    return __builtin_add_overflow(a, b, &total) ? SIZE_MAX : total;
}

static size_t area_size(const struct sti_wall_config *config)
{
    return limits_sum(limits_sum(config->input_limit, config->reply_limit), MIB);
}

size_t sti_limits_address_space(const struct sti_wall_config *config)
{
    size_t thrice = config->memory > SIZE_MAX / 3 ? SIZE_MAX : 3 * config->memory;
    return limits_sum(limits_sum(thrice, 256 * MIB), area_size(config));
}

size_t sti_limits_in_use(const struct sti_wall_config *config)
{
    return limits_sum(limits_sum(config->memory, config->memory / 8 + 16 * MIB), area_size(config));
}

static rlim_t descriptors_limit(const struct sti_wall_config *config)
{
    return (rlim_t)config->descriptors + config->fd_count + STINT_WALL_FDS_MAX + OWN_DESCRIPTORS;
}

/* --- Asking. --- */

static int check_one(int resource, rlim_t wanted, const char *option, char *message, size_t size)
{
    struct rlimit now;
    if (getrlimit((__rlimit_resource_t)resource, &now) != 0)
        return sti_refuse(errno, message, size, "The system's limit for options.%s cannot be read.", option);
    if (wanted <= now.rlim_max)
        return 0;
    return sti_refuse(ENOTSUP, message, size,
                      "This process may not have as much as options.%s asks for: the hard limit is %llu, and %llu are "
                      "needed (ulimit -H raises it, as root).",
                      option, (unsigned long long)now.rlim_max, (unsigned long long)wanted);
}

int sti_limits_check(const struct sti_wall_config *config, char *message, size_t size)
{
    int error = check_one(RLIMIT_STACK, config->stack, "stack", message, size);
    return error != 0 ? error : check_one(RLIMIT_NOFILE, descriptors_limit(config), "descriptors", message, size);
}

static int read_capabilities(struct __user_cap_header_struct *header, struct __user_cap_data_struct data[2])
{
    *header = (struct __user_cap_header_struct){ .version = _LINUX_CAPABILITY_VERSION_3 };
    return syscall(SYS_capget, header, data) == 0 ? 0 : errno;
}

bool sti_limits_bound_processes(void)
{
    struct __user_cap_header_struct header;
    struct __user_cap_data_struct data[2];
    return getuid() != 0 && read_capabilities(&header, data) == 0 && (data[0].effective & (1U << CAP_SYS_ADMIN)) == 0;
}

/* --- Entering. --- */

/* Soft and hard, but never more than it is. */
static int find_limit(__rlimit_resource_t resource, rlim_t most, struct rlimit *limit)
{
    if (getrlimit(resource, limit) != 0)
        return errno;
    limit->rlim_max = limit->rlim_max < most ? limit->rlim_max : most;
    limit->rlim_cur = limit->rlim_max;
    return 0;
}

static int set_limit(__rlimit_resource_t resource, const struct rlimit *limit)
{
    return setrlimit(resource, limit) == 0 ? 0 : errno;
}

static int limit_to(__rlimit_resource_t resource, rlim_t most)
{
    struct rlimit limit;
    int error = find_limit(resource, most, &limit);
    return error != 0 ? error : set_limit(resource, &limit);
}

static rlim_t as_limit(size_t bytes)
{
    return bytes == SIZE_MAX ? RLIM_INFINITY : bytes;
}

/* A file of a line, as a string. */
static int limits_read_line(const char *path, char *text, size_t size)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return errno;
    ssize_t length;
    do
        length = read(file, text, size - 1);
    while (length < 0 && errno == EINTR);
    int error = length < 0 ? errno : 0;
    close(file);
    text[length < 0 ? 0 : length] = '\0';
    return error;
}

static int count_address_space(size_t *bytes)
{
    char text[128];
    int error = limits_read_line("/proc/self/statm", text, sizeof text);
    *bytes = error == 0 ? strtoul(text, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE) : 0;
    return error != 0 ? error : *bytes == 0 ? ENOTSUP : 0;
}

/* The fourth number of a line such as "0.20 0.18 0.12 1/80 11206". */
static void count_threads(void)
{
    char text[128];
    const char *slash = limits_read_line("/proc/loadavg", text, sizeof text) == 0 ? strchr(text, '/') : NULL;
    threads_before = slash != NULL ? strtoul(slash + 1, NULL, 10) : 0;
}

/* A wish: a system that refuses it kills any process that it likes. */
static void be_first_to_be_killed(void)
{
    int file = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (file < 0)
        return;
    ssize_t written = write(file, FIRST_TO_BE_KILLED, sizeof FIRST_TO_BE_KILLED - 1);
    (void)written;
    close(file);
}

/* With it a process may raise its hard limits again. */
static int give_up_raising(void)
{
    struct __user_cap_header_struct header;
    struct __user_cap_data_struct data[2];
    int error = read_capabilities(&header, data);
    if (error != 0)
        return error;
    data[0].effective &= ~(1U << CAP_SYS_RESOURCE);
    data[0].permitted &= ~(1U << CAP_SYS_RESOURCE);
    data[0].inheritable &= ~(1U << CAP_SYS_RESOURCE);
    return syscall(SYS_capset, &header, data) == 0 ? 0 : errno;
}

static int limit_template(const struct sti_wall_config *config, size_t held)
{
    const struct {
        __rlimit_resource_t resource;
        rlim_t most;
    } limits[] = {
        { RLIMIT_AS, as_limit(limits_sum(held, sti_limits_address_space(config))) },
        { RLIMIT_STACK, as_limit(config->stack) },
        { RLIMIT_CORE, 0 },
        { RLIMIT_MEMLOCK, 0 },
        { RLIMIT_MSGQUEUE, 0 },
        { RLIMIT_RTPRIO, 0 },
    };
    int error = find_limit(RLIMIT_NOFILE, descriptors_limit(config), &descriptors);
    if (error == 0)
        error = find_limit(RLIMIT_FSIZE, as_limit(config->file_size), &file_size);
    for (size_t i = 0; i < sizeof limits / sizeof limits[0] && error == 0; i++)
        error = limit_to(limits[i].resource, limits[i].most);
    return error;
}

int sti_limits_enter_template(const struct sti_wall_config *config, char *message, size_t size)
{
    size_t held;
    int error = count_address_space(&held);
    if (error != 0)
        return sti_refuse(error, message, size,
                          "The wall cannot read how much address space its template has, in /proc/self/statm (%s).",
                          strerror(error));
    count_threads();
    be_first_to_be_killed();
    signal(SIGXFSZ, SIG_IGN); /* so that a write beyond the limit fails with EFBIG */
    error = limit_template(config, held);
    if (error == 0)
        error = give_up_raising();
    return error == 0 ? 0
                      : sti_refuse(error, message, size, "The kernel refuses the wall's limits of resources (%s).",
                                   strerror(error));
}

/* The kernel compares with all processes and threads that the user has, which it tells nobody. The kernel tells how
 * many there are in the whole system: at least as many, and up to 65,535 without reading a file. */
static rlim_t process_limit(const struct sti_wall_config *config)
{
    struct sysinfo system;
    size_t threads = sysinfo(&system) == 0 && system.procs > threads_before ? system.procs : threads_before;
    return threads + config->processes;
}

int sti_limits_enter_child(const struct sti_wall_config *config)
{
    int error = set_limit(RLIMIT_NOFILE, &descriptors);
    if (error == 0)
        error = set_limit(RLIMIT_FSIZE, &file_size);
    if (error == 0 && config->processes > 0)
        error = limit_to(RLIMIT_NPROC, process_limit(config));
    return error;
}
