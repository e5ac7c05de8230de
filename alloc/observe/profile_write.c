/* SPDX-License-Identifier: MIT
 *
 * Writing a profile: the module with the formats is loaded when it is first needed; see profile_write.h. */
#include "profile_write.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <stint/account.h>
#include <stint/interrupt.h>
#include <stint/stint.h>
#include <string.h>

#include "alloc/interrupt/output.h"
#include "alloc/platform/caller.h"
#include "alloc/platform/module.h"
#include "alloc/platform/process.h"
#include "alloc/platform/thread.h"
#include "alloc/scope/context.h"
#include "memprof.h"

/* --- Loading the module that writes profiles (profile_write.h). Any thread.
 *
 * The module is looked for where it was installed beside this library (lib/stint/), and where it was built beside it.
 * The loader knows this library's folder in full from when it loaded the library: neither a change of the working
 * directory nor a relative search path moves it. ($ORIGIN would be that of a library that overrides dlopen, such as a
 * sanitizer.) The version is a part of the module's name, so a library that is older than what is installed by now
 * finds none rather than another's.
 *
 * Constructors run meanwhile, those of libdw and what it loads in turn. These calls may happen in the midst of a task,
 * but are no part of it: the thread's scopes are suspended, so that neither blocks nor thread-specific values are the
 * task's. */

#define MODULE "stint-profile-" STINT_VERSION ".so"
#define FOLDER_MAX (2 * (size_t)PATH_MAX) /* a working directory, and a path from there */

/* Where the inner parts are linked into a program, so is the module. */
extern sti_profile_writer_fn sti_profile_writer __attribute__((weak, visibility("hidden")));

static _Atomic(void *) loaded;

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
    char *folder = sti_process_malloc(FOLDER_MAX + sizeof "/stint/" MODULE);
    if (folder == NULL)
        return NULL;
    void *module = sti_libc_folder(&loaded, folder) ? open_in(folder) : NULL;
    sti_process_free(folder);
    return module;
}

/* Two threads at once open the same. */
static void *loaded_module(void)
{
    void *module = atomic_load_explicit(&loaded, memory_order_acquire);
    if (module == NULL)
        atomic_store_explicit(&loaded, module = open_module(), memory_order_release);
    return module;
}

void *sti_profile_find(const struct sti_profile_means *means, const char *name, void *linked_in)
{
    return means->module != NULL ? dlsym(means->module, name) : linked_in;
}

static void *find_writer(const struct sti_profile_means *means)
{
    return sti_profile_find(means, "sti_profile_writer", (void *)sti_profile_writer);
}

/* False: it is not there. */
static bool means_look_for(struct sti_profile_means *means)
{
    means->module = sti_profile_writer == NULL ? loaded_module() : NULL;
    if (means->module != NULL) /* otherwise the whole program would count as a part of the library */
        sti_caller_note_part(find_writer(means));
    *(void **)&means->demangle = dlsym(RTLD_DEFAULT, "__cxa_demangle");
    dlerror(); /* what was not found is nobody else's to hear of */
    return find_writer(means) != NULL;
}

static int means_prepare(struct sti_profile_means *means)
{
    struct sti_suspended_scope suspended;
    sti_scope_suspend(&suspended);
    struct sti_memprof_pause pause = sti_memprof_pause_begin();
    bool is_there = means_look_for(means);
    sti_memprof_pause_end(&pause);
    sti_scope_resume(&suspended);
    return is_there ? 0 : ELIBACC;
}

static int means_fill_output(struct sti_output *output, const struct sti_profile_means *means,
                             sti_profile_make_fn *make, const void *arg)
{
    return sti_output_open(output) ? sti_output_close(output, make(means, arg, output->stream)) : ENOMEM;
}

static int fill_quietly(struct sti_output *output, pthread_mutex_t *lock, sti_profile_make_fn *make, const void *arg)
{
    struct sti_profile_means means;
    int error = means_prepare(&means);
    if (error != 0)
        return error;
    sti_real_mutex_lock(lock);
    struct sti_memprof_pause pause = sti_memprof_pause_begin();
    error = means_fill_output(output, &means, make, arg);
    sti_memprof_pause_end(&pause);
    sti_real_mutex_unlock(lock);
    return error;
}

int sti_profile_output_and_unmask(int fd, pthread_mutex_t *lock, sti_profile_make_fn *make, const void *arg)
{
    struct sti_output output;
    int cancellation = sti_thread_set_cancellation(PTHREAD_CANCEL_DISABLE);
    int error = sti_memprof_is_calling() ? EDEADLK : STI_PROFILES ? fill_quietly(&output, lock, make, arg) : ENOTSUP;
    sti_thread_set_cancellation(cancellation);
    if (error == 0)
        return sti_output_write_and_unmask(&output, fd);
    stint_unmask();
    return error;
}

/* --- The writing of what was gathered: a copy of its numbers, so that each format and each line of it is of one moment
 * (profile_write.h). Thread of the caller. */

/* A site that is added meanwhile is left out. */
static struct sti_profile_snapshot *take_snapshot(const struct sti_gathered *gathered)
{
    size_t max = atomic_load_explicit(&gathered->sites, memory_order_relaxed);
    struct sti_profile_snapshot *snapshot = malloc(sizeof *snapshot + max * sizeof snapshot->entries[0]);
    if (snapshot == NULL)
        return NULL;
    snapshot->others = (struct sti_other_modules){ .count = 0 };
    snapshot->count = 0;
    for (size_t i = 0; i < gathered->chain_count; i++) {
        const struct sti_profile_site *site = atomic_load_explicit(&gathered->chains[i], memory_order_acquire);
        for (; site != NULL && snapshot->count < max; site = site->next) {
            snapshot->entries[snapshot->count++] = (struct sti_profile_entry){
                .task = site->task,
                .account = site->account,
                .length = site->length,
                .callstack = site->callstack,
                .values = sti_profile_values(gathered, site),
            };
        }
    }
    return snapshot;
}

int sti_profile_write(const struct sti_profile_means *means, const struct sti_gathered *gathered, uint64_t duration,
                      FILE *stream, stint_profile_kind kind)
{
    struct sti_profile_snapshot *snapshot = take_snapshot(gathered);
    if (snapshot == NULL)
        return ENOMEM;
    snapshot->demangle = means->demangle;
    snapshot->started = gathered->started;
    snapshot->duration = duration;
    snapshot->interval = gathered->interval;
    int error = ((sti_profile_writer_fn *)find_writer(means))(snapshot, stream, kind);
    free(snapshot);
    return error;
}
