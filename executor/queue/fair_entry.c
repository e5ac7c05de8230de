/* SPDX-License-Identifier: MIT
 *
 * One entry of the fair queue, the table of them, and their turns; see fair_entry.h and fair_queue.h. Under the fair
 * queue's lock, but for the hints. */
#include "fair_entry.h"

#include <stddef.h>

#include "alloc/meter/account.h"
#include "alloc/platform/clock.h"
#include "alloc/platform/process.h"

/* --- One entry of the fair queue: its states, its time, what is charged to it. Under the fair queue's lock.
 *
 * Times (turns.h). A ring's now is the time of the entry that was last taken in turn, and never goes back. Who
 * becomes ready begins there, or at its own time if that is later: so nobody saves up what it did not want, and nobody
 * gets rid of what it has had by having nothing to wait for a moment. For that an entry is kept while its time is
 * ahead; when nothing is ready and nothing runs, nobody is owed anything, and all are forgotten.
 *
 * How long a task takes is not known when it begins. But if it were charged at its end only, several workers would all
 * take tasks of whoever has had least. So it is charged at its beginning what the entry's tasks have lately taken,
 * rather more than less, and at its end put right (as in 2DFQ: Mace and others 2016). A task that sleeps aside is
 * charged beforehand what it has used by then: its end may be far, and others of its entry begin meanwhile. If many
 * sleep, or are overdue and replaced, at once, their beginnings charge far more than workers could have done, and what
 * they give back at their ends would be owed to their entry: all others would wait for seconds. So no entry is owed
 * more than one task of each worker but one. */

#define WEIGHT_UNIT 100 /* that of an entry whose time goes like the clock */
#define MIN_COST 1000   /* nanoseconds: to take it out of the queue is work too */

static void fair_number_add(_Atomic unsigned *number, int amount)
{
    atomic_store_explicit(number, atomic_load_explicit(number, memory_order_relaxed) + (unsigned)amount,
                          memory_order_relaxed);
}

static struct sti_fair_entry_ring *fair_entry_ring_of(struct sti_fair_queue *fair_queue,
                                                      const struct sti_fair_entry *fair_entry)
{
    return &fair_queue->rings[fair_entry->key.kind];
}

static void fair_entry_hint(struct sti_fair_entry_ring *ring)
{
    if (ring->turns.first != NULL)
        atomic_store_explicit(&ring->first, ring->turns.first->time, memory_order_relaxed);
}

static void set_plain_time(struct sti_fair_queue *fair_queue, uint64_t time)
{
    fair_queue->plain->turn.time = time;
    atomic_store_explicit(&fair_queue->plain_time, time, memory_order_relaxed);
}

/* --- States ------------------------------------------------------------------------------------------------------- */

void sti_fair_entry_begin_ready(struct sti_fair_queue *fair_queue, struct sti_fair_entry *fair_entry)
{
    struct sti_fair_entry_ring *ring = fair_entry_ring_of(fair_queue, fair_entry);
    if (fair_entry->turn.link != NULL)
        sti_turns_remove(&ring->idle, &fair_entry->turn);
    fair_entry->state = STI_FAIR_ENTRY_READY;
    fair_entry->turn.time = sti_time_later(fair_entry->turn.time, ring->now);
    sti_turns_put(&ring->turns, &fair_entry->turn);
    fair_entry_hint(ring);
    fair_number_add(&ring->ready, 1);
    fair_number_add(&fair_queue->ready, 1);
}

void sti_fair_entry_end_ready(struct sti_fair_queue *fair_queue, struct sti_fair_entry *fair_entry)
{
    struct sti_fair_entry_ring *ring = fair_entry_ring_of(fair_queue, fair_entry);
    sti_turns_remove(&ring->turns, &fair_entry->turn);
    fair_entry_hint(ring);
    fair_number_add(&ring->ready, -1);
    fair_number_add(&fair_queue->ready, -1);
}

void sti_fair_entry_hold_back(struct sti_fair_queue *fair_queue, struct sti_fair_entry *fair_entry, stint_account *full)
{
    sti_fair_entry_end_ready(fair_queue, fair_entry);
    fair_entry->state = STI_FAIR_ENTRY_HELD;
    if (fair_entry->since == 0)
        fair_entry->since = sti_clock_now();
    sti_fair_entry_enter_refused(fair_queue, fair_entry, full);
    sti_fair_number_set(&fair_queue->held, sti_fair_number_get(&fair_queue->held) + fair_entry->count);
}

void sti_fair_entry_end_holding_back(struct sti_fair_queue *fair_queue, struct sti_fair_entry *fair_entry)
{
    sti_account_await_no_more(fair_entry->refused->key.account);
    sti_fair_entry_leave_refused(fair_queue, fair_entry);
    sti_fair_number_set(&fair_queue->held, sti_fair_number_get(&fair_queue->held) - fair_entry->count);
}

void sti_fair_entry_put_back(struct sti_fair_entry_ring *ring, struct sti_turn *turns)
{
    while (turns != NULL) {
        struct sti_turn *turn = turns;
        turns = turn->next;
        sti_turns_put(&ring->turns, turn);
    }
    fair_entry_hint(ring);
}

void sti_fair_entry_lift_plain(struct sti_fair_queue *fair_queue)
{
    set_plain_time(fair_queue,
                   sti_time_later(fair_queue->plain->turn.time, fair_queue->rings[STINT_PRIORITY_NORMAL].now));
}

/* Forget those of the ring whose time has come. */
static void fair_entry_sweep(struct sti_fair_queue *fair_queue, struct sti_fair_entry_ring *ring)
{
    bool rests = ring->turns.first == NULL && ring->running == 0;
    struct sti_turn *first;
    while ((first = ring->idle.first) != NULL && (rests || !sti_time_is_before(ring->now, first->time))) {
        sti_turns_remove(&ring->idle, first);
        sti_fair_entry_free(fair_queue, sti_fair_entry_of(first));
    }
    if (rests && ring == &fair_queue->rings[STINT_PRIORITY_NORMAL])
        set_plain_time(fair_queue, ring->now);
}

/* Of one that waits for nothing. */
static void keep_or_forget(struct sti_fair_queue *fair_queue, struct sti_fair_entry *fair_entry)
{
    struct sti_fair_entry_ring *ring = fair_entry_ring_of(fair_queue, fair_entry);
    if (fair_entry->running == 0 && fair_entry != fair_queue->plain)
        sti_turns_put(&ring->idle, &fair_entry->turn);
    fair_entry_sweep(fair_queue, ring);
}

void sti_fair_entry_begin_idle(struct sti_fair_queue *fair_queue, struct sti_fair_entry *fair_entry)
{
    if (fair_entry->state == STI_FAIR_ENTRY_HELD)
        sti_fair_entry_end_holding_back(fair_queue, fair_entry);
    else
        sti_fair_entry_end_ready(fair_queue, fair_entry);
    fair_entry->state = STI_FAIR_ENTRY_IDLE;
    fair_entry->since = 0;
    keep_or_forget(fair_queue, fair_entry);
}

/* --- Time --------------------------------------------------------------------------------------------------------- */

static void set_time(struct sti_fair_queue *fair_queue, struct sti_fair_entry *fair_entry, uint64_t time)
{
    struct sti_fair_entry_ring *ring = fair_entry_ring_of(fair_queue, fair_entry);
    struct sti_turns *turns = fair_entry->state == STI_FAIR_ENTRY_READY ? &ring->turns
                              : fair_entry->state == STI_FAIR_ENTRY_HELD
                                  ? &fair_entry->refused->held[fair_entry->key.kind]
                                  : NULL;
    if (turns != NULL)
        sti_turns_remove(turns, &fair_entry->turn);
    fair_entry->turn.time = time;
    if (turns != NULL)
        sti_turns_put(turns, &fair_entry->turn);
    if (fair_entry == fair_queue->plain)
        set_plain_time(fair_queue, fair_entry->turn.time);
    else
        fair_entry_hint(ring);
}

/* The entry's time when that much more, or less, is charged. */
static uint64_t time_after(const struct sti_bill *bill, uint64_t used)
{
    return bill->fair_entry->turn.time +
           (uint64_t)((int64_t)(used - bill->charged) * WEIGHT_UNIT / (int64_t)bill->weight);
}

/* The earliest that an entry is left at. So much less than it was charged it has had by now if its tasks occupy all
 * workers but one, and the others of the ring that one. Tasks that sleep, are replaced, or were awaited by others of
 * the entry are charged besides: what is owed for those is lost. */
static uint64_t earliest_time(struct sti_fair_queue *fair_queue, const struct sti_fair_entry *fair_entry)
{
    uint64_t weight = sti_account_weight(fair_entry->key.account);
    uint64_t owed = fair_entry->cost * (fair_queue->pool->worker_count - 1);
    return fair_entry_ring_of(fair_queue, fair_entry)->now - owed * WEIGHT_UNIT / weight;
}

static uint64_t follow_cost(uint64_t cost, uint64_t used)
{
    return used > cost ? used : cost - cost / 8 + used / 8;
}

struct sti_bill sti_fair_entry_begin_task(struct sti_fair_queue *fair_queue, struct sti_fair_entry *fair_entry,
                                          bool in_turn)
{
    struct sti_fair_entry_ring *ring = fair_entry_ring_of(fair_queue, fair_entry);
    struct sti_bill bill = { .fair_entry = fair_entry, .weight = sti_account_weight(fair_entry->key.account) };
    if (in_turn)
        ring->now = sti_time_later(ring->now, fair_entry->turn.time);
    fair_entry->running++;
    ring->running++;
    fair_entry->since = 0;
    sti_fair_entry_advance_task(fair_queue, &bill, fair_entry->cost);
    return bill;
}

void sti_fair_entry_advance_task(struct sti_fair_queue *fair_queue, struct sti_bill *bill, uint64_t used)
{
    struct sti_fair_entry *fair_entry = bill->fair_entry;
    set_time(fair_queue, fair_entry, time_after(bill, used));
    bill->charged = used;
    if (used > fair_entry->cost)
        fair_entry->cost = used;
}

void sti_fair_entry_end_task(struct sti_fair_queue *fair_queue, const struct sti_bill *bill, uint64_t used)
{
    struct sti_fair_entry *fair_entry = bill->fair_entry;
    used = used > MIN_COST ? used : MIN_COST;
    fair_entry->cost = follow_cost(fair_entry->cost, used);
    fair_queue->typical_cost = fair_queue->typical_cost - fair_queue->typical_cost / 16 + used / 16;
    set_time(fair_queue, fair_entry, sti_time_later(time_after(bill, used), earliest_time(fair_queue, fair_entry)));
    fair_entry->running--;
    fair_entry_ring_of(fair_queue, fair_entry)->running--;
    if (fair_entry->state == STI_FAIR_ENTRY_IDLE)
        keep_or_forget(fair_queue, fair_entry);
}

/* --- The table of entries, and of accounts that refused some. Under the fair queue's lock. --- */

#define SMALLEST_TABLE 16

static size_t fair_key_hash(const struct sti_fair_key *key, size_t size)
{
    uint64_t word = ((uint64_t)(uintptr_t)key->account + (uint64_t)key->kind) * UINT64_C(0x9e3779b97f4a7c15);
    return (word >> 32) % size;
}

/* The link that leads to it, or to where it belongs. */
static struct sti_fair_key **link_of(const struct sti_fair_queue *fair_queue, const stint_account *account,
                                     unsigned kind)
{
    const struct sti_fair_key sought = { .account = (stint_account *)(uintptr_t)account, .kind = kind };
    struct sti_fair_key **link = &fair_queue->table[fair_key_hash(&sought, fair_queue->table_size)];
    while (*link != NULL && ((*link)->account != account || (*link)->kind != kind))
        link = &(*link)->chain;
    return link;
}

static void fair_key_put_in(struct sti_fair_key **link, struct sti_fair_key *key)
{
    key->chain = *link;
    *link = key;
}

static void fair_key_take_out(const struct sti_fair_queue *fair_queue, const struct sti_fair_key *key)
{
    *link_of(fair_queue, key->account, key->kind) = key->chain;
}

/* When there is no memory for a larger one the chains get longer. */
static void fair_table_grow(struct sti_fair_queue *fair_queue)
{
    size_t size = fair_queue->table_size * 2;
    struct sti_fair_key **table = sti_process_calloc(size, sizeof *table);
    if (table == NULL)
        return;
    for (size_t i = 0; i < fair_queue->table_size; i++) {
        struct sti_fair_key *following;
        for (struct sti_fair_key *key = fair_queue->table[i]; key != NULL; key = following) {
            following = key->chain;
            fair_key_put_in(&table[fair_key_hash(key, size)], key);
        }
    }
    sti_process_free(fair_queue->table);
    fair_queue->table = table;
    fair_queue->table_size = size;
}

struct sti_fair_entry *sti_fair_entry_find(struct sti_fair_queue *fair_queue, const stint_account *account,
                                           stint_priority priority)
{
    return (struct sti_fair_entry *)*link_of(fair_queue, account, priority);
}

struct sti_fair_entry *sti_fair_entry_find_or_make(struct sti_fair_queue *fair_queue, stint_account *account,
                                                   stint_priority priority)
{
    struct sti_fair_entry *fair_entry = sti_fair_entry_find(fair_queue, account, priority);
    if (fair_entry != NULL)
        return fair_entry;
    fair_entry = sti_process_malloc(sizeof *fair_entry);
    struct sti_refused *own = sti_process_malloc(sizeof *own);
    if (fair_entry == NULL || own == NULL) {
        sti_process_free(fair_entry);
        sti_process_free(own);
        return NULL;
    }
    if (fair_queue->count == fair_queue->table_size)
        fair_table_grow(fair_queue);
    *fair_entry = (struct sti_fair_entry){
        .key = { .account = stint_account_retain(account), .kind = priority },
        .turn = { .time = fair_queue->rings[priority].now },
        .cost = fair_queue->typical_cost,
        .own = own,
    };
    TAILQ_INIT(&fair_entry->tasks);
    LIST_INSERT_HEAD(&fair_queue->entries, fair_entry, link);
    fair_key_put_in(link_of(fair_queue, account, priority), &fair_entry->key);
    fair_queue->count++;
    return fair_entry;
}

void sti_fair_entry_free(struct sti_fair_queue *fair_queue, struct sti_fair_entry *fair_entry)
{
    fair_key_take_out(fair_queue, &fair_entry->key);
    LIST_REMOVE(fair_entry, link);
    fair_queue->count--;
    stint_account_release(fair_entry->key.account);
    sti_process_free(fair_entry->own);
    sti_process_free(fair_entry);
}

struct sti_refused *sti_fair_entry_refused_by(const struct sti_fair_queue *fair_queue, const stint_account *full)
{
    return (struct sti_refused *)*link_of(fair_queue, full, STI_PRIORITIES);
}

void sti_fair_entry_enter_refused(struct sti_fair_queue *fair_queue, struct sti_fair_entry *fair_entry,
                                  stint_account *full)
{
    struct sti_refused *refused = sti_fair_entry_refused_by(fair_queue, full);
    struct sti_refused *own = fair_entry->own;
    if (refused == NULL) {
        refused = own;
        *own = (struct sti_refused){ .key = { .account = full, .kind = STI_PRIORITIES } };
        fair_key_put_in(link_of(fair_queue, full, STI_PRIORITIES), &own->key);
    } else {
        own->spares = refused->spares;
        refused->spares = own;
    }
    fair_entry->own = NULL;
    fair_entry->refused = refused;
    refused->count++;
    sti_turns_put(&refused->held[fair_entry->key.kind], &fair_entry->turn);
}

void sti_fair_entry_leave_refused(struct sti_fair_queue *fair_queue, struct sti_fair_entry *fair_entry)
{
    struct sti_refused *refused = fair_entry->refused;
    sti_turns_remove(&refused->held[fair_entry->key.kind], &fair_entry->turn);
    fair_entry->refused = NULL;
    if (--refused->count == 0) {
        fair_key_take_out(fair_queue, &refused->key);
        fair_entry->own = refused;
    } else {
        fair_entry->own = refused->spares;
        refused->spares = fair_entry->own->spares;
    }
}

bool sti_fair_entry_table_init(struct sti_fair_queue *fair_queue)
{
    fair_queue->table_size = SMALLEST_TABLE;
    fair_queue->table = sti_process_calloc(SMALLEST_TABLE, sizeof *fair_queue->table);
    return fair_queue->table != NULL;
}

/* Nothing waits or runs: those that are left are kept for their times. */
void sti_fair_entry_table_end(struct sti_fair_queue *fair_queue)
{
    while (!LIST_EMPTY(&fair_queue->entries))
        sti_fair_entry_free(fair_queue, LIST_FIRST(&fair_queue->entries));
    sti_process_free(fair_queue->table);
}

/* --- The heap of turns. --- */

static bool comes_before(const struct sti_turn *turn, const struct sti_turn *other)
{
    return sti_time_is_before(turn->time, other->time) || (turn->time == other->time && turn->number < other->number);
}

/* Two heaps; either may be NULL. The result's next and link are the caller's to set. */
static struct sti_turn *turns_meld(struct sti_turn *one, struct sti_turn *other)
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
        struct sti_turn *pair = turns_meld(one, other);
        pair->next = pairs;
        pairs = pair;
    }
    struct sti_turn *all = NULL;
    while (pairs != NULL) {
        struct sti_turn *pair = pairs;
        pairs = pair->next;
        all = turns_meld(all, pair);
    }
    return all;
}

static void turns_set_first(struct sti_turns *turns, struct sti_turn *turn)
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
    turns_set_first(turns, turns_meld(turns->first, turn));
}

void sti_turns_remove(struct sti_turns *turns, struct sti_turn *turn)
{
    struct sti_turn *below = meld_all(turn->child);
    struct sti_turn **link = turn->link;
    turn->link = NULL;
    if (turns->first == turn) {
        turns_set_first(turns, below);
        return;
    }
    *link = turn->next;
    if (turn->next != NULL)
        turn->next->link = link;
    turns_set_first(turns, turns_meld(turns->first, below));
}
