/* SPDX-License-Identifier: MIT
 *
 * SQL, by SQLite, in a fresh database in memory. It is taught to stop: SQLite calls its progress handler every so many
 * steps, the handler asks stint, and a handler that returns nonzero ends the statement. So a statement that allocates
 * nothing ends at its deadline too. A byte limit reaches SQLite as an allocation that fails. */
#include "closed_sqlite.h"
#include "library.h"

#include <errno.h>

/* Steps of SQLite's machine between two looks: well under a millisecond. */
#define STEPS 1000

/* Of a value, a row and a statement. */
#define LONGEST (64 << 20)

void sql_ready(void)
{
    closed_sqlite_ready(); /* if it fails, so does each document, with SQLite's words */
}

static int check_statement(void *unused)
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

static void explain(parse_document *document, sqlite3 *database, int result, const closed_sqlite_refusal *refusal)
{
    if (refusal->any && refusal->what[0])
        parse_explain(document, "not allowed: %s", refusal->what);
    else
        parse_explain(document, "%s", database ? sqlite3_errmsg(database) : sqlite3_errstr(result));
}

int sql_parse(parse_document *document, const char *text, size_t size)
{
    (void)size;
    const closed_sqlite_options options = { .use = CLOSED_SQLITE_SCRIPT, .longest = LONGEST };
    closed_sqlite_refusal refusal;
    sqlite3 *database = NULL;
    int result = closed_sqlite_open(&options, &refusal, &database);
    if (result == SQLITE_OK) {
        sqlite3_progress_handler(database, STEPS, check_statement, NULL);
        result = run_statements(database, text, &document->items);
    }
    if (result != SQLITE_OK)
        explain(document, database, result, &refusal);
    sqlite3_close(database);
    if (result == SQLITE_OK)
        return 0;
    return (result & 0xff) == SQLITE_NOMEM ? ENOMEM : EBADMSG;
}
