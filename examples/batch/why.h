/* SPDX-License-Identifier: MIT
 *
 * Why a task was stopped: stint's report of it, as one line and as a file. Main thread only. */
#ifndef BATCH_WHY_H
#define BATCH_WHY_H

#include <stddef.h>
#include <stint/observe.h>

/* What it held and where it was; NULL: it cannot be said. To be freed. */
char *why_line(const stint_report *why);

/* Write the whole of it to the folder, which must be there: number-name.txt, with the name of the file at the path. 0,
 * or an errno value. */
int why_save(const stint_report *why, const char *folder, size_t number, const char *path);

#endif
