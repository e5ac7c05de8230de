/* SPDX-License-Identifier: MIT
 *
 * The heap of turns; see turns.h. */
#include "turns.h"

#include <stddef.h>

static bool comes_before(const struct sti_turn *turn, const struct sti_turn *other)
{
    return sti_time_is_before(turn->time, other->time) || (turn->time == other->time && turn->number < other->number);
}

/* Two heaps; either may be NULL. The result's next and link are the caller's to set. */
static struct sti_turn *meld(struct sti_turn *one, struct sti_turn *other)
{
    if (one == NULL || other == NULL)
        return one != NULL ? one : other;
    struct sti_turn *first = comes_before(one, other) ? one : other;
    struct sti_turn *below = first == one ? other : one;
    below->next = first->child;
    if (below->next != NULL)
        below->next->link = &below->next;
    below->link = &first->child;
    first->child = below;
    return first;
}

/* Those with one parent into one heap: in pairs from the left, then all of these from the right. */
static struct sti_turn *meld_all(struct sti_turn *turn)
{
    struct sti_turn *pairs = NULL;
    while (turn != NULL) {
        struct sti_turn *one = turn;
        struct sti_turn *other = one->next;
        turn = other != NULL ? other->next : NULL;
        struct sti_turn *pair = meld(one, other);
        pair->next = pairs;
        pairs = pair;
    }
    struct sti_turn *all = NULL;
    while (pairs != NULL) {
        struct sti_turn *pair = pairs;
        pairs = pair->next;
        all = meld(all, pair);
    }
    return all;
}

static void set_first(struct sti_turns *turns, struct sti_turn *turn)
{
    turns->first = turn;
    if (turn == NULL)
        return;
    turn->next = NULL;
    turn->link = &turns->first;
}

void sti_turns_put(struct sti_turns *turns, struct sti_turn *turn)
{
    turn->number = turns->numbers++;
    turn->child = NULL;
    set_first(turns, meld(turns->first, turn));
}

void sti_turns_remove(struct sti_turns *turns, struct sti_turn *turn)
{
    struct sti_turn *below = meld_all(turn->child);
    struct sti_turn **link = turn->link;
    turn->link = NULL;
    if (turns->first == turn) {
        set_first(turns, below);
        return;
    }
    *link = turn->next;
    if (turn->next != NULL)
        turn->next->link = link;
    set_first(turns, meld(turns->first, below));
}
