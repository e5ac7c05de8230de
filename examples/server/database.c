/* SPDX-License-Identifier: MIT
 *
 * The database as queries see it; see database.h. */
#include "database.h"
#include "vfs.h"

/* Of a value, a row and a statement: what one function of SQL can make, it makes before anybody can stop it. */
#define LONGEST (16 << 20)

int database_ready(void)
{
    int result = closed_sqlite_ready();
    return result == SQLITE_OK ? vfs_register() : result;
}

int database_open(const char *path, closed_sqlite_refusal *refusal, sqlite3 **database)
{
    const closed_sqlite_options options = {
        .path = path,
        .vfs = VFS_NAME,
        .use = CLOSED_SQLITE_QUERIES,
        .longest = LONGEST,
    };
    return closed_sqlite_open(&options, refusal, database);
}
