/* SPDX-License-Identifier: MIT
 *
 * What tools are told that watch a process: tracers by probes, and sanitizers by their interfaces. Any thread. */
#ifndef STI_ALLOC_PLATFORM_INSTRUMENTATION_H
#define STI_ALLOC_PLATFORM_INSTRUMENTATION_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* --- Probes: places that a tracer outside (bpftrace, perf, SystemTap, gdb) can stop at, by <sys/sdt.h>. One that
 * nobody looks at is a nop; where the header is missing, or with -Dprobes=disabled, nothing at all. Their arguments are
 * told in a note of the library's file, and are the registers or words that have the values anyway: pass no expression
 * that is computed for it. docs/tracing.md lists them. Any thread. */

#if STI_PROBES
#include <sys/sdt.h>

#define STI_PROBE1(name, a) DTRACE_PROBE1(stint, name, a)
#define STI_PROBE2(name, a, b) DTRACE_PROBE2(stint, name, a, b)
#define STI_PROBE3(name, a, b, c) DTRACE_PROBE3(stint, name, a, b, c)
#else
#define STI_PROBE1(name, a) ((void)sizeof(a))
#define STI_PROBE2(name, a, b) ((void)(sizeof(a) + sizeof(b)))
#define STI_PROBE3(name, a, b, c) ((void)(sizeof(a) + sizeof(b) + sizeof(c)))
#endif

/* --- What ThreadSanitizer cannot see for itself: that a block's old life ends before its new one begins, because the
 * allocator that hands its memory on is not instrumented. Nothing in other builds. Only for backend.h; any thread. */

#if defined(__SANITIZE_THREAD__)
#define STI_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define STI_TSAN 1
#endif
#endif

/* ThreadSanitizer has a thread of its own, which nobody meets. */
#ifdef STI_TSAN
#define STI_TOOL_THREADS 1
#else
#define STI_TOOL_THREADS 0
#endif

#if defined(__SANITIZE_ADDRESS__)
#define STI_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define STI_ASAN 1
#endif
#endif

/* A sanitizer that has to see which memory is mapped anew. */
#if defined(STI_TSAN) || defined(STI_ASAN)
#define STI_SANITIZED 1
#endif

/* AddressSanitizer does not see the end of a thread (pthread_exit) take frames: their marks stay on the stack. In the
 * function whose callees have gone. */
#ifdef STI_ASAN
#include <sanitizer/asan_interface.h>

#define STI_ASAN_FRAMES ((size_t)64 << 10)
#define STI_FRAMES_HAVE_GONE()                                                                                         \
    __asan_unpoison_memory_region((char *)__builtin_frame_address(0) - STI_ASAN_FRAMES, STI_ASAN_FRAMES)
#else
#define STI_FRAMES_HAVE_GONE() ((void)0)
#endif

#ifdef STI_TSAN
#include <sanitizer/tsan_interface.h>

/* The smallest page of mimalloc's: what was one page with blocks of one size may become several, with blocks of others,
 * so each block speaks for all that it touches. */
#define STI_TSAN_PAGE ((uintptr_t)64 << 10)

typedef void sti_tsan_fn(void *address);

static inline void sti_tsan_each_page(const void *block, size_t size, sti_tsan_fn *call)
{
    uintptr_t begin = (uintptr_t)block & ~(STI_TSAN_PAGE - 1);
    for (uintptr_t page = begin; page < (uintptr_t)block + size; page += STI_TSAN_PAGE)
        call((void *)page);
}

static inline void sti_tsan_made(const void *block, size_t size)
{
    sti_tsan_each_page(block, size, __tsan_acquire);
}

static inline void sti_tsan_given_back(const void *block, size_t size)
{
    sti_tsan_each_page(block, size, __tsan_release);
}
#endif

/* A function that reads what may be anybody's: no sanitizer is to look at it. */
#if defined(__clang__)
#define STI_UNINSTRUMENTED __attribute__((disable_sanitizer_instrumentation))
#else
#define STI_UNINSTRUMENTED __attribute__((no_sanitize("thread", "address", "undefined")))
#endif

/* A full fence. ThreadSanitizer knows none, and needs none, as all that it orders is atomic: it sees a change of a word
 * of this source file in its place. Any thread. */
#ifdef STI_TSAN
static inline void sti_fence(void)
{
    static _Atomic unsigned turn;
    atomic_fetch_add_explicit(&turn, 1, memory_order_seq_cst);
}
#else
static inline void sti_fence(void)
{
    atomic_thread_fence(memory_order_seq_cst);
}
#endif

#endif
