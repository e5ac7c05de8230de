/* SPDX-License-Identifier: MIT
 *
 * The C++ runtimes of the process: finding them, their state of exceptions, and the caches of their locales; see
 * cxx.h. */
#include "cxx.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

#include "alloc/platform/caller.h"
#include "alloc/platform/callstack.h"
#include "alloc/platform/hooks.h"
#include "alloc/platform/link.h"
#include "alloc/platform/module.h"
#include "alloc/platform/process.h"
#include "alloc/platform/scope_state.h"
#include "alloc/platform/unwinder.h"

/* --- Finding the C++ runtimes. --- */

typedef struct sti_cxx_exceptions *records_fn(void);
typedef sti_terminate_fn *set_terminate_fn(sti_terminate_fn *);

/* That they are named here makes the linker let others see them in a program that brings a runtime of its own. */
extern const char linked_records[] __asm__("__cxa_get_globals") __attribute__((weak));
extern const char linked_end_catch[] __asm__("__cxa_end_catch") __attribute__((weak));
static const char *const linked[] __attribute__((used)) = { linked_records, linked_end_catch };

/* Entered from the beginning, and for ever: first its records; release and acquire, as what they call lies in a module
 * that another thread may have loaded. The rest, relaxed as nothing else depends on it, is 0 as long as it is not
 * known. */
static struct runtime {
    records_fn *_Atomic records;
    void *_Atomic personality;
    void *_Atomic allocate_exception;
    atomic_int calls_ours; /* UNKNOWN -> YES | NO: two threads at once find the same */
} runtimes[STI_CXX_RUNTIMES];
enum { UNKNOWN, YES, NO };
atomic_bool sti_cxx_has_runtime;
static atomic_ullong modules_seen; /* how many have been loaded when somebody looked last */

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
    if (look->modules == atomic_load_explicit(&modules_seen, memory_order_acquire))
        return 1;
    const struct sti_module module = sti_module_at(info);
    void *records = sti_module_symbol(module, "__cxa_get_globals");
    if (records != NULL && look->count < STI_CXX_RUNTIMES)
        *(void **)&look->found[look->count++] = records;
    return 0;
}

static struct sti_module module_of(records_fn *records)
{
    return sti_module_loaded(sti_module_of(*(void **)&records));
}

/* This library keeps pointers into it. */
static void keep_loaded(records_fn *records)
{
    const struct link_map *module = sti_module_of(*(void **)&records);
    if (module == NULL || module->l_name[0] == '\0')
        return;
    dlopen(module->l_name, RTLD_LAZY | RTLD_NOLOAD);
}

static void runtime_prepare(struct runtime *runtime, records_fn *records)
{
    keep_loaded(records);
    const struct sti_module module = module_of(records);
    set_terminate_fn *set;
    *(void **)&set = sti_module_symbol(module, "_ZSt13set_terminatePFvvE");
    if (set != NULL)
        sti_hooks.terminate_note(set(sti_hooks.terminated));
    atomic_store_explicit(&runtime->allocate_exception, sti_module_symbol(module, "__cxa_allocate_exception"),
                          memory_order_relaxed);
    atomic_store_explicit(&runtime->personality, sti_module_symbol(module, "__gxx_personality_v0"),
                          memory_order_relaxed);
}

/* Two threads may find the same one: it is entered once. The other goes on while that is prepared, so that there is one
 * at all is stored before. */
static void runtime_enter(records_fn *records)
{
    atomic_store_explicit(&sti_cxx_has_runtime, true, memory_order_relaxed);
    for (unsigned i = 0; i < STI_CXX_RUNTIMES; i++) {
        records_fn *there = NULL;
        if (atomic_compare_exchange_strong_explicit(&runtimes[i].records, &there, records, memory_order_release,
                                                    memory_order_acquire)) {
            runtime_prepare(&runtimes[i], records);
            return;
        }
        if (there == records)
            return;
    }
}

void sti_cxx_look(void)
{
    struct look look = { .count = 0 };
    dl_iterate_phdr(look_at_module, &look);
    for (unsigned i = 0; i < look.count; i++)
        runtime_enter(look.found[i]);
    atomic_store_explicit(&modules_seen, look.modules, memory_order_release);
}

bool sti_cxx_allocates_exception(const void *caller)
{
    if (!atomic_load_explicit(&sti_cxx_has_runtime, memory_order_relaxed))
        return false;
    uintptr_t begin;
    uintptr_t end;
    unsigned i = sti_frame_function((uintptr_t)caller - 1, &begin, &end) ? 0 : STI_CXX_RUNTIMES;
    while (i < STI_CXX_RUNTIMES &&
           begin != (uintptr_t)atomic_load_explicit(&runtimes[i].allocate_exception, memory_order_relaxed))
        i++;
    return i < STI_CXX_RUNTIMES;
}

/* --- Personalities ------------------------------------------------------------------------------------------------ */

extern const char of_cxx[] __asm__("__gxx_personality_v0") __attribute__((weak));

/* In a program that is linked at a fixed place the address of a function of a library's is that of a jump to it. */
static bool is_jump(const char *function, const char *name)
{
    const struct link_map *module = sti_module_of(function);
    return function != NULL && module != NULL && !sti_module_defines(module, name);
}

/* What a runtime does with a frame that an unwind comes to, it does by its unwinder's functions, and maybe by
 * std::terminate: a shared one has the loader look for those, which finds the unwinder that is at work, and our
 * std::terminate; one that is linked into a program or a module has its own. Some 0.1 ms, once. */
static bool calls_ours(struct runtime *runtime)
{
    int answer = atomic_load_explicit(&runtime->calls_ours, memory_order_relaxed);
    if (answer == UNKNOWN) {
        const struct sti_module module = module_of(atomic_load_explicit(&runtime->records, memory_order_relaxed));
        bool does = sti_module_imports(module, "_ZSt9terminatev") && sti_module_imports(module, "_Unwind_SetGR") &&
                    sti_link_has_terminate();
        answer = does ? YES : NO;
        atomic_store_explicit(&runtime->calls_ours, answer, memory_order_relaxed);
    }
    return answer == YES;
}

bool sti_cxx_may_be_asked(uintptr_t personality)
{
    if (personality == 0)
        return false;
    for (unsigned i = 0; i < STI_CXX_RUNTIMES; i++) {
        if (personality == (uintptr_t)atomic_load_explicit(&runtimes[i].personality, memory_order_relaxed))
            return calls_ours(&runtimes[i]);
    }
    return sti_unwinder_is_of_c(personality) ||
           (personality == (uintptr_t)of_cxx && is_jump(of_cxx, "__gxx_personality_v0"));
}

/* --- Records ------------------------------------------------------------------------------------------------------ */

/* Of the first runtimes; NULL: there are no more. */
static inline struct sti_cxx_exceptions *runtime_record(unsigned i, unsigned count)
{
    records_fn *records = i < count ? atomic_load_explicit(&runtimes[i].records, memory_order_acquire) : NULL;
    return records != NULL ? records() : NULL;
}

#define FOR_EACH_RECORD(i, exceptions, count)                                                                          \
    for (unsigned i = 0; i < STI_CXX_RUNTIMES && (exceptions = runtime_record(i, count)) != NULL; i++)

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

bool sti_cxx_is_throwing(const struct sti_cxx_state *since, unsigned ours)
{
    struct sti_cxx_exceptions *exceptions;
    bool any = false;
    FOR_EACH_RECORD(i, exceptions, since->count)
    any = any || exceptions->uncaught > since->of[i].uncaught + ours;
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

/* The runtime's part of an exception lies in front of the unwinder's; of one that is no runtime's there is none, but
 * the runtime keeps a pointer to where it would be. */
#define PART_OF_RUNTIME ((uintptr_t)256)

static bool is_other_s(const void *caught, const struct _Unwind_Exception *other)
{
    return (uintptr_t)other - (uintptr_t)caught <= PART_OF_RUNTIME;
}

void sti_cxx_end_caught(const struct sti_cxx_state *since, const struct _Unwind_Exception *ours)
{
    struct sti_cxx_exceptions *exceptions;
    FOR_EACH_RECORD(i, exceptions, since->count)
    {
        const void *before = ours != NULL ? NULL : since->of[i].caught;
        void (*end)(void);
        records_fn *records = atomic_load_explicit(&runtimes[i].records, memory_order_relaxed);
        *(void **)&end = sti_module_symbol(module_of(records), "__cxa_end_catch");
        while (end != NULL && exceptions->caught != before && !is_other_s(exceptions->caught, ours))
            end();
    }
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
        sti_modules_visit(look_for_function, &wanted);
    }
    return wanted.function;
}

/* --- The caches of locales. Any thread. A locale that is 0 marks a free record; whoever takes it writes the facet, and
 * the thread whose task made that reads it. Another one reads what it makes nothing of. --- */

static struct cache {
    struct cache *next;
    _Atomic(const void *) locale;
    _Atomic(const void *) facet;
} * _Atomic caches;

/* release, acquire: whoever finds a record finds the next, and whoever takes a free one writes behind whoever freed
 * it. */
static struct cache *take_record(const void *locale)
{
    struct cache *first = atomic_load_explicit(&caches, memory_order_acquire);
    for (struct cache *cache = first; cache != NULL; cache = cache->next) {
        const void *nobody = NULL;
        if (atomic_compare_exchange_strong_explicit(&cache->locale, &nobody, locale, memory_order_acquire,
                                                    memory_order_relaxed))
            return cache;
    }
    struct cache *made = sti_process_lasting_calloc(1, sizeof *made);
    if (made == NULL)
        return NULL;
    atomic_store_explicit(&made->locale, locale, memory_order_relaxed);
    made->next = first;
    while (
        !atomic_compare_exchange_weak_explicit(&caches, &made->next, made, memory_order_release, memory_order_relaxed))
        ;
    return made;
}

bool sti_cxx_cache_note(const void *locale, const void *facet)
{
    struct cache *cache = take_record(locale);
    if (cache != NULL)
        atomic_store_explicit(&cache->facet, facet, memory_order_relaxed);
    return cache != NULL;
}

void sti_cxx_caches_forget(const void *locale)
{
    for (struct cache *cache = atomic_load_explicit(&caches, memory_order_acquire); cache != NULL;
         cache = cache->next) {
        if (atomic_load_explicit(&cache->locale, memory_order_relaxed) != locale)
            continue;
        atomic_store_explicit(&cache->facet, NULL, memory_order_relaxed);
        atomic_store_explicit(&cache->locale, NULL, memory_order_release);
    }
}

void sti_cxx_caches_visit(sti_cxx_cache_fn *visit, void *arg)
{
    for (struct cache *cache = atomic_load_explicit(&caches, memory_order_acquire); cache != NULL; cache = cache->next)
        visit(atomic_load_explicit(&cache->locale, memory_order_relaxed),
              atomic_load_explicit(&cache->facet, memory_order_relaxed), arg);
}
