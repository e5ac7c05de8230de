/* SPDX-License-Identifier: MIT
 *
 * Names and numbers of a report, and the module's part of its writing; see names.h. */
#include "json.h"
#include "text.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/base/utf8.h"

/* --- Names. */

struct addresses {
    uintptr_t *list; /* NULL: they are only counted */
    size_t count;
};

static void add(struct addresses *addresses, uintptr_t address)
{
    if (addresses->list != NULL)
        addresses->list[addresses->count] = address;
    addresses->count++;
}

static void add_calls(struct addresses *addresses, const uintptr_t *frames, size_t length)
{
    for (size_t i = 0; i < length; i++)
        add(addresses, frames[i] - 1);
}

static void add_contents(struct addresses *addresses, const struct sti_report_contents *contents)
{
    if (contents->kind == STI_REPORT_POINTER)
        add(addresses, contents->address);
}

static bool is_of_code(const struct sti_report_wait *wait)
{
    return wait->rule == STINT_DEFERRAL_FRAME;
}

static void add_heap(struct addresses *addresses, const struct sti_report_heap *heap)
{
    for (size_t i = 0; i < heap->class_count; i++) {
        for (size_t j = 0; j < heap->classes[i].content_count; j++)
            add_contents(addresses, &heap->classes[i].contents[j]);
    }
    for (size_t i = 0; i < heap->largest_count; i++)
        add_contents(addresses, &heap->largest[i].contents);
}

static void add_all(struct addresses *addresses, const struct stint_report *report)
{
    addresses->count = 0;
    add(addresses, report->function - 1);
    add(addresses, report->death.instruction);
    add_calls(addresses, report->tripped.frames, report->tripped.length);
    add_calls(addresses, report->delivered.frames, report->delivered.length);
    for (size_t i = 0; i < report->wait_count; i++)
        add(addresses, report->waits[i].at - is_of_code(&report->waits[i]));
    add_heap(addresses, &report->heap);
    for (size_t i = 0; i < report->root_count; i++)
        add(addresses, report->roots[i].address);
    for (size_t i = 0; i < report->holder_count; i++)
        add_calls(addresses, report->holders[i].frames, report->holders[i].length);
}

int sti_report_names_open(struct sti_symbols *symbols, const struct stint_report *report, sti_demangle_fn *demangle)
{
    struct addresses addresses = { .list = NULL };
    add_all(&addresses, report);
    addresses.list = malloc(addresses.count * sizeof *addresses.list);
    if (addresses.list == NULL)
        return ENOMEM;
    add_all(&addresses, report);
    int error = sti_symbols_open(symbols, addresses.list, addresses.count, &report->others, demangle);
    free(addresses.list);
    return error;
}

const struct sti_frame *sti_report_data(const struct sti_symbols *symbols, uintptr_t address)
{
    return sti_symbols_frame(symbols, address);
}

const struct sti_frame *sti_report_call(const struct sti_symbols *symbols, uintptr_t return_address)
{
    return sti_symbols_frame(symbols, return_address - 1);
}

const struct sti_frame *sti_report_awaited(const struct sti_symbols *symbols, const struct sti_report_wait *wait)
{
    return wait->at != 0 ? sti_symbols_frame(symbols, wait->at - is_of_code(wait)) : NULL;
}

const char *sti_report_module(const struct sti_symbols *symbols, const struct sti_frame *frame)
{
    if (frame->module >= symbols->module_count)
        return NULL;
    const char *path = symbols->modules[frame->module].path;
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

uintptr_t sti_report_offset(const struct sti_symbols *symbols, const struct sti_frame *frame)
{
    return frame->module < symbols->module_count ? frame->address - symbols->modules[frame->module].begin : 0;
}

static bool is_control(const char *character, size_t length)
{
    unsigned char first = (unsigned char)character[0];
    return first < ' ' || first == 0x7f || (length == 2 && first == 0xc2 && (unsigned char)character[1] < 0xa0);
}

void sti_report_put(FILE *stream, const char *name)
{
    while (*name != '\0') {
        size_t length = sti_utf8_character(name);
        bool is_shown = length > 0 && !is_control(name, length);
        size_t bytes = length > 0 ? length : 1;
        for (size_t i = 0; i < bytes; i++)
            fprintf(stream, is_shown ? "%c" : "\\x%02x", (unsigned char)name[i]);
        name += bytes;
    }
}

#define SHOWN 16

static void write_function(FILE *stream, const struct sti_symbols *symbols, const struct sti_frame *frame)
{
    const char *module = sti_report_module(symbols, frame);
    if (frame->function == NULL)
        fputc('[', stream);
    sti_report_put(stream, frame->function != NULL ? frame->function : module != NULL ? module : "unknown");
    if (frame->function == NULL)
        fputc(']', stream);
}

static bool is_same(const struct sti_frame *a, const struct sti_frame *b)
{
    if (a->function == NULL || b->function == NULL)
        return a->function == b->function && a->module == b->module;
    return strcmp(a->function, b->function) == 0;
}

static bool is_shown(const struct sti_frame *const *shown, size_t count, const struct sti_frame *frame)
{
    size_t i = 0;
    while (i < count && !is_same(shown[i], frame))
        i++;
    return i < count;
}

/* What comes again, in a recursion, is said once. */
void sti_report_chain(FILE *stream, const struct sti_symbols *symbols, const uintptr_t *frames, size_t length,
                      size_t innermost)
{
    const struct sti_frame *shown[SHOWN];
    size_t count = 0;
    size_t at = 0;
    for (; at < length && count < innermost && count < SHOWN - 1; at++) {
        const struct sti_frame *frame = sti_report_call(symbols, frames[at]);
        if (is_shown(shown, count, frame))
            continue;
        shown[count++] = frame;
        if (count > 1)
            fputs(" < ", stream);
        write_function(stream, symbols, frame);
    }
    const struct sti_frame *last = length > 0 ? sti_report_call(symbols, frames[length - 1]) : NULL;
    if (last == NULL || at >= length || is_shown(shown, count, last))
        return;
    fputs(at + 1 < length ? " < ... < " : " < ", stream);
    write_function(stream, symbols, last);
}

/* --- How its process ended. */

#define SAYS_MAX 20 /* bytes of a signal's name */

const char *sti_report_signal(char *room, int number)
{
    const char *name = sigabbrev_np(number);
    if (name != NULL && strlen(name) <= SAYS_MAX)
        snprintf(room, STI_REPORT_ROOM, "SIG%s", name);
    else
        snprintf(room, STI_REPORT_ROOM, "signal %d", number);
    return room;
}

bool sti_report_has_address(const stint_wall_death *death)
{
    bool is_fault =
        death->signal == SIGSEGV || death->signal == SIGBUS || death->signal == SIGFPE || death->signal == SIGILL;
    return is_fault && death->code > 0 && death->code != SI_KERNEL;
}

/* --- Numbers. */

unsigned sti_report_error_percent(uint64_t samples)
{
    unsigned percent = 1;
    while (percent < 100 && percent * percent * samples < 10000)
        percent++;
    return percent;
}

const char *sti_report_bytes(char *room, uint64_t bytes)
{
    static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB" };
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 1024 && unit < sizeof units / sizeof *units - 1) {
        value /= 1024;
        unit++;
    }
    snprintf(room, STI_REPORT_ROOM, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
    return room;
}

const char *sti_report_time(char *room, uint64_t ns)
{
    double value = (double)ns;
    const char *unit = "ns";
    if (ns >= UINT64_C(1000000000)) {
        value /= 1e9;
        unit = "s";
    } else if (ns >= 1000000) {
        value /= 1e6;
        unit = "ms";
    } else if (ns >= 1000) {
        value /= 1e3;
        unit = "us";
    }
    snprintf(room, STI_REPORT_ROOM, ns < 1000 ? "%.0f %s" : "%.2f %s", value, unit);
    return room;
}

const char *sti_report_number(char *room, uint64_t number)
{
    char digits[STI_REPORT_ROOM];
    size_t length = (size_t)snprintf(digits, sizeof digits, "%" PRIu64, number);
    size_t filled = 0;
    for (size_t i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            room[filled++] = ',';
        room[filled++] = digits[i];
    }
    room[filled] = '\0';
    return room;
}

/* --- The module's part. */

STINT_API sti_report_writer_fn sti_report_writer;

int sti_report_writer(const struct stint_report *report, sti_demangle_fn *demangle, FILE *stream,
                      stint_report_kind kind)
{
    struct sti_symbols symbols;
    int error = sti_report_names_open(&symbols, report, demangle);
    if (error != 0)
        return error;
    if (kind == STINT_REPORT_JSON)
        sti_report_write_json(stream, report, &symbols);
    else if (kind == STINT_REPORT_LINE)
        sti_report_write_line(stream, report, &symbols);
    else
        sti_report_write_text(stream, report, &symbols);
    sti_symbols_close(&symbols);
    return 0;
}
