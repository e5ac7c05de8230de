/* SPDX-License-Identifier: MIT
 *
 * Modules whose blocks are the process's; see keep_module.h. Any thread.
 *
 * A module that is kept stays loaded, so that nothing else comes to lie at its addresses. */
#include "keep_module.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stint/interrupt.h>
#include <stint/roots.h>
#include <string.h>

#include "process.h"
#include "quiet.h"
#include "rules.h"

/* The list only grows; release publishes an entry, acquire finds it whole. */
static struct sti_caller_module kept[STI_KEPT_MODULES];
static atomic_size_t kept_count;
static struct sti_quiet_lock lock = STI_QUIET_LOCK_INIT; /* for who adds */

__attribute__((constructor)) static void be_quiet_at_forks(void)
{
    sti_quiet_add(&lock);
}

bool sti_caller_is_kept(const void *caller)
{
    size_t count = atomic_load_explicit(&kept_count, memory_order_acquire);
    size_t i = 0;
    while (i < count && !sti_caller_in(&kept[i], caller))
        i++;
    return i < count && sti_rule_is_on(STI_RULE_KEPT_MODULE);
}

size_t sti_kept_modules(struct sti_caller_module *modules)
{
    size_t count = atomic_load_explicit(&kept_count, memory_order_acquire);
    memcpy(modules, kept, count * sizeof *modules);
    return count;
}

/* By one thread at a time. */
static bool append(struct sti_caller_module module)
{
    size_t count = atomic_load_explicit(&kept_count, memory_order_relaxed);
    if (count == STI_KEPT_MODULES)
        return false;
    kept[count] = module;
    atomic_store_explicit(&kept_count, count + 1, memory_order_release);
    return true;
}

void sti_keep_module_at_start(struct sti_caller_module module)
{
    append(module);
}

/* Others may be asking: what they find between two changes only sends them the longer way. */
static void leave_no_short_way_to(const struct sti_caller_module *module)
{
    const struct sti_caller_module *between = &sti_caller_system.between;
    if (module->begin < between->begin + between->size && between->begin < module->begin + module->size)
        __atomic_store_n(&sti_caller_system.between.size, 0, __ATOMIC_RELAXED);
    if (module->begin < sti_caller_system.below)
        __atomic_store_n(&sti_caller_system.below, module->begin, __ATOMIC_RELAXED);
}

/* Have the module stay that lies there and has this path. False: it is going, or has gone. */
static bool pin(const char *path, const struct sti_caller_module *module)
{
    struct dl_find_object there;
    sti_quiet_enter();
    const struct link_map *pinned = dlopen(path, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    sti_quiet_leave();
    return pinned != NULL && _dl_find_object((void *)module->begin, &there) == 0 && there.dlfo_link_map == pinned;
}

static int keep(const char *path, struct sti_caller_module module)
{
    int error = 0;
    if (sti_caller_is_kept((const void *)module.begin))
        return 0;
    if (!pin(path, &module))
        return ENOENT;
    pthread_mutex_lock(&lock.mutex);
    if (sti_caller_is_kept((const void *)module.begin))
        error = 0;
    else if (append(module))
        leave_no_short_way_to(&module);
    else
        error = ENOSPC;
    pthread_mutex_unlock(&lock.mutex);
    return error;
}

/* Of the name that is sought; the paths are copies, as the loader's own go with their modules. */
struct sought {
    const char *name;
    struct sti_caller_module found[STI_KEPT_MODULES];
    char *paths[STI_KEPT_MODULES];
    size_t count;
    bool no_memory;
};

static int seek(struct dl_phdr_info *info, size_t size, void *argument)
{
    struct sought *sought = argument;
    (void)size;
    if (!sti_caller_is_named(info->dlpi_name, sought->name, strlen(sought->name)) || sought->count == STI_KEPT_MODULES)
        return 0;
    size_t length = strlen(info->dlpi_name) + 1;
    char *path = sti_process_malloc(length);
    sought->no_memory |= path == NULL;
    if (path == NULL)
        return 1;
    sought->paths[sought->count] = memcpy(path, info->dlpi_name, length);
    sought->found[sought->count++] = sti_caller_module_at(info);
    return 0;
}

static int keep_found(struct sought *sought)
{
    int error = sought->no_memory ? ENOMEM : sought->count == 0 ? ENOENT : 0;
    for (size_t i = 0; i < sought->count; i++) {
        if (error == 0)
            error = keep(sought->paths[i], sought->found[i]);
        sti_process_free(sought->paths[i]);
    }
    return error;
}

int stint_keep_module(const char *name)
{
    int error = stint_protect_module(name);
    if (error != 0)
        return error;
    struct sought sought = { .name = name };
    stint_mask();
    sti_quiet_enter();
    dl_iterate_phdr(seek, &sought);
    sti_quiet_leave();
    error = keep_found(&sought);
    stint_unmask();
    return error;
}

void sti_keep_openmp(const void *caller)
{
    struct dl_find_object found;
    if (_dl_find_object((void *)(uintptr_t)caller, &found) != 0 || !sti_caller_is_openmp(found.dlfo_link_map->l_name))
        return;
    uintptr_t begin = (uintptr_t)found.dlfo_map_start;
    stint_mask();
    keep(found.dlfo_link_map->l_name,
         (struct sti_caller_module){ .begin = begin, .size = (uintptr_t)found.dlfo_map_end - begin });
    stint_unmask();
}
