/* SPDX-License-Identifier: MIT
 *
 * DWARF's numbers of variable length, seven bits a byte, the lowest first. Any thread. */
#ifndef STI_ALLOC_LEB128_H
#define STI_ALLOC_LEB128_H

#include <stdbool.h>
#include <stdint.h>

static inline uint64_t sti_leb128_read(const uint8_t **at, bool is_signed)
{
    uint64_t value = 0;
    unsigned shift = 0;
    uint8_t byte;
    do {
        byte = *(*at)++;
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        shift += 7;
    } while (byte & 0x80);
    if (is_signed && shift < 64 && (byte & 0x40))
        value |= ~(uint64_t)0 << shift;
    return value;
}

static inline uint64_t sti_leb128_unsigned(const uint8_t **at)
{
    return sti_leb128_read(at, false);
}

static inline int64_t sti_leb128_signed(const uint8_t **at)
{
    return (int64_t)sti_leb128_read(at, true);
}

#endif
