/* SPDX-License-Identifier: MIT
 *
 * Where plain tasks wait: the submission queue and the work-stealing deque; see queue.h. */
#include "queue.h"

#include <stddef.h>
#include <stdint.h>

#include "alloc/platform/process.h"

/* --- A bounded queue for many producers and many consumers, after Vyukov. head and tail count all pops and pushes so
 * far; position p belongs to slot p modulo the capacity. A slot's turn says whose turn it is there:
 *
 *   turn == p               empty: for the push at position p, which moves tail from p to p+1 to get it
 *   turn == p + 1           full: for the pop at position p, which moves head from p to p+1 to get it
 *   turn == p + capacity    empty again: for the push one round later
 *
 * Moving tail or head only decides who; relaxed. The entry is published by the store of turn (release) and read after
 * the load of turn (acquire), and the same pair hands the empty slot back.
 *
 * Why not Concurrency Kit's ring: its producers finish in the order of their tickets, each spinning until the one
 * before it has. With more threads than processors that one is often not running, and the others spin through their
 * time slices: four producers and two workers on two busy processors were not done with 80,000 tasks after a minute.
 * Here that takes half a second: a producer that is delayed half-way delays only the pops behind it. */

static struct sti_slot *cell_of(struct sti_queue *queue, size_t position)
{
    return &queue->slots[position & queue->mask];
}

/* How far a slot's turn is ahead of the one that is looked for; negative: it has not come yet. */
static intptr_t turns_ahead(struct sti_slot *slot, size_t turn)
{
    return (intptr_t)(atomic_load_explicit(&slot->turn, memory_order_acquire) - turn);
}

bool sti_queue_init(struct sti_queue *queue, size_t capacity)
{
    size_t slots = 2;
    while (slots < capacity)
        slots *= 2;
    queue->slots = sti_process_malloc(slots * sizeof *queue->slots);
    if (queue->slots == NULL)
        return false;
    for (size_t i = 0; i < slots; i++) {
        atomic_init(&queue->slots[i].turn, i);
        atomic_init(&queue->slots[i].entry, NULL);
    }
    queue->mask = slots - 1;
    atomic_init(&queue->tail, 0);
    atomic_init(&queue->head, 0);
    return true;
}

void sti_queue_end(struct sti_queue *queue)
{
    sti_process_free(queue->slots);
}

bool sti_queue_push(struct sti_queue *queue, void *entry)
{
    size_t position = atomic_load_explicit(&queue->tail, memory_order_relaxed);
    for (;;) {
        struct sti_slot *slot = cell_of(queue, position);
        intptr_t ahead = turns_ahead(slot, position);
        if (ahead < 0)
            return false;
        if (ahead > 0) {
            position = atomic_load_explicit(&queue->tail, memory_order_relaxed);
        } else if (atomic_compare_exchange_weak_explicit(&queue->tail, &position, position + 1, memory_order_relaxed,
                                                         memory_order_relaxed)) {
            atomic_store_explicit(&slot->entry, entry, memory_order_release);
            atomic_store_explicit(&slot->turn, position + 1, memory_order_release);
            return true;
        }
    }
}

void *sti_queue_pop(struct sti_queue *queue)
{
    size_t position = atomic_load_explicit(&queue->head, memory_order_relaxed);
    for (;;) {
        struct sti_slot *slot = cell_of(queue, position);
        intptr_t ahead = turns_ahead(slot, position + 1);
        if (ahead < 0)
            return NULL;
        if (ahead > 0) {
            position = atomic_load_explicit(&queue->head, memory_order_relaxed);
        } else if (atomic_compare_exchange_weak_explicit(&queue->head, &position, position + 1, memory_order_relaxed,
                                                         memory_order_relaxed)) {
            void *entry = atomic_load_explicit(&slot->entry, memory_order_relaxed);
            atomic_store_explicit(&slot->turn, position + queue->mask + 1, memory_order_release);
            return entry;
        }
    }
}

bool sti_queue_is_ready(struct sti_queue *queue)
{
    size_t position = atomic_load_explicit(&queue->head, memory_order_relaxed);
    return turns_ahead(cell_of(queue, position), position + 1) >= 0;
}

bool sti_queue_is_empty(struct sti_queue *queue)
{
    /* head first (acquire keeps the order): tail can only have moved on since, so equal means empty. */
    size_t head = atomic_load_explicit(&queue->head, memory_order_acquire);
    return atomic_load_explicit(&queue->tail, memory_order_relaxed) == head;
}

/* That the slot is still full when its entry has been read says that it was in after the visitor had begun. Whoever
 * reads the entry of a later round (acquire; stored with release) sees that the slot has been emptied meanwhile. */
void sti_queue_look(struct sti_queue *queue, void (*look)(void *entry, void *arg), void *arg)
{
    size_t head = atomic_load_explicit(&queue->head, memory_order_acquire);
    size_t tail = atomic_load_explicit(&queue->tail, memory_order_acquire);
    for (size_t position = head; position - head < queue->mask + 1 && position != tail; position++) {
        struct sti_slot *slot = cell_of(queue, position);
        bool full = turns_ahead(slot, position + 1) == 0;
        void *entry = atomic_load_explicit(&slot->entry, memory_order_acquire);
        if (full && turns_ahead(slot, position + 1) == 0)
            look(entry, arg);
    }
}

size_t sti_queue_length(const struct sti_queue *queue)
{
    size_t head = atomic_load_explicit(&queue->head, memory_order_acquire);
    size_t length = atomic_load_explicit(&queue->tail, memory_order_relaxed) - head;
    return length > queue->mask ? queue->mask + 1 : length;
}

/* --- The deque of Chase and Lev (2005), with a ring of fixed size. The memory orders follow Lê, Pop, Cohen and Zappa
 * Nardelli (2013), with their sequentially consistent fences moved into the accesses themselves, so that
 * ThreadSanitizer can follow them; on x86 an exchange takes the place of a fence.
 *
 * Entries live in the indexes top <= i < bottom, in slot i modulo the capacity. top only grows; only a successful
 * compare-and-swap moves it, and who moves it from t to t+1 owns entry t. The owner moves bottom.
 *
 *   push   slot[b] = entry; bottom = b+1 (release)       a thief that reads b+1 (acquire) sees the slot.
 *   steal  t = top; b = bottom; if t < b: read slot[t], then move top from t to t+1.
 *   take   bottom = b-1; t = top;
 *          t <  b-1: no thief can get entry b-1, it is the owner's without more ado;
 *          t == b-1: the last entry: whoever moves top has it;
 *          t >  b-1: empty.
 *
 * The one race that needs sequential consistency: take must not claim entry b-1 in silence while a thief moves top
 * there. It is a handshake (alloc/platform/thread.h): the owner stores bottom, then loads top; the thief loads top (or
 * has moved it), then loads bottom. If the owner's load of top came before top reached b-1, then so did its store of
 * bottom, and the thief that finds top at b-1 finds bottom at b-1 too, or a later value of it: nothing to steal.
 *
 * Reuse of a slot: push finds room only if top (acquire) has passed the slot's old entry. The thief that moved top read
 * the slot before (the seq_cst compare-and-swap is a release); one that read it later fails its compare-and-swap. */

static void *_Atomic *entry_of(struct sti_deque *deque, int64_t index)
{
    return &deque->slots[(uint64_t)index % STI_DEQUE_CAPACITY];
}

void sti_deque_init(struct sti_deque *deque)
{
    atomic_init(&deque->top, 0);
    atomic_init(&deque->bottom, 0);
    for (size_t i = 0; i < STI_DEQUE_CAPACITY; i++)
        atomic_init(&deque->slots[i], NULL);
}

bool sti_deque_push(struct sti_deque *deque, void *entry)
{
    int64_t bottom = atomic_load_explicit(&deque->bottom, memory_order_relaxed);
    int64_t top = atomic_load_explicit(&deque->top, memory_order_acquire);
    if (bottom - top >= STI_DEQUE_CAPACITY)
        return false;
    atomic_store_explicit(entry_of(deque, bottom), entry, memory_order_relaxed);
    atomic_store_explicit(&deque->bottom, bottom + 1, memory_order_release);
    return true;
}

void *sti_deque_take(struct sti_deque *deque)
{
    int64_t last = atomic_load_explicit(&deque->bottom, memory_order_relaxed) - 1;
    /* top only grows: what looks empty by an old value of it is empty. */
    if (atomic_load_explicit(&deque->top, memory_order_relaxed) > last)
        return NULL;
    atomic_store_explicit(&deque->bottom, last, memory_order_seq_cst);
    int64_t top = atomic_load_explicit(&deque->top, memory_order_seq_cst);
    if (top < last)
        return atomic_load_explicit(entry_of(deque, last), memory_order_relaxed);
    void *entry = NULL;
    if (top == last &&
        atomic_compare_exchange_strong_explicit(&deque->top, &top, top + 1, memory_order_seq_cst, memory_order_relaxed))
        entry = atomic_load_explicit(entry_of(deque, last), memory_order_relaxed);
    /* Empty now, with top at last + 1. release like every store of bottom: who reads it sees all slots below it. */
    atomic_store_explicit(&deque->bottom, last + 1, memory_order_release);
    return entry;
}

void *sti_deque_steal(struct sti_deque *deque)
{
    for (;;) {
        int64_t top = atomic_load_explicit(&deque->top, memory_order_seq_cst);
        int64_t bottom = atomic_load_explicit(&deque->bottom, memory_order_seq_cst);
        if (top >= bottom)
            return NULL;
        void *entry = atomic_load_explicit(entry_of(deque, top), memory_order_relaxed);
        /* A failure means that somebody else got an entry: look again. */
        if (atomic_compare_exchange_strong_explicit(&deque->top, &top, top + 1, memory_order_seq_cst,
                                                    memory_order_relaxed))
            return entry;
    }
}

bool sti_deque_is_empty(struct sti_deque *deque)
{
    int64_t top = atomic_load_explicit(&deque->top, memory_order_relaxed);
    return atomic_load_explicit(&deque->bottom, memory_order_relaxed) <= top;
}

/* A slot between top and bottom, in this order, holds what is in now or was in when top was read, or came since. */
void sti_deque_look(struct sti_deque *deque, void (*look)(void *entry, void *arg), void *arg)
{
    int64_t first = atomic_load_explicit(&deque->top, memory_order_seq_cst);
    for (int64_t i = first; i - first < STI_DEQUE_CAPACITY; i++) {
        int64_t top = atomic_load_explicit(&deque->top, memory_order_seq_cst);
        if (i >= atomic_load_explicit(&deque->bottom, memory_order_seq_cst))
            return;
        if (i >= top)
            look(atomic_load_explicit(entry_of(deque, i), memory_order_relaxed), arg);
    }
}

size_t sti_deque_length(const struct sti_deque *deque)
{
    int64_t top = atomic_load_explicit(&deque->top, memory_order_relaxed);
    int64_t bottom = atomic_load_explicit(&deque->bottom, memory_order_relaxed);
    int64_t length = bottom > top ? bottom - top : 0;
    return length > STI_DEQUE_CAPACITY ? STI_DEQUE_CAPACITY : (size_t)length;
}
