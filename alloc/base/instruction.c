/* SPDX-License-Identifier: MIT
 *
 * Reading x86-64 instructions; see instruction.h. Any thread.
 *
 * Prefixes, an opcode of one of four maps, an operand in a register or memory (ModRM, SIB, displacement), a constant.
 * What compilers never write in 64-bit code is not understood. */
#include "instruction.h"

#include <stddef.h>
#include <string.h>

#include "callstack.h"

#define LONGEST 15

enum map { MAP_ONE, MAP_0F, MAP_0F38, MAP_0F3A };

struct decoder {
    const uint8_t *at;
    const uint8_t *begin;
    bool by_thread; /* a prefix says fs */
    bool short_operand;
    bool short_address;
    bool wide;    /* REX.W */
    bool encoded; /* by VEX or EVEX */
    enum map map;
    uint8_t opcode;
    uint8_t modrm;
};

static bool is_rex(uint8_t byte)
{
    return (byte & 0xf0) == 0x40;
}

static void read_prefixes(struct decoder *decoder)
{
    for (;; decoder->at++) {
        uint8_t byte = *decoder->at;
        if (byte == 0x64)
            decoder->by_thread = true;
        else if (byte == 0x66)
            decoder->short_operand = true;
        else if (byte == 0x67)
            decoder->short_address = true;
        else if (byte != 0xf0 && byte != 0xf2 && byte != 0xf3 && byte != 0x2e && byte != 0x36 && byte != 0x3e &&
                 byte != 0x26 && byte != 0x65)
            break;
        if (decoder->at - decoder->begin == LONGEST)
            break;
    }
    if (is_rex(*decoder->at))
        decoder->wide = (*decoder->at++ & 8) != 0;
}

static bool set_map(struct decoder *decoder, uint8_t number)
{
    decoder->encoded = true;
    /* Maps 5 and 6 of EVEX have operands as 0f and 0f 38 have. */
    static const enum map maps[] = { MAP_ONE, MAP_0F, MAP_0F38, MAP_0F3A, MAP_ONE, MAP_0F38, MAP_0F38, MAP_ONE };
    decoder->map = maps[number & 7];
    return decoder->map != MAP_ONE;
}

static bool read_opcode(struct decoder *decoder)
{
    uint8_t byte = *decoder->at++;
    bool known = true;
    if (byte == 0xc5) {
        known = set_map(decoder, 1);
        decoder->at += 1;
    } else if (byte == 0xc4) {
        known = set_map(decoder, *decoder->at & 0x1f);
        decoder->at += 2;
    } else if (byte == 0x62) {
        known = set_map(decoder, *decoder->at & 0x07);
        decoder->at += 3;
    } else if (byte != 0x0f) {
        decoder->opcode = byte;
        return true;
    } else if (*decoder->at == 0x38 || *decoder->at == 0x3a) {
        decoder->map = *decoder->at++ == 0x38 ? MAP_0F38 : MAP_0F3A;
    } else {
        decoder->map = MAP_0F;
    }
    decoder->opcode = *decoder->at++;
    return known;
}

static bool is_between(uint8_t byte, uint8_t first, uint8_t last)
{
    return byte >= first && byte <= last;
}

static bool has_modrm(const struct decoder *decoder)
{
    uint8_t code = decoder->opcode;
    if (decoder->map == MAP_0F && decoder->encoded)
        return code != 0x77;
    if (decoder->map == MAP_0F)
        return !(is_between(code, 0x05, 0x0c) || code == 0x0e || is_between(code, 0x30, 0x37) || code == 0x77 ||
                 is_between(code, 0x80, 0x8f) || is_between(code, 0xa0, 0xa2) || is_between(code, 0xa8, 0xaa) ||
                 is_between(code, 0xc8, 0xcf));
    if (decoder->map != MAP_ONE)
        return true;
    if (code < 0x40)
        return (code & 7) < 4;
    return code == 0x63 || code == 0x69 || code == 0x6b || is_between(code, 0x80, 0x8f) || code == 0xc0 ||
           code == 0xc1 || code == 0xc6 || code == 0xc7 || is_between(code, 0xd0, 0xd3) ||
           is_between(code, 0xd8, 0xdf) || code == 0xf6 || code == 0xf7 || code == 0xfe || code == 0xff;
}

static size_t constant_of_map_one(const struct decoder *decoder)
{
    uint8_t code = decoder->opcode;
    size_t operand = decoder->short_operand && !decoder->wide ? 2 : 4;
    bool is_test = ((decoder->modrm >> 3) & 7) < 2;
    if (code < 0x40)
        return (code & 7) == 4 ? 1 : (code & 7) == 5 ? operand : 0;
    if (is_between(code, 0xb8, 0xbf))
        return decoder->wide ? 8 : operand;
    if (is_between(code, 0xa0, 0xa3))
        return decoder->short_address ? 4 : 8;
    if (code == 0xe8 || code == 0xe9)
        return 4;
    if (code == 0x68 || code == 0x69 || code == 0x81 || code == 0xa9 || code == 0xc7 || (code == 0xf7 && is_test))
        return operand;
    if (code == 0xc2 || code == 0xca)
        return 2;
    if (code == 0xc8)
        return 3;
    return code == 0x6a || code == 0x6b || is_between(code, 0x70, 0x80) || code == 0x83 || code == 0xa8 ||
           is_between(code, 0xb0, 0xb7) || code == 0xc0 || code == 0xc1 || code == 0xc6 || code == 0xcd ||
           is_between(code, 0xe0, 0xe7) || code == 0xeb || (code == 0xf6 && is_test);
}

static size_t constant_size(const struct decoder *decoder)
{
    uint8_t code = decoder->opcode;
    switch (decoder->map) {
    case MAP_ONE:
        return constant_of_map_one(decoder);
    case MAP_0F38:
        return 0;
    case MAP_0F3A:
        return 1;
    case MAP_0F:
        break;
    }
    if (!decoder->encoded && is_between(code, 0x80, 0x8f))
        return 4;
    return is_between(code, 0x70, 0x73) || code == 0xa4 || code == 0xac || code == 0xba || code == 0xc2 ||
           is_between(code, 0xc4, 0xc6);
}

/* The operand: a register, or a place in memory. */
static void read_operand(struct decoder *decoder, struct sti_instruction *instruction)
{
    uint8_t mode = decoder->modrm >> 6;
    uint8_t base = decoder->modrm & 7;
    if (mode == 3)
        return;
    bool has_sib = base == 4;
    uint8_t sib = has_sib ? *decoder->at++ : 0;
    if (has_sib)
        base = sib & 7;
    if (mode == 0 && base == 5) {
        instruction->displacement = sti_read_s32(decoder->at);
        if (decoder->by_thread && has_sib && sib == 0x25)
            instruction->place = STI_INSTRUCTION_BY_THREAD;
        decoder->at += 4;
    } else if (mode == 0) {
        if (!decoder->by_thread && !has_sib)
            instruction->place = STI_INSTRUCTION_AT_REGISTER;
    } else if (mode == 1) {
        decoder->at += 1;
    } else if (mode == 2) {
        instruction->displacement = sti_read_s32(decoder->at);
        if (!decoder->by_thread && (!has_sib || (sib & 0x38) == 0x20))
            instruction->place = STI_INSTRUCTION_BY_REGISTER;
        decoder->at += 4;
    }
}

/* What it does with the one byte that it names. */
static void note_use(const struct decoder *decoder, struct sti_instruction *instruction, const uint8_t *constant)
{
    uint8_t code = decoder->opcode;
    uint8_t group = (decoder->modrm >> 3) & 7;
    if (instruction->place == STI_INSTRUCTION_NO_PLACE || decoder->encoded)
        return;
    if (decoder->map == MAP_0F) {
        instruction->is_byte = code == 0xb6 || code == 0xbe;
        instruction->writes_byte = is_between(code, 0x90, 0x9f) || code == 0xb0 || code == 0xc0;
    } else if (decoder->map == MAP_ONE) {
        bool compares =
            code == 0x38 || code == 0x3a || code == 0x84 || (code == 0x80 && group == 7) || (code == 0xf6 && group < 2);
        bool changes = (code < 0x38 && (code & 7) == 0) || code == 0x86 || code == 0x88 ||
                       (code == 0x80 && group != 7) || code == 0xc6 || (code == 0xf6 && (group == 2 || group == 3)) ||
                       code == 0xfe;
        instruction->is_byte = compares || code == 0x8a;
        instruction->writes_byte = changes;
        instruction->writes_byte_one = code == 0xc6 && *constant == 1;
    }
}

static void note_flow(const struct decoder *decoder, struct sti_instruction *instruction, const uint8_t *constant)
{
    uint8_t code = decoder->opcode;
    uint8_t group = (decoder->modrm >> 3) & 7;
    uintptr_t next = (uintptr_t)decoder->begin + instruction->length;
    if (decoder->map == MAP_0F && !decoder->encoded && is_between(code, 0x80, 0x8f)) {
        instruction->flow = STI_INSTRUCTION_BRANCHES;
        instruction->target = next + (uintptr_t)(intptr_t)sti_read_s32(constant);
    } else if (decoder->map == MAP_0F && !decoder->encoded && code == 0x0b) {
        instruction->flow = STI_INSTRUCTION_ENDS;
    } else if (decoder->map != MAP_ONE) {
        return;
    } else if (code == 0xe9) {
        instruction->flow = STI_INSTRUCTION_JUMPS;
        instruction->target = next + (uintptr_t)(intptr_t)sti_read_s32(constant);
    } else if (is_between(code, 0x70, 0x7f) || is_between(code, 0xe0, 0xe3) || code == 0xeb) {
        instruction->flow = code == 0xeb ? STI_INSTRUCTION_JUMPS : STI_INSTRUCTION_BRANCHES;
        instruction->target = next + (uintptr_t)(intptr_t)(int8_t)*constant;
    } else if (code == 0xc2 || code == 0xc3 || code == 0xca || code == 0xcb || code == 0xcc || code == 0xcf ||
               code == 0xf4 || (code == 0xff && (group == 4 || group == 5))) {
        instruction->flow = STI_INSTRUCTION_ENDS;
    }
}

struct sti_instruction sti_instruction_at(uintptr_t address, uintptr_t end)
{
    struct sti_instruction instruction = { .length = 0 };
    /* Beyond the function there may be no memory: the last bytes are read in a copy. */
    uint8_t copy[2 * LONGEST + 2] = { 0 };
    size_t left = end - address;
    memcpy(copy, (const uint8_t *)address, left < LONGEST ? left : LONGEST);
    struct decoder decoder = { .at = copy, .begin = copy };
    read_prefixes(&decoder);
    if (decoder.at - copy >= LONGEST || !read_opcode(&decoder))
        return instruction;
    if (has_modrm(&decoder)) {
        decoder.modrm = *decoder.at++;
        read_operand(&decoder, &instruction);
    }
    const uint8_t *constant = decoder.at;
    size_t length = (size_t)(constant - copy) + constant_size(&decoder);
    if (length > LONGEST || length > left)
        return (struct sti_instruction){ .length = 0 };
    instruction.length = (uint8_t)length;
    decoder.begin = (const uint8_t *)address;
    note_use(&decoder, &instruction, constant);
    note_flow(&decoder, &instruction, constant);
    return instruction;
}
