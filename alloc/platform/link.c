/* SPDX-License-Identifier: MIT
 *
 * How the program is linked; see link.h. Any thread; two at once find the same.
 *
 * The loader is asked for each name as it is when it binds the program's own references, and then whose module the
 * address lies in. What has been replaced behind the loader's back, as valgrind does, shows in what malloc returns. */
#include "link.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <stint/stint.h>
#include <string.h>

#include "assumption.h"
#include "backend.h"
#include "module.h"
#include "process.h"
#include "sized.h"
#include "thread.h"

atomic_bool sti_link_is_good;
static atomic_bool is_settled;

/* Where a program that is linked at a fixed place takes a function's address, that is one of a jump in the program: it
 * is found there, but not defined. Those modules that were loaded with the program are listed in the order of the
 * search. */
static const struct link_map *symbol_definer(const char *symbol)
{
    const void *address = dlsym(RTLD_DEFAULT, symbol);
    const struct link_map *module = sti_module_of(address);
    while (module != NULL && !sti_module_defines(module, symbol))
        module = module->l_next;
    return module;
}

static const struct link_map *own_module(void)
{
    return sti_module_of(&sti_link_is_good);
}

bool sti_link_has_terminate(void)
{
    return symbol_definer("_ZSt9terminatev") == own_module() &&
           symbol_definer("_ZSt13set_terminatePFvvE") == own_module();
}

/* Found once, as nothing comes in front of it later; only an unwinder that could not be loaded is looked for again:
 *
 *   UNKNOWN -> YES | NO (relaxed: two threads at once find the same) */
bool sti_link_unwinds(void)
{
    enum { UNKNOWN, YES, NO };
    static atomic_int known;
    int answer = atomic_load_explicit(&known, memory_order_relaxed);
    if (answer == UNKNOWN) {
        answer = sti_link_has_terminate() ? YES : NO;
        if (answer == YES && !sti_assumptions_before_unwinding())
            return false;
        if (sti_assumption_fails(STI_ASSUMED_UNWINDER))
            answer = NO;
        atomic_store_explicit(&known, answer, memory_order_relaxed);
    }
    return answer == YES;
}

#if STI_OVERRIDES

/* In the order in which they are reported. */
static const struct {
    const char *symbol;
    const char *name;
    bool is_lock;
} functions[] = {
    { "malloc", "malloc", false },
    { "free", "free", false },
    { "calloc", "calloc", false },
    { "realloc", "realloc", false },
    { "posix_memalign", "posix_memalign", false },
    { "aligned_alloc", "aligned_alloc", false },
    { "_Znwm", "operator new", false },
    { "_ZdlPv", "operator delete", false },
    { "mmap", "mmap", false },
    { "munmap", "munmap", false },
    { "pthread_mutex_lock", "pthread_mutex_lock", true },
    { "pthread_mutex_unlock", "pthread_mutex_unlock", true },
};

static atomic_bool malloc_is_another_s;
static atomic_bool has_looked;

static const char *valgrind_module(const struct link_map *module)
{
    while (module != NULL && module->l_prev != NULL)
        module = module->l_prev;
    while (module != NULL && strstr(module->l_name, "/vgpreload_") == NULL)
        module = module->l_next;
    return module != NULL ? module->l_name : NULL;
}

/* Called through the tables of the loader, as any module calls it; in no scope, whose block it would be. */
static bool malloc_makes_our_blocks(void)
{
    struct sti_thread *counted = sti_thread_counted;
    sti_thread_counted = NULL;
    void *volatile block = malloc(1);
    bool ours = block == NULL || sti_backend_has_made(block);
    free(block);
    sti_thread_counted = counted;
    return ours;
}

static stint_link_report link_look(void)
{
    stint_link_report report = { .size = sizeof report, .metered = true, .locked = true };
    const struct link_map *own = own_module();
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        const struct link_map *module = symbol_definer(functions[i].symbol);
        if (module == own)
            continue;
        *(functions[i].is_lock ? &report.locked : &report.metered) = false;
        if (report.function == NULL) {
            report.function = functions[i].name;
            report.module = module != NULL ? module->l_name : NULL;
        }
    }
    if (report.metered && !malloc_makes_our_blocks()) {
        report.metered = false;
        report.function = functions[0].name;
        report.module = valgrind_module(own);
    }
    atomic_store_explicit(&malloc_is_another_s, report.function == functions[0].name, memory_order_relaxed);
    atomic_store_explicit(&has_looked, true, memory_order_release);
    return report;
}

bool sti_link_has_malloc(void)
{
    if (__builtin_expect(!atomic_load_explicit(&has_looked, memory_order_acquire), 0))
        link_look();
    return !atomic_load_explicit(&malloc_is_another_s, memory_order_relaxed);
}

#else

static stint_link_report link_look(void)
{
    return (stint_link_report)STINT_LINK_REPORT_INIT;
}

#endif

static bool is_good(const stint_link_report *report)
{
    return !STI_OVERRIDES || (report->metered && report->locked);
}

__attribute__((cold)) bool sti_link_allows_uncommon(unsigned flags)
{
    if (!atomic_load_explicit(&is_settled, memory_order_acquire)) {
        stint_link_report report = link_look();
        atomic_store_explicit(&sti_link_is_good, is_good(&report), memory_order_relaxed);
        atomic_store_explicit(&is_settled, true, memory_order_release);
    }
    return atomic_load_explicit(&sti_link_is_good, memory_order_relaxed) || (flags & STINT_ALLOW_UNMETERED) != 0;
}

#define DIGITS_PER_MAJOR 10000 /* 30601 is 3.6.1 */

#define OTHER_BACKEND "all tasks: the mimalloc that runs is not the one that this library was compiled for\n"

static bool is_known_backend(void)
{
    int running = sti_backend_version();
    return running >= MI_MALLOC_VERSION && running / DIGITS_PER_MAJOR == MI_MALLOC_VERSION / DIGITS_PER_MAJOR;
}

int stint_link_check(stint_link_report *report)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    if (report == NULL)
        return EINVAL;
    stint_link_report found = link_look();
    found.unwinds = sti_link_unwinds();
    found.off = is_known_backend() ? sti_assumptions_describe() : OTHER_BACKEND;
    int error = sti_sized_out(report, STI_SIZED_UP_TO(stint_link_report, off), &found, sizeof found);
    if (error != 0)
        return error;
    return is_good(&found) && sti_backend_check() == 0 ? 0 : ENOTSUP;
}

/* --- Which stint this is, and which mimalloc is behind it. Any thread. --- */

const char *stint_version(void)
{
    return STINT_VERSION;
}

int stint_backend_version(void)
{
    return sti_backend_version();
}

int sti_backend_check(void)
{
    if (!is_known_backend())
        return ENOTSUP;
    sti_assumptions_before_use();
    return sti_assumption_fails(STI_ASSUMED_HEAPS) || sti_assumption_fails(STI_ASSUMED_SIZES) ? ENOTSUP : 0;
}

bool stint_malloc_is_overridden(void)
{
    return STI_OVERRIDES && sti_link_has_malloc();
}
