/* SPDX-License-Identifier: MIT
 *
 * What a C++ exception says, without the runtime that it was thrown by. Any thread, on which it is caught. */
#ifndef STI_ALLOC_EXCEPTION_H
#define STI_ALLOC_EXCEPTION_H

#include <stddef.h>

struct _Unwind_Exception;

/* Write what() of a std::exception into text, or else the type's name; cut to the size. text may be NULL. The application's
 * what() runs. Returns the error that it stands for: ENOMEM for std::bad_alloc, otherwise -1. */
int sti_exception_describe(const struct _Unwind_Exception *exception, char *text, size_t size);

#endif
