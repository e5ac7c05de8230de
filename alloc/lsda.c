/* SPDX-License-Identifier: MIT
 *
 * Reading a frame's exception table; see lsda.h. Any thread.
 *
 * A header; then the call sites, each a range of instructions with its landing pad (0: none) and its first action; then
 * the actions, chains of a filter and the distance to the next: 0 a cleanup, above it a handler, below it an exception
 * specification. An instruction in no range is one that the compiler saw no exception come from. */
#include "lsda.h"

#include <stdint.h>
#include <string.h>
#include <unwind.h>

#include "landing_pad.h"
#include "leb128.h"

/* DWARF's encodings of a value; the upper bits say what it is relative to. */
enum {
    ABSOLUTE = 0,
    ULEB128 = 1,
    UDATA2 = 2,
    UDATA4 = 3,
    UDATA8 = 4,
    SLEB128 = 9,
    SDATA2 = 10,
    SDATA4 = 11,
    SDATA8 = 12,
};
#define FORMAT 0x0f
#define OMITTED 0xff

/* What is read is a distance, so the signed formats differ in nothing. */
static bool read_encoded(const uint8_t **at, uint8_t encoding, uint64_t *value)
{
    size_t size = 8;
    switch (encoding & FORMAT) {
    case ULEB128:
    case SLEB128:
        *value = sti_leb128_read(at, (encoding & FORMAT) == SLEB128);
        return true;
    case UDATA2:
    case SDATA2:
        size = 2;
        break;
    case UDATA4:
    case SDATA4:
        size = 4;
        break;
    case ABSOLUTE:
    case UDATA8:
    case SDATA8:
        break;
    default:
        return false;
    }
    *value = 0;
    memcpy(value, *at, size);
    *at += size;
    return true;
}

/* The types that handlers are for lie before their end, counted backwards. */
struct types {
    const uint8_t *end; /* NULL: none */
    uint8_t encoding;
};

struct type_info {
    const void *functions;
    const char *name;
};

static bool is_relative(uint8_t encoding)
{
    return (encoding & 0x70) == 0x10;
}

/* NULL: any type. */
static bool read_type(const struct types *types, int64_t filter, const struct type_info **type)
{
    int64_t size = (types->encoding & FORMAT) == ABSOLUTE || (types->encoding & FORMAT) == UDATA8 ||
                           (types->encoding & FORMAT) == SDATA8
                       ? 8
                       : 4;
    const uint8_t *place = types->end - filter * size;
    const uint8_t *at = place;
    uint64_t distance;
    if (types->end == NULL || (types->encoding & 0x60) != 0 || !read_encoded(&at, types->encoding, &distance))
        return false;
    uintptr_t value = size == 4 ? (uintptr_t)(intptr_t)(int32_t)distance : distance;
    if (value != 0 && is_relative(types->encoding))
        value += (uintptr_t)place;
    if (value != 0 && (types->encoding & 0x80) != 0)
        value = *(const uintptr_t *)value;
    *type = (const struct type_info *)value;
    return true;
}

/* What the frame is asked about. */
enum asked { BAD_ALLOC, FORCED_UNWIND };

/* bad_alloc has bases. */
static bool catches(const struct types *types, int64_t filter, enum asked asked)
{
    const struct type_info *type;
    if (!read_type(types, filter, &type) || type == NULL)
        return true;
    return asked == BAD_ALLOC && (strcmp(type->name, "St9bad_alloc") == 0 || strcmp(type->name, "St9exception") == 0);
}

/* The filter of the first handler that takes it; its landing pad knows it by that. 0: none, but destructors. Below: it
 * ends the process. */
static int64_t taker(const uint8_t *action, const struct types *types, enum asked asked)
{
    for (;;) {
        int64_t filter = (int64_t)sti_leb128_read(&action, true);
        if (filter < 0 || (filter > 0 && catches(types, filter, asked)))
            return filter;
        const uint8_t *from = action;
        int64_t distance = (int64_t)sti_leb128_read(&action, true);
        if (distance == 0)
            return 0;
        action = from + distance;
    }
}

static enum sti_lsda_answer answer_of(int64_t filter, uintptr_t landing_pad)
{
    if (filter < 0 || (landing_pad != 0 && sti_landing_pad_ends(landing_pad, filter)))
        return STI_LSDA_ENDS;
    return filter > 0 ? STI_LSDA_CATCHES : STI_LSDA_PASSES;
}

/* The call site of the instruction, so many bytes into its function. */
static enum sti_lsda_answer site_answer(const uint8_t *table, uintptr_t function, uint64_t instruction,
                                        enum asked asked)
{
    uint64_t ignored;
    struct types types = { .end = NULL };
    uint8_t encoding = *table++;
    if (encoding != OMITTED && !read_encoded(&table, encoding, &ignored))
        return STI_LSDA_ENDS;
    bool pads_are_elsewhere = encoding != OMITTED;
    types.encoding = *table++;
    if (types.encoding != OMITTED) {
        uint64_t distance = sti_leb128_read(&table, false);
        types.end = table + distance;
    }
    encoding = *table++;
    uint64_t length = sti_leb128_read(&table, false);
    const uint8_t *actions = table + length;
    while (table < actions) {
        uint64_t begin;
        uint64_t size;
        uint64_t landing_pad;
        if (!read_encoded(&table, encoding, &begin) || !read_encoded(&table, encoding, &size) ||
            !read_encoded(&table, encoding, &landing_pad))
            return STI_LSDA_ENDS;
        uint64_t action = sti_leb128_read(&table, false);
        if (instruction - begin >= size)
            continue;
        int64_t filter = action == 0 ? 0 : taker(actions + action - 1, &types, asked);
        return answer_of(filter, landing_pad == 0 || pads_are_elsewhere ? 0 : function + landing_pad);
    }
    return STI_LSDA_ENDS;
}

static enum sti_lsda_answer answer(struct _Unwind_Context *context, enum asked asked)
{
    const uint8_t *table = (const uint8_t *)(uintptr_t)_Unwind_GetLanguageSpecificData(context);
    if (table == NULL)
        return STI_LSDA_PASSES;
    int before_instruction = 0;
    uintptr_t address = _Unwind_GetIPInfo(context, &before_instruction);
    uintptr_t function = _Unwind_GetRegionStart(context);
    /* A return address may lie behind the last instruction of its call site. */
    return site_answer(table, function, address - (before_instruction ? 0 : 1) - function, asked);
}

enum sti_lsda_answer sti_lsda_answer(struct _Unwind_Context *context)
{
    return answer(context, BAD_ALLOC);
}

bool sti_lsda_lets_pass(struct _Unwind_Context *context)
{
    return answer(context, FORCED_UNWIND) != STI_LSDA_ENDS;
}
