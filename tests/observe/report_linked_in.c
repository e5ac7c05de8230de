/* SPDX-License-Identifier: MIT
 *
 * Reports of a program that the library is linked into. Its code cannot be told from the library's, so the program's
 * frames are shown, wherever other libraries' frames lie between them. */
#include "reports.h"

static volatile int sink;

NOINLINE static int grow(void **list)
{
    for (void **node; (node = malloc(1000)) != NULL; *list = node)
        *node = *list;
    sink++;
    return ENOMEM;
}

static void **grown;

static int compare_growing(const void *left, const void *right)
{
    (void)left;
    (void)right;
    grow(grown);
    sink++;
    return 0;
}

NOINLINE static void sort_growing(void)
{
    int two[] = { 2, 1 };
    qsort(two, 2, sizeof two[0], compare_growing);
    sink++;
}

static int grow_below_libc(void *arg, void **value)
{
    (void)arg;
    grown = value;
    sort_growing();
    sink++;
    return ENOMEM;
}

static int grow_at_once(void *arg, void **value)
{
    (void)arg;
    int error = grow(value);
    sink++;
    return error;
}

TEST(where_it_was_stopped_is_told_from_its_innermost_frame_to_its_function)
{
    (void)state;
    stint_options options = options_of(STINT_REPORT_STACK, MIB);
    options.grace = 4 * KIB;
    json_t *report = read_of(grow_at_once, NULL, &options, STINT_REASON_MEMORY_LIMIT);
    json_t *stopped = json_at(report, "where", "stopped");
    assert_true(place_of(stopped, "grow") < place_of(stopped, "grow_at_once"));
    assert_false(is_in(stopped, "main"));
    json_decref(report);
    report = read_of(grow_below_libc, NULL, &options, STINT_REASON_MEMORY_LIMIT);
    stopped = json_at(report, "where", "stopped");
    assert_true(is_in(stopped, "grow"));
    assert_true(place_of(stopped, "compare_growing") < place_of(stopped, "sort_growing"));
    assert_true(place_of(stopped, "sort_growing") < place_of(stopped, "grow_below_libc"));
    assert_true(is_in(stopped, "grow_below_libc"));
    assert_false(is_in(stopped, "main"));
    json_decref(report);
}

NOINLINE static void copy_texts(void **list)
{
    char text[100];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    for (int i = 0; i < 1000; i++) {
        void **copy = (void **)(void *)strdup(text);
        *copy = *list;
        *list = copy;
    }
    sink++;
}

static int hold_texts(void *arg, void **value)
{
    (void)arg;
    copy_texts(value);
    sink++;
    return EIO;
}

TEST(who_holds_its_blocks_is_told_where_libc_has_made_them)
{
    (void)state;
    stint_options options = options_of(STINT_REPORT_HEAP, 0);
    options.sample_rate = 1.0 / 64;
    json_t *report = read_of(hold_texts, NULL, &options, STINT_REASON_FAILED);
    json_t *frames = json_at(json_array_get(json_at(report, "who", "holders"), 0), "frames");
    assert_true(is_in(frames, "copy_texts"));
    assert_true(is_in(frames, "hold_texts"));
    json_decref(report);
}

TEST_MAIN()
