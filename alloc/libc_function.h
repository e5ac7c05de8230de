/* SPDX-License-Identifier: MIT
 *
 * libc's own function of the same name, for an override of it that goes on to that. Any thread. */
#ifndef STI_ALLOC_LIBC_FUNCTION_H
#define STI_ALLOC_LIBC_FUNCTION_H

#include <stdatomic.h>

#include "module_symbol.h"

/* Declares plain, which is it. Found at the first call; two threads at once find the same. */
#define STI_LIBC_FUNCTION(name)                                                                                        \
    static __typeof__(name) *_Atomic found;                                                                            \
    __typeof__(name) *plain = atomic_load_explicit(&found, memory_order_relaxed);                                      \
    if (__builtin_expect(plain == NULL, 0)) {                                                                          \
        *(void **)&plain = sti_libc_function(#name);                                                                   \
        atomic_store_explicit(&found, plain, memory_order_relaxed);                                                    \
    }

#endif
