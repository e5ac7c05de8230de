/* SPDX-License-Identifier: MIT
 *
 * Telling the user of roots that keep a heap, once a root. Any thread; one at a time. */
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <stint/roots.h>
#include <string.h>

#include "boundary.h"
#include "quiet.h"
#include "roots.h"

#define REMEMBERED 256

static struct sti_quiet_lock lock = STI_QUIET_LOCK_INIT;
static stint_root_report *report_function;
static void *report_argument;
static uintptr_t told[REMEMBERED];
static size_t told_count;
static size_t limit = (size_t)64 << 20;
static size_t said; /* the bytes that were too many the last time it was said; 0: they were not */

__attribute__((constructor)) static void be_quiet_at_forks(void)
{
    sti_quiet_add(&lock);
}

void stint_set_root_report(stint_root_report *report, void *arg)
{
    pthread_mutex_lock(&lock.mutex);
    report_function = report;
    report_argument = arg;
    told_count = 0;
    pthread_mutex_unlock(&lock.mutex);
}

/* Only a symbol that the address really lies in: dladdr alone would name the nearest one below it. */
static const char *exported_symbol(uintptr_t address)
{
    Dl_info info;
    void *found = NULL;
    if (address == 0 || dladdr1((const void *)address, &info, &found, RTLD_DL_SYMENT) == 0 || found == NULL)
        return NULL;
    const ElfW(Sym) *symbol = found;
    return address - (uintptr_t)info.dli_saddr < symbol->st_size ? info.dli_sname : NULL;
}

/* A specific value has no address; its key, which is small, stands for one. */
static bool first_time(const struct sti_root *root)
{
    uintptr_t identity = root->address != 0 ? root->address : root->offset + 1;
    for (size_t i = 0; i < told_count; i++) {
        if (told[i] == identity)
            return false;
    }
    if (told_count == REMEMBERED)
        return false;
    told[told_count++] = identity;
    return true;
}

void stint_set_kept_limit(size_t bytes)
{
    pthread_mutex_lock(&lock.mutex);
    limit = bytes;
    said = 0;
    pthread_mutex_unlock(&lock.mutex);
}

/* With the lock. */
static bool must_say_too_much(size_t all)
{
    if (all <= limit)
        said = 0;
    bool must = all > limit && all / 2 >= said;
    if (must)
        said = all;
    return must;
}

void sti_roots_report(const struct sti_root *root, size_t kept, size_t all, const char *task)
{
    pthread_mutex_lock(&lock.mutex);
    stint_root_report *function = report_function;
    void *argument = report_argument;
    bool too_much = all > limit;
    bool must = must_say_too_much(all);
    bool tell = function != NULL && (first_time(root) || must);
    pthread_mutex_unlock(&lock.mutex);
    if (!tell)
        return;
    stint_root public = {
        .address = (const void *)root->address,
        .module = root->module,
        .symbol = exported_symbol(root->address),
        .where = root->where,
        .offset = root->offset,
        .task = task,
        .kept = kept,
        .kept_in_all = all,
        .too_much = too_much,
    };
    STI_BOUNDARY_CALLBACK("report", function, &public, argument, NULL);
}
