/* SPDX-License-Identifier: MIT
 *
 * The sandbox of a wall's processes, put together; see sandbox.h, which says which process calls what. */
#include "sandbox.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "child_calls.h"
#include "group.h"
#include "limits.h"
#include "paths.h"
#include "refuse.h"
#include "system_calls.h"

static bool is_closed(const struct sti_wall_config *config)
{
    return config->sandbox == STINT_WALL_CLOSED;
}

static int check_system_calls(const struct sti_wall_config *config, char *message, size_t size)
{
    if (!sti_system_calls_are_listed() && is_closed(config))
        return sti_refuse(ENOTSUP, message, size,
                          "This library was built without libseccomp, which STINT_WALL_CLOSED needs: build it where "
                          "libseccomp-dev is installed, or set options.sandbox to STINT_WALL_OPEN.");
    if (!sti_system_calls_are_listed() && config->filter != NULL)
        return sti_refuse(ENOTSUP, message, size,
                          "This library was built without libseccomp, which options.filter needs: build it where "
                          "libseccomp-dev is installed.");
    int error = sti_system_calls_check();
    if (error == 0)
        return 0;
    return sti_refuse(ENOTSUP, message, size,
                      "The kernel takes no filter of system calls from this process (seccomp: %s): it has to be built "
                      "with CONFIG_SECCOMP_FILTER, and a container's own filter has to allow seccomp(2).",
                      strerror(error));
}

static int check_paths(const struct sti_wall_config *config, char *message, size_t size)
{
    if (!is_closed(config) || config->path_count == 0 || sti_paths_version() > 0)
        return 0;
    return sti_refuse(ENOTSUP, message, size,
                      "The kernel has no Landlock, which options.paths needs: it has to be Linux 5.13 or later, with "
                      "landlock among the names in /sys/kernel/security/lsm. Without paths the wall needs none.");
}

static int check_group(const struct sti_wall_config *config, char *message, size_t size)
{
    if (config->cgroup[0] == '\0')
        return 0;
    struct sti_wall_group *group = sti_wall_group_make(config);
    if (group != NULL) {
        sti_wall_group_end(group);
        return 0;
    }
    int error = errno;
    return error == ENOTSUP
               ? sti_refuse(error, message, size,
                            "options.cgroup, %s, is no folder of control groups that can limit %s: name one of version "
                            "2 whose memory and pids controllers are given to groups below it, or one of version 1's "
                            "memory or pids hierarchy.",
                            config->cgroup, config->processes > 0 ? "processes" : "memory or processes")
               : sti_refuse(error, message, size, "No control group can be made in options.cgroup, %s: %s.",
                            config->cgroup, strerror(error));
}

static int check_processes(const struct sti_wall_config *config, char *message, size_t size)
{
    if (config->processes == 0 || config->cgroup[0] != '\0' || sti_limits_bound_processes())
        return 0;
    return sti_refuse(ENOTSUP, message, size,
                      "Nothing bounds how many processes root starts (options.processes) but a control group: name a "
                      "folder for them as options.cgroup, or run the program as another user.");
}

int sti_sandbox_check(const struct sti_wall_config *config, char *message, size_t size)
{
    int error = check_system_calls(config, message, size);
    if (error == 0)
        error = check_paths(config, message, size);
    if (error == 0)
        error = sti_limits_check(config, message, size);
    if (error == 0)
        error = check_processes(config, message, size);
    return error != 0 ? error : check_group(config, message, size);
}

int sti_sandbox_close(const struct sti_wall_config *config, char *message, size_t size)
{
    int error = sti_system_calls_prepare(config, message, size);
    if (error == 0)
        error = sti_limits_enter_template(config, message, size);
    if (error == 0)
        error = sti_system_calls_give_up_privileges(message, size);
    if (error == 0 && is_closed(config))
        error = sti_paths_enter_template(config, message, size);
    return error != 0 ? error : sti_system_calls_enter_template(config, message, size);
}

static int sandbox_join_groups(const int *groups, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (write(groups[i], "0", 1) < 0)
            return errno;
    return 0;
}

int sti_sandbox_enter_child(const struct sti_wall_config *config, const int *groups, size_t count)
{
    int error = sandbox_join_groups(groups, count);
    bool starts_others = config->processes > 0 && is_closed(config);
    bool signals_are_kept = error == 0 && starts_others && sti_paths_enter_child() == 0;
    if (error == 0)
        error = sti_limits_enter_child(config);
    return error != 0 ? error : sti_child_calls_refuse(config, signals_are_kept);
}
