/* SPDX-License-Identifier: MIT
 *
 * SQLite: a fresh database in memory, filled, indexed and queried. Its mode is STINT_FAIL: SQLite holds its
 * connection's mutex through every call, so a jump waits until the grace is exhausted and allocations fail; and SQLite
 * answers a failed allocation by undoing its work. STINT_JUMP is tried too, since a database in memory is known to its
 * connection only. */
#include "library.h"

#include <sqlite3.h>

static void ready(void)
{
    sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0); /* else every allocation takes a lock of the process */
    sqlite3_initialize();
}

/* A statement that allocates nothing ends here. */
static int look(void *unused)
{
    (void)unused;
    stint_checkpoint();
    return stint_is_interrupted();
}

static int add_rows(sqlite3 *database, const char *query, uint64_t *sum)
{
    sqlite3_stmt *statement = NULL;
    int result = sqlite3_prepare_v2(database, query, -1, &statement, NULL);
    if (result != SQLITE_OK)
        return result;
    while ((result = sqlite3_step(statement)) == SQLITE_ROW) {
        for (int column = 0; column < sqlite3_column_count(statement); column++)
            chaos_add_text(sum, (const char *)sqlite3_column_text(statement, column));
    }
    sqlite3_finalize(statement);
    return result == SQLITE_DONE ? SQLITE_OK : result;
}

static const char *const queries[CHAOS_VARIANTS] = {
    "SELECT kind, count(*), sum(length(name)) FROM item GROUP BY kind ORDER BY 2, 1",
    "SELECT a.name, b.name FROM item a JOIN item b ON a.id = b.id + 7 WHERE a.kind = 3 ORDER BY a.name DESC",
    "SELECT group_concat(name, ';') FROM (SELECT DISTINCT substr(name, 3, 9) AS name FROM item ORDER BY 1)",
    "WITH RECURSIVE f(a, b) AS (SELECT 0, 1 UNION ALL SELECT b, a + b FROM f LIMIT 60) SELECT max(b) FROM f",
    "SELECT json_group_array(json_object('id', id, 'name', name)) FROM item WHERE id % 5 = 1",
    "SELECT name, rank() OVER (PARTITION BY kind ORDER BY name) FROM item ORDER BY id LIMIT 30",
};

static int run(unsigned variant, uint64_t *sum)
{
    sqlite3 *database = NULL;
    int result = sqlite3_open(":memory:", &database);
    if (result == SQLITE_OK) {
        sqlite3_progress_handler(database, 200, look, NULL);
        result = sqlite3_exec(database,
                              "CREATE TABLE item(id INTEGER PRIMARY KEY, kind INT, name TEXT);"
                              "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 80) "
                              "INSERT INTO item SELECT i, i * 5 % 7, printf('%08x-%s', i * 2654435761, hex(i)) FROM n;"
                              "CREATE INDEX by_kind ON item(kind, name)",
                              NULL, NULL, NULL);
    }
    if (result == SQLITE_OK)
        result = add_rows(database, queries[variant], sum);
    sqlite3_close(database);
    return result;
}

static bool idle(void)
{
    /* The static mutexes are numbered from SQLITE_MUTEX_STATIC_MAIN on. */
    for (int id = SQLITE_MUTEX_STATIC_MAIN; id <= SQLITE_MUTEX_STATIC_VFS3; id++) {
        sqlite3_mutex *mutex = sqlite3_mutex_alloc(id);
        if (sqlite3_mutex_try(mutex) != SQLITE_OK)
            return false;
        sqlite3_mutex_leave(mutex);
    }
    return true;
}

static const char *version(void)
{
    return sqlite3_libversion();
}

const struct chaos_library chaos_sql = {
    .name = "sqlite",
    .modes = CHAOS_ANY_MODE,
    .preemptible = true,
    .ready = ready,
    .run = run,
    .idle = idle,
    .modules = "libsqlite3",
    .version = version,
};
