/* SPDX-License-Identifier: MIT
 *
 * Writing what was gathered: the module with the formats is loaded when it is first needed; see write.h. */
#include "write.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <stint/version.h>
#include <string.h>

#include "alloc/base/caller.h"
#include "alloc/base/process.h"
#include "alloc/scope/context.h"
#include "memprof.h"

#if STI_PROFILES

/* --- Loading the module that writes profiles (write.h). Any thread.
 *
 * It is looked for where it was installed beside this library (lib/stint/), and where it was built beside it. This
 * library's folder is the one that the loader knows, in full, from when it loaded it: neither a change of the working
 * directory nor a relative search path moves it. ($ORIGIN would be that of whoever stands in dlopen's place, such as a
 * sanitizer.) The version is a part of the module's name, so a library that is older than what is installed by now
 * finds none rather than another's.
 *
 * Constructors run meanwhile, those of libdw and what it loads in turn. They may happen to do so in the midst of a
 * task, but are no part of it: the thread's scopes are suspended, so that neither blocks nor thread-specific values are the
 * task's. */

#define MODULE "stint-profile-" STINT_VERSION ".so"
#define FOLDER_MAX (2 * (size_t)PATH_MAX) /* a working directory, and a path from there */

/* Where the inner parts are linked into a program, so is the module. */
extern const struct sti_profile_writer sti_profile_writer __attribute__((weak, visibility("hidden")));

/* Two threads at once find the same. */
static _Atomic(const struct sti_profile_writer *) loaded;

/* The name has room for the longer of both places behind the folder. */
static void *open_in(char *folder)
{
    char *end = folder + strlen(folder);
    strcpy(end, "/stint/" MODULE);
    void *module = dlopen(folder, RTLD_NOW | RTLD_LOCAL);
    if (module != NULL)
        return module;
    strcpy(end, "/" MODULE);
    return dlopen(folder, RTLD_NOW | RTLD_LOCAL);
}

static void *open_module(void)
{
    Dl_info unused;
    struct link_map *own;
    char *folder = sti_process_malloc(FOLDER_MAX + sizeof "/stint/" MODULE);
    if (folder == NULL)
        return NULL;
    /* A link map is its object's handle, too. */
    bool found = dladdr1(&loaded, &unused, (void **)&own, RTLD_DL_LINKMAP) != 0 && own != NULL &&
                 dlinfo(own, RTLD_DI_ORIGIN, folder) == 0;
    void *module = found ? open_in(folder) : NULL;
    sti_process_free(folder);
    return module;
}

static const struct sti_profile_writer *find(void)
{
    if (&sti_profile_writer != NULL)
        return &sti_profile_writer;
    void *module = open_module();
    return module != NULL ? dlsym(module, STI_PROFILE_WRITER) : NULL;
}

static void look_for(struct sti_profile_means *means)
{
    if (atomic_load_explicit(&loaded, memory_order_acquire) == NULL)
        atomic_store_explicit(&loaded, find(), memory_order_release);
    means->writer = atomic_load_explicit(&loaded, memory_order_acquire);
    sti_caller_note_part(means->writer);
    *(void **)&means->demangle = dlsym(RTLD_DEFAULT, "__cxa_demangle");
    dlerror(); /* what was not found is nobody else's to hear of */
}

int sti_profile_prepare(struct sti_profile_means *means)
{
    struct sti_suspended_scope suspended;
    sti_scope_suspend(&suspended);
    struct sti_quiet quiet = sti_memprof_be_quiet();
    look_for(means);
    sti_memprof_end_quiet(&quiet);
    sti_scope_resume(&suspended);
    return means->writer != NULL ? 0 : ELIBACC;
}

/* --- The writing of what was gathered: a copy of its numbers, so that each format and each line of it is of one moment
 * (write.h). Thread of the caller. */

/* A site that is added meanwhile is left out. */
static struct sti_profile_snapshot *take_snapshot(const struct sti_gathered *gathered)
{
    size_t max = atomic_load_explicit(&gathered->sites, memory_order_relaxed);
    struct sti_profile_snapshot *snapshot = malloc(sizeof *snapshot + max * sizeof snapshot->entries[0]);
    if (snapshot == NULL)
        return NULL;
    snapshot->count = 0;
    for (size_t i = 0; i < STI_PROFILE_CHAINS; i++) {
        const struct sti_profile_site *site = atomic_load_explicit(&gathered->chains[i], memory_order_acquire);
        for (; site != NULL && snapshot->count < max; site = site->next) {
            snapshot->entries[snapshot->count++] =
                (struct sti_profile_entry){ .site = site, .values = sti_profile_values(gathered, site) };
        }
    }
    return snapshot;
}

int sti_profile_write(const struct sti_profile_means *means, const struct sti_gathered *gathered, uint64_t duration,
                      int fd, stint_profile_kind kind)
{
    struct sti_profile_snapshot *snapshot = take_snapshot(gathered);
    if (snapshot == NULL)
        return ENOMEM;
    snapshot->demangle = means->demangle;
    snapshot->started = gathered->started;
    snapshot->duration = duration;
    snapshot->interval = gathered->interval;
    int error = means->writer->write(snapshot, fd, kind);
    free(snapshot);
    return error;
}

#else

/* --- In place of the writing of profiles, where the libraries for it are missing. --- */

int sti_profile_prepare(struct sti_profile_means *means)
{
    (void)means;
    return ENOTSUP;
}

int sti_profile_write(const struct sti_profile_means *means, const struct sti_gathered *gathered, uint64_t duration,
                      int fd, stint_profile_kind kind)
{
    (void)means;
    (void)gathered;
    (void)duration;
    (void)fd;
    (void)kind;
    return ENOTSUP;
}

#endif
