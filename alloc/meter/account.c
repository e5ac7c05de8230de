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
 * Slots. A caller that is refused one of the running tasks' slots may wait for it, by a handshake (thread.h):
 *
 *   waiter:      awaited + 1 (seq_cst) ... try again (the counter's compare-and-swap or its load, seq_cst)
 *   leaver:      running - 1 (seq_cst) ... load awaited (seq_cst), and call the hook if it is not 0
 *
 * So either the second try finds the slot, or the leaver finds a waiter. A slot that is only given back, because an
 * account above refused, is told in the same way. */
#include "account.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "alloc/interrupt/warning.h"
#include "alloc/platform/caller.h"
#include "alloc/platform/hooks.h"
#include "alloc/platform/module.h"
#include "alloc/platform/process.h"
#include "alloc/platform/scope_state.h"
#include "alloc/platform/sized.h"
#include "alloc/platform/thread.h"
#include "alloc/platform/utf8.h"

#define HIGHEST_WEIGHT 10000
#define DEFAULT_WEIGHT 100

enum number { ALLOCATED, MEMORY, RUNNING, NUMBERS };

struct counter {
    _Atomic uint64_t value;
    _Atomic uint64_t limit; /* 0: none */
};

/* All that a task writes lies on one line of the cache, since it is written together: as a task begins, and as it
 * ends. */
struct stint_account {
    _Alignas(64) struct counter counters[NUMBERS];
    _Atomic uint64_t started;
    atomic_uint awaited; /* by so many waiters is one of its slots */
    atomic_uint references;
    struct counter waiting; /* written as a task is submitted, and taken out of a queue */
    stint_account *parent;
    atomic_uint weight;
    atomic_uint warn;        /* percent; 0: nobody is to be warned */
    atomic_uint warned;      /* of which numbers somebody has been: a bit each */
    struct sti_label *label; /* what its tasks are counted under */
    char name[];
};

const size_t sti_account_name_offset = offsetof(struct stint_account, name);

static uint64_t limit_of(const struct counter *counter)
{
    return atomic_load_explicit(&counter->limit, memory_order_relaxed);
}

static bool add_within(struct counter *counter, uint64_t amount)
{
    uint64_t limit = limit_of(counter);
    if (limit == 0) {
        atomic_fetch_add_explicit(&counter->value, amount, memory_order_relaxed);
        return true;
    }
    uint64_t value = atomic_load_explicit(&counter->value, memory_order_relaxed);
    do {
        if (value > limit || amount > limit - value)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&counter->value, &value, value + amount, memory_order_relaxed,
                                                    memory_order_relaxed));
    return true;
}

/* amount may be negative, modulo 2^64. */
static void account_subtract(stint_account *account, const stint_account *end, enum number number, uint64_t amount)
{
    for (; account != end; account = account->parent)
        atomic_fetch_sub_explicit(&account->counters[number].value, amount, memory_order_relaxed);
}

/* In a child of a wall: what follows another process's account, and how it asks that for more. */
static struct {
    stint_account *account;
    bool (*ask)(unsigned number, uint64_t bytes);
} follower;

static __attribute__((noinline, cold)) bool add_after_asking(stint_account *account, enum number number,
                                                             uint64_t amount)
{
    struct counter *counter = &account->counters[number];
    uint64_t limit = limit_of(counter);
    uint64_t value = atomic_load_explicit(&counter->value, memory_order_relaxed);
    uint64_t missing = amount - (value < limit ? limit - value : 0);
    if (account != follower.account || !follower.ask(number, missing))
        return false;
    atomic_fetch_add_explicit(&counter->limit, missing, memory_order_relaxed);
    return add_within(counter, amount);
}

/* One of them finds it first. */
static __attribute__((noinline, cold)) void account_warn(stint_account *account, enum number number, unsigned percent)
{
    const struct counter *counter = &account->counters[number];
    uint64_t used = atomic_load_explicit(&counter->value, memory_order_relaxed);
    if (number > MEMORY || used <= sti_warning_part(limit_of(counter), percent) ||
        (atomic_fetch_or_explicit(&account->warned, 1U << number, memory_order_relaxed) & 1U << number) != 0)
        return;
    const stint_warning warning = {
        .reason = STINT_REASON_ACCOUNT,
        .name = account->name,
        .used = used,
        .limit = limit_of(counter),
        .memory = number == MEMORY,
    };
    sti_warning_post(&warning);
}

static bool account_add(stint_account *account, const stint_account *end, enum number number, uint64_t amount)
{
    for (stint_account *at = account; at != end; at = at->parent) {
        if (!add_within(&at->counters[number], amount) && !add_after_asking(at, number, amount)) {
            account_subtract(account, at, number, amount);
            return false;
        }
        unsigned percent = atomic_load_explicit(&at->warn, memory_order_relaxed);
        if (__builtin_expect(percent != 0, 0))
            account_warn(at, number, percent);
    }
    return true;
}

/* seq_cst: the handshake above, and one with those who wait for a slot of a queue (executor/queue/queue_slots.h). */
static bool counter_take_one(struct counter *counter)
{
    uint64_t value = atomic_load_explicit(&counter->value, memory_order_seq_cst);
    do {
        uint64_t limit = atomic_load_explicit(&counter->limit, memory_order_seq_cst);
        if (limit != 0 && value >= limit)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&counter->value, &value, value + 1, memory_order_seq_cst,
                                                    memory_order_seq_cst));
    return true;
}

/* True: one of them had more than its maximum. */
static bool give_slots_back(stint_account *account, const stint_account *end)
{
    bool beyond = false;
    for (; account != end; account = account->parent) {
        struct counter *running = &account->counters[RUNNING];
        uint64_t before = atomic_fetch_sub_explicit(&running->value, 1, memory_order_seq_cst);
        uint64_t limit = limit_of(running);
        beyond = beyond || (limit != 0 && before > limit);
    }
    return beyond;
}

void sti_account_count_start(stint_account *account, const stint_account *end)
{
    for (; account != end; account = account->parent)
        atomic_fetch_add_explicit(&account->started, 1, memory_order_relaxed);
}

static stint_account *take_slots(stint_account *account, const stint_account *end)
{
    for (stint_account *at = account; at != end; at = at->parent) {
        if (!counter_take_one(&at->counters[RUNNING])) {
            give_slots_back(account, at);
            return at;
        }
    }
    return NULL;
}

stint_account *sti_account_try_enter(stint_account *account)
{
    return take_slots(account, NULL);
}

bool sti_account_enter(stint_account *account, const stint_account *end)
{
    if (account == end)
        return true;
    stint_account *full = take_slots(account, end);
    if (full == NULL)
        sti_account_count_start(account, end);
    else
        sti_account_notify(account, full);
    return full == NULL;
}

void sti_account_enter_beyond(stint_account *account)
{
    for (stint_account *at = account; at != NULL; at = at->parent)
        atomic_fetch_add_explicit(&at->counters[RUNNING].value, 1, memory_order_relaxed);
}

void sti_account_leave(stint_account *account, const stint_account *end)
{
    if (account == end)
        return;
    bool beyond = give_slots_back(account, end);
    sti_account_notify(account, end);
    if (beyond)
        sti_hooks.account_has_fewer_slots();
}

void sti_account_notify_itself(stint_account *account)
{
    if (atomic_load_explicit(&account->awaited, memory_order_seq_cst) > 0)
        sti_hooks.account_has_slot(account);
}

void sti_account_notify(stint_account *account, const stint_account *end)
{
    for (; account != end; account = account->parent)
        sti_account_notify_itself(account);
}

bool sti_account_is_waiting_full(const stint_account *account)
{
    uint64_t limit = atomic_load_explicit(&account->waiting.limit, memory_order_relaxed);
    return limit != 0 && atomic_load_explicit(&account->waiting.value, memory_order_relaxed) >= limit;
}

uint64_t sti_account_running(const stint_account *account)
{
    return atomic_load_explicit(&account->counters[RUNNING].value, memory_order_relaxed);
}

bool sti_account_has_slot(const stint_account *account)
{
    const struct counter *running = &account->counters[RUNNING];
    uint64_t limit = atomic_load_explicit(&running->limit, memory_order_seq_cst);
    return limit == 0 || atomic_load_explicit(&running->value, memory_order_seq_cst) < limit;
}

/* Give slots back in the accounts from this one up to end, without end. seq_cst for the limit too: a waiter that found
 * an account full by a lower limit has nobody else to tell it. */
static bool give_waiting_slots_back(stint_account *account, const stint_account *end)
{
    bool any = false;
    for (; account != end; account = account->parent) {
        uint64_t before = atomic_fetch_sub_explicit(&account->waiting.value, 1, memory_order_seq_cst);
        any = any || before == atomic_load_explicit(&account->waiting.limit, memory_order_seq_cst);
    }
    return any;
}

static bool begin_waiting(stint_account *account)
{
    for (stint_account *at = account; at != NULL; at = at->parent) {
        if (!counter_take_one(&at->waiting)) {
            give_waiting_slots_back(account, at);
            return false;
        }
    }
    return true;
}

/* What is taken for a moment only, because an account above refuses, must not be missed by another task: nobody would
 * tell that one that there is room after all. An account that lies in no other has none of that. */
bool sti_account_begin_waiting(stint_account *account)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    if (account == NULL || account->parent == NULL)
        return begin_waiting(account);
    sti_real_mutex_lock(&lock);
    bool taken = begin_waiting(account);
    sti_real_mutex_unlock(&lock);
    return taken;
}

bool sti_account_end_waiting(stint_account *account)
{
    return give_waiting_slots_back(account, NULL);
}

unsigned sti_account_weight(const stint_account *account)
{
    unsigned weight = account != NULL ? atomic_load_explicit(&account->weight, memory_order_relaxed) : 0;
    return weight != 0 ? weight : DEFAULT_WEIGHT;
}

void sti_account_await(stint_account *account)
{
    atomic_fetch_add_explicit(&account->awaited, 1, memory_order_seq_cst);
}

void sti_account_await_no_more(stint_account *account)
{
    atomic_fetch_sub_explicit(&account->awaited, 1, memory_order_relaxed);
}

const stint_account *sti_account_parent(const stint_account *account)
{
    return account->parent;
}

bool sti_account_contains(const stint_account *account, const stint_account *inner)
{
    while (inner != NULL && inner != account)
        inner = inner->parent;
    return inner != NULL;
}

bool sti_account_have_common(const stint_account *one, const stint_account *other)
{
    while (one != NULL && !sti_account_contains(one, other))
        one = one->parent;
    return one != NULL;
}

#define GRANT ((uint64_t)256 << 10) /* beyond what is needed, where there is so much */

struct sti_scope *sti_account_draw(struct sti_scope *innermost, uint64_t after)
{
    struct sti_scope *refused = NULL;
    for (struct sti_scope *scope = innermost; scope != NULL; scope = scope->outer) {
        if (scope->account == NULL || after <= scope->granted_end)
            continue;
        uint64_t need = after - scope->granted_end;
        if (account_add(scope->account, scope->charged, ALLOCATED, need + GRANT))
            scope->granted_end += need + GRANT;
        else if (account_add(scope->account, scope->charged, ALLOCATED, need))
            scope->granted_end += need;
        else
            refused = scope;
    }
    return refused;
}

void sti_account_draw_back(struct sti_scope *innermost)
{
    uint64_t end = innermost->thread->used + GRANT;
    for (struct sti_scope *scope = innermost; scope != NULL; scope = scope->outer) {
        if (scope->account == NULL || scope->granted_end <= end)
            continue;
        account_subtract(scope->account, scope->charged, ALLOCATED, scope->granted_end - end);
        scope->granted_end = end;
    }
}

bool sti_account_take(stint_account *account, unsigned number, uint64_t bytes)
{
    return account_add(account, NULL, (enum number)number, bytes);
}

void sti_account_follow(stint_account *account, const uint64_t granted[2], bool (*ask)(unsigned number, uint64_t bytes))
{
    follower.account = account;
    follower.ask = ask;
    for (int number = ALLOCATED; number <= MEMORY; number++) {
        atomic_store_explicit(&account->counters[number].value, 0, memory_order_relaxed);
        /* 0 would be no limit, and one byte is less than anything is charged. */
        atomic_store_explicit(&account->counters[number].limit, granted[number] != 0 ? granted[number] : 1,
                              memory_order_relaxed);
    }
}

void sti_account_settle(stint_account *account, const stint_account *end, uint64_t drawn, uint64_t used)
{
    account_subtract(account, end, ALLOCATED, drawn - used);
}

bool sti_account_limits_memory(const stint_account *account, const stint_account *end)
{
    while (account != end && limit_of(&account->counters[MEMORY]) == 0)
        account = account->parent;
    return account != end;
}

bool sti_account_reserve(stint_account *account, const stint_account *end, uint64_t before, uint64_t now)
{
    if (now > before)
        return account_add(account, end, MEMORY, now - before);
    account_subtract(account, end, MEMORY, before - now);
    return true;
}

/* --- Labels: what an account is called where its tasks are counted. A label is filled, then put at its number
 * (release), with the lock; a thread that finds it there (acquire) sees it whole. A label is never freed. --- */

static struct sti_label others = { .name = STI_LABEL_OTHERS };
static _Atomic(struct sti_label *) labels[STI_LABELS_MAX] = { &others };
static uint64_t hashes[STI_LABELS_MAX]; /* of the names; with the lock */
static pthread_mutex_t labelling = PTHREAD_MUTEX_INITIALIZER;

static uint64_t account_name_hash(const char *name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; *name != '\0'; name++)
        hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    return hash;
}

const struct sti_label *sti_label_at(unsigned number)
{
    return number < STI_LABELS_MAX ? atomic_load_explicit(&labels[number], memory_order_acquire) : NULL;
}

/* NULL: out of memory. With the lock. */
static struct sti_label *make_label(unsigned number, const char *name, uint64_t hash)
{
    struct sti_label *label = sti_process_lasting_aligned(_Alignof(struct sti_label), sizeof *label);
    if (label == NULL)
        return NULL;
    memset(label, 0, sizeof *label);
    strcpy(label->name, name);
    hashes[number] = hash;
    atomic_store_explicit(&labels[number], label, memory_order_release);
    return label;
}

/* NULL: there is no room, either. With the lock. */
static struct sti_label *find_or_make(const char *name, uint64_t hash)
{
    for (unsigned number = 1; number < STI_LABELS_MAX; number++) {
        struct sti_label *label = atomic_load_explicit(&labels[number], memory_order_relaxed);
        if (label == NULL)
            return make_label(number, name, hash);
        if (hashes[number] == hash && strcmp(label->name, name) == 0)
            return label;
    }
    return NULL;
}

static struct sti_label *label_of(const char *name, struct sti_label *otherwise)
{
    char clean[STI_LABEL_SIZE];
    if (name == NULL)
        return otherwise;
    sti_utf8_copy_clean(clean, sizeof clean, name);
    if (strcmp(clean, others.name) == 0)
        return &others;
    uint64_t hash = account_name_hash(clean);
    sti_real_mutex_lock(&labelling);
    struct sti_label *label = find_or_make(clean, hash);
    sti_real_mutex_unlock(&labelling);
    return label != NULL ? label : otherwise;
}

void sti_account_count(stint_account *account, stint_reason reason, uint64_t charged)
{
    struct sti_label *label = account->label;
    atomic_fetch_add_explicit(&label->outcomes[reason], 1, memory_order_relaxed);
    if (charged != 0)
        atomic_fetch_add_explicit(&label->charged, charged, memory_order_relaxed);
}

/* --- What a program does with accounts ---------------------------------------------------------------------------- */

static void number_name(char *name, size_t room)
{
    static atomic_uint numbers;
    snprintf(name, room, "account %u", atomic_fetch_add_explicit(&numbers, 1, memory_order_relaxed) + 1);
}

static void set_limits(stint_account *account, const stint_account_limits *limits)
{
    atomic_store_explicit(&account->counters[ALLOCATED].limit, limits->allocation, memory_order_relaxed);
    atomic_store_explicit(&account->counters[MEMORY].limit, limits->memory, memory_order_relaxed);
    /* seq_cst: the leaver's handshake. */
    atomic_store_explicit(&account->counters[RUNNING].limit, limits->running, memory_order_seq_cst);
    atomic_store_explicit(&account->waiting.limit, limits->waiting, memory_order_seq_cst);
    atomic_store_explicit(&account->weight, limits->weight, memory_order_relaxed);
    atomic_store_explicit(&account->warn, limits->warn, memory_order_relaxed);
    atomic_store_explicit(&account->warned, 0, memory_order_relaxed);
}

static int account_take_limits(stint_account_limits *limits, const stint_account_limits *given)
{
    int error = sti_sized_in(limits, sizeof *limits, STI_SIZED_UP_TO(stint_account_limits, waiting), given);
    return error != 0 || (limits->weight <= HIGHEST_WEIGHT && limits->warn <= 100) ? error : EINVAL;
}

int stint_account_set_limits(stint_account *account, const stint_account_limits *limits)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    stint_account_limits taken;
    int error = account != NULL && limits != NULL ? account_take_limits(&taken, limits) : EINVAL;
    if (error != 0)
        return error;
    set_limits(account, &taken);
    sti_account_notify_itself(account);
    sti_hooks.account_has_waiting_slot();
    sti_hooks.account_has_fewer_slots();
    return 0;
}

int stint_account_create(stint_account *parent, const stint_account_limits *limits, stint_account **account)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    stint_account_limits taken = STINT_ACCOUNT_LIMITS_INIT;
    if (account == NULL)
        return EINVAL;
    int error = limits != NULL ? account_take_limits(&taken, limits) : 0;
    if (error != 0)
        return error;
    const char *name = taken.name;
    size_t name_size = name != NULL ? strlen(name) + 1 : sizeof "account 4294967295";
    if (!sti_hooks.record_charge(sizeof(stint_account) + name_size, STI_CALLER()))
        return ENOMEM;
    stint_account *created = sti_process_aligned(_Alignof(stint_account), sizeof *created + name_size);
    if (created == NULL)
        return ENOMEM;
    *created = (stint_account){ .parent = stint_account_retain(parent) };
    created->label = label_of(name, parent != NULL ? parent->label : &others);
    atomic_init(&created->references, 1);
    if (name != NULL)
        memcpy(created->name, name, name_size);
    else
        number_name(created->name, name_size);
    set_limits(created, &taken);
    *account = created;
    return 0;
}

static uint64_t read_counter(const stint_account *account, enum number number)
{
    return atomic_load_explicit(&account->counters[number].value, memory_order_relaxed);
}

int stint_account_read(const stint_account *account, stint_account_usage *usage)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    if (account == NULL || usage == NULL)
        return EINVAL;
    const stint_account_usage now = {
        .size = sizeof now,
        .allocated = read_counter(account, ALLOCATED),
        .memory = read_counter(account, MEMORY),
        .running = (unsigned)read_counter(account, RUNNING),
        .started = atomic_load_explicit(&account->started, memory_order_relaxed),
        .waiting = atomic_load_explicit(&account->waiting.value, memory_order_relaxed),
    };
    return sti_sized_out(usage, STI_SIZED_UP_TO(stint_account_usage, waiting), &now, sizeof now);
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
    if (sti_process_is_partial())
        return;
    /* acq_rel: the last one sees all that the others did with the account before it frees it. */
    while (account != NULL && atomic_fetch_sub_explicit(&account->references, 1, memory_order_acq_rel) == 1) {
        stint_account *parent = account->parent;
        sti_process_free(account);
        account = parent;
    }
}
