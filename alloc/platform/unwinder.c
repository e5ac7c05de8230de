/* SPDX-License-Identifier: MIT
 *
 * libgcc's unwinder, which is loaded before the first task that may be unwound, and not with this library: that would
 * take a tenth of the time of a process which does nothing. Any thread.
 *
 * What is compiled here calls libgcc's functions by their names, some of it by the compiler's doing: what a frame with
 * a cleanup is made of. These names are defined here, for this library alone, and jump into libgcc. A program in which
 * exceptions are thrown has it already, so that it needs no descriptor any more; or it has a copy of it: then a frame
 * of ours is asked all the same, as it always was, by the functions of the shared one. */
#include "unwinder.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unwind.h>

#if defined __GLIBC__
#define LIBGCC "libgcc_s.so.1"

typedef struct _Unwind_Context context;
typedef struct _Unwind_Exception exception;

/* One line for each: X(its name there, result, parameters, arguments, the result where it is not there). */
#define FUNCTIONS(X)                                                                                                   \
    X(_Unwind_Backtrace, _Unwind_Reason_Code, (_Unwind_Trace_Fn trace, void *arg), (trace, arg), _URC_END_OF_STACK)    \
    X(_Unwind_ForcedUnwind, _Unwind_Reason_Code, (exception * thrown, _Unwind_Stop_Fn stop, void *arg),                \
      (thrown, stop, arg), _URC_END_OF_STACK)                                                                          \
    X(_Unwind_GetCFA, _Unwind_Word, (context * at), (at), 0)                                                           \
    X(_Unwind_GetIP, _Unwind_Ptr, (context * at), (at), 0)                                                             \
    X(_Unwind_GetIPInfo, _Unwind_Ptr, (context * at, int *before), (at, before), 0)                                    \
    X(_Unwind_GetLanguageSpecificData, void *, (context * at), (at), NULL)                                             \
    X(_Unwind_Resume, void, (exception * thrown), (thrown), 0)                                                         \
    X(__gcc_personality_v0, _Unwind_Reason_Code,                                                                       \
      (int version, _Unwind_Action actions, _Unwind_Exception_Class class, exception *thrown, context *at),            \
      (version, actions, class, thrown, at), _URC_FATAL_PHASE1_ERROR)

#define NUMBER(name, result, parameters, arguments, missing) number_of##name,
#define NAME(name, result, parameters, arguments, missing) #name,
enum { FUNCTIONS(NUMBER) COUNT };
static const char *const names[COUNT] = { FUNCTIONS(NAME) };

/* Relaxed: two threads at once find the same. The last is the personality of C as modules find it that were loaded with
 * the program. In one that is linked at a fixed place that is the address of a jump. */
static void *_Atomic found[COUNT];
static void *_Atomic found_by_others;

static _Unwind_Reason_Code stop_at_once(int version, _Unwind_Action actions, _Unwind_Exception_Class class,
                                        exception *thrown, context *at, void *unused)
{
    (void)version;
    (void)actions;
    (void)class;
    (void)thrown;
    (void)at;
    (void)unused;
    return _URC_END_OF_STACK;
}

/* libgcc finds out what its personality needs to know when it is first to unwind something, which a copy of it does not
 * ask of it: without that the personality would end the process. */
__attribute__((noinline, cold)) void sti_unwinder_load(void)
{
    exception nothing = { .exception_class = 0 };
    void *libgcc = dlopen(LIBGCC, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; i < COUNT && libgcc != NULL; i++)
        atomic_store_explicit(&found[i], dlsym(libgcc, names[i]), memory_order_release);
    void *others = dlsym(RTLD_DEFAULT, names[number_of__gcc_personality_v0]);
    atomic_store_explicit(&found_by_others, others, memory_order_relaxed);
    if (libgcc != NULL)
        _Unwind_ForcedUnwind(&nothing, stop_at_once, NULL);
}

bool sti_unwinder_is_loaded(void)
{
    return atomic_load_explicit(&found[number_of_Unwind_Backtrace], memory_order_relaxed) != NULL;
}

/* Not there: nothing is unwound, but by a copy that is part of the program. That must not pass our frames, which would
 * go without a word: so it is told that it cannot go on, and the program ends. */
static void *function_of(size_t number)
{
    void *function = atomic_load_explicit(&found[number], memory_order_acquire);
    if (__builtin_expect(function == NULL, 0)) {
        sti_unwinder_load();
        function = atomic_load_explicit(&found[number], memory_order_acquire);
    }
    return function;
}

/* What ThreadSanitizer adds to a function is undone as an unwind passes it, by calling _Unwind_Resume: this one
 * again. */
#if defined(__clang__)
#define UNINSTRUMENTED __attribute__((disable_sanitizer_instrumentation))
#else
#define UNINSTRUMENTED __attribute__((no_sanitize("thread")))
#endif

/* Under a name of its own here, since unwind.h lets others see those that it declares. */
#define DEFINE(name, result, parameters, arguments, missing)                                                           \
    __attribute__((visibility("hidden"))) UNINSTRUMENTED result defined##name parameters __asm__(#name);               \
    result defined##name parameters                                                                                    \
    {                                                                                                                  \
        result(*function) parameters;                                                                                  \
        *(void **)&function = function_of(number_of##name);                                                            \
        return function != NULL ? function arguments : (result)missing;                                                \
    }

FUNCTIONS(DEFINE)

bool sti_unwinder_is_of_c(uintptr_t personality)
{
    return personality == (uintptr_t)function_of(number_of__gcc_personality_v0) ||
           personality == (uintptr_t)atomic_load_explicit(&found_by_others, memory_order_relaxed) ||
           personality == (uintptr_t)defined__gcc_personality_v0;
}

#else

/* Beside musl it is a part of this library (libgcc_eh.a). */
extern _Unwind_Reason_Code __gcc_personality_v0(int version, _Unwind_Action actions, _Unwind_Exception_Class class,
                                                struct _Unwind_Exception *thrown, struct _Unwind_Context *at);

void sti_unwinder_load(void)
{
}

bool sti_unwinder_is_loaded(void)
{
    return true;
}

bool sti_unwinder_is_of_c(uintptr_t personality)
{
    return personality == (uintptr_t)__gcc_personality_v0;
}

#endif
