/* SPDX-License-Identifier: MIT
 *
 * What a frame's landing pad does first, read from its instructions. Any thread.
 *
 * An exception's table does not say everything about a noexcept function, or a destructor. clang writes one with a
 * block that catches all and then calls std::terminate, which looks like a catch (...) of the program's; gcc, where
 * there are other blocks in the function, with a landing pad that calls it when none of these fits, which looks like
 * destructors. And clang from version 17 or so on, gcc always, leaves out the destructors of the function's own
 * variables before that: an exception that gets there leaves every lock of the frame locked, and the process ends at
 * once. */
#ifndef STI_ALLOC_INTERRUPT_LANDING_PAD_H
#define STI_ALLOC_INTERRUPT_LANDING_PAD_H

#include <stdbool.h>
#include <stdint.h>

/* Would it end the process, after destructors maybe, with the exception to which the personality gives this number?
 * False also where it cannot be told. */
bool sti_landing_pad_ends(uintptr_t landing_pad, int64_t selector);

#endif
