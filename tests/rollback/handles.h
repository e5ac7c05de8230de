/* SPDX-License-Identifier: MIT
 *
 * What opens each kind of libc's handles, and a count of the blocks of the process's that were not given back. */
#ifndef TESTS_HANDLES_H
#define TESTS_HANDLES_H

#include "support.h"

#include <dirent.h>
#include <fts.h>
#include <glob.h>
#include <iconv.h>
#include <ifaddrs.h>
#include <locale.h>
#include <net/if.h>
#include <netdb.h>
#include <regex.h>
#include <search.h>
#include <semaphore.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stint/memprof.h>
#include <wchar.h>
#include <wordexp.h>

/* Opens something, with its structure, if there is one, in a variable that is gone by the end. NULL: it could not. */
typedef void *open_fn(void);

static void *open_regex(void)
{
    regex_t regex;
    return regcomp(&regex, "(a|b)*c{2,9}", REG_EXTENDED | REG_ICASE) == 0 ? regex.buffer : NULL;
}

static void *open_gnu_regex(void)
{
    struct re_pattern_buffer regex = { .buffer = NULL };
    regex.fastmap = malloc(256);
    re_compile_pattern("(a|b)*c", 7, &regex);
    free(regex.fastmap);
    return regex.buffer;
}

static void *open_glob(void)
{
    glob_t list = { .gl_offs = 0 };
    if (glob("/usr/*", 0, NULL, &list) != 0 || glob("/etc/*", GLOB_APPEND, NULL, &list) != 0)
        return NULL;
    return list.gl_pathv;
}

static void *open_glob64(void)
{
    glob64_t list = { .gl_offs = 2 };
    return glob64("/{usr,etc}/*", GLOB_DOOFFS | GLOB_BRACE, NULL, &list) == 0 ? list.gl_pathv : NULL;
}

static void *open_words(void)
{
    wordexp_t words = { .we_offs = 0 };
    if (wordexp("one two three", &words, WRDE_NOCMD) != 0 ||
        wordexp("four /etc/*", &words, WRDE_NOCMD | WRDE_APPEND) != 0)
        return NULL;
    wordexp("other words", &words, WRDE_NOCMD | WRDE_REUSE);
    return words.we_wordv;
}

static void *open_directory(void)
{
    return opendir("/");
}

static void *open_tree(void)
{
    static char path[] = "/etc";
    char *const paths[] = { path, NULL };
    FTS *tree = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    return tree != NULL && fts_read(tree) != NULL ? tree : NULL;
}

static void *open_iconv(void)
{
    return iconv_open("UTF-16", "UTF-8");
}

static void *open_locale(void)
{
    locale_t locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    locale = newlocale(LC_NUMERIC_MASK, "C", locale);
    locale_t copy = duplocale(locale);
    freelocale(locale);
    return newlocale(LC_TIME_MASK, "C", copy);
}

static void *open_addresses(void)
{
    const struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV };
    struct addrinfo *list = NULL;
    return getaddrinfo("127.0.0.1", "80", &hints, &list) == 0 ? list : NULL;
}

static void *open_interfaces(void)
{
    struct ifaddrs *list = NULL;
    return getifaddrs(&list) == 0 ? list : NULL;
}

static void *open_interface_names(void)
{
    return if_nameindex();
}

static void *open_table(void)
{
    struct hsearch_data table = { .table = NULL };
    return hcreate_r(1000, &table) != 0 ? table.table : NULL;
}

static void *open_file_actions(void)
{
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    for (int i = 0; i < 20; i++) {
        if (posix_spawn_file_actions_addopen(&actions, 100 + i, "/dev/null", O_RDONLY, 0) != 0 ||
            posix_spawn_file_actions_adddup2(&actions, 100 + i, 1) != 0)
            return NULL;
    }
    return actions.__actions;
}

static void *open_semaphore(void)
{
    char name[64];
    snprintf(name, sizeof name, "/stint-handles-%d", (int)getpid());
    sem_t *semaphore = sem_open(name, O_CREAT | O_EXCL, 0600, 1);
    sem_unlink(name);
    return semaphore != SEM_FAILED ? semaphore : NULL;
}

static void *open_file(void)
{
    FILE *file = fopen("/etc/passwd", "r");
    return file != NULL && fgetc(file) != EOF ? file : NULL;
}

static void *open_temporary_file(void)
{
    FILE *file = tmpfile();
    return file != NULL && fputs("unwritten", file) >= 0 ? file : NULL;
}

static void *open_in_memory(void)
{
    char *buffer = malloc(100);
    FILE *file = buffer != NULL ? fmemopen(buffer, 100, "w") : NULL;
    return file != NULL && fputs("unwritten", file) >= 0 ? file : NULL;
}

static void *open_growing(void)
{
    char *block;
    size_t size;
    FILE *file = open_memstream(&block, &size);
    return file != NULL && fprintf(file, "%20000d", 1) > 0 ? file : NULL;
}

static void *open_wide_growing(void)
{
    wchar_t *block;
    size_t size;
    FILE *file = open_wmemstream(&block, &size);
    return file != NULL && fwprintf(file, L"%2000d", 1) > 0 ? file : NULL;
}

static const struct {
    const char *name;
    open_fn *open;
} openers[] = {
    { "regcomp", open_regex },
    { "re_compile_pattern", open_gnu_regex },
    { "glob", open_glob },
    { "glob64", open_glob64 },
    { "wordexp", open_words },
    { "opendir", open_directory },
    { "fts_open", open_tree },
    { "iconv_open", open_iconv },
    { "newlocale", open_locale },
    { "getaddrinfo", open_addresses },
    { "getifaddrs", open_interfaces },
    { "if_nameindex", open_interface_names },
    { "hcreate_r", open_table },
    { "posix_spawn_file_actions", open_file_actions },
    { "sem_open", open_semaphore },
    { "fopen", open_file },
    { "tmpfile", open_temporary_file },
    { "fmemopen", open_in_memory },
    { "open_memstream", open_growing },
    { "open_wmemstream", open_wide_growing },
};

#define OPENERS (sizeof openers / sizeof *openers)

/* --- Blocks of the process's that are not given back --- */

static atomic_long live;

static void *count_made(const stint_memprof_allocation *allocation, void *arg)
{
    (void)arg;
    if (allocation->in_task_heap)
        return NULL;
    atomic_fetch_add_explicit(&live, 1, memory_order_relaxed);
    return &live;
}

static void count_end(void *metadata, stint_memprof_end end, void *arg)
{
    (void)metadata;
    (void)arg;
    if (end == STINT_MEMPROF_FREED)
        atomic_fetch_sub_explicit(&live, 1, memory_order_relaxed);
}

static inline void start_to_count(void)
{
    stint_memprof_options options = STINT_MEMPROF_OPTIONS_INIT;
    options.rate = 1;
    options.interval = 0;
    options.callstack_depth = 0;
    options.tracker = (stint_memprof_tracker){ .alloc = count_made, .dealloc = count_end };
    live = 0;
    assert_int_equal(stint_memprof_start(&options), 0);
}

static inline int open_descriptors(void)
{
    int count = 0;
    for (int i = 0; i < 1000; i++)
        count += fcntl(i, F_GETFD) >= 0;
    return count;
}

#endif
