/* SPDX-License-Identifier: MIT
 *
 * Leaving frames by unwinding them; see unwind.h. Thread of the scope only. */
#include "unwind.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unwind.h>

#include "alloc/base/callstack.h"
#include "alloc/base/module.h"
#include "alloc/base/scope_state.h"
#include "alloc/base/thread.h"
#include "cxx.h"
#include "guard.h"
#include "hold.h"
#include "interrupt.h"
#include "safe.h"

/* --- Whose language a frame speaks: its personality, the function that the unwinder asks what the frame does with an
 * exception. The frame's description (FDE) refers to one that it shares with others (CIE); there it stands, among what
 * each letter of a string announces. --- */

struct description {
    uint32_t length;
    int32_t to_common;
};

struct bases {
    const void *text;
    const void *data;
    const void *function;
};

/* Of libgcc. */
extern const struct description *_Unwind_Find_FDE(const void *instruction, struct bases *bases);

/* DWARF's encodings of an address: what it is relative to, and its format. */
enum {
    FORMAT = 0x0f,
    ABSOLUTE = 0x00,
    UNSIGNED_4 = 0x03,
    SIGNED_4 = 0x0b,
    SIGNED_8 = 0x0c,
    RELATION = 0x70,
    TO_ITSELF = 0x10,
    INDIRECT = 0x80,
};

/* 0: it is encoded as no compiler does on this processor. */
static uintptr_t read_address(const uint8_t *at, uint8_t encoding)
{
    const uint8_t *place = at;
    uint64_t wide;
    uint32_t narrow;
    memcpy(&wide, at, sizeof wide);
    memcpy(&narrow, at, sizeof narrow);
    uint8_t format = encoding & FORMAT;
    uint8_t relation = encoding & RELATION;
    if ((format != ABSOLUTE && format != UNSIGNED_4 && format != SIGNED_4 && format != SIGNED_8) ||
        (relation != 0 && relation != TO_ITSELF))
        return 0;
    uintptr_t address = format == UNSIGNED_4 ? narrow
                        : format == SIGNED_4 ? (uintptr_t)(intptr_t)(int32_t)narrow
                                             : wide;
    if (relation == TO_ITSELF)
        address += (uintptr_t)place;
    return (encoding & INDIRECT) != 0 ? *(const uintptr_t *)address : address;
}

/* Of the frame with this instruction; 0: it has none, or cannot be read. */
static uintptr_t personality_of(uintptr_t instruction)
{
    struct bases bases;
    const struct description *frame = _Unwind_Find_FDE((const void *)instruction, &bases);
    if (frame == NULL)
        return 0;
    const uint8_t *at = (const uint8_t *)&frame->to_common - frame->to_common + sizeof *frame;
    uint8_t version = *at++;
    const char *letter = (const char *)at;
    at += strlen(letter) + 1;
    if (*letter++ != 'z')
        return 0;
    sti_leb128_unsigned(&at); /* the unit of code, that of data, the return address's register, what follows */
    sti_leb128_signed(&at);
    if (version == 1)
        at++;
    else
        sti_leb128_unsigned(&at);
    sti_leb128_unsigned(&at);
    for (; *letter == 'R' || *letter == 'L'; letter++)
        at++;
    return *letter == 'P' ? read_address(at + 1, *at) : 0;
}

/* --- The forced unwind.
 *
 * The unwinder asks stop before it asks a frame's own language what to do with it. Which frames let an exception
 * through is for the language to say: where one does not, C++ calls std::terminate, and that turns the unwind into a
 * jump (override_cxx.c). A language whose last word nobody hears here is not asked: in front of its frame the unwind
 * turns into a jump, too.
 *
 * The C++ runtime's record of the thread is kept right, which a forced unwind by itself does not do, as it was made for
 * threads that end with it. A catch (...) block takes the exception only when nothing else is caught: what was caught
 * before the scope is set aside meanwhile. And std::uncaught_exceptions() is one more than before in all that runs, so
 * that destructors which ask it know that they are being unwound; throw; alone would raise it at each block. --- */

_Noreturn static void land(struct sti_scope *scope)
{
    sti_cxx_restore(&scope->cxx);
    scope->unwind.under_way = false;
    sti_interrupt_land(scope);
}

static bool is_passed(struct _Unwind_Context *context)
{
    int before_instruction = 0;
    uintptr_t address = _Unwind_GetIPInfo(context, &before_instruction);
    return _Unwind_GetLanguageSpecificData(context) == 0 ||
           sti_cxx_may_be_asked(personality_of(address - (before_instruction ? 0 : 1)));
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
    if (frame > scope->frame || (actions & _UA_END_OF_STACK) != 0 || !is_passed(context))
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

/* --- Where an unwind may begin. --- */

struct look {
    uintptr_t call; /* where it returns to */
    uintptr_t scope;
    const struct link_map *module; /* that has the call */
    size_t left;                   /* frames that are looked at, at most */
    bool is_in_front;              /* among this library's frames */
    bool may_begin;
};

#define FRAMES_LOOKED_AT 64

static _Unwind_Reason_Code look_at_frame(struct _Unwind_Context *context, void *argument)
{
    struct look *look = argument;
    uintptr_t address = _Unwind_GetIP(context);
    look->is_in_front = look->is_in_front && address != look->call;
    if (look->is_in_front)
        return _URC_NO_REASON;
    if (_Unwind_GetCFA(context) > look->scope || sti_module_of((const void *)(address - 1)) != look->module) {
        look->may_begin = true;
        return _URC_END_OF_STACK;
    }
    bool goes_on = _Unwind_GetLanguageSpecificData(context) == 0 && look->left-- > 0;
    return goes_on ? _URC_NO_REASON : _URC_END_OF_STACK;
}

bool sti_unwind_may_begin(const struct sti_scope *scope, const void *plain_call)
{
    struct look look = {
        .call = (uintptr_t)plain_call, .scope = scope->frame, .left = FRAMES_LOOKED_AT, .is_in_front = true
    };
    if (plain_call == NULL)
        return true;
    look.module = sti_module_of((const char *)plain_call - 1);
    if (look.module != NULL)
        _Unwind_Backtrace(look_at_frame, &look);
    return look.may_begin;
}

/* --- Where the process would end. --- */

void sti_unwind_note_throw(struct sti_scope *scope)
{
    scope->unwind.throws_past_libc = !sti_frames_may_be_cut(scope);
}

/* clang's frame that calls std::terminate is not described, and hides what is further out. That is what it was when
 * operator new last threw, unless something else has been thrown since. */
static bool may_land(const struct sti_scope *scope, const void *caller)
{
    struct bases bases;
    if (scope->unwind.under_way)
        return true;
    if (_Unwind_Find_FDE((const char *)caller - 1, &bases) == NULL)
        return !scope->unwind.throws_past_libc;
    return sti_frames_may_be_cut(scope);
}

void sti_unwind_instead_of_terminating(const void *caller)
{
    struct sti_thread *thread = sti_thread_metered;
    if (thread == NULL || !sti_interrupt_may_cut(thread->scope) || !may_land(thread->scope, caller))
        return;
    struct sti_scope *scope = thread->scope;
    sti_cxx_end_caught(&scope->cxx, scope->unwind.under_way ? &scope->unwind.exception : NULL);
    if (!scope->unwind.under_way)
        sti_interrupt_note_leaving(thread);
    land(scope);
}
