/* SPDX-License-Identifier: MIT
 *
 * How a wall says in a sentence why it refuses something. Any thread or process. */
#ifndef STI_EXECUTOR_WALL_REFUSE_H
#define STI_EXECUTOR_WALL_REFUSE_H

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

/* Write the sentence, cut to size, to the message, which may be NULL. Returns the error. */
__attribute__((format(printf, 4, 5))) static inline int sti_refuse(int error, char *message, size_t size,
                                                                   const char *format, ...)
{
    if (message != NULL && size > 0) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(message, size, format, arguments);
        va_end(arguments);
    }
    return error;
}

#endif
