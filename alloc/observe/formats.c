/* SPDX-License-Identifier: MIT
 *
 * The module's part: the collapsed format, and pprof's; see profile_write.h. One thread. */
#include <errno.h>
#include <limits.h>
#include <search.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <stint/detail/api.h>
#include <string.h>
#include <zlib.h>

#include "pprof.pb-c.h"
#include "profile_write.h"
#include "symbols.h"

/* --- A profile as collapsed stacks: for each callstack a line with the account and the task, the functions from the
 * outermost in, and a number of bytes. One thread. */

/* The separators of the format are no part of a name. */
static void write_name(FILE *stream, const char *name)
{
    for (; *name != '\0'; name++)
        fputc(*name == ';' ? ':' : *name == '\n' ? ' ' : *name, stream);
}

/* In brackets: what is no function. */
static void write_label(FILE *stream, const char *what, const char *name, const char *end)
{
    fprintf(stream, "[%s", what);
    write_name(stream, name);
    fputs(end, stream);
}

/* Functions that have no name on this machine are one in a module: their addresses would tear the graph apart. */
static void write_frame(FILE *stream, const struct sti_frame *frame)
{
    if (frame->function != NULL)
        write_name(stream, frame->function);
    else
        write_label(stream, "", frame->module != NULL ? sti_frame_module(frame) : "unknown", "]");
}

static void collapsed_write_line(FILE *stream, struct sti_symbols *symbols, const struct sti_profile_entry *entry,
                                 uint64_t bytes)
{
    if (entry->account != NULL)
        write_label(stream, "account ", entry->account, "];");
    if (entry->task != NULL)
        write_label(stream, "task ", entry->task, "];");
    for (size_t i = entry->length; i-- > 0;) {
        write_frame(stream, sti_symbols_frame(symbols, sti_profile_call(entry->callstack[i])));
        if (i > 0)
            fputc(';', stream);
    }
    fprintf(stream, "%s %ju\n", entry->length == 0 ? "[no callstack]" : "", (uintmax_t)bytes);
}

static int write_collapsed(const struct sti_profile_snapshot *snapshot, FILE *stream, stint_profile_kind kind)
{
    struct sti_symbols symbols;
    if (sti_symbols_open(&symbols, &snapshot->others, snapshot->demangle) != 0)
        return ENOMEM;
    for (size_t i = 0; i < snapshot->count; i++) {
        const struct sti_profile_entry *entry = &snapshot->entries[i];
        uint64_t bytes = kind == STINT_PROFILE_COLLAPSED ? entry->values.alloc_bytes : entry->values.inuse_bytes;
        if (bytes > 0)
            collapsed_write_line(stream, &symbols, entry, bytes);
    }
    return sti_symbols_close(&symbols);
}

/* --- A profile in pprof's format. One thread.
 *
 * Protobuf messages that follow one another are one message with the fields of all: so each sample is written as a
 * small profile of its own, behind those of the locations, functions and strings that it is the first to name, and no
 * more than one is in memory. */

#define VALUES 4

/* A text that has been written and has an id. */
struct named {
    const char *text;
    uint64_t id;
};

struct writing {
    ProtobufCBuffer buffer; /* what protobuf-c appends to */
    FILE *stream;
    void *strings; /* a tree of struct named */
    uint64_t string_count;
    uint64_t location_count;
    int error;
};

static void pprof_append(ProtobufCBuffer *buffer, size_t size, const uint8_t *data)
{
    fwrite(data, 1, size, ((struct writing *)buffer)->stream);
}

static void pprof_put(struct writing *writing, const Sti__Pprof__Profile *part)
{
    sti__pprof__profile__pack_to_buffer(part, &writing->buffer);
}

static int by_text(const void *left, const void *right)
{
    return strcmp(((const struct named *)left)->text, ((const struct named *)right)->text);
}

/* The entry of the tree for it; new: its id is 0. NULL: no memory. */
static struct named *pprof_named(struct writing *writing, const char *text)
{
    struct named key = { .text = text };
    struct named **node = tfind(&key, &writing->strings, by_text);
    if (node != NULL)
        return *node;
    struct named *added = malloc(sizeof *added);
    if (added == NULL)
        return NULL;
    *added = key;
    node = tsearch(added, &writing->strings, by_text);
    if (node == NULL)
        free(added);
    return node != NULL ? *node : NULL;
}

/* Ids of strings begin at 0, which is the empty one. */
static int64_t string_id(struct writing *writing, const char *text)
{
    struct named *string = pprof_named(writing, text != NULL ? text : "");
    if (string == NULL) {
        writing->error = ENOMEM;
        return 0;
    }
    if (string->id == 0) {
        Sti__Pprof__Profile part = STI__PPROF__PROFILE__INIT;
        char *copy = (char *)(uintptr_t)string->text;
        part.n_string_table = 1;
        part.string_table = &copy;
        pprof_put(writing, &part);
        string->id = ++writing->string_count;
    }
    return (int64_t)string->id - 1;
}

static Sti__Pprof__ValueType value_type(struct writing *writing, const char *type, const char *unit)
{
    Sti__Pprof__ValueType value = STI__PPROF__VALUE_TYPE__INIT;
    value.type = string_id(writing, type);
    value.unit = string_id(writing, unit);
    return value;
}

static void pprof_write_head(struct writing *writing, const struct sti_profile_snapshot *snapshot)
{
    Sti__Pprof__Profile part = STI__PPROF__PROFILE__INIT;
    string_id(writing, "");
    Sti__Pprof__ValueType types[VALUES] = {
        value_type(writing, "alloc_objects", "count"),
        value_type(writing, "alloc_space", "bytes"),
        value_type(writing, "inuse_objects", "count"),
        value_type(writing, "inuse_space", "bytes"),
    };
    Sti__Pprof__ValueType period = value_type(writing, "space", "bytes");
    Sti__Pprof__ValueType *pointers[VALUES] = { &types[0], &types[1], &types[2], &types[3] };
    part.n_sample_type = VALUES;
    part.sample_type = pointers;
    part.period_type = &period;
    part.period = (int64_t)snapshot->interval;
    part.time_nanos = (int64_t)snapshot->started;
    part.duration_nanos = (int64_t)snapshot->duration;
    part.default_sample_type = string_id(writing, "alloc_space");
    pprof_put(writing, &part);
}

static void write_module(struct writing *writing, const struct sti_module *module, uint64_t id)
{
    Sti__Pprof__Profile part = STI__PPROF__PROFILE__INIT;
    Sti__Pprof__Mapping mapping = STI__PPROF__MAPPING__INIT;
    Sti__Pprof__Mapping *mappings = &mapping;
    mapping.id = id;
    mapping.memory_start = module->start;
    mapping.memory_limit = module->limit;
    mapping.file_offset = module->file_offset;
    mapping.filename = string_id(writing, module->path);
    mapping.build_id = string_id(writing, module->build_id);
    mapping.has_functions = module->functions_known;
    mapping.has_filenames = module->lines_known;
    mapping.has_line_numbers = module->lines_known;
    part.n_mapping = 1;
    part.mapping = &mappings;
    pprof_put(writing, &part);
}

/* With a function of its own: readers know functions by their names. */
static void write_location(struct writing *writing, const struct sti_symbols *symbols, const struct sti_frame *frame)
{
    Sti__Pprof__Profile part = STI__PPROF__PROFILE__INIT;
    Sti__Pprof__Location location = STI__PPROF__LOCATION__INIT;
    Sti__Pprof__Location *locations = &location;
    Sti__Pprof__Line line = STI__PPROF__LINE__INIT;
    Sti__Pprof__Line *lines = &line;
    Sti__Pprof__Function function = STI__PPROF__FUNCTION__INIT;
    Sti__Pprof__Function *functions = &function;
    location.id = function.id = line.function_id = frame->id;
    location.mapping_id = frame->module != NULL ? (uint64_t)(frame->module - symbols->modules) + 1 : 0;
    location.address = frame->address;
    if (frame->function != NULL) {
        function.name = function.system_name = string_id(writing, frame->function);
        function.filename = string_id(writing, frame->file);
        line.line = frame->line;
        location.n_line = part.n_function = 1;
        location.line = &lines;
        part.function = &functions;
    }
    part.n_location = 1;
    part.location = &locations;
    pprof_put(writing, &part);
}

static uint64_t location_id(struct writing *writing, struct sti_symbols *symbols, uintptr_t address)
{
    const struct sti_frame *frame = sti_symbols_frame(symbols, address);
    if (frame->id > writing->location_count) {
        writing->location_count = frame->id;
        write_location(writing, symbols, frame);
    }
    return frame->id;
}

static void add_label(struct writing *writing, Sti__Pprof__Sample *sample, Sti__Pprof__Label *label, const char *key,
                      const char *name)
{
    if (name == NULL)
        return;
    sti__pprof__label__init(label);
    label->key = string_id(writing, key);
    label->str = string_id(writing, name);
    sample->label[sample->n_label++] = label;
}

static void write_sample(struct writing *writing, struct sti_symbols *symbols, const struct sti_profile_entry *entry)
{
    Sti__Pprof__Profile part = STI__PPROF__PROFILE__INIT;
    Sti__Pprof__Sample sample = STI__PPROF__SAMPLE__INIT;
    Sti__Pprof__Sample *samples = &sample;
    Sti__Pprof__Label labels[2];
    Sti__Pprof__Label *label_pointers[2];
    uint64_t locations[STINT_MEMPROF_DEPTH_MAX];
    int64_t values[VALUES] = {
        (int64_t)entry->values.alloc_objects,
        (int64_t)entry->values.alloc_bytes,
        (int64_t)entry->values.inuse_objects,
        (int64_t)entry->values.inuse_bytes,
    };
    for (size_t i = 0; i < entry->length; i++)
        locations[i] = location_id(writing, symbols, sti_profile_call(entry->callstack[i]));
    sample.n_location_id = entry->length;
    sample.location_id = locations;
    sample.n_value = VALUES;
    sample.value = values;
    sample.label = label_pointers;
    add_label(writing, &sample, &labels[0], "task", entry->task);
    add_label(writing, &sample, &labels[1], "account", entry->account);
    part.n_sample = 1;
    part.sample = &samples;
    pprof_put(writing, &part);
}

/* Into the stream. 0; ENOMEM. */
static int write_messages(const struct sti_profile_snapshot *snapshot, FILE *stream)
{
    struct writing writing = { .buffer = { .append = pprof_append }, .stream = stream };
    struct sti_symbols symbols;
    if (sti_symbols_open(&symbols, &snapshot->others, snapshot->demangle) != 0)
        return ENOMEM;
    pprof_write_head(&writing, snapshot);
    for (size_t i = 0; i < snapshot->count; i++)
        write_sample(&writing, &symbols, &snapshot->entries[i]);
    for (size_t i = 0; i < symbols.module_count; i++) /* when it is known of which frames there are names */
        write_module(&writing, &symbols.modules[i], i + 1);
    tdestroy(writing.strings, free);
    int error = sti_symbols_close(&symbols);
    return error != 0 ? error : writing.error;
}

#define GZIP (15 + 16) /* the largest window, in gzip's wrapping */
#define MEMORY_LEVEL 8

/* 0; ENOMEM; EFBIG. */
static int write_zipped(const char *data, size_t size, FILE *stream)
{
    z_stream zip = { .next_in = (z_const Bytef *)(uintptr_t)data, .avail_in = (uInt)size };
    unsigned char buffer[16384];
    int status = Z_OK;
    if (size > UINT_MAX)
        return EFBIG;
    if (deflateInit2(&zip, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP, MEMORY_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK)
        return ENOMEM;
    while (status == Z_OK) {
        zip.next_out = buffer;
        zip.avail_out = sizeof buffer;
        status = deflate(&zip, Z_FINISH);
        fwrite(buffer, 1, sizeof buffer - zip.avail_out, stream);
    }
    deflateEnd(&zip);
    return 0;
}

static int write_pprof(const struct sti_profile_snapshot *snapshot, FILE *stream)
{
    char *plain = NULL;
    size_t size;
    FILE *messages = open_memstream(&plain, &size);
    if (messages == NULL)
        return ENOMEM;
    int error = write_messages(snapshot, messages);
    if (fclose(messages) != 0)
        error = ENOMEM;
    if (error == 0)
        error = write_zipped(plain, size, stream);
    free(plain);
    return error;
}

/* --- The module that writes profiles, as the library sees it (profile_write.h). Thread of the caller. --- */

STINT_API int sti_profile_writer(const struct sti_profile_snapshot *snapshot, FILE *stream, stint_profile_kind kind)
{
    return kind == STINT_PROFILE_PPROF ? write_pprof(snapshot, stream) : write_collapsed(snapshot, stream, kind);
}
