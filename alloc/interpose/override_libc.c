/* SPDX-License-Identifier: MIT
 *
 * Overrides of libc's functions that hand a block of their own making to the caller. Made inside libc the block would
 * be libc's, and lost when the task is rolled back; made or copied here it is the caller's, in the task's heap. With
 * them come the names that libc's headers put in their place when a program is compiled with optimisation or
 * _FORTIFY_SOURCE. The caller frees the block by the free that the program uses: where that is another's (link.h), so
 * is the malloc that the block comes from. Any thread. */
/* No inline versions of these functions in the headers, and each name is to be its own function. */
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE
#undef __OPTIMIZE__
#include <dirent.h>
#include <errno.h>
#include <iconv.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <stint/interrupt.h>
#include <unistd.h>

#include "alloc/heap/mapping.h"
#include "alloc/meter/allocate.h"
#include "alloc/platform/link.h"
#include "alloc/platform/module.h"
#include "alloc/platform/process.h"
#include "alloc/platform/scope_state.h"

STINT_API char *strdup(const char *string);
STINT_API char *__strdup(const char *string) STI_SAME_AS(strdup);
STINT_API char *strndup(const char *string, size_t length);
STINT_API char *__strndup(const char *string, size_t length) STI_SAME_AS(strndup);
STINT_API int asprintf(char **out, const char *format, ...);
STINT_API int __asprintf(char **out, const char *format, ...) STI_SAME_AS(asprintf);
STINT_API int vasprintf(char **out, const char *format, va_list arguments);
STINT_API int __asprintf_chk(char **out, int flag, const char *format, ...);
STINT_API int __vasprintf_chk(char **out, int flag, const char *format, va_list arguments);
STINT_API ssize_t getdelim(char **line, size_t *size, int delimiter, FILE *stream);
STINT_API ssize_t __getdelim(char **line, size_t *size, int delimiter, FILE *stream) STI_SAME_AS(getdelim);
STINT_API ssize_t getline(char **line, size_t *size, FILE *stream);
STINT_API char *realpath(const char *path, char *resolved);
STINT_API char *__realpath_chk(const char *path, char *resolved, size_t size);
STINT_API char *canonicalize_file_name(const char *path);
STINT_API char *getcwd(char *buffer, size_t size);
STINT_API iconv_t iconv_open(const char *to, const char *from);
STINT_API int putenv(char *string);

extern int __vsnprintf_chk(char *buffer, size_t size, int flag, size_t object, const char *format, va_list arguments);

STI_INLINE void *make_block(size_t size, const void *caller)
{
    return sti_thread_counted != NULL && STI_LIKELY(sti_link_has_malloc()) ? sti_allocate(size, caller) : malloc(size);
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

char *strndup(const char *string, size_t length)
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

/* libc has the block grow as it reads: what it has made becomes the task's when the line is whole. */
static ssize_t line_read(char **line, size_t *size, int delimiter, FILE *stream, const void *caller)
{
    STI_LIBC_FUNCTION(getdelim)
    const char *before = line != NULL ? *line : NULL;
    ssize_t length = real(line, size, delimiter, stream);
    if (line != NULL && size != NULL && *line != before)
        *line = sti_adopt(*line, *size, caller);
    return length;
}

ssize_t getdelim(char **line, size_t *size, int delimiter, FILE *stream)
{
    return line_read(line, size, delimiter, stream, STI_CALLER());
}

ssize_t getline(char **line, size_t *size, FILE *stream)
{
    return line_read(line, size, '\n', stream, STI_CALLER());
}

/* libc's own, which fills a buffer of the caller's. */
static char *path_resolve(const char *path, char *resolved)
{
    STI_LIBC_FUNCTION(realpath)
    return real(path, resolved);
}

STI_INLINE char *resolve_to_block(const char *path, const void *caller)
{
    char resolved[PATH_MAX];
    return path_resolve(path, resolved) != NULL ? make_copy(resolved, strlen(resolved), caller) : NULL;
}

char *realpath(const char *path, char *resolved)
{
    return resolved != NULL ? path_resolve(path, resolved) : resolve_to_block(path, STI_CALLER());
}

char *__realpath_chk(const char *path, char *resolved, size_t size)
{
    if (resolved == NULL)
        return resolve_to_block(path, STI_CALLER());
    if (size >= PATH_MAX)
        return path_resolve(path, resolved);
    STI_LIBC_FUNCTION(__realpath_chk)
    return real(path, resolved, size);
}

char *canonicalize_file_name(const char *path)
{
    return resolve_to_block(path, STI_CALLER());
}

/* --- Functions that make their block deep inside of libc, or among others of libc's: a copy takes its place. --- */

char *getcwd(char *buffer, size_t size)
{
    STI_LIBC_FUNCTION(getcwd)
    char *name = real(buffer, size);
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
        return adopt_entries((void ***)list, real(path, list, selects, compares), STI_CALLER());                       \
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
    iconv_t handle = real(to, from);
    if (thread != NULL)
        thread->scope->keeps--;
    return handle;
}

/* The environment is the process's, and has the string itself: of one that is the task's it gets a copy. */
int putenv(char *string)
{
    STI_LIBC_FUNCTION(putenv)
    struct sti_thread *thread = sti_thread_metered;
    if (STI_LIKELY(thread == NULL) || !sti_task_has(thread->scope, (uintptr_t)string))
        return real(string);
    size_t size = strlen(string) + 1;
    char *copy = sti_record_charge(size, STI_CALLER()) ? sti_process_lasting_malloc(size) : NULL;
    if (copy != NULL)
        return real(memcpy(copy, string, size));
    errno = ENOMEM;
    return -1;
}
