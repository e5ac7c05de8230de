/* SPDX-License-Identifier: MIT
 *
 * The split deque, after that of Lace (van Dijk and van de Pol 2014). An outstanding fork has a slot, whose index
 * counts from the oldest:
 *
 *   0 <= index < top            stolen: a thief runs it or has run it, its owner has not joined it. Or a hole.
 *   top <= index < split        public: the thread that moves top over it has it.
 *   split <= index < depth      private: the owner's. Or a hole.
 *
 * depth (there the address of a slot, here its index) is the owner's alone, so a fork and the join of a private one are
 * plain loads and stores. top and split are one atomic word, bounds, and each change of it is a compare-and-swap of the
 * whole:
 *
 *   share   (owner)  split up      release: a thief that takes one of these slots sees the subtask, its offer
 *                                  and all that the task wrote before.
 *   take    (owner)  split down    fails if top has passed the slot: then it is stolen.
 *   steal   (thief)  top up by 1   acquire. A second thief reads the first one's change: read-modify-writes go on with
 *                                  the release sequence of the owner's, so it sees as much.
 *   forget  (owner)  both down, when the newest forks were stolen and have been joined; and both up over holes. Only
 *                    where top == split: then no thief changes the word, and a store is enough.
 *
 * With one word there is no moment at which owner and thief both believe in having the last entry, so no fence is
 * needed (Chase and Lev's deque needs one in every take), and several entries change sides at once.
 *
 * Slots are used again, so a word can come back: with the same top and split, but other entries. Two things keep that
 * harmless. A thief reads the offer only after it has moved top: the slot is its own then, until the owner has seen the
 * subtask's end (acquire of the offer's state). And each change by the owner gives the word a new tag, so a thief that
 * slept in between fails; only the group that it looked up before could be an old one, after exactly 2^32 changes.
 *
 * Holes. A fork that is joined before newer ones leaves its slot empty. No hole is ever public. While there are any,
 * all joins take the slow path, which gives the slots back as soon as nothing newer is left.
 *
 * Asking. A thief that finds nothing public stores into limit and floor values with which the owner's next fork or join
 * takes its slow path; the owner looks, shares, and sets both back. Relaxed: what is asked for is only a look. A
 * question that is overwritten by the owner's setting back has been answered: the owner sets back only when something
 * is public. How a worker that sleeps after asking is not forgotten is said in park.h. */
#include "split.h"

struct bounds {
    uint16_t top;
    uint16_t split;
    uint32_t tag;
};

static uint64_t bounds_packed(struct bounds bounds)
{
    return (uint64_t)bounds.tag << 32 | (uint64_t)bounds.split << 16 | bounds.top;
}

static struct bounds bounds_unpacked(uint64_t word)
{
    return (struct bounds){ (uint16_t)word, (uint16_t)(word >> 16), (uint32_t)(word >> 32) };
}

static struct bounds bounds_next(struct bounds bounds, size_t top, size_t split)
{
    return (struct bounds){ (uint16_t)top, (uint16_t)split, bounds.tag + 1 };
}

/* --- The owner ---------------------------------------------------------------------------------------------------- */

static void set_floor(struct sti_split *split)
{
    size_t floor = split->holes > 0 ? SIZE_MAX : sti_split_place(split, split->split);
    __atomic_store_n(&split->forks.floor, floor, __ATOMIC_RELAXED);
}

static void stop_asking(struct sti_split *split)
{
    __atomic_store_n(&split->forks.limit, sti_split_place(split, STI_SPLIT_CAPACITY), __ATOMIC_RELAXED);
    set_floor(split);
}

void sti_split_init(struct sti_split *split)
{
    split->forks.depth = STI_SPLIT_BOTTOM(split);
    split->split = 0;
    split->base = 0;
    split->holes = 0;
    stop_asking(split); /* thieves that look through all slots for workers may ask already */
    split->task = NULL;
    atomic_init(&split->bounds, 0);
}

bool sti_split_is_asked(const struct sti_split *split)
{
    return __atomic_load_n(&split->forks.limit, __ATOMIC_RELAXED) == 0;
}

/* Store floor anew after a change of split or holes; a question stays. */
static void update_floor(struct sti_split *split)
{
    if (!sti_split_is_asked(split))
        set_floor(split);
}

struct stint_fork_slot_ *sti_split_free_slot(struct sti_split *split)
{
    size_t depth = sti_split_depth(split);
    return depth < STI_SPLIT_CAPACITY ? &split->forks.slots[depth] : NULL;
}

size_t sti_split_push(struct sti_split *split)
{
    size_t place = split->forks.depth;
    stint_fork_push_(&split->forks, place);
    return place;
}

/* Where nothing is public: so only the owner changes the word. */
static void set_bounds(struct sti_split *split, size_t both)
{
    struct bounds bounds = bounds_unpacked(atomic_load_explicit(&split->bounds, memory_order_relaxed));
    atomic_store_explicit(&split->bounds, bounds_packed(bounds_next(bounds, both, both)), memory_order_release);
    split->split = both;
}

/* Make the slots up to end public. */
static void raise_split(struct sti_split *split, size_t end)
{
    uint64_t word = atomic_load_explicit(&split->bounds, memory_order_relaxed);
    struct bounds bounds;
    do
        bounds = bounds_unpacked(word);
    while (!atomic_compare_exchange_weak_explicit(&split->bounds, &word,
                                                  bounds_packed(bounds_next(bounds, bounds.top, end)),
                                                  memory_order_release, memory_order_relaxed));
    split->split = end;
}

/* Make a public slot private again, and of the ones that are older the newer half, which will be joined next. False:
 * it is stolen. */
static bool lower_split(struct sti_split *split, size_t index)
{
    uint64_t word = atomic_load_explicit(&split->bounds, memory_order_relaxed);
    struct bounds bounds;
    size_t end;
    do {
        bounds = bounds_unpacked(word);
        if (bounds.top > index)
            return false;
        end = bounds.top + (index - bounds.top) / 2;
    } while (!atomic_compare_exchange_weak_explicit(&split->bounds, &word,
                                                    bounds_packed(bounds_next(bounds, bounds.top, end)),
                                                    memory_order_release, memory_order_relaxed));
    split->split = end;
    return true;
}

static void pass_holes(struct sti_split *split, size_t end)
{
    size_t index = split->split;
    while (split->holes > 0 && index < end && split->forks.slots[index].fork == NULL)
        index++;
    if (index > split->split)
        set_bounds(split, index);
}

static size_t first_hole(const struct sti_split *split, size_t end)
{
    size_t index = split->holes > 0 ? split->split : end;
    while (index < end && split->forks.slots[index].fork != NULL)
        index++;
    return index;
}

static const struct stint_fork_kind_ *slot_kind(const struct stint_fork_slot_ *slot)
{
    bool is_typed = ((uintptr_t)slot->fork & 1) != 0;
    return is_typed ? (const void *)((const char *)slot->fork - offsetof(struct stint_fork_kind_, odd)) : NULL;
}

static void slot_offer(struct sti_split *split, size_t index, struct sti_group *group)
{
    struct stint_fork_slot_ *slot = &split->forks.slots[index];
    const struct stint_fork_kind_ *kind = slot_kind(slot);
    const stint_subtask *subtask = slot->fork;
    struct sti_offer *made = &split->offers[index];
    made->fn = kind != NULL ? kind->call : subtask->fn_;
    made->arg = kind != NULL ? slot->payload : subtask->arg_;
    made->task = split->task;
    atomic_store_explicit(&made->group, group, memory_order_relaxed);
    atomic_store_explicit(&made->thief, NULL, memory_order_relaxed);
    atomic_store_explicit(&made->state, STI_OFFER_SHARED, memory_order_relaxed);
}

static void make_public(struct sti_split *split, size_t end, struct sti_group *group)
{
    for (size_t index = split->split; index < end; index++)
        slot_offer(split, index, group);
    raise_split(split, end);
}

bool sti_split_share(struct sti_split *split, size_t end, struct sti_group *group)
{
    if (!sti_split_is_public(split)) {
        pass_holes(split, end);
        size_t begin = split->split;
        end = first_hole(split, end);
        if (begin >= end)
            return false;
        make_public(split, begin + (end - begin + 1) / 2, group);
    }
    stop_asking(split);
    return true;
}

bool sti_split_share_all(struct sti_split *split, struct sti_group *group)
{
    size_t depth = sti_split_depth(split);
    if (!sti_split_is_public(split))
        pass_holes(split, depth);
    size_t end = first_hole(split, depth);
    if (split->split >= end)
        return false;
    make_public(split, end, group);
    stop_asking(split);
    return true;
}

bool sti_split_holds(const struct sti_split *split, size_t place, const void *fork)
{
    return place >= sti_split_place(split, split->base) && place < split->forks.depth &&
           split->forks.slots[sti_split_index(split, place)].fork == fork;
}

bool sti_split_is_typed(const struct sti_split *split, size_t index)
{
    return slot_kind(&split->forks.slots[index]) != NULL;
}

uintptr_t sti_split_frame(const struct sti_split *split, size_t index)
{
    const struct stint_fork_slot_ *slot = &split->forks.slots[index];
    return (uintptr_t)(slot_kind(slot) != NULL ? slot->frame : slot->fork);
}

/* The slots of holes that have nothing newer above them are free again. */
static void split_give_back(struct sti_split *split)
{
    size_t depth = sti_split_depth(split);
    while (split->holes > 0 && split->forks.slots[depth - 1].fork == NULL) {
        depth--;
        split->holes--;
    }
    split->forks.depth = sti_split_place(split, depth);
    if (depth < split->split)
        set_bounds(split, depth);
    update_floor(split);
}

static void leave_hole(struct sti_split *split, size_t index)
{
    split->forks.slots[index].fork = NULL;
    split->holes++;
    split_give_back(split);
}

bool sti_split_take(struct sti_split *split, size_t index)
{
    if (index < split->split && !lower_split(split, index))
        return false;
    leave_hole(split, index);
    return true;
}

void sti_split_forget(struct sti_split *split, size_t index)
{
    leave_hole(split, index);
}

struct sti_split_below sti_split_enter(struct sti_split *split)
{
    struct sti_split_below below = { .base = split->base, .holes = split->holes };
    size_t depth = sti_split_depth(split);
    uint64_t word = atomic_load_explicit(&split->bounds, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&split->bounds, &word,
                                                  bounds_packed(bounds_next(bounds_unpacked(word), depth, depth)),
                                                  memory_order_release, memory_order_relaxed))
        ;
    below.bounds = word;
    split->split = depth;
    split->base = depth;
    split->holes = 0;
    update_floor(split);
    return below;
}

void sti_split_leave(struct sti_split *split, struct sti_split_below below)
{
    struct bounds now = bounds_unpacked(atomic_load_explicit(&split->bounds, memory_order_relaxed));
    struct bounds before = bounds_unpacked(below.bounds);
    atomic_store_explicit(&split->bounds, bounds_packed(bounds_next(now, before.top, before.split)),
                          memory_order_release);
    split->split = before.split;
    split->base = below.base;
    split->holes = below.holes;
    update_floor(split);
}

/* --- Any other thread --------------------------------------------------------------------------------------------- */

static bool slot_is_of(const struct sti_split *split, size_t index, const struct sti_group *group)
{
    return atomic_load_explicit(&split->offers[index].group, memory_order_relaxed) == group;
}

struct sti_offer *sti_split_steal(struct sti_split *split, const struct sti_group *group)
{
    uint64_t word = atomic_load_explicit(&split->bounds, memory_order_relaxed);
    struct bounds bounds;
    do {
        bounds = bounds_unpacked(word);
        if (bounds.top >= bounds.split || (group != NULL && !slot_is_of(split, bounds.top, group)))
            return NULL;
        bounds.top++;
    } while (!atomic_compare_exchange_weak_explicit(&split->bounds, &word, bounds_packed(bounds), memory_order_acquire,
                                                    memory_order_relaxed));
    return &split->offers[bounds.top - 1];
}

void sti_split_ask(struct sti_split *split)
{
    /* Only read where it was asked before: so a searching thief does not take the owner's cache line away. */
    if (__atomic_load_n(&split->forks.limit, __ATOMIC_RELAXED) != 0)
        __atomic_store_n(&split->forks.limit, 0, __ATOMIC_RELAXED);
    if (__atomic_load_n(&split->forks.floor, __ATOMIC_RELAXED) != SIZE_MAX)
        __atomic_store_n(&split->forks.floor, SIZE_MAX, __ATOMIC_RELAXED);
}

bool sti_split_is_public(const struct sti_split *split)
{
    struct bounds bounds = bounds_unpacked(atomic_load_explicit(&split->bounds, memory_order_relaxed));
    return bounds.top < bounds.split;
}

bool sti_split_offers(const struct sti_split *split, const struct sti_group *group)
{
    struct bounds bounds = bounds_unpacked(atomic_load_explicit(&split->bounds, memory_order_relaxed));
    return bounds.top < bounds.split && slot_is_of(split, bounds.top, group);
}
