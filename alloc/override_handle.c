/* SPDX-License-Identifier: MIT
 *
 * Overrides of what opens and closes those of libc's handles that are no streams, so that a rollback closes what a task
 * left open (handle.h). Any thread.
 *
 * Some lie in a structure of the caller's, which may be moved, and be gone by then: those are known by what libc has
 * allocated for them, and closed by a copy of the structure. */
/* Each name is to be its own function, not that of another one. */
#undef _FILE_OFFSET_BITS
#include <dirent.h>
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
#include <stint/api.h>
#include <wordexp.h>

#include "caller.h"
#include "handle.h"
#include "libc_function.h"
#include "scope_state.h"
#include "thread.h"

/* --- By their own address ----------------------------------------------------------------------------------------- */

/* X(name, closing function, type, parameters, arguments) */
#define OPENING_FUNCTIONS(X)                                                                                           \
    X(opendir, closedir, DIR *, (const char *path), (path))                                                            \
    X(fts_open, fts_close, FTS *,                                                                                      \
      (char *const *paths, int options, int (*compare)(const FTSENT **, const FTSENT **)), (paths, options, compare))  \
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

/* The module of a conversion is loaded for the first who wants it, and what it allocates is shared by all: a region of blocks
 * for the process, as in keep.c; the interrupt has to wait for libc's frame anyhow. */
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

static void close_regex(void *unused, void *copy)
{
    (void)unused;
    regfree(copy);
}

static const struct sti_handle_kind of_regex = { .close = close_regex };

int regcomp(regex_t *regex, const char *pattern, int flags)
{
    STI_LIBC_FUNCTION(regcomp)
    int error = plain(regex, pattern, flags);
    if (error == 0)
        sti_handle_add(regex->buffer, &of_regex, regex, sizeof *regex);
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
        sti_handle_add(regex->buffer, &of_regex, &copy, sizeof copy);
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
    static void close_by_##closing(void *unused, void *copy)                                                           \
    {                                                                                                                  \
        (void)unused;                                                                                                  \
        closing(copy);                                                                                                 \
    }                                                                                                                  \
    int name(const char *pattern, int flags, int (*on_error)(const char *, int), type *list)                           \
    {                                                                                                                  \
        STI_LIBC_FUNCTION(name)                                                                                        \
        static const struct sti_handle_kind kind = { .close = close_by_##closing };                                    \
        bool appends = (flags & GLOB_APPEND) != 0;                                                                     \
        bool was_ours = appends && sti_handle_forget(list->gl_pathv);                                                  \
        int result = plain(pattern, flags, on_error, list);                                                            \
        if (was_ours || (!appends && is_list_made(result))) {                                                          \
            if (list->gl_pathv != NULL)                                                                                \
                sti_handle_add(list->gl_pathv, &kind, list, sizeof *list);                                             \
        }                                                                                                              \
        return result;                                                                                                 \
    }

/* With what was found before it was given up, too. Otherwise libc may not have touched the structure. */
static bool is_list_made(int result)
{
    return result == 0 || result == GLOB_ABORTED || result == GLOB_NOMATCH;
}

GLOB(glob, globfree, glob_t)
GLOB(glob64, globfree64, glob64_t)

static void close_words(void *unused, void *copy)
{
    (void)unused;
    wordfree(copy);
}

int wordexp(const char *string, wordexp_t *words, int flags)
{
    STI_LIBC_FUNCTION(wordexp)
    static const struct sti_handle_kind kind = { .close = close_words };
    bool has_words = (flags & (WRDE_APPEND | WRDE_REUSE)) != 0;
    bool was_ours = has_words && sti_handle_forget(words->we_wordv);
    int result = plain(string, words, flags);
    if (was_ours || (!has_words && (result == 0 || result == WRDE_NOSPACE))) {
        if (words->we_wordv != NULL)
            sti_handle_add(words->we_wordv, &kind, words, sizeof *words);
    }
    return result;
}

void wordfree(wordexp_t *words)
{
    STI_LIBC_FUNCTION(wordfree)
    sti_handle_forget(words->we_wordv);
    plain(words);
}

static void close_table(void *unused, void *copy)
{
    (void)unused;
    hdestroy_r(copy);
}

int hcreate_r(size_t size, struct hsearch_data *table)
{
    STI_LIBC_FUNCTION(hcreate_r)
    static const struct sti_handle_kind kind = { .close = close_table };
    bool is_made = table != NULL && table->table != NULL;
    int result = plain(size, table);
    if (result != 0 && !is_made)
        sti_handle_add(table->table, &kind, table, sizeof *table);
    return result;
}

void hdestroy_r(struct hsearch_data *table)
{
    STI_LIBC_FUNCTION(hdestroy_r)
    if (table != NULL)
        sti_handle_forget(table->table);
    plain(table);
}
