/* SPDX-License-Identifier: MIT
 *
 * Return addresses; see caller.h. Any thread.
 *
 * Where libc and the loader lie is found once, when the library is loaded. Any other address is asked of the loader's
 * own index (_dl_find_object, glibc 2.35), which takes no lock and is true through every dlopen and dlclose. */
#include "caller.h"

#include <elf.h>
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <stint/interrupt.h>
#include <string.h>

#include "backend.h"
#include "callstack.h"
#include "module.h"
#include "permanent.h"
#include "process.h"

unsigned sti_rules_off;
struct sti_caller_system sti_caller_system;
extern int register_destructor(void (*)(void *), void *, void *) __asm__("__cxa_thread_atexit_impl");
static struct sti_caller_module thread_atexit; /* the code of this function of libc's */
static struct sti_caller_system waiting;       /* the same, though a test clears the other: caller.h */

struct sti_caller_module sti_caller_module_at(const struct dl_phdr_info *info)
{
    uintptr_t begin = UINTPTR_MAX;
    uintptr_t end = 0;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD)
            continue;
        uintptr_t first = info->dlpi_addr + segment->p_vaddr;
        if (first < begin)
            begin = first;
        if (first + segment->p_memsz > end)
            end = first + segment->p_memsz;
    }
    return (struct sti_caller_module){ .begin = begin, .size = end > begin ? end - begin : 0 };
}

/* Where pages may be of 64 KiB, there are gaps between the segments of what the system loads, the program and the
 * loader, and the loader's index knows each segment for itself. What the loader has loaded is in one piece. */
static struct sti_caller_module program; /* set at start */

static struct sti_caller_module extent_of(const struct dl_find_object *found)
{
    if (found->dlfo_link_map == _r_debug.r_map && program.size != 0)
        return program;
    uintptr_t begin = (uintptr_t)found->dlfo_map_start;
    return (struct sti_caller_module){ .begin = begin, .size = (uintptr_t)found->dlfo_map_end - begin };
}

struct sti_caller_module sti_caller_module_of(const void *address)
{
    struct dl_find_object found;
    return _dl_find_object((void *)(uintptr_t)address, &found) == 0 ? extent_of(&found)
                                                                    : (struct sti_caller_module){ .size = 0 };
}

/* A module that is a part of this library; NULL: it has not been loaded. relaxed: only compared. */
static _Atomic(const void *) part;

void sti_caller_note_part(const void *address)
{
    atomic_store_explicit(&part, address, memory_order_relaxed);
}

static bool is_part(const struct sti_caller_module *module)
{
    return sti_caller_in(module, atomic_load_explicit(&part, memory_order_relaxed));
}

bool sti_caller_module_is_ours(const struct dl_phdr_info *info)
{
    struct sti_caller_module module = sti_caller_module_at(info);
    return sti_caller_in(&module, &sti_caller_system) || sti_caller_in(&module, sti_backend_address()) ||
           is_part(&module);
}

static bool has_our_name(const char *path)
{
    return sti_caller_is_named(path, "libstint") || sti_caller_is_named(path, "libmimalloc");
}

bool sti_caller_module_is_only_ours(const struct dl_phdr_info *info)
{
    struct sti_caller_module module = sti_caller_module_at(info);
    return is_part(&module) || (sti_caller_module_is_ours(info) && has_our_name(info->dlpi_name));
}

/* Names that the program adds to those of modules that are never left (stint_module_protect), and of those that are
 * (stint_module_allow). A list only grows; release publishes an entry, acquire finds it whole. */
struct name {
    const struct name *next;
    size_t length;
    bool is_pattern; /* it ended in a '*': a file's name may continue in any way */
    char text[];
};
typedef _Atomic(const struct name *) names_list;
static names_list protected_names;
static names_list allowed_names;

enum {
    NEVER_LEFT = 1 << 5, /* whatever the program says */
    OPENMP = 1 << 6,
};

/* The list of what is known of libraries. In which ways one may be left: it was, at random points, by the
 * thousand, and gave the right answers afterwards; the row of tests/chaos/results.json that says so is named, and
 * tests/chaos/evidence.py compares them. libm has nothing but its arguments, errno and the
 * rounding mode, which a resume point gives back.
 *
 * And with which it is kept (permanent.h), where that is loaded with the program: one that puts blocks into tables of
 * the process, and hands them from one task to the next, is kept with itself; one that makes such blocks for it alone,
 * with it (tests/libraries).
 *
 * A name means a file whose name continues with '.' or '-' or ends there. */
static const struct library {
    const char *name;
    unsigned ways;
    const char *kept_with;
} libraries[] = {
    { "libc", NEVER_LEFT, NULL },
    { "ld-linux", NEVER_LEFT, NULL },
    { "linux-vdso", NEVER_LEFT, NULL },
    { "libstdc++", NEVER_LEFT | STI_LEFT_AT_END, NULL },
    { "libc++", NEVER_LEFT | STI_LEFT_AT_END, NULL },
    { "libc++abi", NEVER_LEFT | STI_LEFT_AT_END, NULL },
    { "libgcc_s", NEVER_LEFT | STI_LEFT_AT_END, NULL },
    { "libunwind", NEVER_LEFT, NULL },
    { "libmimalloc", NEVER_LEFT, NULL }, /* what this library does in it, */
    { "libck", NEVER_LEFT, NULL },       /* or in this, is half done */
    { "libgomp", NEVER_LEFT | OPENMP, "libgomp" },
    { "libomp", NEVER_LEFT | OPENMP, "libomp" },
    { "libomp5", NEVER_LEFT | OPENMP, "libomp5" },
    { "libiomp5", NEVER_LEFT | OPENMP, "libiomp5" },
    { "libexpat", STI_LEFT_ANYHOW, NULL },                                             /* row expat */
    { "libjansson", STI_LEFT_ANYHOW, NULL },                                           /* row json */
    { "liblua5.4", STI_LEFT_ANYHOW, NULL },                                            /* row lua */
    { "libz", STI_LEFT_ANYHOW, NULL },                                                 /* row deflate */
    { "libduktape", STI_LEFT_ANYHOW, NULL },                                           /* row javascript */
    { "libxml2", STI_LEFT_BY_JUMP | STI_LEFT_BY_UNWIND | STI_LEFT_EXHAUSTED, NULL },   /* row xml */
    { "libm", STI_LEFT_BY_JUMP | STI_LEFT_BY_UNWIND | STI_LEFT_STOPPED, NULL },        /* row libm */
    { "libpcre2-8", STI_LEFT_ANYHOW, "libglib-2.0" },                                  /* row regex */
    { "libyaml-0", STI_LEFT_ANYHOW, NULL },                                            /* row yaml */
    { "libmsgpackc", STI_LEFT_ANYHOW, NULL },                                          /* row msgpack */
    { "libcbor", STI_LEFT_BY_JUMP | STI_LEFT_BY_UNWIND | STI_LEFT_STOPPED, NULL },     /* row cbor */
    { "libpng16", STI_LEFT_ANYHOW, NULL },                                             /* row png */
    { "libjpeg", STI_LEFT_ANYHOW, NULL },                                              /* row jpeg */
    { "libtiff", STI_LEFT_ANYHOW, NULL },                                              /* row tiff */
    { "libwebp", STI_LEFT_ANYHOW, NULL },                                              /* row webp */
    { "libgif", STI_LEFT_ANYHOW, NULL },                                               /* row gif */
    { "libonig", STI_LEFT_ANYHOW, NULL },                                              /* row onig */
    { "libzstd", STI_LEFT_ANYHOW, NULL },                                              /* row zstd */
    { "liblzma", STI_LEFT_ANYHOW, NULL },                                              /* row xz */
    { "libbz2", STI_LEFT_ANYHOW, NULL },                                               /* row bzip2 */
    { "libbrotlienc", STI_LEFT_ANYHOW, NULL },                                         /* row brotli */
    { "libbrotlidec", STI_LEFT_ANYHOW, NULL },                                         /* row brotli */
    { "libbrotlicommon", STI_LEFT_ANYHOW, NULL },                                      /* row brotli */
    { "liblz4", STI_LEFT_ANYHOW, NULL },                                               /* row lz4 */
    { "libsnappy", STI_LEFT_BY_JUMP | STI_LEFT_BY_UNWIND | STI_LEFT_STOPPED, NULL },   /* row snappy */
    { "libgsl", STI_LEFT_BY_JUMP | STI_LEFT_BY_UNWIND | STI_LEFT_STOPPED, NULL },      /* row gsl */
    { "libgslcblas", STI_LEFT_BY_JUMP | STI_LEFT_BY_UNWIND | STI_LEFT_STOPPED, NULL }, /* row gsl */
    { "libgmp", STI_LEFT_BY_JUMP | STI_LEFT_BY_UNWIND | STI_LEFT_STOPPED, "libmpfr" }, /* row gmp */
    { "libmujs", STI_LEFT_ANYHOW, NULL },                                              /* row mujs */
    { "libsodium", STI_LEFT_ANYHOW, NULL },                                            /* row sodium */
    { "libnettle", STI_LEFT_BY_JUMP | STI_LEFT_BY_UNWIND | STI_LEFT_STOPPED, NULL },   /* row nettle */
    { "libfreetype", STI_LEFT_ANYHOW, "libcairo" },                                    /* row freetype */
    { "libharfbuzz", STI_LEFT_ANYHOW, "libpango-1.0" },                                /* row harfbuzz */
    { "libpugixml", STI_LEFT_ANYHOW, NULL },                                           /* row pugixml */
    { "libyaml-cpp", STI_LEFT_ANYHOW, NULL },                                          /* row yamlcpp */
    { "libtinyxml2", STI_LEFT_ANYHOW, NULL },                                          /* row tinyxml2 */
    { "libcjson", STI_LEFT_ANYHOW, NULL },                                             /* row cjson */
    { "libjson-c", STI_LEFT_ANYHOW, NULL },                                            /* row json_c */
    { "libyajl", STI_LEFT_ANYHOW, NULL },                                              /* row yajl */
    { "liblcms2", STI_LEFT_ANYHOW, NULL },                                             /* row lcms2 */
    { "libtidy", STI_LEFT_ANYHOW, NULL },                                              /* row tidy */
    { "libcmark", STI_LEFT_ANYHOW, NULL },                                             /* row cmark */
    { "libxslt", STI_LEFT_BY_JUMP | STI_LEFT_BY_UNWIND | STI_LEFT_EXHAUSTED, NULL },   /* row xslt */
    { "libcairo", 0, "libcairo" },
    { "libpixman-1", 0, "libcairo" },
    { "libfontconfig", 0, "libcairo" },
    { "libcrypto", 0, "libcrypto" },
    { "libssl", 0, "libcrypto" },
    { "libfftw3", 0, "libfftw3" },
    { "libfftw3f", 0, "libfftw3f" },
    { "libfftw3l", 0, "libfftw3l" },
    { "libglib-2.0", 0, "libglib-2.0" },
    { "libgobject-2.0", 0, "libglib-2.0" },
    { "libgio-2.0", 0, "libglib-2.0" },
    { "libgdk_pixbuf-2.0", 0, "libglib-2.0" },
    { "libicuuc", 0, "libicuuc" },
    { "libicui18n", 0, "libicuuc" },
    { "libmpfr", 0, "libmpfr" },
    { "libpango-1.0", 0, "libpango-1.0" },
    { "libpangocairo-1.0", 0, "libpango-1.0" },
    { "libpangoft2-1.0", 0, "libpango-1.0" },
    { "librsvg-2", 0, "librsvg-2" },
    { "libtcl8.6", 0, "libtcl8.6" },
};
#define LIBRARIES (sizeof libraries / sizeof libraries[0])

static atomic_bool kept_from_start[LIBRARIES]; /* until the program allows it to be left; relaxed */

static bool is_named(const char *file, const char *name)
{
    for (; *name != '\0' && *name == *file; name++)
        file++;
    return *name == '\0' && (*file == '\0' || *file == '.' || *file == '-');
}

bool sti_caller_is_named(const char *path, const char *name)
{
    return is_named(basename(path), name);
}

/* NULL: nothing is known of it. */
static const struct library *library_of(const char *path)
{
    const char *file = basename(path);
    size_t i = 0;
    while (i < LIBRARIES && !is_named(file, libraries[i].name))
        i++;
    return i < LIBRARIES ? &libraries[i] : NULL;
}

static unsigned known_ways(const char *path)
{
    const struct library *library = library_of(path);
    return library != NULL ? library->ways : 0;
}

bool sti_caller_is_openmp(const char *path)
{
    return (known_ways(path) & OPENMP) != 0;
}

static bool is_kept(const struct library *library)
{
    return library != NULL && atomic_load_explicit(&kept_from_start[library - libraries], memory_order_relaxed);
}

static bool is_module_ours; /* the one that this library is in is nothing else */

static void find_kept_from_start(void)
{
    for (const struct link_map *module = _r_debug.r_map; module != NULL; module = module->l_next) {
        const struct library *with = library_of(module->l_name);
        for (size_t i = 0; with != NULL && i < LIBRARIES; i++) {
            if (libraries[i].kept_with != NULL && strcmp(libraries[i].kept_with, with->name) == 0)
                atomic_store_explicit(&kept_from_start[i], true, memory_order_relaxed);
        }
    }
}

static int module_classify(struct dl_phdr_info *info, size_t size, void *unused)
{
    struct sti_caller_module module = sti_caller_module_at(info);
    (void)size;
    (void)unused;
    if (program.size == 0)
        program = module; /* the first that the loader lists */
    if (is_kept(library_of(info->dlpi_name)))
        sti_module_keep_at_start(module);
    /* A function that can be nobody's but libc's; and what the loader says of itself: clang's sanitizers have functions
     * of the loader's names in the program. */
    if (sti_caller_in(&module, (const void *)(uintptr_t)abs))
        sti_caller_system.libc = module;
    else if (info->dlpi_addr == _r_debug.r_ldbase)
        sti_caller_system.loader = module;
    else if (sti_caller_in(&module, &sti_caller_system))
        is_module_ours = has_our_name(info->dlpi_name);
    return 0;
}

/* By its unwind table: a look into the symbols is a search of all that libc has. */
static struct sti_caller_module code_of(const void *function)
{
    uintptr_t begin;
    uintptr_t end;
    if (!sti_frame_function((uintptr_t)function, &begin, &end))
        return (struct sti_caller_module){ .size = 0 };
    return (struct sti_caller_module){ .begin = begin, .size = end - begin };
}

static int modules_by_address(const void *left, const void *right)
{
    const struct sti_caller_module *a = left;
    const struct sti_caller_module *b = right;
    return (a->begin > b->begin) - (a->begin < b->begin);
}

/* Below the first of those that have to be told from others, and where most lies between two of them. */
static void find_room_between(void)
{
    struct sti_caller_module modules[STI_KEPT_MODULES + 2] = { sti_caller_system.libc, sti_caller_system.loader };
    size_t count = 2 + sti_kept_modules(modules + 2);
    qsort(modules, count, sizeof modules[0], modules_by_address);
    sti_caller_system.below = modules[0].begin;
    sti_caller_system.between = sti_caller_system.between_end = UINTPTR_MAX;
    for (size_t i = 0; i + 1 < count; i++) {
        uintptr_t end = modules[i].begin + modules[i].size;
        if (modules[i + 1].begin - end <= sti_caller_system.between_end - sti_caller_system.between)
            continue;
        sti_caller_system.between = end;
        sti_caller_system.between_end = modules[i + 1].begin;
    }
}

void sti_caller_start(void)
{
    sti_libc_look();
    thread_atexit = code_of((const void *)(uintptr_t)register_destructor);
    find_kept_from_start();
    sti_modules_visit(module_classify, NULL);
    find_room_between();
    waiting = sti_caller_system;
}

static bool is_loader(const void *caller)
{
    return sti_caller_in(&waiting.loader, caller);
}

static bool is_of_openmp(const void *caller)
{
    const struct link_map *module = sti_caller_is_kept(caller) ? sti_module_of(caller) : NULL;
    return module != NULL && sti_caller_is_openmp(module->l_name);
}

bool sti_caller_ends_process(const void *caller)
{
    return is_loader(caller) || sti_caller_in(&thread_atexit, caller) || is_of_openmp(caller);
}

bool sti_caller_must_wait(const void *caller)
{
    if (sti_caller_is_kept(caller))
        return true;
    return sti_rule_is_on(STI_RULE_CALLER) && (sti_caller_in(&waiting.libc, caller) || is_loader(caller));
}

/* --- Which modules may be left. Any thread, signal handlers too. --- */

static bool is_meant(const struct name *name, const char *path)
{
    return name->is_pattern ? strncmp(basename(path), name->text, name->length) == 0
                            : sti_caller_is_named(path, name->text);
}

static bool name_is_on_list(names_list *list, const char *path)
{
    const struct name *name = atomic_load_explicit(list, memory_order_acquire);
    while (name != NULL && !is_meant(name, path))
        name = name->next;
    return name != NULL;
}

static bool is_protected(const char *path)
{
    const struct library *library = library_of(path);
    return (library != NULL && (library->ways & NEVER_LEFT) != 0) || is_kept(library) ||
           name_is_on_list(&protected_names, path);
}

/* length: without the '*' of a pattern. */
static int name_add(names_list *list, const char *text, size_t length, bool is_pattern)
{
    struct name *name = sti_process_lasting_malloc(sizeof *name + length + 1);
    if (name == NULL)
        return ENOMEM;
    name->length = length;
    name->is_pattern = is_pattern;
    memcpy(name->text, text, length);
    name->text[length] = '\0';
    name->next = atomic_load_explicit(list, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(list, &name->next, name, memory_order_release, memory_order_relaxed))
        ;
    return 0;
}

int stint_module_protect(const char *name)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    if (name == NULL || name[0] == '\0' || strpbrk(name, "/*") != NULL)
        return EINVAL;
    return is_protected(name) ? 0 : name_add(&protected_names, name, strlen(name), false);
}

static int module_allow(const char *text, size_t length)
{
    bool is_pattern = length > 0 && text[length - 1] == '*';
    size_t rest = is_pattern ? length - 1 : length;
    if (length == 0 || memchr(text, '/', length) != NULL || memchr(text, '*', rest) != NULL)
        return EINVAL;
    return name_add(&allowed_names, text, rest, is_pattern);
}

static int keep_no_more(struct dl_phdr_info *info, size_t size, void *name)
{
    (void)size;
    if (sti_caller_is_named(info->dlpi_name, name))
        sti_module_keep_no_more(sti_caller_module_at(info));
    return 0;
}

/* It says that it knows better than the list. */
static void overrule_list(const char *name)
{
    const struct library *library = library_of(name);
    if (library == NULL || (library->ways & NEVER_LEFT) != 0 || strcmp(library->name, name) != 0 ||
        name_is_on_list(&protected_names, name))
        return;
    if (atomic_exchange_explicit(&kept_from_start[library - libraries], false, memory_order_relaxed))
        sti_modules_visit(keep_no_more, (void *)(uintptr_t)name);
}

int stint_module_allow(const char *name)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    if (name == NULL)
        return EINVAL;
    overrule_list(name);
    return is_protected(name) ? EPERM : module_allow(name, strlen(name));
}

/* The program is the first that the loader lists. */
static unsigned ways_of(const struct link_map *module)
{
    const char *path = module->l_name;
    if (is_protected(path))
        return known_ways(path) & STI_LEFT_AT_END;
    if (module == _r_debug.r_map || name_is_on_list(&allowed_names, path))
        return STI_LEFT_ANYHOW;
    return known_ways(path);
}

static bool module_is_ours(const struct sti_caller_module *module)
{
    return sti_caller_in(module, &sti_caller_system) || is_part(module);
}

bool sti_module_may_be_left(uintptr_t instruction, unsigned ways, struct sti_caller_module *last)
{
    struct dl_find_object found;
    if (sti_caller_in(last, (const void *)instruction))
        return true;
    if (_dl_find_object((void *)instruction, &found) != 0)
        return false;
    const struct sti_caller_module module = extent_of(&found);
    if (!module_is_ours(&module) && (ways_of(found.dlfo_link_map) & ways) == 0)
        return false;
    *last = module;
    return true;
}

bool sti_caller_is_ours(uintptr_t instruction)
{
    const struct sti_caller_module module = sti_caller_module_of((const void *)instruction);
    return module_is_ours(&module);
}

bool sti_caller_is_this_module(const void *caller)
{
    const struct sti_caller_module own = sti_caller_module_of(&sti_caller_system);
    return sti_caller_in(&own, caller);
}

bool sti_caller_is_surely_ours(const void *caller)
{
    return is_module_ours && sti_caller_is_this_module(caller);
}
