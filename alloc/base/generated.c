/* SPDX-License-Identifier: MIT
 *
 * Code that no module has; see generated.h. Any thread. */
#include "generated.h"

#include <dlfcn.h>
#include <string.h>

#include "callstack.h"

/* libgcc's, of which no header speaks: the entry for the function that the instruction is in, from a module's table or
 * one that was registered. */
struct bases {
    void *text;
    void *data;
    void *function;
};
extern const void *_Unwind_Find_FDE(void *instruction, struct bases *bases) __attribute__((weak));

static const uint8_t *end_of(const uint8_t *entry)
{
    return entry + 4 + (uint32_t)sti_read_s32(entry);
}

static bool has_any(const uint8_t *at, const uint8_t *end)
{
    while (at < end && *at == 0) /* no operation */
        at++;
    return at < end;
}

/* Behind the augmentation, whose length is said where it begins with z. */
static const uint8_t *instructions_of(const uint8_t *common)
{
    const uint8_t *at = common + 8;
    uint8_t version = *at++;
    const char *augmentation = (const char *)at;
    at += strlen(augmentation) + 1;
    sti_leb128_unsigned(&at);
    sti_leb128_signed(&at);
    if (version == 1)
        at++;
    else
        sti_leb128_unsigned(&at);
    if (augmentation[0] != 'z')
        return at;
    uint64_t length = sti_leb128_unsigned(&at);
    return at + length;
}

bool sti_generated_leads_on(uintptr_t instruction)
{
    struct dl_find_object module;
    struct bases bases;
    if (_dl_find_object((void *)instruction, &module) == 0 || _Unwind_Find_FDE == NULL)
        return true;
    const uint8_t *entry = _Unwind_Find_FDE((void *)instruction, &bases);
    if (entry == NULL)
        return true;
    const uint8_t *common = entry + 4 - sti_read_s32(entry + 4);
    return has_any(instructions_of(common), end_of(common));
}

/* It is asked for what it has not. */
void sti_generated_sort(void)
{
    struct bases bases;
    if (_Unwind_Find_FDE != NULL)
        _Unwind_Find_FDE((void *)(uintptr_t)sti_generated_sort, &bases);
}
