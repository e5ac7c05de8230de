/* SPDX-License-Identifier: MIT
 *
 * How much of this process is in memory. Any thread; allocates nothing, and takes no lock that is held over a fork.
 *
 * The kernel's answer is in a file, and a file takes a descriptor: which a process may have run out of just when it
 * holds too much of everything. So one is kept, from the first time on. The program may close it with all others, or
 * put another file in its place; so each time it is asked whether it is still the same file, and if not another one is
 * opened. In the child of a fork it would tell of the parent, and is replaced at once. */
#ifndef STI_ALLOC_RESIDENT_H
#define STI_ALLOC_RESIDENT_H

#include <stdbool.h>
#include <stddef.h>

/* Open what is kept, if it is not. 0 or an errno value, of open or of a kernel that does not tell. */
int sti_resident_begin(void);

/* Bytes. Where no descriptor can be had, the most that it has ever been (getrusage): never too little. */
size_t sti_resident(void);

/* Is it the descriptor that is kept? */
bool sti_resident_keeps(int descriptor);

#endif
