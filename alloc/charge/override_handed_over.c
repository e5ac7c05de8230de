/* SPDX-License-Identifier: MIT
 *
 * Overrides of functions of libc that hand blocks to their caller, scanf and its like among them: such a block is the
 * task's. Any thread. */
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE
#undef __OPTIMIZE__

#include <dirent.h>
#include <regex.h>
#include <search.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stint/interrupt.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include "alloc/base/caller.h"
#include "alloc/base/module.h"
#include "allocate.h"

/* --- Overrides of those functions of libc that hand blocks to their caller to free, but make them deep inside of libc,
 * or among others of its own. Such a block would be libc's, and be lost when the task is rolled back: so a copy in the
 * task's heap takes its place, beyond the task's limits too. Where the system has no memory for that it stays libc's.
 * Strings and lines are in override_libc.c. Any thread. */

static bool is_wanted(void)
{
    return sti_thread_metered != NULL && sti_link_has_malloc() && sti_rule_is_on(STI_RULE_HANDED_OVER);
}

static void *copy_to_task(void *block, const void *caller)
{
    if (block == NULL)
        return NULL;
    int saved_errno = errno;
    size_t size = sti_backend_usable_size(block);
    void *copy = sti_allocate(size, caller);
    if (copy ==
        NULL) /* libc's goes in exchange; and were it to stay, an interrupt that comes now would leave it behind */
        copy = sti_allocate_unrefused(0, size);
    errno = saved_errno;
    if (copy == NULL)
        return block;
    memcpy(copy, block, size);
    sti_free(block);
    return copy;
}

static void *adopt(void *block, const void *caller)
{
    if (block == NULL || !is_wanted())
        return block;
    stint_mask();
    block = copy_to_task(block, caller);
    stint_unmask();
    return block;
}

/* --- Names of files ----------------------------------------------------------------------------------------------- */

STINT_API char *getcwd(char *buffer, size_t size);
STINT_API char *get_current_dir_name(void);
STINT_API char *tempnam(const char *folder, const char *prefix);

char *getcwd(char *buffer, size_t size)
{
    STI_LIBC_FUNCTION(getcwd)
    char *name = plain(buffer, size);
    return buffer == NULL ? adopt(name, STI_CALLER()) : name;
}

char *get_current_dir_name(void)
{
    STI_LIBC_FUNCTION(get_current_dir_name)
    return adopt(plain(), STI_CALLER());
}

char *tempnam(const char *folder, const char *prefix)
{
    STI_LIBC_FUNCTION(tempnam)
    return adopt(plain(folder, prefix), STI_CALLER());
}

static void adopt_entries(void ***list, int count, const void *caller)
{
    if (count < 0 || !is_wanted())
        return;
    stint_mask();
    for (int i = 0; i < count; i++)
        (*list)[i] = copy_to_task((*list)[i], caller);
    *list = copy_to_task(*list, caller);
    stint_unmask();
}

/* X(name, type of an entry, parameters, arguments), each with its parameter list. */
#define FOLDER_READERS(X)                                                                                              \
    X(scandir, struct dirent,                                                                                          \
      (const char *path, struct dirent ***list, int (*selects)(const struct dirent *),                                 \
       int (*compares)(const struct dirent **, const struct dirent **)),                                               \
      (path, list, selects, compares))                                                                                 \
    X(scandir64, struct dirent64,                                                                                      \
      (const char *path, struct dirent64 ***list, int (*selects)(const struct dirent64 *),                             \
       int (*compares)(const struct dirent64 **, const struct dirent64 **)),                                           \
      (path, list, selects, compares))                                                                                 \
    X(scandirat, struct dirent,                                                                                        \
      (int folder, const char *path, struct dirent ***list, int (*selects)(const struct dirent *),                     \
       int (*compares)(const struct dirent **, const struct dirent **)),                                               \
      (folder, path, list, selects, compares))                                                                         \
    X(scandirat64, struct dirent64,                                                                                    \
      (int folder, const char *path, struct dirent64 ***list, int (*selects)(const struct dirent64 *),                 \
       int (*compares)(const struct dirent64 **, const struct dirent64 **)),                                           \
      (folder, path, list, selects, compares))
#define FOLDER_READER(name, entry, parameters, arguments)                                                              \
    STINT_API int name parameters;                                                                                     \
    int name parameters                                                                                                \
    {                                                                                                                  \
        STI_LIBC_FUNCTION(name)                                                                                        \
        int count = plain arguments;                                                                                   \
        adopt_entries((void ***)list, count, STI_CALLER());                                                            \
        return count;                                                                                                  \
    }
FOLDER_READERS(FOLDER_READER)

/* --- Trees -------------------------------------------------------------------------------------------------------- */

STINT_API void *tsearch(const void *key, void **root, int (*compares)(const void *, const void *));

/* It makes a node when it has made all comparisons. */
void *tsearch(const void *key, void **root, int (*compares)(const void *, const void *))
{
    STI_LIBC_FUNCTION(tsearch)
    bool before = sti_handed_over_search;
    sti_handed_over_search = true;
    void *node = plain(key, root, compares);
    sti_handed_over_search = before;
    return node;
}

/* --- Structures of the caller's
 * ------------------------------------------------------------------------------------ */

/* The places of what was found, where the caller wants them allocated. */
#define MATCHERS(X)                                                                                                    \
    X(re_match,                                                                                                        \
      (struct re_pattern_buffer * regex, const char *text, regoff_t length, regoff_t start,                            \
       struct re_registers *found_at),                                                                                 \
      (regex, text, length, start, found_at))                                                                          \
    X(re_search,                                                                                                       \
      (struct re_pattern_buffer * regex, const char *text, regoff_t length, regoff_t start, regoff_t range,            \
       struct re_registers *found_at),                                                                                 \
      (regex, text, length, start, range, found_at))                                                                   \
    X(re_match_2,                                                                                                      \
      (struct re_pattern_buffer * regex, const char *text, regoff_t length, const char *text_too, regoff_t length_too, \
       regoff_t start, struct re_registers *found_at, regoff_t stop),                                                  \
      (regex, text, length, text_too, length_too, start, found_at, stop))                                              \
    X(re_search_2,                                                                                                     \
      (struct re_pattern_buffer * regex, const char *text, regoff_t length, const char *text_too, regoff_t length_too, \
       regoff_t start, regoff_t range, struct re_registers *found_at, regoff_t stop),                                  \
      (regex, text, length, text_too, length_too, start, range, found_at, stop))
#define MATCHER(name, parameters, arguments)                                                                           \
    STINT_API regoff_t name parameters;                                                                                \
    regoff_t name parameters                                                                                           \
    {                                                                                                                  \
        STI_LIBC_FUNCTION(name)                                                                                        \
        bool was_there = found_at == NULL || regex->regs_allocated != REGS_UNALLOCATED;                                \
        regoff_t result = plain arguments;                                                                             \
        if (!was_there && regex->regs_allocated == REGS_REALLOCATE) {                                                  \
            found_at->start = adopt(found_at->start, STI_CALLER());                                                    \
            found_at->end = adopt(found_at->end, STI_CALLER());                                                        \
        }                                                                                                              \
        return result;                                                                                                 \
    }
MATCHERS(MATCHER)

/* --- Overrides of scanf and its like, for what the modifier m allocates. libc allocates it among blocks of its own,
 * like the buffer of the stream. Any thread. */

struct format {
    const void *text;
    bool is_wide;
    size_t at;
};

static wint_t peek(const struct format *format)
{
    return format->is_wide ? (wint_t)((const wchar_t *)format->text)[format->at]
                           : ((const unsigned char *)format->text)[format->at];
}

static bool skip(struct format *format, const char *any_of)
{
    wint_t c = peek(format);
    bool found = c != 0 && c < 128 && strchr(any_of, (int)c) != NULL;
    format->at += found;
    return found;
}

static void skip_set(struct format *format)
{
    skip(format, "^");
    skip(format, "]");
    while (peek(format) != 0 && peek(format) != ']')
        format->at++;
    skip(format, "]");
}

struct conversion {
    bool stores; /* in the next argument, */
    bool counts; /* and what is returned counts it */
    bool allocates;
};

/* Behind a %. False: the arguments are taken by number, or it is the end. */
static bool read_conversion(struct format *format, struct conversion *conversion)
{
    *conversion = (struct conversion){ .counts = true };
    bool is_suppressed = peek(format) == '*';
    while (skip(format, "*'I"))
        is_suppressed |= peek(format) == '*';
    conversion->stores = !is_suppressed;
    while (skip(format, "0123456789"))
        ;
    if (skip(format, "$"))
        return false;
    conversion->allocates = skip(format, "m");
    while (skip(format, "hlLqjztw0123456789"))
        ;
    if (skip(format, "%"))
        conversion->stores = false;
    else if (skip(format, "n"))
        conversion->counts = false;
    else if (skip(format, "["))
        skip_set(format);
    else if (peek(format) != 0)
        format->at++;
    else
        return false;
    return true;
}

/* With so many of its arguments stored. */
static __attribute__((noinline)) void adopt_scanned(struct format *format, int count, va_list arguments,
                                                    const void *caller)
{
    stint_mask();
    while (count > 0 && peek(format) != 0) {
        struct conversion conversion;
        if (!skip(format, "%")) {
            format->at++;
            continue;
        }
        if (!read_conversion(format, &conversion))
            break;
        if (!conversion.stores)
            continue;
        void **stored = va_arg(arguments, void **);
        count -= conversion.counts;
        if (conversion.allocates)
            *stored = copy_to_task(*stored, caller);
    }
    stint_unmask();
}

static bool may_allocate(const struct format *format)
{
    return is_wanted() && (format->is_wide ? wcschr(format->text, L'm') != NULL : strchr(format->text, 'm') != NULL);
}

/* Headers give these names to others of them, as the language's version is: so they are called something else here.
 * X(name, that of the function with a list, character, first parameter with a comma, first argument with a comma) */
#define NO_MORE
#define OF_STREAM FILE *input,
#define OF_TEXT(character) const character *input,
#define INPUT input,
#define SCANNERS(prefix)                                                                                               \
    SCANNER(prefix, scanf, vscanf, char, NO_MORE, NO_MORE)                                                             \
    SCANNER(prefix, fscanf, vfscanf, char, OF_STREAM, INPUT)                                                           \
    SCANNER(prefix, sscanf, vsscanf, char, OF_TEXT(char), INPUT)                                                       \
    SCANNER(prefix, wscanf, vwscanf, wchar_t, NO_MORE, NO_MORE)                                                        \
    SCANNER(prefix, fwscanf, vfwscanf, wchar_t, OF_STREAM, INPUT)                                                      \
    SCANNER(prefix, swscanf, vswscanf, wchar_t, OF_TEXT(wchar_t), INPUT)
#define STRING(text) #text
#define NAMED(prefix, name) __asm__(STRING(prefix##name))
#define SCANNER(prefix, name, by_list, character, parameter, argument)                                                 \
    STINT_API int scan##prefix##by_list(parameter const character *format, va_list arguments) NAMED(prefix, by_list);  \
    STINT_API int scan##prefix##name(parameter const character *format, ...) NAMED(prefix, name);                      \
    static int plain##prefix##by_list(parameter const character *format, va_list arguments, const void *caller)        \
    {                                                                                                                  \
        static __typeof__(scan##prefix##by_list) *_Atomic found;                                                       \
        __typeof__(scan##prefix##by_list) *plain = atomic_load_explicit(&found, memory_order_relaxed);                 \
        if (plain == NULL) {                                                                                           \
            *(void **)&plain = sti_libc_function(STRING(prefix##by_list));                                             \
            atomic_store_explicit(&found, plain, memory_order_relaxed);                                                \
        }                                                                                                              \
        va_list again;                                                                                                 \
        va_copy(again, arguments);                                                                                     \
        int count = plain(argument format, arguments);                                                                 \
        struct format parts = { .text = format, .is_wide = sizeof(character) > 1 };                                    \
        if (count > 0 && may_allocate(&parts))                                                                         \
            adopt_scanned(&parts, count, again, caller);                                                               \
        va_end(again);                                                                                                 \
        return count;                                                                                                  \
    }                                                                                                                  \
    int scan##prefix##by_list(parameter const character *format, va_list arguments)                                    \
    {                                                                                                                  \
        return plain##prefix##by_list(argument format, arguments, STI_CALLER());                                       \
    }                                                                                                                  \
    int scan##prefix##name(parameter const character *format, ...)                                                     \
    {                                                                                                                  \
        va_list arguments;                                                                                             \
        va_start(arguments, format);                                                                                   \
        int count = plain##prefix##by_list(argument format, arguments, STI_CALLER());                                  \
        va_end(arguments);                                                                                             \
        return count;                                                                                                  \
    }

SCANNERS()
SCANNERS(__isoc99_)
SCANNERS(__isoc23_)
