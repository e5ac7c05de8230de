/* SPDX-License-Identifier: MIT
 *
 * The options that set a budget. Main thread. */
#ifndef COMMON_BUDGET_OPTIONS_H
#define COMMON_BUDGET_OPTIONS_H

#include "arguments.h"

#include <stint/task.h>

enum { BUDGET_OPTION_ALLOCATION = 768, BUDGET_OPTION_MEMORY, BUDGET_OPTION_TIMEOUT };

/* For getopt_long's table. */
#define BUDGET_OPTIONS                                                                                                 \
    { "allocation", required_argument, NULL, BUDGET_OPTION_ALLOCATION },                                               \
        { "memory", required_argument, NULL, BUDGET_OPTION_MEMORY },                                                   \
    {                                                                                                                  \
        "timeout", required_argument, NULL, BUDGET_OPTION_TIMEOUT                                                      \
    }

/* What a document may take unless it is said, and the help, with the spaces before the column of what options do. */
#define BUDGET_OF_DOCUMENT                                                                                             \
    {                                                                                                                  \
        .allocation = (size_t)4 << 30, .memory = (size_t)256 << 20, .wall_ns = UINT64_C(10000000000)                   \
    }
#define BUDGET_OF_DOCUMENT_HELP(gap, document)                                                                         \
    "      --allocation SIZE " gap "bytes a " document " may allocate in all; default 4G\n"                            \
    "      --memory SIZE     " gap "bytes a " document " may hold at once; default 256M\n"                             \
    "      --timeout DURATION" gap "time a " document " may take; default 10s\n"

/* One of them, with getopt's argument. False: a line on standard error has said what is wrong. */
bool budget_options_read(int option, stint_budget *budget);

/* Bytes of memory that the kernel is to allow a walled process whose task has this budget (stint_wall_options.memory):
 * enough for the budget's limit, which is exact, to come first. */
size_t budget_backstop(const stint_budget *budget);

#endif
