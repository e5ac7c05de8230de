/* SPDX-License-Identifier: MIT
 *
 * The override of mremap, so that what a task has mapped is still followed where it is moved, grown and shrunk
 * (mapping.h). Any thread; as little as possible where no task has mapped anything. */
#include "override_mapping.h"

#include <stdarg.h>
#include <stint/api.h>

#include "alloc/base/module.h"
#include "alloc/rollback/place.h"
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

static bool cut(const struct move *move)
{
    size_t stays = move->size < move->new_size ? move->size : move->new_size;
    return sti_mapping_cut(move->begin, move->begin + move->size) &&
           sti_mapping_cut(move->begin, move->begin + stays) &&
           (!has_place(move) || sti_mapping_cut(move->to, move->to + move->new_size));
}

/* The last of what is moved: what is added to it is of its kind. */
static struct sti_mapping *last_of(uintptr_t begin, size_t size)
{
    uintptr_t last = size > 0 ? begin + size - 1 : begin;
    return sti_mapping_first(last, last + 1);
}

/* For what a task has mapped. */
static bool claim_place(const struct move *move)
{
    const struct sti_mapping *last = last_of(move->begin, move->size);
    struct sti_mapped *owner = last != NULL && move->size > 0 ? last->owner : move->copier;
    return !has_place(move) || owner == NULL || sti_place_claim(move->to, move->to + move->new_size, owner);
}

/* What has been taken off, at its new place. Returns the rest, which is no more. */
static struct sti_mapping *put_at(const struct move *move, struct sti_mapping *list, uintptr_t to)
{
    struct sti_mapping *rest = NULL;
    while (list != NULL) {
        struct sti_mapping *mapping = list;
        list = mapping->next;
        size_t offset = mapping->begin - move->begin;
        if (offset < move->new_size) {
            bool continues = mapping->continues && offset > 0;
            sti_mapping_put(mapping, to + offset, to + (mapping->end - move->begin), mapping->kind, mapping->owner);
            mapping->continues = continues;
        } else {
            mapping->next = rest;
            rest = mapping;
        }
    }
    return rest;
}

/* The pages are at to, and still where they were, or once more there. spare becomes part of the tree, or is dropped. */
static void put_second(const struct move *move, uintptr_t to, struct sti_mapping *spare)
{
    const struct sti_mapping *last = move->size > 0 ? last_of(move->begin, move->size) : NULL;
    if (last != NULL)
        sti_mapping_put(spare, to, to + move->new_size, last->kind, last->owner);
    else if (move->copier != NULL)
        sti_mapping_put(spare, to, to + move->new_size, STI_MAPPING_FREE, move->copier);
    else
        sti_mapping_drop(spare);
}

static void put_moved(const struct move *move, uintptr_t to, struct sti_mapping *old)
{
    sti_mapping_drop_all(put_at(move, old, to));
    struct sti_mapping *last = last_of(to, move->size);
    if (move->new_size > move->size && last != NULL)
        sti_mapping_grow(last, to + move->new_size);
}

/* It has been done. */
static void follow(const struct move *move, uintptr_t to, struct sti_mapping *spare)
{
    struct sti_mapping *old = move->stays ? NULL : sti_mapping_take_all(move->begin, move->begin + move->size);
    struct sti_mapping *before = sti_mapping_take_all(to, to + move->new_size);
    if (move->stays) {
        put_second(move, to, spare);
    } else {
        put_moved(move, to, old);
        sti_mapping_drop(spare);
    }
    if (has_place(move))
        sti_place_settle(to, to + move->new_size, before);
    sti_mapping_drop_all(before);
}

static void *move_in_record(const struct move *move, size_t old_length, size_t new_length, struct sti_mapping *spare)
{
    void *made = move_plainly(move, old_length, new_length);
    int saved_errno = errno;
    if (made != MAP_FAILED) {
        follow(move, (uintptr_t)made, spare);
    } else {
        sti_mapping_drop(spare);
        if (has_place(move))
            sti_place_give_up(move->to, move->to + move->new_size);
    }
    errno = saved_errno;
    return made;
}

static void *move_noted(const struct move *move, size_t old_length, size_t new_length)
{
    struct sti_mapping *spare = sti_mapping_new();
    if (spare == NULL || !sti_mapping_lock())
        return sti_mapping_fail(spare);
    size_t paid = atomic_load_explicit(&sti_mapping_count, memory_order_relaxed) + move->paid;
    bool is_ready = cut(move) && claim_place(move);
    void *made = is_ready ? move_in_record(move, old_length, new_length, spare) : sti_mapping_fail(spare);
    sti_mapping_join(move->begin, move->begin + move->size);
    if (has_place(move))
        sti_mapping_join(move->to, move->to + move->new_size);
    sti_mapping_charge_records(move->thread, paid);
    sti_mapping_unlock();
    return made;
}

/* Bytes that are to be charged for it: pages, or the record of a second mapping, in which are the same ones or none. */
static size_t growth(const struct move *move)
{
    if (move->size == 0 || !sti_mapping_lock())
        return 0;
    const struct sti_mapping *last = last_of(move->begin, move->size);
    bool counts = last != NULL && last->kind == STI_MAPPING_CHARGED;
    sti_mapping_unlock();
    if (!counts)
        return 0;
    return move->stays ? move->new_size : move->new_size > move->size ? move->new_size - move->size : 0;
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
