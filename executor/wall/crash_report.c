/* SPDX-License-Identifier: MIT
 *
 * What the program makes of a child's end: a report (alloc/observe), of a record that may say anything, and of what the
 * kernel has said; see crash_report.h. In the program; any thread. */
#include "crash_report.h"

#include <errno.h>
#include <string.h>

#include "alloc/observe/report.h"
#include "alloc/platform/libc.h"

/* --- The record. */

static void end_strings(struct sti_crash_record *copy)
{
    for (size_t i = 0; i < STI_CRASH_MODULES; i++)
        copy->modules[i].path[STI_CRASH_PATH_SIZE - 1] = '\0';
}

/* A module that ends before it begins has no address. */
bool sti_crash_check(struct sti_crash_record *copy)
{
    if (copy->taken == 0)
        return false;
    copy->taken = 1;
    if (copy->length > STI_CRASH_DEPTH)
        copy->length = STI_CRASH_DEPTH;
    if (copy->module_count > STI_CRASH_MODULES)
        copy->module_count = STI_CRASH_MODULES;
    end_strings(copy);
    return true;
}

/* --- The modules. */

/* The known modules come first, so that no record takes the place of one. */
struct others {
    struct sti_other_module list[STI_CRASH_KNOWN + STI_CRASH_MODULES];
    size_t count;
    bool alone;
};

static const char *file_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

/* A fork has its parent's modules where that has them. */
static bool is_loaded_here(uintptr_t begin, uintptr_t end, const char *path)
{
    struct dl_find_object found;
    if (_dl_find_object((void *)begin, &found) != 0 || (uintptr_t)found.dlfo_map_start != begin ||
        (uintptr_t)found.dlfo_map_end != end)
        return false;
    const char *here = found.dlfo_link_map->l_name;
    return here == NULL || here[0] == '\0' || strcmp(file_of(here), file_of(path)) == 0;
}

static void crash_add_module(struct others *others, uintptr_t begin, uintptr_t end, const char *path, bool may_be_read)
{
    bool is_here = !others->alone && is_loaded_here(begin, end, path);
    if (begin < end && !is_here)
        others->list[others->count++] =
            (struct sti_other_module){ .begin = begin, .end = end, .path = path, .may_be_read = may_be_read };
}

static void add_known(struct others *others, const struct sti_crash_modules *known)
{
    for (size_t i = 0; i < known->count && i < STI_CRASH_KNOWN; i++) {
        if (memchr(known->list[i].path, '\0', STI_CRASH_KNOWN_PATH_SIZE) != NULL)
            crash_add_module(others, known->list[i].begin, known->list[i].end, known->list[i].path, true);
    }
}

static void add_recorded(struct others *others, const struct sti_crash_record *record)
{
    for (uint32_t i = 0; i < record->module_count; i++)
        crash_add_module(others, record->modules[i].begin, record->modules[i].end, record->modules[i].path, false);
}

static int name_modules(struct stint_report *report, stint_wall_fn *fn, const struct sti_crash_modules *known,
                        const struct sti_crash_record *record)
{
    struct others others = { .alone = fn == NULL };
    if (known != NULL)
        add_known(&others, known);
    if (record != NULL)
        add_recorded(&others, record);
    if (others.count == 0 && !others.alone)
        return 0;
    return sti_report_set_others(
        report, &(struct sti_other_modules){ .list = others.list, .count = others.count, .alone = others.alone });
}

int sti_crash_name_modules(struct stint_report *report, stint_wall_fn *fn, const struct sti_crash_modules *known)
{
    return name_modules(report, fn, known, NULL);
}

/* --- The report. */

static bool is_of_process(stint_reason reason)
{
    return reason == STINT_REASON_CRASH || reason == STINT_REASON_EXIT || reason == STINT_REASON_KILLED ||
           reason == STINT_REASON_BROKEN;
}

static void note_death(struct stint_report *report, const stint_outcome *outcome)
{
    if (!is_of_process(outcome->reason) || outcome->payload == NULL ||
        outcome->payload_size != sizeof(stint_wall_death))
        return;
    report->is_dead = true;
    memcpy(&report->death, outcome->payload, sizeof report->death);
}

/* What the child says counts only where the kernel, or the program itself, says the same: it has died by that signal,
 * or has been asked. */
static bool is_of_this_end(const struct sti_crash_record *record, const struct stint_report *report)
{
    if (report->reason == STINT_REASON_CRASH)
        return report->is_dead && report->death.signal == record->signal;
    return !is_of_process(report->reason) && record->signal == STI_CRASH_ASK;
}

static void note_stack(struct sti_report_stack *stack, const struct sti_crash_record *record)
{
    _Static_assert(STI_CRASH_DEPTH <= STI_REPORT_DEPTH, "the frames of a record fit into a report");
    stack->length = record->length;
    stack->is_cut = record->length == STI_CRASH_DEPTH;
    for (uint32_t i = 0; i < record->length; i++)
        stack->frames[i] = record->frames[i] + (i == 0 ? 1 : 0);
}

static void note_record(struct stint_report *report, const struct sti_crash_record *record)
{
    note_stack(&report->tripped, record);
    if (report->reason != STINT_REASON_CRASH)
        return;
    report->death.code = record->code;
    report->death.address = record->address;
    report->death.instruction = record->instruction;
}

struct stint_report *sti_crash_report(const struct sti_crash_record *checked, const stint_outcome *outcome,
                                      const stint_options *options, stint_wall_fn *fn,
                                      const struct sti_crash_modules *known)
{
    struct stint_report *report = sti_report_make(false);
    if (report == NULL)
        return NULL;
    sti_report_describe(report, options, outcome);
    note_death(report, outcome);
    if (fn != NULL)
        report->function = (uintptr_t)fn + 1;
    if (checked != NULL && is_of_this_end(checked, report))
        note_record(report, checked);
    if (name_modules(report, fn, known, checked) != 0) {
        sti_report_free(report);
        return NULL;
    }
    return report;
}
