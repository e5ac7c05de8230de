/* SPDX-License-Identifier: MIT
 *
 * Leaving frames by unwinding them, and reading what they do then; see unwind.h. */
#include "unwind.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unwind.h>

#include "alloc/base/caller.h"
#include "alloc/base/callstack.h"
#include "alloc/base/module.h"
#include "alloc/base/scope_state.h"
#include "alloc/base/thread.h"
#include "cxx.h"
#include "guard.h"
#include "hold.h"
#include "interrupt.h"
#include "landing_pad.h"
#include "safe.h"

/* --- The forced unwind. Thread of the scope only.
 *
 * The unwinder asks stop before it asks a frame's own language what to do with it. So here is decided which frames are
 * passed, and no language ever gets to decide that the process must end.
 *
 * The C++ runtime's record of the thread is kept right, which a forced unwind by itself does not do, as it was made for
 * threads that end with it. A catch (...) block takes the exception only when nothing else is caught: what was caught
 * before the scope is set aside meanwhile. And std::uncaught_exceptions() is one more than before in all that runs, so
 * that destructors which ask it know that they are being unwound; throw; alone would raise it at each block. */

/* Of the frames from here outwards: inside is true until one has been asked that is not this library's, which is its
 * caller. */
static bool lets_pass(struct _Unwind_Context *context, bool *inside)
{
    bool is_caller = *inside;
    *inside = is_caller && sti_caller_is_this_module((const void *)(_Unwind_GetIP(context) - 1));
    return sti_lsda_lets_pass(context, is_caller);
}

struct look {
    uintptr_t scope;
    size_t frames;
    bool inside;
    bool open;
};

static _Unwind_Reason_Code look_at_frame(struct _Unwind_Context *context, void *argument)
{
    struct look *look = argument;
    if (_Unwind_GetCFA(context) > look->scope)
        return _URC_END_OF_STACK;
    look->frames++;
    look->open = lets_pass(context, &look->inside) && sti_module_of((const void *)(_Unwind_GetIP(context) - 1)) != NULL;
    return look->open ? _URC_NO_REASON : _URC_END_OF_STACK;
}

bool sti_unwind_is_open(const struct sti_scope *scope, size_t *frames)
{
    struct look look = { .scope = scope->frame, .inside = true, .open = true };
    _Unwind_Backtrace(look_at_frame, &look);
    *frames = look.frames;
    return look.open;
}

struct search {
    uintptr_t scope;
    bool ends;
};

static _Unwind_Reason_Code look_for_handler(struct _Unwind_Context *context, void *argument)
{
    struct search *search = argument;
    if (_Unwind_GetCFA(context) > search->scope)
        return _URC_END_OF_STACK;
    enum sti_lsda_answer answer = sti_lsda_answer(context);
    search->ends = answer == STI_LSDA_ENDS;
    bool goes_on = answer == STI_LSDA_PASSES && sti_module_of((const void *)(_Unwind_GetIP(context) - 1)) != NULL;
    return goes_on ? _URC_NO_REASON : _URC_END_OF_STACK;
}

bool sti_unwind_throwing_would_end(const struct sti_scope *scope)
{
    struct search search = { .scope = scope->frame };
    _Unwind_Backtrace(look_for_handler, &search);
    return search.ends;
}

_Noreturn static void land(struct sti_scope *scope)
{
    sti_cxx_restore(&scope->cxx);
    scope->unwind.under_way = false;
    sti_interrupt_land(scope);
}

static _Unwind_Reason_Code stop(int version, _Unwind_Action actions, _Unwind_Exception_Class class,
                                struct _Unwind_Exception *exception, struct _Unwind_Context *context, void *unwound)
{
    (void)version;
    (void)class;
    (void)exception;
    struct sti_scope *scope = unwound;
    uintptr_t frame = _Unwind_GetCFA(context);
    sti_guard_run_below(scope, frame);
    if (frame > scope->frame || (actions & _UA_END_OF_STACK) != 0 || !lets_pass(context, &scope->unwind.inside))
        land(scope);
    sti_cxx_set_uncaught(&scope->cxx, 1);
    return _URC_NO_REASON;
}

/* A catch block has ended without throwing again, or by throwing something else. */
static void on_kept(_Unwind_Reason_Code code, struct _Unwind_Exception *exception)
{
    (void)code;
    struct sti_unwind *unwind = (struct sti_unwind *)((char *)exception - offsetof(struct sti_unwind, exception));
    struct sti_scope *scope = (struct sti_scope *)((char *)unwind - offsetof(struct sti_scope, unwind));
    sti_cxx_keep_caught(&scope->cxx);
    unwind->under_way = false;
    scope->masks--;
    atomic_store_explicit(&scope->thread->limit, 0, memory_order_relaxed);
}

static _Unwind_Exception_Class own_class(void)
{
    _Unwind_Exception_Class class;
    memcpy(&class, "STINTC\0", sizeof class);
    return class;
}

bool sti_unwind_is_ours(_Unwind_Exception_Class class)
{
    return class == own_class();
}

_Noreturn void sti_unwind_leave(struct sti_scope *scope)
{
    struct sti_unwind *unwind = &scope->unwind;
    scope->masks++;
    sti_mutex_poison_all(scope);
    unwind->under_way = true;
    unwind->inside = true;
    sti_cxx_forget_caught();
    unwind->exception = (struct _Unwind_Exception){ .exception_cleanup = on_kept };
    unwind->exception.exception_class = own_class();
    _Unwind_ForcedUnwind(&unwind->exception, stop, scope);
    land(scope);
}

void sti_unwind_give_up(struct sti_scope *scope)
{
    sti_hold_settle(scope);
    if (scope->masks == 1 && !sti_hold_any(&scope->holds) && !sti_cxx_catches_any() && sti_frames_may_be_left(scope))
        land(scope);
}

void sti_unwind_instead_of_terminating(const void *caller)
{
    struct sti_thread *thread = sti_thread_metered;
    if (thread == NULL || (caller != NULL && sti_caller_is_protected((uintptr_t)caller)))
        return;
    struct sti_scope *scope = thread->scope;
    /* Without a look at the stack: clang's frame that calls std::terminate has no table. */
    if (sti_interrupt_may_cut(scope))
        land(scope);
}

void sti_unwind_cut(struct sti_scope *scope)
{
    if (scope->on_interrupt == STINT_UNWIND && !scope->unwind.under_way)
        sti_unwind_leave(scope);
    land(scope);
}

/* --- Reading a frame's exception table. Any thread.
 *
 * A header; then the call sites, each a range of instructions with its landing pad (0: none) and its first action; then
 * the actions, chains of a filter and the distance to the next: 0 a cleanup, above it a handler, below it an exception
 * specification. An instruction in no range is one that the compiler saw no exception come from. */

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
enum asked { BAD_ALLOC, FORCED_UNWIND, FORCED_UNWIND_OF_CALLER };

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
        if (landing_pad != 0 && asked == FORCED_UNWIND_OF_CALLER &&
            sti_plain_call_returns_to(function + instruction + 1))
            return STI_LSDA_ENDS;
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

bool sti_lsda_lets_pass(struct _Unwind_Context *context, bool is_caller)
{
    return answer(context, is_caller ? FORCED_UNWIND_OF_CALLER : FORCED_UNWIND) != STI_LSDA_ENDS;
}

/* --- Calls of what throws nothing. Any thread. --- */

/* Functions of libc's that are sample points here, and that its headers declare not to throw. */
static const char *const plain[] = {
    "malloc",          "calloc",
    "realloc",         "reallocarray",
    "posix_memalign",  "aligned_alloc",
    "memalign",        "valloc",
    "pvalloc",         "strdup",
    "__strdup",        "strndup",
    "__strndup",       "asprintf",
    "__asprintf_chk",  "vasprintf",
    "__vasprintf_chk", "realpath",
    "__realpath_chk",  "canonicalize_file_name",
    "getcwd",          "get_current_dir_name",
    "tempnam",         "mmap",
    "mmap64",          "mremap",
};
#define PLAIN (sizeof plain / sizeof plain[0])

static bool is_plain_name(const char *name)
{
    size_t i = 0;
    while (name != NULL && i < PLAIN && strcmp(plain[i], name) != 0)
        i++;
    return name != NULL && i < PLAIN;
}

static struct sti_module module_of(const uint8_t *address)
{
    return sti_module_loaded(sti_module_of(address));
}

static bool is_plain_entry(const uint8_t *entry)
{
    return is_plain_name(sti_module_imported(module_of(entry), entry));
}

/* Of a program that this library is linked into. */
static bool is_defined_here(const uint8_t *function)
{
    const struct sti_module module = module_of(function);
    size_t i = 0;
    while (i < PLAIN && function != sti_module_symbol(module, plain[i]))
        i++;
    return i < PLAIN;
}

static const uint8_t *target(const uint8_t *distance)
{
    return distance + 4 + sti_read_s32(distance);
}

/* A function, or the linkage table's way to one: jmp *entry. */
static bool is_plain_function(const uint8_t *function)
{
    const uint8_t *at = function;
    if (memcmp(at, "\xf3\x0f\x1e\xfa", 4) == 0) /* endbr64 */
        at += 4;
    if (at[0] == 0xf2) /* bnd */
        at++;
    return at[0] == 0xff && at[1] == 0x25 ? is_plain_entry(target(at + 2)) : is_defined_here(function);
}

bool sti_plain_call_returns_to(uintptr_t behind)
{
    const uint8_t *at = (const uint8_t *)behind;
    if (at[-6] == 0xff && at[-5] == 0x15)
        return is_plain_entry(target(at - 4));
    /* A shorter call may end in bytes that look like this one: then they lead far away. */
    const struct link_map *module = at[-5] == 0xe8 ? sti_module_of(at) : NULL;
    return module != NULL && sti_module_of(target(at - 4)) == module && is_plain_function(target(at - 4));
}
