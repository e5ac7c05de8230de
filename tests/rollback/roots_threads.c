/* SPDX-License-Identifier: MIT
 *
 * The scan of roots beside other threads: it reads without the loader's lock, so modules may go meanwhile. */
#include "mainless.h"

#include <dlfcn.h>
#include <link.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>

typedef void **variables_fn(void);
variables_fn linked_variables;
FILE **standard_output(void);

#define PAGE_4 (4 * 4096 / sizeof(void *))

static int leave_a_root(void *root, void **value)
{
    char **block = root;
    (void)value;
    *block = stint_malloc(1000);
    memset(*block, 0x5a, 1000);
    return 1;
}

static int allocate_and_fail(void *arg, void **value)
{
    (void)arg;
    (void)value;
    keep(stint_malloc(1000));
    return 1;
}

/* --- The lock --- */

static int to_other[2];
static int from_other[2];
static bool was_answered;

static int note_module(struct dl_phdr_info *info, size_t size, void *count)
{
    (void)info;
    (void)size;
    ++*(unsigned *)count;
    return 0;
}

static void *answer_with_the_loader_s_lock(void *arg)
{
    char byte;
    unsigned count = 0;
    assert_int_equal(read(to_other[0], &byte, 1), 1);
    dl_iterate_phdr(note_module, &count);
    assert_int_equal(write(from_other[1], &byte, 1), 1);
    return arg;
}

/* In the middle of the scan: it has come to a page that cannot be read. */
static void let_the_other_thread_come(int signal)
{
    (void)signal;
    struct pollfd answer = { .fd = from_other[0], .events = POLLIN };
    char byte = 0;
    (void)!write(to_other[1], &byte, 1);
    was_answered = poll(&answer, 1, 5000) == 1;
    syscall(SYS_mprotect, linked_variables() + PAGE_4, 4096, PROT_READ | PROT_WRITE);
}

TEST(no_lock_of_the_loader_is_held_while_variables_are_read)
{
    pthread_t other;
    assert_int_equal(pipe(to_other), 0);
    assert_int_equal(pipe(from_other), 0);
    assert_int_equal(pthread_create(&other, NULL, answer_with_the_loader_s_lock, NULL), 0);
    void (*before)(int) = signal(SIGSEGV, let_the_other_thread_come);
    /* Not by mprotect, after which each page would be asked for. */
    assert_int_equal(syscall(SYS_mprotect, linked_variables() + PAGE_4, 4096, PROT_NONE), 0);
    stint_outcome outcome = run_task(allocate_and_fail, NULL, NULL);
    signal(SIGSEGV, before);
    assert_true(was_answered);
    assert_int_equal(pthread_join(other, NULL), 0);
    assert_int_equal(outcome.reason, STINT_REASON_FAILED);
    assert_int_equal(outcome.usage.kept, 0);
}

/* --- Modules that go --- */

static atomic_bool enough;
static atomic_uint rollbacks;

static void *roll_back_on_and_on(void *arg)
{
    while (!atomic_load(&enough)) {
        run_task(allocate_and_fail, NULL, NULL);
        atomic_fetch_add(&rollbacks, 1);
    }
    return arg;
}

static char **variables_of(void *module)
{
    variables_fn *function;
    *(void **)&function = dlsym(module, "plugin_variables");
    assert_non_null(function);
    return (char **)function();
}

TEST(modules_may_be_unloaded_while_others_roll_back)
{
    pthread_t threads[2];
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, roll_back_on_and_on, NULL), 0);
    for (int i = 0; i < 300 || atomic_load(&rollbacks) < 100; i++) {
        void *module = dlopen(PLUGIN, RTLD_NOW);
        assert_non_null(module);
        char **variable = variables_of(module);
        stint_outcome outcome = run_task(leave_a_root, &variable[600], NULL);
        assert_in_range(outcome.usage.kept, 1000, 1280);
        assert_int_equal(variable[600][999], 0x5a);
        stint_free(variable[600]);
        assert_int_equal(dlclose(module), 0);
    }
    atomic_store(&enough, true);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
}

static char told_module[200];

static void note_root(const stint_root *root, void *arg)
{
    (void)arg;
    snprintf(told_module, sizeof told_module, "%s", root->module);
}

TEST(a_root_in_a_library_is_found_and_told)
{
    stint_roots_set_report(note_root, NULL);
    stint_outcome outcome = run_task(leave_a_root, &linked_variables()[5], NULL);
    assert_in_range(outcome.usage.kept, 1000, 1280);
    assert_non_null(strstr(told_module, "roots-linked"));
    void *module = dlopen(PLUGIN, RTLD_NOW);
    char **variable = variables_of(module);
    outcome = run_task(leave_a_root, &variable[5], NULL);
    assert_in_range(outcome.usage.kept, 1000, 1280);
    assert_non_null(strstr(told_module, "roots-plugin"));
    stint_roots_set_report(NULL, NULL);
    stint_free(variable[5]);
    stint_free(linked_variables()[5]);
    linked_variables()[5] = NULL;
    dlclose(module);
}

static int replace_standard_output(void *arg, void **value)
{
    (void)value;
    *standard_output() = arg = fopen("/dev/null", "w");
    return arg != NULL ? 1 : 2;
}

TEST(a_standard_stream_that_a_task_has_replaced_stays_open)
{
    if (!stint_malloc_is_overridden())
        skip_because("malloc is not stint's");
    FILE *before = *standard_output();
    stint_outcome outcome = run_task(replace_standard_output, NULL, NULL);
    FILE *after = *standard_output();
    *standard_output() = before;
    assert_int_equal(outcome.error, 1);
    assert_ptr_not_equal(after, before);
    assert_true(fcntl(fileno(after), F_GETFD) >= 0);
    assert_int_equal(fclose(after), 0);
}

/* --- Where the main thread has ended. --- */

static _Alignas(4096) char forbidden[2 * 4096] = { 1 }; /* among others that can be read */
static void *volatile in_data_of_many = forbidden;

static int leave_in_data(void *arg, void **value)
{
    (void)arg;
    (void)value;
    in_data_of_many = stint_calloc(1, 1000);
    return EIO;
}

static int leave_nowhere(void *arg, void **value)
{
    (void)arg;
    *value = stint_calloc(1, 1000);
    return EIO;
}

static bool is_kept_beside_what_is_forbidden(void)
{
    stint_outcome outcome;
    bool is_kept = mprotect(forbidden, 4096, PROT_NONE) == 0 && stint_run(leave_in_data, NULL, NULL, &outcome) == 0 &&
                   outcome.usage.kept >= 1000;
    return is_kept && stint_run(leave_nowhere, NULL, NULL, &outcome) == 0 && outcome.usage.kept == 0;
}

/* Where the system did not say what can be read, all would be kept. */
TEST(roots_are_found_beside_what_cannot_be_read_when_the_main_thread_has_ended)
{
    if (lack_of_remote_reads() != NULL)
        skip_because(lack_of_remote_reads());
    assert_without_main_thread(is_kept_beside_what_is_forbidden);
}

TEST_MAIN()
