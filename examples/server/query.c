/* SPDX-License-Identifier: MIT
 *
 * The task of this program: open the database, run one statement, write its rows into the channel. On any thread, in a
 * task or without one.
 *
 * It is stopped by a jump, at whatever instruction it is: there are functions of SQL that neither allocate nor come
 * back to SQLite's machine for hours (trim of two long strings takes the product of their lengths), and neither a
 * failed allocation nor a progress handler would end those. This is sound because the connection is the query's own,
 * made and dropped here, without a mutex, and never used again after a jump; what SQLite shares between connections is
 * either under a mutex of pthread's, which the jump waits for, or behind the VFS (vfs.h). To have the connection made
 * anew each time costs some 100 microseconds; one that is kept would hold memory of the tasks that used it. */
#include "query.h"
#include "database.h"
#include "vfs.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#define NICE 5 /* a third of the weight */

/* Steps of SQLite's machine between two looks whether it is others' turn, or somebody asks. */
#define LOOK_STEPS 10000

void query_give_way(void *unused, unsigned index)
{
    (void)unused;
    (void)index;
    setpriority(PRIO_PROCESS, 0, NICE);
}

stint_options query_options(void)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.on_interrupt = STINT_JUMP;
    options.preemptible = true;
    return options;
}

/* To ask what it has used costs some microseconds, so it is done when somebody looks on. */
static void tell(query_record *record)
{
    stint_usage usage;
    if (atomic_load_explicit(&record->asked, memory_order_relaxed) && stint_usage_now(&usage, NULL) == 0) {
        atomic_store_explicit(&record->asked, false, memory_order_relaxed);
        atomic_store_explicit(&record->allocated, usage.allocated, memory_order_relaxed);
    }
}

static int look(void *argument)
{
    query_record *record = argument;
    tell(record);
    turn_take(&record->turn);
    return 0;
}

static int fail(query_record *record, int error, const char *message)
{
    strncpy(record->message, message, sizeof record->message - 1);
    return error;
}

static int error_of(int result)
{
    switch (result & 0xff) {
    case SQLITE_NOMEM:
        return ENOMEM;
    case SQLITE_AUTH:
        return EACCES;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return EBUSY;
    case SQLITE_IOERR:
    case SQLITE_CORRUPT:
    case SQLITE_CANTOPEN:
    case SQLITE_NOTADB:
    case SQLITE_PROTOCOL:
        return EIO;
    default:
        return EBADMSG;
    }
}

static int fail_by_sqlite(query_record *record, sqlite3 *database, int result)
{
    return fail(record, record->refusal.any ? EACCES : error_of(result),
                database ? sqlite3_errmsg(database) : sqlite3_errstr(result));
}

static int write_rows(query_record *record, const struct sink *sink, sqlite3 *database, sqlite3_stmt *statement)
{
    struct rows rows = { .sink = sink, .format = record->format };
    int result = SQLITE_ROW;
    int error = 0;
    bool begun = false;
    while (!error && (result = sqlite3_step(statement)) == SQLITE_ROW) {
        /* Not before the first step: most that is wrong with a statement is known by then. */
        if (!begun)
            error = rows_begin(&rows, statement);
        begun = true;
        if (!error)
            error = rows_add(&rows, statement);
    }
    if (!error && result != SQLITE_DONE)
        return fail_by_sqlite(record, database, result);
    if (!error && !begun)
        error = rows_begin(&rows, statement);
    if (!error)
        error = rows_end(&rows);
    return error ? fail(record, error, strerror(error)) : 0;
}

/* What is behind the statement may be blank or a comment. */
static bool is_last(sqlite3 *database, const char *rest)
{
    sqlite3_stmt *next = NULL;
    int result = sqlite3_prepare_v2(database, rest, -1, &next, NULL);
    sqlite3_finalize(next);
    return result == SQLITE_OK && !next;
}

static int run(query_record *record, const struct sink *sink, sqlite3 *database)
{
    sqlite3_stmt *statement = NULL;
    const char *rest = NULL;
    int result = sqlite3_prepare_v2(database, record->statement, -1, &statement, &rest);
    if (result != SQLITE_OK)
        return fail_by_sqlite(record, database, result);
    int error;
    if (!statement)
        error = fail(record, EBADMSG, "there is no statement");
    else if (*rest && !is_last(database, rest))
        error = fail(record, EBADMSG, "there is more than one statement");
    else
        error = write_rows(record, sink, database, statement);
    sqlite3_finalize(statement);
    return error;
}

/* look_now: called now and then by SQLite's machine; NULL: nobody looks. */
static int open_and_run(query_record *record, const struct sink *sink, int (*look_now)(void *))
{
    sqlite3 *database = NULL;
    int result = database_open(record->path, &record->refusal, &database);
    if (result == SQLITE_OK)
        sqlite3_progress_handler(database, LOOK_STEPS, look_now, record);
    int error = result == SQLITE_OK ? run(record, sink, database) : fail_by_sqlite(record, database, result);
    sqlite3_close(database);
    return error;
}

static int write_to_channel(void *channel, const void *bytes, size_t length)
{
    return channel_write(channel, bytes, length);
}

static int end_row_in_channel(void *channel)
{
    return channel_end_row(channel);
}

int query_run(void *argument, void **value)
{
    (void)value;
    query_record *record = argument;
    const struct sink sink = { write_to_channel, end_row_in_channel, record->channel };
    stint_guard files, turn;
    stint_guard_push(&files, vfs_close_all, NULL);
    turn_begin(&record->turn, record->account);
    record->channel->turn = &record->turn;
    stint_guard_push(&turn, turn_leave, &record->turn);
    atomic_store_explicit(&record->begun, true, memory_order_relaxed);
    int error = open_and_run(record, &sink, look);
    stint_guard_pop(&turn, true);
    stint_guard_pop(&files, false);
    return error;
}

int query_run_to(query_record *record, const struct sink *sink)
{
    return open_and_run(record, sink, NULL);
}
