/* SPDX-License-Identifier: MIT
 *
 * Endurance: thousands of hostile documents one after the other in one process, by the parsers of stint-batch. Each is
 * stopped for the right reason, the process lives, and its memory does not grow. The argument is the number of
 * bombs. */
#include <parse.h>

#include "quarantine.h"
#include "support.h"

#define LIMIT (16 * MIB)
#define LOOP_NS UINT64_C(2000000)
#define IN_FLIGHT 2
#define FEWEST 400

struct bomb {
    const char *path; /* in the folder of bombs, or written by this test */
    parse_kind kind;
    stint_reason reason;
};

static const struct bomb bombs[] = {
    { BOMBS "/billion-laughs.xml", PARSE_XML, STINT_REASON_MEMORY_LIMIT },
    { BOMBS "/quadratic-blowup.xml", PARSE_XML, STINT_REASON_MEMORY_LIMIT },
    { "laughs-in-japanese.xml", PARSE_XML, STINT_REASON_MEMORY_LIMIT },
    { "array.json", PARSE_JSON, STINT_REASON_MEMORY_LIMIT },
    { "object.json", PARSE_JSON, STINT_REASON_MEMORY_LIMIT },
    { BOMBS "/growing-table.lua", PARSE_LUA, STINT_REASON_MEMORY_LIMIT },
    { BOMBS "/doubling-string.lua", PARSE_LUA, STINT_REASON_MEMORY_LIMIT },
    { BOMBS "/endless-loop.lua", PARSE_LUA, STINT_REASON_DEADLINE },
    { BOMBS "/endless-match.lua", PARSE_LUA, STINT_REASON_DEADLINE },
    { BOMBS "/recursive-insert.sql", PARSE_SQL, STINT_REASON_MEMORY_LIMIT },
    { BOMBS "/cross-join.sql", PARSE_SQL, STINT_REASON_DEADLINE },
    { "brackets.expr", PARSE_EXPR, STINT_REASON_STACK },
};

#define BOMB_COUNT (sizeof bombs / sizeof bombs[0])

static const struct bomb harmless[] = {
    { "good.xml", PARSE_XML, STINT_REASON_NONE },  { "good.json", PARSE_JSON, STINT_REASON_NONE },
    { "good.lua", PARSE_LUA, STINT_REASON_NONE },  { "good.sql", PARSE_SQL, STINT_REASON_NONE },
    { "bad.xml", PARSE_XML, STINT_REASON_FAILED }, { "good.expr", PARSE_EXPR, STINT_REASON_NONE },
};

static size_t bomb_total;

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

/* In an encoding for which libxml2 opens converters of libc, which no rollback closes. */
static void write_laughs_in_japanese(const char *path)
{
    FILE *from = fopen(BOMBS "/billion-laughs.xml", "r");
    FILE *to = fopen(path, "w");
    assert_non_null(from);
    assert_non_null(to);
    char line[256];
    assert_non_null(fgets(line, sizeof line, from));
    fputs("<?xml version=\"1.0\" encoding=\"Shift_JIS\"?>\n", to);
    while (fgets(line, sizeof line, from))
        fputs(line, to);
    fclose(from);
    assert_int_equal(fclose(to), 0);
}

/* Entries that take much memory and little time. */
static void write_json(const char *array, const char *object)
{
    FILE *file = fopen(array, "w");
    assert_non_null(file);
    fputs("[[]", file);
    for (int i = 0; i < 500000; i++)
        fputs(",[]", file);
    fputs("]\n", file);
    assert_int_equal(fclose(file), 0);
    file = fopen(object, "w");
    assert_non_null(file);
    fputs("{\"\":0", file);
    for (int i = 0; i < 100000; i++)
        fprintf(file, ",\"%080d\":0", i);
    fputs("}\n", file);
    assert_int_equal(fclose(file), 0);
}

static void write_brackets(const char *path)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int i = 0; i < 1000000; i++)
        putc('(', file);
    fputs("1\n", file);
    assert_int_equal(fclose(file), 0);
}

static int setup(void **state)
{
    (void)state;
    char folder[] = "/tmp/stint-bombs-XXXXXX";
    if (!mkdtemp(folder) || chdir(folder))
        return -1;
    write_laughs_in_japanese("laughs-in-japanese.xml");
    write_json("array.json", "object.json");
    write_text("good.xml", "<a><b/>text</a>\n");
    write_text("bad.xml", "<a><b/>text</wrong>\n");
    write_text("good.json", "[1, {\"a\": null}]\n");
    write_text("good.lua", "return 1, 2\n");
    write_text("good.sql", "SELECT 1 UNION ALL SELECT 2;\n");
    write_brackets("brackets.expr");
    write_text("good.expr", "((1 + 2) * (3 + -4))\n");
    parse_ready_libraries();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    static const char *const written[] = { "laughs-in-japanese.xml",
                                           "array.json",
                                           "object.json",
                                           "good.xml",
                                           "bad.xml",
                                           "good.json",
                                           "good.lua",
                                           "good.sql",
                                           "good.expr",
                                           "brackets.expr" };
    for (size_t i = 0; i < sizeof written / sizeof written[0]; i++)
        unlink(written[i]);
    char folder[64];
    return getcwd(folder, sizeof folder) && rmdir(folder) == 0 ? 0 : -1;
}

struct flight {
    const struct bomb *bomb;
    parse_document document;
    stint_future *future;
};

static void launch(stint_pool *pool, struct flight *flight, const struct bomb *bomb)
{
    flight->bomb = bomb;
    flight->document = (parse_document){ .path = bomb->path, .kind = bomb->kind };
    stint_options options = parse_options(bomb->kind);
    options.budget.memory = LIMIT;
    options.budget.run_ns = bomb->reason == STINT_REASON_DEADLINE ? LOOP_NS : 0;
    assert_int_equal(stint_submit(pool, parse_document_run, &flight->document, &options, &flight->future), 0);
}

static void land(struct flight *flight)
{
    if (!flight->future)
        return;
    stint_outcome outcome;
    assert_int_equal(stint_future_wait(flight->future, &outcome), 0);
    stint_future_release(flight->future);
    flight->future = NULL;
    if (outcome.reason != flight->bomb->reason)
        fail_msg("%s: %s, %s instead of %s: %s", flight->bomb->path, stint_status_name(outcome.status),
                 stint_reason_name(outcome.reason), stint_reason_name(flight->bomb->reason), flight->document.detail);
    assert_int_equal(outcome.status, outcome.reason == STINT_REASON_NONE ? STINT_OK : STINT_ERROR);
    assert_true(outcome.usage.peak <= LIMIT + LIMIT / 128);
}

/* Both workers are kept busy: the next bomb is launched when the oldest in flight has landed. Returns what memory the
 * process had on average: at one instant it depends on which bombs are in flight and on what mimalloc has not given
 * back yet, and so does the most of many. */
static size_t run(stint_pool *pool, const struct bomb *list, size_t kinds, size_t from, size_t to)
{
    struct flight flights[IN_FLIGHT] = { 0 };
    size_t sum = 0;
    for (size_t i = from; i < to; i++) {
        struct flight *flight = &flights[i % IN_FLIGHT];
        land(flight);
        sum += resident();
        launch(pool, flight, &list[i % kinds]);
    }
    for (size_t i = to; i < to + IN_FLIGHT; i++)
        land(&flights[i % IN_FLIGHT]);
    return sum / (to - from);
}

TEST(bombs_are_stopped_one_after_the_other_and_leave_nothing)
{
    stint_pool *pool;
    stint_pool_options options = STINT_POOL_OPTIONS_INIT;
    options.workers = IN_FLIGHT;
    assert_int_equal(stint_pool_create(&options, &pool), 0);

    size_t window = bomb_total / 3;
    size_t before = run(pool, bombs, BOMB_COUNT, 0, window);
    run(pool, bombs, BOMB_COUNT, window, bomb_total - window);
    size_t after = run(pool, bombs, BOMB_COUNT, bomb_total - window, bomb_total);
    print_message("resident during the first %zu bombs on average %zu KiB, during the last %zu of %zu %zu KiB\n",
                  window, before / 1024, window, bomb_total, after / 1024);
    /* As much as they differ by chance; of 10,000 that is 7 KiB a bomb. */
    assert_true(after < before + 48 * MIB + IN_FLIGHT * quarantine_room(LIMIT));

    /* Whatever a bomb was stopped in, its library goes on working. */
    run(pool, harmless, sizeof harmless / sizeof harmless[0], 0, 1000);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

int main(int argc, char **argv)
{
    bomb_total = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    if (bomb_total > FEWEST)
        bomb_total = repeats((unsigned)bomb_total) > FEWEST ? repeats((unsigned)bomb_total) : FEWEST;
    if (bomb_total < FEWEST) {
        fprintf(stderr, "usage: %s NUMBER, at least %d\n", argv[0], FEWEST);
        return 2;
    }
    return run_all_tests(setup, teardown);
}
