/* SPDX-License-Identifier: MIT
 *
 * The memory of a stopped task, its holders, and what was kept of it. */
#include "reports.h"

static volatile int sink;

/* A chain of nodes. */
struct node {
    struct node *next;
    void (*method)(void);
    char rest[32]; /* all of its block, so that no earlier contents are left */
};

void node_method(void);
void node_method(void)
{
    sink++;
}

struct chain {
    size_t nodes;
};

NOINLINE static struct node *make_node(struct node *next)
{
    struct node *node = malloc(sizeof *node);
    if (node == NULL)
        return next;
    *node = (struct node){ .next = next, .method = node_method };
    sink++;
    return node;
}

static void stop_here(void)
{
    stint_token_set(stint_context_value(stint_context_current()));
    stint_checkpoint();
}

static int make_chain(void *arg, void **value)
{
    const struct chain *chain = arg;
    struct node *newest = NULL;
    for (size_t i = 0; i < chain->nodes; i++)
        newest = make_node(newest);
    *value = newest;
    stop_here();
    return 0;
}

/* The task sets its own token when its blocks are made, so the numbers are exact. */
static json_t *report_at_checkpoint(stint_fn *fn, void *arg)
{
    stint_token *token;
    stint_context *context;
    stint_options options = options_of(STINT_REPORT_HEAP, 0);
    assert_int_equal(stint_token_create(NULL, &token), 0);
    assert_int_equal(stint_context_create(token, NULL, &context), 0);
    options.token = token;
    options.context = context;
    json_t *report = read_of(fn, arg, &options, STINT_REASON_TOKEN);
    stint_context_release(context);
    stint_token_release(token);
    return report;
}

static json_t *report_on_chain(struct chain chain)
{
    return report_at_checkpoint(make_chain, &chain);
}

TEST(blocks_are_counted_by_their_size_class)
{
    (void)state;
    json_t *report = report_on_chain((struct chain){ .nodes = 100000 });
    json_t *class = class_for(report, sizeof(struct node));
    assert_int_equal(number_of(json_at(class, "size")), 48);
    assert_int_equal(number_of(json_at(class, "above")), 32);
    assert_int_equal(number_of(json_at(class, "blocks")), 100000);
    assert_int_equal(number_of(json_at(class, "bytes")), 100000 * 48);
    assert_int_equal(number_of(json_at(report, "what", "blocks")), 100000);
    assert_int_equal(json_array_size(json_at(report, "what", "classes")), 1);
    json_decref(report);
}

TEST(blocks_that_begin_with_a_pointer_into_a_module_are_named_by_its_symbol)
{
    (void)state;
    json_t *report = report_on_chain((struct chain){ .nodes = 100000 });
    json_t *class = class_for(report, sizeof(struct node));
    json_t *contents = json_array_get(json_at(class, "contents"), 0);
    assert_string_equal(json_string_value(json_at(contents, "begins_with")), "pointer");
    assert_int_equal(number_of(json_at(contents, "word")), 1);
    assert_string_equal(json_string_value(json_at(contents, "to", "function")), "node_method");
    /* Except blocks whose pointer to the next node has bytes that are letters. */
    assert_in_range(number_of(json_at(contents, "blocks")), number_of(json_at(class, "looked_at")) * 3 / 4,
                    number_of(json_at(class, "looked_at")));
    assert_true(number_of(json_at(class, "looked_at")) > 10);
    json_decref(report);
}

/* What a stack of a coroutine has at its end; the rest of the block leads to others. */
static int guard_pages(void *arg, void **value)
{
    const size_t *size = arg;
    enum { PAGE = 4096 };
    void **blocks = NULL;
    for (size_t i = 0; i < 20; i++) {
        void *block;
        if (posix_memalign(&block, PAGE, *size) != 0)
            return ENOMEM;
        memset(block, 1, *size);
        *(void **)((char *)block + *size - 64) = blocks;
        if (mprotect(block, PAGE, PROT_NONE) != 0)
            return errno;
        blocks = block;
    }
    *value = blocks;
    stop_here();
    return 0;
}

TEST(pages_that_the_task_has_forbidden_to_be_read_are_not_looked_at)
{
    if (lack_of_remote_reads() != NULL)
        skip_because(lack_of_remote_reads());
    (void)state;
    size_t sizes[] = { 8192, 16384, 32768 };
    for (size_t i = 0; i < 3; i++) {
        json_t *report = report_at_checkpoint(guard_pages, &sizes[i]);
        assert_int_equal(number_of(json_at(report, "what", "blocks")), 20);
        if (i == 0) /* larger ones mimalloc aligns in still larger ones */
            assert_int_equal(number_of(json_at(class_for(report, sizes[i]), "looked_at")), 0);
        json_decref(report);
    }
    /* The next report now reads by copies. */
    json_t *report = report_on_chain((struct chain){ .nodes = 10000 });
    assert_true(number_of(json_at(class_for(report, sizeof(struct node)), "looked_at")) > 10);
    json_decref(report);
}

/* Of blocks side by side one in so many lives. */
static int leave_remains(void *arg, void **value)
{
    enum { SIZE = 48, COUNT = 20000, EVERY = 50 };
    void **blocks = malloc(COUNT * sizeof *blocks);
    for (size_t i = 0; blocks != NULL && i < COUNT; i++)
        blocks[i] = strcpy(malloc(SIZE), "what remains");
    for (size_t i = 0; blocks != NULL && i < COUNT; i++) {
        if (i % EVERY != 0)
            free(blocks[i]);
    }
    free(blocks);
    *value = arg;
    stop_here();
    return 0;
}

TEST(of_pages_with_free_blocks_those_that_live_are_looked_at)
{
    if (lack_of_remote_reads() != NULL)
        skip_because(lack_of_remote_reads());
    (void)state;
    json_t *report = report_at_checkpoint(leave_remains, NULL);
    json_t *class = class_for(report, 48);
    json_t *contents = json_array_get(json_at(class, "contents"), 0);
    assert_int_equal(number_of(json_at(class, "blocks")), 400);
    assert_true(number_of(json_at(class, "looked_at")) > 10);
    assert_string_equal(json_string_value(json_at(contents, "text")), "what remains");
    assert_int_equal(number_of(json_at(contents, "blocks")), number_of(json_at(class, "looked_at")));
    json_decref(report);
}

/* --- Contents. --- */

static void *volatile kept_alive;

static int make_texts(void *arg, void **value)
{
    (void)arg;
    for (int i = 0; i < 2000; i++) {
        char *text = malloc(100);
        snprintf(text, 100, "a line of text, number %d", i);
        *(char **)(text + 88) = *value;
        *value = text;
        kept_alive = memset(malloc(300), 0, 300);
    }
    kept_alive = calloc(1, 3 * MIB);
    kept_alive = malloc(5 * MIB);
    kept_alive = NULL;
    return EBADMSG;
}

TEST(texts_and_zeros_are_told_and_the_largest_blocks)
{
    if (lack_of_remote_reads() != NULL)
        skip_because(lack_of_remote_reads());
    (void)state;
    stint_options options = options_of(STINT_REPORT_HEAP, 0);
    json_t *report = read_of(make_texts, NULL, &options, STINT_REASON_FAILED);
    json_t *contents = json_array_get(json_at(class_for(report, 100), "contents"), 0);
    assert_string_equal(json_string_value(json_at(contents, "begins_with")), "text");
    assert_ptr_equal(strstr(json_string_value(json_at(contents, "text")), "a line of text"),
                     json_string_value(json_at(contents, "text")));
    contents = json_array_get(json_at(class_for(report, 300), "contents"), 0);
    assert_string_equal(json_string_value(json_at(contents, "begins_with")), "zeros");
    json_t *largest = json_at(report, "what", "largest");
    assert_in_range(number_of(json_at(json_array_get(largest, 0), "size")), 5 * MIB, 6 * MIB);
    assert_in_range(number_of(json_at(json_array_get(largest, 1), "size")), 3 * MIB, 4 * MIB);
    assert_true(json_array_size(largest) <= 8);
    json_decref(report);
}

/* --- Whom the memory is of, and what is not the task's alone. --- */

NOINLINE static void hold_much(void **list)
{
    for (int i = 0; i < 3000; i++) {
        void **block = malloc(1000);
        *block = *list;
        *list = block;
    }
    sink++;
}

NOINLINE static void hold_little(void **list)
{
    for (int i = 0; i < 300; i++) {
        void **block = malloc(1000);
        *block = *list;
        *list = block;
        free(malloc(5000));
    }
    sink++;
}

static int hold(void *arg, void **value)
{
    (void)arg;
    hold_much(value);
    hold_little(value);
    sink++;
    return EBADMSG;
}

TEST(while_a_profile_runs_the_callstacks_that_hold_most_are_told)
{
    (void)state;
    stint_profile_options profile = STINT_PROFILE_OPTIONS_INIT;
    profile.interval = 4096;
    profile.seed = 1;
    assert_int_equal(stint_profile_start(&profile), 0);
    stint_options options = options_of(STINT_REPORT_HEAP, 0);
    json_t *report = read_of(hold, NULL, &options, STINT_REASON_FAILED);
    assert_int_equal(stint_profile_stop(), 0);
    json_t *holders = json_at(report, "who", "holders");
    assert_int_equal(number_of(json_at(report, "who", "interval")), 4096);
    json_t *first = json_array_get(holders, 0);
    assert_true(is_in(json_at(first, "frames"), "hold_much"));
    uint64_t samples = number_of(json_at(first, "samples"));
    uint64_t bytes = number_of(json_at(first, "bytes"));
    assert_int_equal(bytes, samples * 4096);
    /* 3,000 blocks that are charged 1,008 bytes each: 738 samples, with a deviation of 27. */
    assert_in_range(samples, 738 - 6 * 27, 738 + 6 * 27);
    assert_in_range(number_of(json_at(first, "error_percent")), 3, 5);
    json_t *second = json_array_get(holders, 1);
    assert_true(is_in(json_at(second, "frames"), "hold_little"));
    assert_in_range(number_of(json_at(second, "samples")), 74 - 6 * 9, 74 + 6 * 9);
    assert_int_equal(number_of(json_at(report, "who", "samples")), samples + number_of(json_at(second, "samples")));
    json_decref(report);
}

TEST(without_a_profile_nobody_is_said_to_hold_it)
{
    (void)state;
    stint_options options = options_of(STINT_REPORT_HEAP, 0);
    json_t *report = read_of(hold, NULL, &options, STINT_REASON_FAILED);
    assert_null(json_object_get(report, "who"));
    json_decref(report);
}

void *a_variable_that_keeps;

static int leave_in_variable(void *arg, void **value)
{
    (void)arg;
    (void)value;
    a_variable_that_keeps = malloc(200);
    return EBADMSG;
}

TEST(roots_that_kept_blocks_are_named_with_their_size)
{
    (void)state;
    stint_options options = options_of(STINT_REPORT_STACK, 0);
    json_t *report = read_of(leave_in_variable, NULL, &options, STINT_REASON_FAILED);
    json_t *kept = json_at(report, "kept");
    assert_int_equal(json_array_size(kept), 1);
    json_t *root = json_array_get(kept, 0);
    assert_string_equal(json_string_value(json_at(root, "symbol")), "a_variable_that_keeps");
    assert_string_equal(json_string_value(json_at(root, "where")), "data");
    assert_in_range(number_of(json_at(root, "block_size")), 200, 224);
    assert_int_equal(number_of(json_at(report, "usage", "kept")), number_of(json_at(root, "block_size")));
    json_decref(report);
    free(a_variable_that_keeps);
    a_variable_that_keeps = NULL;
}

static int map_pages(void *arg, void **value)
{
    (void)arg;
    (void)value;
    void *pages = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return pages != MAP_FAILED && fopen("/dev/null", "r") != NULL ? EBADMSG : ENOMEM;
}

TEST(mapped_pages_and_what_libc_has_for_the_task_are_told_apart)
{
    (void)state;
    stint_options options = options_of(STINT_REPORT_HEAP, 0);
    json_t *report = read_of(map_pages, NULL, &options, STINT_REASON_FAILED);
    assert_int_equal(json_integer_value(json_at(report, "error")), EBADMSG);
    assert_int_equal(number_of(json_at(report, "what", "mapped_bytes")), MIB);
    assert_true(number_of(json_at(report, "what", "libc_bytes")) >= sizeof(FILE));
    json_decref(report);
}

/* --- Formats for people. --- */

TEST(the_line_says_how_much_in_blocks_of_what_size)
{
    (void)state;
    struct chain chain = { .nodes = 1 << 20 };
    stint_options options = options_of(STINT_REPORT_HEAP, 8 * MIB);
    stint_report *report = report_of(make_chain, &chain, &options, STINT_REASON_MEMORY_LIMIT);
    char *line = report_written(report, STINT_REPORT_LINE);
    assert_ptr_equal(strstr(line, "8.0 of 8.0 MiB in 17"), line);
    assert_non_null(strstr(line, " blocks of 33 to 48 bytes; in make_node < make_chain\n"));
    assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
    char *text = report_written(report, STINT_REPORT_TEXT);
    static const char *const parts[] = { "where it was stopped:\n", "make_node", "when:\n", "what it held: 17",
                                         "33 to       48" };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (strstr(text, parts[i]) == NULL)
            fail_msg("no \"%s\" in %s", parts[i], text);
    }
    test_free(text);
    test_free(line);
    stint_report_release(report);
}

TEST_MAIN()
