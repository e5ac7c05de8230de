/* SPDX-License-Identifier: MIT
 *
 * Misuse of the interface, without debug mode and in it (STINT_DEBUG=1 in the environment). Each kind happens in a
 * process of its own, whose exit status tells the outcome. Without debug mode nothing is printed; in it a line names
 * the task and the misuse. */
#include "mainless.h"

#include <dlfcn.h>
#include <signal.h>

#define NAME "culprit"

static jmp_buf way_out;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static stint_pool *pool;

static void release(void *arg)
{
    (void)arg;
}

static int forget_a_guard(void *arg, void **value)
{
    (void)value;
    stint_guard_push(arg, release, NULL);
    return 0;
}

static int forget_a_hook(void *arg, void **value)
{
    (void)value;
    return stint_hook_push(arg, release, NULL);
}

static int forget_a_mask(void *arg, void **value)
{
    (void)arg;
    (void)value;
    stint_mask();
    return 0;
}

static int fail_masked(void *arg, void **value)
{
    (void)arg;
    (void)value;
    stint_mask();
    return EPROTO;
}

static int forget_a_keep(void *arg, void **value)
{
    (void)arg;
    (void)value;
    stint_keep_begin();
    return 0;
}

static int forget_a_lock(void *arg, void **value)
{
    (void)arg;
    (void)value;
    return pthread_mutex_lock(&lock);
}

static int forget_a_join(void *arg, void **value)
{
    (void)value;
    return stint_fork(arg, do_nothing, NULL);
}

static int jump_out(void *arg, void **value)
{
    (void)arg;
    (void)value;
    longjmp(way_out, 1);
}

static int exit_thread(void *arg, void **value)
{
    (void)arg;
    (void)value;
    pthread_exit(NULL);
}

static __attribute__((noinline)) void push_and_return(void)
{
    stint_guard guard;
    stint_guard_push(&guard, release, NULL);
    keep(&guard);
}

static __attribute__((noinline)) void use_the_stack(void)
{
    char fill[1024];
    memset(fill, 0x55, sizeof fill);
    keep(fill);
}

static __attribute__((noinline)) void push_a_hook_and_return(void)
{
    stint_hook hook;
    stint_hook_push(&hook, release, NULL);
    keep(&hook);
}

static int reach_the_limit_after(void (*leave_a_frame)(void))
{
    leave_a_frame();
    use_the_stack();
    while (keep(stint_malloc(1000)) != NULL)
        ;
    return 0;
}

static int return_from_a_guard_s_frame(void *arg, void **value)
{
    (void)arg;
    (void)value;
    return reach_the_limit_after(push_and_return);
}

static int return_from_a_hook_s_frame(void *arg, void **value)
{
    (void)arg;
    (void)value;
    return reach_the_limit_after(push_a_hook_and_return);
}

static int lend_a_block(void *arg, void **value)
{
    (void)value;
    uintptr_t size = *(const uintptr_t *)arg;
    char *block = stint_malloc(size);
    memset(block, 1, size);
    *(uintptr_t *)arg = ~(uintptr_t)(block + size / 2); /* so that no root points there */
    return EIO;
}

/* --- Each in a process of its own --------------------------------------------------------------------------------- */

enum { IN_PLACE, IN_POOL, PLACES };

static stint_options named(void)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.name = NAME;
    options.budget.allocation = MIB;
    return options;
}

static stint_outcome run_somewhere(stint_fn *fn, void *arg, int place)
{
    stint_options options = named();
    stint_outcome outcome = { .status = STINT_CANCELLED };
    if (place == IN_PLACE) {
        stint_run(fn, arg, &options, &outcome);
        return outcome;
    }
    stint_future *future;
    const stint_pool_options one = { .size = sizeof(stint_pool_options), .workers = 1 };
    if (pool == NULL && stint_pool_create(&one, &pool) != 0)
        return outcome;
    if (stint_submit(pool, fn, arg, &options, &future) == 0)
        stint_future_wait_for(future, UINT64_C(10000000000), &outcome);
    stint_future_release(future);
    return outcome;
}

/* 0: as it should be. */
static int run_and_check(stint_fn *fn, int place, int error)
{
    union {
        stint_guard guard;
        stint_hook hook;
        stint_subtask subtask;
    } what;
    stint_outcome outcome = run_somewhere(fn, &what, place);
    if (outcome.error != error || (error != 0 && outcome.reason != STINT_REASON_FAILED))
        return 1;
    return run_somewhere(do_nothing, NULL, place).status == STINT_OK ? 0 : 2;
}

static int jump_and_check(stint_fn *fn, int place, int error)
{
    (void)error;
    if (_setjmp(way_out) == 0)
        run_somewhere(fn, NULL, place);
    return run_somewhere(do_nothing, NULL, place).status == STINT_OK ? 0 : 2;
}

static void *run_in_thread(void *fn)
{
    stint_fn *function;
    memcpy(&function, fn, sizeof function);
    run_somewhere(function, NULL, IN_PLACE);
    return fn;
}

static int end_thread_and_check(stint_fn *fn, int place, int error)
{
    pthread_t thread;
    void *result = &pool;
    if (pthread_create(&thread, NULL, run_in_thread, &fn) != 0 || pthread_join(thread, &result) != 0 || result != NULL)
        return error + 3;
    return run_somewhere(do_nothing, NULL, place).status == STINT_OK ? 0 : 2;
}

static int limit_and_check(stint_fn *fn, int place, int error)
{
    stint_outcome outcome = run_somewhere(fn, NULL, place);
    return outcome.reason == STINT_REASON_ALLOCATION_LIMIT && outcome.error == error ? 0 : 1;
}

static int use_stale(stint_fn *fn, int place, int size)
{
    uintptr_t told = (uintptr_t)size;
    stint_outcome outcome = run_somewhere(fn, &told, place);
    if (outcome.error != EIO)
        return 1;
    const volatile char *block = (const volatile char *)~told;
    return *block;
}

static int free_stale(stint_fn *fn, int place, int size)
{
    uintptr_t told = (uintptr_t)size;
    if (run_somewhere(fn, &told, place).error != EIO)
        return 1;
    stint_free((char *)~told - size / 2);
    return 0;
}

/* The child's standard error, and how it ended. */
struct heard {
    char text[2000];
    int status;
};

typedef int check_fn(stint_fn *fn, int place, int parameter);

static struct heard in_a_process(check_fn *check, stint_fn *fn, int place, int parameter)
{
    struct heard heard = { .status = -1 };
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        signal(SIGSEGV, SIG_DFL); /* cmocka's would be asked after ours */
        alarm(20);
        _exit(check(fn, place, parameter));
    }
    close(ends[1]);
    size_t length = 0;
    ssize_t more;
    while ((more = read(ends[0], heard.text + length, sizeof heard.text - 1 - length)) > 0)
        length += (size_t)more;
    close(ends[0]);
    assert_int_equal(waitpid(child, &heard.status, 0), child);
    return heard;
}

static bool debugs(void)
{
    return getenv("STINT_DEBUG") != NULL;
}

static void assert_told(const struct heard *heard, const char *what)
{
    if (!debugs()) {
        assert_string_equal(heard->text, "");
        return;
    }
    char line[200];
    snprintf(line, sizeof line, "stint: task %s: %s\n", NAME, what);
    if (strstr(heard->text, line) == NULL)
        print_error("wanted: %sgot: %s", line, heard->text);
    assert_non_null(strstr(heard->text, line));
}

/* --- First, while this process has no other thread: it ends without the main one. --- */

static void *roll_back_often(void *arg)
{
    for (int i = 0; i < 300; i++) {
        uintptr_t size = 100 + 1000 * (uintptr_t)(i % 50);
        run_somewhere(lend_a_block, &size, IN_PLACE);
    }
    return arg;
}

/* mimalloc's own end of a thread is heard of by an override; and 3.6.0 looks at all heaps in the child of a fork(2). */
static void skip_where_mimalloc_looks(void)
{
    int (*version)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "mi_version");
    if (!stint_malloc_is_overridden() || (debugs() && version != NULL && version() == 30600))
        skip_because("this mimalloc looks at all heaps after a fork(2)");
}

static bool rolls_back(void)
{
    uintptr_t size = 100;
    return run_somewhere(lend_a_block, &size, IN_PLACE).error == EIO;
}

TEST(the_main_thread_ends_while_heaps_are_in_quarantine)
{
    int status;
    skip_where_mimalloc_looks();
    pid_t child = fork();
    if (child == 0) {
        roll_back_often(NULL);
        end_main_thread(rolls_back);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

TEST(it_ends_with_those_from_before_a_fork_of_its)
{
    skip_where_mimalloc_looks();
    pid_t child = fork();
    if (child == 0) {
        int status = 1;
        roll_back_often(NULL);
        pid_t grandchild = fork();
        if (grandchild == 0)
            end_main_thread(rolls_back);
        waitpid(grandchild, &status, 0);
        _exit(status == 0 ? 0 : 1);
    }
    assert_ends_well(child);
}

/* --- Mistakes, each in a process of its own. --- */

static const struct misuse {
    stint_fn *fn;
    check_fn *check;
    int error;
    const char *told[PLACES]; /* NULL: not there */
} misuses[] = {
    { forget_a_guard,
      run_and_check,
      EINVAL,
      { "returned without popping a guard", "returned without popping a guard" } },
    { forget_a_hook, run_and_check, EINVAL, { "returned without popping a hook", "returned without popping a hook" } },
    { forget_a_mask, run_and_check, EINVAL, { "returned without stint_unmask", "returned without stint_unmask" } },
    { fail_masked, run_and_check, EPROTO, { "returned without stint_unmask", "returned without stint_unmask" } },
    { forget_a_keep, run_and_check, EINVAL, { "returned without stint_keep_end", "returned without stint_keep_end" } },
    { forget_a_join, run_and_check, EINVAL, { "returned without joining a fork", "returned without joining a fork" } },
    { exit_thread, end_thread_and_check, 0, { "its thread ends inside it", NULL } },
    { return_from_a_guard_s_frame,
      limit_and_check,
      ENOMEM,
      { "left the frame of a guard or hook without popping it",
        "left the frame of a guard or hook without popping it" } },
    { return_from_a_hook_s_frame,
      limit_and_check,
      ENOMEM,
      { "left the frame of a guard or hook without popping it",
        "left the frame of a guard or hook without popping it" } },
};

TEST(what_was_forgotten_fails_the_task_and_is_told_in_debug_mode)
{
    for (size_t i = 0; i < sizeof misuses / sizeof *misuses; i++) {
        for (int place = 0; place < PLACES; place++) {
            const struct misuse *misuse = &misuses[i];
            if (misuse->told[place] == NULL)
                continue;
            struct heard heard = in_a_process(misuse->check, misuse->fn, place, misuse->error);
            if (heard.status != 0)
                print_error("%zu in %d: status %x\n%s", i, place, (unsigned)heard.status, heard.text);
            assert_int_equal(heard.status, 0);
            assert_told(&heard, misuse->told[place]);
        }
    }
}

/* --- What the library cannot go on after -------------------------------------------------------------------------- */

static void leave_callback_by_exit(stint_future *future, const stint_outcome *outcome, void *arg)
{
    (void)future;
    (void)outcome;
    (void)arg;
    pthread_exit(NULL);
}

static void leave_callback_by_jump(stint_future *future, const stint_outcome *outcome, void *arg)
{
    (void)future;
    (void)outcome;
    (void)arg;
    longjmp(way_out, 1);
}

static int call_back(stint_callback_fn *callback)
{
    stint_future *future;
    if (stint_pool_create(NULL, &pool) != 0 || stint_submit(pool, do_nothing, NULL, NULL, &future) != 0)
        return 1;
    stint_future_wait(future, NULL);
    if (_setjmp(way_out) == 0)
        stint_future_then(future, callback, NULL);
    return 2;
}

static int exit_in_callback(stint_fn *fn, int place, int parameter)
{
    (void)fn;
    (void)place;
    (void)parameter;
    return call_back(leave_callback_by_exit);
}

static int jump_in_callback(stint_fn *fn, int place, int parameter)
{
    (void)fn;
    (void)place;
    (void)parameter;
    return call_back(leave_callback_by_jump);
}

static void assert_ended(check_fn *check, stint_fn *fn, const char *what)
{
    struct heard heard = in_a_process(check, fn, IN_POOL, 0);
    assert_true(WIFSIGNALED(heard.status));
    assert_int_equal(WTERMSIG(heard.status), SIGABRT);
    if (debugs())
        assert_non_null(strstr(heard.text, what));
}

TEST(a_task_that_ends_its_worker_ends_the_program)
{
    assert_ended(run_and_check, exit_thread, NAME ": called pthread_exit, or was cancelled");
}

/* Only a thread with destructors of the library's is heard of where its stack is not unwound. */
TEST(a_callback_that_does_not_return_ends_the_program)
{
    if (lack_of_unwound_ends() != NULL)
        skip_because(lack_of_unwound_ends());
    assert_ended(exit_in_callback, NULL, "a callback called pthread_exit");
    if (stint_malloc_is_overridden())
        assert_ended(jump_in_callback, NULL, "a callback was left by longjmp");
}

/* These are seen by the functions that stint puts in the place of libc's. */
TEST(a_lock_that_was_forgotten_is_told_in_debug_mode)
{
    if (!stint_malloc_is_overridden())
        skip_because("malloc is not stint's");
    for (int place = 0; place < PLACES; place++) {
        struct heard heard = in_a_process(run_and_check, forget_a_lock, place, 0);
        assert_int_equal(heard.status, 0);
        assert_told(&heard, "ends while it holds a lock");
    }
}

TEST(a_jump_out_of_a_scope_is_told_in_debug_mode)
{
    if (!stint_malloc_is_overridden())
        skip_because("malloc is not stint's");
    struct heard heard = in_a_process(jump_and_check, jump_out, IN_PLACE, 0);
    assert_int_equal(heard.status, 0);
    assert_told(&heard, "its scope was left by longjmp");
}

TEST(a_task_that_does_nothing_wrong_is_not_told_of)
{
    for (int place = 0; place < PLACES; place++) {
        struct heard heard = in_a_process(run_and_check, do_nothing, place, 0);
        assert_int_equal(heard.status, 0);
        assert_string_equal(heard.text, "");
    }
}

/* In debug mode only; without it nothing can be said of what such a pointer reaches. */
TEST(a_stale_pointer_faults_at_once_and_names_the_task)
{
    if (lack_of_quarantine() != NULL)
        skip_because(lack_of_quarantine());
    static const int sizes[] = { 1, 16, 100, 5000, 100000, 900000 };
    if (!debugs())
        skip_because("only in debug mode");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int place = 0; place < PLACES; place++) {
            check_fn *const uses[] = { use_stale, free_stale };
            for (int use = 0; use < 2; use++) {
                struct heard heard = in_a_process(uses[use], lend_a_block, place, sizes[i]);
                if (!WIFSIGNALED(heard.status))
                    print_error("%d bytes in %d, use %d: status %x\n%s", sizes[i], place, use, (unsigned)heard.status,
                                heard.text);
                assert_true(WIFSIGNALED(heard.status) && WTERMSIG(heard.status) == (use == 0 ? SIGSEGV : SIGABRT));
                assert_non_null(strstr(heard.text, use == 0 ? " was memory of task " NAME ", which has been rolled back"
                                                            : "allocated by task " NAME));
            }
        }
    }
}

/* Rolled-back heaps do not stay for ever, and a thread may end with heaps in quarantine. */
TEST(threads_and_processes_end_while_heaps_are_in_quarantine)
{
    for (int i = 0; i < 4; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, roll_back_often, NULL), 0);
        roll_back_often(NULL);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
    uintptr_t size = 100;
    leaves_records(); /* the pool's: a worker is there until the end */
    assert_int_equal(run_somewhere(lend_a_block, &size, IN_POOL).error, EIO);
}

/* No two of the task's pages lie side by side. */
static int scatter(void *arg, void **value)
{
    enum { PAGES = 250, IN_PAGE = 8, SIZE = 8000 };
    void *between[PAGES * IN_PAGE];
    bool enough = true;
    (void)arg;
    (void)value;
    for (int i = 0; i < PAGES * IN_PAGE; i += IN_PAGE) {
        for (int j = 0; j < IN_PAGE; j++)
            enough = enough && stint_malloc(SIZE) != NULL;
        stint_keep_begin();
        for (int j = 0; j < IN_PAGE; j++)
            between[i + j] = stint_malloc(SIZE);
        stint_keep_end();
    }
    for (int i = 0; i < PAGES * IN_PAGE; i++)
        stint_free(between[i]);
    return enough ? EIO : ENOMEM;
}

static size_t mappings(void)
{
    size_t count = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    assert_non_null(maps);
    for (int c; (c = getc(maps)) != EOF;)
        count += c == '\n';
    fclose(maps);
    return count;
}

TEST(heaps_in_quarantine_leave_the_process_most_of_its_mappings)
{
    for (int i = 0; i < 80; i++)
        assert_outcome(run_task(scatter, NULL, NULL), STINT_ERROR, STINT_REASON_FAILED, EIO);
    assert_in_range(mappings(), 1, 20000); /* of 65530, the system's default */
}

/* --- Heaps that an ended thread has left are used again, and never destroyed: each is emptied block by block. --- */

#define HEAPS 30 /* as many as a thread has in quarantine */

/* So many blocks of each size lie in one page. */
#define SIZES ((size_t)8)
#define OF_EACH ((size_t)8)
#define LARGEST ((size_t)8000)

static int leave_one(void *arg, void **value)
{
    (void)arg;
    *value = stint_malloc(20000); /* none for the nursery */
    return *value != NULL ? 0 : ENOMEM;
}

static void *leave_heaps(void *left)
{
    for (int i = 0; i < HEAPS; i++) {
        stint_outcome outcome;
        stint_run(leave_one, NULL, NULL, &outcome);
        ((void **)left)[i] = outcome.value;
    }
    return NULL;
}

static int free_half_and_fail(void *arg, void **value)
{
    void *blocks[OF_EACH];
    (void)arg;
    (void)value;
    for (size_t size = LARGEST / SIZES; size <= LARGEST; size += LARGEST / SIZES) {
        for (size_t i = 0; i < OF_EACH; i++)
            blocks[i] = memset(keep(stint_malloc(size)), 1, size);
        for (size_t i = 0; i < OF_EACH; i += 2)
            stint_free(blocks[i]);
    }
    return EIO;
}

static void *roll_back_in_them(void *unused)
{
    for (int i = 0; i < HEAPS; i++) {
        stint_outcome outcome;
        stint_run(free_half_and_fail, NULL, NULL, &outcome);
    }
    return unused;
}

/* mimalloc has no use any more for a page in which more is freed than was allocated. */
TEST(what_a_task_has_freed_is_not_freed_again_as_its_heap_leaves_quarantine)
{
    enum { ROUNDS = 8, FIRST = 2 };
    size_t before = 0;
    for (int i = 0; i < ROUNDS; i++) {
        void *left[HEAPS];
        on_a_thread(leave_heaps, left);
        for (int j = 0; j < HEAPS; j++)
            stint_free(left[j]);
        on_a_thread(roll_back_in_them, NULL);
        stint_malloc_trim(0);
        if (i == FIRST - 1)
            before = resident();
    }
    assert_in_range(resident(), 0, before + (ROUNDS - FIRST) * HEAPS * OF_EACH * LARGEST * SIZES / 8);
}

TEST_MAIN()
