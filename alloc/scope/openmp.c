/* SPDX-License-Identifier: MIT
 *
 * The threads of an OpenMP runtime as those of a task; see openmp.h. Calling thread only. */
#include "openmp.h"

#include <link.h>
#include <stddef.h>

#include "alloc/base/caller.h"
#include "alloc/base/module.h"

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
