/* SPDX-License-Identifier: MIT
 *
 * Making a wall: what is refused, with which message, and what has been done by then. */
#include "../walls.h"

#include <dlfcn.h>

static char message[512];

static int create(stint_wall_options options)
{
    stint_wall *wall = NULL;
    options.size = sizeof options;
    options.message = message;
    options.message_size = sizeof message;
    memset(message, 0, sizeof message);
    int error = stint_wall_create(&options, &wall);
    if (error == 0)
        assert_int_equal(stint_wall_destroy(wall), 0);
    return error;
}

/* The option is named in the sentence. */
static void assert_refused(stint_wall_options options, int error, const char *word)
{
    assert_int_equal(create(options), error);
    if (strstr(message, word) == NULL)
        print_error("\"%s\" does not name \"%s\"\n", message, word);
    assert_non_null(strstr(message, word));
    assert_int_equal(count_processes(), 0);
}

TEST(options_out_of_range_are_named)
{
    static const stint_wall_path nowhere = { .path = "" };
    static const int closed = 1000000;
    assert_refused((stint_wall_options){ .sandbox = (stint_wall_sandbox)7 }, EINVAL, "sandbox");
    assert_refused((stint_wall_options){ .children = 5000 }, EINVAL, "children");
    assert_refused((stint_wall_options){ .spare = 5000 }, EINVAL, "spare");
    assert_refused((stint_wall_options){ .input_limit = (size_t)5 << 30 }, EINVAL, "input_limit");
    assert_refused((stint_wall_options){ .paths = &nowhere, .path_count = 1 }, EINVAL, "paths[0]");
    assert_refused((stint_wall_options){ .path_count = 1 }, EINVAL, "paths: NULL");
    assert_refused((stint_wall_options){ .fds = &closed, .fd_count = 1 }, EINVAL, "1000000");
    assert_refused((stint_wall_options){ .fd_count = 1 }, EINVAL, "fds: NULL");
    assert_refused((stint_wall_options){ .flags = 1U << 20 }, EINVAL, "flags");
    assert_refused((stint_wall_options){ .processes = 2, .tasks_per_child = 5 }, EINVAL, "tasks_per_child");
}

TEST(options_without_a_size_are_refused)
{
    stint_wall *wall = (stint_wall *)message;
    stint_wall_options zeroed = { .children = 1 };
    assert_int_equal(stint_wall_create(&zeroed, &wall), EINVAL);
    assert_int_equal(stint_wall_create(NULL, NULL), EINVAL);
}

static int fail_setup(void *arg)
{
    (void)arg;
    return ENOLINK;
}

static int crash_setup(void *arg)
{
    volatile int *volatile nowhere = arg;
    *nowhere = 1;
    return 0;
}

__attribute__((noreturn)) static int exit_setup(void *arg)
{
    (void)arg;
    exit(3);
}

TEST(a_setup_that_fails_or_ends_is_told)
{
    assert_refused((stint_wall_options){ .setup = fail_setup }, ENOLINK, "setup");
    assert_refused((stint_wall_options){ .setup = crash_setup }, ECHILD, "signal 11");
    assert_refused((stint_wall_options){ .setup = exit_setup }, ECHILD, "status 3");
}

TEST(a_program_that_is_not_there_is_told)
{
    assert_refused((stint_wall_options){ .program = "/nowhere/at/all" }, ENOENT, "/nowhere/at/all");
    assert_refused((stint_wall_options){ .program = "/bin/true" }, ECHILD, "before it was ready");
}

static int create_inside(void *error, void **value)
{
    (void)value;
    *(int *)error = create((stint_wall_options){ .children = 1 });
    return 0;
}

TEST(a_task_makes_no_wall)
{
    int error = 0;
    stint_outcome outcome;
    assert_int_equal(stint_run(create_inside, &error, NULL, &outcome), 0);
    assert_int_equal(error, EDEADLK);
}

/* --- Without libgcc. --- */

static bool hides_libgcc;

/* In front of libc's. */
void *dlopen(const char *name, int mode)
{
    static void *(*real)(const char *name, int mode);
    if (hides_libgcc && name != NULL && strcmp(name, "libgcc_s.so.1") == 0)
        return NULL;
    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "dlopen");
    return real(name, mode);
}

TEST(a_wall_is_made_where_nothing_can_be_unwound)
{
    hides_libgcc = true;
    int error = create((stint_wall_options){ .children = 1 });
    hides_libgcc = false;
    if (error != 0)
        print_error("%s\n", message);
    assert_int_equal(error, 0);
}

TEST(a_wall_that_nobody_used_is_ended)
{
    size_t before = count_descriptors();
    for (int i = 0; i < 10; i++)
        assert_int_equal(create((stint_wall_options){ .spare = 3 }), 0);
    assert_int_equal(count_descriptors(), before);
    assert_int_equal(count_processes(), 0);
    assert_int_equal(stint_wall_destroy(NULL), 0);
}

TESTS_NEED(lack_of_filters)

TEST_MAIN()
