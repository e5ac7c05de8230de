/* SPDX-License-Identifier: MIT
 *
 * Shared by the programs of these tests, however they are linked. */
#ifndef TESTS_LINKING_PROBE_H
#define TESTS_LINKING_PROBE_H

/* wanted is "ours" if every function must be the library's; or "function:module": the first function that is
 * another's, and a part of its module's name, "." for the program itself. 0 if all of this is true; otherwise it
 * prints what was not. */
int probe(const char *wanted);

#endif
