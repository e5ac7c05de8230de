/* SPDX-License-Identifier: MIT
 *
 * What libstdc++ allocates for itself: caches of a locale's facets, made when a number is first formatted in it, locales,
 * free lists. They outlive the task that happened to be running, so their blocks are the process's, as libc's are. They
 * are told by the function that asks for the block. What libstdc++ allocates for its user, such as a string that grows, is
 * the task's. */
#ifndef STI_ALLOC_CXX_CACHES_H
#define STI_ALLOC_CXX_CACHES_H

#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "caller.h"
#include "module_symbol.h"

/* The code of libstdc++, with a bit for each 16 bytes; size 0 as long as it is not known. Set once. */
struct sti_cxx_code {
    struct sti_caller_module module;
    const uint64_t *caches;
};
extern _Atomic(const struct sti_cxx_code *) sti_cxx_code __attribute__((visibility("hidden")));

/* Learn the functions of a module, if it is libstdc++ and the first. Not in signal handlers. */
void sti_cxx_caches_learn(struct sti_module module, const char *path, struct sti_caller_module code);

/* Is the block one of those? */
static inline bool sti_cxx_caches_ask(const void *caller)
{
    const struct sti_cxx_code *code = atomic_load_explicit(&sti_cxx_code, memory_order_acquire);
    uintptr_t offset = (uintptr_t)caller - code->module.begin;
    return __builtin_expect(offset < code->module.size, 0) && (code->caches[offset / 1024] >> offset / 16 % 64 & 1) != 0;
}

#endif
