/* SPDX-License-Identifier: MIT
 *
 * The undo log of thread-specific values; see specific.h. A list, newest first, one entry a key: scopes set few keys. */
#include "specific.h"

#include <stdatomic.h>
#include <stddef.h>

#include "module_symbol.h"
#include "process.h"
#include "rules.h"
#include "scope_state.h"

static bool is_recorded(const struct sti_specific_undo *undo, pthread_key_t key)
{
    while (undo != NULL && undo->key != key)
        undo = undo->next;
    return undo != NULL;
}

bool sti_specific_record(struct sti_scope *scope, pthread_key_t key)
{
    if (!sti_rule_is_on(STI_RULE_SPECIFIC) || is_recorded(scope->specifics, key))
        return true;
    struct sti_specific_undo *undo = sti_process_malloc(sizeof *undo);
    if (undo == NULL)
        return false;
    *undo = (struct sti_specific_undo){ .next = scope->specifics, .value = pthread_getspecific(key), .key = key };
    scope->specifics = undo;
    return true;
}

void sti_specific_forget(struct sti_scope *innermost, pthread_key_t key)
{
    for (struct sti_scope *scope = innermost; scope != NULL; scope = scope->below) {
        struct sti_specific_undo **link = &scope->specifics;
        while (*link != NULL && (*link)->key != key)
            link = &(*link)->next;
        struct sti_specific_undo *undo = *link;
        if (undo == NULL)
            continue;
        *link = undo->next;
        sti_process_free(undo);
    }
}

void sti_specific_rollback(struct sti_scope *scope)
{
    while (scope->specifics != NULL) {
        struct sti_specific_undo *undo = scope->specifics;
        scope->specifics = undo->next;
        sti_specific_set_plain(undo->key, undo->value);
        sti_process_free(undo);
    }
}

void sti_specific_commit(struct sti_scope *scope)
{
    while (scope->specifics != NULL) {
        struct sti_specific_undo *undo = scope->specifics;
        scope->specifics = undo->next;
        if (scope->outer == NULL || is_recorded(scope->outer->specifics, undo->key)) {
            sti_process_free(undo);
        } else {
            undo->next = scope->outer->specifics;
            scope->outer->specifics = undo;
        }
    }
}

int sti_specific_set_plain(pthread_key_t key, const void *value)
{
    /* Found at the first call, which may come from another library's constructor before any of ours has run. Two threads
     * at once find the same. */
    static int (*_Atomic plain)(pthread_key_t, const void *);
    int (*set)(pthread_key_t, const void *) = atomic_load_explicit(&plain, memory_order_relaxed);
    if (__builtin_expect(set == NULL, 0)) {
        *(void **)&set = sti_libc_function("pthread_setspecific");
        atomic_store_explicit(&plain, set, memory_order_relaxed);
    }
    return set(key, value);
}
