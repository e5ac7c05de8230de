/* SPDX-License-Identifier: MIT
 *
 * Finding the C++ runtimes; see cxx.h. */
#include "cxx.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <stint/interrupt.h>
#include <string.h>

#include "boundary.h"
#include "caller.h"
#include "cxx_caches.h"
#include "module_symbol.h"
#include "quiet.h"
#include "scope_state.h"
#include "thread.h"

typedef struct sti_cxx_exceptions *records_fn(void);

/* That they are named here makes the linker let others see them in a program that brings a runtime of its own. */
extern const char linked_records[] __asm__("__cxa_get_globals") __attribute__((weak));
extern const char linked_allocate[] __asm__("__cxa_allocate_exception") __attribute__((weak));
extern const char linked_throw[] __asm__("__cxa_throw") __attribute__((weak));
extern const char linked_set_terminate[] __asm__("_ZSt13set_terminatePFvvE") __attribute__((weak));
static const char *const linked[] __attribute__((used)) = { linked_records, linked_allocate, linked_throw,
                                                            linked_set_terminate };

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

/* With -static-libgcc a runtime has an unwinder of its own, some of whose functions work only when it has been at work
 * once; our forced unwind, by another one, would be the first to call them. So one exception is thrown. */
struct thrower {
    void *(*allocate)(size_t size);
    void (*throw)(void *object, const void *type, void (*destroy)(void *object));
};

static int throw_something(void *thrower, void *unused, void *unused_too)
{
    const struct thrower *runtime = thrower;
    (void)unused;
    (void)unused_too;
    runtime->throw(runtime->allocate(sizeof(int)), NULL, NULL); /* nobody asks for its type */
    return 0;
}

static void warm_up(records_fn *records)
{
    const struct sti_module module = sti_module_loaded(sti_module_of(*(void **)&records));
    struct thrower runtime;
    *(void **)&runtime.allocate = sti_module_symbol(module, "__cxa_allocate_exception");
    *(void **)&runtime.throw = sti_module_symbol(module, "__cxa_throw");
    if (runtime.allocate == NULL || runtime.throw == NULL)
        return;
    struct sti_cxx_exceptions *exceptions = records();
    const struct sti_cxx_exceptions before = *exceptions;
    struct sti_thrown thrown = { .exception = NULL };
    stint_mask();
    sti_boundary_call(&runtime, NULL, NULL, throw_something, &thrown);
    *exceptions = before;
    sti_boundary_drop(&thrown);
    if (sti_thread_metered != NULL)
        sti_thread_metered->scope->masks--; /* and no sample point */
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
        sti_quiet_enter();
        dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
        sti_quiet_leave();
    }
    const struct sti_module tables = sti_module_loaded(module.dlfo_link_map);
    uintptr_t begin = (uintptr_t)module.dlfo_map_start;
    const struct sti_caller_module code = { .begin = begin, .size = (uintptr_t)module.dlfo_map_end - begin };
    sti_cxx_caches_learn(tables, path, code);
    if (!is_shared(path)) {
        warm_up(records);
        hear_of_terminations(records, runtime);
    }
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
    sti_quiet_enter();
    dl_iterate_phdr(look_at_module, &look);
    sti_quiet_leave();
    bool any = false;
    for (unsigned i = 0; i < look.count; i++)
        any = enter(look.found[i]) || any;
    atomic_store_explicit(&modules_seen, look.modules, memory_order_relaxed);
    return any;
}

__attribute__((constructor)) static void find_linked(void)
{
    sti_cxx_look();
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

unsigned sti_cxx_catch(const struct sti_cxx_state *since)
{
    struct sti_cxx_exceptions *exceptions;
    unsigned thrower = STI_CXX_RUNTIMES;
    FOR_EACH_RECORD(i, exceptions, since->count)
    {
        if (exceptions->uncaught > since->of[i].uncaught)
            thrower = i;
        exceptions->uncaught = since->of[i].uncaught;
    }
    return thrower;
}

void sti_cxx_throw(unsigned runtime)
{
    struct sti_cxx_exceptions *exceptions = record(runtime, STI_CXX_RUNTIMES);
    if (exceptions != NULL)
        exceptions->uncaught++;
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
        sti_quiet_enter();
        dl_iterate_phdr(look_for_function, &wanted);
        sti_quiet_leave();
    }
    return wanted.function;
}
