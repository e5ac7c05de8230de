/* SPDX-License-Identifier: MIT
 *
 * Overrides of scanf and its like, for what the modifier m allocates: handed_over.h. libc allocates it among blocks of its own,
 * like the buffer of the stream. Any thread. */
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stint/interrupt.h>
#include <string.h>
#include <wchar.h>

#include "caller.h"
#include "handed_over.h"
#include "module_symbol.h"

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
            *stored = sti_handed_over_adopt(*stored, caller);
    }
    stint_unmask();
}

static bool may_allocate(const struct format *format)
{
    return sti_handed_over_is_wanted() &&
           (format->is_wide ? wcschr(format->text, L'm') != NULL : strchr(format->text, 'm') != NULL);
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
