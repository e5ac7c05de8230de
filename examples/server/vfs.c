/* SPDX-License-Identifier: MIT
 *
 * SQLite's files; see vfs.h. */
#include "vfs.h"

#include <sqlite3.h>
#include <stddef.h>
#include <stint/stint.h>

/* A file of ours, in memory of the connection that has it open; SQLite's own is right behind it. */
struct file {
    sqlite3_file base;
    struct file *next;
    unsigned shared; /* a bit for each lock of the WAL's index that it has */
    bool mapped;     /* it has a part of that index */
};

/* What the query on this thread has open. */
static _Thread_local struct file *opened;

static sqlite3_vfs *behind;
static sqlite3_vfs ours;

static sqlite3_file *real(sqlite3_file *file)
{
    return (sqlite3_file *)(void *)((struct file *)(void *)file + 1);
}

static struct file *ours_of(sqlite3_file *file)
{
    return (struct file *)(void *)file;
}

/* KEPT(call): its result, made in a keep region. */
#define KEPT(call)                                                                                                     \
    ({                                                                                                                 \
        stint_keep_begin();                                                                                            \
        int kept_result = (call);                                                                                      \
        stint_keep_end();                                                                                              \
        kept_result;                                                                                                   \
    })

static void forget(struct file *file)
{
    for (struct file **link = &opened; *link; link = &(*link)->next) {
        if (*link == file) {
            *link = file->next;
            return;
        }
    }
}

static int close_real(sqlite3_file *file)
{
    forget(ours_of(file));
    return real(file)->pMethods->xClose(real(file));
}

static int file_close(sqlite3_file *file)
{
    return KEPT(close_real(file));
}

static int file_read(sqlite3_file *file, void *to, int length, sqlite3_int64 offset)
{
    return KEPT(real(file)->pMethods->xRead(real(file), to, length, offset));
}

static int file_write(sqlite3_file *file, const void *from, int length, sqlite3_int64 offset)
{
    (void)file;
    (void)from;
    (void)length;
    (void)offset;
    return SQLITE_READONLY;
}

static int file_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    (void)file;
    (void)size;
    return SQLITE_READONLY;
}

static int file_sync(sqlite3_file *file, int flags)
{
    (void)file;
    (void)flags;
    return SQLITE_OK;
}

static int file_size(sqlite3_file *file, sqlite3_int64 *size)
{
    return KEPT(real(file)->pMethods->xFileSize(real(file), size));
}

static int file_lock(sqlite3_file *file, int level)
{
    return KEPT(real(file)->pMethods->xLock(real(file), level));
}

static int file_unlock(sqlite3_file *file, int level)
{
    return KEPT(real(file)->pMethods->xUnlock(real(file), level));
}

static int file_check_reserved(sqlite3_file *file, int *reserved)
{
    return KEPT(real(file)->pMethods->xCheckReservedLock(real(file), reserved));
}

static int file_control(sqlite3_file *file, int operation, void *arg)
{
    return KEPT(real(file)->pMethods->xFileControl(real(file), operation, arg));
}

static int file_sector_size(sqlite3_file *file)
{
    return KEPT(real(file)->pMethods->xSectorSize(real(file)));
}

static int file_characteristics(sqlite3_file *file)
{
    return KEPT(real(file)->pMethods->xDeviceCharacteristics(real(file)));
}

static int map_real(sqlite3_file *file, int region, int size, int extend, void volatile **at)
{
    const sqlite3_io_methods *methods = real(file)->pMethods;
    if (methods->iVersion < 2 || !methods->xShmMap)
        return SQLITE_IOERR_SHMMAP;
    ours_of(file)->mapped = true;
    return methods->xShmMap(real(file), region, size, extend, at);
}

static int file_shm_map(sqlite3_file *file, int region, int size, int extend, void volatile **at)
{
    return KEPT(map_real(file, region, size, extend, at));
}

/* A reader takes shared locks only, one at a time. */
static int lock_real(sqlite3_file *file, int offset, int count, int flags)
{
    int result = real(file)->pMethods->xShmLock(real(file), offset, count, flags);
    unsigned bits = ((1U << count) - 1) << offset;
    if (result == SQLITE_OK && flags & SQLITE_SHM_SHARED)
        ours_of(file)->shared = flags & SQLITE_SHM_LOCK ? ours_of(file)->shared | bits : ours_of(file)->shared & ~bits;
    return result;
}

static int file_shm_lock(sqlite3_file *file, int offset, int count, int flags)
{
    return KEPT(lock_real(file, offset, count, flags));
}

static void file_shm_barrier(sqlite3_file *file)
{
    real(file)->pMethods->xShmBarrier(real(file));
}

static int unmap_real(sqlite3_file *file, int delete)
{
    ours_of(file)->mapped = false;
    return real(file)->pMethods->xShmUnmap(real(file), delete);
}

static int file_shm_unmap(sqlite3_file *file, int delete)
{
    return KEPT(unmap_real(file, delete));
}

/* Version 2: no pages of the file in memory, which others could cut short. */
static const sqlite3_io_methods methods = {
    .iVersion = 2,
    .xClose = file_close,
    .xRead = file_read,
    .xWrite = file_write,
    .xTruncate = file_truncate,
    .xSync = file_sync,
    .xFileSize = file_size,
    .xLock = file_lock,
    .xUnlock = file_unlock,
    .xCheckReservedLock = file_check_reserved,
    .xFileControl = file_control,
    .xSectorSize = file_sector_size,
    .xDeviceCharacteristics = file_characteristics,
    .xShmMap = file_shm_map,
    .xShmLock = file_shm_lock,
    .xShmBarrier = file_shm_barrier,
    .xShmUnmap = file_shm_unmap,
};

static int open_real(sqlite3_filename name, sqlite3_file *file, int flags, int *result_flags)
{
    int result = behind->xOpen(behind, name, real(file), flags, result_flags);
    if (real(file)->pMethods == NULL)
        return result;
    if (result != SQLITE_OK) {
        real(file)->pMethods->xClose(real(file));
        return result;
    }
    struct file *mine = ours_of(file);
    mine->base.pMethods = &methods;
    mine->shared = 0;
    mine->mapped = false;
    mine->next = opened;
    opened = mine;
    return SQLITE_OK;
}

/* The database and what belongs to it; nothing without a name, which would be a temporary file. */
static int vfs_open(sqlite3_vfs *vfs, sqlite3_filename name, sqlite3_file *file, int flags, int *result_flags)
{
    (void)vfs;
    file->pMethods = NULL;
    real(file)->pMethods = NULL;
    if (!name)
        return SQLITE_CANTOPEN;
    return KEPT(open_real(name, file, flags, result_flags));
}

int vfs_register(void)
{
    behind = sqlite3_vfs_find(NULL);
    if (!behind)
        return SQLITE_ERROR;
    ours = *behind;
    ours.zName = VFS_NAME;
    ours.pNext = NULL;
    ours.szOsFile = (int)sizeof(struct file) + behind->szOsFile;
    ours.xOpen = vfs_open;
    return sqlite3_vfs_register(&ours, 0);
}

/* As SQLite does it at the end of a reader's transaction. */
static void give_back(struct file *file)
{
    sqlite3_file *base = &file->base;
    for (int slot = 0; file->shared >> slot; slot++) {
        if (file->shared >> slot & 1)
            file_shm_lock(base, slot, 1, SQLITE_SHM_UNLOCK | SQLITE_SHM_SHARED);
    }
    if (file->mapped)
        file_shm_unmap(base, 0);
    file_unlock(base, SQLITE_LOCK_NONE);
    file_close(base);
}

void vfs_close_all(void *unused)
{
    (void)unused;
    while (opened)
        give_back(opened);
}
