/* SPDX-License-Identifier: MIT
 *
 * Return addresses: whose code asked for this block? The one room that knows them.
 *
 * What libc and the dynamic loader allocate for themselves (a stdio buffer, a FILE, a locale, a link map) outlives the
 * task that happened to be running, so it must come from another heap than the task's (rollback/kept.h); and code that
 * is in the middle of libc must not be jumped out of. Both are told by the return address of the allocation. A tail
 * call shows the caller's caller: then libc's frame is gone already, and the block is its caller's, as it should be.
 *
 * Before a jump the whole stack is walked, from here to the scope: a frame of a protected module in between (qsort
 * under a comparator, getaddrinfo under a name-service module, dlopen under a constructor) would be left half done.
 * Protected are libc, the loader, the C++ runtime, mimalloc, and what stint_module_protect adds. A frame that cannot be
 * unwound might hide one, so it protects too. */
#ifndef STI_ALLOC_BASE_CALLER_H
#define STI_ALLOC_BASE_CALLER_H

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
    struct sti_caller_module between;                      /* nor what lies here */
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
    return __builtin_expect((uintptr_t)caller < sti_caller_system.below, 1) ||
           __builtin_expect(sti_caller_in(&sti_caller_system.between, caller), 1);
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

/* Is it libc's or the loader's own, or that of a module that is kept (lasting.h), where an interrupt that is due has to
 * wait? Cold. */
bool sti_caller_must_wait(const void *caller);

/* Would it end the process if it were refused: the loader, what in libc registers destructors of thread_local
 * variables, and runtimes of OpenMP? Cold. */
bool sti_caller_ends_process(const void *caller);

#if defined(__clang__)
#define STI_CALLER_UNINSTRUMENTED __attribute__((disable_sanitizer_instrumentation))
#else
#define STI_CALLER_UNINSTRUMENTED __attribute__((no_sanitize("thread", "address", "undefined")))
#endif

/* An address in a module that is a part of this library and was loaded later, as the one that writes profiles: its code
 * is this library's, too. Any thread. */
void sti_caller_note_part(const void *address);

/* Is it in the module that this library is in? */
bool sti_caller_is_this_module(const void *caller);

/* The same where that module is this library; where it is a program's, or another library's, which this one is linked
 * into, no code can be told to be this one's. */
bool sti_caller_is_surely_ours(const void *caller);

/* Is it this library with its module (write.h), or mimalloc? */
struct dl_phdr_info;
struct sti_caller_module sti_caller_module_at(const struct dl_phdr_info *info);
bool sti_caller_module_is_ours(const struct dl_phdr_info *info);

/* And nobody else's? Where this library is linked into a program, its module is the program's. */
bool sti_caller_module_is_only_ours(const struct dl_phdr_info *info);

/* Is the file the module of this name: is it called so, up to a '.' or '-' or the end? A runtime of OpenMP? */
bool sti_caller_is_named(const char *path, const char *name, size_t length);
bool sti_caller_is_openmp(const char *path);

/* Is the instruction in a protected module, in this library or in the vDSO? Safe in signal handlers. */
bool sti_caller_is_protected(uintptr_t instruction);

/* The same of an instruction further out, which has called something: frames of this library do not count. */
bool sti_caller_is_protected_further_out(uintptr_t instruction);

/* Where a walk met a protected frame. The word on the stack that says so can be asked again, without a walk, as often
 * as makes the next walk cheap by comparison: it may be stale when the frame has gone. All bytes 0: nowhere. */
struct sti_caller_met {
    const uintptr_t *word; /* a return address into that frame, */
    uintptr_t address;     /* this one */
    uintptr_t from;        /* where the walk began */
    size_t left;
    bool again; /* the last answer was not a walk's */
};

/* Is it still there? No, too, when it has been asked often enough. */
bool sti_caller_still_meets(struct sti_caller_met *met);

/* Walk from here to the frame that runs a scope, on this stack. True: no frame of a protected module lies between;
 * otherwise met says where, if that can be said. of_thread: the scope runs a whole thread; the C++ runtime's function
 * that such a thread begins with is none, which has nothing but that thread's own. 2 to 15 microseconds, and 0.4 for
 * each frame of a deep stack. (From a signal handler: stopped.h.) */
bool sti_caller_stack_is_safe(uintptr_t scope, struct sti_caller_met *met, bool of_thread);

/* The same, but frames of the C++ runtime do not count: it counts on an exception wherever it allocates. */
bool sti_caller_stack_is_safe_to_cut(uintptr_t scope);

/* --- The rules of automatic masking, each with a switch that only tests touch: a test that switches one rule off, and
 * sees something break, shows that the rule is needed. All are on in a program. Asked on cold paths only: where an
 * interrupt is already due, or something rare begins. Written before the first scope, read by any thread. */

enum {
    STI_RULE_CALLER = 1 << 0,         /* no interrupt in an allocation of libc's or the loader's own */
    STI_RULE_PROCESS_BLOCKS = 1 << 1, /* their blocks come from the process's heap; to switch it off, also clear
                                         sti_caller_system, which the fast path looks at in place of this */
    STI_RULE_STACK = 1 << 2,          /* no jump over a frame of a protected module */
    STI_RULE_LOCK = 1 << 3,           /* nor while a lock is held, */
    STI_RULE_ONCE = 1 << 4,           /* nor in pthread_once or call_once, */
    STI_RULE_STATIC = 1 << 5,         /* nor in a C++ static initialiser, */
    STI_RULE_CATCH = 1 << 6,          /* nor in a catch block, */
    STI_RULE_THROW = 1 << 7,          /* nor while a C++ exception is on its way */
    STI_RULE_SPECIFIC = 1 << 8,       /* a rollback gives thread-specific values back, */
    STI_RULE_HANDLE = 1 << 9,         /* and closes the handles of libc that are open */
    STI_RULE_THREAD_INIT = 1 << 10,   /* no jump out of what makes a thread's variables, */
    STI_RULE_CLEANUP = 1 << 11,       /* nor past a cleanup handler of C code without tables, */
    STI_RULE_SEMAPHORE = 1 << 12,     /* nor while a semaphore is held that is a lock */
    STI_RULE_CXX_CACHES = 1 << 14,    /* what libstdc++ allocates for itself the process's, */
    STI_RULE_KEPT_MODULE = 1 << 15,   /* and so what a runtime of OpenMP does, or another module that is kept */
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
