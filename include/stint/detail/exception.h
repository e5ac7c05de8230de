/* SPDX-License-Identifier: MIT
 *
 * How stint.hpp tells of an exception that a task's function has thrown. Nothing here is called by a user. */
#ifndef STINT_DETAIL_EXCEPTION_H
#define STINT_DETAIL_EXCEPTION_H

#include <stint/detail/api.h>

STINT_BEGIN_DECLS

/* To be returned by the function of the innermost scope: it has failed with this error, which is not 0, and
 * STINT_REASON_EXCEPTION, unless another reason came first; what goes into its outcome's message. Returns error. */
STINT_API int stint_fail_thrown_(int error, const char *what);

STINT_END_DECLS

#endif
