/* SPDX-License-Identifier: MIT
 *
 * Labels of accounts, and what is counted for each; see label.h. Any thread.
 *
 * A hash table that only grows: a label is filled, then pushed onto its chain and put at its number (release), under a
 * lock; who finds it (acquire) sees it whole. A thread's table of tallies, and each tally, is made by that thread alone
 * and published in the same way. */
#include "label.h"

#include <string.h>

#include "alloc/base/module.h"
#include "alloc/base/process.h"
#include "alloc/base/thread.h"
#include "alloc/base/utf8.h"

#define CHAINS 64

static _Atomic(struct sti_label *) chains[CHAINS];
static _Atomic(struct sti_label *) labels[STI_LABELS_MAX];
static unsigned label_count = 1; /* with that of the others, which is the first */
static struct sti_label others = { .name = STI_LABEL_OTHERS };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t hash_of(const char *name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; *name != '\0'; name++)
        hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    return hash;
}

static struct sti_label *look_up(const char *name, uint64_t hash)
{
    struct sti_label *label = atomic_load_explicit(&chains[hash % CHAINS], memory_order_acquire);
    while (label != NULL && (label->hash != hash || strcmp(label->name, name) != 0))
        label = label->next;
    return label;
}

/* With the lock. */
static void add(struct sti_label *label)
{
    _Atomic(struct sti_label *) *chain = &chains[label->hash % CHAINS];
    label->next = atomic_load_explicit(chain, memory_order_relaxed);
    atomic_store_explicit(chain, label, memory_order_release);
    atomic_store_explicit(&labels[label->number], label, memory_order_release);
}

void sti_label_start(void)
{
    others.hash = hash_of(others.name);
    add(&others);
}

/* NULL: there is no room. */
static __attribute__((noinline)) struct sti_label *make(const char *name, uint64_t hash)
{
    if (atomic_load_explicit(&labels[STI_LABELS_MAX - 1], memory_order_relaxed) != NULL)
        return NULL;
    struct sti_label *made = sti_process_lasting_calloc(1, sizeof *made);
    if (made == NULL)
        return NULL;
    made->hash = hash;
    strcpy(made->name, name);
    sti_plain_mutex_lock(&lock);
    struct sti_label *label = look_up(name, hash);
    if (label == NULL && label_count < STI_LABELS_MAX) {
        label = made;
        label->number = label_count++;
        add(label);
    }
    sti_plain_mutex_unlock(&lock);
    if (label != made)
        sti_process_free(made);
    return label;
}

struct sti_label *sti_label_find(const char *name, struct sti_label *otherwise)
{
    char copy[STI_LABEL_SIZE];
    struct sti_label *label = NULL;
    if (name != NULL) {
        sti_label_copy_name(copy, sizeof copy, name);
        uint64_t hash = hash_of(copy);
        label = look_up(copy, hash);
        if (label == NULL)
            label = make(copy, hash);
    }
    if (label == NULL)
        label = otherwise;
    return label != NULL ? label : &others;
}

/* --- Counting ----------------------------------------------------------------------------------------------------- */

/* NULL: there is no memory for it. */
static __attribute__((noinline)) struct sti_label_tally *make_tally(struct sti_thread *thread, unsigned number)
{
    _Atomic(struct sti_label_tally *) *table = atomic_load_explicit(&thread->labelled, memory_order_relaxed);
    if (table == NULL) {
        table = sti_process_lasting_calloc(STI_LABELS_MAX, sizeof *table);
        if (table == NULL)
            return NULL;
        atomic_store_explicit(&thread->labelled, table, memory_order_release);
    }
    struct sti_label_tally *tally = sti_process_lasting_aligned(64, (sizeof *tally + 63) / 64 * 64);
    if (tally == NULL)
        return NULL;
    memset(tally, 0, sizeof *tally);
    atomic_store_explicit(&table[number], tally, memory_order_release);
    return tally;
}

static struct sti_label_tally *tally_of(const struct sti_thread *thread, unsigned number, memory_order order)
{
    _Atomic(struct sti_label_tally *) *table = atomic_load_explicit(&thread->labelled, order);
    return table != NULL ? atomic_load_explicit(&table[number], order) : NULL;
}

void sti_label_count(struct sti_thread *thread, struct sti_label *label, stint_reason reason, uint64_t charged)
{
    struct sti_label_tally *tally = tally_of(thread, label->number, memory_order_relaxed);
    if (tally == NULL)
        tally = make_tally(thread, label->number);
    if (tally == NULL) {
        sti_label_count_unstarted(label, reason);
        atomic_fetch_add_explicit(&label->shared.charged, charged, memory_order_relaxed);
        return;
    }
    sti_counter_add_own(&tally->outcomes[reason]);
    sti_counter_raise_own(&tally->charged, charged);
}

void sti_label_count_unstarted(struct sti_label *label, stint_reason reason)
{
    atomic_fetch_add_explicit(&label->shared.outcomes[reason], 1, memory_order_relaxed);
}

const struct sti_label *sti_label_at(unsigned number)
{
    return number < STI_LABELS_MAX ? atomic_load_explicit(&labels[number], memory_order_acquire) : NULL;
}

static void add_up(struct sti_label_sum *sum, const struct sti_label_tally *tally)
{
    for (size_t i = 0; i < STI_REASONS; i++)
        sum->outcomes[i] += sti_counter_read(&tally->outcomes[i]);
    sum->charged += sti_counter_read(&tally->charged);
}

struct sti_label_sum sti_label_read(const struct sti_label *label)
{
    struct sti_label_sum sum = { .charged = 0 };
    add_up(&sum, &label->shared);
    for (const struct sti_thread *thread = sti_thread_first(); thread != NULL; thread = thread->next) {
        const struct sti_label_tally *tally = tally_of(thread, label->number, memory_order_acquire);
        if (tally != NULL)
            add_up(&sum, tally);
    }
    return sum;
}

/* --- Names: what is written as UTF-8 has to be that. -------------------------------------------------------------- */

void sti_label_copy_name(char *copy, size_t size, const char *name)
{
    const char *from = name;
    char *end = copy + size - 1;
    while (*from != '\0') {
        size_t bytes = sti_utf8_character(from);
        if (copy + (bytes != 0 ? bytes : 1) > end)
            break;
        if (bytes == 0) {
            *copy++ = '?';
            from++;
        } else {
            memcpy(copy, from, bytes);
            copy += bytes;
            from += bytes;
        }
    }
    *copy = '\0';
}
