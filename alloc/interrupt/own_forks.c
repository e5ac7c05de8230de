/* SPDX-License-Identifier: MIT
 *
 * Forks that only their own thread can run; see own_forks.h. Thread of the forks only.
 *
 * One word for each, in the order in which they were made. One that is joined before newer ones leaves a hole, whose
 * address is nobody's. */
#include "own_forks.h"

#include "alloc/base/process.h"
#include "alloc/base/scope_state.h"
#include "alloc/base/thread.h"
#include "left_frames.h"

#define FIRST_CAPACITY ((size_t)64)
#define CAPACITY_MAX ((size_t)1 << 20) /* who has more outstanding is likely to have forgotten them */

#define HOLE ((uintptr_t)0)
#define TYPED ((uintptr_t)1) /* no address of either kind is odd */

_Thread_local size_t sti_own_forks;

static _Thread_local uintptr_t *notes;
static _Thread_local size_t capacity;

static bool make_room(void)
{
    if (sti_own_forks < capacity)
        return true;
    size_t wanted = capacity == 0 ? FIRST_CAPACITY : 2 * capacity;
    uintptr_t *grown = wanted <= CAPACITY_MAX ? sti_process_realloc(notes, wanted * sizeof *notes) : NULL;
    if (grown == NULL)
        return false;
    notes = grown;
    capacity = wanted;
    return true;
}

static size_t add(uintptr_t note)
{
    if (sti_thread_metered == NULL || !make_room())
        return STI_OWN_FORK_UNNOTED;
    notes[sti_own_forks] = note;
    return sti_own_forks++;
}

size_t sti_own_fork_note_plain(const void *subtask)
{
    return add((uintptr_t)subtask);
}

size_t sti_own_fork_note_typed(uintptr_t stack_pointer)
{
    return add(stack_pointer | TYPED);
}

/* The newest is never one. */
static void pass_holes(void)
{
    while (sti_own_forks > 0 && notes[sti_own_forks - 1] == HOLE)
        sti_own_forks--;
}

static void remove_at(size_t place)
{
    notes[place] = HOLE;
    pass_holes();
}

bool sti_own_fork_take_plain(size_t place, const void *subtask)
{
    bool is_there = place < sti_own_forks && notes[place] == (uintptr_t)subtask;
    if (is_there)
        remove_at(place);
    return is_there;
}

bool sti_own_fork_take_typed(size_t place)
{
    bool is_there = place < sti_own_forks && (notes[place] & TYPED) != 0;
    if (is_there)
        remove_at(place);
    return is_there;
}

void sti_own_forks_settle(const struct sti_scope *scope)
{
    if (sti_own_forks > scope->own_forks)
        sti_own_forks = scope->own_forks;
    pass_holes();
}

/* Of a frame between the one that is jumped to and the scope's: those before it are, too. */
static bool is_further_out(uintptr_t address, const struct sti_scope *scope, const struct sti_way *way)
{
    return address >= way->target && address < scope->frame;
}

static bool is_left(uintptr_t note, const struct sti_way *way)
{
    return (note & TYPED) != 0 ? sti_way_passes_frame(way, note & ~TYPED) : sti_way_passes(way, note);
}

void sti_own_forks_leave(const struct sti_scope *scope, const struct sti_way *way)
{
    for (size_t i = sti_own_forks; i-- > 0 && !is_further_out(notes[i], scope, way);) {
        if (is_left(notes[i], way))
            notes[i] = HOLE;
    }
    pass_holes();
}

void sti_own_forks_end_thread(void)
{
    sti_process_free(notes);
    notes = NULL;
    capacity = 0;
    sti_own_forks = 0;
}
