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

static bool has_specification(const uint8_t *action)
{
    for (;;) {
        int64_t filter = (int64_t)sti_leb128_read(&action, true);
        if (filter < 0)
            return true;
        const uint8_t *from = action;
        int64_t distance = (int64_t)sti_leb128_read(&action, true);
        if (distance == 0)
            return false;
        action = from + distance;
    }
}

/* The call site of the instruction, so many bytes into its function, and whether an exception may go on from there. */
static bool site_lets_pass(const uint8_t *table, uint64_t instruction)
{
    uint64_t ignored;
    uint8_t encoding = *table++;
    if (encoding != OMITTED && !read_encoded(&table, encoding, &ignored))
        return false;
    if (*table++ != OMITTED)
        sti_leb128_read(&table, false);
    encoding = *table++;
    uint64_t length = sti_leb128_read(&table, false);
    const uint8_t *actions = table + length;
    while (table < actions) {
        uint64_t begin;
        uint64_t size;
        uint64_t landing_pad;
        if (!read_encoded(&table, encoding, &begin) || !read_encoded(&table, encoding, &size) ||
            !read_encoded(&table, encoding, &landing_pad))
            return false;
        uint64_t action = sti_leb128_read(&table, false);
        if (instruction - begin < size)
            return landing_pad == 0 || action == 0 || !has_specification(actions + action - 1);
    }
    return false;
}

bool sti_lsda_lets_pass(struct _Unwind_Context *context)
{
    const uint8_t *table = (const uint8_t *)(uintptr_t)_Unwind_GetLanguageSpecificData(context);
    if (table == NULL)
        return true;
    int before_instruction = 0;
    uintptr_t address = _Unwind_GetIPInfo(context, &before_instruction);
    /* A return address may lie behind the last instruction of its call site. */
    return site_lets_pass(table, address - (before_instruction ? 0 : 1) - _Unwind_GetRegionStart(context));
}
