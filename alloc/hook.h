/* SPDX-License-Identifier: MIT
 *
 * Interrupt hooks from the inside, and the watch of a scope. Thread of the scope only. */
#ifndef STI_ALLOC_HOOK_H
#define STI_ALLOC_HOOK_H

struct sti_scope;

/* Have the watch look after the scope until it ends. 0 or an errno value. */
int sti_hook_watch_scope(struct sti_scope *scope);

/* The scope is being watched; a token may have been set just before. */
void sti_hook_wake_if_flagged(const struct sti_scope *scope);

/* Call the hooks, each once, of the tripped scopes and of those inside them; masked. */
void sti_hook_fire(struct sti_scope *innermost);

/* The frames that the scope's hooks lie on are about to go: none of them runs any more after this. */
void sti_hook_drop(struct sti_scope *scope);

/* Those that lie in frames which a jump leaves. */
struct sti_way;
void sti_hook_leave(struct sti_scope *scope, const struct sti_way *way);

/* The scope ends, and its watch with it. */
void sti_hook_end_scope(struct sti_scope *scope);

#endif
