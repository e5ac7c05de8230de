/* SPDX-License-Identifier: MIT
 *
 * A profile as collapsed stacks: for each callstack a line with the account and the task, the functions from the
 * outermost in, and a number of bytes. One thread. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile_output.h"
#include "profile_snapshot.h"
#include "profile_symbols.h"

/* The separators of the format are no part of a name. */
static void write_name(struct sti_output *output, const char *name)
{
    while (*name != '\0') {
        size_t plain = strcspn(name, ";\n");
        sti_output_write(output, name, plain);
        name += plain;
        if (*name != '\0') {
            sti_output_write(output, *name == ';' ? ":" : " ", 1);
            name++;
        }
    }
}

/* In brackets: what is no function. */
static void write_label(struct sti_output *output, const char *what, const char *name, const char *end)
{
    sti_output_write(output, "[", 1);
    write_name(output, what);
    write_name(output, name);
    sti_output_write(output, end, strlen(end));
}

/* Functions that have no name on this machine are one in a module: their addresses would tear the graph apart. */
static void write_frame(struct sti_output *output, const struct sti_symbols *symbols, const struct sti_frame *frame)
{
    const char *path = frame->module < symbols->module_count ? symbols->modules[frame->module].path : "unknown";
    const char *slash = strrchr(path, '/');
    if (frame->function != NULL)
        write_name(output, frame->function);
    else
        write_label(output, "", slash != NULL ? slash + 1 : path, "]");
}

static void write_line(struct sti_output *output, const struct sti_symbols *symbols,
                       const struct sti_profile_site *site, uint64_t bytes)
{
    char number[32];
    if (site->account != NULL)
        write_label(output, "account ", site->account, "];");
    if (site->task != NULL)
        write_label(output, "task ", site->task, "];");
    for (size_t i = site->length; i-- > 0;) {
        write_frame(output, symbols, sti_symbols_frame(symbols, sti_profile_call(site->callstack[i])));
        if (i > 0)
            sti_output_write(output, ";", 1);
    }
    if (site->length == 0)
        write_name(output, "[no callstack]");
    snprintf(number, sizeof number, " %ju", (uintmax_t)bytes);
    write_name(output, number);
    sti_output_write(output, "\n", 1);
}

int sti_profile_write_collapsed(const struct sti_profile_snapshot *snapshot, int fd, stint_profile_kind kind)
{
    struct sti_output *output = malloc(sizeof *output);
    struct sti_symbols symbols;
    if (output == NULL || sti_profile_symbols(snapshot, &symbols) != 0) {
        free(output);
        return ENOMEM;
    }
    sti_output_begin(output, fd, false);
    for (size_t i = 0; i < snapshot->count; i++) {
        const struct sti_profile_values *values = &snapshot->entries[i].values;
        uint64_t bytes = kind == STINT_PROFILE_COLLAPSED ? values->alloc_bytes : values->inuse_bytes;
        if (bytes > 0)
            write_line(output, &symbols, snapshot->entries[i].site, bytes);
    }
    int error = sti_output_end(output);
    sti_symbols_close(&symbols);
    free(output);
    return error;
}
