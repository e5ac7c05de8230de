/* SPDX-License-Identifier: MIT
 *
 * Overrides of what tells libgcc of call frame tables of generated code, so that a rollback takes back what a task left
 * (undo.h): libgcc would read them when the code's mapping is gone. Its record of one is the process's. Any
 * thread. */
#include <stdint.h>
#include <stint/api.h>
#include <unwind.h>

#include "alloc/base/generated.h"
#include "alloc/base/module.h"
#include "alloc/base/scope_state.h"
#include "alloc/base/thread.h"
#include "undo.h"

STINT_API void __register_frame(void *table);
STINT_API void __deregister_frame(void *table);

static void (*unwinders(const char *name))(void *)
{
    void (*function)(void *);
    const void *unwinder = (const void *)(uintptr_t)_Unwind_Backtrace;
    *(void **)&function = sti_module_symbol(sti_module_loaded(sti_module_of(unwinder)), name);
    return function;
}

static void close_table(struct sti_scope *scope, void *table, void *before)
{
    (void)scope;
    (void)before;
    __deregister_frame(table);
}

static const struct sti_undo_kind of_table = { .rule = STI_RULE_HANDLE, .undo = close_table };

/* A region of blocks for the process, as in interrupt.c; the interrupt has to wait for libgcc's frame anyhow. */
static void register_kept(struct sti_thread *thread, void (*plain)(void *), void *table)
{
    if (thread != NULL) {
        thread->scope->keeps++;
        atomic_store_explicit(&thread->limit, 0, memory_order_relaxed);
    }
    plain(table);
    sti_generated_sort();
    if (thread != NULL)
        thread->scope->keeps--;
}

void __register_frame(void *table)
{
    void (*plain)(void *) = unwinders("__register_frame");
    struct sti_thread *thread = sti_thread_metered;
    if (plain == NULL)
        return;
    register_kept(thread, plain, table);
    sti_undo_add(&of_table, table, table);
}

void __deregister_frame(void *table)
{
    void (*plain)(void *) = unwinders("__deregister_frame");
    sti_undo_end(&of_table, table, NULL);
    if (plain != NULL)
        plain(table);
}
