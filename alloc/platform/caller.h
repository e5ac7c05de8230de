/* SPDX-License-Identifier: MIT
 *
 * Return addresses: whose code asked for this block? The one room that knows them.
 *
 * What libc and the dynamic loader allocate for themselves (a stdio buffer, a FILE, a locale, a link map) outlives the
 * task that happened to be running, so it must come from another heap than the task's (heap/libc_heap.h); and code
 * that is in the middle of libc must not be jumped out of. Both are told by the return address of the allocation. A
 * tail call shows the caller's caller: then libc's frame is gone already, and the block is its caller's, as it should
 * be.
 *
 * And which modules may be left in their midst: the C standard lets an allocation fail, but it does not let a function
 * never return. So only the program's own code is, what the program allows (stint_module_allow), and libraries of which
 * it is known; libc, the loader, the C++ runtime, OpenMP's, mimalloc, and what stint_module_protect adds never are. */
#ifndef STI_ALLOC_PLATFORM_CALLER_H
#define STI_ALLOC_PLATFORM_CALLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sti_caller_module {
    uintptr_t begin;
    uintptr_t size;
};

/* Filled in when the library is loaded. From then on stint_module_keep makes the two short ways shorter, and nothing
 * else changes it. */
extern struct sti_caller_system {
    struct sti_caller_module libc;
    struct sti_caller_module loader;
    uintptr_t below;                                       /* what lies below this address is neither's nor kept, */
    uintptr_t between, between_end;                        /* nor what lies from here to there */
} sti_caller_system __attribute__((visibility("hidden"))); /* said here too: then no access goes through a table */

/* Of the function that it is inlined into; that function must be the one the user calls. */
#define STI_CALLER() __builtin_extract_return_addr(__builtin_return_address(0))

static inline bool sti_caller_in(const struct sti_caller_module *module, const void *caller)
{
    return (uintptr_t)caller - module->begin < module->size;
}

/* No: it is neither libc's nor the loader's own, nor of a kept module. True for nearly all but theirs, programs first,
 * libraries second; what lies above them (the vDSO, generated code), or between others of them, has to be asked for the
 * other way. */
static inline bool sti_caller_is_clearly_not_system(const void *caller)
{
    uintptr_t address = (uintptr_t)caller;
    return address >= sti_caller_system.between ? __builtin_expect(address < sti_caller_system.between_end, 1)
                                                : __builtin_expect(address < sti_caller_system.below, 1);
}

/* Is the block libc's own, the loader's, or either? */
static inline bool sti_caller_is_libc(const void *caller)
{
    return sti_caller_in(&sti_caller_system.libc, caller);
}

static inline bool sti_caller_is_loader(const void *caller)
{
    return sti_caller_in(&sti_caller_system.loader, caller);
}

static inline bool sti_caller_is_system(const void *caller)
{
    return sti_caller_is_libc(caller) || sti_caller_is_loader(caller);
}

/* Is it libc's or the loader's own, or that of a module that is kept (permanent.h), where an interrupt that is due has
 * to wait? Cold. */
bool sti_caller_must_wait(const void *caller);

/* Would it end the process if it were refused: the loader, what in libc registers destructors of thread_local
 * variables, and runtimes of OpenMP? Cold. */
bool sti_caller_ends_process(const void *caller);

/* An address in a module that is a part of this library and was loaded later, as the one that writes profiles: its code
 * is this library's, too. Any thread. */
void sti_caller_note_part(const void *address);

/* Where the module lies that this address is in; of size 0: in none. Safe in signal handlers, as all that asks this. */
struct sti_caller_module sti_caller_module_of(const void *address);

/* Is it in the module that this library is in? */
bool sti_caller_is_this_module(const void *caller);

/* The same where that module is this library; where it is a program's, or another library's, which this one is linked
 * into, no code can be told to be this one's. */
bool sti_caller_is_surely_ours(const void *caller);

/* Is it this library with its module (write.h), or mimalloc? */
struct dl_phdr_info;
struct sti_caller_module sti_caller_module_at(const struct dl_phdr_info *info);
bool sti_caller_module_is_ours(const struct dl_phdr_info *info);

/* Is the module this library's alone? Where this library is linked into a program, its module is the program's. */
bool sti_caller_module_is_only_ours(const struct dl_phdr_info *info);

/* Is the file the module of this name: is it called so, up to a '.' or '-' or the end? A runtime of OpenMP? */
bool sti_caller_is_named(const char *path, const char *name);
bool sti_caller_is_openmp(const char *path);

/* How a frame is left that lies between the point of an interrupt and its scope. */
enum sti_left {
    STI_LEFT_BY_JUMP = 1 << 0,   /* from an allocation or another sample point, */
    STI_LEFT_BY_UNWIND = 1 << 1, /* or by an unwind from there; */
    STI_LEFT_STOPPED = 1 << 2,   /* by a jump from any instruction, where a signal has stopped it; */
    STI_LEFT_EXHAUSTED = 1 << 3, /* or from one at which its stack has come to its end; */
    STI_LEFT_AT_END = 1 << 4,    /* by a jump where the process would end: this is said of the C++ runtime alone */
    STI_LEFT_ANYHOW = STI_LEFT_BY_JUMP | STI_LEFT_BY_UNWIND | STI_LEFT_STOPPED | STI_LEFT_EXHAUSTED,
};

/* May the function that the instruction is in be left in one of these ways? Frames of this library do not count: what
 * it was doing it knows. Code of no module, which has been generated, may not: nothing describes it. Keeps the module
 * that it was in, all bytes 0 at first, as the next frame is often of the same. Safe in signal handlers. */
bool sti_module_may_be_left(uintptr_t instruction, unsigned ways, struct sti_caller_module *last);

/* Is it in this library, or a part of it that was loaded later? Safe in signal handlers. */
bool sti_caller_is_ours(uintptr_t instruction);

/* --- The rules of automatic masking, each with a switch that only tests touch: a test that switches one rule off, and
 * sees something break, shows that the rule is needed. All are on in a program. Asked on cold paths only: where an
 * interrupt is already due, or something rare begins. Written before the first scope, read by any thread. */

enum {
    STI_RULE_CALLER = 1 << 0,         /* no interrupt in an allocation of libc's or the loader's own */
    STI_RULE_PROCESS_BLOCKS = 1 << 1, /* their blocks come from the process's heap; to switch it off, also clear
                                         sti_caller_system, which the fast path looks at in place of this */
    STI_RULE_STACK = 1 << 2,          /* no jump over a frame of a module that may not be left */
    STI_RULE_LOCK = 1 << 3,           /* nor while a lock is held, */
    STI_RULE_ONCE = 1 << 4,           /* nor in pthread_once or call_once, */
    STI_RULE_STATIC = 1 << 5,         /* nor in a C++ static initialiser, */
    STI_RULE_CATCH = 1 << 6,          /* nor in a catch block, */
    STI_RULE_THROW = 1 << 7,          /* nor while a C++ exception is on its way */
    STI_RULE_SPECIFIC = 1 << 8,       /* a rollback gives thread-specific values back, */
    STI_RULE_HANDLE = 1 << 9,         /* and closes the handles of libc that are open */
    STI_RULE_CLEANUP = 1 << 11,       /* no jump past a cleanup handler of C code without tables */
    STI_RULE_CXX_CACHES = 1 << 14,    /* the caches of libstdc++'s locales are kept, */
    STI_RULE_KEPT_MODULE = 1 << 15,   /* a kept module's blocks are the process's, as OpenMP's are */
    STI_RULE_THREAD_STATE = 1 << 16,  /* a rollback gives the thread its signal mask, locale and the like back */
    STI_RULE_CHILD_MASK = 1 << 17,    /* a worker's children have the signal mask of the pool's creator */
};

extern unsigned sti_rules_off;

static inline bool sti_rule_is_on(unsigned rule)
{
    return __builtin_expect((sti_rules_off & rule) == 0, 1);
}

/* At start. */
void sti_caller_start(void);

#endif
