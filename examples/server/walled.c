/* SPDX-License-Identifier: MIT
 *
 * Queries behind a wall; see walled.h. What is said to run in a child, or in the template, does; the rest is the
 * program's. */
#include "walled.h"
#include "budget_options.h"
#include "database.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PATH_ROOM 4096

/* Of the database: read when a query runs, in a child, which has it from before the fork. */
static const char *database;

/* In a child */

/* What gathers small writes: each that reaches the reply is a call, and charged as a block. */
struct sheet {
    stint_reply *reply;
    size_t length;
    char bytes[16384];
};

static int flush(struct sheet *sheet)
{
    int error = stint_reply_write(sheet->reply, sheet->bytes, sheet->length);
    sheet->length = 0;
    return error;
}

static int write_to_sheet(void *to, const void *bytes, size_t length)
{
    struct sheet *sheet = to;
    int error = length > sizeof sheet->bytes - sheet->length ? flush(sheet) : 0;
    if (error || length > sizeof sheet->bytes)
        return error ? error : stint_reply_write(sheet->reply, bytes, length);
    memcpy(sheet->bytes + sheet->length, bytes, length);
    sheet->length += length;
    return 0;
}

static int end_row(void *unused)
{
    (void)unused;
    return 0;
}

static int fail(int error, const char *message)
{
    if (error == EMSGSIZE)
        message = "the answer is larger than the server allows";
    return stint_fail(error, message, strlen(message) + 1);
}

static int run(const char *statement, rows_format format, stint_reply *reply)
{
    struct sheet sheet = { .reply = reply };
    const struct sink sink = { write_to_sheet, end_row, &sheet };
    query_record record = { .path = database, .statement = statement, .format = format };
    int error = query_run_to(&record, &sink);
    if (!error && (error = flush(&sheet)))
        return fail(error, strerror(error));
    return error ? fail(error, record.message) : 0;
}

/* The input is the statement, with a zero byte at its end. */
static int run_for_json(const void *input, size_t size, stint_reply *reply)
{
    (void)size;
    return run(input, ROWS_JSON, reply);
}

static int run_for_csv(const void *input, size_t size, stint_reply *reply)
{
    (void)size;
    return run(input, ROWS_CSV, reply);
}

/* In the template */

/* To open the database, and to have opened it once, makes what SQLite and libc make at their first use. Its random
 * numbers are seeded anew in each child. */
static int warm_up(void *unused)
{
    (void)unused;
    closed_sqlite_refusal refusal;
    sqlite3 *opened = NULL;
    query_give_way(NULL, 0);
    if (database_open(database, &refusal, &opened) == SQLITE_OK)
        sqlite3_exec(opened, "SELECT count(*) FROM sqlite_schema", NULL, NULL, NULL);
    sqlite3_close(opened);
    sqlite3_randomness(0, NULL);
    return 0;
}

/* In the program */

/* The database's files, as far as they are there, and where SQLite takes its seeds from. */
struct paths {
    char names[3][PATH_ROOM];
    stint_wall_path list[4];
    size_t count;
};

static void add_path(struct paths *paths, const char *path)
{
    if (access(path, R_OK) == 0)
        paths->list[paths->count++] = (stint_wall_path){ .path = path };
}

static void find_paths(struct paths *paths)
{
    static const char *const endings[] = { "", "-wal", "-shm" };
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        snprintf(paths->names[i], PATH_ROOM, "%s%s", database, endings[i]);
        add_path(paths, paths->names[i]);
    }
    add_path(paths, "/dev/urandom");
}

int walled_open(struct server *server, char *message, size_t room)
{
    const struct options *options = server->options;
    struct paths paths = { .count = 0 };
    stint_wall_options wall = STINT_WALL_OPTIONS_INIT;
    database = server->database;
    find_paths(&paths);
    wall.name = "walled";
    wall.setup = warm_up;
    wall.children = options->workers ? options->workers : 2 * arguments_processors();
    wall.spare = wall.children;
    wall.paths = paths.list;
    wall.path_count = paths.count;
    wall.input_limit = options->statement + 1;
    wall.reply_limit = options->answer;
    wall.memory = budget_backstop(&options->budget);
    wall.queue_capacity = options->queue;
    wall.message = message;
    wall.message_size = room;
    return stint_wall_create(&wall, &server->wall);
}

int walled_submit(struct server *server, const query_record *record, size_t length, const stint_options *options,
                  stint_future **future)
{
    stint_wall_fn *run_it = record->format == ROWS_CSV ? run_for_csv : run_for_json;
    return stint_submit_walled(server->pool, server->wall, run_it, record->statement, length + 1, options, future);
}
