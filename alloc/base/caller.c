/* SPDX-License-Identifier: MIT
 *
 * Return addresses; see caller.h. Any thread.
 *
 * Where libc and the loader lie is found once, when the library is loaded. Any other address is asked of the loader's
 * own index (_dl_find_object, glibc 2.35), which takes no lock and is true through every dlopen and dlclose. */
#include "caller.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <stint/interrupt.h>
#include <string.h>
#include <unwind.h>

#include "assumption.h"
#include "backend.h"
#include "callstack.h"
#include "generated.h"
#include "lasting.h"
#include "module.h"
#include "process.h"
#include "thread_init.h"

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

bool sti_caller_module_is_only_ours(const struct dl_phdr_info *info)
{
    struct sti_caller_module module = sti_caller_module_at(info);
    return is_part(&module) ||
           (sti_caller_module_is_ours(info) && (sti_caller_is_named(info->dlpi_name, "libstint", 8) ||
                                                sti_caller_is_named(info->dlpi_name, "libmimalloc", 11)));
}

/* Names of protected modules: a file name is meant when it continues with '.' or '-' or ends there. The list only
 * grows; release publishes an entry, acquire finds it whole. */
struct protected_name {
    const struct protected_name *next;
    size_t length;
    const char *name;
};

#define BUILT_IN(module, following)                                                                                    \
    {                                                                                                                  \
        (following), sizeof(module) - 1, (module)                                                                      \
    }
static const struct protected_name built_in[] = {
    BUILT_IN("libc", &built_in[1]),
    BUILT_IN("ld-linux", &built_in[2]),
    BUILT_IN("libstdc++", &built_in[3]),
    BUILT_IN("libgcc_s", &built_in[4]),
    BUILT_IN("libc++", &built_in[5]),
    BUILT_IN("libc++abi", &built_in[6]),
    BUILT_IN("libmimalloc", &built_in[7]),
    BUILT_IN("libunwind", &built_in[8]),
    BUILT_IN("linux-vdso", &built_in[9]),
    BUILT_IN("libck", &built_in[10]), /* what this library does in it is half done */
    BUILT_IN("libgomp", &built_in[11]),
    BUILT_IN("libomp", &built_in[12]),
    BUILT_IN("libomp5", &built_in[13]),
    BUILT_IN("libiomp5", NULL),
};
#define OPENMP 10 /* the first of OpenMP's */
static _Atomic(const struct protected_name *) protected_names = built_in;

bool sti_caller_is_named(const char *path, const char *name, size_t length)
{
    const char *slash = strrchr(path, '/');
    const char *file = slash != NULL ? slash + 1 : path;
    if (strncmp(file, name, length) != 0)
        return false;
    char after = file[length];
    return after == '\0' || after == '.' || after == '-';
}

bool sti_caller_is_openmp(const char *path)
{
    const struct protected_name *entry = &built_in[OPENMP];
    while (entry != NULL && !sti_caller_is_named(path, entry->name, entry->length))
        entry = entry->next;
    return entry != NULL;
}

static bool is_module_ours; /* the one that this library is in is nothing else */

static int classify(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size;
    (void)unused;
    struct sti_caller_module module = sti_caller_module_at(info);
    if (sti_caller_is_openmp(info->dlpi_name))
        sti_module_keep_at_start(module);
    /* A function that can be nobody's but libc's; and what the loader says of itself: clang's sanitizers have functions
     * of the loader's names in the program. */
    if (sti_caller_in(&module, (const void *)(uintptr_t)abs))
        sti_caller_system.libc = module;
    else if (info->dlpi_addr == _r_debug.r_ldbase)
        sti_caller_system.loader = module;
    else if (sti_caller_in(&module, &sti_caller_system))
        is_module_ours = sti_caller_module_is_only_ours(info);
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

static int by_address(const void *left, const void *right)
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
    qsort(modules, count, sizeof modules[0], by_address);
    sti_caller_system.below = modules[0].begin;
    for (size_t i = 0; i + 1 < count; i++) {
        uintptr_t end = modules[i].begin + modules[i].size;
        if (modules[i + 1].begin - end > sti_caller_system.between.size)
            sti_caller_system.between = (struct sti_caller_module){ .begin = end, .size = modules[i + 1].begin - end };
    }
}

void sti_caller_start(void)
{
    thread_atexit = code_of((const void *)(uintptr_t)register_destructor);
    dl_iterate_phdr(classify, NULL);
    find_room_between();
    waiting = sti_caller_system;
}

static bool is_loader(const void *caller)
{
    return sti_caller_in(&waiting.loader, caller);
}

static bool is_of_openmp(const void *caller)
{
    struct dl_find_object found;
    return sti_caller_is_kept(caller) && _dl_find_object((void *)(uintptr_t)caller, &found) == 0 &&
           sti_caller_is_openmp(found.dlfo_link_map->l_name);
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

static bool is_of_cxx(const char *path)
{
    return sti_caller_is_named(path, "libstdc++", 9) || sti_caller_is_named(path, "libc++", 6) ||
           sti_caller_is_named(path, "libc++abi", 9) || sti_caller_is_named(path, "libgcc_s", 8);
}

static bool is_protected_name(const char *path)
{
    for (const struct protected_name *entry = atomic_load_explicit(&protected_names, memory_order_acquire);
         entry != NULL; entry = entry->next) {
        if (sti_caller_is_named(path, entry->name, entry->length))
            return true;
    }
    return false;
}

int stint_module_protect(const char *name)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    if (name == NULL || name[0] == '\0' || strchr(name, '/') != NULL)
        return EINVAL;
    if (is_protected_name(name))
        return 0;
    size_t length = strlen(name);
    struct protected_name *entry = sti_process_lasting_malloc(sizeof *entry + length + 1);
    if (entry == NULL)
        return ENOMEM;
    char *copy = (char *)(entry + 1);
    memcpy(copy, name, length + 1);
    *entry = (struct protected_name){ .length = length, .name = copy };
    entry->next = atomic_load_explicit(&protected_names, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&protected_names, &entry->next, entry, memory_order_release,
                                                  memory_order_relaxed))
        ;
    return 0;
}

bool sti_caller_is_this_module(const void *caller)
{
    struct dl_find_object found;
    if (_dl_find_object((void *)(uintptr_t)&sti_caller_system, &found) != 0)
        return false;
    uintptr_t begin = (uintptr_t)found.dlfo_map_start;
    return (uintptr_t)caller - begin < (uintptr_t)found.dlfo_map_end - begin;
}

bool sti_caller_is_surely_ours(const void *caller)
{
    return is_module_ours && sti_caller_is_this_module(caller);
}

struct walk {
    uintptr_t scope;
    uintptr_t at; /* the stack pointer of the last frame */
    size_t frames;
    bool jumped; /* to another stack, it seems */
    struct sti_caller_met met;
    const struct link_map *last_module;
    bool passes_cxx;
    bool of_thread;
    size_t begins_at; /* a frame of the C++ runtime, so many from here, with which the thread may have begun */
    bool reached;
    bool met_protected;
};

/* The module's name is compared once a run of frames in it. An address in no module is generated code: nobody's to
 * protect. */
static bool is_protected_address(struct walk *walk, uintptr_t address)
{
    struct dl_find_object found;
    if (_dl_find_object((void *)address, &found) != 0 || found.dlfo_link_map == walk->last_module)
        return false;
    walk->last_module = found.dlfo_link_map;
    const char *path = found.dlfo_link_map->l_name;
    return is_protected_name(path) && !(walk->passes_cxx && is_of_cxx(path));
}

static bool makes_thread_variables(uintptr_t instruction)
{
    return sti_rule_is_on(STI_RULE_THREAD_INIT) && sti_thread_init_contains(instruction);
}

bool sti_caller_is_protected(uintptr_t instruction)
{
    struct dl_find_object found;
    if (_dl_find_object((void *)instruction, &found) != 0)
        return false;
    uintptr_t begin = (uintptr_t)found.dlfo_map_start;
    struct sti_caller_module module = { .begin = begin, .size = (uintptr_t)found.dlfo_map_end - begin };
    return sti_caller_in(&module, &sti_caller_system) || is_part(&module) ||
           is_protected_name(found.dlfo_link_map->l_name);
}

bool sti_caller_is_protected_further_out(uintptr_t instruction)
{
    struct walk walk = { .scope = 0 };
    return is_protected_address(&walk, instruction) || makes_thread_variables(instruction);
}

#define FRAMES_A_QUESTION 8
#define FRAMES_BELOW_THREAD 3         /* of this library, with its landing: scope/joined_thread.c */
#define FARTHEST ((uintptr_t)1 << 20) /* from one frame to the next, on one stack */

/* What libgcc calls the frame's CFA is its stack pointer: below that lies the address that it was called back to. */
static void note_met(struct walk *walk, uintptr_t stack_pointer, uintptr_t address)
{
#if defined(__x86_64__)
    const uintptr_t *word = (const uintptr_t *)stack_pointer - 1;
    if (!walk->jumped && walk->frames > FRAMES_A_QUESTION && *word == address)
        walk->met =
            (struct sti_caller_met){ .word = word, .address = address, .left = walk->frames / FRAMES_A_QUESTION };
#else
    (void)walk;
    (void)stack_pointer;
    (void)address;
#endif
}

STI_CALLER_UNINSTRUMENTED bool sti_caller_still_meets(struct sti_caller_met *met)
{
    if (met->left == 0)
        return false;
    met->left--;
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    met->again = here < (uintptr_t)met->word && here + FARTHEST > met->from && *met->word == met->address;
    return met->again;
}

static void count_frame(struct walk *walk, uintptr_t stack_pointer)
{
    walk->jumped = walk->frames > 0 && (walk->jumped || stack_pointer - walk->at > FARTHEST);
    walk->at = stack_pointer;
    walk->frames++;
}

/* Whether it has, the frames further out will tell. */
static bool may_begin_thread(struct walk *walk, uintptr_t instruction)
{
    struct dl_find_object found;
    if (walk->begins_at != 0 || _dl_find_object((void *)instruction, &found) != 0 ||
        !is_of_cxx(found.dlfo_link_map->l_name))
        return false;
    walk->begins_at = walk->frames;
    return true;
}

static STI_CALLER_UNINSTRUMENTED _Unwind_Reason_Code visit_frame(struct _Unwind_Context *context, void *argument)
{
    struct walk *walk = argument;
    count_frame(walk, _Unwind_GetCFA(context));
    if (_Unwind_GetCFA(context) > walk->scope) {
        walk->reached = true;
        return _URC_END_OF_STACK;
    }
    if (walk->begins_at != 0 && walk->frames - walk->begins_at > FRAMES_BELOW_THREAD) {
        walk->met_protected = true;
        return _URC_END_OF_STACK;
    }
    int before_instruction = 0;
    uintptr_t address = _Unwind_GetIPInfo(context, &before_instruction);
    /* A return address may lie behind the last instruction of its function. */
    uintptr_t instruction = address - (before_instruction ? 0 : 1);
    if (walk->of_thread && may_begin_thread(walk, instruction))
        return _URC_NO_REASON;
    if (is_protected_address(walk, instruction) || makes_thread_variables(instruction) ||
        !sti_generated_leads_on(instruction)) {
        walk->met_protected = true;
        note_met(walk, _Unwind_GetCFA(context), address);
        return _URC_END_OF_STACK;
    }
    return _URC_NO_REASON;
}

static bool is_safe(struct walk *walk)
{
    if (!sti_rule_is_on(STI_RULE_STACK))
        return true;
    if (sti_assumption_fails(STI_ASSUMED_UNWINDER))
        return false;
    /* A coroutine's stack, or a signal's, that lies above: what is below it on the scope's own is not seen from
     * here. */
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    if (here > walk->scope)
        return false;
    _Unwind_Backtrace(visit_frame, walk);
    walk->met.from = here;
    return walk->reached && !walk->met_protected;
}

bool sti_caller_stack_is_safe(uintptr_t scope, struct sti_caller_met *met, bool of_thread)
{
    struct walk walk = { .scope = scope, .of_thread = of_thread };
    bool safe = is_safe(&walk);
    *met = walk.met;
    return safe;
}

bool sti_caller_stack_is_safe_to_cut(uintptr_t scope)
{
    struct walk walk = { .scope = scope, .passes_cxx = true };
    return is_safe(&walk);
}

/* --- Functions of libc's that allocate for their caller. Any thread. --- */

/* backtrace_symbols makes pointers into its block, tsearch and _obstack_newchunk pointers to it. */
static const char *const names[] = {
    "tsearch",     "_obstack_begin", "_obstack_begin_1", "_obstack_newchunk", "backtrace_symbols",
    "argz_add",    "argz_add_sep",   "argz_append",      "argz_create",       "argz_create_sep",
    "argz_insert", "argz_replace",   "envz_add",         "envz_merge",        "wcsdup",
};
#define NAMES (sizeof names / sizeof *names)
#define TSEARCH 0

__thread bool sti_handed_over_search;

struct found {
    struct sti_caller_module functions[NAMES];
    struct sti_caller_module all; /* from the first of them to the last */
};

/* Looked for when libc first allocates in a scope: many programs never come to that.
 *
 *   UNKNOWN -> NOTED_DOWN (relaxed: who does it writes alone) -> KNOWN (release: acquire finds it whole)
 *
 * Others look for themselves meanwhile; and so does the child of a fork(2) that came in between, each time. */
enum { UNKNOWN, NOTED_DOWN, KNOWN };
static struct found known;
static atomic_int state;

static void find_functions(struct found *found)
{
    uintptr_t first = UINTPTR_MAX;
    uintptr_t last = 0;
    *found = (struct found){ .all.size = 0 };
    for (size_t i = 0; i < NAMES; i++) {
        uintptr_t begin;
        uintptr_t end;
        uintptr_t function = (uintptr_t)sti_libc_function(names[i]);
        if (function == 0 || !sti_frame_function(function, &begin, &end))
            continue;
        found->functions[i] = (struct sti_caller_module){ .begin = begin, .size = end - begin };
        first = begin < first ? begin : first;
        last = end > last ? end : last;
    }
    if (first < last)
        found->all = (struct sti_caller_module){ .begin = first, .size = last - first };
}

static __attribute__((noinline)) const struct found *find(struct found *found)
{
    int before = UNKNOWN;
    find_functions(found);
    if (atomic_compare_exchange_strong_explicit(&state, &before, NOTED_DOWN, memory_order_relaxed,
                                                memory_order_relaxed)) {
        known = *found;
        atomic_store_explicit(&state, KNOWN, memory_order_release);
    }
    return found;
}

static bool is_in(const struct found *found, const void *call)
{
    if (!sti_caller_in(&found->all, call) || !sti_rule_is_on(STI_RULE_HANDED_OVER))
        return false;
    size_t i = 0;
    while (i < NAMES && !sti_caller_in(&found->functions[i], call))
        i++;
    return i < NAMES && (i != TSEARCH || sti_handed_over_search);
}

static __attribute__((noinline)) bool is_in_when_found(const void *call)
{
    struct found found;
    return is_in(find(&found), call);
}

bool sti_handed_over(const void *caller)
{
    /* A return address may lie behind the last instruction of its function. */
    const void *call = (const char *)caller - 1;
    if (__builtin_expect(atomic_load_explicit(&state, memory_order_acquire) != KNOWN, 0))
        return is_in_when_found(call);
    return is_in(&known, call);
}
