/* SPDX-License-Identifier: MIT
 *
 * A block that libc allocates for its caller to free is the task's: a rollback frees it, and a commit keeps it. */
#include "handles.h"

static void *make_working_folder(void)
{
    return getcwd(NULL, 0);
}

static void *make_working_folder_of_a_size(void)
{
    return getcwd(NULL, 4096);
}

static int select_some(const struct dirent *entry)
{
    return entry->d_name[0] != 's';
}

static void *make_folder(void)
{
    struct dirent **list = NULL;
    return scandir("/", &list, select_some, alphasort) > 0 ? list : NULL;
}

static void *make_large_folder(void)
{
    struct dirent64 **list = NULL;
    return scandir64("/usr", &list, NULL, NULL) > 0 ? list : NULL;
}

static void *make_copy(void)
{
    return strndup("text", 3);
}

static void *make_path(void)
{
    return realpath("/proc/self", NULL);
}

static void *make_other_path(void)
{
    return canonicalize_file_name("/usr");
}

static void *make_line(void)
{
    static FILE *stream; /* made before the task: it has its buffer when it is read first */
    char *line = NULL;
    size_t size = 0;
    if (stream == NULL)
        stream = fopen("/proc/self/status", "r");
    if (stream == NULL)
        return NULL;
    rewind(stream);
    return getline(&line, &size, stream) > 0 && strncmp(line, "Name:", 5) == 0 ? line : NULL;
}

static void *make_memory(void)
{
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    if (stream == NULL)
        return NULL;
    fputs("text", stream);
    fclose(stream);
    return text;
}

static void *make_print(void)
{
    char *text = NULL;
    return asprintf(&text, "%d", 42) == 2 ? text : NULL;
}

static const struct maker {
    const char *name;
    open_fn *make;
} makers[] = {
    { "getcwd", make_working_folder },
    { "getcwd of a size", make_working_folder_of_a_size },
    { "scandir", make_folder },
    { "scandir64", make_large_folder },
    { "strndup", make_copy },
    { "realpath", make_path },
    { "canonicalize_file_name", make_other_path },
    { "getline", make_line },
    { "open_memstream", make_memory },
    { "asprintf", make_print },
};

struct work {
    open_fn *make;
    int error;
    void *made;
};

static int make(void *arg, void **value)
{
    struct work *work = arg;
    (void)value;
    work->made = work->make();
    return work->error;
}

TEST(a_rollback_takes_them_back)
{
    int bad = 0;
    (void)state;
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
        struct work work = { .make = makers[i].make, .error = EIO };
        const stint_options options = { .size = sizeof(stint_options), .on_interrupt = STINT_JUMP };
        run_task(make, &work, &options); /* libc's caches are full */
        start_to_count();
        stint_outcome outcome = run_task(make, &work, &options);
        long left = live;
        stint_memprof_stop();
        if (left != 0 || work.made == NULL)
            print_error("%s: %ld blocks left, %zu bytes kept\n", makers[i].name, left, (size_t)outcome.usage.kept);
        assert_non_null(work.made);
        assert_int_equal(outcome.status, STINT_ERROR);
        bad += left != 0;
    }
    assert_int_equal(bad, 0);
}

TEST(they_are_the_caller_s_after_a_commit)
{
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
        struct work work = { .make = makers[i].make, .error = 0 };
        const stint_options options = { .size = sizeof(stint_options), .on_interrupt = STINT_JUMP };
        assert_int_equal(run_task(make, &work, &options).status, STINT_OK);
        assert_non_null(work.made);
        void *outside = makers[i].make();
        assert_non_null(outside);
        assert_true(stint_malloc_usable_size(work.made) > 0);
        free(work.made);
        free(outside);
    }
}

/* If the task has no room for a copy, it gets libc's block, which is right too. */
static int make_without_room(void *arg, void **value)
{
    struct dirent **list;
    int count = scandir("/", &list, NULL, alphasort);
    *(bool *)arg = count < 0 || strcmp(list[0]->d_name, ".") == 0;
    (void)value;
    return 0;
}

TEST(what_finds_no_room_stays_whole)
{
    for (uint64_t limit = 100; limit < 60000; limit = limit * 5 / 4) {
        bool right = true;
        stint_options options = { .size = sizeof(stint_options), .on_interrupt = STINT_FAIL };
        options.budget.allocation = limit;
        options.grace = 1;
        run_task(make_without_room, &right, &options);
        assert_true(right);
    }
}

/* The interrupt comes right after the block was made, before the caller can free it. */
TEST(what_an_interrupt_leaves_is_taken_back_with_no_room_for_a_copy)
{
    int bad = 0;
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
        struct work work = { .make = makers[i].make, .error = EIO };
        run_task(make, &work, NULL); /* libc's caches are full */
        start_to_count();
        for (uint64_t limit = 16; limit < 6000; limit += limit / 8 + 16) {
            stint_options options = { .size = sizeof(stint_options), .on_interrupt = STINT_JUMP, .grace = 1 };
            options.budget.allocation = limit;
            run_task(make, &work, &options);
        }
        long left = live;
        stint_memprof_stop();
        if (left != 0)
            print_error("%s: %ld blocks left\n", makers[i].name, left);
        bad += left != 0;
    }
    assert_int_equal(bad, 0);
}

/* --- And what libc is handed, and keeps --- */

static int change_the_environment(void *arg, void **value)
{
    (void)arg;
    (void)value;
    return putenv(strdup("STINT_TEST_OF_TASK=hello")) == 0 ? EIO : errno;
}

static int fill_memory(void *arg, void **value)
{
    (void)arg;
    (void)value;
    for (size_t i = 0; i < 30000; i++)
        memset(keep(malloc(32)), 'Z', 32);
    return EIO;
}

TEST(the_environment_has_a_copy_of_a_task_s_string)
{
    assert_int_equal(run_task(change_the_environment, NULL, NULL).error, EIO);
    run_task(fill_memory, NULL, NULL);
    assert_string_equal(getenv("STINT_TEST_OF_TASK"), "hello");
    unsetenv("STINT_TEST_OF_TASK");
}

TEST_MAIN()
