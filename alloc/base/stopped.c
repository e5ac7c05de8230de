/* SPDX-License-Identifier: MIT
 *
 * Walking the frames of code that a signal has stopped; see stopped.h. Any thread. */
#include "stopped.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#include <unwind.h>

#include "assumption.h"
#include "caller.h"
#include "callstack.h"
#include "instruction.h"
#include "module.h"

/* --- Whose frame is it? */

enum owner {
    NOBODY,          /* who would have to be asked: code of the task's, and of libraries */
    LIBC,            /* a part of libc's that may have been called by one of the next */
    LIBC_AND_PASSES, /* of libc's, and holds nothing */
    OURS,            /* this library's, which has called the task's code back, but not if it has called libc */
    SOMEBODY,
};

/* What they have of their own, in the middle of it, is on the stack, or a block that is lost. Those without a name here
 * may have a lock; sscanf and its like have a cleanup handler, which libc's longjmp would run. (What is as simple, and
 * calls nothing, has no use for a stack and is not stopped for one.) */
static const char *const names[] = {
    "qsort",
    "qsort_r",
    "bsearch",
    "lfind",
    "lsearch",
    "tfind",
    "twalk",
    "sprintf",
    "snprintf",
    "vsprintf",
    "vsnprintf",
    "__sprintf_chk",
    "__snprintf_chk",
    "__vsprintf_chk",
    "__vsnprintf_chk",
    "strtod",
    "strtof",
    "strtold",
    "strtol",
    "strtoul",
    "strtoll",
    "strtoull",
    "__isoc23_strtol",
    "__isoc23_strtoul",
    "__isoc23_strtoll",
    "__isoc23_strtoull",
    "atof",
    "atoi",
    "atol",
    "fnmatch",
};
#define NAMES (sizeof names / sizeof *names)

/* Those that only look at memory or copy it: they call nothing but each other, and have nothing, not even for a
 * while. */
static const char *const plain_names[] = {
    "memcmp",       "bcmp",          "memcpy",       "memmove",       "mempcpy",      "memset",       "bzero",
    "memccpy",      "memchr",        "memrchr",      "rawmemchr",     "memmem",       "strlen",       "strnlen",
    "strcmp",       "strncmp",       "strcasecmp",   "strncasecmp",   "strchr",       "strrchr",      "strchrnul",
    "strstr",       "strcasestr",    "strspn",       "strcspn",       "strpbrk",      "strcpy",       "strncpy",
    "stpcpy",       "stpncpy",       "strcat",       "strncat",       "wmemset",      "wmemcmp",      "wmemchr",
    "wcslen",       "wcscmp",        "__memcpy_chk", "__memmove_chk", "__memset_chk", "__strcpy_chk", "__strncpy_chk",
    "__strcat_chk", "__strncat_chk",
};
#define PLAIN_NAMES (sizeof plain_names / sizeof *plain_names)

/* Their code. Most end in a jump to another function, which is then the one that the task's code seems to have called:
 * that is among them, and where it jumps to if it is as short as what only hands on. */
#define FUNCTIONS_MAX 256
#define SHORT 64 /* bytes */
struct functions {
    struct sti_caller_module code[FUNCTIONS_MAX];
    size_t count;
};
static struct functions passing;
static struct functions plain;

static bool is_in(const struct functions *functions, uintptr_t instruction)
{
    size_t i = 0;
    while (i < functions->count && !sti_caller_in(&functions->code[i], (const void *)instruction))
        i++;
    return i < functions->count;
}

static void add(struct functions *functions, uintptr_t function)
{
    uintptr_t begin;
    uintptr_t end;
    if (function != 0 && functions->count < FUNCTIONS_MAX && !is_in(functions, function) &&
        sti_frame_function(function, &begin, &end))
        functions->code[functions->count++] = (struct sti_caller_module){ .begin = begin, .size = end - begin };
}

static void add_targets(struct functions *functions, uintptr_t begin, uintptr_t end)
{
    struct sti_instruction instruction;
    for (uintptr_t at = begin; at < end; at += instruction.length) {
        instruction = sti_instruction_at(at, end);
        if (instruction.length == 0)
            return;
        bool leads = instruction.flow == STI_INSTRUCTION_JUMPS || instruction.flow == STI_INSTRUCTION_BRANCHES;
        if (leads && instruction.target - begin >= end - begin && sti_caller_is_libc((const void *)instruction.target))
            add(functions, instruction.target);
    }
}

static void find_named(struct functions *functions, const char *const *list, size_t length)
{
    for (size_t i = 0; i < length; i++)
        add(functions, sti_libc_code(list[i]));
    size_t listed = functions->count;
    for (size_t i = 0; i < functions->count; i++) {
        const struct sti_caller_module code = functions->code[i];
        if (i < listed || code.size <= SHORT)
            add_targets(functions, code.begin, code.begin + code.size);
    }
}

static void find_all(void)
{
    find_named(&passing, names, NAMES);
    find_named(&plain, plain_names, PLAIN_NAMES);
}

void sti_stopped_prepare(void)
{
    static pthread_once_t found = PTHREAD_ONCE_INIT;
    pthread_once(&found, find_all);
}

static enum owner owner_of(uintptr_t instruction, bool past_libc)
{
    if (past_libc && sti_caller_is_libc((const void *)instruction))
        return is_in(&passing, instruction) ? LIBC_AND_PASSES : LIBC;
    if (sti_caller_is_protected_further_out(instruction))
        return SOMEBODY;
    return past_libc && sti_caller_is_protected(instruction) ? OURS : NOBODY;
}

/* --- The walk, from the inside outwards. */

#define REMEMBERED 128 /* addresses; a power of two. On a signal's stack, which may be small */
#define SLOW_FRAMES_MAX 20000

struct place {
    uintptr_t address; /* where its frame goes on; 0: no place */
    struct sti_frame_rule rule;
    enum owner owner;
};

struct walk {
    const struct sti_stopped *stopped;
    bool past_libc;
    enum owner last; /* of the frame before */
    size_t frames;   /* of the slow walk, */
    bool begun;      /* which has come to the stack that was left for this one */
    bool reached;
};

/* The outermost of a row of libc's frames is the one that the task's code has called. */
static bool may_pass(struct walk *walk, enum owner owner)
{
    enum owner last = walk->last;
    walk->last = owner;
    switch (owner) {
    case NOBODY:
        return last != LIBC;
    case OURS:
        return last != LIBC && last != LIBC_AND_PASSES;
    case LIBC:
    case LIBC_AND_PASSES:
        return true;
    case SOMEBODY:
        break;
    }
    return false;
}

static const struct place *look_up(struct place *places, uintptr_t address, bool past_libc)
{
    struct place *place = &places[(address ^ address >> 7) % REMEMBERED];
    if (place->address != address) {
        /* What returns there is the instruction before. */
        place->address = address;
        place->rule = sti_frame_rule(address - 1);
        place->owner = owner_of(address - 1, past_libc);
    }
    return place;
}

static bool is_readable(const struct walk *walk, uintptr_t address)
{
    return address >= walk->stopped->lowest && address < walk->stopped->scope;
}

enum step { STEP_ON, STEP_REACHED, STEP_UNKNOWN, STEP_LOST };

static STI_CALLER_UNINSTRUMENTED enum step step(const struct walk *walk, struct sti_registers *at,
                                                const struct sti_frame_rule *rule)
{
    if (rule->kind == STI_FRAME_OTHER)
        return STEP_UNKNOWN;
    if (rule->kind == STI_FRAME_LAST)
        return STEP_LOST;
    uintptr_t frame = (rule->kind == STI_FRAME_BY_STACK_POINTER ? at->sp : at->bp) + rule->offset;
    if (frame > walk->stopped->scope && frame - walk->stopped->scope < UINT32_MAX)
        return STEP_REACHED;
    if (!is_readable(walk, frame - sizeof frame) || (rule->saved != 0 && !is_readable(walk, frame - rule->saved)))
        return STEP_LOST;
    return sti_frame_step(at, rule) ? STEP_ON : STEP_LOST;
}

/* The instruction that was stopped is no return address, and is asked about by the caller of all this. */
static enum step walk_quickly(struct walk *walk)
{
    struct sti_registers at = walk->stopped->at;
    struct place places[REMEMBERED];
    memset(places, 0, sizeof places);
    struct sti_frame_rule rule = sti_frame_rule(at.ip);
    enum step taken = step(walk, &at, &rule);
    while (taken == STEP_ON) {
        const struct place *place = look_up(places, at.ip, walk->past_libc);
        taken = step(walk, &at, &place->rule);
        if (taken == STEP_ON && !may_pass(walk, place->owner))
            return STEP_LOST;
        if (taken == STEP_REACHED)
            return taken;
    }
    return taken;
}

/* From the handler's own frames, which lie on another stack. */
static _Unwind_Reason_Code visit_frame(struct _Unwind_Context *context, void *argument)
{
    struct walk *walk = argument;
    const struct sti_stopped *stopped = walk->stopped;
    uintptr_t frame = _Unwind_GetCFA(context);
    if (++walk->frames > SLOW_FRAMES_MAX)
        return _URC_END_OF_STACK;
    walk->begun = walk->begun || (frame > stopped->at.sp && frame <= stopped->scope);
    if (!walk->begun)
        return _URC_NO_REASON;
    if (frame > stopped->scope) {
        walk->reached = true;
        return _URC_END_OF_STACK;
    }
    int before_instruction = 0;
    uintptr_t address = _Unwind_GetIPInfo(context, &before_instruction);
    enum owner owner = owner_of(address - (before_instruction ? 0 : 1), walk->past_libc);
    return may_pass(walk, owner) ? _URC_NO_REASON : _URC_END_OF_STACK;
}

static bool is_in_plain(uintptr_t instruction)
{
    return sti_caller_is_libc((const void *)instruction) && is_in(&plain, instruction);
}

/* Out of such functions, to the call of the first one. False: that cannot be found, or is the scope's own. */
static bool leave_plain(struct sti_stopped *stopped)
{
    const struct walk walk = { .stopped = stopped };
    while (is_in_plain(stopped->at.ip)) {
        struct sti_registers at = stopped->at;
        struct sti_frame_rule rule = sti_frame_rule(at.ip);
        if (step(&walk, &at, &rule) != STEP_ON)
            return false;
        at.ip--; /* what returns there is the instruction before */
        stopped->at = at;
    }
    return true;
}

bool sti_stopped_in_own_code(const struct sti_stopped *stopped)
{
    struct sti_stopped out = *stopped;
    if (!sti_caller_is_protected(out.at.ip))
        return true;
    return is_in_plain(out.at.ip) && out.at.sp < out.scope && leave_plain(&out) && !sti_caller_is_protected(out.at.ip);
}

static bool may_be_left(const struct sti_stopped *stopped, bool past_libc)
{
    enum owner first = owner_of(stopped->at.ip, past_libc);
    struct walk walk = { .stopped = stopped, .past_libc = past_libc, .last = first };
    if (!sti_rule_is_on(STI_RULE_STACK))
        return true;
    if (first == SOMEBODY || stopped->at.sp >= stopped->scope)
        return false;
    enum step taken = walk_quickly(&walk);
    if (taken == STEP_REACHED)
        return walk.last != LIBC;
    if (taken != STEP_UNKNOWN)
        return false;
    walk.last = first;
    _Unwind_Backtrace(visit_frame, &walk);
    return walk.reached && walk.last != LIBC;
}

bool sti_stopped_may_be_left(const struct sti_stopped *stopped, bool past_libc)
{
    struct sti_stopped out = *stopped;
    if (sti_assumption_fails(STI_ASSUMED_UNWINDER))
        return false;
    if (!past_libc && sti_rule_is_on(STI_RULE_STACK) && out.at.sp < out.scope && !leave_plain(&out))
        return false;
    return may_be_left(&out, past_libc);
}

/* --- Where the caller is returned to. */

struct search {
    struct walk walk;
    uintptr_t callee; /* what the frame before was executing */
    uintptr_t place;
};

/* A return address of a frame with that stack pointer. Whether the search ends there. */
static bool is_callers(struct search *search, uintptr_t address, uintptr_t stack_pointer)
{
    uintptr_t callee = search->callee;
    uintptr_t place = stack_pointer - sizeof address;
    search->callee = address - 1;
    if (sti_caller_is_protected(address - 1))
        return false;
    search->place = sti_caller_is_loader((const void *)callee) || !is_readable(&search->walk, place) ? 0 : place;
    return true;
}

static enum step search_quickly(struct search *search)
{
    struct sti_registers at = search->walk.stopped->at;
    struct sti_frame_rule rule = sti_frame_rule(at.ip);
    enum step taken;
    while ((taken = step(&search->walk, &at, &rule)) == STEP_ON && !is_callers(search, at.ip, at.sp))
        rule = sti_frame_rule(at.ip - 1);
    return taken;
}

static _Unwind_Reason_Code search_frame(struct _Unwind_Context *context, void *argument)
{
    struct search *search = argument;
    const struct sti_stopped *stopped = search->walk.stopped;
    uintptr_t frame = _Unwind_GetCFA(context);
    if (++search->walk.frames > SLOW_FRAMES_MAX || (search->walk.begun && frame > stopped->scope))
        return _URC_END_OF_STACK;
    search->walk.begun = search->walk.begun || (frame > stopped->at.sp && frame <= stopped->scope);
    if (!search->walk.begun)
        return _URC_NO_REASON;
    return is_callers(search, _Unwind_GetIP(context), frame) ? _URC_END_OF_STACK : _URC_NO_REASON;
}

uintptr_t sti_stopped_return(const struct sti_stopped *stopped)
{
    struct search search = { .walk = { .stopped = stopped }, .callee = stopped->at.ip };
    if (!sti_caller_is_protected(stopped->at.ip) || stopped->at.sp >= stopped->scope)
        return 0;
    if (search_quickly(&search) == STEP_UNKNOWN) {
        search.callee = stopped->at.ip;
        _Unwind_Backtrace(search_frame, &search);
    }
    return search.place;
}

/* --- Its callstack. --- */

#define WORD sizeof(uintptr_t)
#define LARGEST_FRAME ((uintptr_t)1 << 20)

/* Below the stack pointer, which a signal leaves as it is. In an epilogue what has just been popped is still read from
 * there: compilers do not tell of each pop. */
#define RED_ZONE 128

#define MAX_PUSHED 8 /* registers that a function has to save, and a bit */

/* By a system call that would do nothing, but reads it first. */
static bool is_readable_word(uintptr_t address)
{
    const int no_change = -1;
    return syscall(SYS_rt_sigprocmask, no_change, address, NULL, sizeof(uint64_t)) == 0 || errno != EFAULT;
}

/* A sandbox may refuse the one call that reads and makes no fault: then it is asked first. */
STI_CALLER_UNINSTRUMENTED bool sti_stopped_word(uintptr_t address, uintptr_t *word)
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

static STI_CALLER_UNINSTRUMENTED bool read_word(uintptr_t address, uintptr_t stack_end, uintptr_t *word)
{
    if (stack_end == 0)
        return sti_stopped_word(address, word);
    bool is_on_stack = address <= stack_end - WORD;
    if (is_on_stack)
        *word = *(const uintptr_t *)address;
    return is_on_stack;
}

/* A function of gcc's that aligns its stack, for vectors or a sanitizer. Its rule is an expression of its own: where
 * its caller's frame ends it has saved among the registers that it pushes, below the frame pointer; and right above
 * that it has pushed its return address once more. So the one is found by the other. */
static bool go_up_aligned(struct sti_registers *at, uintptr_t stack_end)
{
    uintptr_t copy;
    if (at->bp < at->sp || at->bp % WORD != 0 || !read_word(at->bp + WORD, stack_end, &copy))
        return false;
    for (uintptr_t slot = at->bp - WORD; slot >= at->bp - MAX_PUSHED * WORD && slot >= at->sp; slot -= WORD) {
        uintptr_t top;
        uintptr_t ip;
        if (!read_word(slot, stack_end, &top) || top <= at->bp || top - at->bp > LARGEST_FRAME || top % WORD != 0 ||
            !read_word(top - WORD, stack_end, &ip) || ip != copy)
            continue;
        at->sp = top;
        at->ip = ip;
        return read_word(at->bp, stack_end, &at->bp);
    }
    return false;
}

/* False: it has no caller, or none that can be found. */
static bool go_up(struct sti_registers *at, const struct sti_frame_rule *rule, uintptr_t stack_end)
{
    if (rule->kind == STI_FRAME_OTHER)
        return go_up_aligned(at, stack_end);
    bool by_stack_pointer = rule->kind == STI_FRAME_BY_STACK_POINTER;
    if (!by_stack_pointer && rule->kind != STI_FRAME_BY_FRAME_POINTER)
        return false;
    uintptr_t top = (by_stack_pointer ? at->sp : at->bp) + rule->offset;
    uintptr_t size = top - at->sp;
    if (top <= at->sp || size > LARGEST_FRAME || top % WORD != 0 || rule->saved > size + RED_ZONE)
        return false;
    at->sp = top;
    if (rule->saved != 0 && !read_word(top - rule->saved, stack_end, &at->bp))
        return false;
    return read_word(top - WORD, stack_end, &at->ip) && at->ip != 0;
}

/* In a stub by which one module calls another: the linker's tables have an expression for those, as their second
 * instruction pushes a number. */
static STI_CALLER_UNINSTRUMENTED bool is_in_stub(uintptr_t ip)
{
    const uint8_t *stub = (const uint8_t *)(ip & ~(uintptr_t)15);
    return stub[0] == 0xff && stub[1] == 0x25; /* jmp *slot(%rip): 6 bytes, and the push 5 */
}

static struct sti_frame_rule rule_of_interrupted(uintptr_t ip)
{
    struct sti_frame_rule rule = sti_frame_rule(ip);
    if (rule.kind == STI_FRAME_OTHER && is_in_stub(ip))
        rule = (struct sti_frame_rule){ .kind = STI_FRAME_BY_STACK_POINTER, .offset = (ip & 15) >= 11 ? 16 : 8 };
    return rule;
}

size_t sti_stopped_callstack(struct sti_registers at, uintptr_t stack_end, void **frames, uintptr_t *tops, size_t depth)
{
    size_t length = 0;
    bool goes_on = depth > 0;
    while (goes_on) {
        /* What returns to an address is the instruction before. */
        struct sti_frame_rule rule = length == 0 ? rule_of_interrupted(at.ip) : sti_frame_rule(at.ip - 1);
        frames[length] = (void *)at.ip;
        goes_on = go_up(&at, &rule, stack_end);
        tops[length++] = at.sp;
        goes_on = goes_on && length < depth;
    }
    return length;
}
