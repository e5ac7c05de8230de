/* SPDX-License-Identifier: MIT
 *
 * The control group of the process: its directory, its files and its memory limit, in made-up systems whose root is a
 * folder of this test's, and in the one that the test runs in. */
#include <alloc/platform/system.h>

#include "made_up_system.h"

static void assert_directory(const struct sti_cgroup *group, const char *path)
{
    char whole[8192];
    snprintf(whole, sizeof whole, "%s%s", root, path);
    assert_string_equal(group->directory, whole);
}

TEST_IN_ROOT(a_group_of_version_2_is_found_and_read)
{
    put("/proc/self/cgroup", "0::/system.slice/web.service\n");
    put(VERSION_2, "");
    put("/sys/fs/cgroup/system.slice/web.service/cpu.max", "150000 100000\n");
    struct sti_cgroup group;
    char text[32];
    assert_true(sti_cgroup_find(&group, root));
    assert_directory(&group, "/sys/fs/cgroup/system.slice/web.service");
    assert_true(sti_cgroup_read(&group, "cpu.max", text, sizeof text));
    assert_string_equal(text, "150000 100000\n");
    assert_true(sti_cgroup_read(&group, "cpu.max", text, 4));
    assert_string_equal(text, "150");
    assert_false(sti_cgroup_read(&group, "cpu.idle", text, sizeof text));
}

TEST_IN_ROOT(the_groups_above_can_be_looked_at_up_to_the_mount)
{
    put("/proc/self/cgroup", "0::/a/b\n");
    put(VERSION_2, "");
    put("/sys/fs/cgroup/a/b/memory.max", "max\n");
    struct sti_cgroup group;
    assert_true(sti_cgroup_find(&group, root));
    assert_directory(&group, "/sys/fs/cgroup/a/b");
    assert_true(sti_cgroup_ascend(&group));
    assert_directory(&group, "/sys/fs/cgroup/a");
    assert_true(sti_cgroup_ascend(&group));
    assert_directory(&group, "/sys/fs/cgroup");
    assert_false(sti_cgroup_ascend(&group));
    assert_directory(&group, "/sys/fs/cgroup");
}

TEST_IN_ROOT(the_least_limit_of_the_group_and_of_those_above_holds)
{
    put("/proc/self/cgroup", "0::/a/b\n");
    put(VERSION_2, "");
    put("/sys/fs/cgroup/a/b/memory.max", "max\n");
    put("/sys/fs/cgroup/a/b/memory.high", "max\n");
    assert_int_equal(sti_cgroup_memory_limit(root), 0);
    put("/sys/fs/cgroup/a/b/memory.max", "1073741824\n");
    assert_int_equal(sti_cgroup_memory_limit(root), GIB - GIB / 16);
    put("/sys/fs/cgroup/a/b/memory.high", "536870912\n");
    assert_int_equal(sti_cgroup_memory_limit(root), GIB / 2);
    put("/sys/fs/cgroup/a/memory.max", "268435456\n");
    assert_int_equal(sti_cgroup_memory_limit(root), GIB / 4 - GIB / 64);
    put("/sys/fs/cgroup/a/memory.high", "1048576\n");
    assert_int_equal(sti_cgroup_memory_limit(root), MIB);
    put("/sys/fs/cgroup/a/memory.high", "0\n");
    assert_int_equal(sti_cgroup_memory_limit(root), 1);
}

TEST_IN_ROOT(beside_a_hierarchy_of_version_1_there_is_none)
{
    put("/proc/self/cgroup", "4:cpu,memory:/user.slice\n0::/unified\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "16777216\n");
    put("/sys/fs/cgroup/unified/unified/memory.max", "16777216\n");
    struct sti_cgroup group;
    assert_false(sti_cgroup_find(&group, root));
    assert_int_equal(sti_cgroup_memory_limit(root), 0);
}

TEST_IN_ROOT(a_container_that_sees_its_own_group_alone)
{
    /* Paths from outside, the group itself mounted; and paths that lead out of it. */
    put("/proc/self/cgroup", "0::/docker/0123\n");
    put(VERSION_2, "");
    put("/sys/fs/cgroup/memory.max", "16777216\n");
    struct sti_cgroup group;
    assert_true(sti_cgroup_find(&group, root));
    assert_directory(&group, "/sys/fs/cgroup");
    assert_false(sti_cgroup_ascend(&group));
    assert_int_equal(sti_cgroup_memory_limit(root), 15 * MIB);
    put("/proc/self/cgroup", "0::/../elsewhere\n");
    put(VERSION_2, "");
    put("/sys/fs/elsewhere/memory.max", "1\n");
    assert_true(sti_cgroup_find(&group, root));
    assert_directory(&group, "/sys/fs/cgroup");
}

TEST_IN_ROOT(lines_that_are_broken_are_passed_over)
{
    put("/proc/self/cgroup", "\nnonsense\n0:\n0::/a\n");
    put(VERSION_2, "");
    put("/sys/fs/cgroup/a/memory.max", "max\n");
    struct sti_cgroup group;
    assert_true(sti_cgroup_find(&group, root));
    assert_directory(&group, "/sys/fs/cgroup/a");
}

TEST_IN_ROOT(no_group_is_no_limit)
{
    struct sti_cgroup group;
    assert_false(sti_cgroup_find(&group, root));
    put("/proc/self/cgroup", "0::/a\n");
    assert_false(sti_cgroup_find(&group, root));
    put("/proc/self/cgroup", "4:memory:/a\n");
    assert_false(sti_cgroup_find(&group, root));
    errno = 0;
    assert_int_equal(sti_cgroup_memory_limit(root), 0);
    assert_int_equal(errno, 0);
}

TEST(the_limit_on_the_process_can_be_the_group_s)
{
    struct sti_cgroup group;
    bool is_there = sti_cgroup_find(&group, "");
    assert_int_equal(stint_global_set_memory_limit(GIB), 0);
    assert_int_equal(stint_global_memory_limit(), GIB);
    assert_int_equal(stint_global_set_memory_limit(STINT_MEMORY_LIMIT_OF_CGROUP), is_there ? 0 : ENOTSUP);
    assert_int_equal(stint_global_memory_limit(), is_there ? sti_cgroup_memory_limit("") : GIB);
    assert_int_equal(stint_global_set_memory_limit(0), 0);
    assert_int_equal(stint_global_memory_limit(), 0);
}

TEST_MAIN()
