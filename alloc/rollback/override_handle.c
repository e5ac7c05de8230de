/* SPDX-License-Identifier: MIT
 *
 * Overrides of what opens and closes handles of libc. Any thread. */
#undef _FILE_OFFSET_BITS

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <glob.h>
#include <iconv.h>
#include <ifaddrs.h>
#include <locale.h>
#include <net/if.h>
#include <netdb.h>
#include <nl_types.h>
#include <regex.h>
#include <search.h>
#include <semaphore.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stint/api.h>
#include <string.h>
#include <time.h>
#include <wordexp.h>

#include "alloc/base/caller.h"
#include "alloc/base/module.h"
#include "alloc/base/scope_state.h"
#include "alloc/base/thread.h"
#include "alloc/interrupt/hold.h"
#include "handle.h"

/* --- Overrides of what opens and closes those of libc's handles that are no streams, so that a rollback closes what a
 * task left open (handle.h). Any thread.
 *
 * Some lie in a structure of the caller's, which may be moved, and be gone by then: those are known by what libc has
 * allocated for them, and closed by a copy of the structure. */

/* --- By their own address ----------------------------------------------------------------------------------------- */

/* X(name, closing function, type, parameters, arguments) */
#define OPENING_FUNCTIONS(X)                                                                                           \
    X(opendir, closedir, DIR *, (const char *path), (path))                                                            \
    X(fts_open, fts_close, FTS *, (char *const *paths, int options, int (*compare)(const FTSENT **, const FTSENT **)), \
      (paths, options, compare))                                                                                       \
    X(fts64_open, fts64_close, FTS64 *,                                                                                \
      (char *const *paths, int options, int (*compare)(const FTSENT64 **, const FTSENT64 **)),                         \
      (paths, options, compare))                                                                                       \
    X(if_nameindex, if_freenameindex, struct if_nameindex *, (void), ())                                               \
    X(catopen, catclose, nl_catd, (const char *name, int flag), (name, flag))

/* X(name, type, what is returned) */
#define CLOSING_FUNCTIONS(X)                                                                                           \
    X(closedir, DIR *, int)                                                                                            \
    X(fts_close, FTS *, int)                                                                                           \
    X(fts64_close, FTS64 *, int)                                                                                       \
    X(iconv_close, iconv_t, int)                                                                                       \
    X(if_freenameindex, struct if_nameindex *, void)                                                                   \
    X(catclose, nl_catd, int)                                                                                          \
    X(freeaddrinfo, struct addrinfo *, void)                                                                           \
    X(freeifaddrs, struct ifaddrs *, void)                                                                             \
    X(freelocale, locale_t, void)

#define CLOSING(name, type, result)                                                                                    \
    STINT_API result name(type handle);                                                                                \
    result name(type handle)                                                                                           \
    {                                                                                                                  \
        STI_LIBC_FUNCTION(name)                                                                                        \
        sti_handle_forget(handle);                                                                                     \
        return plain(handle);                                                                                          \
    }                                                                                                                  \
    static void close_by_##name(void *handle, void *unused)                                                            \
    {                                                                                                                  \
        (void)unused;                                                                                                  \
        name(handle);                                                                                                  \
    }                                                                                                                  \
    static const struct sti_handle_kind of_##name = { .close = close_by_##name };
#define OPENING(name, closing, type, parameters, arguments)                                                            \
    STINT_API type name parameters;                                                                                    \
    type name parameters                                                                                               \
    {                                                                                                                  \
        STI_LIBC_FUNCTION(name)                                                                                        \
        type handle = plain arguments;                                                                                 \
        if (is_open(handle))                                                                                           \
            sti_handle_add(handle, &of_##closing, NULL, 0);                                                            \
        return handle;                                                                                                 \
    }

/* Two of them fail by -1. */
static bool is_open(const void *handle)
{
    return handle != NULL && handle != (const void *)-1;
}

CLOSING_FUNCTIONS(CLOSING)

OPENING_FUNCTIONS(OPENING)

STINT_API DIR *fdopendir(int descriptor);
STINT_API iconv_t iconv_open(const char *to, const char *from);
STINT_API int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **list);
STINT_API int getifaddrs(struct ifaddrs **list);
STINT_API locale_t newlocale(int mask, const char *name, locale_t base);
STINT_API locale_t duplocale(locale_t locale);

/* Without the descriptor, which was opened by other means: libc has it first in the structure. */
static void close_without_descriptor(void *directory, void *unused)
{
    (void)unused;
    int *descriptor = directory;
    if (*descriptor != dirfd(directory))
        return;
    *descriptor = -1;
    closedir(directory);
}

DIR *fdopendir(int descriptor)
{
    STI_LIBC_FUNCTION(fdopendir)
    static const struct sti_handle_kind kind = { .close = close_without_descriptor };
    DIR *directory = plain(descriptor);
    if (directory != NULL)
        sti_handle_add(directory, &kind, NULL, 0);
    return directory;
}

/* The module of a conversion is loaded for the first that wants it, and what it allocates is shared by all: a region of
 * blocks for the process, as in interrupt.c; the interrupt has to wait for libc's frame anyhow. */
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
    if (is_open(handle))
        sti_handle_add(handle, &of_iconv_close, NULL, 0);
    return handle;
}

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **list)
{
    STI_LIBC_FUNCTION(getaddrinfo)
    int error = plain(node, service, hints, list);
    if (error == 0 && *list != NULL)
        sti_handle_add(*list, &of_freeaddrinfo, NULL, 0);
    return error;
}

int getifaddrs(struct ifaddrs **list)
{
    STI_LIBC_FUNCTION(getifaddrs)
    int error = plain(list);
    if (error == 0 && *list != NULL)
        sti_handle_add(*list, &of_freeifaddrs, NULL, 0);
    return error;
}

/* libc's own "C" is nobody's. */
static locale_t noted(locale_t locale)
{
    if (locale != (locale_t)0 && !sti_caller_is_libc(locale))
        sti_handle_add(locale, &of_freelocale, NULL, 0);
    return locale;
}

/* The base is used up, unless there is no result; and what is made of somebody else's is theirs. */
locale_t newlocale(int mask, const char *name, locale_t base)
{
    STI_LIBC_FUNCTION(newlocale)
    bool was_open = base != (locale_t)0 && sti_handle_forget(base);
    locale_t made = plain(mask, name, base);
    if (was_open || base == (locale_t)0)
        noted(made != (locale_t)0 ? made : base);
    return made;
}

locale_t duplocale(locale_t locale)
{
    STI_LIBC_FUNCTION(duplocale)
    return noted(plain(locale));
}

/* --- In a structure of the caller's ------------------------------------------------------------------------------- */

STINT_API int regcomp(regex_t *regex, const char *pattern, int flags);
STINT_API void regfree(regex_t *regex);
STINT_API const char *re_compile_pattern(const char *pattern, size_t length, struct re_pattern_buffer *regex);
STINT_API int wordexp(const char *string, wordexp_t *words, int flags);
STINT_API void wordfree(wordexp_t *words);
STINT_API int hcreate_r(size_t size, struct hsearch_data *table);
STINT_API void hdestroy_r(struct hsearch_data *table);

/* What closes one by its copy. */
#define CLOSING_COPY(closing)                                                                                          \
    static void close_by_##closing(void *unused, void *copy)                                                           \
    {                                                                                                                  \
        (void)unused;                                                                                                  \
        closing(copy);                                                                                                 \
    }                                                                                                                  \
    static const struct sti_handle_kind of_##closing = { .close = close_by_##closing };

/* It is the task's, and libc has allocated something for it. */
static void add_copy(bool is_ours, void *allocated, const struct sti_handle_kind *kind, const void *structure,
                     size_t size)
{
    if (is_ours && allocated != NULL)
        sti_handle_add(allocated, kind, structure, size);
}

CLOSING_COPY(regfree)

int regcomp(regex_t *regex, const char *pattern, int flags)
{
    STI_LIBC_FUNCTION(regcomp)
    int error = plain(regex, pattern, flags);
    if (error == 0)
        sti_handle_add(regex->buffer, &of_regfree, regex, sizeof *regex);
    return error;
}

void regfree(regex_t *regex)
{
    STI_LIBC_FUNCTION(regfree)
    sti_handle_forget(regex->buffer);
    plain(regex);
}

/* The caller makes two of its blocks, and may free them at any time: they are not in the copy. */
const char *re_compile_pattern(const char *pattern, size_t length, struct re_pattern_buffer *regex)
{
    STI_LIBC_FUNCTION(re_compile_pattern)
    bool is_ours = regex->buffer == NULL || sti_handle_forget(regex->buffer);
    const char *error = plain(pattern, length, regex);
    if (is_ours && regex->buffer != NULL) {
        struct re_pattern_buffer copy = *regex;
        copy.fastmap = NULL;
        copy.translate = NULL;
        sti_handle_add(regex->buffer, &of_regfree, &copy, sizeof copy);
    }
    return error;
}

#define GLOB(name, closing, type)                                                                                      \
    STINT_API int name(const char *pattern, int flags, int (*on_error)(const char *, int), type *list);                \
    STINT_API void closing(type *list);                                                                                \
    void closing(type *list)                                                                                           \
    {                                                                                                                  \
        STI_LIBC_FUNCTION(closing)                                                                                     \
        sti_handle_forget(list->gl_pathv);                                                                             \
        plain(list);                                                                                                   \
    }                                                                                                                  \
    CLOSING_COPY(closing)                                                                                              \
    int name(const char *pattern, int flags, int (*on_error)(const char *, int), type *list)                           \
    {                                                                                                                  \
        STI_LIBC_FUNCTION(name)                                                                                        \
        bool appends = (flags & GLOB_APPEND) != 0;                                                                     \
        bool was_ours = appends && sti_handle_forget(list->gl_pathv);                                                  \
        int result = plain(pattern, flags, on_error, list);                                                            \
        add_copy(was_ours || (!appends && is_list_made(result)), list->gl_pathv, &of_##closing, list, sizeof *list);   \
        return result;                                                                                                 \
    }

/* With what was found before it was given up, too. Otherwise libc may not have touched the structure. */
static bool is_list_made(int result)
{
    return result == 0 || result == GLOB_ABORTED || result == GLOB_NOMATCH;
}

GLOB(glob, globfree, glob_t)
GLOB(glob64, globfree64, glob64_t)

CLOSING_COPY(wordfree)

int wordexp(const char *string, wordexp_t *words, int flags)
{
    STI_LIBC_FUNCTION(wordexp)
    bool has_words = (flags & (WRDE_APPEND | WRDE_REUSE)) != 0;
    bool was_ours = has_words && sti_handle_forget(words->we_wordv);
    int result = plain(string, words, flags);
    add_copy(was_ours || (!has_words && (result == 0 || result == WRDE_NOSPACE)), words->we_wordv, &of_wordfree, words,
             sizeof *words);
    return result;
}

void wordfree(wordexp_t *words)
{
    STI_LIBC_FUNCTION(wordfree)
    sti_handle_forget(words->we_wordv);
    plain(words);
}

CLOSING_COPY(hdestroy_r)

int hcreate_r(size_t size, struct hsearch_data *table)
{
    STI_LIBC_FUNCTION(hcreate_r)
    bool is_made = table != NULL && table->table != NULL;
    int result = plain(size, table);
    if (result != 0 && !is_made)
        sti_handle_add(table->table, &of_hdestroy_r, table, sizeof *table);
    return result;
}

void hdestroy_r(struct hsearch_data *table)
{
    STI_LIBC_FUNCTION(hdestroy_r)
    if (table != NULL)
        sti_handle_forget(table->table);
    plain(table);
}

/* libc makes the list, which grows, and the paths in it. X(name, parameters behind the structure, arguments) */
#define FILE_ACTIONS(X)                                                                                                \
    X(addopen, (posix_spawn_file_actions_t * actions, int descriptor, const char *path, int flags, mode_t mode),       \
      (actions, descriptor, path, flags, mode))                                                                        \
    X(addclose, (posix_spawn_file_actions_t * actions, int descriptor), (actions, descriptor))                         \
    X(adddup2, (posix_spawn_file_actions_t * actions, int from, int to), (actions, from, to))                          \
    X(addchdir_np, (posix_spawn_file_actions_t * actions, const char *path), (actions, path))                          \
    X(addfchdir_np, (posix_spawn_file_actions_t * actions, int descriptor), (actions, descriptor))                     \
    X(addclosefrom_np, (posix_spawn_file_actions_t * actions, int from), (actions, from))                              \
    X(addtcsetpgrp_np, (posix_spawn_file_actions_t * actions, int descriptor), (actions, descriptor))
#define FILE_ACTION(name, parameters, arguments)                                                                       \
    STINT_API int posix_spawn_file_actions_##name parameters;                                                          \
    int posix_spawn_file_actions_##name parameters                                                                     \
    {                                                                                                                  \
        STI_LIBC_FUNCTION(posix_spawn_file_actions_##name)                                                             \
        bool is_ours = actions->__actions == NULL || sti_handle_forget(actions->__actions);                            \
        int error = plain arguments;                                                                                   \
        if (is_ours && actions->__actions != NULL)                                                                     \
            sti_handle_add(actions->__actions, &of_file_actions, actions, sizeof *actions);                            \
        return error;                                                                                                  \
    }

STINT_API int posix_spawn_file_actions_destroy(posix_spawn_file_actions_t *actions);

static void close_file_actions(void *unused, void *copy)
{
    (void)unused;
    posix_spawn_file_actions_destroy(copy);
}

static const struct sti_handle_kind of_file_actions = { .close = close_file_actions };

FILE_ACTIONS(FILE_ACTION)

int posix_spawn_file_actions_destroy(posix_spawn_file_actions_t *actions)
{
    STI_LIBC_FUNCTION(posix_spawn_file_actions_destroy)
    sti_handle_forget(actions->__actions);
    return plain(actions);
}

/* --- POSIX semaphores that have names. Any thread. --- */

STINT_API sem_t *sem_open(const char *name, int flags, ...);
STINT_API int sem_close(sem_t *semaphore);

static void close_semaphore(void *semaphore, void *unused)
{
    (void)unused;
    sem_close(semaphore);
}

sem_t *sem_open(const char *name, int flags, ...)
{
    STI_LIBC_FUNCTION(sem_open)
    static const struct sti_handle_kind kind = { .close = close_semaphore };
    mode_t mode = 0;
    unsigned value = 0;
    if ((flags & O_CREAT) != 0) {
        va_list arguments;
        va_start(arguments, flags);
        mode = va_arg(arguments, mode_t);
        value = va_arg(arguments, unsigned);
        va_end(arguments);
    }
    sem_t *semaphore = plain(name, flags, mode, value);
    if (semaphore == SEM_FAILED)
        return semaphore;
    sti_handle_add(semaphore, &kind, NULL, 0);
    return semaphore;
}

int sem_close(sem_t *semaphore)
{
    STI_LIBC_FUNCTION(sem_close)
    sti_handle_forget(semaphore);
    return plain(semaphore);
}
