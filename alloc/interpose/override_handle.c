/* SPDX-License-Identifier: MIT
 *
 * Overrides of what opens and closes the handles of libc that a rollback closes (rollback/undo.h): FILE, DIR and
 * regex_t. What lies unwritten in a stream's buffer was the task's, and goes with it. Any thread. */
/* Each name is to be its own function, not that of another one. */
#undef _FILE_OFFSET_BITS
#include <dirent.h>
#include <regex.h>
#include <sched.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <stint/interrupt.h>
#include <wchar.h>

#include "alloc/meter/allocate.h"
#include "alloc/platform/caller.h"
#include "alloc/platform/module.h"
#include "alloc/rollback/undo.h"

STINT_API FILE *fopen(const char *path, const char *mode);
STINT_API FILE *fopen64(const char *path, const char *mode);
STINT_API FILE *fdopen(int descriptor, const char *mode);
STINT_API FILE *tmpfile(void);
STINT_API FILE *tmpfile64(void);
STINT_API FILE *fmemopen(void *buffer, size_t size, const char *mode);
STINT_API FILE *fopencookie(void *cookie, const char *mode, cookie_io_functions_t functions);
STINT_API FILE *open_memstream(char **buffer, size_t *size);
STINT_API FILE *open_wmemstream(wchar_t **buffer, size_t *size);
STINT_API int fclose(FILE *stream);
STINT_API DIR *opendir(const char *path);
STINT_API DIR *fdopendir(int descriptor);
STINT_API int closedir(DIR *directory);
STINT_API int regcomp(regex_t *regex, const char *pattern, int flags);
STINT_API void regfree(regex_t *regex);

/* --- Streams ------------------------------------------------------------------------------------------------------ */

struct stream {
    bool is_around; /* a descriptor that was opened by other means, which know whose it is: it stays open */
    bool is_in_memory;
    size_t unit; /* of one that makes its block: bytes of a character; 0: it makes none */

    /* Where such a stream tells its user of the block, which often are variables of a function that is gone by the time
     * of a rollback; and where libc keeps these two addresses, side by side in the stream, where they are found when it
     * is new. NULL: not found. */
    void **block_at;
    size_t *size_at;
    void **kept_at;
    void *block; /* what it is told instead */
    size_t size;
};

#define TRIES 1000

/* fflush(NULL) in another thread locks the stream for a moment; a read from it, for as long as the read takes. */
static bool stream_is_free(FILE *stream)
{
    for (unsigned i = 0; i < TRIES; i++) {
        if (ftrylockfile(stream) == 0) {
            funlockfile(stream);
            return true;
        }
        sched_yield();
    }
    return false;
}

static bool stream_redirect(struct stream *noted)
{
    if (noted->kept_at == NULL)
        return false;
    noted->kept_at[0] = &noted->block;
    noted->kept_at[1] = &noted->size;
    return true;
}

/* One that another thread has locked is left open, unless its memory is the task's. */
static void close_stream(struct sti_scope *scope, void *key, void *before)
{
    FILE *stream = key;
    struct stream *noted = before;
    (void)scope;
    if (!noted->is_in_memory && !stream_is_free(stream))
        return;
    __fpurge(stream);
    if (!stream_redirect(noted) && noted->unit != 0)
        return;
    if (noted->is_around)
        stream->_fileno = -1;
    fclose(stream);
    free(noted->block);
}

static bool leave_stream(void *stream, void *before)
{
    struct stream *noted = before;
    if (noted->is_in_memory)
        __fpurge(stream);
    return stream_redirect(noted);
}

static const struct sti_undo_kind of_stream = { .size = sizeof(struct stream),
                                                .rule = STI_RULE_HANDLE,
                                                .sort = STI_UNDO_OF_LIBC,
                                                .undo = close_stream,
                                                .leave = leave_stream };

static inline FILE *stream_noted(FILE *stream, struct stream how)
{
    if (stream != NULL)
        sti_undo_add(&of_stream, stream, &how);
    return stream;
}

#define OPENING(name, how, parameters, arguments)                                                                      \
    FILE *name parameters                                                                                              \
    {                                                                                                                  \
        STI_LIBC_FUNCTION(name)                                                                                        \
        return stream_noted(real arguments, (struct stream){ how });                                                   \
    }

OPENING(fopen, .unit = 0, (const char *path, const char *mode), (path, mode))
OPENING(fopen64, .unit = 0, (const char *path, const char *mode), (path, mode))
OPENING(tmpfile, .unit = 0, (void), ())
OPENING(tmpfile64, .unit = 0, (void), ())
OPENING(fopencookie, .unit = 0, (void *cookie, const char *mode, cookie_io_functions_t functions),
        (cookie, mode, functions))
OPENING(fdopen, .is_around = true, (int descriptor, const char *mode), (descriptor, mode))
OPENING(fmemopen, .is_in_memory = true, (void *buffer, size_t size, const char *mode), (buffer, size, mode))

static FILE *note_growing(FILE *stream, void **block_at, size_t *size_at, size_t unit)
{
    if (stream == NULL || sti_thread_metered == NULL || !sti_backend_has_made(stream))
        return stream;
    struct stream how = { .is_in_memory = true, .unit = unit, .block_at = block_at, .size_at = size_at };
    void **words = (void **)stream;
    size_t count = sti_backend_usable_size(stream) / sizeof *words;
    for (size_t i = 0; i + 1 < count && how.kept_at == NULL; i++) {
        if (words[i] == (void *)block_at && words[i + 1] == (void *)size_at)
            how.kept_at = &words[i];
    }
    return stream_noted(stream, how);
}

FILE *open_memstream(char **buffer, size_t *size)
{
    STI_LIBC_FUNCTION(open_memstream)
    return note_growing(real(buffer, size), (void **)buffer, size, 1);
}

FILE *open_wmemstream(wchar_t **buffer, size_t *size)
{
    STI_LIBC_FUNCTION(open_wmemstream)
    return note_growing(real(buffer, size), (void **)buffer, size, sizeof(wchar_t));
}

/* The block that the stream has made belongs to the stream's user from now on, in the scope that opened the stream. */
int fclose(FILE *stream)
{
    STI_LIBC_FUNCTION(fclose)
    struct stream how;
    bool is_own = sti_undo_end(&of_stream, stream, &how);
    int result = real(stream);
    if (STI_UNLIKELY(is_own) && how.unit != 0)
        *how.block_at = sti_adopt(*how.block_at, (*how.size_at + 1) * how.unit, STI_CALLER());
    return result;
}

/* --- Directories -------------------------------------------------------------------------------------------------- */

/* libc has the descriptor first in the structure. */
static void close_directory(struct sti_scope *scope, void *key, void *before)
{
    int *descriptor = key;
    (void)scope;
    if (*(bool *)before) { /* around a descriptor that was opened by other means */
        if (*descriptor != dirfd(key))
            return;
        *descriptor = -1;
    }
    closedir(key);
}

static const struct sti_undo_kind of_directory = {
    .size = sizeof(bool), .rule = STI_RULE_HANDLE, .sort = STI_UNDO_OF_LIBC, .undo = close_directory
};

static DIR *noted_directory(DIR *directory, bool is_around)
{
    if (directory != NULL)
        sti_undo_add(&of_directory, directory, &is_around);
    return directory;
}

DIR *opendir(const char *path)
{
    STI_LIBC_FUNCTION(opendir)
    return noted_directory(real(path), false);
}

DIR *fdopendir(int descriptor)
{
    STI_LIBC_FUNCTION(fdopendir)
    return noted_directory(real(descriptor), true);
}

int closedir(DIR *directory)
{
    STI_LIBC_FUNCTION(closedir)
    sti_undo_end(&of_directory, directory, NULL);
    return real(directory);
}

/* --- Regular expressions. The caller may move the structure, or free it before the rollback: so an expression is known
 * by what libc has allocated for it, and closed through a copy. --- */

static void close_regex(struct sti_scope *scope, void *key, void *before)
{
    (void)scope;
    (void)key;
    regfree(before);
}

static const struct sti_undo_kind of_regex = {
    .size = sizeof(regex_t), .rule = STI_RULE_HANDLE, .sort = STI_UNDO_OF_LIBC, .undo = close_regex
};

int regcomp(regex_t *regex, const char *pattern, int flags)
{
    STI_LIBC_FUNCTION(regcomp)
    int error = real(regex, pattern, flags);
    if (error == 0)
        sti_undo_add(&of_regex, regex->buffer, regex);
    return error;
}

void regfree(regex_t *regex)
{
    STI_LIBC_FUNCTION(regfree)
    sti_undo_end(&of_regex, regex->buffer, NULL);
    real(regex);
}
