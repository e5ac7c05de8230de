/* SPDX-License-Identifier: MIT
 *
 * stint_run, for those who do more with what comes of it. Any thread. */
#ifndef STI_ALLOC_SCOPE_RUN_H
#define STI_ALLOC_SCOPE_RUN_H

#include <stint/task.h>

/* With valid arguments and options that have been taken (scope.h), and without the sample point at its end. */
int sti_run_taken(stint_fn *fn, void *arg, const stint_options *options, stint_outcome *outcome);

#endif
