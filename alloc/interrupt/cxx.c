/* SPDX-License-Identifier: MIT
 *
 * The C++ runtimes of the process: finding them, their state of exceptions, and which of their functions allocate for
 * themselves; see cxx.h. */
#include "cxx.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <stint/interrupt.h>
#include <string.h>

#include "alloc/base/caller.h"
#include "alloc/base/module.h"
#include "alloc/base/process.h"
#include "alloc/base/scope_state.h"
#include "alloc/base/thread.h"
#include "unwind.h"

/* --- Finding the C++ runtimes. --- */

typedef struct sti_cxx_exceptions *records_fn(void);

/* That they are named here makes the linker let others see them in a program that brings a runtime of its own. */
extern const char linked_records[] __asm__("__cxa_get_globals") __attribute__((weak));
extern const char linked_allocate[] __asm__("__cxa_allocate_exception") __attribute__((weak));
extern const char linked_begin_catch[] __asm__("__cxa_begin_catch") __attribute__((weak));
extern const char linked_throw[] __asm__("__cxa_throw") __attribute__((weak));
extern const char linked_set_terminate[] __asm__("_ZSt13set_terminatePFvvE") __attribute__((weak));
static const char *const linked[]
    __attribute__((used)) = { linked_records, linked_allocate, linked_begin_catch, linked_throw, linked_set_terminate };

/* Entered from the beginning, and for ever. */
static records_fn *_Atomic runtimes[STI_CXX_RUNTIMES];
atomic_bool sti_cxx_has_runtime;
static atomic_ullong modules_seen; /* how many have been loaded when somebody looked last */

/* --- Looking ------------------------------------------------------------------------------------------------------ */

struct look {
    records_fn *found[STI_CXX_RUNTIMES];
    unsigned count;
    unsigned long long modules;
};

static int look_at_module(struct dl_phdr_info *info, size_t size, void *argument)
{
    struct look *look = argument;
    (void)size;
    look->modules = info->dlpi_adds;
    if (look->modules == atomic_load_explicit(&modules_seen, memory_order_relaxed))
        return 1;
    const struct sti_module module = sti_module_at(info);
    void *records = sti_module_symbol(module, "__cxa_get_globals");
    if (records != NULL && look->count < STI_CXX_RUNTIMES)
        *(void **)&look->found[look->count++] = records;
    return 0;
}

/* Its calls of std::terminate do not come to our override. */
typedef void terminate_fn(void);
static terminate_fn *_Atomic terminate_before[STI_CXX_RUNTIMES];

static void land_or_terminate(unsigned runtime)
{
    sti_unwind_instead_of_terminating(NULL);
    terminate_fn *before = atomic_load_explicit(&terminate_before[runtime], memory_order_relaxed);
    if (before != NULL)
        before();
    abort();
}

#define TERMINATE_OF(number)                                                                                           \
    static void terminate_##number(void)                                                                               \
    {                                                                                                                  \
        land_or_terminate(number);                                                                                     \
    }
TERMINATE_OF(0)
TERMINATE_OF(1)
TERMINATE_OF(2)
TERMINATE_OF(3)

static void hear_of_terminations(records_fn *records, unsigned runtime)
{
    static terminate_fn *const ours[STI_CXX_RUNTIMES] = { terminate_0, terminate_1, terminate_2, terminate_3 };
    const struct sti_module module = sti_module_loaded(sti_module_of(*(void **)&records));
    terminate_fn *(*set)(terminate_fn *);
    *(void **)&set = sti_module_symbol(module, "_ZSt13set_terminatePFvvE");
    if (set != NULL)
        atomic_store_explicit(&terminate_before[runtime], set(ours[runtime]), memory_order_relaxed);
}

static bool is_shared(const char *path)
{
    return strstr(path, "/libstdc++.so") != NULL || strstr(path, "/libc++abi.so") != NULL;
}

/* Somebody keeps a pointer into it: it stays loaded. */
static void prepare(records_fn *records, unsigned runtime)
{
    struct dl_find_object module;
    if (_dl_find_object(*(void **)&records, &module) != 0)
        return;
    const char *path = module.dlfo_link_map->l_name;
    if (path[0] != '\0') {
        dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    }
    const struct sti_module tables = sti_module_loaded(module.dlfo_link_map);
    uintptr_t begin = (uintptr_t)module.dlfo_map_start;
    const struct sti_caller_module code = { .begin = begin, .size = (uintptr_t)module.dlfo_map_end - begin };
    sti_cxx_caches_learn(tables, path, code);
    if (!is_shared(path))
        hear_of_terminations(records, runtime);
}

/* Two threads may find the same one: it is entered once. */
static bool enter(records_fn *records)
{
    for (unsigned i = 0; i < STI_CXX_RUNTIMES; i++) {
        records_fn *there = NULL;
        if (atomic_compare_exchange_strong_explicit(&runtimes[i], &there, records, memory_order_relaxed,
                                                    memory_order_relaxed)) {
            prepare(records, i);
            atomic_store_explicit(&sti_cxx_has_runtime, true, memory_order_relaxed);
            return true;
        }
        if (there == records)
            return false;
    }
    return false;
}

bool sti_cxx_look(void)
{
    struct look look = { .count = 0 };
    dl_iterate_phdr(look_at_module, &look);
    bool any = false;
    for (unsigned i = 0; i < look.count; i++)
        any = enter(look.found[i]) || any;
    atomic_store_explicit(&modules_seen, look.modules, memory_order_relaxed);
    return any;
}

/* --- Records ------------------------------------------------------------------------------------------------------ */

/* Of the first runtimes; NULL: there are no more. */
static inline struct sti_cxx_exceptions *record(unsigned i, unsigned count)
{
    records_fn *records = i < count ? atomic_load_explicit(&runtimes[i], memory_order_relaxed) : NULL;
    return records != NULL ? records() : NULL;
}

#define FOR_EACH_RECORD(i, exceptions, count)                                                                          \
    for (unsigned i = 0; i < STI_CXX_RUNTIMES && (exceptions = record(i, count)) != NULL; i++)

void sti_cxx_note_all(struct sti_cxx_state *state)
{
    struct sti_cxx_exceptions *exceptions;
    FOR_EACH_RECORD(i, exceptions, STI_CXX_RUNTIMES)
    {
        state->of[i] = *exceptions;
        state->count = i + 1;
    }
}

void sti_cxx_extend(struct sti_cxx_state *state)
{
    struct sti_cxx_exceptions *exceptions;
    FOR_EACH_RECORD(i, exceptions, STI_CXX_RUNTIMES)
    {
        if (i >= state->count)
            state->of[state->count++] = (struct sti_cxx_exceptions){ .caught = NULL };
    }
}

bool sti_cxx_is_throwing(const struct sti_cxx_state *since)
{
    struct sti_cxx_exceptions *exceptions;
    bool any = false;
    FOR_EACH_RECORD(i, exceptions, since->count)
    any = any || exceptions->uncaught > since->of[i].uncaught;
    return any;
}

bool sti_cxx_is_catching(const struct sti_cxx_state *since)
{
    struct sti_cxx_exceptions *exceptions;
    bool any = false;
    FOR_EACH_RECORD(i, exceptions, since->count)
    any = any || exceptions->caught != since->of[i].caught;
    return any;
}

bool sti_cxx_catches_any(void)
{
    struct sti_cxx_exceptions *exceptions;
    bool any = false;
    FOR_EACH_RECORD(i, exceptions, STI_CXX_RUNTIMES)
    any = any || exceptions->caught != NULL;
    return any;
}

void sti_cxx_restore(const struct sti_cxx_state *state)
{
    struct sti_cxx_exceptions *exceptions;
    FOR_EACH_RECORD(i, exceptions, state->count)
    *exceptions = state->of[i];
}

void sti_cxx_forget_caught(void)
{
    struct sti_cxx_exceptions *exceptions;
    FOR_EACH_RECORD(i, exceptions, STI_CXX_RUNTIMES)
    exceptions->caught = NULL;
}

void sti_cxx_set_uncaught(const struct sti_cxx_state *state, unsigned more)
{
    struct sti_cxx_exceptions *exceptions;
    FOR_EACH_RECORD(i, exceptions, state->count)
    exceptions->uncaught = state->of[i].uncaught + more;
}

void sti_cxx_keep_caught(const struct sti_cxx_state *state)
{
    struct sti_cxx_exceptions *exceptions;
    FOR_EACH_RECORD(i, exceptions, state->count)
    {
        exceptions->caught = state->of[i].caught;
        exceptions->uncaught--;
    }
}

/* --- Functions ---------------------------------------------------------------------------------------------------- */

struct wanted {
    const char *name;
    void *function;
};

static int look_for_function(struct dl_phdr_info *info, size_t size, void *argument)
{
    struct wanted *wanted = argument;
    (void)size;
    const struct sti_module module = sti_module_at(info);
    if (!sti_caller_module_is_ours(info))
        wanted->function = sti_module_symbol(module, wanted->name);
    return wanted->function != NULL;
}

void *sti_cxx_function(const char *name, const void *caller)
{
    struct wanted wanted = { .name = name };
    if (!sti_caller_is_this_module(caller)) {
        const struct sti_module module = sti_module_loaded(sti_module_of(caller));
        wanted.function = sti_module_symbol(module, name);
    }
    if (wanted.function == NULL) {
        dl_iterate_phdr(look_for_function, &wanted);
    }
    return wanted.function;
}

/* --- Learning which functions of libstdc++ allocate for itself.
 *
 * By their names in its table of symbols. Helpers without a name there have been inlined into these, or lie beside
 * them. */

#define HELPER 4096 /* bytes it has at most */

static const struct sti_cxx_code unknown;
_Atomic(const struct sti_cxx_code *) sti_cxx_code = &unknown;

/* Mangled, behind std:: or std::__cxx11::, those of locales and of what fills a facet's cache at its first use; and of
 * the free lists of __gnu_cxx's allocators. */
static const char *const of_std[] = {
    "6locale",
    "7num_putI",
    "7num_getI",
    "9money_putI",
    "9money_getI",
    "8time_putI",
    "8time_getI",
    "8numpunctI",
    "10moneypunctI",
    "11__timepunctI",
    "16__numpunct_cacheI",
    "18__moneypunct_cacheI",
    "17__timepunct_cacheI",
    "8messagesI",
};
static const char *const of_gnu[] = { "6__poolI", "17__pool_alloc_base" };

/* What follows the prefix; NULL: it is none. */
static const char *behind(const char *name, const char *prefix)
{
    size_t length = strlen(prefix);
    return strncmp(name, prefix, length) == 0 ? name + length : NULL;
}

static bool begins_with_any(const char *name, const char *const *beginnings, size_t count)
{
    size_t i = 0;
    while (i < count && behind(name, beginnings[i]) == NULL)
        i++;
    return i < count;
}

static bool is_for_itself(const char *name)
{
    const char *member = behind(name, "_ZN");
    if (member == NULL)
        return false;
    if (*member == 'K')
        member++;
    const char *of = behind(member, "9__gnu_cxx");
    if (of != NULL)
        return begins_with_any(of, of_gnu, sizeof of_gnu / sizeof *of_gnu);
    if ((member = behind(member, "St")) == NULL)
        return false;
    of = behind(member, "7__cxx11");
    return begins_with_any(of != NULL ? of : member, of_std, sizeof of_std / sizeof *of_std);
}

struct learnt {
    struct sti_caller_module module;
    uint64_t *named; /* code of functions with a name */
    uint64_t *caches;
};

static void set(uint64_t *bits, uintptr_t offset)
{
    bits[offset / 1024] |= UINT64_C(1) << offset / 16 % 64;
}

static bool is_set(const uint64_t *bits, uintptr_t offset)
{
    return (bits[offset / 1024] >> offset / 16 % 64 & 1) != 0;
}

static void note_named(const char *name, const void *begin, size_t size, void *argument)
{
    const struct learnt *learnt = argument;
    uintptr_t first = (uintptr_t)begin - learnt->module.begin;
    (void)name;
    for (uintptr_t offset = first; offset < first + size && offset < learnt->module.size; offset += 16)
        set(learnt->named, offset);
}

/* With the code before and behind it that has no name: helpers. */
static void learn_function(const char *name, const void *begin, size_t size, void *argument)
{
    const struct learnt *learnt = argument;
    if (!is_for_itself(name))
        return;
    uintptr_t first = (uintptr_t)begin - learnt->module.begin;
    uintptr_t end = first + size;
    for (uintptr_t offset = first; offset < learnt->module.size; offset += 16) {
        if (offset >= end && (offset >= end + HELPER || is_set(learnt->named, offset)))
            break;
        set(learnt->caches, offset);
    }
    for (uintptr_t offset = first; offset >= 16 && offset + HELPER > first; offset -= 16) {
        if (is_set(learnt->named, offset - 16))
            break;
        set(learnt->caches, offset - 16);
    }
}

void sti_cxx_caches_learn(struct sti_module module, const char *path, struct sti_caller_module code)
{
    const char *slash = strrchr(path, '/');
    if (slash == NULL || strncmp(slash, "/libstdc++.so", 13) != 0 ||
        atomic_load_explicit(&sti_cxx_code, memory_order_relaxed) != &unknown)
        return;
    struct sti_cxx_code *made = sti_process_lasting_malloc(sizeof *made);
    uint64_t *caches = sti_process_lasting_calloc(code.size / 1024 + 1, sizeof *caches);
    uint64_t *named = sti_process_lasting_calloc(code.size / 1024 + 1, sizeof *named);
    if (made == NULL || caches == NULL || named == NULL) {
        sti_process_free(made);
        sti_process_free(caches);
        sti_process_free(named);
        return;
    }
    struct learnt learnt = { .module = code, .named = named, .caches = caches };
    sti_module_visit_functions(module, note_named, &learnt);
    sti_module_visit_functions(module, learn_function, &learnt);
    sti_process_free(named);
    *made = (struct sti_cxx_code){ .module = code, .caches = caches };
    const struct sti_cxx_code *before = &unknown;
    if (!atomic_compare_exchange_strong_explicit(&sti_cxx_code, &before, made, memory_order_release,
                                                 memory_order_relaxed)) {
        sti_process_free(made);
        sti_process_free(caches);
    }
}
