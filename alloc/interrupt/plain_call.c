/* SPDX-License-Identifier: MIT
 *
 * Calls of what throws nothing; see plain_call.h. Any thread. */
#include "plain_call.h"

#include <stddef.h>
#include <string.h>

#include "alloc/base/callstack.h"
#include "alloc/base/module.h"

/* Functions of libc's that are sample points here, and that its headers declare not to throw. */
static const char *const plain[] = {
    "malloc",          "calloc",
    "realloc",         "reallocarray",
    "posix_memalign",  "aligned_alloc",
    "memalign",        "valloc",
    "pvalloc",         "strdup",
    "__strdup",        "strndup",
    "__strndup",       "asprintf",
    "__asprintf_chk",  "vasprintf",
    "__vasprintf_chk", "realpath",
    "__realpath_chk",  "canonicalize_file_name",
    "getcwd",          "get_current_dir_name",
    "tempnam",         "mmap",
    "mmap64",          "mremap",
};
#define PLAIN (sizeof plain / sizeof plain[0])

static bool is_plain_name(const char *name)
{
    size_t i = 0;
    while (name != NULL && i < PLAIN && strcmp(plain[i], name) != 0)
        i++;
    return name != NULL && i < PLAIN;
}

static struct sti_module module_of(const uint8_t *address)
{
    return sti_module_loaded(sti_module_of(address));
}

static bool is_plain_entry(const uint8_t *entry)
{
    return is_plain_name(sti_module_imported(module_of(entry), entry));
}

/* Of a program that this library is linked into. */
static bool is_defined_here(const uint8_t *function)
{
    const struct sti_module module = module_of(function);
    size_t i = 0;
    while (i < PLAIN && function != sti_module_symbol(module, plain[i]))
        i++;
    return i < PLAIN;
}

static const uint8_t *target(const uint8_t *distance)
{
    return distance + 4 + sti_read_s32(distance);
}

/* A function, or the linkage table's way to one: jmp *entry. */
static bool is_plain_function(const uint8_t *function)
{
    const uint8_t *at = function;
    if (memcmp(at, "\xf3\x0f\x1e\xfa", 4) == 0) /* endbr64 */
        at += 4;
    if (at[0] == 0xf2) /* bnd */
        at++;
    return at[0] == 0xff && at[1] == 0x25 ? is_plain_entry(target(at + 2)) : is_defined_here(function);
}

bool sti_plain_call_returns_to(uintptr_t behind)
{
    const uint8_t *at = (const uint8_t *)behind;
    if (at[-6] == 0xff && at[-5] == 0x15)
        return is_plain_entry(target(at - 4));
    /* A shorter call may end in bytes that look like this one: then they lead far away. */
    const struct link_map *module = at[-5] == 0xe8 ? sti_module_of(at) : NULL;
    return module != NULL && sti_module_of(target(at - 4)) == module && is_plain_function(target(at - 4));
}
