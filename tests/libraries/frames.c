/* SPDX-License-Identifier: MIT
 *
 * Whose frames are left; see frames.h. By a jump they are still there when the task's guard runs. An unwind takes them
 * one after the other; so this program has a _Unwind_ForcedUnwind of its own, which looks before it begins. */
#include "frames.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unwind.h>

#include <stint/stint.h>

typedef _Unwind_Reason_Code forced_unwind_fn(struct _Unwind_Exception *, _Unwind_Stop_Fn, void *);

static forced_unwind_fn *forced_unwind;
static const struct link_map *program, *library, *libc, *unwinder, *cxx;
static void *throwing, *terminating;
static _Thread_local uintptr_t outermost;
static atomic_ulong foreign, looked_at;
static _Atomic(const char *) last_module;

static const struct link_map *module_of(uintptr_t address)
{
    struct dl_find_object found;
    return _dl_find_object((void *)address, &found) == 0 ? found.dlfo_link_map : NULL;
}

void frames_start(void)
{
    *(void **)&forced_unwind = dlsym(RTLD_NEXT, "_Unwind_ForcedUnwind");
    program = module_of((uintptr_t)frames_start);
    library = module_of((uintptr_t)stint_version);
    libc = module_of((uintptr_t)strtok);
    throwing = dlsym(RTLD_DEFAULT, "__cxa_throw");
    terminating = dlsym(RTLD_DEFAULT, "_ZSt9terminatev");
    cxx = throwing != NULL ? module_of((uintptr_t)throwing) : NULL;
    unwinder = module_of((uintptr_t)_Unwind_Backtrace); /* which is at work where a guard runs in an unwind */
}

__attribute__((noinline)) void frames_begin(void)
{
    outermost = (uintptr_t)__builtin_frame_address(0);
}

struct look {
    bool is_behind_libc; /* a frame of libc's, which a signal's handler returns to, or else is foreign */
    bool is_in_cxx;      /* among frames of the C++ runtime, */
    bool is_ending; /* which has called std::terminate, or throws an exception that no code may catch: the process would
                       end */
};

static void note(const struct link_map *module)
{
    atomic_fetch_add_explicit(&foreign, 1, memory_order_relaxed);
    atomic_store_explicit(&last_module, module != NULL ? module->l_name : "generated code", memory_order_relaxed);
}

/* The next frame is not the runtime's, and neither calls it nor is called by it. */
static void leave_cxx(struct look *look)
{
    if (look->is_in_cxx && !look->is_ending)
        note(cxx);
    look->is_in_cxx = look->is_ending = false;
}

/* A signal may have interrupted a function of libc that only looks at memory. */
static _Unwind_Reason_Code look_at(struct _Unwind_Context *context, void *argument)
{
    struct look *look = argument;
    int is_interrupted = 0;
    uintptr_t address = _Unwind_GetIPInfo(context, &is_interrupted);
    if (_Unwind_GetCFA(context) > outermost)
        return _URC_END_OF_STACK;
    const struct link_map *module = module_of(address - !is_interrupted);
    if (look->is_behind_libc && !is_interrupted)
        note(libc);
    look->is_behind_libc = module == libc && !is_interrupted;
    const void *function = _Unwind_FindEnclosingFunction((void *)(address - 1));
    look->is_in_cxx = look->is_in_cxx || module == cxx;
    if (function != NULL && (function == throwing || function == terminating))
        look->is_ending = true;
    else if (module != cxx && module != library && module != unwinder)
        leave_cxx(look);
    if (module != program && module != library && module != libc && module != unwinder && module != cxx)
        note(module);
    return _URC_NO_REASON;
}

void frames_look(void)
{
    struct look look;
    memset(&look, 0, sizeof look);
    atomic_fetch_add_explicit(&looked_at, 1, memory_order_relaxed);
    _Unwind_Backtrace(look_at, &look);
    leave_cxx(&look);
    if (look.is_behind_libc)
        note(libc);
}

unsigned long frames_foreign(const char **module)
{
    *module = atomic_load_explicit(&last_module, memory_order_relaxed);
    return atomic_load_explicit(&foreign, memory_order_relaxed);
}

unsigned long frames_looked_at(void)
{
    return atomic_load_explicit(&looked_at, memory_order_relaxed);
}

_Unwind_Reason_Code _Unwind_ForcedUnwind(struct _Unwind_Exception *exception, _Unwind_Stop_Fn stop, void *argument)
{
    frames_look();
    return forced_unwind(exception, stop, argument);
}
