/* SPDX-License-Identifier: MIT
 *
 * A report for people, whole and as one line; for machines, as JSON, whose fields docs/reports.md lists; and as a
 * profile. In the module that writes profiles. One thread; errors are the stream's. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/platform/utf8.h"
#include "report.h"
#include "symbols.h"

#define ROOM 48
#define ROOMS 4

struct writing {
    FILE *stream;
    bool is_json; /* otherwise it is for people */
    struct sti_symbols symbols;
    char rooms[ROOMS][ROOM]; /* for what is made for one call of report_put() */
    unsigned room;
};

/* --- What the addresses are called. --- */

/* The frame of the call that is executed right before a return address. */
static const struct sti_frame *frame_of_call(struct writing *to, uintptr_t return_address)
{
    return sti_symbols_frame(&to->symbols, return_address - 1);
}

/* The variable or function that lies at the address; NULL: none. */
static const struct sti_frame *frame_of_data(struct writing *to, uintptr_t address)
{
    return address != 0 ? sti_symbols_frame(&to->symbols, address) : NULL;
}

static const struct sti_frame *frame_of_awaited(struct writing *to, const struct sti_report_wait *wait)
{
    return frame_of_data(to, wait->rule == STINT_DEFERRAL_FRAME && wait->at != 0 ? wait->at - 1 : wait->at);
}

/* --- Putting text and values together. --- */

/* Whether a character of a name is a control character, which might act on a terminal: reports for people show its
 * bytes in hexadecimal. */
static bool is_control(const char *character, size_t length)
{
    unsigned char first = (unsigned char)character[0];
    return first < ' ' || first == 0x7f || (length == 2 && first == 0xc2 && (unsigned char)character[1] < 0xa0);
}

static void put_shown(FILE *stream, const char *name)
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

static void put_quoted(FILE *stream, const char *text)
{
    char room[STI_JSON_ROOM];
    fputc('"', stream);
    while (*text != '\0')
        fwrite(room, 1, sti_json_character(room, &text), stream);
    fputc('"', stream);
}

/* A text that there is not, as compilers will not have NULL for a %s. Known by its address, which clang gave to "" too
 * where this was empty. */
static const char nothing[] = "(nothing)";

static const char *or_nothing(const char *text)
{
    return text != NULL ? text : nothing;
}

static void json_put_string(const struct writing *to, const char *text)
{
    if (text == nothing)
        fputs("null", to->stream);
    else if (to->is_json)
        put_quoted(to->stream, text);
    else
        put_shown(to->stream, text);
}

static void put_frame(struct writing *to, const struct sti_frame *frame);

/* Write the value of a conversion, whose text behind the % is given. Returns the text behind it. */
static const char *put_value(struct writing *to, const char *conversion, va_list *values)
{
    char plain[16] = "%";
    size_t length = strcspn(conversion, "dfipsux%") + 1;
    memcpy(plain + 1, conversion, length);
    switch (conversion[length - 1]) {
    case 'i':
        fputs(va_arg(*values, int) ? "true" : "false", to->stream);
        break;
    case 'd':
        fprintf(to->stream, plain, va_arg(*values, int));
        break;
    case 'f':
        fprintf(to->stream, plain, va_arg(*values, double));
        break;
    case 'p':
        put_frame(to, va_arg(*values, const struct sti_frame *));
        break;
    case 's':
        if (length > 1)
            fprintf(to->stream, plain, va_arg(*values, const char *));
        else
            json_put_string(to, va_arg(*values, const char *));
        break;
    case 'u':
    case 'x':
        fprintf(to->stream, plain, va_arg(*values, unsigned long));
        break;
    default:
        fputc('%', to->stream);
    }
    return conversion + length;
}

/* Writes as printf does, but for these: %s is a name or a text of others, unless a width is given; %p is a struct
 * sti_frame; %i is a truth value; numbers without a sign are long. In JSON ' stands for a quotation mark, and nothing
 * (or_nothing) is null. */
__attribute__((format(printf, 2, 3))) static void report_put(struct writing *to, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    while (*format != '\0') {
        size_t length = strcspn(format, to->is_json ? "%'" : "%");
        fwrite(format, 1, length, to->stream);
        format += length;
        if (*format == '\'') {
            fputc('"', to->stream);
            format++;
        } else if (*format == '%') {
            format = put_value(to, format + 1, &values);
        }
    }
    va_end(values);
}

/* Write the comma before all entries of a list in JSON but the first. */
static void json_separate(const struct writing *to, size_t index)
{
    if (index > 0)
        fputc(',', to->stream);
}

static uintptr_t offset_of(const struct sti_frame *frame)
{
    return frame->module != NULL ? frame->address - frame->module->begin : 0;
}

/* For people, an address without a name can be looked up where there are symbols: by how far into its module it is. */
static void put_place(struct writing *to, const struct sti_frame *frame)
{
    if (frame->function != NULL)
        report_put(to, "%s", frame->function);
    else
        report_put(to, "0x%lx", frame->address);
    if (frame->file != NULL)
        report_put(to, " (%s:%d)", frame->file, frame->line);
    else if (frame->module != NULL && frame->function != NULL)
        report_put(to, " (in %s)", sti_frame_module(frame));
    else if (frame->module != NULL)
        report_put(to, " (in %s+0x%lx)", sti_frame_module(frame), offset_of(frame));
}

/* An address is a string: a reader's number may not hold its digits. */
static void put_frame(struct writing *to, const struct sti_frame *frame)
{
    if (frame == NULL)
        json_put_string(to, nothing);
    else if (!to->is_json)
        put_place(to, frame);
    else
        report_put(to, "{'address':'0x%lx','function':%s,'module':%s,'offset':%lu,'file':%s,'line':%d}", frame->address,
                   or_nothing(frame->function), frame->module != NULL ? frame->module->path : nothing, offset_of(frame),
                   or_nothing(frame->file), frame->file != NULL ? frame->line : 0);
}

/* --- Numbers for people. --- */

static char *next_room(struct writing *to)
{
    return to->rooms[to->room++ % ROOMS];
}

/* A whole number of the smallest unit, or so many places of a larger one. */
static char *text_of_scaled(struct writing *to, uint64_t number, unsigned step, const char *const *units, int places)
{
    char *room = next_room(to);
    double value = (double)number;
    size_t unit = 0;
    for (; value >= step && units[unit + 1] != NULL; unit++)
        value /= step;
    snprintf(room, ROOM, "%.*f %s", unit == 0 ? 0 : places, value, units[unit]);
    return room;
}

static char *text_of_bytes(struct writing *to, uint64_t bytes)
{
    static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB", NULL };
    return text_of_scaled(to, bytes, 1024, units, 1);
}

/* What strerror() says, without memory: it has to make the text for a number that it does not know. */
static const char *text_of_error(struct writing *to, int error)
{
    char *room = next_room(to);
    const char *known = strerrordesc_np(error);
    snprintf(room, ROOM, "Unknown error %d", error);
    return known != NULL ? known : room;
}

static const char *text_of_time(struct writing *to, uint64_t ns)
{
    static const char *const units[] = { "ns", "us", "ms", "s", NULL };
    return text_of_scaled(to, ns, 1000, units, 2);
}

/* A number in decimal, with commas. */
static const char *text_of_number(struct writing *to, uint64_t number)
{
    char *room = next_room(to);
    char *end = room + ROOM - 1;
    *end = '\0';
    for (unsigned digits = 1; number > 0 || digits == 1; number /= 10, digits++) {
        *--end = (char)('0' + number % 10);
        if (digits % 3 == 0 && number >= 10)
            *--end = ',';
    }
    return end;
}

static double percent_of(uint64_t part, uint64_t all)
{
    return all > 0 ? 100.0 * (double)part / (double)all : 0;
}

/* The relative error of a number that so many samples tell: one in the root of that, in percent, rounded up. */
static unsigned long error_percent(uint64_t samples)
{
    unsigned percent = 1;
    while (percent < 100 && percent * percent * samples < 10000)
        percent++;
    return percent;
}

/* --- Both for people and for machines. --- */

/* The bytes that the task held in all, as far as they are known. */
static uint64_t held_of(const struct stint_report *report)
{
    const struct sti_report_heap *heap = &report->heap;
    if (heap->is_taken)
        return heap->bytes + heap->libc_bytes + heap->mapped_bytes;
    return report->point_count > 0 ? report->points[report->point_count - 1].held : report->usage.peak;
}

static const char *signal_name(struct writing *to, int number)
{
    char *room = next_room(to);
    const char *name = sigabbrev_np(number);
    if (name != NULL)
        snprintf(room, ROOM, "SIG%s", name);
    else
        snprintf(room, ROOM, "signal %d", number);
    return room;
}

/* Whether it is known at which address the fault was that ended the process. */
static bool death_has_address(const stint_wall_death *death)
{
    bool is_fault =
        death->signal == SIGSEGV || death->signal == SIGBUS || death->signal == SIGFPE || death->signal == SIGILL;
    return is_fault && death->code > 0 && death->code != SI_KERNEL;
}

/* Where it was left, if that was later than where it was stopped. */
static size_t left_length(const struct stint_report *report)
{
    return report->is_delivered ? report->delivered.length : 0;
}

static const char *root_symbol(struct writing *to, const struct sti_report_root *root)
{
    return root->address != 0 ? frame_of_data(to, root->address)->function : NULL;
}

/* --- JSON. --- */

static void json_frames(struct writing *to, const uintptr_t *frames, size_t length)
{
    report_put(to, "[");
    for (size_t i = 0; i < length; i++) {
        json_separate(to, i);
        report_put(to, "%p", frame_of_call(to, frames[i]));
    }
    report_put(to, "]");
}

static void json_head(struct writing *to, const struct stint_report *report)
{
    const stint_budget *budget = &report->budget;
    const stint_usage *usage = &report->usage;
    report_put(to, "'task':%s,'account':%s,'status':%s,'reason':%s,'error':%d,'function':%p",
               report->is_named ? report->name : nothing, report->account[0] != '\0' ? report->account : nothing,
               stint_status_name(report->status), stint_reason_name(report->reason), report->error,
               frame_of_call(to, report->function));
    report_put(
        to, ",'limits':{'allocation':%lu,'memory':%lu,'wall_ns':%lu,'run_ns':%lu,'cpu_ns':%lu,'deadline_ns':%lu}",
        budget->allocation, budget->memory, budget->wall_ns, budget->run_ns, budget->cpu_ns, report->deadline_ns);
    report_put(to, ",'usage':{'held':%lu,'allocated':%lu,'peak':%lu,'samples':%lu,'deferred':%lu,'kept':%lu",
               held_of(report), usage->allocated, usage->peak, usage->samples, usage->deferred, usage->kept);
    report_put(to, ",'wall_ns':%lu,'queued_ns':%lu,'cpu_ns':%lu}", usage->wall_ns, usage->queued_ns, usage->cpu_ns);
}

static void json_death(struct writing *to, const stint_wall_death *death)
{
    report_put(to, ",'death':{'is_known':%i,'status':%d,'signal':%d,'signal_name':%s,'code':%d", death->known,
               death->status, death->signal, death->signal != 0 ? signal_name(to, death->signal) : nothing,
               death->code);
    if (death_has_address(death))
        report_put(to, ",'address':'0x%lx'", death->address);
    else
        report_put(to, ",'address':null");
    report_put(to, ",'instruction':%p}", frame_of_data(to, death->instruction));
}

static void json_where(struct writing *to, const struct stint_report *report)
{
    report_put(to, ",'where':{'on_other_thread':%i,'stopped':", report->was_elsewhere);
    json_frames(to, report->tripped.frames, report->tripped.length);
    report_put(to, ",'stopped_is_cut':%i,'waited_for':[", report->tripped.is_cut);
    for (size_t i = 0; i < report->wait_count; i++) {
        const struct sti_report_wait *wait = &report->waits[i];
        json_separate(to, i);
        report_put(to, "{'rule':%s,'times':%lu", stint_deferral_name(wait->rule), wait->times);
        if (wait->at != 0)
            report_put(to, ",'at':%p", frame_of_awaited(to, wait));
        report_put(to, "}");
    }
    report_put(to, "],'left':");
    json_frames(to, report->delivered.frames, left_length(report));
    report_put(to, ",'left_is_cut':%i},'when':[", left_length(report) > 0 && report->delivered.is_cut);
    for (size_t i = 0; i < report->point_count; i++) {
        const struct sti_report_point *point = &report->points[i];
        json_separate(to, i);
        report_put(to, "{'ns':%lu,'cpu_ns':%lu,'held':%lu,'allocated':%lu}", point->ns, point->cpu_ns, point->held,
                   point->allocated);
    }
    report_put(to, "]");
}

/* The fields of what is already open. */
static void json_contents(struct writing *to, const struct sti_report_contents *contents)
{
    static const char *const kinds[] = {
        [STI_REPORT_OTHER] = "other",
        [STI_REPORT_ZEROS] = "zeros",
        [STI_REPORT_STRING] = "text",
        [STI_REPORT_POINTER] = "pointer",
    };
    report_put(to, ",'begins_with':%s", kinds[contents->kind]);
    if (contents->kind == STI_REPORT_STRING)
        report_put(to, ",'text':%s", contents->text);
    else if (contents->kind == STI_REPORT_POINTER)
        report_put(to, ",'word':%lu,'to':%p", (unsigned long)contents->word, frame_of_data(to, contents->address));
    report_put(to, "}");
}

static void json_class(struct writing *to, const struct sti_report_class *class)
{
    report_put(to, "{'above':%lu,'size':%lu,'blocks':%lu,'bytes':%lu,'looked_at':%lu,'contents':[", class->above,
               class->size, class->blocks, class->bytes, (unsigned long)class->looked_at);
    for (size_t i = 0; i < class->content_count; i++) {
        json_separate(to, i);
        report_put(to, "{'blocks':%lu", (unsigned long)class->contents[i].count);
        json_contents(to, &class->contents[i]);
    }
    report_put(to, "]}");
}

static void json_what(struct writing *to, const struct sti_report_heap *heap)
{
    report_put(to, ",'what':{'blocks':%lu,'bytes':%lu,'libc_bytes':%lu,'mapped_bytes':%lu,'took_ns':%lu,'classes':[",
               heap->blocks, heap->bytes, heap->libc_bytes, heap->mapped_bytes, heap->took_ns);
    for (size_t i = 0; i < heap->class_count; i++) {
        json_separate(to, i);
        json_class(to, &heap->classes[i]);
    }
    report_put(to, "],'largest':[");
    for (size_t i = 0; i < heap->largest_count; i++) {
        json_separate(to, i);
        report_put(to, "{'size':%lu", heap->largest[i].size);
        json_contents(to, &heap->largest[i].contents);
    }
    report_put(to, "]}");
}

static void json_who(struct writing *to, const struct stint_report *report)
{
    report_put(to, ",'who':{'samples':%lu,'interval':%lu,'holders':[", report->samples, (uint64_t)report->interval);
    for (size_t i = 0; i < report->holder_count; i++) {
        const struct sti_report_holder *holder = &report->holders[i];
        json_separate(to, i);
        report_put(to, "{'bytes':%lu,'blocks':%lu,'samples':%lu,'error_percent':%lu,'frames':", holder->bytes,
                   holder->blocks, holder->samples, error_percent(holder->samples));
        json_frames(to, holder->frames, holder->length);
        report_put(to, "}");
    }
    report_put(to, "]}");
}

static void write_json(struct writing *to, const struct stint_report *report)
{
    report_put(to, "{");
    json_head(to, report);
    if (report->is_dead)
        json_death(to, &report->death);
    json_where(to, report);
    if (report->heap.is_taken)
        json_what(to, &report->heap);
    if (report->is_sampled)
        json_who(to, report);
    report_put(to, ",'kept':[");
    for (size_t i = 0; i < report->root_count; i++) {
        const struct sti_report_root *root = &report->roots[i];
        json_separate(to, i);
        report_put(to, "{'module':%s,'symbol':%s,'where':%s,'offset':%lu,'block_size':%lu}", root->module,
                   or_nothing(root_symbol(to, root)), root->where, root->offset, root->size);
    }
    report_put(to, "]}\n");
}

/* --- Text: callstacks. --- */

static void write_stack(struct writing *to, const struct sti_report_stack *stack)
{
    for (size_t i = 0; i < stack->length; i++)
        report_put(to, "    #%-2lu %p\n", i, frame_of_call(to, stack->frames[i]));
    if (stack->is_cut)
        report_put(to, "    ... and further out\n");
}

#define SHOWN 16

static bool frames_are_same(const struct sti_frame *a, const struct sti_frame *b)
{
    if (a->function == NULL || b->function == NULL)
        return a->function == b->function && a->module == b->module;
    return strcmp(a->function, b->function) == 0;
}

/* Write a link of a callstack; a frame that comes again, in a recursion, is written once. False: the frame has been
 * written. */
static bool write_link(struct writing *to, const struct sti_frame **shown, size_t count, const char *before,
                       const struct sti_frame *frame)
{
    for (size_t i = 0; i < count; i++) {
        if (frames_are_same(shown[i], frame))
            return false;
    }
    shown[count] = frame;
    report_put(to, "%s", count > 0 ? before : "");
    if (frame->function != NULL)
        report_put(to, "%s", frame->function);
    else
        report_put(to, "[%s]", frame->module != NULL ? sti_frame_module(frame) : "unknown");
    return true;
}

/* The innermost functions, and the outermost one: a < b < c. */
static void write_chain(struct writing *to, const uintptr_t *frames, size_t length, size_t innermost)
{
    const struct sti_frame *shown[SHOWN];
    size_t count = 0;
    size_t at = 0;
    for (; at < length && count < innermost; at++)
        count += write_link(to, shown, count, " < ", frame_of_call(to, frames[at]));
    if (at < length)
        write_link(to, shown, count, at + 1 < length ? " < ... < " : " < ", frame_of_call(to, frames[length - 1]));
}

/* --- Text: its sections. --- */

#define HOLDER_INNERMOST 6

/* "SIGSEGV at address 0x0": as much as is known. */
static void write_death(struct writing *to, const struct stint_report *report)
{
    const stint_wall_death *death = &report->death;
    if (report->reason == STINT_REASON_BROKEN)
        report_put(to, "what it said cannot be true");
    else if (!death->known)
        report_put(to, "not known");
    else if (death->signal == 0)
        report_put(to, "exit status %d", death->status);
    else
        report_put(to, "%s%s", report->reason == STINT_REASON_KILLED ? "killed by " : "",
                   signal_name(to, death->signal));
    if (death_has_address(death))
        report_put(to, " at address 0x%lx", death->address);
}

/* Write what the task had taken; an ended process has not said it. */
static void write_bytes(struct writing *to, const struct stint_report *report)
{
    const stint_budget *budget = &report->budget;
    report_put(to, "\n  held       %s", text_of_bytes(to, held_of(report)));
    if (budget->memory != 0)
        report_put(to, " of %s", text_of_bytes(to, budget->memory));
    report_put(to, ", at most %s\n  allocated  %s in all", text_of_bytes(to, report->usage.peak),
               text_of_bytes(to, report->usage.allocated));
    if (budget->allocation != 0)
        report_put(to, " of %s", text_of_bytes(to, budget->allocation));
}

static void report_write_head(struct writing *to, const struct stint_report *report)
{
    report_put(to, "task %s: %s, %s, error %d (%s)\n", report->is_named ? report->name : "(without a name)",
               stint_status_name(report->status), stint_reason_name(report->reason), report->error,
               text_of_error(to, report->error));
    if (report->is_dead) {
        report_put(to, "  process    ");
        write_death(to, report);
        if (report->death.instruction != 0)
            report_put(to, "\n  at         %p", frame_of_data(to, report->death.instruction));
        report_put(to, "\n");
    }
    report_put(to, "  function   %p", frame_of_call(to, report->function));
    if (report->account[0] != '\0')
        report_put(to, "\n  account    %s", report->account);
    if (!report->is_dead)
        write_bytes(to, report);
    report_put(to, "\n  time       %s", text_of_time(to, report->usage.wall_ns));
    if (report->deadline_ns != 0)
        report_put(to, ", with a deadline at %s", text_of_time(to, report->deadline_ns));
    report_put(to, "\n");
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

static void write_wait(struct writing *to, const struct sti_report_wait *wait)
{
    static const char *const ends[] = {
        [STINT_DEFERRAL_NONE] = "",
        [STINT_DEFERRAL_MASK] = "the end of a mask",
        [STINT_DEFERRAL_LOCK] = "the release of a lock",
        [STINT_DEFERRAL_THROW] = "the arrival of a C++ exception at its handler",
        [STINT_DEFERRAL_ONCE] = "the end of a once or a cleanup handler",
        [STINT_DEFERRAL_STATIC] = "the end of a static initialiser",
        [STINT_DEFERRAL_CATCH] = "the end of a catch block",
        [STINT_DEFERRAL_FRAME] = "the return of ",
    };
    const struct sti_frame *of = frame_of_awaited(to, wait);
    report_put(to, "    %s", (unsigned)wait->rule < sizeof ends / sizeof *ends ? ends[wait->rule] : "");
    bool is_frame = wait->rule == STINT_DEFERRAL_FRAME;
    if (is_frame && of == NULL)
        report_put(to, "a frame that may not be left");
    else if (is_frame)
        report_put(to, "%p", of);
    else if (of != NULL)
        report_put(to, " at 0x%lx", of->address);
    if (!is_frame && of != NULL && of->module != NULL)
        report_put(to, " (%s in %s)", of->function != NULL ? of->function : "a variable", sti_frame_module(of));
    report_put(to, ", at %s sample point%s\n", text_of_number(to, wait->times), wait->times == 1 ? "" : "s");
}

static void write_where(struct writing *to, const struct stint_report *report)
{
    if (report->tripped.length == 0)
        report_put(to, "\nwhere: %s\n", what_it_had_done(report));
    else if (report->was_elsewhere)
        report_put(to, "\nwhere it was stopped, on another thread of the task:\n");
    else
        report_put(to, "\nwhere it %s:\n", report->reason == STINT_REASON_CRASH ? "crashed" : "was stopped");
    write_stack(to, &report->tripped);
    if (report->wait_count > 0)
        report_put(to, "\nwhat its interrupt had to wait for:\n");
    for (size_t i = 0; i < report->wait_count; i++)
        write_wait(to, &report->waits[i]);
    if (left_length(report) == 0)
        return;
    report_put(to, "\nwhere it was left:\n");
    write_stack(to, &report->delivered);
}

static void write_when(struct writing *to, const struct stint_report *report)
{
    if (report->point_count > 0)
        report_put(to, "\nwhen:\n    %12s %12s %12s %12s\n", "time", "processor", "held", "allocated");
    for (size_t i = 0; i < report->point_count; i++) {
        const struct sti_report_point *point = &report->points[i];
        report_put(to, "    %12s %12s %12s %12s\n", text_of_time(to, point->ns), text_of_time(to, point->cpu_ns),
                   text_of_bytes(to, point->held), text_of_bytes(to, point->allocated));
    }
}

static void write_contents(struct writing *to, const struct sti_report_contents *contents)
{
    char line[STI_REPORT_TEXT];
    switch (contents->kind) {
    case STI_REPORT_ZEROS:
        report_put(to, "zeros");
        break;
    case STI_REPORT_STRING:
        strcpy(line, contents->text);
        for (char *at = line; (at = strpbrk(at, "\n\t")) != NULL;)
            *at = ' ';
        report_put(to, "text: \"%s\"", line);
        break;
    case STI_REPORT_POINTER:
        report_put(to, "%p", frame_of_data(to, contents->address));
        break;
    case STI_REPORT_OTHER:
        break;
    }
}

static void write_class(struct writing *to, const struct sti_report_heap *heap, const struct sti_report_class *class)
{
    report_put(to, "    %8lu to %8lu %14s %12s %5.1f %%", class->above + 1, class->size,
               text_of_number(to, class->blocks), text_of_bytes(to, class->bytes),
               percent_of(class->bytes, heap->bytes));
    for (size_t i = 0; i < class->content_count; i++) {
        report_put(to, "%s%lu %% ", i == 0 ? "  " : ", ", 100UL * class->contents[i].count / class->looked_at);
        write_contents(to, &class->contents[i]);
    }
    report_put(to, "\n");
}

static size_t count_alike(const struct sti_report_heap *heap, size_t first)
{
    size_t count = 1;
    while (first + count < heap->largest_count && heap->largest[first + count].size == heap->largest[first].size)
        count++;
    return count;
}

static void write_largest(struct writing *to, const struct sti_report_heap *heap)
{
    size_t count;
    if (heap->largest_count > 0)
        report_put(to, "\nthe largest blocks:\n");
    for (size_t i = 0; i < heap->largest_count; i += count) {
        const struct sti_report_block *block = &heap->largest[i];
        count = count_alike(heap, i);
        report_put(to, "    %12s", text_of_bytes(to, block->size));
        if (count > 1)
            report_put(to, "  %lu of them", count);
        report_put(to, "%s", block->contents.kind != STI_REPORT_OTHER ? "  " : "");
        write_contents(to, &block->contents);
        report_put(to, "\n");
    }
}

static void write_what(struct writing *to, const struct sti_report_heap *heap)
{
    report_put(to, "\nwhat it held: %s blocks of %s in all; %s of libc's; %s mapped\n",
               text_of_number(to, heap->blocks), text_of_bytes(to, heap->bytes), text_of_bytes(to, heap->libc_bytes),
               text_of_bytes(to, heap->mapped_bytes));
    for (size_t i = heap->class_count; i-- > 0;)
        write_class(to, heap, &heap->classes[i]);
    write_largest(to, heap);
}

static void write_who(struct writing *to, const struct stint_report *report)
{
    report_put(to, "\nwho held it, by %s samples of %s each:\n", text_of_number(to, report->samples),
               text_of_bytes(to, (uint64_t)report->interval));
    for (size_t i = 0; i < report->holder_count; i++) {
        const struct sti_report_holder *holder = &report->holders[i];
        report_put(to, "    %12s +- %3lu %%  ", text_of_bytes(to, holder->bytes), error_percent(holder->samples));
        write_chain(to, holder->frames, holder->length, HOLDER_INNERMOST);
        report_put(to, "\n");
    }
}

static void write_retained(struct writing *to, const struct stint_report *report)
{
    if (report->root_count > 0)
        report_put(to, "\nkept back from the rollback: %s, by\n", text_of_bytes(to, report->usage.kept));
    for (size_t i = 0; i < report->root_count; i++) {
        const struct sti_report_root *root = &report->roots[i];
        const char *symbol = root_symbol(to, root);
        report_put(to, "    %s of %s (%s + 0x%lx)", symbol != NULL ? symbol : "a variable",
                   root->module[0] != '\0' ? root->module : "the program", root->where, root->offset);
        if (root->size != 0)
            report_put(to, ": a block of %s", text_of_bytes(to, root->size));
        report_put(to, "\n");
    }
}

static void report_write_whole(struct writing *to, const struct stint_report *report)
{
    report_write_head(to, report);
    write_where(to, report);
    write_when(to, report);
    if (report->heap.is_taken)
        write_what(to, &report->heap);
    if (report->is_sampled)
        write_who(to, report);
    write_retained(to, report);
}

/* --- One line. --- */

#define LINE_INNERMOST 3 /* functions of a chain, beside the outermost */
#define LIBC "libc.so."

/* One unit for both numbers where they have the same. */
static void write_held(struct writing *to, const struct stint_report *report)
{
    char *held = text_of_bytes(to, held_of(report));
    const char *limit = text_of_bytes(to, report->budget.memory);
    char *unit = strchr(held, ' ');
    if (report->budget.memory != 0 && strcmp(unit, strchr(limit, ' ')) == 0)
        *unit = '\0';
    report_put(to, "%s", held);
    if (report->budget.memory != 0)
        report_put(to, " of %s", limit);
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

/* Of an abort, the one that has called libc for it. */
static size_t first_of_line(struct writing *to, const struct stint_report *report)
{
    if (!report->is_dead || report->death.signal != SIGABRT)
        return 0;
    for (size_t first = 0; first < report->tripped.length; first++) {
        const char *module = sti_frame_module(frame_of_call(to, report->tripped.frames[first]));
        if (module == NULL || strncmp(module, LIBC, strlen(LIBC)) != 0)
            return first;
    }
    return 0;
}

static void report_write_line(struct writing *to, const struct stint_report *report)
{
    size_t first = first_of_line(to, report);
    struct bulk bulk = bulk_of(&report->heap);
    if (report->is_dead)
        write_death(to, report);
    else
        write_held(to, report);
    if (!report->is_dead && bulk.blocks > 0)
        report_put(to, " in %s block%s of %lu to %lu bytes", text_of_number(to, bulk.blocks),
                   bulk.blocks == 1 ? "" : "s", bulk.above + 1, bulk.up_to);
    if (report->tripped.length > 0)
        report_put(to, report->is_dead ? " in " : "; in ");
    write_chain(to, report->tripped.frames + first, report->tripped.length - first, LINE_INNERMOST);
    report_put(to, "\n");
}

/* --- A profile: what the holders held; without samples, all that it held, at the place where it was stopped. --- */

static void snapshot_add(struct sti_profile_snapshot *snapshot, const struct stint_report *report,
                         const uintptr_t *frames, size_t length, uint64_t blocks, uint64_t bytes)
{
    snapshot->entries[snapshot->count++] = (struct sti_profile_entry){
        .task = report->is_named ? report->name : NULL,
        .account = report->account[0] != '\0' ? report->account : NULL,
        .length = length,
        .callstack = (void *const *)frames,
        .values = { .alloc_objects = blocks, .alloc_bytes = bytes, .inuse_objects = blocks, .inuse_bytes = bytes },
    };
}

static int report_profile_write(const struct stint_report *report, sti_demangle_fn *demangle, FILE *stream)
{
    struct sti_profile_snapshot *snapshot =
        calloc(1, sizeof *snapshot + STI_REPORT_HOLDERS * sizeof snapshot->entries[0]);
    if (snapshot == NULL)
        return ENOMEM;
    snapshot->demangle = demangle;
    snapshot->duration = report->usage.wall_ns;
    snapshot->interval = report->interval;
    snapshot->others = report->others;
    for (size_t i = 0; i < report->holder_count; i++) {
        const struct sti_report_holder *holder = &report->holders[i];
        snapshot_add(snapshot, report, holder->frames, holder->length, holder->blocks, holder->bytes);
    }
    if (report->holder_count == 0)
        snapshot_add(snapshot, report, report->tripped.frames, report->tripped.length, report->heap.blocks,
                     held_of(report));
    int error = sti_profile_writer(snapshot, stream, STINT_PROFILE_PPROF);
    free(snapshot);
    return error;
}

/* --- The module's part. --- */

STINT_API int sti_report_writer(const struct stint_report *report, sti_demangle_fn *demangle, FILE *stream,
                                stint_report_kind kind)
{
    struct writing to = { .stream = stream, .is_json = kind == STINT_REPORT_JSON };
    if (kind == STINT_REPORT_PPROF)
        return report_profile_write(report, demangle, stream);
    if (sti_symbols_open(&to.symbols, &report->others, demangle) != 0)
        return ENOMEM;
    if (kind == STINT_REPORT_JSON)
        write_json(&to, report);
    else if (kind == STINT_REPORT_LINE)
        report_write_line(&to, report);
    else
        report_write_whole(&to, report);
    return sti_symbols_close(&to.symbols);
}
