/* SPDX-License-Identifier: MIT
 *
 * What libc allocates for its caller to free is the task's: it goes with a rollback, and stays with a commit. */
#include "handles.h"

#include <argz.h>
#include <envz.h>
#include <execinfo.h>
#include <obstack.h>
#include <spawn.h>

#define obstack_chunk_alloc malloc
#define obstack_chunk_free free

static void *make_working_folder(void)
{
    return getcwd(NULL, 0);
}

static void *make_working_folder_of_a_size(void)
{
    return getcwd(NULL, 4096);
}

static void *make_working_folder_s_name(void)
{
    return get_current_dir_name();
}

static void *make_temporary_name(void)
{
    return tempnam("/tmp", "stint");
}

static void *make_wide_copy(void)
{
    return wcsdup(L"text");
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
    return scandirat64(AT_FDCWD, "/usr", &list, NULL, NULL) > 0 ? list : NULL;
}

static int compare(const void *left, const void *right)
{
    keep(opendir("/")); /* libc's own, meanwhile */
    return strcmp(left, right);
}

static void *make_tree(void)
{
    void *root = NULL;
    tsearch("one", &root, compare);
    tsearch("two", &root, compare);
    tsearch("three", &root, compare);
    return root;
}

static void *make_argument_vector(void)
{
    char *argz = NULL;
    size_t length = 0;
    if (argz_create_sep("one:two:three", ':', &argz, &length) != 0 || argz_add(&argz, &length, "four") != 0 ||
        argz_add_sep(&argz, &length, "five six", ' ') != 0 || argz_append(&argz, &length, "seven", 6) != 0 ||
        argz_insert(&argz, &length, argz, "zero") != 0 || argz_replace(&argz, &length, "two", "twenty", NULL) != 0)
        return NULL;
    for (int i = 0; i < 50; i++)
        argz_add(&argz, &length, "another one");
    return strcmp(argz, "zero") == 0 ? argz : NULL;
}

static void *make_arguments(void)
{
    static char one[] = "one";
    static char *const list[] = { one, NULL };
    char *argz = NULL;
    size_t length = 0;
    return argz_create(list, &argz, &length) == 0 ? argz : NULL;
}

static void *make_environment(void)
{
    char *envz = NULL;
    char *other = NULL;
    size_t length = 0;
    size_t other_length = 0;
    if (envz_add(&envz, &length, "name", "value") != 0 ||
        envz_add(&other, &other_length, "name", "longer value") != 0 ||
        envz_merge(&envz, &length, other, other_length, 1) != 0)
        return NULL;
    return strcmp(envz_get(envz, length, "name"), "longer value") == 0 ? envz : NULL;
}

static void *make_symbols(void)
{
    void *address = (void *)(uintptr_t)abs;
    char **names = backtrace_symbols(&address, 1);
    return names != NULL && strstr(names[0], "libc") != NULL ? names : NULL;
}

static void *make_obstack(void)
{
    struct obstack stack;
    obstack_init(&stack);
    for (int i = 0; i < 100; i++)
        obstack_printf(&stack, "a number: %d, and so on and so forth\n", i);
    obstack_1grow(&stack, '\0');
    return strlen(obstack_finish(&stack)) > 3000 ? stack.chunk : NULL;
}

static void *make_scanned(void)
{
    char *word = NULL;
    char *set = NULL;
    wchar_t *wide = NULL;
    char *letters = NULL;
    int number = 0;
    int end = 0;
    const char *volatile format = "%ms %*d %m[^;]%n; %2mc%*c %mls %d"; /* clang does not know mls */
    int count = sscanf("one 2 three; abc wide", format, &word, &set, &end, &letters, &wide, &number);
    bool right = count == 4 && strcmp(word, "one") == 0 && strcmp(set, "three") == 0 && end == 11 &&
                 memcmp(letters, "ab", 2) == 0 && wcscmp(wide, L"wide") == 0;
    return right ? word : NULL;
}

static void *make_scanned_wide(void)
{
    wchar_t *word = NULL;
    return swscanf(L"one two", L"one %mls", &word) == 1 && wcscmp(word, L"two") == 0 ? word : NULL;
}

static void *make_scanned_of_a_stream(void)
{
    static FILE *stream; /* made before the task: it has its buffer when it is read first */
    char *word = NULL;
    if (stream == NULL)
        stream = fopen("/proc/self/status", "r");
    if (stream == NULL)
        return NULL;
    rewind(stream);
    return fscanf(stream, "Name: %ms", &word) == 1 && word != NULL && strncmp(word, "test-", 5) == 0 ? word : NULL;
}

static void *make_file_actions(void)
{
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    for (int i = 0; i < 40; i++) {
        if (posix_spawn_file_actions_addclose(&actions, 100 + i) != 0 ||
            posix_spawn_file_actions_adddup2(&actions, 100 + i, 1) != 0)
            return NULL;
    }
    return actions.__actions;
}

static void *make_registers(void)
{
    struct re_pattern_buffer regex = { .buffer = NULL };
    struct re_registers registers = { .num_regs = 0 };
    re_compile_pattern("b", 1, &regex);
    bool found = re_search(&regex, "abc", 3, 0, 3, &registers) == 1 && registers.start[0] == 1;
    regfree(&regex);
    return found ? registers.start : NULL;
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

static void *make_cpu_set(void)
{
    return CPU_ALLOC(4096);
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
    { "get_current_dir_name", make_working_folder_s_name },
    { "tempnam", make_temporary_name },
    { "wcsdup", make_wide_copy },
    { "scandir", make_folder },
    { "scandirat64", make_large_folder },
    { "tsearch", make_tree },
    { "argz", make_argument_vector },
    { "argz_create", make_arguments },
    { "envz", make_environment },
    { "backtrace_symbols", make_symbols },
    { "obstack", make_obstack },
    { "sscanf", make_scanned },
    { "swscanf", make_scanned_wide },
    { "fscanf", make_scanned_of_a_stream },
    { "posix_spawn_file_actions", make_file_actions },
    { "re_search", make_registers },
    { "open_memstream", make_memory },
    { "CPU_ALLOC", make_cpu_set },
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

/* Where the task has no room for a copy, what libc has made is right all the same. */
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

/* The interrupt comes right after the block was made, with nobody there to free it. */
TEST(what_an_interrupt_leaves_is_taken_back_with_no_room_for_a_copy)
{
    int bad = 0;
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
        struct work work = { .make = makers[i].make, .error = EIO };
        if (work.make == make_obstack || work.make == make_registers)
            continue;                /* where there is no memory for one libc ends the process, or the test would */
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

TEST_MAIN()
