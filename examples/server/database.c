/* SPDX-License-Identifier: MIT
 *
 * The database as queries see it; see database.h. */
#include "database.h"
#include "vfs.h"

#include <stddef.h>
#include <string.h>

int database_ready(void)
{
    /* The statistics would make every allocation take one lock of the process. */
    int result = sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    if (result == SQLITE_OK)
        result = sqlite3_initialize();
    return result == SQLITE_OK ? vfs_register() : result;
}

/* Those that read a file, load code, or hand pointers around. Most are known to SQLite's shell only, and here in case
 * that an extension brings them along. */
static bool is_function_refused(const char *name)
{
    static const char *const refused[] = { "load_extension", "readfile", "writefile", "edit",
                                           "fts3_tokenizer", "fsdir",    "lsmode",    "zipfile" };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        if (sqlite3_stricmp(name, refused[i]) == 0)
            return true;
    }
    return false;
}

/* Those that tell of the schema, and take nothing but the name of what they tell of. */
static bool is_pragma_allowed(const char *name)
{
    static const char *const allowed[] = { "table_info", "table_xinfo", "table_list",  "index_list",
                                           "index_info", "index_xinfo", "encoding",    "foreign_key_list",
                                           "page_count", "page_size",   "user_version" };
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++) {
        if (sqlite3_stricmp(name, allowed[i]) == 0)
            return true;
    }
    return false;
}

static bool is_allowed(int action, const char *first, const char *second)
{
    switch (action) {
    case SQLITE_SELECT:
    case SQLITE_READ:
    case SQLITE_RECURSIVE:
        return true;
    case SQLITE_UPDATE:
        /* SQLite asks this where a table-valued function is declared, and updates nothing then. Who asks it to is told
         * by SQLite that this table may not be modified. */
        return sqlite3_stricmp(first, "sqlite_master") == 0;
    case SQLITE_FUNCTION:
        return !is_function_refused(second);
    case SQLITE_PRAGMA:
        return is_pragma_allowed(first);
    default:
        return false;
    }
}

static int authorize(void *refused, int action, const char *first, const char *second, const char *database,
                     const char *inner)
{
    (void)database;
    (void)inner;
    if (is_allowed(action, first, second))
        return SQLITE_OK;
    *(bool *)refused = true;
    return SQLITE_DENY;
}

static int confine(sqlite3 *database, bool *refused)
{
    sqlite3_extended_result_codes(database, 1);
    sqlite3_limit(database, SQLITE_LIMIT_ATTACHED, 0);
    sqlite3_limit(database, SQLITE_LIMIT_WORKER_THREADS, 0);
    sqlite3_db_config(database, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(database, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(database, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, NULL);
    sqlite3_db_config(database, SQLITE_DBCONFIG_ENABLE_FTS3_TOKENIZER, 0, NULL);
    /* What is sorted and grouped is memory, and so is charged. */
    int result = sqlite3_exec(database, "PRAGMA temp_store = MEMORY", NULL, NULL, NULL);
    return result == SQLITE_OK ? sqlite3_set_authorizer(database, authorize, refused) : result;
}

int database_open(const char *path, bool *refused, sqlite3 **database)
{
    int flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE;
    int result = sqlite3_open_v2(path, database, flags, VFS_NAME);
    return result == SQLITE_OK ? confine(*database, refused) : result;
}
