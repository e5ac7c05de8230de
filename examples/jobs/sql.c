/* SPDX-License-Identifier: MIT
 *
 * SQL, by SQLite, in a fresh database in memory. It is taught to stop: SQLite calls its progress handler every so many
 * steps, the handler asks stint, and a handler that returns nonzero ends the statement. So a statement that allocates
 * nothing ends at its deadline too. A byte limit reaches SQLite as an allocation that fails. */
#include "library.h"

#include <errno.h>
#include <sqlite3.h>

/* Steps of SQLite's machine between two looks: well under a millisecond. */
#define STEPS 1000

void sql_ready(void)
{
    /* The statistics would make every allocation take one process-wide lock. */
    sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    sqlite3_initialize();
}

static int look(void *unused)
{
    (void)unused;
    stint_checkpoint();
    return stint_is_interrupted();
}

/* Every statement of the text, one after the other, to its last row. Text that ends at a zero byte is SQLite's rule. */
static int run_statements(sqlite3 *database, const char *text, uint64_t *rows)
{
    int result = SQLITE_OK;
    while (result == SQLITE_OK && *text) {
        sqlite3_stmt *statement = NULL;
        result = sqlite3_prepare_v2(database, text, -1, &statement, &text);
        if (result != SQLITE_OK || !statement)
            continue; /* an error, or a comment */
        while ((result = sqlite3_step(statement)) == SQLITE_ROW)
            ++*rows;
        result = sqlite3_finalize(statement);
    }
    return result;
}

int sql_parse(parse_document *document, const char *text, size_t size)
{
    (void)size;
    sqlite3 *database = NULL;
    int result = sqlite3_open(":memory:", &database);
    if (result == SQLITE_OK) {
        sqlite3_progress_handler(database, STEPS, look, NULL);
        /* Nothing on disk: neither temporary files, nor databases that the text names. */
        sqlite3_limit(database, SQLITE_LIMIT_ATTACHED, 0);
        sqlite3_db_config(database, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
        result = sqlite3_exec(database, "PRAGMA temp_store = MEMORY", NULL, NULL, NULL);
    }
    if (result == SQLITE_OK)
        result = run_statements(database, text, &document->items);
    if (result != SQLITE_OK)
        parse_explain(document, "%s", database ? sqlite3_errmsg(database) : sqlite3_errstr(result));
    sqlite3_close(database);
    if (result == SQLITE_OK)
        return 0;
    return (result & 0xff) == SQLITE_NOMEM ? ENOMEM : EBADMSG;
}
