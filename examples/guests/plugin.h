/* SPDX-License-Identifier: MIT
 *
 * What a plugin of examples/plugins.c is: a shared module with this function. It knows nothing of stint, and the host
 * does not trust it with anything. */
#ifndef PLUGIN_H
#define PLUGIN_H

#include <stddef.h>

/* Say something about the text: a string of at most room bytes with its zero. 0, or an errno value. */
int plugin_run(const char *text, size_t size, char *answer, size_t room);

#endif
