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
     * says gcc of a noexcept function, of a destructor, and of a call of what cannot throw, such as malloc. clang's noexcept
     * functions and destructors catch everything and then call std::terminate: those that do so before anything else
     * (landing_pad.h) are meant as well. */
    STI_LSDA_ENDS,
};
/* Of a std::bad_alloc that is thrown. */
enum sti_lsda_answer sti_lsda_answer(struct _Unwind_Context *context);

/* Whether a forced unwind may go on: it passes by the blocks that catch a type. */
bool sti_lsda_lets_pass(struct _Unwind_Context *context);

#endif
