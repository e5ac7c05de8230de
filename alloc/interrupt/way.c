/* SPDX-License-Identifier: MIT
 *
 * The way of a jump; see way.h. Calling thread. */
#include "way.h"

#include <stdint.h>
#include <string.h>

#include "alloc/platform/assumption.h"
#include "alloc/platform/callstack.h"
#include "alloc/platform/machine.h"

static bool is_reached(const struct sti_way *way)
{
    return way->count > 0 && way->parts[way->count - 1].end >= way->target &&
           way->parts[way->count - 1].begin <= way->target;
}

/* The stack grows down, so a frame further out that lies below the last is on another stack. False: there are too many
 * of those. */
static bool way_add_frame(struct sti_way *way, uintptr_t frame)
{
    bool elsewhere = way->count == 0 || frame < way->parts[way->count - 1].end;
    if (elsewhere && way->count == STI_WAY_PARTS)
        return false;
    if (elsewhere) {
        way->parts[way->count].begin = frame;
        way->count++;
    }
    way->parts[way->count - 1].end = frame;
    if (frame <= way->target)
        way->lowest = frame;
    return true;
}

bool sti_way_find(struct sti_way *way, uintptr_t target)
{
    struct sti_walk_rules rules;
    memset(&rules, 0, sizeof rules);
    struct sti_walk walk = sti_walk_begin(sti_registers_here(), UINTPTR_MAX, &rules);
    *way = (struct sti_way){ .target = target, .lowest = target };
    bool goes_on = sti_assumption_finds_frames();
    while (goes_on)
        goes_on = way_add_frame(way, walk.at.sp) && !is_reached(way) && sti_walk_out(&walk);
    if (!is_reached(way))
        return false;
    way->parts[way->count - 1].end = target;
    return true;
}
