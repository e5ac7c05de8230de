/* SPDX-License-Identifier: MIT
 *
 * What threads of a task's own are started by; see started_thread.h. */
#include "started_thread.h"

#include <link.h>
#include <stddef.h>

#include "alloc/base/caller.h"
#include "alloc/base/module.h"

/* --- libc's own functions for threads. --- */

#if STI_OVERRIDES
#define PLAIN(name) STI_LIBC_FUNCTION(name)
#else
#define PLAIN(name) static __typeof__(name) *const plain = name;
#endif

int sti_plain_create(pthread_t *id, const pthread_attr_t *attributes, void *(*function)(void *arg), void *arg)
{
    PLAIN(pthread_create)
    return plain(id, attributes, function, arg);
}

int sti_plain_join(pthread_t id, void **value)
{
    PLAIN(pthread_join)
    return plain(id, value);
}

int sti_plain_tryjoin(pthread_t id, void **value)
{
    PLAIN(pthread_tryjoin_np)
    return plain(id, value);
}

int sti_plain_detach(pthread_t id)
{
    PLAIN(pthread_detach)
    return plain(id);
}

/* --- OpenMP. --- */

typedef int pause_fn(int kind);
#define PAUSE_SOFTLY 1
static _Thread_local pause_fn *pause_openmp;

const struct link_map *sti_openmp_of(const void *caller)
{
    const struct link_map *module = sti_module_of(caller);
    return module != NULL && sti_caller_is_openmp(module->l_name) ? module : NULL;
}

/* NULL: it cannot be ended. */
static pause_fn *pause_of(const struct link_map *openmp)
{
    struct sti_module module = sti_module_loaded(openmp);
    pause_fn *pause;
    *(void **)&pause = sti_module_symbol(module, "omp_pause_resource_all");
    return sti_module_symbol(module, "__kmpc_fork_call") == NULL ? pause : NULL;
}

bool sti_openmp_can_end(const struct link_map *openmp)
{
    return pause_of(openmp) != NULL;
}

void sti_openmp_keeps(const struct link_map *openmp)
{
    pause_openmp = pause_of(openmp);
}

void sti_openmp_end(void)
{
    pause_fn *pause = pause_openmp;
    if (__builtin_expect(pause == NULL, 1))
        return;
    pause_openmp = NULL;
    pause(PAUSE_SOFTLY);
}
