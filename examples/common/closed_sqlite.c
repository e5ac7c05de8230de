/* SPDX-License-Identifier: MIT
 *
 * SQLite, closed; see closed_sqlite.h. First the lists, then who asks them. */
#include "closed_sqlite.h"

#include <stddef.h>
#include <stdio.h>
#include <sys/random.h>

#include <stint/stint.h>

#define LIST(...) ((const char *const[]){ __VA_ARGS__, NULL })

static bool is_in(const char *name, const char *const *list)
{
    while (*list && sqlite3_stricmp(name, *list) != 0)
        list++;
    return *list != NULL;
}

/* They compute, and tell of nothing but their arguments and the connection's own rows. Not here is what loads code
 * (load_extension), what hands pointers around (fts3_tokenizer, fts5), what takes an index apart (rtreenode), and what
 * writes to the program's log. */
static bool is_function_allowed(const char *name)
{
    return is_in(name, LIST("->", "->>", "abs", "changes", "char", "coalesce", "concat", "concat_ws", "format", "glob",
                            "hex", "if", "ifnull", "iif", "instr", "last_insert_rowid", "length", "like", "likelihood",
                            "likely", "lower", "ltrim", "max", "min", "nullif", "octet_length", "printf", "quote",
                            "random", "randomblob", "replace", "round", "rtrim", "sign", "soundex", "sqlite_version",
                            "substr", "substring", "total_changes", "trim", "typeof", "unhex", "unicode", "unistr",
                            "unistr_quote", "unlikely", "upper", "zeroblob")) ||
           is_in(name,
                 LIST("avg", "count", "cume_dist", "dense_rank", "first_value", "group_concat", "lag", "last_value",
                      "lead", "median", "nth_value", "ntile", "percent_rank", "percentile", "percentile_cont",
                      "percentile_disc", "rank", "row_number", "string_agg", "sum", "total")) ||
           is_in(name, LIST("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "ceil", "ceiling", "cos",
                            "cosh", "degrees", "exp", "floor", "ln", "log", "log10", "log2", "mod", "pi", "pow",
                            "power", "radians", "sin", "sinh", "sqrt", "tan", "tanh", "trunc")) ||
           is_in(name, LIST("current_date", "current_time", "current_timestamp", "date", "datetime", "julianday",
                            "strftime", "time", "timediff", "unixepoch")) ||
           is_in(name, LIST("json", "json_array", "json_array_insert", "json_array_length", "json_error_position",
                            "json_extract", "json_group_array", "json_group_object", "json_insert", "json_object",
                            "json_patch", "json_pretty", "json_quote", "json_remove", "json_replace", "json_set",
                            "json_type", "json_valid")) ||
           is_in(name, LIST("jsonb", "jsonb_array", "jsonb_array_insert", "jsonb_extract", "jsonb_group_array",
                            "jsonb_group_object", "jsonb_insert", "jsonb_object", "jsonb_patch", "jsonb_remove",
                            "jsonb_replace", "jsonb_set")) ||
           is_in(name, LIST("bm25", "highlight", "match", "matchinfo", "offsets", "optimize", "snippet")) ||
           /* By ALTER TABLE; nobody else can call them. */
           is_in(name, LIST("sqlite_drop_column", "sqlite_rename_column", "sqlite_rename_quotefix",
                            "sqlite_rename_table", "sqlite_rename_test"));
}

/* They tell of the schema. SQLite's own modules ask the last two. */
static bool is_pragma_of_queries(const char *name)
{
    return is_in(name, LIST("table_info", "table_xinfo", "table_list", "index_list", "index_info", "index_xinfo",
                            "encoding", "foreign_key_list", "page_count", "user_version", "page_size", "data_version"));
}

/* They check the database, or change what its connection does; those that change the process (temp_store_directory,
 * soft_heap_limit) or what is said here (temp_store, writable_schema, trusted_schema, threads) are in no list. */
static bool is_pragma_of_scripts(const char *name)
{
    return is_pragma_of_queries(name) ||
           is_in(name, LIST("application_id", "auto_vacuum", "cache_size", "case_sensitive_like", "collation_list",
                            "database_list", "defer_foreign_keys", "foreign_key_check", "foreign_keys",
                            "freelist_count", "ignore_check_constraints", "integrity_check", "journal_mode",
                            "legacy_alter_table", "locking_mode", "quick_check", "recursive_triggers", "schema_version",
                            "secure_delete", "synchronous"));
}

/* These can be read without having been made, and show what the connection does or how its pages lie. */
static bool is_table_allowed(const char *name)
{
    return !is_in(name, LIST("bytecode", "dbstat", "fts3tokenize", "sqlite_dbpage", "sqlite_stmt", "tables_used"));
}

static bool is_module_allowed(const char *name)
{
    return is_in(name, LIST("fts4", "fts5", "rtree", "rtree_i32"));
}

static bool is_change_of_script(int action)
{
    switch (action) {
    case SQLITE_CREATE_INDEX:
    case SQLITE_CREATE_TABLE:
    case SQLITE_CREATE_TEMP_INDEX:
    case SQLITE_CREATE_TEMP_TABLE:
    case SQLITE_CREATE_TEMP_TRIGGER:
    case SQLITE_CREATE_TEMP_VIEW:
    case SQLITE_CREATE_TRIGGER:
    case SQLITE_CREATE_VIEW:
    case SQLITE_DROP_INDEX:
    case SQLITE_DROP_TABLE:
    case SQLITE_DROP_TEMP_INDEX:
    case SQLITE_DROP_TEMP_TABLE:
    case SQLITE_DROP_TEMP_TRIGGER:
    case SQLITE_DROP_TEMP_VIEW:
    case SQLITE_DROP_TRIGGER:
    case SQLITE_DROP_VIEW:
    case SQLITE_DROP_VTABLE:
    case SQLITE_ALTER_TABLE:
    case SQLITE_ANALYZE:
    case SQLITE_REINDEX:
    case SQLITE_INSERT:
    case SQLITE_UPDATE:
    case SQLITE_DELETE:
    case SQLITE_TRANSACTION:
    case SQLITE_SAVEPOINT:
        return true;
    default:
        return false;
    }
}

/* What both may do. SQLite asks for an update where a table-valued function is declared, and updates nothing then: who
 * asks it to is told by SQLite that this table may not be modified. */
static bool is_read(int action, const char *first, const char *second)
{
    switch (action) {
    case SQLITE_SELECT:
    case SQLITE_RECURSIVE:
        return true;
    case SQLITE_READ:
        return is_table_allowed(first);
    case SQLITE_UPDATE:
        return sqlite3_stricmp(first, "sqlite_master") == 0;
    case SQLITE_FUNCTION:
        return is_function_allowed(second);
    case SQLITE_PRAGMA:
        return is_pragma_of_queries(first);
    default:
        return false;
    }
}

static bool is_of_script(int action, const char *first, const char *second)
{
    return is_change_of_script(action) || (action == SQLITE_PRAGMA && is_pragma_of_scripts(first)) ||
           (action == SQLITE_CREATE_VTABLE && is_module_allowed(second));
}

static int refuse(closed_sqlite_refusal *refusal, int action, const char *first, const char *second)
{
    const char *what = action == SQLITE_FUNCTION || action == SQLITE_CREATE_VTABLE ? second : first;
    if (!refusal->any)
        snprintf(refusal->what, sizeof refusal->what, "%s%s", action == SQLITE_PRAGMA ? "PRAGMA " : "",
                 what ? what : "");
    refusal->any = true;
    return SQLITE_DENY;
}

static int authorize_query(void *refusal, int action, const char *first, const char *second, const char *database,
                           const char *inner)
{
    (void)database;
    (void)inner;
    return is_read(action, first, second) ? SQLITE_OK : refuse(refusal, action, first, second);
}

static int authorize_script(void *refusal, int action, const char *first, const char *second, const char *database,
                            const char *inner)
{
    (void)database;
    (void)inner;
    return is_read(action, first, second) || is_of_script(action, first, second)
               ? SQLITE_OK
               : refuse(refusal, action, first, second);
}

/* What the lists do not reach. */

static int set_switches(sqlite3 *database)
{
    static const struct {
        int name, on;
    } switches[] = {
        { SQLITE_DBCONFIG_DEFENSIVE, 1 },
        { SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0 },
        { SQLITE_DBCONFIG_WRITABLE_SCHEMA, 0 },
        { SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0 },
        { SQLITE_DBCONFIG_ENABLE_FTS3_TOKENIZER, 0 },
    };
    int result = SQLITE_OK;
    for (size_t i = 0; result == SQLITE_OK && i < sizeof switches / sizeof *switches; i++)
        result = sqlite3_db_config(database, switches[i].name, switches[i].on, NULL);
    return result;
}

/* As many as a large schema needs, and fewer than a stack or a deadline minds. */
static void set_limits(sqlite3 *database, int longest)
{
    sqlite3_limit(database, SQLITE_LIMIT_LENGTH, longest);
    sqlite3_limit(database, SQLITE_LIMIT_SQL_LENGTH, longest);
    sqlite3_limit(database, SQLITE_LIMIT_EXPR_DEPTH, 500);
    sqlite3_limit(database, SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1000);
    sqlite3_limit(database, SQLITE_LIMIT_VARIABLE_NUMBER, 1000);
    sqlite3_limit(database, SQLITE_LIMIT_TRIGGER_DEPTH, 100);
    sqlite3_limit(database, SQLITE_LIMIT_ATTACHED, 0);
    sqlite3_limit(database, SQLITE_LIMIT_WORKER_THREADS, 0);
}

/* SQLite's own writes a whole blob with a lock of the process held, for 2 ms a megabyte: meanwhile no other connection
 * gets a number, or is opened, and no deadline is looked at. */

#define PIECE ((sqlite3_int64)1 << 16)

static bool fill_with_random(char *bytes, sqlite3_int64 size)
{
    for (sqlite3_int64 filled = 0; filled < size && !stint_is_interrupted();) {
        sqlite3_int64 left = size - filled;
        ssize_t count = getrandom(bytes + filled, (size_t)(left < PIECE ? left : PIECE), 0);
        filled += count > 0 ? count : 0;
        stint_checkpoint();
    }
    return !stint_is_interrupted();
}

static void make_random_blob(sqlite3_context *context, int count, sqlite3_value **values)
{
    (void)count;
    sqlite3_int64 size = sqlite3_value_int64(values[0]);
    size = size < 1 ? 1 : size;
    if (size > sqlite3_limit(sqlite3_context_db_handle(context), SQLITE_LIMIT_LENGTH, -1)) {
        sqlite3_result_error_toobig(context);
        return;
    }
    char *bytes = sqlite3_malloc64((sqlite3_uint64)size);
    if (!bytes) {
        sqlite3_result_error_nomem(context);
    } else if (!fill_with_random(bytes, size)) {
        sqlite3_free(bytes);
        sqlite3_result_error_code(context, SQLITE_INTERRUPT);
    } else {
        sqlite3_result_blob64(context, bytes, (sqlite3_uint64)size, sqlite3_free);
    }
}

static int confine(sqlite3 *database, const closed_sqlite_options *options, closed_sqlite_refusal *refusal)
{
    sqlite3_extended_result_codes(database, 1);
    set_limits(database, options->longest);
    int result = set_switches(database);
    /* What is sorted and grouped is memory, and so is charged. */
    if (result == SQLITE_OK)
        result = sqlite3_exec(database, "PRAGMA temp_store = MEMORY", NULL, NULL, NULL);
    if (result == SQLITE_OK)
        result = sqlite3_create_function(database, "randomblob", 1, SQLITE_UTF8 | SQLITE_INNOCUOUS, NULL,
                                         make_random_blob, NULL, NULL);
    if (result == SQLITE_OK)
        result = sqlite3_set_authorizer(
            database, options->use == CLOSED_SQLITE_SCRIPT ? authorize_script : authorize_query, refusal);
    return result;
}

/* For databases in memory: there is no file that SQLite could want. */

static sqlite3_vfs no_files;

static int open_no_file(sqlite3_vfs *vfs, sqlite3_filename name, sqlite3_file *file, int flags, int *result_flags)
{
    (void)vfs;
    (void)name;
    (void)flags;
    (void)result_flags;
    file->pMethods = NULL;
    return SQLITE_CANTOPEN;
}

static int register_no_files(void)
{
    const sqlite3_vfs *usual = sqlite3_vfs_find(NULL);
    if (!usual)
        return SQLITE_ERROR;
    no_files = *usual;
    no_files.zName = "no-files";
    no_files.pNext = NULL;
    no_files.xOpen = open_no_file;
    return sqlite3_vfs_register(&no_files, 0);
}

int closed_sqlite_ready(void)
{
    /* The statistics would make every allocation take one lock of the process. */
    int result = sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    if (result == SQLITE_OK)
        result = sqlite3_initialize();
    if (result == SQLITE_OK && sqlite3_compileoption_used("TEMP_STORE=0"))
        result = SQLITE_MISUSE;
    return result == SQLITE_OK ? register_no_files() : result;
}

int closed_sqlite_open(const closed_sqlite_options *options, closed_sqlite_refusal *refusal, sqlite3 **database)
{
    bool in_memory = options->path == NULL;
    int flags = in_memory ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX;
    *refusal = (closed_sqlite_refusal){ .any = false };
    int result = sqlite3_open_v2(in_memory ? ":memory:" : options->path, database, flags | SQLITE_OPEN_PRIVATECACHE,
                                 in_memory ? no_files.zName : options->vfs);
    return result == SQLITE_OK ? confine(*database, options, refusal) : result;
}
