/* SPDX-License-Identifier: MIT
 *
 * Ctrl-C: the first cancels what is left. What runs has some time to stop in, then the program reports and ends without
 * it; so another Ctrl-C changes nothing at first. One that comes later, as the report may wait for its reader, ends the
 * program at once. Main thread, but for the handler. */
#ifndef BATCH_INTERRUPT_H
#define BATCH_INTERRUPT_H

#include <stdbool.h>
#include <stint/token.h>
#include <sys/types.h>

/* Before anything else in main. A program that does not call it is never interrupted by what is here. */
void interrupt_catch(void);

bool interrupt_came(void);

/* It came so long ago that what has not stopped by now will not. */
bool interrupt_is_over(void);

/* From now on Ctrl-C sets the token, and if it came before, it is set now. */
void interrupt_sets(stint_token *token);

/* As read; once Ctrl-C came, it is the end of the file. */
ssize_t interrupt_read(int file, void *to, size_t size);

#endif
