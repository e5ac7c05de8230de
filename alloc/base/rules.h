/* SPDX-License-Identifier: MIT
 *
 * The rules of automatic masking, each with a switch that only tests touch: a test that switches one rule off, and sees
 * something break, shows that the rule is needed. All are on in a program. Asked on cold paths only: where an interrupt
 * is already due, or something rare begins. Written before the first scope, read by any thread. */
#ifndef STI_ALLOC_BASE_RULES_H
#define STI_ALLOC_BASE_RULES_H

#include <stdbool.h>

struct sti_holds;

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
    STI_RULE_HANDED_OVER = 1 << 13,   /* what libc allocates for its caller is the caller's, */
    STI_RULE_CXX_CACHES = 1 << 14,    /* what libstdc++ allocates for itself the process's, */
    STI_RULE_KEPT_MODULE = 1 << 15,   /* and so what a runtime of OpenMP does, or another module that is kept */
    STI_RULE_THREAD_STATE = 1 << 16,  /* a rollback gives the thread its signal mask, locale and the like back */
    STI_RULE_CHILD_MASK = 1 << 17,    /* a worker's children have the signal mask of who made the pool */
};

extern unsigned sti_rules_off;

static inline bool sti_rule_is_on(unsigned rule)
{
    return __builtin_expect((sti_rules_off & rule) == 0, 1);
}

/* Does a thread that holds these have to wait? */
bool sti_rules_hold(const struct sti_holds *holds);

#endif
