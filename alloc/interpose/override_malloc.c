/* SPDX-License-Identifier: MIT
 *
 * Overrides of malloc and of operator new, with their like. Any thread. */
#include <stint/detail/api.h>
#include <stint/memory.h>
#include <unistd.h>

#include "alloc/heap/free.h"
#include "alloc/interrupt/boundary.h"
#include "alloc/interrupt/cxx.h"
#include "alloc/interrupt/interrupt.h"
#include "alloc/interrupt/unwind.h"
#include "alloc/meter/allocate.h"
#include "alloc/platform/caller.h"

/* --- malloc and its family, in place of libc's, for the program and every library in it. Any thread. --- */

/* A line of the cache holds the whole of their common paths, wherever else the linker would have put them: that is
 * worth as much as the metering costs. */
#define AT_A_CACHE_LINE __attribute__((aligned(64)))

STINT_API AT_A_CACHE_LINE void *malloc(size_t size);
STINT_API void *calloc(size_t count, size_t size);
STINT_API void *realloc(void *block, size_t size);
STINT_API void *reallocarray(void *block, size_t count, size_t size);
STINT_API int posix_memalign(void **block, size_t alignment, size_t size);
STINT_API void *aligned_alloc(size_t alignment, size_t size);
STINT_API void *memalign(size_t alignment, size_t size);
STINT_API void *valloc(size_t size);
STINT_API void *pvalloc(size_t size);
STINT_API AT_A_CACHE_LINE void free(void *block);
STINT_API size_t malloc_usable_size(void *block);
STINT_API int malloc_trim(size_t pad);

void *malloc(size_t size)
{
    struct sti_thread *thread = sti_thread_counted;
    /* The longer way goes straight on, so that it is no longer by a jump. */
    return STI_UNLIKELY(thread == NULL) ? sti_backend_malloc(size) : sti_allocate_in_scope(thread, size, STI_CALLER());
}

void *calloc(size_t count, size_t size)
{
    return sti_allocate_zeroed(count, size, STI_CALLER());
}

void *realloc(void *block, size_t size)
{
    return sti_reallocate(block, size, STI_CALLER());
}

void *reallocarray(void *block, size_t count, size_t size)
{
    return sti_reallocate_array(block, count, size, STI_CALLER());
}

int posix_memalign(void **block, size_t alignment, size_t size)
{
    return sti_allocate_posix(block, alignment, size, STI_CALLER());
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return sti_allocate_memalign(alignment, size, STI_CALLER());
}

void *memalign(size_t alignment, size_t size)
{
    return sti_allocate_memalign(alignment, size, STI_CALLER());
}

void *valloc(size_t size)
{
    return sti_allocate_aligned((size_t)sysconf(_SC_PAGESIZE), size, STI_CALLER());
}

/* Whole pages, at least one. */
void *pvalloc(size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t rounded;
    if (__builtin_add_overflow(size == 0 ? 1 : size, page - 1, &rounded))
        return sti_allocate_failed();
    return sti_allocate_aligned(page, rounded & ~(page - 1), STI_CALLER());
}

void free(void *block)
{
    sti_free(block);
}

int malloc_trim(size_t pad)
{
    return stint_malloc_trim(pad);
}

size_t malloc_usable_size(void *block)
{
    return sti_allocate_usable_size(block);
}

/* --- C++'s operator new and delete in all their forms, by their mangled names, so that the library needs no C++
 * runtime. Any thread. A throwing form calls the new-handler until the allocation succeeds, as the standard says, but
 * not when it was an interrupt that refused it: no handler can help there. The two functions of the C++ runtime that
 * they need are weak, and looked for where the program is not linked with it but a module that it loads. */

typedef void new_handler(void);

extern new_handler *get_new_handler(void) __asm__("_ZSt15get_new_handlerv") __attribute__((weak));
extern void throw_bad_alloc(void) __asm__("_ZSt17__throw_bad_allocv") __attribute__((weak));

static new_handler *current_handler(const void *caller)
{
    new_handler *(*get)(void) = get_new_handler;
    if (get == NULL)
        *(void **)&get = sti_cxx_function("_ZSt15get_new_handlerv", caller);
    return get != NULL ? get() : NULL;
}

static void throw_if_possible(const void *caller)
{
    void (*throw)(void) = throw_bad_alloc;
    if (throw == NULL)
        *(void **)&throw = sti_cxx_function("_ZSt17__throw_bad_allocv", caller);
    if (throw != NULL)
        throw();
}

/* It may take as long as it likes, and nothing is half done here. */
STI_CALLING_CODE static void call_handler(new_handler *handler)
{
    handler();
    __asm__ volatile("" ::: "memory"); /* it returns here: this frame says that it may be left */
}

/* Another try after the handler, or the exception, or NULL. alignment is 0 where it is the usual one. */
static __attribute__((noinline)) void *allocation_retry(size_t size, size_t alignment, bool throws, const void *caller)
{
    for (;;) {
        const struct sti_thread *thread = sti_thread_metered;
        bool refused = thread != NULL && sti_interrupt_is_tripped(thread->scope);
        new_handler *handler = refused ? NULL : current_handler(caller);
        if (handler == NULL && refused && throws)
            sti_unwind_note_throw(thread->scope);
        if (handler == NULL) {
            if (throws)
                throw_if_possible(caller);
            return NULL;
        }
        call_handler(handler);
        void *block = sti_allocate_aligned(alignment, size, caller);
        if (block != NULL)
            return block;
    }
}

/* A compiler counts on an exception from a form that throws; not from the others. */
static __attribute__((noinline)) void *new_uncommon(struct sti_thread *thread, size_t size, size_t alignment,
                                                    bool throws, const void *caller)
{
    thread->may_throw = throws;
    void *block = alignment > 16 ? sti_allocate_aligned_uncommon(thread, alignment, size, caller)
                                 : sti_allocate_uncommon(thread, alignment > size ? alignment : size, caller);
    thread->may_throw = false;
    return block;
}

STI_INLINE void *new_block(size_t size, size_t alignment, bool throws, const void *caller)
{
    struct sti_thread *thread = sti_thread_counted;
    void *block;
    if (STI_LIKELY(thread == NULL))
        block = sti_allocate_aligned(alignment, size, caller);
    else if (alignment == 0 && STI_LIKELY(sti_caller_is_clearly_not_system(caller)) &&
             STI_LIKELY(sti_meter_charge_small(thread, size)))
        block = sti_backend_theap_malloc_small(thread->allocating, size);
    else
        block = new_uncommon(thread, size, alignment, throws, caller);
    return STI_LIKELY(block != NULL) ? block : allocation_retry(size, alignment, throws, caller);
}

#define NEW_FORM(name, mangled, parameters, alignment, throws)                                                         \
    STINT_API void *name parameters __asm__(mangled);                                                                  \
    void *name parameters                                                                                              \
    {                                                                                                                  \
        return new_block(size, alignment, throws, STI_CALLER());                                                       \
    }

NEW_FORM(new_one, "_Znwm", (size_t size), 0, true)
NEW_FORM(new_array, "_Znam", (size_t size), 0, true)
NEW_FORM(new_one_nothrow, "_ZnwmRKSt9nothrow_t", (size_t size, __attribute__((unused)) const void *tag), 0, false)
NEW_FORM(new_array_nothrow, "_ZnamRKSt9nothrow_t", (size_t size, __attribute__((unused)) const void *tag), 0, false)
NEW_FORM(new_one_aligned, "_ZnwmSt11align_val_t", (size_t size, size_t alignment), alignment, true)
NEW_FORM(new_array_aligned, "_ZnamSt11align_val_t", (size_t size, size_t alignment), alignment, true)
NEW_FORM(new_one_aligned_nothrow, "_ZnwmSt11align_val_tRKSt9nothrow_t",
         (size_t size, size_t alignment, __attribute__((unused)) const void *tag), alignment, false)
NEW_FORM(new_array_aligned_nothrow, "_ZnamSt11align_val_tRKSt9nothrow_t",
         (size_t size, size_t alignment, __attribute__((unused)) const void *tag), alignment, false)

#define DELETE_FORM(name, mangled, ...)                                                                                \
    STINT_API void name(void *block, ##__VA_ARGS__) __asm__(mangled);                                                  \
    void name(void *block, ##__VA_ARGS__)                                                                              \
    {                                                                                                                  \
        sti_free(block);                                                                                               \
    }
#define UNUSED(type, name) __attribute__((unused)) type name

DELETE_FORM(delete_one, "_ZdlPv")
DELETE_FORM(delete_array, "_ZdaPv")
DELETE_FORM(delete_one_sized, "_ZdlPvm", UNUSED(size_t, size))
DELETE_FORM(delete_array_sized, "_ZdaPvm", UNUSED(size_t, size))
DELETE_FORM(delete_one_nothrow, "_ZdlPvRKSt9nothrow_t", UNUSED(const void *, tag))
DELETE_FORM(delete_array_nothrow, "_ZdaPvRKSt9nothrow_t", UNUSED(const void *, tag))
DELETE_FORM(delete_one_aligned, "_ZdlPvSt11align_val_t", UNUSED(size_t, alignment))
DELETE_FORM(delete_array_aligned, "_ZdaPvSt11align_val_t", UNUSED(size_t, alignment))
DELETE_FORM(delete_one_sized_aligned, "_ZdlPvmSt11align_val_t", UNUSED(size_t, size), UNUSED(size_t, alignment))
DELETE_FORM(delete_array_sized_aligned, "_ZdaPvmSt11align_val_t", UNUSED(size_t, size), UNUSED(size_t, alignment))
DELETE_FORM(delete_one_aligned_nothrow, "_ZdlPvSt11align_val_tRKSt9nothrow_t", UNUSED(size_t, alignment),
            UNUSED(const void *, tag))
DELETE_FORM(delete_array_aligned_nothrow, "_ZdaPvSt11align_val_tRKSt9nothrow_t", UNUSED(size_t, alignment),
            UNUSED(const void *, tag))
