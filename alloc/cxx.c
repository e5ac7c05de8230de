/* SPDX-License-Identifier: MIT
 *
 * Finding the C++ runtime; see cxx.h. */
#include "cxx.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>

typedef struct sti_cxx_exceptions *exceptions_fn(void);

/* There when the program itself is linked with a runtime. */
extern struct sti_cxx_exceptions *linked_exceptions(void) __asm__("__cxa_get_globals") __attribute__((weak));

/* Whoever finds it first stores what anybody would. */
static exceptions_fn *_Atomic find_exceptions;

__attribute__((constructor)) static void take_linked(void)
{
    atomic_store_explicit(&find_exceptions, linked_exceptions, memory_order_relaxed);
}

/* A runtime that is found stays loaded: somebody keeps a pointer into it. */
void *sti_cxx_function(const char *name)
{
    static const char *const runtimes[] = { "libstdc++.so.6", "libc++abi.so.1", "libc++.so.1" };
    void *function = dlsym(RTLD_NEXT, name);
    for (size_t i = 0; function == NULL && i < sizeof runtimes / sizeof *runtimes; i++) {
        void *runtime = dlopen(runtimes[i], RTLD_LAZY | RTLD_NOLOAD);
        if (runtime != NULL)
            function = dlsym(runtime, name);
    }
    return function;
}

struct sti_cxx_exceptions *sti_cxx_exceptions(void)
{
    exceptions_fn *find = atomic_load_explicit(&find_exceptions, memory_order_relaxed);
    if (find == NULL) {
        *(void **)&find = sti_cxx_function("__cxa_get_globals");
        atomic_store_explicit(&find_exceptions, find, memory_order_relaxed);
    }
    return find != NULL ? find() : NULL;
}

unsigned sti_cxx_uncaught(void)
{
    exceptions_fn *find = atomic_load_explicit(&find_exceptions, memory_order_relaxed);
    return find != NULL ? find()->uncaught : 0;
}
