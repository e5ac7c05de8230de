/* SPDX-License-Identifier: MIT
 *
 * The override of mremap, so that what a task has mapped is still followed where it is moved, grown and shrunk
 * (mapping.h). Any thread; as little as possible where no task has mapped anything. */
#include "override_mapping.h"

#include <stdarg.h>
#include <stint/api.h>

#include "alloc/base/module.h"
#include "alloc/rollback/pages.h"
#include "allocate.h"

STINT_API void *mremap(void *address, size_t old_length, size_t new_length, int flags, ...);

struct move {
    uintptr_t begin;
    size_t size;
    size_t new_size;
    int flags;
    uintptr_t to;
    bool stays;                /* what was there */
    struct sti_mapped *copier; /* whose the same pages are once more; NULL: the process's, or nobody's as none are */
    struct sti_mapping *parts; /* what there will be, where it is now, from the lowest to the highest; the process's
                                  have no owner */
    struct sti_thread *thread; /* of the task that asks, */
    size_t paid;               /* which has been charged for so many records */
};

static void *move_plainly(const struct move *move, size_t old_length, size_t new_length)
{
    STI_LIBC_FUNCTION(mremap)
    return plain((void *)move->begin, old_length, new_length, move->flags, (void *)move->to);
}

static bool has_place(const struct move *move)
{
    return (move->flags & MREMAP_FIXED) != 0;
}

/* Since Linux 6.17 such a call moves one mapping after the other, and leaves alone what is in its place where there is
 * none; it may fail at any. Each other call moves one mapping or fails. */
static bool may_have_holes(const struct move *move)
{
    return has_place(move) && move->size == move->new_size;
}

static bool cut(const struct move *move)
{
    size_t stays = move->size < move->new_size ? move->size : move->new_size;
    return sti_mapping_cut(move->begin, move->begin + move->size) &&
           sti_mapping_cut(move->begin, move->begin + stays) &&
           (!has_place(move) || sti_mapping_cut(move->to, move->to + move->new_size));
}

/* --- The parts. Each belongs to whoever the record says, or else to the process; holes are none. --- */

/* of: what it is a part of; NULL: of the process's. Returns where the next goes; NULL: out of memory. */
static struct sti_mapping **add_part(struct sti_mapping **link, uintptr_t begin, uintptr_t end,
                                     const struct sti_mapping *of)
{
    struct sti_mapping *part = sti_mapping_new();
    *link = part;
    if (part == NULL)
        return NULL;
    *part = (struct sti_mapping){ .begin = begin, .end = end };
    if (of != NULL) {
        part->kind = of->kind;
        part->owner = of->owner;
        part->continues = of->continues;
    }
    return &part->next;
}

/* Of which no task has anything. It matters where there are holes only if a task has something in its place. */
static struct sti_mapping **add_gap(const struct move *move, struct sti_mapping **link, uintptr_t begin, uintptr_t end)
{
    if (!may_have_holes(move))
        return add_part(link, begin, end, NULL);
    uintptr_t place = move->to + (begin - move->begin);
    if (sti_mapping_first(place, place + (end - begin)) == NULL)
        return link;
    while (link != NULL && begin < end) {
        uintptr_t there = sti_place_mapped_end(begin, end);
        if (there > begin)
            link = add_part(link, begin, there, NULL);
        begin = there < end ? sti_place_free_end(there, end) : end;
    }
    return link;
}

/* Of the record, which has been cut at both ends. What is added to the last one is of its kind. */
static bool list_parts(struct move *move)
{
    struct sti_mapping **link = &move->parts;
    const struct sti_mapping copy = { .kind = STI_MAPPING_FREE, .owner = move->copier };
    if (move->size == 0)
        return add_part(link, move->begin, move->begin + move->new_size, &copy) != NULL;
    uintptr_t end = move->begin + (move->size < move->new_size ? move->size : move->new_size);
    struct sti_mapping *last = NULL;
    for (uintptr_t at = move->begin; link != NULL && at < end;) {
        const struct sti_mapping *mapping = sti_mapping_first(at, end);
        uintptr_t next = mapping == NULL ? end : mapping->begin > at ? mapping->begin : mapping->end;
        link =
            mapping != NULL && mapping->begin <= at ? add_part(link, at, next, mapping) : add_gap(move, link, at, next);
        at = next;
    }
    for (struct sti_mapping *part = move->parts; part != NULL; part = part->next)
        last = part;
    if (last != NULL && move->new_size > move->size)
        last->end = move->begin + move->new_size;
    return link != NULL;
}

static uintptr_t place_of(const struct move *move, const struct sti_mapping *part)
{
    return move->to + (part->begin - move->begin);
}

/* For what tasks have mapped. */
static bool claim_places(const struct move *move)
{
    for (const struct sti_mapping *part = has_place(move) ? move->parts : NULL; part != NULL; part = part->next) {
        uintptr_t place = place_of(move, part);
        uintptr_t end = place + (part->end - part->begin);
        if (!sti_mapping_cut(place, end) || (part->owner != NULL && !sti_place_claim(place, end, part->owner))) {
            sti_place_give_up(move->to, move->to + move->new_size);
            return false;
        }
    }
    return true;
}

/* It is at its place, and becomes a part of the tree, or is dropped. */
static void put(const struct move *move, uintptr_t to, struct sti_mapping *part)
{
    uintptr_t offset = part->begin - move->begin;
    uintptr_t place = to + offset;
    uintptr_t end = place + (part->end - part->begin);
    bool continues = part->continues && offset > 0;
    struct sti_mapping *before = sti_mapping_take_all(place, end);
    if (part->owner != NULL) {
        sti_mapping_put(part, place, end, part->kind, part->owner);
        part->continues = continues;
    } else {
        sti_mapping_drop(part);
    }
    if (has_place(move))
        sti_place_settle(place, end, before);
    sti_mapping_drop_all(before);
}

static void put_all(const struct move *move, uintptr_t to, struct sti_mapping *list)
{
    while (list != NULL) {
        struct sti_mapping *part = list;
        list = part->next;
        put(move, to, part);
    }
}

/* It has been done. */
static void follow(const struct move *move, uintptr_t to)
{
    struct sti_mapping *old = move->stays ? NULL : sti_mapping_take_all(move->begin, move->begin + move->size);
    put_all(move, to, move->parts);
    sti_mapping_drop_all(old);
}

/* These pages are where they were to go. */
static void follow_some(const struct move *move, const struct sti_mapping *part, uintptr_t begin, uintptr_t end)
{
    uintptr_t place = move->to + (begin - move->begin);
    sti_mapping_cut(begin, end);
    sti_mapping_cut(place, place + (end - begin));
    if (part->owner == NULL)
        sti_mapping_drop_all(sti_mapping_take_all(place, place + (end - begin)));
    put_all(move, move->to, sti_mapping_take_all(begin, end));
}

/* It has failed, and may have been done in part. What is left behind by one that leaves the old pages cannot be told
 * from what was claimed. */
static void follow_failed(const struct move *move)
{
    const struct sti_mapping *parts = may_have_holes(move) && !move->stays ? move->parts : NULL;
    for (const struct sti_mapping *part = parts; part != NULL; part = part->next) {
        for (uintptr_t at = sti_place_mapped_end(part->begin, part->end), next; at < part->end;) {
            next = sti_place_free_end(at, part->end);
            follow_some(move, part, at, next);
            at = sti_place_mapped_end(next, part->end);
        }
    }
    if (move->new_size < move->size)
        sti_place_give_up(move->begin + move->new_size, move->begin + move->size);
    if (has_place(move))
        sti_place_give_up(move->to, move->to + move->new_size);
}

static void *move_in_record(struct move *move, size_t old_length, size_t new_length)
{
    void *made = move_plainly(move, old_length, new_length);
    int saved_errno = errno;
    if (made != MAP_FAILED) {
        follow(move, (uintptr_t)made);
        move->parts = NULL;
    } else {
        follow_failed(move);
    }
    errno = saved_errno;
    return made;
}

static void *move_noted(struct move *move, size_t old_length, size_t new_length)
{
    if (!sti_mapping_lock())
        return sti_mapping_fail(NULL);
    size_t paid = atomic_load_explicit(&sti_mapping_count, memory_order_relaxed) + move->paid;
    bool is_ready = cut(move) && list_parts(move) && claim_places(move);
    void *made = is_ready ? move_in_record(move, old_length, new_length) : sti_mapping_fail(NULL);
    sti_mapping_drop_all(move->parts);
    sti_mapping_join(move->begin, move->begin + move->size);
    if (has_place(move))
        sti_mapping_join(move->to, move->to + move->new_size);
    sti_mapping_charge_records(move->thread, paid);
    sti_mapping_unlock();
    return made;
}

/* Bytes that count. With the lock. */
static size_t counted(uintptr_t begin, uintptr_t end)
{
    size_t count = 0;
    const struct sti_mapping *mapping = sti_mapping_first(begin, end);
    for (; mapping != NULL; mapping = sti_mapping_first(mapping->end, end)) {
        uintptr_t first = mapping->begin > begin ? mapping->begin : begin;
        uintptr_t last = mapping->end < end ? mapping->end : end;
        count += mapping->kind == STI_MAPPING_CHARGED ? last - first : 0;
    }
    return count;
}

/* Bytes that are to be charged for it: pages, or the record of a second mapping, in which are the same ones or none. */
static size_t growth(const struct move *move)
{
    if (move->size == 0 || (!move->stays && move->new_size <= move->size) || !sti_mapping_lock())
        return 0;
    uintptr_t end = move->begin + move->size;
    size_t last = counted(end - STI_MAPPING_PAGE, end);
    size_t grown = move->stays ? counted(move->begin, end) : last > 0 ? move->new_size - move->size : 0;
    sti_mapping_unlock();
    return grown;
}

static bool charge(struct move *move, const void *caller)
{
    size_t grown = growth(move);
    move->paid = grown > 0 ? grown / sizeof(struct sti_mapping) : move->stays;
    if (grown > 0)
        return sti_meter_charge_pages(move->thread, grown, caller);
    return !move->stays || sti_record_charge_to(move->thread, sizeof(struct sti_mapping), caller);
}

static void *move_in_task(struct move *move, size_t old_length, size_t new_length, const void *caller)
{
    bool is_kept = sti_meter_is_kept_block(move->thread, caller);
    if (!charge(move, caller))
        return sti_mapping_fail(NULL);
    if (move->size == 0 && !is_kept && (move->copier = sti_mapped_of(move->thread->scope)) == NULL)
        return sti_mapping_fail(NULL);
    return move_noted(move, old_length, new_length);
}

static bool is_valid(const struct move *move)
{
    bool is_place = move->to % STI_MAPPING_PAGE == 0 && move->to + move->new_size > move->to;
    return move->begin % STI_MAPPING_PAGE == 0 && move->new_size > 0 && move->size <= STI_MAPPING_LARGEST &&
           (is_place || !has_place(move));
}

void *mremap(void *address, size_t old_length, size_t new_length, int flags, ...)
{
    struct move move = {
        .begin = (uintptr_t)address,
        .size = sti_mapping_round_up(old_length, STI_MAPPING_PAGE),
        .new_size = sti_mapping_round_up(new_length, STI_MAPPING_PAGE),
        .flags = flags,
        .stays = old_length == 0 || (flags & MREMAP_DONTUNMAP) != 0,
        .thread = sti_mapping_asker(STI_CALLER()),
    };
    if ((flags & (MREMAP_FIXED | MREMAP_DONTUNMAP)) != 0) {
        va_list arguments;
        va_start(arguments, flags);
        move.to = (uintptr_t)va_arg(arguments, void *);
        va_end(arguments);
    }
    bool is_copied = move.size == 0 && move.thread != NULL;
    if ((STI_LIKELY(!sti_mapping_any()) && !is_copied) || !is_valid(&move))
        return move_plainly(&move, old_length, new_length);
    return move.thread != NULL ? move_in_task(&move, old_length, new_length, STI_CALLER())
                               : move_noted(&move, old_length, new_length);
}
