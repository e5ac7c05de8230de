/* SPDX-License-Identifier: MIT
 *
 * SQLite with FTS5: documents are indexed in memory and searched. docs/recipes.md has its mode, STINT_FAIL. */
#include "library.h"

#include <sqlite3.h>

static const char *const words[CHAOS_VARIANTS] = { "red",           "gre*",           "blue NOT red",
                                                   "\"red green\"", "NEAR(red blue)", "n3" };

static int search(sqlite3 *database, const char *words_of_query, uint64_t *sum)
{
    sqlite3_stmt *statement = NULL;
    int result = sqlite3_prepare_v2(
        database, "SELECT rowid, highlight(doc, 0, '[', ']') FROM doc WHERE doc MATCH ? ORDER BY rank LIMIT 5", -1,
        &statement, NULL);
    if (result == SQLITE_OK)
        result = sqlite3_bind_text(statement, 1, words_of_query, -1, SQLITE_STATIC);
    while (result == SQLITE_OK && sqlite3_step(statement) == SQLITE_ROW)
        chaos_add_text(sum, (const char *)sqlite3_column_text(statement, 1));
    int ended = sqlite3_finalize(statement);
    return result == SQLITE_OK ? ended : result;
}

static int run(unsigned variant, uint64_t *sum)
{
    sqlite3 *database = NULL;
    int result = sqlite3_open(":memory:", &database);
    if (result == SQLITE_OK)
        result =
            sqlite3_exec(database,
                         "CREATE VIRTUAL TABLE doc USING fts5(text);"
                         "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 20) INSERT INTO doc "
                         "SELECT printf('%s %s n%d', iif(i % 2, 'red', 'blue'), iif(i % 3, 'green', 'red'), i) FROM n",
                         NULL, NULL, NULL);
    if (result == SQLITE_OK)
        result = search(database, words[variant], sum);
    sqlite3_close(database);
    return result;
}

static void prepare(void)
{
    sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0); /* else every allocation takes a lock of the process */
}

static void ready(void)
{
    sqlite3_initialize();
}

const struct chaos_library CHAOS_ONE = {
    .name = "SQLite with FTS5",
    .modes = CHAOS_ANY_MODE,
    .preemptible = true,
    .prepare = prepare,
    .ready = ready,
    .run = run,
    .modules = "libsqlite3",
    .version = sqlite3_libversion,
};
