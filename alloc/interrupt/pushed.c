/* SPDX-License-Identifier: MIT
 *
 * What frames have pushed; see pushed.h. */
#include "pushed.h"

#include <stddef.h>
#include <stdint.h>

#include "hold.h"
#include "way.h"

void sti_pushed_add(stint_guard **list, stint_guard *pushed)
{
    pushed->below_ = *list;
    pushed->check_ = sti_pushed_check(pushed);
    *list = pushed;
}

__attribute__((no_sanitize("address"))) stint_guard *sti_pushed_at(const struct sti_scope *scope, stint_guard **link)
{
    if (__builtin_expect(*link != NULL && (*link)->check_ != sti_pushed_check(*link), 0)) {
        sti_misuse_note(scope, "left the frame of a guard or hook without popping it");
        *link = NULL;
    }
    return *link;
}

static void unlink_pushed(stint_guard **link, stint_guard *above)
{
    *link = (*link)->below_;
    if (above != NULL)
        above->check_ = sti_pushed_check(above);
}

bool sti_pushed_take_off(const struct sti_scope *scope, stint_guard **list, const stint_guard *pushed, uintptr_t end)
{
    stint_guard **link = list;
    stint_guard *above = NULL;
    while (*link != NULL && (uintptr_t)*link < end && sti_pushed_at(scope, link) != NULL && *link != pushed) {
        above = *link;
        link = &above->below_;
    }
    if (*link != pushed)
        return false;
    unlink_pushed(link, above);
    return true;
}

stint_guard *sti_pushed_take_left(const struct sti_scope *scope, stint_guard **list, const struct sti_way *way)
{
    stint_guard **link = list;
    stint_guard *above = NULL;
    while (sti_pushed_at(scope, link) != NULL && !sti_way_passes(way, (uintptr_t)*link)) {
        above = *link;
        link = &above->below_;
    }
    stint_guard *taken = *link;
    if (taken != NULL)
        unlink_pushed(link, above);
    return taken;
}
