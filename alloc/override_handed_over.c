/* SPDX-License-Identifier: MIT
 *
 * Overrides of those functions of libc that hand blocks to their caller to free, but make them deep inside of libc, or among
 * others of its own. Such a block would be libc's, and be lost when the task is rolled back: so a copy in the task's heap takes
 * its place. Where there is no room for that it stays libc's. Strings and lines are in override_libc.c, what scanf makes in
 * override_scan.c. Any thread. */
/* Each name is to be its own function, not that of another one. */
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE
#undef __OPTIMIZE__
#include <dirent.h>
#include <regex.h>
#include <search.h>
#include <spawn.h>
#include <stdio.h>
#include <stint/interrupt.h>
#include <unistd.h>

#include "allocate.h"
#include "handed_over.h"
#include "libc_function.h"
#include "linkage.h"
#include "rules.h"

bool sti_handed_over_is_wanted(void)
{
    return sti_thread_metered != NULL && sti_link_has_malloc() && sti_rule_is_on(STI_RULE_HANDED_OVER);
}

void *sti_handed_over_adopt(void *block, const void *caller)
{
    if (block == NULL)
        return NULL;
    int saved_errno = errno;
    size_t size = sti_backend_usable_size(block);
    void *copy = sti_allocate(size, caller);
    errno = saved_errno;
    if (copy == NULL)
        return block;
    memcpy(copy, block, size);
    sti_free(block);
    return copy;
}

static void *adopt(void *block, const void *caller)
{
    if (block == NULL || !sti_handed_over_is_wanted())
        return block;
    stint_mask();
    block = sti_handed_over_adopt(block, caller);
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
    if (count < 0 || !sti_handed_over_is_wanted())
        return;
    stint_mask();
    for (int i = 0; i < count; i++)
        (*list)[i] = sti_handed_over_adopt((*list)[i], caller);
    *list = sti_handed_over_adopt(*list, caller);
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

/* --- Structures of the caller's ------------------------------------------------------------------------------------ */

/* X(name, parameters behind the structure, arguments) */
#define FILE_ACTIONS(X)                                                                                                \
    X(addopen, (posix_spawn_file_actions_t * actions, int descriptor, const char *path, int flags, mode_t mode),       \
      (actions, descriptor, path, flags, mode))                                                                        \
    X(addclose, (posix_spawn_file_actions_t * actions, int descriptor), (actions, descriptor))                         \
    X(adddup2, (posix_spawn_file_actions_t * actions, int from, int to), (actions, from, to))                          \
    X(addchdir_np, (posix_spawn_file_actions_t * actions, const char *path), (actions, path))                          \
    X(addfchdir_np, (posix_spawn_file_actions_t * actions, int descriptor), (actions, descriptor))                     \
    X(addclosefrom_np, (posix_spawn_file_actions_t * actions, int from), (actions, from))
#define FILE_ACTION(name, parameters, arguments)                                                                       \
    STINT_API int posix_spawn_file_actions_##name parameters;                                                          \
    int posix_spawn_file_actions_##name parameters                                                                     \
    {                                                                                                                  \
        STI_LIBC_FUNCTION(posix_spawn_file_actions_##name)                                                             \
        const void *before = actions->__actions;                                                                       \
        int error = plain arguments;                                                                                   \
        if (actions->__actions != before)                                                                              \
            actions->__actions = adopt(actions->__actions, STI_CALLER());                                              \
        return error;                                                                                                  \
    }
FILE_ACTIONS(FILE_ACTION)

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
