/* SPDX-License-Identifier: MIT
 *
 * Every call of the library's own that can fail, failing in turn under every public function. A scenario calls some
 * functions; it runs once to count its calls of each kind, and then again and again: with the first failing, the
 * second, and so on, alone and with all that follow. Each time the functions succeed or say an error that they may say,
 * nothing is left (records, descriptors, processes, mapped pages), and then the pool, the wall and a task in place do
 * their work as before. A scenario runs in a process of its own: a crash or a hang costs that one, and is told with the
 * call that failed.
 *
 * usage: faults [MOST [SCENARIO [KIND]]]: at most so many calls of each kind, or the part of them that repeats.h is
 * told of (0: all). It fails too where the library exports a function that no scenario has called. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <stint/detail/exception.h>
#include <stint/stint.h>

#include "../live/live.h"
#include "../repeats.h"
#include "shim.h"

#define MS UINT64_C(1000000)
#define PATIENCE (20000 * MS)
#define HANGS_AFTER 40 /* seconds */
#define FUNCTIONS 256

static const char *const kind_names[] = {
#define X(name, what, one, other) what,
    FAULT_KINDS(X)
#undef X
};

/* Shared with all processes. */
static struct shared {
    struct faults faults;
    atomic_uint functions;
    char called[FUNCTIONS][64];
    atomic_ulong tries, failures, errors_said;
    atomic_ulong by_kind[FAULT_COUNT];
    /* Where the scenario's process is. */
    atomic_int kind;
    atomic_ulong number;
    atomic_bool for_ever;
} * shared;

static unsigned long most = 3;

/* --- What is wrong ------------------------------------------------------------------------------------------------ */

static const char *scenario_name;

static void tell_where(void)
{
    char text[512];
    int kind = atomic_load(&shared->kind);
    faults_name(atomic_load(&shared->faults.where), text, sizeof text);
    fprintf(stderr, "%s: with %s %s %lu failing (the last at %s)\n", scenario_name,
            atomic_load(&shared->for_ever) ? "everything from" : "only",
            kind < FAULT_COUNT ? kind_names[kind] : "nothing", atomic_load(&shared->number), text);
}

#define require(condition)                                                                                             \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: this does not hold: %s\n", __FILE__, __LINE__, #condition);                        \
            _exit(3);                                                                                                  \
        }                                                                                                              \
    } while (0)

static void note_called(const char *name)
{
    unsigned count = atomic_load(&shared->functions);
    for (unsigned i = 0; i < count; i++) {
        if (strcmp(shared->called[i], name) == 0)
            return;
    }
    require(count < FUNCTIONS && strlen(name) < sizeof shared->called[0]);
    strcpy(shared->called[count], name);
    atomic_store(&shared->functions, count + 1);
}

/* call(stint_submit)(pool, ...): the function, which has a scenario. From the first thread alone. */
#define call(function) (note_called(#function), function)

/* What functions may say where something of theirs has failed. EINTR is none of it: who asks has no use for it. */
static bool may_be_said(int error)
{
    static const int errors[] = { 0,      ENOMEM, EAGAIN, EMFILE, ENFILE, ENOTSUP,   EPERM,
                                  EACCES, EIO,    ECHILD, EINVAL, EBUSY,  ETIMEDOUT, ECANCELED,
                                  EDQUOT, ENOENT, ENODEV, EPIPE,  ENOSPC, ENODATA,   ELIBACC };
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        if (errors[i] == error)
            return true;
    }
    return false;
}

static bool succeeded_at(int error, int line)
{
    if (!may_be_said(error)) {
        fprintf(stderr, "%s:%d: the error is %d, %s\n", __FILE__, line, error, strerror(error));
        _exit(3);
    }
    if (error != 0) {
        if (atomic_load(&shared->kind) == FAULT_COUNT)
            fprintf(stderr, "%s:%d: the error is %d, %s\n", __FILE__, line, error, strerror(error));
        require(atomic_load(&shared->kind) != FAULT_COUNT); /* nothing has failed */
        atomic_fetch_add(&shared->errors_said, 1);
    }
    return error == 0;
}

#define succeeded(error) succeeded_at(error, __LINE__)

/* --- What a scenario has ------------------------------------------------------------------------------------------ */

static stint_pool *pool;
static stint_wall *wall;
static stint_account *account;

static int give(void *arg, void **value)
{
    *value = arg;
    return 0;
}

static int give_next(const stint_outcome *before, void *arg, void **value)
{
    (void)before;
    return give(arg, value);
}

static int echo(const void *input, size_t size, stint_reply *reply)
{
    return stint_reply_write(reply, input, size);
}

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000 * MS + (uint64_t)time.tv_nsec;
}

/* A task that was submitted resolves, as Ok or as an Error. While everything of a kind fails without end, such as the
 * template's poll, a task may have to wait; but not longer. */
static stint_outcome take(stint_future *future)
{
    stint_outcome outcome = { .status = STINT_ERROR };
    int error = call(stint_future_wait_for)(future, 2000 * MS, &outcome);
    if (error != 0) {
        require(may_be_said(error));
        atomic_store(&shared->faults.is_armed, false);
        error = stint_future_wait_for(future, PATIENCE, &outcome);
    }
    require(error == 0);
    require(outcome.status == STINT_OK || atomic_load(&shared->kind) != FAULT_COUNT);
    require(outcome.status != STINT_OK || outcome.error == 0);
    call(stint_future_release)(future);
    return outcome;
}

/* --- Scenarios ---------------------------------------------------------------------------------------------------- */

static void run_tasks(void)
{
    stint_outcome outcome;
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.wall_ns = 60000 * MS;
    options.budget.memory = (size_t)64 << 20;
    options.account = account;
    options.name = "a task";
    if (succeeded(call(stint_run)(give, &outcome, NULL, &outcome)))
        require(outcome.status == STINT_OK ? outcome.value == &outcome : outcome.error != 0);
    if (succeeded(call(stint_run)(give, &outcome, &options, &outcome)))
        require(outcome.status == STINT_OK ? outcome.value == &outcome : outcome.error != 0);
}

static int allocate_all_ways(void *unused, void **value)
{
    void *block = NULL;
    (void)unused;
    (void)value;
    stint_usage used;
    stint_budget left;
    int error = call(stint_usage_now)(&used, &left);
    void *blocks[] = { call(stint_malloc)(100),
                       call(stint_calloc)(10, 10),
                       call(stint_realloc)(NULL, 100),
                       call(stint_reallocarray)(NULL, 10, 10),
                       call(stint_aligned_alloc)(64, 128),
                       call(stint_strdup)("text"),
                       call(stint_strndup)("text", 2),
                       call(stint_result_malloc)(100),
                       call(stint_result_calloc)(10, 10),
                       call(stint_result_realloc)(NULL, 100),
                       call(stint_result_strdup)("text"),
                       malloc(100000),
                       malloc(10000000) };
    if (call(stint_posix_memalign)(&block, 64, 100) == 0)
        call(stint_free)(block);
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        if (blocks[i] != NULL)
            memset(blocks[i], 1, call(stint_malloc_usable_size)(blocks[i]) / 2);
    }
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        call(stint_free)(blocks[i]);
    for (int i = 0; i < 400; i++)
        stint_free(stint_malloc(300));
    void *pages = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages != MAP_FAILED) {
        mprotect(pages, 4096, PROT_READ);
        munmap(pages, 1 << 16);
    }
    return error;
}

static void allocate_in_task(void)
{
    stint_outcome outcome;
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.memory = (size_t)64 << 20;
    if (succeeded(call(stint_run)(allocate_all_ways, NULL, &options, &outcome)))
        require(outcome.status == STINT_OK || outcome.error == ENOMEM);
    call(stint_malloc_trim)(0);
}

static void allocate_outside(void)
{
    void *value;
    require(allocate_all_ways(NULL, &value) == ENOENT); /* there is no usage without a task */
}

static void note_release(void *count)
{
    (*(volatile int *)count)++;
}

static int acquire(void *arg, void **resource)
{
    *resource = stint_malloc(100);
    return arg == NULL || *resource == NULL ? ENOMEM : 0;
}

static int use(void *arg, void *resource)
{
    (void)arg;
    memset(resource, 1, 100);
    return 0;
}

static void release(void *arg, void *resource)
{
    note_release(arg);
    stint_free(resource);
}

static int hold_things(void *count, void **value)
{
    static stint_mutex mutex;
    stint_guard guard;
    stint_hook hook;
    (void)value;
    call(stint_guard_push)(&guard, note_release, count);
    int error = call(stint_hook_push)(&hook, note_release, count);
    if (error == 0)
        call(stint_hook_pop)(&hook);
    call(stint_mask)();
    call(stint_checkpoint)();
    call(stint_unmask)();
    call(stint_keep_begin)();
    free(malloc(100));
    call(stint_keep_end)();
    call(stint_is_interrupted)();
    if (error == 0)
        error = call(stint_mutex_init)(&mutex);
    if (error == 0) {
        error = call(stint_mutex_lock)(&mutex);
        if (error == 0)
            call(stint_mutex_unlock)(&mutex);
        if (call(stint_mutex_trylock)(&mutex) == 0)
            stint_mutex_unlock(&mutex);
        call(stint_mutex_destroy)(&mutex);
    }
    if (error == 0)
        error = call(stint_with)(acquire, use, release, count);
    call(stint_guard_pop)(&guard, true);
    return error;
}

static void hold_in_task(void)
{
    volatile int count = 0;
    stint_outcome outcome;
    if (!succeeded(call(stint_run)(hold_things, (void *)(uintptr_t)&count, NULL, &outcome)))
        return;
    require(outcome.status != STINT_OK || count == 2);
    require(count >= 1); /* the guard has run, whatever has failed */
}

static int loop(void *arg, void **value)
{
    (void)arg;
    (void)value;
    for (;;)
        stint_checkpoint();
    return 0;
}

static int loop_outside(void *arg, void **value)
{
    (void)arg;
    (void)value;
    for (;;)
        __asm__ volatile("");
    return 0;
}

/* Whatever fails, a limit of time holds, or the call says that it cannot. */
static void stop_in_time(void)
{
    stint_outcome outcome;
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.wall_ns = 3 * MS;
    if (succeeded(call(stint_run)(loop, NULL, &options, &outcome)))
        require(outcome.status == STINT_ERROR);
}

static void stop_preempted(void)
{
    stint_outcome outcome;
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.wall_ns = 3 * MS;
    options.preemptible = true;
    if (succeeded(call(stint_run)(loop_outside, NULL, &options, &outcome)))
        require(outcome.status == STINT_ERROR);
}

static int fail_with_payload(void *arg, void **value)
{
    (void)value;
    call(stint_task_name)();
    return call(stint_fail)(1234, arg, 100);
}

static int fail_as_thrown(void *arg, void **value)
{
    (void)arg;
    (void)value;
    return call(stint_fail_thrown_)(1234, "what it says");
}

static void fail_tasks(void)
{
    static const char payload[100];
    stint_outcome outcome;
    if (succeeded(call(stint_run)(fail_as_thrown, NULL, NULL, &outcome)))
        require(outcome.status == STINT_ERROR);
    if (!succeeded(call(stint_run)(fail_with_payload, (void *)(uintptr_t)payload, NULL, &outcome)))
        return;
    require(outcome.status == STINT_ERROR);
    free((void *)(uintptr_t)outcome.payload);
    require(call(stint_finish)()); /* there is nothing to be interrupted */
}

static void report_run(void)
{
    stint_report *report = NULL;
    stint_outcome outcome;
    stint_options options = STINT_OPTIONS_INIT;
    options.report = STINT_REPORT_HEAP;
    options.budget.memory = 1 << 20;
    options.sample_rate = 0.01;
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (succeeded(
            call(stint_run_reported)(fail_with_payload, (void *)(uintptr_t)kind_names, &options, &outcome, &report)))
        free((void *)(uintptr_t)outcome.payload);
    for (int kind = STINT_REPORT_TEXT; report != NULL && kind <= STINT_REPORT_PPROF; kind++)
        succeeded(call(stint_report_write)(report, null, (stint_report_kind)kind));
    call(stint_report_release)(call(stint_report_retain)(report));
    stint_report_release(report);
    close(null);
}

static void make_pools(void)
{
    stint_pool *made = NULL;
    stint_pool_options options = STINT_POOL_OPTIONS_INIT;
    options.workers = 2;
    options.overdue_ns = 1000 * MS;
    options.pinned = true;
    if (!succeeded(call(stint_pool_create)(&options, &made))) {
        require(made == NULL);
        return;
    }
    require(call(stint_pool_workers)(made) == 2);
    int error;
    while ((error = call(stint_pool_shutdown)(made, STINT_SHUTDOWN_DRAIN, STINT_FOREVER)) != 0)
        succeeded(error);
    error = call(stint_pool_destroy)(made);
    require(error == 0);
    if (succeeded(stint_pool_create(&options, &made))) {
        unsigned left = 1;
        require(call(stint_pool_destroy_within)(made, PATIENCE, &left) == 0);
    }
}

static void submit_tasks(void)
{
    stint_future *future = NULL;
    stint_token *token = NULL;
    stint_options options = STINT_OPTIONS_INIT;
    options.account = account;
    options.priority = STINT_PRIORITY_HIGH;
    if (succeeded(call(stint_submit)(pool, give, NULL, NULL, &future)))
        take(future);
    succeeded(call(stint_token_create)(NULL, &token));
    options.token = token;
    if (succeeded(call(stint_submit_wait)(pool, give, NULL, &options, PATIENCE, &future)))
        take(future);
    if (succeeded(stint_submit(pool, fail_with_payload, (void *)(uintptr_t)kind_names, &options, &future))) {
        stint_usage usage;
        stint_report *report = NULL;
        const stint_budget budget = { .wall_ns = PATIENCE };
        int error = call(stint_future_set_budget)(future, &budget);
        require(error == 0 || error == EALREADY || may_be_said(error));
        require(call(stint_future_usage)(future, &usage) == 0);
        call(stint_future_release)(call(stint_future_retain)(future));
        call(stint_future_wait_for)(future, PATIENCE, NULL);
        error = call(stint_future_report)(future, &report);
        require(error == ENODATA || may_be_said(error)); /* none was asked for */
        stint_report_release(report);
        stint_future_release(future);
    }
    stint_token_release(token);
}

static int wait_inside(void *arg, void **value)
{
    stint_future *future = NULL;
    stint_outcome outcome;
    int error = stint_submit(pool, give, arg, NULL, &future);
    if (error == 0) {
        error = stint_future_wait(future, &outcome);
        stint_future_release(future);
    }
    *value = arg;
    return error;
}

static void wait_in_tasks(void)
{
    stint_future *future;
    note_called("stint_future_wait");
    if (succeeded(stint_submit(pool, wait_inside, pool, NULL, &future)))
        take(future);
    for (int i = 0; i < 2; i++) {
        if (succeeded(stint_submit(pool, give, NULL, NULL, &future))) {
            int error;
            while ((error = call(stint_future_wait)(future, NULL)) != 0)
                succeeded(error);
            require(call(stint_future_is_ready)(future));
            stint_future_release(future);
        }
    }
}

static int sleep_outside(void *arg, void **value)
{
    (void)arg;
    (void)value;
    stint_blocking_begin();
    usleep(100);
    stint_blocking_end();
    return stint_pool_current() == pool ? 0 : EDOM;
}

static void block_tasks(void)
{
    stint_future *futures[3];
    note_called("stint_blocking_begin");
    note_called("stint_blocking_end");
    note_called("stint_pool_current");
    int count = 0;
    for (int i = 0; i < 3; i++)
        count += succeeded(stint_submit(pool, sleep_outside, NULL, NULL, &futures[count]));
    while (count > 0)
        require(take(futures[--count]).error != EDOM);
}

static void count_call(stint_future *future, const stint_outcome *outcome, void *count)
{
    (void)future;
    (void)outcome;
    atomic_fetch_add((atomic_uint *)count, 1);
}

static void follow_futures(void)
{
    atomic_uint calls = 0;
    unsigned expected = 0;
    stint_continuation continuation;
    stint_future *future = NULL, *all = NULL, *any = NULL, *next = NULL;
    size_t index;
    if (!succeeded(stint_submit(pool, give, NULL, NULL, &future)))
        return;
    expected += succeeded(call(stint_future_then)(future, count_call, &calls));
    if (succeeded(call(stint_when_all)(&future, 1, &all)))
        take(all);
    if (succeeded(call(stint_when_any)(&future, 1, &any))) {
        require(stint_future_wait_for(any, PATIENCE, NULL) == 0);
        require(call(stint_when_any_index)(any, &index) == 0 && index == 0);
        stint_future_release(any);
    }
    if (succeeded(call(stint_future_then_submit)(future, pool, give_next, NULL, NULL, &next)))
        take(next);
    expected += succeeded(call(stint_future_add_continuation)(future, &continuation, count_call, &calls));
    int error = call(stint_future_remove_continuation)(future, &continuation);
    require(error != EINVAL);
    expected -= error == 0;
    call(stint_future_cancel)(future);
    take(future);
    for (int i = 0; i < 20000 && atomic_load(&calls) < expected; i++)
        usleep(1000);
    require(atomic_load(&calls) == expected);
}

static void complete(void)
{
    stint_completions *queue = NULL;
    stint_completion read[4];
    size_t count, expected = 0, seen = 0;
    stint_future *future;
    stint_options options = STINT_OPTIONS_INIT;
    if (!succeeded(call(stint_completions_create)(&queue))) {
        require(queue == NULL);
        return;
    }
    require(call(stint_completions_fd)(queue) >= 0);
    options.completions = queue;
    if (succeeded(stint_submit(pool, give, NULL, &options, &future))) {
        expected++;
        expected += succeeded(call(stint_completions_add)(queue, future, NULL));
        take(future);
    }
    for (int i = 0; i < 20000 && seen < expected; i++) {
        require(call(stint_completions_read)(queue, read, 4, &count) == 0);
        seen += count;
        usleep(count == 0 ? 1000 : 0);
    }
    require(seen == expected);
    call(stint_completions_destroy)(queue);
}

static void group_tasks(void)
{
    stint_group *group = NULL;
    stint_future *future = NULL, *idle = NULL;
    if (!succeeded(call(stint_group_create)(&group))) {
        require(group == NULL);
        return;
    }
    succeeded(call(stint_group_submit)(group, pool, give, NULL, NULL));
    if (succeeded(stint_submit(pool, give, NULL, NULL, &future))) {
        succeeded(call(stint_group_add)(group, future));
        take(future);
    }
    if (succeeded(call(stint_group_when_idle)(group, &idle)))
        take(idle);
    call(stint_group_cancel)(group);
    if (!succeeded(call(stint_group_wait_for)(group, PATIENCE, NULL)) ||
        !succeeded(call(stint_group_wait)(group, NULL))) {
        atomic_store(&shared->faults.is_armed, false); /* or there may never be memory to wait with */
        require(call(stint_group_wait_for)(group, PATIENCE, NULL) == 0);
        require(call(stint_group_wait)(group, NULL) == 0);
    }
    call(stint_group_release)(group);
}

static void run_later(void)
{
    static int once;
    stint_future *future = NULL;
    stint_serial *serial = NULL;
    if (succeeded(call(stint_submit_at)(pool, give, NULL, NULL, now() + MS, &future)))
        take(future);
    if (succeeded(call(stint_submit_every)(pool, give, &once, NULL, now() + MS, MS, &future)))
        take(future);
    if (succeeded(call(stint_serial_create)(pool, 0, &serial))) {
        if (succeeded(call(stint_serial_submit)(serial, give, NULL, NULL, &future)))
            take(future);
        call(stint_serial_release)(serial);
    }
}

static void keep_accounts(void)
{
    stint_account *made = NULL, *below = NULL;
    stint_account_limits limits = STINT_ACCOUNT_LIMITS_INIT;
    stint_account_usage usage = STINT_ACCOUNT_USAGE_INIT;
    limits.running = 2;
    if (!succeeded(call(stint_account_create)(NULL, &limits, &made)))
        return;
    succeeded(call(stint_account_create)(made, NULL, &below));
    require(call(stint_account_name)(made) != NULL);
    require(call(stint_account_set_limits)(made, &limits) == 0);
    require(call(stint_account_read)(made, &usage) == 0);
    call(stint_account_release)(call(stint_account_retain)(made));
    stint_account_release(below);
    stint_account_release(made);
}

static void forget(void *value)
{
    (void)value;
}

static void set_tokens(void)
{
    stint_token *token = NULL;
    stint_context *context = NULL;
    int fd = -1;
    if (succeeded(call(stint_token_create)(NULL, &token))) {
        if (succeeded(call(stint_token_fd)(token, &fd)))
            require(fd >= 0);
        call(stint_token_set)(token);
        require(call(stint_token_is_set)(token));
        call(stint_token_release)(call(stint_token_retain)(token));
        stint_token_release(token);
    }
    if (succeeded(call(stint_context_create)(&fd, forget, &context))) {
        require(call(stint_context_value)(context) == &fd);
        call(stint_context_current)();
        call(stint_context_release)(call(stint_context_retain)(context));
        stint_context_release(context);
    }
}

static int add_up(size_t begin, size_t end, void *accumulator, void *unused)
{
    (void)unused;
    *(size_t *)accumulator += end - begin;
    return 0;
}

static void combine(void *accumulator, const void *behind, void *unused)
{
    (void)unused;
    *(size_t *)accumulator += *(const size_t *)behind;
}

static int count_range(size_t begin, size_t end, void *sum)
{
    atomic_fetch_add((atomic_size_t *)sum, end - begin);
    return 0;
}

static int compare(const void *one, const void *other, void *unused)
{
    (void)unused;
    return *(const int *)one - *(const int *)other;
}

STINT_FORKABLE(fibonacci, long, int)

static long fibonacci(stint_here here, int n)
{
    struct fibonacci_subtask left;
    long first = 0;
    if (n < 2)
        return n;
    fibonacci_fork(here, &left, n - 1);
    long second = fibonacci(here, n - 2);
    return fibonacci_join(here, &left, &first) == 0 ? first + second : -100000;
}

static int fork_things(void *unused, void **value)
{
    atomic_size_t sum = 0;
    size_t total = 0;
    int numbers[500];
    stint_subtask one, dropped;
    const stint_reduction reduction = { sizeof total, NULL, add_up, combine };
    (void)unused;
    (void)value;
    for (int i = 0; i < 500; i++)
        numbers[i] = i * 7919 % 500;
    int error = stint_for(0, 1000, 10, count_range, &sum);
    if (error == 0 && sum != 1000)
        return EDOM;
    if (error == 0)
        error = stint_reduce(0, 1000, 10, &reduction, NULL, &total);
    if (error == 0 && total != 1000)
        return EDOM;
    if (error == 0)
        error = stint_sort(numbers, 500, sizeof *numbers, compare, NULL);
    for (int i = 0; error == 0 && i < 500; i++)
        error = numbers[i] == i ? 0 : EDOM;
    stint_fork(&one, give, NULL);
    stint_fork(&dropped, give, NULL);
    stint_fork_drop(&dropped);
    int joined = stint_join(&one, NULL);
    long result = fibonacci(stint_here_current(), 15);
    if (result > 0 && result != 610)
        return EDOM;
    return error != 0 ? error : joined;
}

static void fork_in_tasks(void)
{
    static const char *const names[] = { "stint_for",
                                         "stint_reduce",
                                         "stint_sort",
                                         "stint_fork_drop",
                                         "stint_thread_forks_",
                                         "stint_fork_slow_",
                                         "stint_join_slow_",
                                         "stint_fork_slot_slow_",
                                         "stint_fork_push_slow_",
                                         "stint_join_typed_slow_" };
    stint_future *future;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        note_called(names[i]);
    void *value;
    if (succeeded(stint_submit(pool, fork_things, NULL, NULL, &future)))
        require(take(future).error != EDOM);
    succeeded(fork_things(NULL, &value));
}

static bool see(const stint_task_view *view, void *arg)
{
    (void)view;
    (void)arg;
    return true;
}

static void heed(const stint_warning *warning, void *arg)
{
    (void)warning;
    (void)arg;
}

static void heed_root(const stint_root *root, void *arg)
{
    (void)root;
    (void)arg;
}

static void heed_global(const stint_global_event *event, void *arg)
{
    (void)event;
    (void)arg;
}

static void look_at_all(void)
{
    stint_pool_statistics statistics = STINT_POOL_STATISTICS_INIT;
    stint_worker_statistics worker = STINT_WORKER_STATISTICS_INIT;
    stint_link_report link = STINT_LINK_REPORT_INIT;
    require(call(stint_pool_read)(pool, &statistics) == 0);
    require(call(stint_pool_read_worker)(pool, 0, &worker) == 0);
    succeeded(call(stint_pool_visit)(pool, see, NULL));
    succeeded(call(stint_link_check)(&link));
    require(call(stint_version)()[0] != '\0' && call(stint_backend_version)() > 30000);
    require(call(stint_malloc_is_overridden)());
    require(call(stint_status_name)(STINT_OK)[0] != '\0' && call(stint_reason_name)(STINT_REASON_CPU)[0] != '\0');
    require(call(stint_deferral_name)(STINT_DEFERRAL_LOCK)[0] != '\0');
    succeeded(call(stint_roots_set_scan)(STINT_ROOT_SCAN_ALWAYS));
    call(stint_roots_set_report)(heed_root, NULL);
    call(stint_roots_kept_bytes)();
    bool is_limited = succeeded(call(stint_global_set_memory_limit)((size_t)1 << 40));
    require((call(stint_global_memory_limit)() > 0) == is_limited);
    succeeded(call(stint_global_set_warning)(90));
    call(stint_global_set_report)(heed_global, NULL);
    succeeded(call(stint_global_set_memory_limit)(0));
    succeeded(call(stint_warnings_set)(heed, NULL));
    succeeded(call(stint_module_protect)("libnone"));
    succeeded(call(stint_module_allow)("libnothing"));
    int error = call(stint_module_keep)("libm");
    require(error == ENOENT || may_be_said(error)); /* it need not be there */
    static stint_mutex mutex;
    call(stint_mutex_consistent)(&mutex);
}

static void write_metrics(void)
{
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    succeeded(call(stint_metrics_write)(null));
    close(null);
}

static void *sample(const stint_memprof_allocation *allocation, void *arg)
{
    (void)allocation;
    return arg;
}

static void profile(void)
{
    stint_profile_totals totals = STINT_PROFILE_TOTALS_INIT;
    stint_profile_options options = { .size = sizeof options, .rate = 0.01, .callstack_depth = 16 };
    stint_memprof_options memprof = { .size = sizeof memprof, .rate = 0.01, .callstack_depth = 4, .arg = &totals };
    memprof.tracker.alloc = sample;
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    void *blocks[50];
    if (succeeded(call(stint_profile_start)(&options))) {
        for (int i = 0; i < 50; i++)
            blocks[i] = stint_malloc(1000);
        succeeded(call(stint_profile_read)(&totals));
        for (int kind = 0; kind <= STINT_PROFILE_COLLAPSED; kind++)
            succeeded(call(stint_profile_write)(null, (stint_profile_kind)kind));
        require(call(stint_profile_stop)() == 0);
        for (int i = 0; i < 50; i++)
            stint_free(blocks[i]);
    }
    if (succeeded(call(stint_memprof_start)(&memprof))) {
        for (int i = 0; i < 50; i++)
            stint_free(stint_malloc(1000));
        require(call(stint_memprof_stop)() == 0);
    }
    close(null);
}

static void trace(void)
{
    stint_future *future;
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (succeeded(call(stint_trace_start)(null))) {
        if (succeeded(stint_submit(pool, give, NULL, NULL, &future)))
            take(future);
        succeeded(call(stint_trace_stop)());
    }
    close(null);
}

static int reply_all_ways(const void *input, size_t size, stint_reply *reply)
{
    void *room = stint_reply_reserve(reply, 100);
    (void)input;
    (void)size;
    if (room == NULL)
        return errno;
    memset(room, 1, 100);
    return stint_reply_size(reply) == 100 && stint_reply_fd(reply, 0) >= 0 ? 0 : EDOM;
}

static void run_walled(void)
{
    static const char *const names[] = { "stint_reply_write", "stint_reply_reserve", "stint_reply_size",
                                         "stint_reply_fd" };
    stint_future *future;
    stint_outcome outcome;
    stint_options options = STINT_OPTIONS_INIT;
    stint_wall_call walled = STINT_WALL_CALL_INIT;
    stint_wall_statistics statistics = STINT_WALL_STATISTICS_INIT;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        note_called(names[i]);
    options.account = account;
    options.budget.memory = (size_t)16 << 20;
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (succeeded(call(stint_submit_walled)(pool, wall, echo, "on", 2, &options, &future))) {
        outcome = take(future);
        free(outcome.value);
    }
    walled.fn = reply_all_ways;
    walled.fds = &null;
    walled.fd_count = 1;
    if (succeeded(call(stint_submit_walled_call)(pool, wall, &walled, NULL, &future))) {
        outcome = take(future);
        require(outcome.error != EDOM);
        free(outcome.value);
    }
    require(call(stint_wall_read)(wall, &statistics) == 0);
    close(null);
}

static int set_up(void *arg)
{
    (void)arg;
    return 0;
}

/* Without a pool and a wall: it needs a process with one thread. */
static void make_walls(void)
{
    stint_wall *made = NULL;
    char message[512] = "";
    const stint_wall_path path = { .path = "/tmp" };
    stint_wall_options options = STINT_WALL_OPTIONS_INIT;
    options.message = message;
    options.message_size = sizeof message;
    options.setup = set_up;
    options.spare = 1;
    options.children = 1;
    options.paths = &path;
    options.path_count = 1;
    int error = call(stint_wall_create)(&options, &made);
    if (!succeeded(error)) {
        require(made == NULL);
        return;
    }
    require(call(stint_wall_destroy)(made) == 0);
    const stint_wall_entry entry = { "echo", echo };
    require(call(stint_wall_serve)(&entry, 1) == ENOTCONN);
}

/* One made from a program that is no template ends without leaving anything, too. */
static void make_program_walls(void)
{
    stint_wall *made = NULL;
    stint_wall_options options = STINT_WALL_OPTIONS_INIT;
    options.program = "/bin/true";
    options.sandbox = STINT_WALL_OPEN;
    require(stint_wall_create(&options, &made) != 0 && made == NULL);
}

static const struct scenario {
    const char *name;
    void (*run)(void);
    bool is_alone; /* without a pool, a wall, and threads */
} scenarios[] = {
    { "run", run_tasks, false },
    { "allocate_in_task", allocate_in_task, false },
    { "allocate_outside", allocate_outside, false },
    { "hold", hold_in_task, false },
    { "stop_in_time", stop_in_time, false },
    { "stop_preempted", stop_preempted, false },
    { "fail", fail_tasks, false },
    { "report", report_run, false },
    { "pool", make_pools, false },
    { "submit", submit_tasks, false },
    { "wait", wait_in_tasks, false },
    { "block", block_tasks, false },
    { "follow", follow_futures, false },
    { "complete", complete, false },
    { "group", group_tasks, false },
    { "later", run_later, false },
    { "account", keep_accounts, false },
    { "token", set_tokens, false },
    { "fork", fork_in_tasks, false },
    { "look", look_at_all, false },
    { "metrics", write_metrics, false },
    { "profile", profile, false },
    { "trace", trace, false },
    { "walled", run_walled, false },
    { "make_walls", make_walls, true },
    { "make_program_walls", make_program_walls, true },
};

#define SCENARIOS (sizeof scenarios / sizeof *scenarios)

/* --- What is left ------------------------------------------------------------------------------------------------- */

struct left {
    uint64_t records;
    unsigned descriptors, processes;
    long mapped;
};

static uint64_t first_record;

static unsigned count_lines(const char *path)
{
    char text[16384];
    unsigned count = 0;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = file >= 0 ? read(file, text, sizeof text) : 0;
    for (ssize_t i = 0; i < size; i++)
        count += text[i] == ' ';
    close(file);
    return count;
}

static unsigned count_descriptors(void)
{
    unsigned count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) != -1;
    return count;
}

/* Only this process's first thread forks. */
static struct left look(void)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/children", getpid());
    return (struct left){ live_since(first_record), count_descriptors(), count_lines(path), faults_mapped() };
}

static bool is_more(struct left left, struct left before)
{
    return left.records > before.records || left.descriptors > before.descriptors ||
           left.processes > before.processes || left.mapped > before.mapped;
}

/* Threads give back what they have some time after all else has ended. */
static struct left look_until(struct left before, unsigned ms)
{
    struct left left = look();
    for (unsigned i = 0; i < ms && is_more(left, before); i++) {
        usleep(1000);
        left = look();
    }
    return left;
}

/* --- Usable still
 * -------------------------------------------------------------------------------------------------- */

static void begin_all(void)
{
    stint_wall_options options = STINT_WALL_OPTIONS_INIT;
    stint_pool_options two = STINT_POOL_OPTIONS_INIT;
    stint_account_limits limits = STINT_ACCOUNT_LIMITS_INIT;
    options.children = 1;
    two.workers = 2;
    two.substitutes = 2;
    limits.memory = (size_t)1 << 40;
    limits.running = 8;
    require(stint_wall_create(&options, &wall) == 0);
    require(stint_pool_create(&two, &pool) == 0);
    require(stint_account_create(NULL, &limits, &account) == 0);
}

static void end_all(void)
{
    require(stint_pool_destroy(pool) == 0);
    require(stint_wall_destroy(wall) == 0);
    stint_account_release(account);
}

static void check_usable(void)
{
    stint_future *future;
    stint_outcome outcome;
    stint_options options = STINT_OPTIONS_INIT;
    stint_account_usage usage = STINT_ACCOUNT_USAGE_INIT;
    options.account = account;
    require(stint_run(give, &outcome, NULL, &outcome) == 0 && outcome.status == STINT_OK);
    require(stint_submit(pool, wait_inside, pool, &options, &future) == 0);
    require(stint_future_wait_for(future, PATIENCE, &outcome) == 0);
    require(outcome.status == STINT_OK && outcome.value == pool);
    stint_future_release(future);
    require(stint_submit_walled(pool, wall, echo, "on", 2, &options, &future) == 0);
    require(stint_future_wait_for(future, PATIENCE, &outcome) == 0);
    if (outcome.status != STINT_OK)
        fprintf(stderr, "walled: %s %d %s\n", stint_reason_name(outcome.reason), outcome.error, outcome.message);
    require(outcome.status == STINT_OK && outcome.payload_size == 2);
    stint_free(outcome.value);
    stint_future_release(future);
    require(stint_account_read(account, &usage) == 0);
    require(usage.running == 0 && usage.waiting == 0 && usage.memory == 0);
}

/* --- Running them
 * -------------------------------------------------------------------------------------------------- */

static void run_once(const struct scenario *scenario, int kind, unsigned long number, bool for_ever)
{
    struct faults *faults = &shared->faults;
    atomic_store(&shared->kind, kind);
    atomic_store(&shared->number, number);
    atomic_store(&shared->for_ever, for_ever);
    for (int i = 0; i < FAULT_COUNT; i++)
        atomic_store(&faults->calls[i], 0);
    atomic_store(&faults->kind, kind);
    atomic_store(&faults->number, number);
    atomic_store(&faults->for_ever, for_ever);
    atomic_store(&faults->uses_other, for_ever || number % 2 == 0);
    atomic_store(&faults->failed, 0);
    alarm(HANGS_AFTER);
    atomic_store(&faults->is_armed, true);
    scenario->run();
    atomic_store(&faults->is_armed, false);
    if (!scenario->is_alone) {
        check_usable();
    } else if (kind != FAULT_COUNT) {
        begin_all();
        check_usable();
        end_all();
    }
    alarm(0);
}

/* What is left once may be a cache; what is left each time is lost. */
static void check_nothing_left(const struct scenario *scenario, struct left *before, int kind, unsigned long number,
                               bool for_ever)
{
    struct left left = look_until(*before, 300);
    for (unsigned again = 0; is_more(left, *before); again++) {
        if (again == 3) {
            fprintf(stderr, "left each time: records %ld, descriptors %d, processes %d, bytes mapped %ld\n",
                    (long)(left.records - before->records), (int)(left.descriptors - before->descriptors),
                    (int)(left.processes - before->processes), left.mapped - before->mapped);
            live_tell(first_record);
            _exit(3);
        }
        *before = left;
        run_once(scenario, kind, number, for_ever);
        left = look_until(*before, 1500);
    }
}

static void try_one(const struct scenario *scenario, struct left *before, int kind, unsigned long number, bool for_ever)
{
    run_once(scenario, kind, number, for_ever);
    unsigned long failed = atomic_load(&shared->faults.failed);
    atomic_fetch_add(&shared->tries, failed > 0);
    atomic_fetch_add(&shared->failures, failed);
    atomic_fetch_add(&shared->by_kind[kind], failed > 0);
    check_nothing_left(scenario, before, kind, number, for_ever);
}

/* No process can be waited for, nor a loop without sample points be stopped, where it is refused without end. */
static bool may_fail_for_ever(const struct scenario *scenario, int kind)
{
    return kind != FAULT_WAIT && (kind != FAULT_SIGNAL || scenario->run != stop_preempted);
}

/* In a process of its own: from this kind and number on. */
static void run_scenario(const struct scenario *scenario, int only, int kind, unsigned long number, bool for_ever)
{
    unsigned long calls[FAULT_COUNT];
    atomic_store(&shared->faults.is_armed, false);
    atomic_store(&shared->kind, kind);
    atomic_store(&shared->number, number);
    atomic_store(&shared->for_ever, for_ever);
    if (!scenario->is_alone)
        begin_all();
    first_record = live_number();
    run_once(scenario, FAULT_COUNT, 0, false);
    run_once(scenario, FAULT_COUNT, 0, false);
    /* From here on with this or that failing. */
    for (int i = 0; i < FAULT_COUNT; i++)
        calls[i] = atomic_load(&shared->faults.calls[i]);
    /* The first time does more, such as starting threads: so its calls are counted in a fresh process, too. */
    struct left before = look();
    for (; kind < FAULT_COUNT; kind++, number = 1, for_ever = false) {
        if (only >= 0 && kind != only)
            continue;
        unsigned long last = most == 0 || calls[kind] < most ? calls[kind] : most;
        for (; number <= last; number++, for_ever = false) {
            if (!for_ever)
                try_one(scenario, &before, kind, number, false);
            if (may_fail_for_ever(scenario, kind))
                try_one(scenario, &before, kind, number, true);
        }
    }
    atomic_store(&shared->kind, FAULT_COUNT);
    if (!scenario->is_alone)
        end_all();
    _exit(0);
}

/* The first run of a process, with the number-th call failing: what is made once is made then. */
static void run_cold(const struct scenario *scenario, int kind, unsigned long number)
{
    atomic_store(&shared->faults.is_armed, false);
    if (!scenario->is_alone)
        begin_all();
    first_record = live_number();
    run_once(scenario, kind, number, false);
    atomic_fetch_add(&shared->tries, atomic_load(&shared->faults.failed) > 0);
    atomic_fetch_add(&shared->by_kind[kind], atomic_load(&shared->faults.failed) > 0);
    bool has_failed = atomic_load(&shared->faults.failed) > 0;
    if (!scenario->is_alone)
        end_all();
    _exit(has_failed ? 0 : 4);
}

/* 0; 4: the call that was to fail was not reached; else it went wrong, which is told. */
static int await_child(pid_t child)
{
    int status;
    while (waitpid(child, &status, 0) != child)
        ;
    if (WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 4))
        return WEXITSTATUS(status);
    if (WIFSIGNALED(status))
        fprintf(stderr, "%s\n", WTERMSIG(status) == SIGALRM ? "it hangs" : strsignal(WTERMSIG(status)));
    tell_where();
    return 1;
}

static unsigned try_scenario(const struct scenario *scenario, int only)
{
    unsigned wrong = 0;
    int kind = 0;
    unsigned long number = 1;
    bool for_ever = false;
    scenario_name = scenario->name;
    for (;;) {
        pid_t child = fork();
        if (child == 0)
            run_scenario(scenario, only, kind, number, for_ever);
        if (await_child(child) == 0)
            break;
        wrong++;
        kind = atomic_load(&shared->kind);
        number = atomic_load(&shared->number) + (atomic_load(&shared->for_ever) ? 1 : 0);
        for_ever = !atomic_load(&shared->for_ever);
        if (kind == FAULT_COUNT)
            return wrong; /* it goes wrong by itself */
    }
    for (kind = 0; most != 1 && kind < FAULT_COUNT; kind++) {
        int result = 0;
        for (number = 1; result != 4 && (most == 0 || number <= most) && (only < 0 || kind == only); number++) {
            pid_t child = fork();
            if (child == 0)
                run_cold(scenario, kind, number);
            result = await_child(child);
            wrong += result == 1;
        }
    }
    return wrong;
}

/* --- Whether all are called
 * ---------------------------------------------------------------------------------------- */

static bool is_called(const char *name)
{
    for (unsigned i = 0; i < atomic_load(&shared->functions); i++) {
        if (strcmp(shared->called[i], name) == 0)
            return true;
    }
    return false;
}

static unsigned count_uncalled(void)
{
    Dl_info info;
    struct stat status;
    unsigned uncalled = 0, all = 0;
    require(dladdr((const void *)(uintptr_t)stint_version, &info) != 0);
    int file = open(info.dli_fname, O_RDONLY | O_CLOEXEC);
    require(file >= 0 && fstat(file, &status) == 0);
    const char *image = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    require(image != MAP_FAILED);
    const ElfW(Ehdr) *header = (const void *)image;
    const ElfW(Shdr) *sections = (const void *)(image + header->e_shoff);
    for (size_t i = 0; i < header->e_shnum; i++) {
        if (sections[i].sh_type != SHT_DYNSYM)
            continue;
        const ElfW(Sym) *symbols = (const void *)(image + sections[i].sh_offset);
        const char *names = image + sections[sections[i].sh_link].sh_offset;
        for (size_t k = 0; k < sections[i].sh_size / sizeof *symbols; k++) {
            const char *name = names + symbols[k].st_name;
            if (symbols[k].st_shndx == SHN_UNDEF || strncmp(name, "stint_", 6) != 0)
                continue;
            all++;
            if (!is_called(name)) {
                fprintf(stderr, "%s has no scenario\n", name);
                uncalled++;
            }
        }
    }
    require(all > 100);
    printf("%u public functions\n", all);
    return uncalled;
}

int main(int argc, char **argv)
{
    unsigned wrong = 0;
    int only = -1;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    require(shared != MAP_FAILED);
    most = argc > 1 ? strtoul(argv[1], NULL, 10) : most;
    most = most > 0 ? repeats((unsigned)most) : 0;
    for (int i = 0; argc > 3 && i < FAULT_COUNT; i++)
        only = strcmp(argv[3], kind_names[i]) == 0 ? i : only;
    faults_use(&shared->faults);
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t i = 0; i < SCENARIOS; i++) {
        if (argc > 2 && strcmp(argv[2], scenarios[i].name) != 0)
            continue;
        unsigned long tries = atomic_load(&shared->tries);
        uint64_t begin = now();
        unsigned here = try_scenario(&scenarios[i], only);
        printf("%-20s %6lu calls failed, %u went wrong, %.1f s\n", scenarios[i].name,
               atomic_load(&shared->tries) - tries, here, (double)(now() - begin) / 1e9);
        wrong += here;
    }
    if (argc <= 2)
        wrong += count_uncalled();
    for (int i = 0; i < FAULT_COUNT; i++)
        printf("%-20s %6lu\n", kind_names[i], atomic_load(&shared->by_kind[i]));
    printf("%lu runs with a failed call, %lu errors said, %u went wrong\n", atomic_load(&shared->tries),
           atomic_load(&shared->errors_said), wrong);
    return wrong != 0;
}
