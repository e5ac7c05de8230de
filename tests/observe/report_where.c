/* SPDX-License-Identifier: MIT
 *
 * Where a stopped task was, and what its interrupt had to wait for. */
#include "growing.h"

#include "../boundary/left_lib/library.h"

TEST(a_task_at_its_memory_limit_is_where_it_allocated_last)
{
    (void)state;
    stint_options options = options_of(STINT_REPORT_STACK, MIB);
    options.name = "grows \"\\\n\xff";
    json_t *report = read_of(grow, (void *)(uintptr_t)&sink, &options, STINT_REASON_MEMORY_LIMIT);
    json_t *stopped = json_at(report, "where", "stopped");
    assert_int_equal(place_of(stopped, "grow_list"), 0);
    assert_int_equal(place_of(stopped, "grow_for_ever"), 1);
    assert_int_equal(place_of(stopped, "grow"), 2);
    assert_int_equal(json_array_size(stopped), 3);
    assert_string_equal(json_string_value(json_at(report, "function", "function")), "grow");
    assert_string_equal(json_string_value(json_at(report, "task")), "grows \"\\\n\xef\xbf\xbd");
    assert_int_equal(json_array_size(json_at(report, "where", "waited_for")), 0);
    assert_int_equal(json_array_size(json_at(report, "where", "left")), 0);
    assert_int_equal(number_of(json_at(report, "limits", "memory")), MIB);
    assert_null(json_object_get(report, "what"));
    json_decref(report);
}

TEST(the_time_line_leads_up_to_the_limit_in_at_most_64_points)
{
    (void)state;
    stint_options options = options_of(STINT_REPORT_STACK, 64 * MIB);
    json_t *report = read_of(grow, (void *)(uintptr_t)&sink, &options, STINT_REASON_MEMORY_LIMIT);
    json_t *points = json_at(report, "when");
    size_t count = json_array_size(points);
    assert_in_range(count, 16, 64);
    for (size_t i = 1; i < count; i++) {
        json_t *point = json_array_get(points, i);
        json_t *before = json_array_get(points, i - 1);
        assert_true(number_of(json_object_get(point, "ns")) >= number_of(json_object_get(before, "ns")));
        assert_true(number_of(json_object_get(point, "held")) >= number_of(json_object_get(before, "held")));
        assert_true(number_of(json_object_get(point, "cpu_ns")) >= number_of(json_object_get(before, "cpu_ns")));
    }
    uint64_t last = number_of(json_object_get(json_array_get(points, count - 1), "held"));
    assert_in_range(last, 63 * MIB, 65 * MIB);
    json_decref(report);
}

/* --- What it had to wait for. --- */

static int compare(const void *left, const void *right)
{
    (void)left;
    (void)right;
    sink += grow_for_ever((void *)(uintptr_t)&sink) != 0;
    return 0;
}

static int sort_numbers(void *arg, void **value)
{
    (void)value;
    int numbers[] = { 3, 1, 2 };
    qsort(numbers, 3, sizeof *numbers, compare);
    int error = grow_for_ever(arg);
    sink++;
    return error;
}

TEST(a_task_stopped_in_a_comparator_under_qsort_says_so)
{
    (void)state;
    stint_options options = options_of(STINT_REPORT_STACK, MIB);
    json_t *report = read_of(sort_numbers, (void *)(uintptr_t)&sink, &options, STINT_REASON_MEMORY_LIMIT);
    json_t *stopped = json_at(report, "where", "stopped");
    assert_true(is_in(stopped, "compare"));
    json_t *wait = wait_for_rule(report, "frame");
    assert_non_null(wait);
    assert_non_null(strstr(json_string_value(json_at(wait, "at", "function")), "qsort"));
    assert_non_null(strstr(json_string_value(json_at(wait, "at", "module")), "libc.so"));
    assert_true(number_of(json_at(wait, "times")) > 0);
    json_t *left = json_at(report, "where", "left");
    assert_true(is_in(left, "sort_numbers"));
    assert_false(is_in(left, "compare"));
    json_decref(report);
}

static void grow_in_a_callback(void *arg)
{
    sink += grow_for_ever(arg) != 0;
}

static int call_through_a_library(void *arg, void **value)
{
    (void)value;
    left_unlisted.call(grow_in_a_callback, arg);
    sink++;
    return grow_for_ever(arg);
}

TEST(a_library_that_made_it_wait_is_named)
{
    (void)state;
    stint_options options = options_of(STINT_REPORT_STACK, MIB);
    json_t *report = read_of(call_through_a_library, (void *)(uintptr_t)&sink, &options, STINT_REASON_MEMORY_LIMIT);
    json_t *wait = wait_for_rule(report, "frame");
    assert_non_null(wait);
    assert_non_null(strstr(json_string_value(json_at(wait, "at", "module")), "libleft-unlisted.so"));
    assert_false(is_in(json_at(report, "where", "left"), "grow_in_a_callback"));
    json_decref(report);
    stint_report *again =
        report_of(call_through_a_library, (void *)(uintptr_t)&sink, &options, STINT_REASON_MEMORY_LIMIT);
    char *text = report_written(again, STINT_REPORT_TEXT);
    assert_non_null(strstr(text, "the return of "));
    assert_non_null(strstr(text, "libleft-unlisted.so"));
    test_free(text);
    stint_report_release(again);
}

static pthread_mutex_t the_lock = PTHREAD_MUTEX_INITIALIZER;

NOINLINE static void grow_locked(void *list)
{
    pthread_mutex_lock(&the_lock);
    grow_for_ever(list);
    pthread_mutex_unlock(&the_lock);
    sink++;
}

NOINLINE static int go_on_unlocked(void *list)
{
    int error = grow_for_ever(list);
    sink++;
    return error;
}

static int lock_and_grow(void *arg, void **value)
{
    (void)value;
    void *volatile first = malloc(200000); /* so that it has been measured before */
    grow_locked(arg);
    free(first);
    return go_on_unlocked(arg);
}

TEST(a_task_stopped_under_a_lock_says_which)
{
    (void)state;
    stint_options options = options_of(STINT_REPORT_STACK, MIB);
    json_t *report = read_of(lock_and_grow, (void *)(uintptr_t)&sink, &options, STINT_REASON_MEMORY_LIMIT);
    assert_true(is_in(json_at(report, "where", "stopped"), "grow_locked"));
    json_t *wait = wait_for_rule(report, "lock");
    assert_non_null(wait);
    assert_string_equal(json_string_value(json_at(wait, "at", "function")), "the_lock");
    json_t *left = json_at(report, "where", "left");
    assert_true(is_in(left, "go_on_unlocked"));
    assert_false(is_in(left, "grow_locked"));
    json_decref(report);
    /* A lock that was remembered by address is no longer held or counted. */
    assert_int_equal(pthread_mutex_trylock(&the_lock), 0);
    pthread_mutex_unlock(&the_lock);
    json_decref(read_of(grow, (void *)(uintptr_t)&sink, &options, STINT_REASON_MEMORY_LIMIT));
}

NOINLINE static void grow_masked(void *list)
{
    stint_mask();
    grow_for_ever(list);
    stint_unmask();
    sink++;
}

static int mask_and_grow(void *arg, void **value)
{
    (void)value;
    grow_masked(arg);
    sink++;
    return 0;
}

TEST(a_masked_task_says_so_and_is_left_at_the_end_of_the_mask)
{
    (void)state;
    stint_options options = options_of(STINT_REPORT_STACK, MIB);
    json_t *report = read_of(mask_and_grow, (void *)(uintptr_t)&sink, &options, STINT_REASON_MEMORY_LIMIT);
    assert_non_null(wait_for_rule(report, "mask"));
    assert_true(is_in(json_at(report, "where", "stopped"), "grow_for_ever"));
    assert_int_equal(place_of(json_at(report, "where", "left"), "grow_masked"), 0);
    json_decref(report);
}

static pthread_once_t the_once = PTHREAD_ONCE_INIT;

static void grow_once(void)
{
    grow_for_ever((void *)(uintptr_t)&sink);
}

static int once_and_grow(void *arg, void **value)
{
    (void)value;
    pthread_once(&the_once, grow_once);
    return go_on_unlocked(arg);
}

TEST(a_task_stopped_in_a_once_says_which)
{
    (void)state;
    stint_options options = options_of(STINT_REPORT_STACK, MIB);
    json_t *report = read_of(once_and_grow, (void *)(uintptr_t)&sink, &options, STINT_REASON_MEMORY_LIMIT);
    json_t *wait = wait_for_rule(report, "once");
    assert_non_null(wait);
    assert_string_equal(json_string_value(json_at(wait, "at", "function")), "the_once");
    json_decref(report);
}

/* --- The ways in which a task is stopped. --- */

NOINLINE static int return_refused(void *list)
{
    int error = grow_for_ever(list);
    sink++;
    return error;
}

static int refuse(void *arg, void **value)
{
    (void)value;
    int error = return_refused(arg);
    sink++;
    return error;
}

TEST(a_task_that_is_refused_memory_is_where_it_first_was)
{
    (void)state;
    stint_options options = options_of(STINT_REPORT_HEAP, MIB);
    options.on_interrupt = STINT_FAIL;
    json_t *report = read_of(refuse, (void *)(uintptr_t)&sink, &options, STINT_REASON_MEMORY_LIMIT);
    assert_int_equal(place_of(json_at(report, "where", "stopped"), "grow_list"), 0);
    assert_true(is_in(json_at(report, "where", "stopped"), "return_refused"));
    assert_in_range(number_of(json_at(report, "what", "bytes")), MIB / 2, 2 * MIB);
    json_decref(report);
}

NOINLINE static void look_for_ever(void)
{
    for (;;) {
        stint_checkpoint();
        sink++;
    }
}

static int wait_for_deadline(void *arg, void **value)
{
    (void)arg;
    (void)value;
    look_for_ever();
    sink++;
    return 0;
}

TEST(a_task_past_its_deadline_is_where_it_looked)
{
    (void)state;
    stint_options options = options_of(STINT_REPORT_STACK, 0);
    options.budget.wall_ns = 2 * MS;
    json_t *report = read_of(wait_for_deadline, NULL, &options, STINT_REASON_DEADLINE);
    assert_int_equal(place_of(json_at(report, "where", "stopped"), "look_for_ever"), 0);
    assert_true(is_in(json_at(report, "where", "stopped"), "wait_for_deadline"));
    assert_int_equal(number_of(json_at(report, "limits", "deadline_ns")), 2 * MS);
    json_decref(report);
}

NOINLINE static void spin_for_ever(void)
{
    for (;;)
        sink++;
}

static int spin_silently(void *arg, void **value)
{
    (void)arg;
    (void)value;
    spin_for_ever();
    sink++;
    return 0;
}

TEST(a_preempted_task_is_where_the_signal_found_it)
{
    (void)state;
    stint_options options = options_of(STINT_REPORT_HEAP, 0);
    options.budget.wall_ns = 2 * MS;
    options.preemptible = true;
    json_t *report = read_of(spin_silently, NULL, &options, STINT_REASON_DEADLINE);
    assert_int_equal(place_of(json_at(report, "where", "stopped"), "spin_for_ever"), 0);
    assert_int_equal(place_of(json_at(report, "where", "stopped"), "spin_silently"), 1);
    json_decref(report);
}

NOINLINE static int recurse(int depth)
{
    volatile char room[256];
    room[0] = (char)depth;
    int below = depth < INT32_MAX ? recurse(depth + 1) : 0;
    return below + room[0];
}

static int recurse_for_ever(void *arg, void **value)
{
    (void)arg;
    (void)value;
    sink = recurse(0);
    return 0;
}

TEST(a_task_without_stack_left_is_deep_in_its_recursion)
{
    (void)state;
    stint_options options = options_of(STINT_REPORT_STACK, 0);
    stint_pool *pool = make_pool(.workers = 1);
    stint_outcome outcome;
    stint_report *taken;
    stint_future *future = submit(pool, recurse_for_ever, NULL, &options);
    assert_int_equal(stint_future_wait(future, &outcome), 0);
    assert_int_equal(outcome.reason, STINT_REASON_STACK);
    assert_int_equal(stint_future_report(future, &taken), 0);
    stint_future_release(future);
    json_t *report = report_read(taken);
    stint_report_release(taken);
    json_t *stopped = json_at(report, "where", "stopped");
    assert_true(json_is_true(json_at(report, "where", "stopped_is_cut")));
    assert_int_equal(place_of(stopped, "recurse"), 0);
    assert_int_equal(json_array_size(stopped), 64);
    json_decref(report);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

static int fail_at_once(void *arg, void **value)
{
    (void)value;
    void *volatile block = malloc(*(size_t *)arg); /* or clang makes none */
    return block != NULL ? EBADMSG : ENOMEM;
}

TEST(a_task_that_fails_by_itself_is_nowhere)
{
    (void)state;
    size_t size = 100;
    stint_options options = options_of(STINT_REPORT_HEAP, 0);
    json_t *report = read_of(fail_at_once, &size, &options, STINT_REASON_FAILED);
    assert_int_equal(json_array_size(json_at(report, "where", "stopped")), 0);
    assert_int_equal(json_integer_value(json_at(report, "error")), EBADMSG);
    assert_int_equal(number_of(json_at(report, "what", "blocks")), 1);
    assert_true(number_of(json_at(report, "what", "bytes")) >= 100);
    json_decref(report);
}

/* --- What is found when its frames have gone. --- */

static int oversleep(void *arg, void **value)
{
    (void)arg;
    (void)value;
    nap_ms(20);
    return 0;
}

static int set_token(void *arg, void **value)
{
    (void)value;
    stint_token_set(arg);
    return 0;
}

static void assert_nowhere(stint_pool *pool, stint_fn *fn, void *arg, const stint_options *options, stint_reason reason,
                           const char *said)
{
    stint_outcome outcome;
    stint_report *report;
    stint_future *future = submit(pool, fn, arg, options);
    assert_int_equal(stint_future_wait(future, &outcome), 0);
    assert_int_equal(outcome.reason, reason);
    assert_int_equal(stint_future_report(future, &report), 0);
    json_t *read = report_read(report);
    assert_int_equal(json_array_size(json_at(read, "where", "stopped")), 0);
    json_decref(read);
    char *text = report_written(report, STINT_REPORT_TEXT);
    assert_non_null(strstr(text, said));
    test_free(text);
    stint_report_release(report);
    stint_future_release(future);
}

TEST(a_task_whose_interrupt_is_found_at_its_end_is_nowhere)
{
    (void)state;
    stint_pool *pool = make_pool(.workers = 1);
    stint_options options = options_of(STINT_REPORT_HEAP, 0);
    stint_token *token;
    options.budget.run_ns = 10 * MS;
    assert_nowhere(pool, oversleep, NULL, &options, STINT_REASON_DEADLINE,
                   "where: it had returned when this was found\n");
    assert_int_equal(stint_token_create(NULL, &token), 0);
    options = options_of(STINT_REPORT_HEAP, 0);
    options.token = token;
    assert_nowhere(pool, set_token, token, &options, STINT_REASON_TOKEN,
                   "where: it had returned when this was found\n");
    stint_token_release(token);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

/* --- Names. --- */

TEST(a_name_does_nothing_to_a_terminal)
{
    (void)state;
    stint_account *account;
    stint_options options = options_of(STINT_REPORT_STACK, MIB);
    options.name = "two\nlines \033[31m \xc2\x9b \xff \xc3\xa9";
    stint_account_limits limits = STINT_ACCOUNT_LIMITS_INIT;
    limits.name = "a\rb";
    assert_int_equal(stint_account_create(NULL, &limits, &account), 0);
    options.account = account;
    stint_report *report = report_of(grow, (void *)(uintptr_t)&sink, &options, STINT_REASON_MEMORY_LIMIT);
    char *text = report_written(report, STINT_REPORT_TEXT);
    const char *head = "task two\\x0alines \\x1b[31m \\xc2\\x9b \\xff \xc3\xa9: ";
    assert_int_equal(strncmp(text, head, strlen(head)), 0);
    assert_non_null(strstr(text, "\n  account    a\\x0db\n"));
    test_free(text);
    stint_report_release(report);
    stint_account_release(account);
}

TEST(a_long_name_is_cut_between_characters)
{
    (void)state;
    static const char *const ends[] = { "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80" };
    for (size_t i = 0; i < 12; i++) {
        char name[128];
        memset(name, 'a', 60 + i % 4);
        strcpy(name + 60 + i % 4, ends[i / 4]);
        size_t length = strlen(name) < 64 ? strlen(name) : 60 + i % 4;
        strcat(name, "zz");
        stint_options options = options_of(STINT_REPORT_STACK, MIB);
        options.name = name;
        json_t *report = read_of(grow, (void *)(uintptr_t)&sink, &options, STINT_REASON_MEMORY_LIMIT);
        const char *task = json_string_value(json_at(report, "task"));
        assert_true(strlen(task) >= length && strlen(task) < 64);
        assert_int_equal(strncmp(task, name, strlen(task)), 0);
        json_decref(report);
    }
}

TEST_MAIN()
