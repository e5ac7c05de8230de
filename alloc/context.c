/* SPDX-License-Identifier: MIT
 *
 * Contexts. Any thread. A scope's is in its request's options, so a task without one pays nothing for it. */
#include <errno.h>
#include <stdatomic.h>
#include <stint/context.h>

#include "aside.h"
#include "boundary.h"
#include "context.h"
#include "process.h"
#include "record.h"

struct stint_context {
    atomic_uint references;
    void *value;
    void (*destroy)(void *value);
};

int stint_context_create(stint_context **context, void *value, void (*destroy)(void *value))
{
    if (context == NULL)
        return EINVAL;
    if (!sti_record_charge(sizeof(stint_context), STI_CALLER()))
        return ENOMEM;
    stint_context *created = sti_process_malloc(sizeof *created);
    if (created == NULL)
        return ENOMEM;
    atomic_init(&created->references, 1);
    created->value = value;
    created->destroy = destroy;
    *context = created;
    return 0;
}

void *stint_context_value(const stint_context *context)
{
    return context != NULL ? context->value : NULL;
}

stint_context *stint_context_current(void)
{
    const struct sti_thread *thread = sti_thread_metered;
    return thread != NULL ? sti_context_of(thread->scope) : NULL;
}

stint_context *stint_context_retain(stint_context *context)
{
    if (context != NULL)
        atomic_fetch_add_explicit(&context->references, 1, memory_order_relaxed);
    return context;
}

void stint_context_release(stint_context *context)
{
    /* acq_rel: the last one sees all that the others did with the value before it is destroyed. */
    if (context == NULL || atomic_fetch_sub_explicit(&context->references, 1, memory_order_acq_rel) > 1)
        return;
    if (context->destroy != NULL) {
        struct sti_aside aside;
        sti_aside_begin(&aside);
        STI_BOUNDARY_CALLBACK("release", context->destroy, context->value, NULL, NULL);
        sti_aside_end(&aside);
    }
    sti_process_free(context);
}
