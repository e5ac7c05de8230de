/* SPDX-License-Identifier: MIT
 *
 * The library tries out its assumptions on the insides of mimalloc, libc and the unwinder. If one does not hold, its
 * feature is off, and the report says so. This program breaks the assumption that the environment names, and looks at
 * the result; so it starts itself for each. */
#include <dlfcn.h>
#include <mimalloc-stats.h>
#include <mimalloc.h>
#include <setjmp.h>
#include <spawn.h>
#include <unwind.h>

#include "alloc/heap/heap.h"
#include "alloc/interrupt/abandoned_frames.h"
#include "alloc/platform/assumption.h"
#include "alloc/platform/backend.h"
#include "alloc/platform/module.h"
#include "alloc/platform/process.h"
#include "support.h"

#define VARIABLE "OTHERWISE"

extern char **environ;

static bool is_otherwise(const char *what)
{
    const char *named = getenv(VARIABLE);
    return named != NULL && strcmp(named, what) == 0;
}

/* --- What is made otherwise. The linker has these called in the place of those they are named after. --- */

void __real_mi_option_set(mi_option_t option, long value);
void __wrap_mi_option_set(mi_option_t option, long value);
bool __real_mi_theap_visit_blocks(const mi_theap_t *theap, bool blocks, mi_block_visit_fun *visit, void *arg);
bool __wrap_mi_theap_visit_blocks(const mi_theap_t *theap, bool blocks, mi_block_visit_fun *visit, void *arg);
bool __real_mi_heap_stats_get(mi_heap_t *heap, mi_stats_t *stats);
bool __wrap_mi_heap_stats_get(mi_heap_t *heap, mi_stats_t *stats);
size_t __real_mi_usable_size(const void *block);
size_t __wrap_mi_usable_size(const void *block);
_Unwind_Reason_Code __real__Unwind_Backtrace(_Unwind_Trace_Fn visit, void *arg);
_Unwind_Reason_Code __wrap__Unwind_Backtrace(_Unwind_Trace_Fn visit, void *arg);
size_t __real_sti_callstack(void **frames, size_t depth, const void *caller);
size_t __wrap_sti_callstack(void **frames, size_t depth, const void *caller);
uintptr_t __real_sti_resume_point_stack_pointer(const struct __jmp_buf_tag *landing);
uintptr_t __wrap_sti_resume_point_stack_pointer(const struct __jmp_buf_tag *landing);
uintptr_t __real_sti_module_thread_variables(const struct link_map *module);
uintptr_t __wrap_sti_module_thread_variables(const struct link_map *module);
void __real_sti_way_leave(uintptr_t target, const sigset_t *mask);
void __wrap_sti_way_leave(uintptr_t target, const sigset_t *mask);

void __wrap_mi_option_set(mi_option_t option, long value)
{
    if (option != mi_option_page_full_retain || !is_otherwise("full pages"))
        __real_mi_option_set(option, value);
}

struct visit {
    mi_block_visit_fun *visit;
    void *arg;
    bool blocks;
    unsigned passed;
};

static bool visit_all_but_one(const mi_heap_t *heap, const mi_heap_area_t *area, void *block, size_t size, void *arg)
{
    struct visit *visit = arg;
    bool is_it = (block != NULL || !visit->blocks) && visit->passed++ == 0;
    return is_it || visit->visit(heap, area, block, size, visit->arg);
}

bool __wrap_mi_theap_visit_blocks(const mi_theap_t *theap, bool blocks, mi_block_visit_fun *visit, void *arg)
{
    struct visit some = { .visit = visit, .arg = arg, .blocks = blocks };
    if (!is_otherwise(blocks ? "walk of blocks" : "walk of pages"))
        return __real_mi_theap_visit_blocks(theap, blocks, visit, arg);
    return __real_mi_theap_visit_blocks(theap, blocks, visit_all_but_one, &some);
}

bool __wrap_mi_heap_stats_get(mi_heap_t *heap, mi_stats_t *stats)
{
    bool known = __real_mi_heap_stats_get(heap, stats);
    if (is_otherwise("count of pages"))
        stats->pages.current++;
    return known;
}

size_t __wrap_mi_usable_size(const void *block)
{
    size_t size = __real_mi_usable_size(block);
    return is_otherwise("sizes of blocks") ? size + size / 2 : size;
}

_Unwind_Reason_Code __wrap__Unwind_Backtrace(_Unwind_Trace_Fn visit, void *arg)
{
    return is_otherwise("unwinder") ? _URC_END_OF_STACK : __real__Unwind_Backtrace(visit, arg);
}

size_t __wrap_sti_callstack(void **frames, size_t depth, const void *caller)
{
    return __real_sti_callstack(frames, is_otherwise("call frame tables") ? 1 : depth, caller);
}

uintptr_t __wrap_sti_resume_point_stack_pointer(const struct __jmp_buf_tag *landing)
{
    return __real_sti_resume_point_stack_pointer(landing) ^ (is_otherwise("jumps") ? 0x5500 : 0);
}

uintptr_t __wrap_sti_module_thread_variables(const struct link_map *module)
{
    return __real_sti_module_thread_variables(module) + (is_otherwise("variables") ? sizeof(uintptr_t) : 0);
}

static unsigned looked_at_jumps;

void __wrap_sti_way_leave(uintptr_t target, const sigset_t *mask)
{
    looked_at_jumps++;
    __real_sti_way_leave(target, mask);
}

/* --- What becomes of the features, in the program that makes it otherwise. Each is on, unless it is named. --- */

enum features {
    TASKS = 1 << 0,
    GIVING_BACK = 1 << 1,
    LEAVING = 1 << 2,
    JUMPS = 1 << 3,
    ROLLING_BACK = 1 << 4,
    UNWINDING = 1 << 5,
    ALL = (1 << 6) - 1,
};

struct loop {
    unsigned refused;
};

static int allocate_too_much(void *arg, void **value)
{
    struct loop *loop = arg;
    for (int i = 0; i < 100000; i++) {
        void *block = malloc(1000);
        *value = block != NULL ? block : *value;
        loop->refused += block == NULL ? 1 : 0;
    }
    return ENOMEM;
}

static int give_a_block(void *arg, void **value)
{
    *value = strdup(arg);
    return *value != NULL ? 0 : ENOMEM;
}

static bool runs_tasks(void)
{
    char word[] = "word";
    stint_outcome outcome;
    if (stint_run(give_a_block, word, NULL, &outcome) != 0)
        return false;
    assert_ok(outcome);
    assert_string_equal(outcome.value, word);
    free(outcome.value);
    return true;
}

static bool may_make_pools(void)
{
    stint_pool *pool;
    stint_pool_options options = STINT_POOL_OPTIONS_INIT;
    options.flags = STINT_ALLOW_UNMETERED;
    options.workers = 1;
    return stint_pool_create(&options, &pool) == 0 && stint_pool_destroy(pool) == 0;
}

static bool knows_what_is_given_up(void)
{
    struct sti_heap heap = { .backend = sti_process_begin_heap(NULL) };
    return sti_heap_adopt(&heap);
}

/* Code that is not left is refused its blocks, again and again. */
static bool leaves_code(void)
{
    struct loop loop = { .refused = 0 };
    stint_options options = STINT_OPTIONS_INIT;
    stint_outcome outcome;
    options.budget.memory = (size_t)1 << 20;
    assert_int_equal(stint_run(allocate_too_much, &loop, &options, &outcome), 0);
    assert_int_equal(outcome.status, STINT_ERROR);
    assert_int_equal(outcome.reason, STINT_REASON_MEMORY_LIMIT);
    return loop.refused == 0;
}

static bool looks_at_jumps(void)
{
    jmp_buf here;
    looked_at_jumps = 0;
    if (setjmp(here) == 0)
        longjmp(here, 1);
    return looked_at_jumps > 0;
}

static int fail_with_a_block(void *arg, void **value)
{
    (void)arg;
    (void)value;
    return keep(malloc(1000)) == NULL ? ENOMEM : EIO;
}

/* With a module that has thread-local variables, and was loaded when this thread was there. */
static bool rolls_back(void)
{
    stint_outcome outcome;
    assert_non_null(dlopen("libstdc++.so.6", RTLD_NOW));
    assert_int_equal(stint_run(fail_with_a_block, NULL, NULL, &outcome), 0);
    assert_int_equal(outcome.error, EIO);
    return outcome.usage.kept == 0;
}

static bool unwinds_code(void)
{
    stint_options options = STINT_OPTIONS_INIT;
    stint_outcome outcome;
    options.on_interrupt = STINT_UNWIND;
    int error = stint_run(do_nothing, NULL, &options, &outcome);
    assert_true(error == 0 || error == ENOTSUP);
    return error == 0;
}

static enum features features_that_are_on(void)
{
    enum features on = 0;
    on |= runs_tasks() && may_make_pools() ? TASKS : 0;
    on |= knows_what_is_given_up() ? GIVING_BACK : 0;
    on |= (on & TASKS) == 0 || leaves_code() ? LEAVING : 0;
    on |= looks_at_jumps() ? JUMPS : 0;
    on |= (on & TASKS) == 0 || rolls_back() ? ROLLING_BACK : 0;
    on |= (on & TASKS) == 0 || unwinds_code() ? UNWINDING : 0;
    return on;
}

static const struct otherwise {
    const char *what;
    enum features off;
    const char *told; /* the beginning of the first line */
} cases[] = {
    { "nothing", 0, NULL },
    { "full pages", TASKS | GIVING_BACK, "all tasks: " },
    { "walk of pages", TASKS | GIVING_BACK, "all tasks: " }, /* with which they are compared */
    { "walk of blocks", TASKS, "all tasks: " },
    { "sizes of blocks", TASKS, "all tasks: " },
    { "count of pages", GIVING_BACK, "giving back what mimalloc has given up" },
    { "unwinder", UNWINDING, "tasks with STINT_UNWIND: " },
    { "call frame tables", LEAVING, "leaving a task's code" },
    { "jumps", JUMPS, "ending what a longjmp passes: " },
    { "variables", ROLLING_BACK, "giving back a failed task's memory " },
};

static const struct otherwise *named;

static unsigned count_lines(const char *text)
{
    unsigned lines = 0;
    for (; *text != '\0'; text++)
        lines += *text == '\n';
    return lines;
}

static unsigned count_bits(enum features features)
{
    return (unsigned)__builtin_popcount(features);
}

/* In the started program: the report names what is off, which is off, and nothing else is. */
static void what_needs_it_is_off_and_told(void **state)
{
    (void)state;
    stint_link_report report = STINT_LINK_REPORT_INIT;
    assert_int_equal(features_that_are_on(), ALL & ~named->off);
    assert_int_equal(stint_link_check(&report), (named->off & TASKS) != 0 ? ENOTSUP : 0);
    assert_true(report.metered && report.locked);
    assert_int_equal(report.unwinds, (named->off & UNWINDING) == 0);
    if (named->told == NULL) {
        assert_null(report.off);
        return;
    }
    assert_non_null(report.off);
    assert_int_equal(strncmp(report.off, named->told, strlen(named->told)), 0);
    assert_int_equal(count_lines(report.off), count_bits(named->off));
}

static int run_as_named(const char *what)
{
    const struct CMUnitTest test[] = { cmocka_unit_test(what_needs_it_is_off_and_told) };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(cases[i].what, what) == 0)
            named = &cases[i];
    }
    return named != NULL ? cmocka_run_group_tests(test, NULL, NULL) : -1;
}

/* --- The program that starts it. --- */

static void start_otherwise(const char *what)
{
    char self[] = "/proc/self/exe";
    char *arguments[] = { self, NULL };
    pid_t process;
    assert_int_equal(setenv(VARIABLE, what, 1), 0);
    assert_int_equal(posix_spawn(&process, self, NULL, NULL, arguments, environ), 0);
    assert_int_equal(unsetenv(VARIABLE), 0);
    assert_ends_well(process);
}

TEST(where_all_is_as_expected_nothing_is_off)
{
    start_otherwise("nothing");
}

TEST(heaps_that_cannot_be_walked_are_not_used)
{
    start_otherwise("full pages");
    start_otherwise("walk of pages");
    start_otherwise("walk of blocks");
}

TEST(blocks_that_are_larger_than_is_charged_are_not_used)
{
    start_otherwise("sizes of blocks");
}

TEST(where_pages_are_not_counted_tasks_run_and_their_heaps_stay)
{
    start_otherwise("count of pages");
}

TEST(code_whose_frames_are_not_found_is_refused_its_blocks)
{
    start_otherwise("call frame tables");
}

TEST(where_the_unwinder_does_not_find_frames_tasks_that_may_be_unwound_are_refused)
{
    start_otherwise("unwinder");
}

TEST(a_jump_that_cannot_be_read_is_made_and_not_looked_at)
{
    start_otherwise("jumps");
}

TEST(where_variables_of_a_late_module_are_not_found_failed_tasks_keep_their_memory)
{
    start_otherwise("variables");
}

int main(void)
{
    const char *what = getenv(VARIABLE);
    return what != NULL ? run_as_named(what) : run_all_tests(NULL, NULL);
}
