/* SPDX-License-Identifier: MIT
 *
 * Memory that libc allocates for a task's handle counts for the task's memory limit. A rollback closes the handle
 * unless a variable still points to it; a commit leaves it open. */
#include "handles.h"

#include <iconv.h>

/* --- Tasks --- */

struct work {
    open_fn *open;
    int times;
    int error; /* that it ends with; negative: it allocates until it is stopped */
    int depth; /* number of scopes around it; all but the outermost end Ok */
    void *opened;
};

static int open_some(void *arg, void **value)
{
    struct work *work = arg;
    (void)value;
    if (work->depth > 0) {
        struct work inner = *work;
        stint_outcome outcome;
        inner.depth--;
        inner.error = 0;
        stint_run(open_some, &inner, NULL, &outcome);
        work->opened = inner.opened;
    } else {
        work->opened = &live;
        for (int i = 0; i < work->times && work->opened != NULL; i++)
            work->opened = work->open();
    }
    while (work->error < 0)
        keep(malloc(1000));
    return work->error;
}

static stint_outcome run_work(struct work *work, stint_on_interrupt mode)
{
    stint_options options = { .size = sizeof(stint_options), .on_interrupt = mode };
    options.budget.allocation = 4 * MIB;
    return run_task(open_some, work, &options);
}

static void assert_closed(struct work work, stint_on_interrupt mode, const char *name)
{
    run_work(&(struct work){ .open = work.open, .times = 1, .error = EIO }, STINT_JUMP); /* libc's caches are full */
    int before = open_descriptors();
    start_to_count();
    stint_outcome outcome = run_work(&work, mode);
    long left = live;
    stint_memprof_stop();
    assert_int_equal(outcome.status, STINT_ERROR);
    assert_non_null(work.opened);
    if (left != 0 || open_descriptors() != before)
        print_error("%s: %ld blocks, %d descriptors left\n", name, left, open_descriptors() - before);
    assert_int_equal(left, 0);
    assert_int_equal(open_descriptors(), before);
    fflush(NULL);
}

TEST(an_error_closes_what_was_opened)
{
    for (size_t i = 0; i < OPENERS; i++)
        assert_closed((struct work){ openers[i].open, 3, EIO, 0, NULL }, STINT_JUMP, openers[i].name);
}

TEST(so_does_an_interrupt_of_each_kind)
{
    for (size_t i = 0; i < OPENERS; i++) {
        assert_closed((struct work){ openers[i].open, 2, -1, 0, NULL }, STINT_JUMP, openers[i].name);
        assert_closed((struct work){ openers[i].open, 2, -1, 0, NULL }, STINT_UNWIND, openers[i].name);
    }
}

TEST(so_does_an_outer_scope_whose_inner_ones_ended_ok)
{
    for (size_t i = 0; i < OPENERS; i++) {
        for (int depth = 1; depth <= 2; depth++)
            assert_closed((struct work){ openers[i].open, 2, EIO, depth, NULL }, STINT_JUMP, openers[i].name);
    }
}

/* More than are looked for one by one. */
TEST(very_many_are_closed)
{
    assert_closed((struct work){ open_regex, 300, EIO, 0, NULL }, STINT_JUMP, "regcomp");
    assert_closed((struct work){ open_file, 200, EIO, 1, NULL }, STINT_JUMP, "fopen");
}

/* Stopped at each of many sample points in the opening functions. */
TEST(an_interrupt_while_one_is_opened_leaves_nothing)
{
    for (size_t i = 0; i < OPENERS; i++) {
        struct work work = { openers[i].open, 1, EIO, 0, NULL };
        run_work(&work, STINT_JUMP);
        int before = open_descriptors();
        start_to_count();
        for (size_t limit = 16; limit < 6000; limit += limit / 8 + 16) {
            stint_options options = { .size = sizeof(stint_options),
                                      .on_interrupt = limit % 3 == 0 ? STINT_UNWIND : STINT_JUMP };
            options.budget.allocation = limit;
            run_task(open_some, &work, &options);
        }
        long left = live;
        stint_memprof_stop();
        if (left != 0)
            print_error("%s: %ld blocks left\n", openers[i].name, left);
        assert_int_equal(left, 0);
        assert_int_equal(open_descriptors(), before);
    }
}

/* --- What stays open --- */

TEST(a_task_that_succeeds_leaves_them_open)
{
    struct work file = { open_file, 1, 0, 2, NULL };
    assert_ok(run_work(&file, STINT_JUMP));
    int before = open_descriptors();
    assert_int_not_equal(fgetc(file.opened), EOF);
    assert_int_equal(fclose(file.opened), 0);
    struct work directory = { open_directory, 1, 0, 0, NULL };
    assert_ok(run_work(&directory, STINT_JUMP));
    assert_non_null(readdir(directory.opened));
    assert_int_equal(closedir(directory.opened), 0);
    assert_int_equal(open_descriptors(), before - 1);
}

static regex_t regex;
static bool is_compiled;

/* As libraries do. */
static int match_lazily(void *arg, void **value)
{
    (void)value;
    if (!is_compiled)
        is_compiled = regcomp(&regex, "^[ab]+$", REG_EXTENDED | REG_NOSUB) == 0;
    if (regexec(&regex, "abba", 0, NULL, 0) != 0)
        return EINVAL;
    return *(int *)arg;
}

TEST(one_that_a_static_variable_holds_stays_open)
{
    int error = EIO;
    stint_outcome outcome = run_task(match_lazily, &error, NULL);
    assert_outcome(outcome, STINT_ERROR, STINT_REASON_FAILED, EIO);
    error = 0;
    assert_ok(run_task(match_lazily, &error, NULL));
    regfree(&regex);
    memset(&regex, 0, sizeof regex);
}

struct cache {
    regex_t regex;
    FILE *file;
};
static struct cache *cache;

static int match_by_cache(void *arg, void **value)
{
    (void)value;
    if (cache == NULL && (cache = malloc(sizeof *cache)) != NULL) {
        if (regcomp(&cache->regex, "^[ab]+$", REG_EXTENDED | REG_NOSUB) != 0)
            return EINVAL;
        cache->file = fopen("/etc/passwd", "r");
    }
    if (regexec(&cache->regex, "abba", 0, NULL, 0) != 0 || fgetc(cache->file) == EOF)
        return EINVAL;
    return *(int *)arg;
}

TEST(so_do_those_that_a_kept_block_holds)
{
    int error = EIO;
    stint_outcome outcome = run_task(match_by_cache, &error, NULL);
    assert_outcome(outcome, STINT_ERROR, STINT_REASON_FAILED, EIO);
    error = 0;
    assert_ok(run_task(match_by_cache, &error, NULL));
    regfree(&cache->regex);
    fclose(cache->file);
    cache = NULL;
}

static int open_and_keep(void *file, void **value)
{
    (void)value;
    stint_keep_begin();
    *(FILE **)file = fopen("/etc/passwd", "r");
    stint_keep_end();
    return EIO;
}

TEST(one_that_is_kept_stays_open)
{
    FILE **file = malloc(sizeof *file);
    run_task(open_and_keep, file, NULL);
    assert_int_not_equal(fgetc(*file), EOF);
    fclose(*file);
    free(file);
}

static iconv_t shared;

static void *open_shared(void *unused)
{
    shared = iconv_open("UTF-16LE", "UTF-16BE");
    return unused;
}

static int open_first(void *unused, void **value)
{
    (void)unused;
    (void)value;
    pthread_t thread;
    iconv_t first = iconv_open("UTF-16LE", "UTF-16BE");
    if (pthread_create(&thread, NULL, open_shared, NULL) == 0)
        pthread_join(thread, NULL);
    return first != (iconv_t)-1 ? EIO : EINVAL;
}

/* libc loads a module for a conversion, and all open converters share the module's memory. */
TEST(what_a_task_was_the_first_to_open_stays_whole_for_others)
{
    stint_outcome outcome = run_task(open_first, NULL, NULL);
    assert_outcome(outcome, STINT_ERROR, STINT_REASON_FAILED, EIO);
    run_task(fill_blocks, NULL, NULL);
    char from[] = "\0H\0e\0l\0l\0o";
    char to[16] = "";
    char *in = from;
    char *out = to;
    size_t in_left = 10;
    size_t out_left = sizeof to;
    assert_int_equal(iconv(shared, &in, &in_left, &out, &out_left), 0);
    assert_memory_equal(to, "H\0e\0l\0l\0o\0", 10);
    iconv_close(shared);
}

/* --- What is closed already --- */

static void *close_file(void *file)
{
    fclose(file);
    return NULL;
}

static int open_and_have_closed(void *by_thread, void **value)
{
    (void)value;
    regex_t compiled;
    regcomp(&compiled, "a+", REG_EXTENDED);
    regex_t moved = compiled;
    memset(&compiled, 0xa5, sizeof compiled);
    regfree(&moved);
    FILE *file = fopen("/etc/passwd", "r");
    pthread_t thread;
    if (by_thread != NULL && pthread_create(&thread, NULL, close_file, file) == 0)
        pthread_join(thread, NULL);
    else
        fclose(file);
    return EIO;
}

TEST(what_was_closed_is_not_closed_again)
{
    run_task(open_and_have_closed, &live, NULL);
    int before = open_descriptors();
    run_task(open_and_have_closed, NULL, NULL);
    run_task(open_and_have_closed, &live, NULL);
    assert_int_equal(open_descriptors(), before);
}

static int close_outer(void *file, void **value)
{
    (void)value;
    fclose(file);
    return EIO;
}

static int close_inside(void *unused, void **value)
{
    (void)unused;
    (void)value;
    stint_outcome outcome;
    FILE *file = fopen("/etc/passwd", "r");
    stint_run(close_outer, file, NULL, &outcome);
    return EIO;
}

TEST(an_inner_scope_may_close_what_the_outer_one_opened)
{
    int before = open_descriptors();
    run_task(close_inside, NULL, NULL);
    assert_int_equal(open_descriptors(), before);
}

static int leave_thread(void *file, void **value)
{
    (void)value;
    *(FILE **)file = fopen("/etc/passwd", "r");
    pthread_exit(NULL);
}

static void *run_and_leave(void *file)
{
    stint_outcome outcome;
    stint_run(leave_thread, file, NULL, &outcome);
    return NULL;
}

/* Which is an error; but the thread's stack is gone, and must not be written to. */
TEST(one_of_a_thread_that_ended_in_its_task_can_be_closed)
{
    if (in_debug_mode())
        skip_because("in debug mode the error ends the process");
    FILE *file = NULL;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run_and_leave, &file), 0);
    pthread_join(thread, NULL);
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
}

static int open_and_fork(void *unused, void **value)
{
    (void)unused;
    (void)value;
    FILE *file = fopen("/etc/passwd", "r");
    pid_t child = fork();
    if (child == 0)
        _exit(fgetc(file) == EOF || fclose(file) != 0);
    int status = 1;
    waitpid(child, &status, 0);
    return status == 0 ? EIO : EINVAL;
}

TEST(a_child_may_close_what_its_task_has_open)
{
    int before = open_descriptors();
    stint_outcome outcome = run_task(open_and_fork, NULL, NULL);
    assert_int_equal(outcome.error, EIO);
    assert_int_equal(open_descriptors(), before);
}

/* --- The memory limit --- */

static int compile_much(void *codes, void **value)
{
    (void)value;
    for (int i = 0; i < 3; i++) {
        regex_t *compiled = malloc(sizeof *compiled);
        ((int *)codes)[i] = regcomp(compiled, "((a{1,60}){1,60}){1,4}", REG_EXTENDED);
    }
    return 0;
}

TEST(libc_s_own_blocks_count_for_the_memory_limit)
{
    int codes[3] = { 0 };
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.memory = 4 * MIB;
    stint_outcome outcome = run_task(compile_much, codes, &options);
    assert_outcome(outcome, STINT_ERROR, STINT_REASON_MEMORY_LIMIT, ENOMEM);
    assert_int_not_equal(codes[0], 0);
    assert_in_range(outcome.usage.peak, MIB, (8 + 16) * MIB); /* libc's reserve included */
}

static int sort_in_an_inner_scope(void *unused, void **value)
{
    struct work work = { open_regex, 40, 0, 0, NULL };
    stint_outcome outcome;
    (void)unused;
    (void)value;
    for (int i = 0; i < 200; i++)
        stint_run(open_some, &work, NULL, &outcome);
    return 0;
}

TEST(what_inner_scopes_leave_open_counts_for_the_outer_one)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.memory = 2 * MIB;
    stint_outcome outcome = run_task(sort_in_an_inner_scope, NULL, &options);
    assert_outcome(outcome, STINT_ERROR, STINT_REASON_MEMORY_LIMIT, ENOMEM);
}

TEST_MAIN()
