/* SPDX-License-Identifier: MIT
 *
 * What every program of these tests asks, however it is linked. */
#ifndef TESTS_LINKING_PROBE_H
#define TESTS_LINKING_PROBE_H

/* wanted is "ours", where everything has to be the library's; or "function:module", the first that is another's and a
 * part of its module's name, "." for the program itself. 0 when all is so; otherwise what was not is printed. */
int probe(const char *wanted);

#endif
