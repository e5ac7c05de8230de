/* SPDX-License-Identifier: MIT
 *
 * The gathering of a profile; see gathered.h. Any thread, in the callbacks of the tracker.
 *
 * A hash table that only grows. A site is filled, then pushed onto its chain (release), and never changes nor moves
 * until the profile is freed; who finds it (acquire) sees it whole. A push reads what it replaces without acquiring it,
 * and need not: the exchange continues that one's release sequence. Two threads that meet a callstack for the first
 * time at once may both push a site for it: they are added up wherever sites are read.
 *
 * A site's four numbers only grow, and what has ended was allocated before: it is added later (release). So who reads
 * first what has ended (acquire) never finds more of that than of what was allocated. Objects are counted in parts of
 * 1/65536, for a sample in a large block stands for a fraction of it. */
#include "gathered.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <stint/account.h>
#include <string.h>

#include "alloc/platform/clock.h"
#include "alloc/platform/process.h"

#define OBJECT STI_PROFILE_OBJECT
#define NAME_MAX 255

struct key {
    uint64_t hash;
    const char *task;
    const char *account;
    size_t task_length;
    size_t account_length;
    size_t length;
    void *const *callstack;
};

static uint64_t hash_mixed(uint64_t hash, uint64_t more)
{
    hash = (hash ^ more) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 32;
}

static uint64_t mixed_name(uint64_t hash, const char *name, size_t length)
{
    hash = hash_mixed(hash, length + (name != NULL));
    for (size_t i = 0; i < length; i++)
        hash = hash_mixed(hash, (unsigned char)name[i]);
    return hash;
}

static size_t length_of(const char *name)
{
    return name != NULL ? strnlen(name, NAME_MAX) : 0;
}

static struct key key_with_hash(struct key key)
{
    for (size_t i = 0; i < key.length; i++)
        key.hash = hash_mixed(key.hash, (uintptr_t)key.callstack[i]);
    key.hash = mixed_name(key.hash, key.task, key.task_length);
    key.hash = mixed_name(key.hash, key.account, key.account_length);
    return key;
}

static struct key allocation_key(const stint_memprof_allocation *allocation)
{
    const char *account = allocation->account != NULL ? stint_account_name(allocation->account) : NULL;
    return key_with_hash((struct key){
        .task = allocation->task,
        .account = account,
        .task_length = length_of(allocation->task),
        .account_length = length_of(account),
        .length = allocation->callstack_length,
        .callstack = allocation->callstack,
    });
}

static struct key key_without_names(const struct key *key)
{
    return key_with_hash((struct key){ .length = key->length, .callstack = key->callstack });
}

static bool is_name(const char *stored, const char *name, size_t length)
{
    if (stored == NULL || name == NULL)
        return stored == name;
    return strncmp(stored, name, length) == 0 && stored[length] == '\0';
}

static bool is_site_of(const struct sti_profile_site *site, const struct key *key)
{
    return site->hash == key->hash && site->length == key->length &&
           memcmp(site->callstack, key->callstack, key->length * sizeof *key->callstack) == 0 &&
           is_name(site->task, key->task, key->task_length) &&
           is_name(site->account, key->account, key->account_length);
}

static const char *copied_name(char **room, const char *name, size_t length)
{
    if (name == NULL)
        return NULL;
    char *copy = memcpy(*room, name, length);
    copy[length] = '\0';
    *room += length + 1;
    return copy;
}

static struct sti_profile_site *new_site(const struct key *key)
{
    size_t callstack = key->length * sizeof *key->callstack;
    struct sti_profile_site *site =
        sti_process_lasting_calloc(1, sizeof *site + callstack + key->task_length + key->account_length + 2);
    if (site == NULL)
        return NULL;
    char *room = (char *)site->callstack + callstack;
    site->hash = key->hash;
    site->length = key->length;
    memcpy(site->callstack, key->callstack, callstack);
    site->task = copied_name(&room, key->task, key->task_length);
    site->account = copied_name(&room, key->account, key->account_length);
    return site;
}

static _Atomic(struct sti_profile_site *) *chain_of(struct sti_gathered *gathered, const struct key *key)
{
    return &gathered->chains[key->hash % gathered->chain_count];
}

static struct sti_profile_site *find_site(struct sti_gathered *gathered, const struct key *key)
{
    struct sti_profile_site *site = atomic_load_explicit(chain_of(gathered, key), memory_order_acquire);
    while (site != NULL && !is_site_of(site, key))
        site = site->next;
    return site;
}

static struct sti_profile_site *add_site(struct sti_gathered *gathered, const struct key *key)
{
    _Atomic(struct sti_profile_site *) *chain = chain_of(gathered, key);
    struct sti_profile_site *site = new_site(key);
    if (site == NULL)
        return NULL;
    site->next = atomic_load_explicit(chain, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(chain, &site->next, site, memory_order_release, memory_order_relaxed))
        ;
    atomic_fetch_add_explicit(&gathered->sites, 1, memory_order_relaxed);
    return site;
}

static struct sti_profile_site *site_for(struct sti_gathered *gathered, const stint_memprof_allocation *allocation)
{
    uint64_t sites = atomic_load_explicit(&gathered->sites, memory_order_relaxed);
    struct key key = allocation_key(allocation);
    struct sti_profile_site *site = find_site(gathered, &key);
    if (site == NULL && sites >= STI_PROFILE_NAMED_MAX) {
        key = key_without_names(&key);
        site = find_site(gathered, &key);
    }
    if (site == NULL && sites >= STI_PROFILE_SITES_MAX) {
        key = (struct key){ .callstack = key.callstack };
        site = find_site(gathered, &key);
    }
    return site != NULL ? site : add_site(gathered, &key);
}

bool sti_gathered_share(struct sti_gathered *gathered, const stint_memprof_allocation *allocation,
                        struct sti_profile_share *share)
{
    double objects = (double)allocation->samples * allocation->interval / (double)allocation->charged;
    *share = (struct sti_profile_share){
        .site = site_for(gathered, allocation),
        .samples = allocation->samples,
        .objects = (uint64_t)(objects * OBJECT + 0.5),
    };
    return share->site != NULL;
}

static void *note_allocation(const stint_memprof_allocation *allocation, void *arg)
{
    struct sti_gathered *gathered = arg;
    struct sti_profile_share *share = sti_process_lasting_malloc(sizeof *share);
    if (share == NULL || !sti_gathered_share(gathered, allocation, share)) {
        sti_process_free(share);
        atomic_fetch_add_explicit(&gathered->lost, allocation->samples, memory_order_relaxed);
        return NULL;
    }
    atomic_fetch_add_explicit(&share->site->samples, share->samples, memory_order_relaxed);
    atomic_fetch_add_explicit(&share->site->objects, share->objects, memory_order_relaxed);
    return share;
}

static void profile_note_end(void *metadata, stint_memprof_end end, void *arg)
{
    struct sti_profile_share *share = metadata;
    (void)arg;
    if (end != STINT_MEMPROF_STOPPED) {
        atomic_fetch_add_explicit(&share->site->ended_samples, share->samples, memory_order_release);
        atomic_fetch_add_explicit(&share->site->ended_objects, share->objects, memory_order_release);
    }
    sti_process_free(share);
}

const stint_memprof_tracker sti_gathered_tracker = { .alloc = note_allocation, .dealloc = profile_note_end };

struct sti_gathered *sti_gathered_create(double interval, size_t chains)
{
    struct sti_gathered *gathered =
        sti_process_lasting_calloc(1, sizeof *gathered + chains * sizeof gathered->chains[0]);
    if (gathered == NULL)
        return NULL;
    gathered->chain_count = chains;
    gathered->interval = interval;
    gathered->started = sti_clock_read(CLOCK_REALTIME);
    gathered->began = sti_clock_now();
    return gathered;
}

void sti_gathered_free(struct sti_gathered *gathered)
{
    for (size_t i = 0; gathered != NULL && i < gathered->chain_count; i++) {
        struct sti_profile_site *site = atomic_load_explicit(&gathered->chains[i], memory_order_relaxed);
        while (site != NULL) {
            struct sti_profile_site *next = site->next;
            sti_process_free(site);
            site = next;
        }
    }
    sti_process_free(gathered);
}

static uint64_t gathered_bytes(const struct sti_gathered *gathered, uint64_t samples)
{
    return (uint64_t)((double)samples * gathered->interval + 0.5);
}

static uint64_t objects_whole(uint64_t objects)
{
    return (objects + OBJECT / 2) / OBJECT;
}

struct sti_profile_values sti_profile_values(const struct sti_gathered *gathered, const struct sti_profile_site *site)
{
    uint64_t ended_samples = atomic_load_explicit(&site->ended_samples, memory_order_acquire);
    uint64_t ended_objects = atomic_load_explicit(&site->ended_objects, memory_order_acquire);
    uint64_t samples = atomic_load_explicit(&site->samples, memory_order_relaxed);
    uint64_t objects = atomic_load_explicit(&site->objects, memory_order_relaxed);
    return (struct sti_profile_values){
        .alloc_objects = objects_whole(objects),
        .alloc_bytes = gathered_bytes(gathered, samples),
        .inuse_objects = objects_whole(objects - ended_objects),
        .inuse_bytes = gathered_bytes(gathered, samples - ended_samples),
        .samples = samples,
    };
}
