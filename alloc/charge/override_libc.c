/* SPDX-License-Identifier: MIT
 *
 * libc's functions that hand a block of their own making to the caller. Made inside libc it would be
 * libc's and be lost when the task is rolled back; made or copied here it is the caller's, in the task's heap. With
 * them come the names that libc's headers put in their place when a program is compiled with optimisation or
 * _FORTIFY_SOURCE. The caller frees the block by the free that the program uses: where that is another's (module.h), so
 * is the malloc that it comes from. Any thread. */
/* No inline versions of these functions in the headers, and each name is to be its own function. */
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE
#undef __OPTIMIZE__
#include <dirent.h>
#include <iconv.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <stint/interrupt.h>
#include <unistd.h>

#include "alloc/base/module.h"
#include "alloc/base/scope_state.h"
#include "allocate.h"

#define FIRST_LINE 120 /* what getline's buffer starts with */

STINT_API char *strdup(const char *string);
STINT_API char *__strdup(const char *string);
STINT_API char *strndup(const char *string, size_t length);
STINT_API char *__strndup(const char *string, size_t length);
STINT_API int asprintf(char **out, const char *format, ...);
STINT_API int __asprintf(char **out, const char *format, ...);
STINT_API int vasprintf(char **out, const char *format, va_list arguments);
STINT_API int __asprintf_chk(char **out, int flag, const char *format, ...);
STINT_API int __vasprintf_chk(char **out, int flag, const char *format, va_list arguments);
STINT_API ssize_t getdelim(char **line, size_t *size, int delimiter, FILE *stream);
STINT_API ssize_t __getdelim(char **line, size_t *size, int delimiter, FILE *stream);
STINT_API ssize_t getline(char **line, size_t *size, FILE *stream);
STINT_API char *realpath(const char *path, char *resolved);
STINT_API char *__realpath_chk(const char *path, char *resolved, size_t size);
STINT_API char *canonicalize_file_name(const char *path);
STINT_API char *getcwd(char *buffer, size_t size);
STINT_API iconv_t iconv_open(const char *to, const char *from);

extern int __vsnprintf_chk(char *buffer, size_t size, int flag, size_t object, const char *format, va_list arguments);

STI_INLINE void *make_block(size_t size, const void *caller)
{
    return STI_LIKELY(sti_link_has_malloc()) ? sti_allocate(size, caller) : malloc(size);
}

STI_INLINE void *grow_block(void *block, size_t size, const void *caller)
{
    return STI_LIKELY(sti_link_has_malloc()) ? sti_reallocate(block, size, caller) : realloc(block, size);
}

STI_INLINE char *make_copy(const char *string, size_t length, const void *caller)
{
    char *copy = make_block(length + 1, caller);
    if (copy == NULL)
        return NULL;
    copy[length] = '\0';
    return memcpy(copy, string, length);
}

char *strdup(const char *string)
{
    return make_copy(string, strlen(string), STI_CALLER());
}

char *__strdup(const char *string)
{
    return make_copy(string, strlen(string), STI_CALLER());
}

char *strndup(const char *string, size_t length)
{
    return make_copy(string, strnlen(string, length), STI_CALLER());
}

char *__strndup(const char *string, size_t length)
{
    return make_copy(string, strnlen(string, length), STI_CALLER());
}

/* flag is _FORTIFY_SOURCE's: above 0, %n in writable memory ends the process, as that user asked. */
static int print_to_block(char **out, int flag, const char *format, va_list arguments, const void *caller)
{
    va_list again;
    va_copy(again, arguments);
    int length = __vsnprintf_chk(NULL, 0, flag, 0, format, again);
    va_end(again);
    *out = NULL;
    if (length < 0)
        return -1;
    size_t size = (size_t)length + 1;
    char *block = make_block(size, caller);
    if (block == NULL)
        return -1;
    length = __vsnprintf_chk(block, size, flag, size, format, arguments);
    *out = block;
    return length;
}

int asprintf(char **out, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = print_to_block(out, 0, format, arguments, STI_CALLER());
    va_end(arguments);
    return length;
}

int __asprintf(char **out, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = print_to_block(out, 0, format, arguments, STI_CALLER());
    va_end(arguments);
    return length;
}

int vasprintf(char **out, const char *format, va_list arguments)
{
    return print_to_block(out, 0, format, arguments, STI_CALLER());
}

int __asprintf_chk(char **out, int flag, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = print_to_block(out, flag, format, arguments, STI_CALLER());
    va_end(arguments);
    return length;
}

int __vasprintf_chk(char **out, int flag, const char *format, va_list arguments)
{
    return print_to_block(out, flag, format, arguments, STI_CALLER());
}

/* At least so many bytes, and twice as many as there are: what a long line costs grows with its length only. */
STI_INLINE bool grow_line(char **line, size_t *size, size_t needed, const void *caller)
{
    size_t larger = *line == NULL || *size == 0 ? FIRST_LINE : *size * 2;
    if (larger < needed)
        larger = needed;
    char *grown = grow_block(*size == 0 ? NULL : *line, larger, caller);
    if (grown == NULL)
        return false;
    *line = grown;
    *size = larger;
    return true;
}

/* Of what the stream has in its buffer, which getc_unlocked fills: up to the delimiter, which is looked for, or all. */
STI_INLINE size_t buffered(const FILE *stream, int delimiter, bool *found)
{
    size_t size = (size_t)(stream->_IO_read_end - stream->_IO_read_ptr);
    const char *end = size > 0 ? memchr(stream->_IO_read_ptr, delimiter, size) : NULL;
    *found = end != NULL;
    return end != NULL ? (size_t)(end - stream->_IO_read_ptr) + 1 : size;
}

/* False: no memory for it. */
STI_INLINE bool read_locked(char **line, size_t *size, size_t *length, int delimiter, FILE *stream, const void *caller)
{
    bool found = false;
    while (!found) {
        int c = getc_unlocked(stream);
        if (c == EOF)
            return true;
        size_t more = 0;
        found = c == (unsigned char)delimiter;
        if (!found)
            more = buffered(stream, delimiter, &found);
        if (*length + 1 + more >= *size && !grow_line(line, size, *length + 1 + more + 1, caller))
            return false;
        (*line)[(*length)++] = (char)c;
        memcpy(*line + *length, stream->_IO_read_ptr, more);
        stream->_IO_read_ptr += more;
        *length += more;
    }
    return true;
}

/* The stream is locked while its line is read, so an interrupt has to wait. */
static ssize_t read_in_scope(char **line, size_t *size, int delimiter, FILE *stream, const void *caller)
{
    if (line == NULL || size == NULL || stream == NULL) {
        errno = EINVAL;
        return -1;
    }
    stint_mask();
    flockfile(stream);
    if (*line == NULL)
        *size = 0;
    size_t length = 0;
    bool failed = !read_locked(line, size, &length, delimiter, stream, caller);
    if (length > 0)
        (*line)[length] = '\0';
    funlockfile(stream);
    stint_unmask();
    return failed || length == 0 ? -1 : (ssize_t)length;
}

/* Outside of scopes a block that libc makes is no other than its caller's would be. */
STI_INLINE ssize_t read_line(char **line, size_t *size, int delimiter, FILE *stream, const void *caller)
{
    if (sti_thread_counted != NULL)
        return read_in_scope(line, size, delimiter, stream, caller);
    STI_LIBC_FUNCTION(getdelim)
    return plain(line, size, delimiter, stream);
}

ssize_t getdelim(char **line, size_t *size, int delimiter, FILE *stream)
{
    return read_line(line, size, delimiter, stream, STI_CALLER());
}

ssize_t __getdelim(char **line, size_t *size, int delimiter, FILE *stream)
{
    return read_line(line, size, delimiter, stream, STI_CALLER());
}

ssize_t getline(char **line, size_t *size, FILE *stream)
{
    return read_line(line, size, '\n', stream, STI_CALLER());
}

/* libc's own, which fills a buffer of the caller's. */
static char *resolve(const char *path, char *resolved)
{
    STI_LIBC_FUNCTION(realpath)
    return plain(path, resolved);
}

STI_INLINE char *resolve_to_block(const char *path, const void *caller)
{
    char resolved[PATH_MAX];
    return resolve(path, resolved) != NULL ? make_copy(resolved, strlen(resolved), caller) : NULL;
}

char *realpath(const char *path, char *resolved)
{
    return resolved != NULL ? resolve(path, resolved) : resolve_to_block(path, STI_CALLER());
}

char *__realpath_chk(const char *path, char *resolved, size_t size)
{
    if (resolved == NULL)
        return resolve_to_block(path, STI_CALLER());
    if (size >= PATH_MAX)
        return resolve(path, resolved);
    STI_LIBC_FUNCTION(__realpath_chk)
    return plain(path, resolved, size);
}

char *canonicalize_file_name(const char *path)
{
    return resolve_to_block(path, STI_CALLER());
}

/* --- Those that make their block deep inside of libc, or among others of its own: a copy takes its place.
 * ------------- */

char *getcwd(char *buffer, size_t size)
{
    STI_LIBC_FUNCTION(getcwd)
    char *name = plain(buffer, size);
    return buffer == NULL ? sti_adopt(name, 0, STI_CALLER()) : name;
}

static int adopt_entries(void ***list, int count, const void *caller)
{
    if (count < 0)
        return count;
    stint_mask();
    for (int i = 0; i < count; i++)
        (*list)[i] = sti_adopt((*list)[i], 0, caller);
    *list = sti_adopt(*list, 0, caller);
    stint_unmask();
    return count;
}

#define FOLDER_READER(name, entry)                                                                                     \
    STINT_API int name(const char *path, entry ***list, int (*selects)(const entry *),                                 \
                       int (*compares)(const entry **, const entry **));                                               \
    int name(const char *path, entry ***list, int (*selects)(const entry *),                                           \
             int (*compares)(const entry **, const entry **))                                                          \
    {                                                                                                                  \
        STI_LIBC_FUNCTION(name)                                                                                        \
        return adopt_entries((void ***)list, plain(path, list, selects, compares), STI_CALLER());                      \
    }

FOLDER_READER(scandir, struct dirent)
FOLDER_READER(scandir64, struct dirent64)

/* --- Blocks that are nobody's. The module of a conversion is loaded for the first that wants it, and what that module
 * allocates is shared by all: a region of blocks for the process, as in interrupt.c. The interrupt has to wait for
 * libc's frame anyhow. */

iconv_t iconv_open(const char *to, const char *from)
{
    STI_LIBC_FUNCTION(iconv_open)
    struct sti_thread *thread = sti_thread_metered;
    if (thread != NULL) {
        thread->scope->keeps++;
        atomic_store_explicit(&thread->limit, 0, memory_order_relaxed);
    }
    iconv_t handle = plain(to, from);
    if (thread != NULL)
        thread->scope->keeps--;
    return handle;
}
