/* SPDX-License-Identifier: MIT
 *
 * Control groups for a wall's children, where this machine lets them be made. */

#include <dirent.h>

#include "boxed.h"

/* Folders of this test's, in both hierarchies of version 1, or in version 2 where that has the controllers. */
static char named[128], other[128];
static bool unified;

static bool can_make(char *path, size_t size, const char *folder)
{
    snprintf(path, size, "%s/stint-test-%d", folder, (int)getpid());
    return mkdir(path, 0755) == 0;
}

static bool unified_has_controllers(void)
{
    char text[256] = "";
    int file = open("/sys/fs/cgroup/cgroup.subtree_control", O_RDONLY);
    bool has = file >= 0 && read(file, text, sizeof text - 1) > 0 && strstr(text, "memory") != NULL &&
               strstr(text, "pids") != NULL;
    if (file >= 0)
        close(file);
    return has;
}

static int make_folders(void **state)
{
    (void)state;
    named[0] = other[0] = '\0';
    unified = unified_has_controllers();
    if (unified ? !can_make(named, sizeof named, "/sys/fs/cgroup")
                : !can_make(named, sizeof named, "/sys/fs/cgroup/memory") ||
                      !can_make(other, sizeof other, "/sys/fs/cgroup/pids"))
        named[0] = '\0';
    return 0;
}

/* With what a test that has failed has left in it. */
static int remove_folder(const char *path)
{
    DIR *folder = opendir(path);
    if (folder == NULL)
        return -1;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
        if (strncmp(entry->d_name, "stint-", 6) == 0)
            unlinkat(dirfd(folder), entry->d_name, AT_REMOVEDIR);
    closedir(folder);
    return rmdir(path);
}

static int remove_folders(void **state)
{
    (void)state;
    int failed = named[0] != '\0' ? remove_folder(named) : 0;
    return other[0] != '\0' && remove_folder(other) != 0 ? -1 : failed;
}

#define TEST_WITH_FOLDERS(name) TEST_WITH(name, make_folders, remove_folders)
#define NEEDS_FOLDERS()                                                                                                \
    do {                                                                                                               \
        if (named[0] == '\0')                                                                                          \
            skip_because("no control group can be made here");                                                         \
    } while (0)

static struct sti_wall_config with_group(void)
{
    struct sti_wall_config config = closed();
    snprintf(config.cgroup, sizeof config.cgroup, "%s", named);
    return config;
}

static struct boxed in_group(const struct sti_wall_config *config, struct sti_wall_group *group, int (*function)(void))
{
    int fds[STI_WALL_GROUP_FDS];
    size_t count = sti_wall_group_fds(group, fds);
    assert_in_range(count, 1, STI_WALL_GROUP_FDS);
    return boxed_in(config, fds, count, NULL, function);
}

static struct sti_wall_group *make_group(const struct sti_wall_config *config)
{
    char message[STI_WALL_MESSAGE_SIZE] = "";
    assert_int_equal(sti_sandbox_check(config, message, sizeof message), 0);
    struct sti_wall_group *group = sti_wall_group_make(config);
    assert_non_null(group);
    return group;
}

static bool is_empty(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && status.st_nlink == 2;
}

static void end_group(struct sti_wall_group *group)
{
    sti_wall_group_end(group);
    assert_true(is_empty(named));
    assert_true(other[0] == '\0' || is_empty(other));
}

/* --- Processes. --- */

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
        if (count == 1000)
            return -2;
    }
    int error = errno;
    close(ends[1]);
    while (wait(NULL) > 0)
        ;
    return error == EAGAIN ? count : -error;
}

TEST_WITH_FOLDERS(a_fork_bomb_is_bounded_by_the_group)
{
    NEEDS_FOLDERS();
    struct sti_wall_config config = with_group();
    config.processes = 5;
    struct sti_wall_group *group = make_group(&config);
    struct boxed result = in_group(&config, group, count_forks);
    assert_int_equal(result.answer, 5);
    result = in_group(&config, group, count_forks); /* one child after the other */
    assert_int_equal(result.answer, 5);
    assert_false(sti_wall_group_ran_out(group));
    end_group(group);
}

static void *wait_for_ever(void *arg)
{
    pause();
    return arg;
}

static int count_threads(void)
{
    int count = 0, error;
    pthread_t thread;
    while ((error = pthread_create(&thread, NULL, wait_for_ever, NULL)) == 0)
        count++;
    return error == EAGAIN ? count : -error;
}

TEST_WITH_FOLDERS(a_thread_bomb_is_bounded_by_the_group)
{
    NEEDS_FOLDERS();
    struct sti_wall_config config = with_group();
    config.processes = 5;
    struct sti_wall_group *group = make_group(&config);
    struct boxed result = in_group(&config, group, count_threads);
    assert_int_equal(result.answer, 5);
    end_group(group);
}

TEST_WITH_FOLDERS(either_hierarchy_names_both)
{
    NEEDS_FOLDERS();
    if (unified)
        skip_because("the system has one hierarchy of control groups");
    struct sti_wall_config config = with_group();
    snprintf(config.cgroup, sizeof config.cgroup, "%s", other);
    struct sti_wall_group *group = make_group(&config);
    int fds[STI_WALL_GROUP_FDS];
    assert_int_equal(sti_wall_group_fds(group, fds), 2);
    end_group(group);
}

TEST(a_short_link_to_a_folder_with_a_long_path_is_refused)
{
    char part[201], folder[PATH_MAX] = "/tmp/stint-group-XXXXXX";
    struct sti_wall_config config = with_group();
    memset(part, 'x', 200);
    part[200] = '\0';
    assert_non_null(mkdtemp(folder));
    size_t length = strlen(folder);
    assert_true(length + sizeof ".link" <= sizeof config.cgroup);
    strcat(strcpy(config.cgroup, folder), ".link");
    while (length < 3000) {
        length += (size_t)snprintf(folder + length, sizeof folder - length, "/%s", part);
        assert_int_equal(mkdir(folder, 0700), 0);
    }
    assert_int_equal(symlink(folder, config.cgroup), 0);
    assert_null(sti_wall_group_make(&config));
    assert_int_equal(errno, ENAMETOOLONG);
    assert_int_equal(unlink(config.cgroup), 0);
    while (strrchr(folder, '/') != folder + 4) {
        assert_int_equal(rmdir(folder), 0);
        *strrchr(folder, '/') = '\0';
    }
    assert_int_equal(rmdir(folder), 0);
}

TEST_WITH_FOLDERS(a_hierarchy_without_the_folder_is_not_used)
{
    NEEDS_FOLDERS();
    if (unified)
        skip_because("the system has one hierarchy of control groups");
    assert_int_equal(rmdir(other), 0);
    struct sti_wall_config config = with_group();
    struct sti_wall_group *group = make_group(&config);
    int fds[STI_WALL_GROUP_FDS];
    assert_int_equal(sti_wall_group_fds(group, fds), 1);
    sti_wall_group_end(group);
    assert_true(is_empty(named));
    config.processes = 5; /* which memory's cannot bound */
    char message[STI_WALL_MESSAGE_SIZE];
    assert_int_equal(sti_sandbox_check(&config, message, sizeof message), ENOTSUP);
    assert_non_null(strstr(message, "processes"));
    assert_int_equal(mkdir(other, 0755), 0);
}

/* --- Memory. --- */

/* Not in its address space: it would be told there. */
static int fill_memory(void)
{
    static char block[MIB];
    memset(block, 1, sizeof block);
    int file = memfd_create("boxed", 0);
    for (unsigned i = 0; i < 1024; i++)
        if (write(file, block, sizeof block) != (ssize_t)sizeof block)
            return errno;
    return 0;
}

static int do_little(void)
{
    return 0;
}

TEST_WITH_FOLDERS(who_takes_more_memory_than_the_group_has_is_killed_and_that_is_known)
{
    NEEDS_FOLDERS();
    struct sti_wall_config config = with_group();
    config.file_size = SIZE_MAX;
    struct sti_wall_group *group = make_group(&config);
    struct boxed result = in_group(&config, group, fill_memory);
    assert_true(WIFSIGNALED(result.status));
    assert_int_equal(WTERMSIG(result.status), SIGKILL);
    assert_int_equal(result.answer, NOTHING);
    assert_true(sti_wall_group_ran_out(group));
    assert_false(sti_wall_group_ran_out(group));
    result = in_group(&config, group, do_little);
    assert_int_equal(result.answer, 0);
    assert_false(sti_wall_group_ran_out(group));
    end_group(group);
}

static int fill_less(void)
{
    volatile char *block = mmap(NULL, 60 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED)
        return errno;
    for (size_t i = 0; i < 60 * MIB; i += 4096)
        block[i] = 1;
    return 0;
}

TEST_WITH_FOLDERS(what_the_options_give_can_be_taken)
{
    NEEDS_FOLDERS();
    struct sti_wall_config config = with_group();
    struct sti_wall_group *group = make_group(&config);
    struct boxed result = in_group(&config, group, fill_less);
    assert_int_equal(result.status, 0);
    assert_int_equal(result.answer, 0);
    assert_false(sti_wall_group_ran_out(group));
    end_group(group);
}

/* --- Ending. --- */

TEST_WITH_FOLDERS(an_end_kills_what_is_left_in_the_group)
{
    NEEDS_FOLDERS();
    struct sti_wall_config config = with_group();
    config.processes = 5;
    struct sti_wall_group *group = make_group(&config);
    int fds[STI_WALL_GROUP_FDS], ends[2], status;
    size_t count = sti_wall_group_fds(group, fds);
    assert_int_equal(pipe(ends), 0);
    pid_t left = fork();
    if (left == 0) {
        for (size_t i = 0; i < count; i++)
            if (write(fds[i], "0", 1) != 1)
                _exit(1);
        if (write(ends[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    char byte;
    assert_int_equal(read(ends[0], &byte, 1), 1);
    close(ends[0]);
    close(ends[1]);
    end_group(group);
    assert_int_equal(waitpid(left, &status, 0), left);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
}

TEST(no_group_is_made_where_none_can_be)
{
    struct sti_wall_config config = closed();
    snprintf(config.cgroup, sizeof config.cgroup, "/nonexistent/folder");
    assert_null(sti_wall_group_make(&config));
    assert_int_equal(errno, ENOENT);
    snprintf(config.cgroup, sizeof config.cgroup, "/tmp");
    assert_null(sti_wall_group_make(&config));
    assert_int_equal(errno, ENOTSUP);
    sti_wall_group_end(NULL);
}

TESTS_NEED(lack_of_filters)

TEST_MAIN()
