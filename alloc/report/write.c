/* SPDX-License-Identifier: MIT
 *
 * The writing of a report. The formats for people and machines are in the module that writes profiles (names.h), which
 * is loaded when it is first needed; pprof's is that of a profile, which is made of the report here. Any thread, one at
 * a time. */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <stint/interrupt.h>
#include <string.h>

#include "alloc/base/module.h"
#include "alloc/interrupt/output.h"
#include "alloc/profile/memprof.h"
#include "alloc/profile/write.h"
#include "report.h"

#if STI_PROFILES

/* --- A report as a profile. */

static struct sti_profile_site *make_site(const struct stint_report *report, const uintptr_t *frames, size_t length)
{
    struct sti_profile_site *site = calloc(1, sizeof *site + length * sizeof site->callstack[0]);
    if (site == NULL)
        return NULL;
    site->task = report->is_named ? report->name : NULL;
    site->account = report->account[0] != '\0' ? report->account : NULL;
    site->length = length;
    memcpy(site->callstack, frames, length * sizeof *frames);
    return site;
}

static void add(struct sti_profile_snapshot *snapshot, struct sti_profile_site *site, uint64_t blocks, uint64_t bytes)
{
    if (site == NULL)
        return;
    snapshot->entries[snapshot->count++] = (struct sti_profile_entry){
        .site = site,
        .values = { .alloc_objects = blocks, .alloc_bytes = bytes, .inuse_objects = blocks, .inuse_bytes = bytes },
    };
}

/* Without samples all that it held is said to be of the place where it was stopped. False: no memory. */
static bool fill(struct sti_profile_snapshot *snapshot, const struct stint_report *report)
{
    for (size_t i = 0; i < report->holder_count; i++) {
        const struct sti_report_holder *holder = &report->holders[i];
        add(snapshot, make_site(report, holder->frames, holder->length), holder->blocks, holder->bytes);
    }
    if (report->holder_count > 0)
        return snapshot->count == report->holder_count;
    add(snapshot, make_site(report, report->tripped.frames, report->tripped.length), report->heap.blocks,
        sti_report_held(report));
    return snapshot->count == 1;
}

static int write_profile(const struct sti_profile_means *means, const struct stint_report *report, FILE *stream)
{
    struct sti_profile_snapshot *snapshot =
        calloc(1, sizeof *snapshot + STI_REPORT_HOLDERS * sizeof snapshot->entries[0]);
    if (snapshot == NULL)
        return ENOMEM;
    snapshot->demangle = means->demangle;
    snapshot->duration = report->usage.wall_ns;
    snapshot->interval = report->interval;
    int error = fill(snapshot, report) ? means->writer->write(snapshot, stream, STINT_PROFILE_PPROF) : ENOMEM;
    for (size_t i = 0; i < snapshot->count; i++)
        free((void *)(uintptr_t)snapshot->entries[i].site);
    free(snapshot);
    return error;
}

/* --- The module's part. */

/* Where the inner parts are linked into a program, so is the module. */
extern sti_report_writer_fn sti_report_writer __attribute__((weak, visibility("hidden")));

/* A link map is its object's handle, too. */
static sti_report_writer_fn *find_writer(const struct sti_profile_means *means)
{
    Dl_info unused;
    struct link_map *module = NULL;
    sti_report_writer_fn *found = NULL;
    if (&sti_report_writer != NULL)
        return sti_report_writer;
    if (dladdr1(means->writer, &unused, (void **)&module, RTLD_DL_LINKMAP) != 0 && module != NULL)
        *(void **)&found = dlsym(module, STI_REPORT_WRITER);
    return found;
}

static int write_kind(const struct sti_profile_means *means, const stint_report *report, FILE *stream,
                      stint_report_kind kind)
{
    if (kind == STINT_REPORT_PPROF)
        return write_profile(means, report, stream);
    sti_report_writer_fn *writer = find_writer(means);
    return writer != NULL ? writer(report, means->demangle, stream, kind) : ELIBACC;
}

/* --- One at a time, as profiles are: what looks names up is not made for more. */

static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;

static void renew_lock(void)
{
    pthread_mutex_init(&writing, NULL);
}

__attribute__((constructor)) static void hear_of_forks(void)
{
    pthread_atfork(NULL, NULL, renew_lock);
}

static int make_quietly(struct sti_output *output, const struct sti_profile_means *means, const stint_report *report,
                        stint_report_kind kind)
{
    if (!sti_output_open(output))
        return ENOMEM;
    return sti_output_close(output, write_kind(means, report, output->stream, kind));
}

static int make(struct sti_output *output, const stint_report *report, stint_report_kind kind)
{
    struct sti_profile_means means;
    int error = sti_profile_prepare(&means);
    if (error != 0)
        return error;
    sti_plain_mutex_lock(&writing);
    struct sti_quiet quiet = sti_memprof_be_quiet();
    error = make_quietly(output, &means, report, kind);
    sti_memprof_end_quiet(&quiet);
    sti_plain_mutex_unlock(&writing);
    return error;
}

int stint_report_write(const stint_report *report, int fd, stint_report_kind kind)
{
    struct sti_output output;
    if (report == NULL || (unsigned)kind > STINT_REPORT_PPROF)
        return EINVAL;
    if (sti_memprof_is_calling())
        return EDEADLK;
    stint_mask();
    int error = make(&output, report, kind);
    if (error == 0)
        return sti_output_write_and_unmask(&output, fd);
    stint_unmask();
    return error;
}

#else

/* --- In place of it, where the libraries for it are missing (docs/profiling.md). */

int stint_report_write(const stint_report *report, int fd, stint_report_kind kind)
{
    (void)fd;
    return report == NULL || (unsigned)kind > STINT_REPORT_PPROF ? EINVAL : ENOTSUP;
}

#endif
