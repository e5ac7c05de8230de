/* SPDX-License-Identifier: MIT
 *
 * The report of each of the demo's bombs names the function that it was in, and the size of the blocks that it is made
 * of. */
#include <parse.h>

#include "reports.h"

struct bomb {
    const char *path;
    parse_kind kind;
    stint_reason reason;
    const char *functions[3]; /* that are in its callstack, the innermost first */
    size_t size;              /* of blocks of a class that holds a quarter of it at least; 0: it is not asked */
};

/* Exported functions of libraries, and the demo's own, have a name on every machine. */
static const struct bomb bombs[] = {
    { "billion-laughs.xml", PARSE_XML, STINT_REASON_MEMORY_LIMIT, { "xmlParseDocument", "xml_parse" }, 0 },
    { "quadratic-blowup.xml",
      PARSE_XML,
      STINT_REASON_MEMORY_LIMIT,
      { "xmlParseReference", "xmlParseDocument", "xml_parse" },
      40000 },
    { "doubling-string.lua", PARSE_LUA, STINT_REASON_MEMORY_LIMIT, { "lua_callk", "run_script", "lua_parse" }, 0 },
    { "growing-table.lua", PARSE_LUA, STINT_REASON_MEMORY_LIMIT, { "lua_callk", "run_script", "lua_parse" }, 56 },
    { "endless-loop.lua", PARSE_LUA, STINT_REASON_DEADLINE, { "lua_callk", "run_script", "lua_parse" }, 0 },
    { "endless-match.lua", PARSE_LUA, STINT_REASON_DEADLINE, { "lua_callk", "run_script", "lua_parse" }, 0 },
    { "recursive-insert.sql", PARSE_SQL, STINT_REASON_MEMORY_LIMIT, { "sqlite3_step", "sql_parse" }, 4200 },
    { "cross-join.sql", PARSE_SQL, STINT_REASON_DEADLINE, { "check_statement", "sqlite3_step", "sql_parse" }, 0 },
};

#define BOMB_COUNT (sizeof bombs / sizeof *bombs)

static json_t *explode(const struct bomb *bomb)
{
    char path[sizeof BOMBS + 64];
    snprintf(path, sizeof path, "%s/%s", BOMBS, bomb->path);
    parse_document document = { .path = path, .kind = bomb->kind };
    stint_options options = parse_options(bomb->kind);
    options.report = STINT_REPORT_HEAP;
    options.budget.memory = 16 * MIB;
    options.budget.run_ns = bomb->reason == STINT_REASON_DEADLINE ? 200 * MS : 0;
    return read_of(parse_document_run, &document, &options, bomb->reason);
}

static void check_functions(const struct bomb *bomb, json_t *stopped)
{
    size_t last = 0;
    for (size_t i = 0; i < 3 && bomb->functions[i] != NULL; i++) {
        size_t place = place_of(stopped, bomb->functions[i]);
        if (place == json_array_size(stopped))
            fail_msg("%s is not in the callstack of %s", bomb->functions[i], bomb->path);
        assert_true(place >= last);
        last = place;
    }
    assert_string_equal(function_at(stopped, json_array_size(stopped) - 1), "parse_document_run");
}

TEST(the_report_of_each_bomb_names_the_function_and_the_size)
{
    (void)state;
    parse_ready_libraries();
    for (size_t i = 0; i < BOMB_COUNT; i++) {
        const struct bomb *bomb = &bombs[i];
        json_t *report = explode(bomb);
        check_functions(bomb, json_at(report, "where", "stopped"));
        uint64_t all = number_of(json_at(report, "what", "bytes"));
        if (bomb->reason == STINT_REASON_MEMORY_LIMIT)
            assert_in_range(all, 8 * MIB, 17 * MIB);
        if (bomb->size != 0)
            assert_true(number_of(json_at(class_for(report, bomb->size), "bytes")) >= all / 4);
        json_decref(report);
    }
}

TEST_MAIN()
