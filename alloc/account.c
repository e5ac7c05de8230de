/* SPDX-License-Identifier: MIT
 *
 * Accounts. Any thread.
 *
 * Each number of the ledger is one atomic counter, added to by compare-and-swap where it has a limit, so that it never
 * passes it. Nothing else is published through a counter, so all orders are relaxed. In a tree of accounts the counters
 * are taken from the bottom up, and given back when one above refuses. Another task may be refused for bytes that are
 * about to be given back like that: a grant too large for what is left, which its task then asks for in the size it
 * needs.
 *
 * Slots. Who is refused one of the running tasks' slots may wait for it:
 *
 *   who waits:   awaited + 1 (seq_cst) ... try again (the counter's compare-and-swap or its load, seq_cst)
 *   who leaves:  running - 1 (seq_cst) ... load awaited (seq_cst), and call the listener if it is not 0
 *
 * All four are in one total order: either the second try finds the slot, or who leaves finds that somebody waits. A slot
 * that is only given back, because an account above refused, is told in the same way. */
#include "account.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "process.h"
#include "record.h"

enum number { ALLOCATED, MEMORY, RUNNING, NUMBERS };

struct counter {
    _Atomic uint64_t value;
    uint64_t limit; /* 0: none */
};

/* All that a task writes lies on one line of the cache, since it is written together: as a task begins, and as it ends. */
struct stint_account {
    _Alignas(64) struct counter counters[NUMBERS];
    _Atomic uint64_t started;
    atomic_uint awaited; /* by so many waiters is one of its slots */
    atomic_uint references;
    stint_account *parent;
    char name[];
};

static bool add_within(struct counter *counter, uint64_t amount)
{
    if (counter->limit == 0) {
        atomic_fetch_add_explicit(&counter->value, amount, memory_order_relaxed);
        return true;
    }
    uint64_t value = atomic_load_explicit(&counter->value, memory_order_relaxed);
    do {
        if (value > counter->limit || amount > counter->limit - value)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&counter->value, &value, value + amount, memory_order_relaxed,
                                                    memory_order_relaxed));
    return true;
}

/* amount may be negative, modulo 2^64. */
static void subtract(stint_account *account, const stint_account *end, enum number number, uint64_t amount)
{
    for (; account != end; account = account->parent)
        atomic_fetch_sub_explicit(&account->counters[number].value, amount, memory_order_relaxed);
}

static bool add(stint_account *account, enum number number, uint64_t amount)
{
    for (stint_account *at = account; at != NULL; at = at->parent) {
        if (!add_within(&at->counters[number], amount)) {
            subtract(account, at, number, amount);
            return false;
        }
    }
    return true;
}

static _Atomic(sti_account_listener_fn *) listener;

void sti_account_listen(sti_account_listener_fn *function)
{
    atomic_store_explicit(&listener, function, memory_order_release);
}

static bool take_slot(stint_account *account)
{
    struct counter *running = &account->counters[RUNNING];
    uint64_t value = atomic_load_explicit(&running->value, memory_order_seq_cst);
    do {
        if (running->limit != 0 && value >= running->limit)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&running->value, &value, value + 1, memory_order_seq_cst,
                                                    memory_order_seq_cst));
    return true;
}

static void give_slots_back(stint_account *account, const stint_account *end)
{
    for (; account != end; account = account->parent)
        atomic_fetch_sub_explicit(&account->counters[RUNNING].value, 1, memory_order_seq_cst);
}

void sti_account_count_start(stint_account *account)
{
    for (; account != NULL; account = account->parent)
        atomic_fetch_add_explicit(&account->started, 1, memory_order_relaxed);
}

stint_account *sti_account_try_enter(stint_account *account)
{
    for (stint_account *at = account; at != NULL; at = at->parent) {
        if (!take_slot(at)) {
            give_slots_back(account, at);
            return at;
        }
    }
    return NULL;
}

bool sti_account_enter(stint_account *account)
{
    stint_account *full = sti_account_try_enter(account);
    if (full == NULL)
        sti_account_count_start(account);
    else
        sti_account_tell(account, full);
    return full == NULL;
}

void sti_account_enter_beyond(stint_account *account)
{
    for (stint_account *at = account; at != NULL; at = at->parent)
        atomic_fetch_add_explicit(&at->counters[RUNNING].value, 1, memory_order_relaxed);
}

void sti_account_leave(stint_account *account)
{
    give_slots_back(account, NULL);
    sti_account_tell(account, NULL);
}

void sti_account_tell(stint_account *account, const stint_account *end)
{
    for (; account != end; account = account->parent) {
        if (atomic_load_explicit(&account->awaited, memory_order_seq_cst) > 0)
            atomic_load_explicit(&listener, memory_order_acquire)(account);
    }
}

void sti_account_await(stint_account *account)
{
    atomic_fetch_add_explicit(&account->awaited, 1, memory_order_seq_cst);
}

void sti_account_await_no_more(stint_account *account)
{
    atomic_fetch_sub_explicit(&account->awaited, 1, memory_order_relaxed);
}

bool sti_account_contains(const stint_account *account, const stint_account *inner)
{
    while (inner != NULL && inner != account)
        inner = inner->parent;
    return inner != NULL;
}

uint64_t sti_account_draw(stint_account *account, uint64_t need, uint64_t wanted)
{
    if (add(account, ALLOCATED, wanted))
        return wanted;
    return add(account, ALLOCATED, need) ? need : 0;
}

void sti_account_settle(stint_account *account, uint64_t drawn, uint64_t used)
{
    subtract(account, NULL, ALLOCATED, drawn - used);
}

bool sti_account_reserve(stint_account *account, uint64_t before, uint64_t now)
{
    if (now > before)
        return add(account, MEMORY, now - before);
    subtract(account, NULL, MEMORY, before - now);
    return true;
}

static void number_name(char *name, size_t room)
{
    static atomic_uint numbers;
    snprintf(name, room, "account %u", atomic_fetch_add_explicit(&numbers, 1, memory_order_relaxed) + 1);
}

int stint_account_create(stint_account **account, stint_account *parent, const stint_account_limits *limits)
{
    if (account == NULL)
        return EINVAL;
    const char *name = limits != NULL ? limits->name : NULL;
    size_t name_size = name != NULL ? strlen(name) + 1 : sizeof "account 4294967295";
    if (!sti_record_charge(sizeof(stint_account) + name_size, STI_CALLER()))
        return ENOMEM;
    stint_account *created = sti_process_aligned(_Alignof(stint_account), sizeof *created + name_size);
    if (created == NULL)
        return ENOMEM;
    *created = (stint_account){ .parent = stint_account_retain(parent) };
    atomic_init(&created->references, 1);
    if (name != NULL)
        memcpy(created->name, name, name_size);
    else
        number_name(created->name, name_size);
    if (limits != NULL) {
        created->counters[ALLOCATED].limit = limits->allocation;
        created->counters[MEMORY].limit = limits->memory;
        created->counters[RUNNING].limit = limits->running;
    }
    *account = created;
    return 0;
}

static uint64_t read_counter(const stint_account *account, enum number number)
{
    return atomic_load_explicit(&account->counters[number].value, memory_order_relaxed);
}

int stint_account_read(const stint_account *account, stint_account_usage *usage)
{
    if (account == NULL || usage == NULL)
        return EINVAL;
    *usage = (stint_account_usage){
        .allocated = read_counter(account, ALLOCATED),
        .memory = read_counter(account, MEMORY),
        .running = (unsigned)read_counter(account, RUNNING),
        .started = atomic_load_explicit(&account->started, memory_order_relaxed),
    };
    return 0;
}

const char *stint_account_name(const stint_account *account)
{
    return account->name;
}

stint_account *stint_account_retain(stint_account *account)
{
    if (account != NULL)
        atomic_fetch_add_explicit(&account->references, 1, memory_order_relaxed);
    return account;
}

void stint_account_release(stint_account *account)
{
    /* acq_rel: the last one sees all that the others did with the account before it frees it. */
    while (account != NULL && atomic_fetch_sub_explicit(&account->references, 1, memory_order_acq_rel) == 1) {
        stint_account *parent = account->parent;
        sti_process_free(account);
        account = parent;
    }
}
