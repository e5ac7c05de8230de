/* SPDX-License-Identifier: MIT
 *
 * libc's own longjmp, whatever this library overrides: a jump to a landing of ours has seen to what it passes. Any thread. */
#ifndef STI_ALLOC_PLAIN_JUMP_H
#define STI_ALLOC_PLAIN_JUMP_H

#include <setjmp.h>

#if STI_OVERRIDES
_Noreturn void sti_plain_longjmp(struct __jmp_buf_tag *landing, int value);
#else
#define sti_plain_longjmp longjmp
#endif

#endif
