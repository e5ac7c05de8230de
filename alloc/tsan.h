/* SPDX-License-Identifier: MIT
 *
 * What ThreadSanitizer cannot see for itself: that a block's old life ends before its new one begins, because the
 * allocator that hands it on is not instrumented. Nothing in other builds. */
#ifndef STI_ALLOC_TSAN_H
#define STI_ALLOC_TSAN_H

#if defined(__SANITIZE_THREAD__)
#define STI_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define STI_TSAN 1
#endif
#endif

#ifdef STI_TSAN
#include <sanitizer/tsan_interface.h>
#include <stdint.h>
/* By the allocator's page, which may come to hold blocks of another size. */
#define STI_BLOCK_PAGE(block) ((void *)((uintptr_t)(block) & ~UINT64_C(0xffff)))
#define STI_BLOCK_MADE(block) __tsan_acquire(STI_BLOCK_PAGE(block))
#define STI_BLOCK_GIVEN_BACK(block) __tsan_release(STI_BLOCK_PAGE(block))
#else
#define STI_BLOCK_MADE(block) ((void)(block))
#define STI_BLOCK_GIVEN_BACK(block) ((void)(block))
#endif

#endif
