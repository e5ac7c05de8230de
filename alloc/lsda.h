/* SPDX-License-Identifier: MIT
 *
 * A frame's exception table (LSDA, of the Itanium C++ ABI): does the frame let an exception through? Any thread. */
#ifndef STI_ALLOC_LSDA_H
#define STI_ALLOC_LSDA_H

#include <stdbool.h>

struct _Unwind_Context;

/* False: where this frame stands now its compiler has counted on no exception, and its language would end the process. So
 * says gcc of a noexcept function, of a destructor, and of a call of what cannot throw, such as malloc. clang says it of
 * no frame: its noexcept functions catch everything and then call std::terminate. */
bool sti_lsda_lets_pass(struct _Unwind_Context *context);

#endif
