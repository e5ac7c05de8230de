/* SPDX-License-Identifier: MIT
 *
 * stint_pool_visit: where it says that running tasks are, whatever they are in the midst of, and that being asked
 * changes nothing for them. */
#include "pools.h"

#include <alloca.h>
#include <dlfcn.h>
#include <signal.h>
#include <ucontext.h>

#define DEPTH 64

/* What was said of the tasks of one name, in a visit. */
struct sought {
    const char *name;
    unsigned count;
    size_t depth;
    void *frames[DEPTH];
    bool all_in_modules;
};

static bool note(const stint_task_view *view, void *arg)
{
    struct sought *sought = arg;
    if (view->name == NULL || strcmp(view->name, sought->name) != 0)
        return true;
    sought->count++;
    sought->depth = view->depth;
    sought->all_in_modules = true;
    for (size_t i = 0; i < view->depth; i++) {
        Dl_info unused;
        sought->frames[i] = view->frames[i];
        sought->all_in_modules = sought->all_in_modules && dladdr(view->frames[i], &unused) != 0;
    }
    return true;
}

static struct sought visit(stint_pool *pool, const char *name)
{
    struct sought sought = { .name = name };
    assert_int_equal(stint_pool_visit(pool, note, &sought), 0);
    return sought;
}

/* A thread that gets no processor for a while does not answer: the next time, then. */
static struct sought find(stint_pool *pool, const char *name)
{
    struct sought sought;
    do
        sought = visit(pool, name);
    while (sought.depth == 0);
    assert_int_equal(sought.count, 1);
    assert_true(sought.all_in_modules);
    return sought;
}

/* A function in a section of its own, whose bounds the linker tells, however large a sanitizer makes it. */
#define FOUND_BY_ITS_CODE(function)                                                                                    \
    extern const char __start_text_of_##function[];                                                                    \
    extern const char __stop_text_of_##function[];                                                                     \
    static int function(void *arg, void **value);                                                                      \
    static const struct code code_of_##function = { function, __start_text_of_##function, __stop_text_of_##function }; \
    __attribute__((noinline, section("text_of_" #function))) static int function(void *arg, void **value)

struct code {
    stint_fn *function;
    const char *begin;
    const char *end;
};

/* The number of the frame; depth: it is not there. */
static size_t frame_in(const struct sought *sought, const struct code *code)
{
    size_t i = 0;
    while (i < sought->depth &&
           ((const char *)sought->frames[i] < code->begin || (const char *)sought->frames[i] > code->end))
        i++;
    return i;
}

static bool is_in(const struct sought *sought, const struct code *code)
{
    return frame_in(sought, code) < sought->depth;
}

static stint_future *submit_named(stint_pool *pool, const char *name, stint_fn *fn, void *arg)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.name = name;
    return submit(pool, fn, arg, &options);
}

/* --- Wherever it is ----------------------------------------------------------------------------------------------- */

FOUND_BY_ITS_CODE(spin)
{
    struct gate *gate = arg;
    (void)value;
    atomic_fetch_add(&gate->entered, 1);
    while (!atomic_load(&gate->open))
        ;
    return 0;
}

FOUND_BY_ITS_CODE(allocate_all_the_time)
{
    struct gate *gate = arg;
    (void)value;
    atomic_fetch_add(&gate->entered, 1);
    while (!atomic_load(&gate->open))
        stint_free(keep(stint_malloc(100)));
    return 0;
}

static int compare(const void *one, const void *other)
{
    return *(const int *)one - *(const int *)other;
}

FOUND_BY_ITS_CODE(sort_all_the_time)
{
    struct gate *gate = arg;
    int numbers[] = { 3, 1, 2, 5, 4, 9, 7 };
    (void)value;
    atomic_fetch_add(&gate->entered, 1);
    while (!atomic_load(&gate->open)) {
        numbers[3] ^= 6;
        qsort(numbers, sizeof numbers / sizeof *numbers, sizeof *numbers, compare);
    }
    return 0;
}

FOUND_BY_ITS_CODE(sleep_in_region)
{
    stint_blocking_begin();
    int error = gate_hold(arg, value);
    stint_blocking_end();
    return error;
}

TEST(a_running_task_is_shown_in_its_function_in_a_loop_in_malloc_in_libc_and_in_a_sleep)
{
    const struct code *const codes[] = { &code_of_spin, &code_of_allocate_all_the_time, &code_of_sort_all_the_time,
                                         &code_of_sleep_in_region };
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        stint_pool *pool = make_pool(.workers = 1);
        struct gate gate = { 0 };
        stint_future *future = submit_named(pool, "here", codes[i]->function, &gate);
        gate_await(&gate, 1);
        unsigned hits = 0;
        for (unsigned round = 0; round < repeats(20); round++) {
            struct sought sought = find(pool, "here");
            hits += is_in(&sought, codes[i]);
        }
        assert_true(hits >= repeats(20) - repeats(20) / 5); /* a sanitizer's own code may have no tables */
        gate_open(&gate);
        assert_ok(take(future));
        assert_int_equal(stint_pool_destroy(pool), 0);
    }
}

struct nest {
    stint_pool *pool;
    struct gate gate;
};

FOUND_BY_ITS_CODE(wait_for_inner)
{
    struct nest *nest = arg;
    (void)value;
    stint_future *inner = submit_named(nest->pool, "inner", spin, &nest->gate);
    int error = stint_future_wait(inner, NULL);
    stint_future_release(inner);
    return error;
}

TEST(a_task_that_another_runs_on_top_of_is_shown_at_its_wait_and_each_with_its_own_frames)
{
    struct nest nest = { .pool = make_pool(.workers = 1, .substitutes = STINT_NO_SUBSTITUTES) };
    stint_future *future = submit_named(nest.pool, "outer", wait_for_inner, &nest);
    gate_await(&nest.gate, 1);
    struct sought inner = find(nest.pool, "inner");
    assert_int_equal(frame_in(&inner, &code_of_spin), 0);
    assert_false(is_in(&inner, &code_of_wait_for_inner));
    struct sought outer = find(nest.pool, "outer");
    assert_true(is_in(&outer, &code_of_wait_for_inner));
    assert_false(is_in(&outer, &code_of_spin));
    gate_open(&nest.gate);
    assert_ok(take(future));
    assert_int_equal(stint_pool_destroy(nest.pool), 0);
}

FOUND_BY_ITS_CODE(visit_own_pool)
{
    struct sought *sought = arg;
    (void)value;
    volatile int error = stint_pool_visit(stint_pool_current(), note, sought); /* no tail call */
    return error;
}

TEST(a_task_that_visits_its_own_pool_is_shown_in_that_call)
{
    stint_pool *pool = make_pool(.workers = 1);
    struct sought sought = { .name = "visitor" };
    assert_ok(take(submit_named(pool, "visitor", visit_own_pool, &sought)));
    assert_int_equal(sought.count, 1);
    if (sought.depth > 0) /* on a machine so busy that it did not get to it, not */
        assert_true(is_in(&sought, &code_of_visit_own_pool));
    assert_int_equal(stint_pool_destroy(pool), 0);
}

static __attribute__((noinline)) int recurse(unsigned depth, struct gate *gate)
{
    volatile char frame[64] = { 0 };
    int error = depth > 0 ? recurse(depth - 1, gate) : spin(gate, NULL);
    return error + frame[0];
}

static int recurse_deep(void *arg, void **value)
{
    (void)value;
    return recurse(1000, arg);
}

TEST(of_a_deep_callstack_the_innermost_frames_are_shown)
{
    stint_pool *pool = make_pool(.workers = 1);
    struct gate gate = { 0 };
    stint_future *future = submit_named(pool, "deep", recurse_deep, &gate);
    gate_await(&gate, 1);
    struct sought sought = find(pool, "deep");
    assert_int_equal(frame_in(&sought, &code_of_spin), 0);
    assert_int_equal(sought.depth, DEPTH);
    gate_open(&gate);
    assert_ok(take(future));
    assert_int_equal(stint_pool_destroy(pool), 0);
}

/* gcc puts such a frame below one that it does not know the size of. */
static __attribute__((noinline)) int spin_aligned(struct gate *gate, unsigned size)
{
    _Alignas(128) volatile char local[128] = { 0 };
    volatile char *more = alloca(size);
    more[0] = 0;
    int error = spin(gate, NULL);
    return error + local[size] + more[0];
}

FOUND_BY_ITS_CODE(call_what_aligns_its_stack)
{
    volatile int zero = 0;
    (void)value;
    int error = spin_aligned(arg, (unsigned)zero + 100);
    return error + zero;
}

TEST(a_callstack_goes_on_above_a_function_that_aligns_its_stack)
{
    stint_pool *pool = make_pool(.workers = 1);
    struct gate gate = { 0 };
    stint_future *future = submit_named(pool, "aligned", call_what_aligns_its_stack, &gate);
    gate_await(&gate, 1);
    struct sought sought = find(pool, "aligned");
    assert_int_equal(frame_in(&sought, &code_of_spin), 0);
    assert_true(is_in(&sought, &code_of_call_what_aligns_its_stack));
    gate_open(&gate);
    assert_ok(take(future));
    assert_int_equal(stint_pool_destroy(pool), 0);
}

/* --- On another stack ----------------------------------------------------------------------------------------------*/

static ucontext_t task_context, coroutine_context;
static struct gate *coroutine_gate;

static void be_a_coroutine(void)
{
    spin(coroutine_gate, NULL);
}

static int switch_stacks(void *arg, void **value)
{
    static char stack[256 << 10];
    (void)value;
    coroutine_gate = arg;
    getcontext(&coroutine_context);
    coroutine_context.uc_stack = (stack_t){ .ss_sp = stack, .ss_size = sizeof stack };
    coroutine_context.uc_link = &task_context;
    makecontext(&coroutine_context, be_a_coroutine, 0);
    return swapcontext(&task_context, &coroutine_context);
}

TEST(a_task_on_a_stack_of_its_own_is_shown_there)
{
    stint_pool *pool = make_pool(.workers = 1);
    struct gate gate = { 0 };
    stint_future *future = submit_named(pool, "coroutine", switch_stacks, &gate);
    gate_await(&gate, 1);
    struct sought sought = find(pool, "coroutine");
    assert_int_equal(frame_in(&sought, &code_of_spin), 0);
    gate_open(&gate);
    assert_ok(take(future));
    assert_int_equal(stint_pool_destroy(pool), 0);
}

/* --- Who does not answer ------------------------------------------------------------------------------------------ */

static int spin_deaf(void *arg, void **value)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    int error = spin(arg, value);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

TEST(a_task_whose_thread_blocks_the_signal_is_shown_without_a_place_and_the_others_with_theirs)
{
    stint_pool *pool = make_pool(.workers = 2);
    struct gate gate = { 0 };
    stint_future *deaf = submit_named(pool, "deaf", spin_deaf, &gate);
    stint_future *other = submit_named(pool, "other", sleep_in_region, &gate);
    gate_await(&gate, 2);
    struct sought sought = find(pool, "other");
    assert_true(is_in(&sought, &code_of_sleep_in_region));
    sought = visit(pool, "deaf");
    assert_int_equal(sought.count, 1);
    assert_int_equal(sought.depth, 0);
    gate_open(&gate);
    assert_ok(take(deaf));
    assert_ok(take(other));
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(a_task_that_waits_is_nowhere)
{
    stint_pool *pool = make_pool(.workers = 1);
    struct gate gate = { 0 };
    stint_future *holder = submit(pool, gate_hold, &gate, NULL);
    gate_await(&gate, 1);
    stint_future *future = submit_named(pool, "queued", do_nothing, NULL);
    struct sought sought = visit(pool, "queued");
    assert_int_equal(sought.count, 1);
    assert_int_equal(sought.depth, 0);
    gate_open(&gate);
    take(holder);
    take(future);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

/* --- It changes nothing ------------------------------------------------------------------------------------------- */

#define VISITORS 3

struct visitor {
    pthread_t thread;
    stint_pool *pool;
    atomic_bool *stop;
    unsigned visits;
    atomic_uint *known; /* who was found at work; of all visitors */
    bool whole;
};

static bool look(const stint_task_view *view, void *arg)
{
    struct visitor *visitor = arg;
    for (size_t i = 0; i < view->depth; i++) {
        Dl_info unused;
        visitor->whole = visitor->whole && dladdr(view->frames[i], &unused) != 0;
    }
    visitor->whole = visitor->whole && view->depth <= DEPTH && (view->running || view->depth == 0);
    if (view->depth > 0)
        atomic_fetch_add(visitor->known, 1);
    return true;
}

static void *visit_all_the_time(void *arg)
{
    struct visitor *visitor = arg;
    while (!atomic_load(visitor->stop)) {
        visitor->whole = stint_pool_visit(visitor->pool, look, visitor) == 0 && visitor->whole;
        visitor->visits++;
    }
    return NULL;
}

static int allocate_too_much(void *arg, void **value)
{
    (void)value;
    stint_free(keep(stint_malloc(*(size_t *)arg)));
    return 0;
}

/* Allocates, forks, submits, waits and is stopped, and checks what a signal's handler could spoil. */
static int do_everything(void *arg, void **value)
{
    char *blocks[50];
    double sum = 0;
    (void)value;
    errno = ERANGE;
    for (int i = 0; i < 50; i++) {
        blocks[i] = stint_malloc((size_t)(i * 37 + 1));
        memset(blocks[i], i, (size_t)(i * 37 + 1));
        sum += i / 2.0;
    }
    bool right = errno == ERANGE && sum == 612.5;
    for (int i = 0; i < 50; i++) {
        right = right && blocks[i][i * 37] == i;
        stint_free(blocks[i]);
    }
    stint_future *inner;
    stint_outcome outcome;
    stint_subtask part;
    stint_fork(&part, do_nothing, NULL);
    int error = stint_submit(arg, do_nothing, NULL, NULL, &inner);
    error = error != 0 ? error : stint_future_wait(inner, NULL);
    stint_future_release(inner);
    error = error != 0 ? error : stint_join(&part, NULL);
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.allocation = 1000;
    size_t size = 2000;
    error = error != 0 ? error : stint_run(allocate_too_much, &size, &options, &outcome);
    right = right && outcome.reason == STINT_REASON_ALLOCATION_LIMIT;
    return error != 0 ? error : right ? 0 : EBADMSG;
}

TEST(tasks_that_are_asked_all_the_time_by_several_at_once_do_what_they_do)
{
    stint_pool *pool = make_pool(.workers = 2);
    atomic_bool stop = false;
    atomic_uint known = 0;
    struct visitor visitors[VISITORS];
    for (int i = 0; i < VISITORS; i++) {
        visitors[i] = (struct visitor){ .pool = pool, .stop = &stop, .whole = true, .known = &known };
        assert_int_equal(pthread_create(&visitors[i].thread, NULL, visit_all_the_time, &visitors[i]), 0);
    }
    unsigned rounds = repeats(300);
    for (unsigned round = 0; round < rounds || (atomic_load(&known) == 0 && round < 100 * rounds); round++) {
        stint_future *futures[10];
        for (int i = 0; i < 10; i++)
            futures[i] = submit(pool, do_everything, pool, NULL);
        for (int i = 0; i < 10; i++)
            assert_ok(take(futures[i]));
    }
    atomic_store(&stop, true);
    for (int i = 0; i < VISITORS; i++) {
        assert_int_equal(pthread_join(visitors[i].thread, NULL), 0);
        assert_true(visitors[i].whole);
    }
    assert_true(atomic_load(&known) > 0);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST_MAIN()
