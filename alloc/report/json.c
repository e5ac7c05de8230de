/* SPDX-License-Identifier: MIT
 *
 * A report for machines: one JSON object, whose fields docs/postmortem.md lists; see names.h. In the module that writes
 * profiles. One thread. */
#include <inttypes.h>
#include <string.h>

#include "alloc/base/utf8.h"
#include "json.h"

/* --- JSON, as far as it is needed. What stands before a value is its key's, or nothing in an array; the comma belongs
 * to what follows. */

struct json {
    FILE *stream;
    const struct sti_symbols *symbols;
    bool is_first; /* in what was opened last */
};

static void put_string(FILE *stream, const char *text)
{
    char room[STI_JSON_ROOM];
    fputc('"', stream);
    while (*text != '\0')
        fwrite(room, 1, sti_json_character(room, &text), stream);
    fputc('"', stream);
}

static void key(struct json *json, const char *name)
{
    if (!json->is_first)
        fputc(',', json->stream);
    json->is_first = false;
    if (name == NULL)
        return;
    put_string(json->stream, name);
    fputc(':', json->stream);
}

static void begin(struct json *json, const char *name, char bracket)
{
    key(json, name);
    fputc(bracket, json->stream);
    json->is_first = true;
}

static void end(struct json *json, char bracket)
{
    fputc(bracket, json->stream);
    json->is_first = false;
}

static void number(struct json *json, const char *name, uint64_t value)
{
    key(json, name);
    fprintf(json->stream, "%" PRIu64, value);
}

static void integer(struct json *json, const char *name, int value)
{
    key(json, name);
    fprintf(json->stream, "%d", value);
}

static void boolean(struct json *json, const char *name, bool value)
{
    key(json, name);
    fputs(value ? "true" : "false", json->stream);
}

/* NULL: null. */
static void string(struct json *json, const char *name, const char *value)
{
    key(json, name);
    if (value != NULL)
        put_string(json->stream, value);
    else
        fputs("null", json->stream);
}

/* --- The parts of a report. */

/* Whose digits a reader's number may not hold. */
static void hexadecimal(struct json *json, const char *name, uint64_t value)
{
    char digits[32];
    snprintf(digits, sizeof digits, "0x%" PRIx64, value);
    string(json, name, digits);
}

/* The fields of what is already open. */
static void place(struct json *json, const struct sti_frame *frame)
{
    hexadecimal(json, "address", frame->address);
    string(json, "function", frame->function);
    string(json, "module",
           frame->module < json->symbols->module_count ? json->symbols->modules[frame->module].path : NULL);
    number(json, "offset", sti_report_offset(json->symbols, frame));
    string(json, "file", frame->file);
    number(json, "line", frame->file != NULL ? (uint64_t)frame->line : 0);
}

static void frames(struct json *json, const char *name, const uintptr_t *list, size_t length)
{
    begin(json, name, '[');
    for (size_t i = 0; i < length; i++) {
        begin(json, NULL, '{');
        place(json, sti_report_call(json->symbols, list[i]));
        end(json, '}');
    }
    end(json, ']');
}

static void head(struct json *json, const struct stint_report *report)
{
    string(json, "task", report->is_named ? report->name : NULL);
    string(json, "account", report->account[0] != '\0' ? report->account : NULL);
    string(json, "status", stint_status_name(report->status));
    string(json, "reason", stint_reason_name(report->reason));
    integer(json, "error", report->error);
    begin(json, "function", '{');
    place(json, sti_report_call(json->symbols, report->function));
    end(json, '}');
    begin(json, "limits", '{');
    number(json, "allocation", report->budget.allocation);
    number(json, "memory", report->budget.memory);
    number(json, "wall_ns", report->budget.wall_ns);
    number(json, "run_ns", report->budget.run_ns);
    number(json, "cpu_ns", report->budget.cpu_ns);
    number(json, "deadline_ns", report->deadline_ns);
    end(json, '}');
    begin(json, "usage", '{');
    number(json, "held", sti_report_held(report));
    number(json, "allocated", report->usage.allocated);
    number(json, "peak", report->usage.peak);
    number(json, "samples", report->usage.samples);
    number(json, "deferred", report->usage.deferred);
    number(json, "kept", report->usage.kept);
    number(json, "wall_ns", report->usage.wall_ns);
    number(json, "queued_ns", report->usage.queued_ns);
    number(json, "cpu_ns", report->usage.cpu_ns);
    end(json, '}');
}

static void death(struct json *json, const stint_wall_death *of)
{
    char room[STI_REPORT_ROOM];
    begin(json, "death", '{');
    boolean(json, "is_known", of->known);
    integer(json, "status", of->status);
    integer(json, "signal", of->signal);
    string(json, "signal_name", of->signal != 0 ? sti_report_signal(room, of->signal) : NULL);
    integer(json, "code", of->code);
    if (sti_report_has_address(of))
        hexadecimal(json, "address", of->address);
    else
        string(json, "address", NULL);
    if (of->instruction != 0) {
        begin(json, "instruction", '{');
        place(json, sti_report_data(json->symbols, of->instruction));
        end(json, '}');
    } else {
        string(json, "instruction", NULL);
    }
    end(json, '}');
}

static void wait(struct json *json, const struct sti_report_wait *waited)
{
    const struct sti_frame *awaited = sti_report_awaited(json->symbols, waited);
    begin(json, NULL, '{');
    string(json, "rule", stint_deferral_name(waited->rule));
    number(json, "times", waited->times);
    if (awaited != NULL) {
        begin(json, "at", '{');
        place(json, awaited);
        end(json, '}');
    }
    end(json, '}');
}

static void where(struct json *json, const struct stint_report *report)
{
    bool is_later = report->is_delivered && report->delivered.length > 0;
    begin(json, "where", '{');
    boolean(json, "on_other_thread", report->was_elsewhere);
    frames(json, "stopped", report->tripped.frames, report->tripped.length);
    boolean(json, "stopped_is_cut", report->tripped.is_cut);
    begin(json, "waited_for", '[');
    for (size_t i = 0; i < report->wait_count; i++)
        wait(json, &report->waits[i]);
    end(json, ']');
    frames(json, "left", report->delivered.frames, is_later ? report->delivered.length : 0);
    boolean(json, "left_is_cut", is_later && report->delivered.is_cut);
    end(json, '}');
}

static void when(struct json *json, const struct stint_report *report)
{
    begin(json, "when", '[');
    for (size_t i = 0; i < report->point_count; i++) {
        const struct sti_report_point *point = &report->points[i];
        begin(json, NULL, '{');
        number(json, "ns", point->ns);
        number(json, "cpu_ns", point->cpu_ns);
        number(json, "held", point->held);
        number(json, "allocated", point->allocated);
        end(json, '}');
    }
    end(json, ']');
}

/* The fields of what is already open. */
static void contents(struct json *json, const struct sti_report_contents *of)
{
    static const char *const kinds[] = {
        [STI_REPORT_OTHER] = "other",
        [STI_REPORT_ZEROS] = "zeros",
        [STI_REPORT_STRING] = "text",
        [STI_REPORT_POINTER] = "pointer",
    };
    string(json, "begins_with", kinds[of->kind]);
    if (of->kind == STI_REPORT_STRING)
        string(json, "text", of->text);
    if (of->kind != STI_REPORT_POINTER)
        return;
    number(json, "word", of->word);
    begin(json, "to", '{');
    place(json, sti_report_data(json->symbols, of->address));
    end(json, '}');
}

static void class(struct json *json, const struct sti_report_class *of)
{
    begin(json, NULL, '{');
    number(json, "above", of->above);
    number(json, "size", of->size);
    number(json, "blocks", of->blocks);
    number(json, "bytes", of->bytes);
    number(json, "looked_at", of->looked_at);
    begin(json, "contents", '[');
    for (size_t i = 0; i < of->content_count; i++) {
        begin(json, NULL, '{');
        number(json, "blocks", of->contents[i].count);
        contents(json, &of->contents[i]);
        end(json, '}');
    }
    end(json, ']');
    end(json, '}');
}

static void what(struct json *json, const struct sti_report_heap *heap)
{
    begin(json, "what", '{');
    number(json, "blocks", heap->blocks);
    number(json, "bytes", heap->bytes);
    number(json, "libc_bytes", heap->libc_bytes);
    number(json, "mapped_bytes", heap->mapped_bytes);
    number(json, "took_ns", heap->took_ns);
    begin(json, "classes", '[');
    for (size_t i = 0; i < heap->class_count; i++)
        class(json, &heap->classes[i]);
    end(json, ']');
    begin(json, "largest", '[');
    for (size_t i = 0; i < heap->largest_count; i++) {
        begin(json, NULL, '{');
        number(json, "size", heap->largest[i].size);
        contents(json, &heap->largest[i].contents);
        end(json, '}');
    }
    end(json, ']');
    begin(json, "lost", '{');
    boolean(json, "is_known", heap->is_searched);
    number(json, "blocks", heap->lost_blocks);
    number(json, "bytes", heap->lost_bytes);
    number(json, "of_blocks", heap->live_blocks);
    number(json, "of_bytes", heap->live_bytes);
    number(json, "unread_bytes", heap->unread_bytes);
    end(json, '}');
    end(json, '}');
}

static void who(struct json *json, const struct stint_report *report)
{
    begin(json, "who", '{');
    number(json, "samples", report->samples);
    number(json, "interval", (uint64_t)report->interval);
    begin(json, "holders", '[');
    for (size_t i = 0; i < report->holder_count; i++) {
        const struct sti_report_holder *holder = &report->holders[i];
        begin(json, NULL, '{');
        number(json, "bytes", holder->bytes);
        number(json, "blocks", holder->blocks);
        number(json, "samples", holder->samples);
        number(json, "error_percent", sti_report_error_percent(holder->samples));
        frames(json, "frames", holder->frames, holder->length);
        end(json, '}');
    }
    end(json, ']');
    end(json, '}');
}

static void kept(struct json *json, const struct stint_report *report)
{
    begin(json, "kept", '[');
    for (size_t i = 0; i < report->root_count; i++) {
        const struct sti_report_root *root = &report->roots[i];
        begin(json, NULL, '{');
        string(json, "module", root->module);
        string(json, "symbol", root->address != 0 ? sti_report_data(json->symbols, root->address)->function : NULL);
        string(json, "where", root->where);
        number(json, "offset", root->offset);
        number(json, "block_size", root->size);
        end(json, '}');
    }
    end(json, ']');
}

void sti_report_write_json(FILE *stream, const struct stint_report *report, const struct sti_symbols *symbols)
{
    struct json json = { .stream = stream, .symbols = symbols, .is_first = true };
    begin(&json, NULL, '{');
    head(&json, report);
    if (report->is_dead)
        death(&json, &report->death);
    where(&json, report);
    when(&json, report);
    if (report->heap.is_taken)
        what(&json, &report->heap);
    if (report->is_sampled)
        who(&json, report);
    kept(&json, report);
    end(&json, '}');
    fputc('\n', stream);
}
