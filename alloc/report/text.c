/* SPDX-License-Identifier: MIT
 *
 * A report for people: whole, and as one line; see names.h. In the module that writes profiles. One thread. */
#include <inttypes.h>
#include <signal.h>
#include <string.h>

#include "text.h"

#define LINE_INNERMOST 3 /* functions of a chain in one line, beside the outermost; */
#define HOLDER_INNERMOST 6
#define LIBC "libc.so."

/* An address without a name can be looked up where there are symbols: by how far into its module it is. */
static void write_place(FILE *stream, const struct sti_symbols *symbols, const struct sti_frame *frame)
{
    const char *module = sti_report_module(symbols, frame);
    if (frame->function != NULL)
        sti_report_put(stream, frame->function);
    else
        fprintf(stream, "0x%" PRIxPTR, frame->address);
    if (frame->file == NULL && module == NULL)
        return;
    fputs(frame->file != NULL ? " (" : " (in ", stream);
    sti_report_put(stream, frame->file != NULL ? frame->file : module);
    if (frame->file != NULL)
        fprintf(stream, ":%d", frame->line);
    else if (frame->function == NULL)
        fprintf(stream, "+0x%" PRIxPTR, sti_report_offset(symbols, frame));
    fputc(')', stream);
}

static void write_stack(FILE *stream, const struct sti_symbols *symbols, const struct sti_report_stack *stack)
{
    for (size_t i = 0; i < stack->length; i++) {
        fprintf(stream, "    #%-2zu ", i);
        write_place(stream, symbols, sti_report_call(symbols, stack->frames[i]));
        fputc('\n', stream);
    }
    if (stack->is_cut)
        fputs("    ... and further out\n", stream);
}

/* --- What each rule is called here. */

static void write_lock(FILE *stream, const char *what, const struct sti_symbols *symbols,
                       const struct sti_frame *object)
{
    fputs(what, stream);
    if (object == NULL)
        return;
    const char *module = sti_report_module(symbols, object);
    fprintf(stream, " at 0x%" PRIxPTR, object->address);
    if (module == NULL)
        return;
    fputs(" (", stream);
    sti_report_put(stream, object->function != NULL ? object->function : "a variable");
    fputs(" in ", stream);
    sti_report_put(stream, module);
    fputc(')', stream);
}

static void write_wait(FILE *stream, const struct sti_symbols *symbols, const struct sti_report_wait *wait)
{
    const struct sti_frame *awaited = sti_report_awaited(symbols, wait);
    char number[STI_REPORT_ROOM];
    fputs("    ", stream);
    switch (wait->rule) {
    case STINT_DEFERRAL_MASK:
        fputs("the end of a mask", stream);
        break;
    case STINT_DEFERRAL_LOCK:
        write_lock(stream, "the release of a lock", symbols, awaited);
        break;
    case STINT_DEFERRAL_ONCE:
        write_lock(stream, "the end of a once or a cleanup handler", symbols, awaited);
        break;
    case STINT_DEFERRAL_STATIC:
        write_lock(stream, "the end of a static initialiser", symbols, awaited);
        break;
    case STINT_DEFERRAL_THROW:
        fputs("the arrival of a C++ exception at its handler", stream);
        break;
    case STINT_DEFERRAL_CATCH:
        fputs("the end of a catch block", stream);
        break;
    case STINT_DEFERRAL_FRAME:
        fputs("the return of ", stream);
        if (awaited != NULL)
            write_place(stream, symbols, awaited);
        else
            fputs("a frame that may not be left", stream);
        break;
    case STINT_DEFERRAL_NONE:
        break;
    }
    fprintf(stream, ", at %s sample point%s\n", sti_report_number(number, wait->times), wait->times == 1 ? "" : "s");
}

/* --- The sections. */

/* "SIGSEGV at address 0x0": as much as is known. */
static void write_death(FILE *stream, const struct stint_report *report)
{
    const stint_wall_death *death = &report->death;
    char room[STI_REPORT_ROOM];
    if (report->reason == STINT_REASON_BROKEN)
        fputs("what it said cannot be true", stream);
    else if (!death->known)
        fputs("not known", stream);
    else if (death->signal == 0)
        fprintf(stream, "exit status %d", death->status);
    else
        fprintf(stream, "%s%s", report->reason == STINT_REASON_KILLED ? "killed by " : "",
                sti_report_signal(room, death->signal));
    if (sti_report_has_address(death))
        fprintf(stream, " at address 0x%" PRIx64, death->address);
}

static void write_end_of_process(FILE *stream, const struct stint_report *report, const struct sti_symbols *symbols)
{
    fputs("  process    ", stream);
    write_death(stream, report);
    if (report->death.instruction != 0) {
        fputs("\n  at         ", stream);
        write_place(stream, symbols, sti_report_data(symbols, report->death.instruction));
    }
    fputc('\n', stream);
}

static void write_limit(FILE *stream, const struct stint_report *report)
{
    char room[STI_REPORT_ROOM];
    if (report->budget.memory != 0)
        fprintf(stream, " of %s", sti_report_bytes(room, report->budget.memory));
}

/* What a process that has ended had taken, it has not said. */
static void write_bytes(FILE *stream, const struct stint_report *report)
{
    char room[STI_REPORT_ROOM];
    fprintf(stream, "\n  held       %s", sti_report_bytes(room, sti_report_held(report)));
    write_limit(stream, report);
    fprintf(stream, ", at most %s\n", sti_report_bytes(room, report->usage.peak));
    fprintf(stream, "  allocated  %s in all", sti_report_bytes(room, report->usage.allocated));
    if (report->budget.allocation != 0)
        fprintf(stream, " of %s", sti_report_bytes(room, report->budget.allocation));
}

static void write_head(FILE *stream, const struct stint_report *report, const struct sti_symbols *symbols)
{
    char room[STI_REPORT_ROOM];
    char other[STI_REPORT_ROOM];
    fputs("task ", stream);
    sti_report_put(stream, report->is_named ? report->name : "(without a name)");
    fprintf(stream, ": %s, %s, error %d (%s)\n", stint_status_name(report->status), stint_reason_name(report->reason),
            report->error, strerror(report->error));
    if (report->is_dead)
        write_end_of_process(stream, report, symbols);
    fputs("  function   ", stream);
    write_place(stream, symbols, sti_report_call(symbols, report->function));
    if (report->account[0] != '\0') {
        fputs("\n  account    ", stream);
        sti_report_put(stream, report->account);
    }
    if (!report->is_dead)
        write_bytes(stream, report);
    fprintf(stream, "\n  time       %s", sti_report_time(room, report->usage.wall_ns));
    if (report->deadline_ns != 0)
        fprintf(stream, ", with a deadline at %s", sti_report_time(other, report->deadline_ns));
    fputc('\n', stream);
}

/* Its frames had gone, or nobody has seen them. */
static const char *what_it_had_done(const struct stint_report *report)
{
    switch (report->reason) {
    case STINT_REASON_EXCEPTION:
        return "it had thrown an exception";
    case STINT_REASON_FAILED:
        return "it had returned when it failed";
    case STINT_REASON_CRASH:
        return "its process could not say";
    case STINT_REASON_EXIT:
        return "its process had ended when this was found";
    case STINT_REASON_KILLED:
        return "its process was killed without a chance to say";
    case STINT_REASON_BROKEN:
        return "what its process has said is not to be believed";
    default:
        return "it had returned when this was found";
    }
}

static void write_where(FILE *stream, const struct stint_report *report, const struct sti_symbols *symbols)
{
    if (report->tripped.length == 0)
        fprintf(stream, "\nwhere: %s\n", what_it_had_done(report));
    else if (report->was_elsewhere)
        fputs("\nwhere it was stopped, on another thread of the task:\n", stream);
    else if (report->reason == STINT_REASON_CRASH)
        fputs("\nwhere it crashed:\n", stream);
    else
        fputs("\nwhere it was stopped:\n", stream);
    write_stack(stream, symbols, &report->tripped);
    if (report->wait_count > 0)
        fputs("\nwhat its interrupt had to wait for:\n", stream);
    for (size_t i = 0; i < report->wait_count; i++)
        write_wait(stream, symbols, &report->waits[i]);
    if (!report->is_delivered || report->delivered.length == 0)
        return;
    fputs("\nwhere it was left:\n", stream);
    write_stack(stream, symbols, &report->delivered);
}

static void write_when(FILE *stream, const struct stint_report *report)
{
    char room[STI_REPORT_ROOM];
    if (report->point_count == 0)
        return;
    fprintf(stream, "\nwhen:\n    %12s %12s %12s %12s\n", "time", "processor", "held", "allocated");
    for (size_t i = 0; i < report->point_count; i++) {
        const struct sti_report_point *point = &report->points[i];
        fprintf(stream, "    %12s", sti_report_time(room, point->ns));
        fprintf(stream, " %12s", sti_report_time(room, point->cpu_ns));
        fprintf(stream, " %12s", sti_report_bytes(room, point->held));
        fprintf(stream, " %12s\n", sti_report_bytes(room, point->allocated));
    }
}

static void write_string(FILE *stream, const char *text)
{
    char shown[STI_REPORT_TEXT];
    size_t length = strlen(text);
    for (size_t i = 0; i <= length; i++)
        shown[i] = text[i] == '\n' || text[i] == '\t' ? ' ' : text[i];
    fputs("text: \"", stream);
    sti_report_put(stream, shown);
    fputc('"', stream);
}

static void write_contents(FILE *stream, const struct sti_symbols *symbols, const struct sti_report_contents *contents)
{
    switch (contents->kind) {
    case STI_REPORT_ZEROS:
        fputs("zeros", stream);
        break;
    case STI_REPORT_STRING:
        write_string(stream, contents->text);
        break;
    case STI_REPORT_POINTER:
        write_place(stream, symbols, sti_report_data(symbols, contents->address));
        break;
    case STI_REPORT_OTHER:
        break;
    }
}

static void write_class(FILE *stream, const struct sti_symbols *symbols, const struct sti_report_heap *heap,
                        const struct sti_report_class *class)
{
    char room[STI_REPORT_ROOM];
    fprintf(stream, "    %8zu to %8zu", class->above + 1, class->size);
    fprintf(stream, " %14s", sti_report_number(room, class->blocks));
    fprintf(stream, " %12s %5.1f %%", sti_report_bytes(room, class->bytes),
            100.0 * (double)class->bytes / (double)heap->bytes);
    for (size_t i = 0; i < class->content_count; i++) {
        unsigned percent = 100 * class->contents[i].count / class->looked_at;
        fprintf(stream, "%s%u %% ", i == 0 ? "  " : ", ", percent);
        write_contents(stream, symbols, &class->contents[i]);
    }
    fputc('\n', stream);
}

static double percent_of(uint64_t part, uint64_t all)
{
    return all > 0 ? 100.0 * (double)part / (double)all : 0;
}

static void write_lost(FILE *stream, const struct sti_report_heap *heap)
{
    char room[STI_REPORT_ROOM];
    if (heap->blocks == 0)
        return;
    if (heap->is_searched)
        fprintf(stream, "\nlost: nothing points to %s blocks any more, %.1f %% of them (%.1f %% of the bytes)",
                sti_report_number(room, heap->lost_blocks), percent_of(heap->lost_blocks, heap->live_blocks),
                percent_of(heap->lost_bytes, heap->live_bytes));
    else
        fprintf(stream, "\nlost: not known; %.1f %% of the bytes were looked at",
                percent_of(heap->live_bytes, heap->bytes));
    if (heap->unread_bytes > 0)
        fprintf(stream, "; %s could not be read", sti_report_bytes(room, heap->unread_bytes));
    fputc('\n', stream);
}

static size_t count_alike(const struct sti_report_heap *heap, size_t first)
{
    size_t count = 1;
    while (first + count < heap->largest_count && heap->largest[first + count].size == heap->largest[first].size)
        count++;
    return count;
}

static void write_largest(FILE *stream, const struct sti_symbols *symbols, const struct sti_report_heap *heap)
{
    char room[STI_REPORT_ROOM];
    size_t count;
    if (heap->largest_count > 0)
        fputs("\nthe largest blocks:\n", stream);
    for (size_t i = 0; i < heap->largest_count; i += count) {
        count = count_alike(heap, i);
        fprintf(stream, "    %12s", sti_report_bytes(room, heap->largest[i].size));
        if (count > 1)
            fprintf(stream, "  %zu of them", count);
        if (heap->largest[i].contents.kind != STI_REPORT_OTHER)
            fputs("  ", stream);
        write_contents(stream, symbols, &heap->largest[i].contents);
        fputc('\n', stream);
    }
}

static void write_what(FILE *stream, const struct stint_report *report, const struct sti_symbols *symbols)
{
    const struct sti_report_heap *heap = &report->heap;
    char room[STI_REPORT_ROOM];
    if (!heap->is_taken)
        return;
    fprintf(stream, "\nwhat it held: %s blocks", sti_report_number(room, heap->blocks));
    fprintf(stream, " of %s in all", sti_report_bytes(room, heap->bytes));
    fprintf(stream, "; %s of libc's", sti_report_bytes(room, heap->libc_bytes));
    fprintf(stream, "; %s mapped\n", sti_report_bytes(room, heap->mapped_bytes));
    for (size_t i = heap->class_count; i-- > 0;)
        write_class(stream, symbols, heap, &heap->classes[i]);
    write_largest(stream, symbols, heap);
    write_lost(stream, heap);
}

static void write_who(FILE *stream, const struct stint_report *report, const struct sti_symbols *symbols)
{
    char room[STI_REPORT_ROOM];
    if (!report->is_sampled)
        return;
    fprintf(stream, "\nwho held it, by %s samples", sti_report_number(room, report->samples));
    fprintf(stream, " of %s each:\n", sti_report_bytes(room, (uint64_t)report->interval));
    for (size_t i = 0; i < report->holder_count; i++) {
        const struct sti_report_holder *holder = &report->holders[i];
        fprintf(stream, "    %12s +- %3u %%  ", sti_report_bytes(room, holder->bytes),
                sti_report_error_percent(holder->samples));
        sti_report_chain(stream, symbols, holder->frames, holder->length, HOLDER_INNERMOST);
        fputc('\n', stream);
    }
}

static void write_kept(FILE *stream, const struct stint_report *report, const struct sti_symbols *symbols)
{
    char room[STI_REPORT_ROOM];
    if (report->root_count == 0)
        return;
    fprintf(stream, "\nkept back from the rollback: %s, by\n", sti_report_bytes(room, report->usage.kept));
    for (size_t i = 0; i < report->root_count; i++) {
        const struct sti_report_root *root = &report->roots[i];
        const char *symbol = root->address != 0 ? sti_report_data(symbols, root->address)->function : NULL;
        fputs("    ", stream);
        sti_report_put(stream, symbol != NULL ? symbol : "a variable");
        fputs(" of ", stream);
        sti_report_put(stream, root->module[0] != '\0' ? root->module : "the program");
        fputs(" (", stream);
        sti_report_put(stream, root->where);
        fprintf(stream, " + 0x%" PRIx64 ")", root->offset);
        if (root->size != 0)
            fprintf(stream, ": a block of %s", sti_report_bytes(room, root->size));
        fputc('\n', stream);
    }
}

void sti_report_write_text(FILE *stream, const struct stint_report *report, const struct sti_symbols *symbols)
{
    write_head(stream, report, symbols);
    write_where(stream, report, symbols);
    write_when(stream, report);
    write_what(stream, report, symbols);
    write_who(stream, report, symbols);
    write_kept(stream, report, symbols);
}

/* --- One line. */

static void write_held(FILE *stream, const struct stint_report *report)
{
    char room[STI_REPORT_ROOM];
    char limit[STI_REPORT_ROOM];
    const char *held = sti_report_bytes(room, sti_report_held(report));
    if (report->budget.memory == 0) {
        fputs(held, stream);
        return;
    }
    /* One unit for both where they have the same. */
    sti_report_bytes(limit, report->budget.memory);
    const char *unit = strchr(held, ' ');
    const char *unit_of_limit = strchr(limit, ' ');
    int length = strcmp(unit, unit_of_limit) == 0 ? (int)(unit - held) : (int)strlen(held);
    fprintf(stream, "%.*s of %s", length, held, limit);
}

/* The classes that hold most, together three quarters of all: those from the smallest to the largest among others. */
struct bulk {
    size_t blocks;
    size_t above; /* bytes of a block: more than this, */
    size_t up_to; /* and no more than this */
};

static struct bulk bulk_of(const struct sti_report_heap *heap)
{
    bool taken[STI_REPORT_CLASSES] = { false };
    struct bulk bulk = { .above = SIZE_MAX };
    size_t bytes = 0;
    while (bytes < heap->bytes / 4 * 3) {
        size_t largest = STI_REPORT_CLASSES;
        for (size_t i = 0; i < heap->class_count; i++) {
            if (!taken[i] && (largest == STI_REPORT_CLASSES || heap->classes[i].bytes > heap->classes[largest].bytes))
                largest = i;
        }
        if (largest == STI_REPORT_CLASSES)
            break;
        const struct sti_report_class *class = &heap->classes[largest];
        taken[largest] = true;
        bytes += class->bytes;
        bulk.blocks += class->blocks;
        bulk.above = class->above < bulk.above ? class->above : bulk.above;
        bulk.up_to = class->size > bulk.up_to ? class->size : bulk.up_to;
    }
    return bulk;
}

static void write_blocks(FILE *stream, const struct stint_report *report)
{
    struct bulk bulk = bulk_of(&report->heap);
    char room[STI_REPORT_ROOM];
    write_held(stream, report);
    if (bulk.blocks > 0)
        fprintf(stream, " in %s block%s of %zu to %zu bytes", sti_report_number(room, bulk.blocks),
                bulk.blocks == 1 ? "" : "s", bulk.above + 1, bulk.up_to);
}

/* Of an abort, the one that has called libc for it. */
static size_t first_of_line(const struct stint_report *report, const struct sti_symbols *symbols)
{
    size_t first = 0;
    if (!report->is_dead || report->death.signal != SIGABRT)
        return 0;
    while (first < report->tripped.length) {
        const char *module = sti_report_module(symbols, sti_report_call(symbols, report->tripped.frames[first]));
        if (module == NULL || strncmp(module, LIBC, strlen(LIBC)) != 0)
            return first;
        first++;
    }
    return 0;
}

void sti_report_write_line(FILE *stream, const struct stint_report *report, const struct sti_symbols *symbols)
{
    size_t first = first_of_line(report, symbols);
    if (report->is_dead)
        write_death(stream, report);
    else
        write_blocks(stream, report);
    if (report->tripped.length > 0) {
        fputs(report->is_dead ? " in " : "; in ", stream);
        sti_report_chain(stream, symbols, report->tripped.frames + first, report->tripped.length - first,
                         LINE_INNERMOST);
    }
    fputc('\n', stream);
}
