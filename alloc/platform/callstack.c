/* SPDX-License-Identifier: MIT
 *
 * Callstacks, and the call frame tables by which they are walked; see callstack.h. Any thread. */
#include "callstack.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#include "instrumentation.h"
#include "libc.h"
#include "process.h"

/* --- One step. Any thread. --- */

#define WORD sizeof(uintptr_t)

/* By a system call that would do nothing, but reads it first. */
static bool is_readable_word(uintptr_t address)
{
    const int no_change = -1;
    return syscall(SYS_rt_sigprocmask, no_change, address, NULL, sizeof(uint64_t)) == 0 || errno != EFAULT;
}

/* A sandbox may refuse the one call that reads and makes no fault: then it is asked first. */
STI_UNINSTRUMENTED bool sti_walk_word(uintptr_t address, uintptr_t *word)
{
    const struct iovec here = { .iov_base = word, .iov_len = WORD };
    const struct iovec there = { .iov_base = (void *)address, .iov_len = WORD };
    ssize_t copied = process_vm_readv(gettid(), &here, 1, &there, 1, 0);
    if (copied >= 0 || errno == EFAULT)
        return copied == (ssize_t)WORD;
    bool is_readable = is_readable_word(address);
    if (is_readable)
        *word = *(const uintptr_t *)address;
    return is_readable;
}

bool sti_walk_called(const struct sti_registers *at, struct sti_registers *caller)
{
#if STI_LINK_REGISTER
    *caller = (struct sti_registers){ .ip = sti_return_plain(at->link), .sp = at->sp, .bp = at->bp };
    return true;
#else
    *caller = (struct sti_registers){ .sp = at->sp + WORD, .bp = at->bp };
    return sti_walk_word(at->sp, &caller->ip);
#endif
}

/* At an address that is not below the frame. In an epilogue what has just been popped is still read from below the
 * stack pointer: compilers do not tell of each pop. */
static STI_UNINSTRUMENTED bool read_word(const struct sti_walk *walk, uintptr_t address, uintptr_t *word)
{
    if (address % WORD != 0 || address < walk->at.sp - STI_RED_ZONE)
        return false;
    if (walk->end == 0)
        return sti_walk_word(address, word);
    bool is_on_stack = address <= walk->end - WORD;
    if (is_on_stack)
        *word = *(const uintptr_t *)address;
    return is_on_stack;
}

/* A signal may have been taken on another stack. */
static bool leave_handler(struct sti_walk *walk)
{
    const uintptr_t frame = walk->at.sp;
    struct sti_registers at;
    if (!read_word(walk, frame + STI_SIGNAL_IP, &at.ip) || !read_word(walk, frame + STI_SIGNAL_SP, &at.sp) ||
        !read_word(walk, frame + STI_SIGNAL_BP, &at.bp))
        return false;
#if STI_LINK_REGISTER
    if (!read_word(walk, frame + STI_SIGNAL_LINK, &at.link))
        return false;
#endif
    walk->at = at;
    walk->is_exact = true;
    return true;
}

static bool find_frame(const struct sti_walk *walk, const struct sti_frame_rule *rule, uintptr_t *frame)
{
    switch (rule->kind) {
    case STI_FRAME_BY_STACK_POINTER:
        *frame = walk->at.sp + rule->offset;
        return true;
    case STI_FRAME_BY_FRAME_POINTER:
        *frame = walk->at.bp + rule->offset;
        return true;
    case STI_FRAME_ALIGNED:
        return read_word(walk, walk->at.bp - rule->offset, frame);
    case STI_FRAME_STUB:
        *frame = walk->at.sp + (sti_walk_instruction(walk) % 16 >= 11 ? 16 : 8);
        return true;
    case STI_FRAME_LAST:
    case STI_FRAME_OTHER:
    case STI_FRAME_SIGNAL:
        break;
    }
    return false;
}

#if STI_LINK_REGISTER

/* A function that has called nothing yet may have no frame, only that one. */
static bool leads_outwards(const struct sti_walk *walk, const struct sti_frame_rule *rule, uintptr_t frame)
{
    return frame > walk->at.sp || (frame == walk->at.sp && rule->returned == 0);
}

static bool read_return(const struct sti_walk *walk, const struct sti_frame_rule *rule, uintptr_t frame, uintptr_t *ip)
{
    if (rule->returned != 0 && !read_word(walk, frame - rule->returned, ip))
        return false;
    *ip = sti_return_plain(rule->returned != 0 ? *ip : walk->at.link);
    return rule->returned != 0 || walk->is_exact;
}

#else

static bool leads_outwards(const struct sti_walk *walk, const struct sti_frame_rule *rule, uintptr_t frame)
{
    (void)rule;
    return frame > walk->at.sp;
}

static bool read_return(const struct sti_walk *walk, const struct sti_frame_rule *rule, uintptr_t frame, uintptr_t *ip)
{
    (void)rule;
    return read_word(walk, frame - WORD, ip);
}

#endif

static bool walk_step(struct sti_walk *walk, const struct sti_frame_rule *rule)
{
    uintptr_t frame;
    uintptr_t bp = walk->at.bp;
    uintptr_t ip;
    if (rule->kind == STI_FRAME_SIGNAL)
        return leave_handler(walk);
    if (!find_frame(walk, rule, &frame) || !leads_outwards(walk, rule, frame))
        return false;
    if (walk->end != 0 && frame > walk->end) {
        walk->at.sp = frame;
        walk->past_end = true;
        return false;
    }
    uintptr_t saved = rule->kind == STI_FRAME_ALIGNED ? walk->at.bp : frame - rule->saved;
    if ((rule->saved != 0 && !read_word(walk, saved, &bp)) || !read_return(walk, rule, frame, &ip) || ip == 0)
        return false;
    walk->at = (struct sti_registers){ .ip = ip, .sp = frame, .bp = bp };
    walk->is_exact = false;
    return true;
}

static struct sti_frame_rule rule_look_up(struct sti_walk_rules *rules, uintptr_t instruction)
{
    if (rules == NULL)
        return sti_frame_rule(instruction);
    size_t i = (instruction ^ instruction >> 7) % STI_WALK_REMEMBERED;
    if (rules->of[i].instruction != instruction) {
        rules->of[i].instruction = instruction;
        rules->of[i].rule = sti_frame_rule(instruction);
    }
    return rules->of[i].rule;
}

bool sti_walk_out(struct sti_walk *walk)
{
    const struct sti_frame_rule rule = rule_look_up(walk->rules, sti_walk_instruction(walk));
    return walk_step(walk, &rule);
}

/* --- Callstacks. Any thread.
 *
 * The cache. An entry is one word, so it is read and written whole: the return address without its lowest bits, which
 * say where in the cache it is, and its rule. Entries are overwritten by others and by nothing else. So after a dlclose
 * an address that comes to lie in another module may have the old rule for a while: then a callstack is wrong from
 * there on. No step of it goes down the stack or far up, so that it reads nothing but the stack. */

#define CACHE_BITS 13
#define KIND_BITS 2
#if STI_LINK_REGISTER
#define OFFSET_BITS 11
#define SAVED_BITS 9
#define RETURNED_BITS 9
#else
#define OFFSET_BITS 16
#define SAVED_BITS 12
#define RETURNED_BITS 0
#endif
#define RULE_BITS (KIND_BITS + OFFSET_BITS + SAVED_BITS + RETURNED_BITS)
#define UNIT 8 /* of offsets; of the frame's own STI_STACK_UNIT */
#define LARGEST_FRAME ((uintptr_t)1 << 20)

STI_TABLE _Atomic uint64_t sti_callstack_rules[1 << CACHE_BITS];

static bool fits_into(uint32_t offset, uint32_t unit, unsigned bits)
{
    return offset % unit == 0 && offset / unit < 1U << bits;
}

static uint64_t rule_packed(const struct sti_frame_rule *rule)
{
    uint64_t offsets = rule->saved / UNIT << OFFSET_BITS | rule->offset / STI_STACK_UNIT;
    bool fits = rule->kind <= STI_FRAME_BY_FRAME_POINTER && fits_into(rule->offset, STI_STACK_UNIT, OFFSET_BITS) &&
                fits_into(rule->saved, UNIT, SAVED_BITS);
#if STI_LINK_REGISTER
    offsets |= (uint64_t)rule->returned / UNIT << (OFFSET_BITS + SAVED_BITS);
    fits = fits && fits_into(rule->returned, UNIT, RETURNED_BITS);
#endif
    if (!fits)
        return rule->kind == STI_FRAME_LAST ? STI_FRAME_LAST : STI_FRAME_OTHER;
    return offsets << KIND_BITS | (uint64_t)rule->kind;
}

static uint32_t bits_of(uint64_t word, unsigned shift, unsigned count)
{
    return (uint32_t)(word >> shift & ((1U << count) - 1));
}

static struct sti_frame_rule rule_unpacked(uint64_t word)
{
    return (struct sti_frame_rule)
    {
        .kind = bits_of(word, 0, KIND_BITS), .offset = bits_of(word, KIND_BITS, OFFSET_BITS) * STI_STACK_UNIT,
        .saved = bits_of(word, KIND_BITS + OFFSET_BITS, SAVED_BITS) * UNIT,
#if STI_LINK_REGISTER
        .returned = bits_of(word, KIND_BITS + OFFSET_BITS + SAVED_BITS, RETURNED_BITS) * UNIT,
#endif
    };
}

static __attribute__((noinline)) uint64_t rule_fill(_Atomic uint64_t *entry, uintptr_t address)
{
    /* What returns there is the instruction before. */
    struct sti_frame_rule rule = sti_frame_rule(address - 1);
    uint64_t word = (uint64_t)(address >> (STI_CALL_ALIGNMENT + CACHE_BITS)) << RULE_BITS | rule_packed(&rule);
    atomic_store_explicit(entry, word, memory_order_relaxed);
    return word;
}

static struct sti_frame_rule rule_at(uintptr_t address)
{
    uintptr_t call = address >> STI_CALL_ALIGNMENT;
    uintptr_t upper = call >> CACHE_BITS;
    _Atomic uint64_t *entry = &sti_callstack_rules[(call ^ upper) & ((1 << CACHE_BITS) - 1)];
    uint64_t word = atomic_load_explicit(entry, memory_order_relaxed);
    if (__builtin_expect(word >> RULE_BITS != upper, 0))
        word = rule_fill(entry, address);
    return rule_unpacked(word);
}

__attribute__((noinline)) STI_UNINSTRUMENTED size_t sti_callstack(void **frames, size_t depth, const void *caller)
{
    struct sti_walk walk = sti_walk_begin(sti_registers_here(), 0, NULL);
    size_t length = 0;
    bool goes_on = depth > 0;
    while (goes_on) {
        if (length > 0 || walk.at.ip == (uintptr_t)caller)
            frames[length++] = (void *)walk.at.ip;
        struct sti_frame_rule rule = rule_at(sti_walk_instruction(&walk) + 1);
        if (__builtin_expect(rule.kind == STI_FRAME_OTHER, 0))
            rule = sti_frame_rule(sti_walk_instruction(&walk));
        walk.end = walk.at.sp + LARGEST_FRAME;
        goes_on = length < depth && walk_step(&walk, &rule);
    }
    return length;
}

size_t sti_callstack_of(struct sti_registers at, uintptr_t stack_end, void **frames, size_t depth)
{
    struct sti_walk walk = sti_walk_begin(at, stack_end, NULL);
    size_t length = 0;
    bool goes_on = depth > 0;
    while (goes_on) {
        frames[length++] = (void *)walk.at.ip;
        goes_on = sti_walk_out(&walk) && length < depth;
    }
    return length;
}

/* --- Reading call frame tables. Any thread.
 *
 * .eh_frame_hdr is a sorted table of functions; each leads to an entry (FDE), that to a common part (CIE). Both have
 * instructions that build a table of rules, a row for each range of addresses; they are run up to the row that is asked
 * for. What does not look as compilers and glibc write it gives no rule. */

/* Encodings of addresses. */
enum {
    FORMAT = 0x0f,
    SDATA4 = 0x0b,
    UDATA4 = 0x03,
    RELATIVE_TO_ITSELF = 0x10,
    RELATIVE_TO_TABLE = 0x30,
    RELATION = 0x70,
    INDIRECT = 0x80,
};

#define REMEMBERED 8

struct function {
    uintptr_t begin;
    const uint8_t *entry;
};

static uint32_t read_u32(const uint8_t *at)
{
    return (uint32_t)sti_read_s32(at);
}

/* The last function of the table that begins at the instruction or before. */
static bool find_function(uintptr_t instruction, struct function *function)
{
    struct dl_find_object module;
    if (_dl_find_object((void *)instruction, &module) != 0 || module.dlfo_eh_frame == NULL)
        return false;
    const uint8_t *header = module.dlfo_eh_frame;
    if (header[0] != 1 || header[1] != (RELATIVE_TO_ITSELF | SDATA4) || header[2] != UDATA4 ||
        header[3] != (RELATIVE_TO_TABLE | SDATA4))
        return false;
    const uint8_t *table = header + 12;
    size_t low = 0;
    size_t high = read_u32(header + 8);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if ((uintptr_t)(header + sti_read_s32(table + 8 * middle)) <= instruction)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return false;
    function->begin = (uintptr_t)(header + sti_read_s32(table + 8 * (low - 1)));
    function->entry = header + sti_read_s32(table + 8 * (low - 1) + 4);
    return true;
}

struct instructions {
    const uint8_t *at;
    const uint8_t *end;
};

struct common {
    uint64_t code_unit;
    int64_t data_unit;
    bool augmented;
    bool is_signal;
    const uint8_t *personality; /* how it is encoded, and behind that its address; NULL: there is none */
    struct instructions instructions;
};

/* Length, then what the length counts. */
static const uint8_t *entry_end(const uint8_t *entry)
{
    return entry + 4 + read_u32(entry);
}

/* False: it is of a form that is not known. */
static bool read_common(const uint8_t *entry, struct common *common)
{
    const uint8_t *at = entry + 8;
    uint8_t version = *at++;
    const char *augmentation = (const char *)at;
    at += strlen(augmentation) + 1;
    if (version != 1 && version != 3)
        return false;
    common->code_unit = sti_leb128_unsigned(&at);
    common->data_unit = sti_leb128_signed(&at);
    if (version == 1 ? *at++ != STI_DWARF_RETURN : sti_leb128_unsigned(&at) != STI_DWARF_RETURN)
        return false;
    common->augmented = augmentation[0] == 'z';
    common->is_signal = strchr(augmentation, 'S') != NULL;
    common->personality = NULL;
    if (!common->augmented)
        return false;
    uint64_t length = sti_leb128_unsigned(&at);
    const uint8_t *data = at;
    for (const char *letter = augmentation + 1; *letter != '\0'; letter++) {
        if (*letter == 'R' && (*data & FORMAT) != SDATA4 && (*data & FORMAT) != UDATA4)
            return false;
        if (*letter == 'P')
            common->personality = data;
        if (*letter == 'P')
            data += 1 + ((*data & FORMAT) == SDATA4 || (*data & FORMAT) == UDATA4 ? 4 : 8);
        else if (*letter == 'R' || *letter == 'L')
            data++;
        else if (*letter != 'S' && *letter != 'B')
            return false;
    }
    common->instructions = (struct instructions){ .at = at + length, .end = entry_end(entry) };
    return true;
}

enum saved_kind { UNCHANGED, SAVED, UNDEFINED, AT_FRAME_POINTER, STRANGE };

struct saved {
    enum saved_kind kind;
    int64_t offset; /* from the CFA */
};

struct row {
    int64_t cfa_offset;
    enum sti_frame_kind kind; /* by a register, or what an expression of a known form says */
    struct saved frame_pointer;
    struct saved return_address;
};

struct machine {
    const struct common *common;
    struct row row;
    struct row initial;
    struct row remembered[REMEMBERED];
    size_t remembered_count;
    uint64_t offset; /* of the row's first instruction, from the function's */
    uint64_t wanted;
};

static void set_saved(struct machine *machine, uint64_t number, enum saved_kind kind, int64_t offset)
{
    struct saved saved = { .kind = kind, .offset = offset };
    if (number == STI_DWARF_FRAME_POINTER)
        machine->row.frame_pointer = saved;
    else if (number == STI_DWARF_RETURN)
        machine->row.return_address = saved;
}

static void machine_restore(struct machine *machine, uint64_t number)
{
    if (number == STI_DWARF_FRAME_POINTER)
        machine->row.frame_pointer = machine->initial.frame_pointer;
    else if (number == STI_DWARF_RETURN)
        machine->row.return_address = machine->initial.return_address;
}

/* Expressions, as gcc writes them for functions that align their stack, and linkers for stubs. */

enum {
    ADD_TO_FRAME_POINTER = 0x70 + STI_DWARF_FRAME_POINTER,
    DEREFERENCE = 0x06,
};

#ifdef STI_STUB_EXPRESSION
static bool is_of_stub(const uint8_t *at, uint64_t length)
{
    static const uint8_t of_stub[] = STI_STUB_EXPRESSION;
    return length == sizeof of_stub && memcmp(at, of_stub, length) == 0;
}
#else
static bool is_of_stub(const uint8_t *at, uint64_t length)
{
    (void)at;
    (void)length;
    return false;
}
#endif

static void set_cfa_expression(struct row *row, const uint8_t *at, uint64_t length)
{
    row->kind = is_of_stub(at, length) ? STI_FRAME_STUB : STI_FRAME_OTHER;
    if (length == 3 && at[0] == ADD_TO_FRAME_POINTER && at[2] == DEREFERENCE) {
        const uint8_t *number = at + 1;
        row->kind = STI_FRAME_ALIGNED;
        row->cfa_offset = -sti_leb128_signed(&number);
    }
}

static enum saved_kind kind_of_expression(const uint8_t *at, uint64_t length)
{
    return length == 2 && at[0] == ADD_TO_FRAME_POINTER && at[1] == 0 ? AT_FRAME_POINTER : STRANGE;
}

static void set_cfa_register(struct row *row, uint64_t number)
{
    row->kind = number == STI_DWARF_STACK_POINTER   ? STI_FRAME_BY_STACK_POINTER
                : number == STI_DWARF_FRAME_POINTER ? STI_FRAME_BY_FRAME_POINTER
                                                    : STI_FRAME_OTHER;
}

static void skip_block(const uint8_t **at)
{
    uint64_t length = sti_leb128_unsigned(at);
    *at += length;
}

/* Run an instruction whose code byte holds no operand. False: the code is unknown. */
static bool run_extended(struct machine *machine, uint8_t code, const uint8_t **at)
{
    uint64_t number;
    uint64_t length;
    uint16_t two;
    switch (code) {
    case 0x00: /* nop */
        return true;
    case 0x02: /* advance_loc1 */
        machine->offset += *(*at)++ * machine->common->code_unit;
        return true;
    case 0x03: /* advance_loc2 */
        memcpy(&two, *at, sizeof two);
        machine->offset += two * machine->common->code_unit;
        *at += 2;
        return true;
    case 0x04: /* advance_loc4 */
        machine->offset += read_u32(*at) * machine->common->code_unit;
        *at += 4;
        return true;
    case 0x05: /* offset_extended */
        number = sti_leb128_unsigned(at);
        set_saved(machine, number, SAVED, (int64_t)sti_leb128_unsigned(at) * machine->common->data_unit);
        return true;
    case 0x06: /* restore_extended */
        machine_restore(machine, sti_leb128_unsigned(at));
        return true;
    case 0x07: /* undefined */
        set_saved(machine, sti_leb128_unsigned(at), UNDEFINED, 0);
        return true;
    case 0x08: /* same_value */
        set_saved(machine, sti_leb128_unsigned(at), UNCHANGED, 0);
        return true;
    case 0x09: /* register */
        set_saved(machine, sti_leb128_unsigned(at), STRANGE, 0);
        sti_leb128_unsigned(at);
        return true;
    case 0x0a: /* remember_state */
        if (machine->remembered_count == REMEMBERED)
            return false;
        machine->remembered[machine->remembered_count++] = machine->row;
        return true;
    case 0x0b: /* restore_state */
        if (machine->remembered_count == 0)
            return false;
        machine->row = machine->remembered[--machine->remembered_count];
        return true;
    case 0x0c: /* def_cfa */
        set_cfa_register(&machine->row, sti_leb128_unsigned(at));
        machine->row.cfa_offset = (int64_t)sti_leb128_unsigned(at);
        return true;
    case 0x0d: /* def_cfa_register */
        set_cfa_register(&machine->row, sti_leb128_unsigned(at));
        return true;
    case 0x0e: /* def_cfa_offset */
        machine->row.cfa_offset = (int64_t)sti_leb128_unsigned(at);
        return true;
    case 0x0f: /* def_cfa_expression */
        number = sti_leb128_unsigned(at);
        set_cfa_expression(&machine->row, *at, number);
        *at += number;
        return true;
    case 0x10: /* expression */
        number = sti_leb128_unsigned(at);
        length = sti_leb128_unsigned(at);
        set_saved(machine, number, kind_of_expression(*at, length), 0);
        *at += length;
        return true;
    case 0x16: /* val_expression */
        set_saved(machine, sti_leb128_unsigned(at), STRANGE, 0);
        skip_block(at);
        return true;
    case 0x2d: /* AARCH64_negate_ra_state: what is signed is also plain to sti_return_plain */
        return STI_RETURNS_MAY_BE_SIGNED;
    case 0x2e: /* GNU_args_size */
        sti_leb128_unsigned(at);
        return true;
    default:
        return false;
    }
}

/* Run to the end, or to the row that is wanted. */
static bool machine_run(struct machine *machine, struct instructions instructions)
{
    const uint8_t *at = instructions.at;
    while (at < instructions.end && machine->offset <= machine->wanted) {
        uint8_t code = *at++;
        uint8_t low = code & 0x3f;
        switch (code & 0xc0) {
        case 0x40: /* advance_loc */
            machine->offset += low * machine->common->code_unit;
            break;
        case 0x80: /* offset */
            set_saved(machine, low, SAVED, (int64_t)sti_leb128_unsigned(&at) * machine->common->data_unit);
            break;
        case 0xc0: /* restore */
            machine_restore(machine, low);
            break;
        default:
            if (!run_extended(machine, low, &at))
                return false;
        }
    }
    return true;
}

static bool is_within(int64_t number, int64_t least, int64_t most)
{
    return number >= least && number <= most;
}

/* 0: the frame pointer is the caller's still. */
static bool find_saved(const struct row *row, uint32_t *saved)
{
    switch (row->frame_pointer.kind) {
    case UNCHANGED:
        *saved = 0;
        return row->kind != STI_FRAME_ALIGNED;
    case SAVED:
        *saved = (uint32_t)-row->frame_pointer.offset;
        return row->kind != STI_FRAME_ALIGNED && is_within(row->frame_pointer.offset, INT32_MIN, -1);
    case AT_FRAME_POINTER:
        *saved = 1;
        return row->kind == STI_FRAME_ALIGNED;
    case UNDEFINED:
    case STRANGE:
        break;
    }
    return false;
}

#if STI_LINK_REGISTER

static bool find_return(const struct row *row, struct sti_frame_rule *rule)
{
    bool is_saved = row->return_address.kind == SAVED;
    rule->returned = is_saved ? (uint32_t)-row->return_address.offset : 0;
    return (is_saved ? is_within(row->return_address.offset, INT32_MIN, -1) : row->return_address.kind == UNCHANGED) &&
           is_within(row->cfa_offset, 0, INT32_MAX);
}

#else

static bool find_return(const struct row *row, struct sti_frame_rule *rule)
{
    (void)rule;
    return row->return_address.kind == SAVED && row->return_address.offset == -8 &&
           is_within(row->cfa_offset, 1, INT32_MAX);
}

#endif

static struct sti_frame_rule rule_of(const struct row *row)
{
    struct sti_frame_rule rule = { .kind = row->kind, .offset = (uint32_t)row->cfa_offset };
    if (row->return_address.kind == UNDEFINED)
        return (struct sti_frame_rule){ .kind = STI_FRAME_LAST };
    if (!find_return(row, &rule) || !find_saved(row, &rule.saved))
        rule.kind = STI_FRAME_OTHER;
    return rule;
}

static bool read_function(uintptr_t instruction, uintptr_t *begin, uintptr_t *end, struct common *common)
{
    struct function function;
    if (!find_function(instruction, &function))
        return false;
    const uint8_t *entry = function.entry;
    if (read_u32(entry) == UINT32_MAX || !read_common(entry + 4 - read_u32(entry + 4), common))
        return false;
    *begin = function.begin;
    *end = function.begin + read_u32(entry + 12);
    return instruction < *end;
}

bool sti_frame_function(uintptr_t instruction, uintptr_t *begin, uintptr_t *end)
{
    struct common common;
    return read_function(instruction, begin, end, &common);
}

/* Relative to its place, as a rule, to a word that the loader fills; of a program at a fixed place, as it is. */
uintptr_t sti_frame_personality(uintptr_t instruction)
{
    uintptr_t begin;
    uintptr_t end;
    struct common common;
    if (!read_function(instruction, &begin, &end, &common) || common.personality == NULL)
        return 0;
    uint8_t encoding = *common.personality;
    const uint8_t *place = common.personality + 1;
    uint8_t format = encoding & FORMAT;
    uint8_t relation = encoding & RELATION;
    if ((format != SDATA4 && format != UDATA4) || (relation != 0 && relation != RELATIVE_TO_ITSELF))
        return STI_FRAME_PERSONALITY_UNKNOWN;
    uintptr_t address = format == SDATA4 ? (uintptr_t)(intptr_t)sti_read_s32(place) : read_u32(place);
    if (relation == RELATIVE_TO_ITSELF)
        address += (uintptr_t)place;
    return (encoding & INDIRECT) != 0 ? *(const uintptr_t *)address : address;
}

#ifdef STI_SIGNAL_RETURN

/* What a handler returns to, where the kernel leaves its table out. A frame returns there; its instruction is the one
 * before. */
static struct sti_frame_rule undescribed(uintptr_t instruction)
{
    const uintptr_t call = (instruction >> STI_CALL_ALIGNMENT) + 1;
    int saved_errno = errno;
    uintptr_t code;
    bool is_signal = sti_walk_word(call << STI_CALL_ALIGNMENT, &code) && code == STI_SIGNAL_RETURN;
    errno = saved_errno;
    return (struct sti_frame_rule){ .kind = is_signal ? STI_FRAME_SIGNAL : STI_FRAME_LAST };
}

#else

static struct sti_frame_rule undescribed(uintptr_t instruction)
{
    (void)instruction;
    return (struct sti_frame_rule){ .kind = STI_FRAME_LAST };
}

#endif

struct sti_frame_rule sti_frame_rule(uintptr_t instruction)
{
    const struct sti_frame_rule other = { .kind = STI_FRAME_OTHER };
    struct function function;
    struct common common;
    if (!find_function(instruction, &function))
        return undescribed(instruction);
    const uint8_t *entry = function.entry;
    if (read_u32(entry) == UINT32_MAX || !read_common(entry + 4 - read_u32(entry + 4), &common))
        return other;
    if (instruction - function.begin >= read_u32(entry + 12))
        return undescribed(instruction);
    if (common.is_signal)
        return (struct sti_frame_rule){ .kind = STI_FRAME_SIGNAL };
    const uint8_t *at = entry + 16;
    skip_block(&at);
    struct machine machine = { .common = &common, .wanted = instruction - function.begin };
    if (!machine_run(&machine, common.instructions))
        return other;
    machine.initial = machine.row;
    if (!machine_run(&machine, (struct instructions){ .at = at, .end = entry_end(entry) }))
        return other;
    return rule_of(&machine.row);
}
