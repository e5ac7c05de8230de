/* SPDX-License-Identifier: MIT
 *
 * The sample database; see sample.h. SQLite itself reads the JSON of iso-codes. */
#include "sample.h"
#include "contents.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FOLDER "/usr/share/iso-codes/json/"

static const struct table {
    const char *file;
    const char *create;
    const char *fill; /* ?1 is the file */
} tables[] = {
    { FOLDER "iso_3166-1.json",
      "CREATE TABLE country (code TEXT PRIMARY KEY, code3 TEXT, number INTEGER, name TEXT, official_name TEXT, flag "
      "TEXT)",
      "INSERT INTO country SELECT value->>'alpha_2', value->>'alpha_3', CAST(value->>'numeric' AS INTEGER),"
      " value->>'name', value->>'official_name', value->>'flag' FROM json_each(?1, '$.\"3166-1\"')" },
    { FOLDER "iso_3166-2.json",
      "CREATE TABLE subdivision (code TEXT PRIMARY KEY, country TEXT REFERENCES country, name TEXT, type TEXT)",
      "INSERT INTO subdivision SELECT value->>'code', substr(value->>'code', 1, 2), value->>'name', value->>'type'"
      " FROM json_each(?1, '$.\"3166-2\"')" },
    { FOLDER "iso_639-3.json",
      "CREATE TABLE language (code TEXT PRIMARY KEY, code2 TEXT, name TEXT, scope TEXT, type TEXT)",
      "INSERT INTO language SELECT value->>'alpha_3', value->>'alpha_2', value->>'name', value->>'scope', "
      "value->>'type'"
      " FROM json_each(?1, '$.\"639-3\"')" },
    { FOLDER "iso_4217.json", "CREATE TABLE currency (code TEXT PRIMARY KEY, number INTEGER, name TEXT)",
      "INSERT INTO currency SELECT value->>'alpha_3', CAST(value->>'numeric' AS INTEGER), value->>'name'"
      " FROM json_each(?1, '$.\"4217\"')" },
    { FOLDER "iso_15924.json", "CREATE TABLE script (code TEXT PRIMARY KEY, number INTEGER, name TEXT)",
      "INSERT INTO script SELECT value->>'alpha_4', CAST(value->>'numeric' AS INTEGER), value->>'name'"
      " FROM json_each(?1, '$.\"15924\"')" },
};

static const char indexes[] = "CREATE INDEX subdivision_country ON subdivision (country);"
                              "CREATE INDEX language_name ON language (name);"
                              "ANALYZE";

/* NULL: it is not there. */
static char *read_file(const char *path, size_t *length)
{
    char *text = NULL;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
        contents_read(file, SIZE_MAX, &text, length);
        close(file);
    }
    return text;
}

static int fill(sqlite3 *database, const struct table *table, const char *text, size_t length)
{
    sqlite3_stmt *statement = NULL;
    int result = sqlite3_exec(database, table->create, NULL, NULL, NULL);
    if (result == SQLITE_OK)
        result = sqlite3_prepare_v2(database, table->fill, -1, &statement, NULL);
    if (result == SQLITE_OK)
        result = sqlite3_bind_text64(statement, 1, text, length, SQLITE_STATIC, SQLITE_UTF8);
    if (result == SQLITE_OK)
        sqlite3_step(statement);
    return sqlite3_finalize(statement);
}

static bool fill_all(sqlite3 *database, char *message, size_t room)
{
    /* Nobody misses it after a crash. */
    sqlite3_exec(database, "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; BEGIN", NULL, NULL, NULL);
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        size_t length = 0;
        char *text = read_file(tables[i].file, &length);
        int result = text ? fill(database, &tables[i], text, length) : SQLITE_OK;
        free(text);
        if (!text) {
            snprintf(message, room, "no sample can be made, as there is no %s: give a DATABASE, or install iso-codes",
                     tables[i].file);
            return false;
        }
        if (result != SQLITE_OK) {
            snprintf(message, room, "no sample can be made of %s: %s", tables[i].file, sqlite3_errmsg(database));
            return false;
        }
    }
    sqlite3_exec(database, "COMMIT", NULL, NULL, NULL);
    if (sqlite3_exec(database, indexes, NULL, NULL, NULL) == SQLITE_OK)
        return true;
    snprintf(message, room, "no sample can be made: %s", sqlite3_errmsg(database));
    return false;
}

char *sample_create(char *message, size_t room)
{
    const char *folder = getenv("TMPDIR");
    char *path = NULL;
    int fd = -1;
    if (asprintf(&path, "%s/stint-sqld-XXXXXX", folder && *folder ? folder : "/tmp") < 0)
        path = NULL;
    if (path)
        fd = mkstemp(path);
    if (fd < 0) {
        snprintf(message, room, "no sample can be made in %s: %s", path ? path : "memory", strerror(errno));
        free(path);
        return NULL;
    }
    close(fd);
    sqlite3 *database = NULL;
    bool good = sqlite3_open_v2(path, &database, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK;
    if (!good)
        snprintf(message, room, "%s: %s", path, database ? sqlite3_errmsg(database) : "out of memory");
    good = good && fill_all(database, message, room);
    sqlite3_close(database);
    if (good)
        return path;
    sample_remove(path);
    return NULL;
}

void sample_remove(char *path)
{
    if (path)
        unlink(path);
    free(path);
}
