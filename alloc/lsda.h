/* SPDX-License-Identifier: MIT
 *
 * A frame's exception table (LSDA, of the Itanium C++ ABI): what would the frame do with an exception? Any thread. */
#ifndef STI_ALLOC_LSDA_H
#define STI_ALLOC_LSDA_H

#include <stdbool.h>

struct _Unwind_Context;

enum sti_lsda_answer {
    STI_LSDA_PASSES,  /* it goes on, after destructors maybe */
    STI_LSDA_CATCHES, /* a block catches std::bad_alloc, or anything */

    /* Where this frame stands now its compiler has counted on no exception, and its language would end the process. So
     * says gcc of a noexcept function, of a destructor, and of a call of what cannot throw, such as malloc. clang says it
     * of no frame: its noexcept functions catch everything and then call std::terminate. */
    STI_LSDA_ENDS,
};
enum sti_lsda_answer sti_lsda_answer(struct _Unwind_Context *context);

/* Whether a forced unwind may go on. */
static inline bool sti_lsda_lets_pass(struct _Unwind_Context *context)
{
    return sti_lsda_answer(context) != STI_LSDA_ENDS;
}

#endif
