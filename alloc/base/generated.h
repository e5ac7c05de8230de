/* SPDX-License-Identifier: MIT
 *
 * Code that no module has: what a just-in-time compiler has made. Any thread. */
#ifndef STI_ALLOC_BASE_GENERATED_H
#define STI_ALLOC_BASE_GENERATED_H

#include <stdbool.h>
#include <stdint.h>

/* LuaJIT registers a call frame table for its code that has a personality and no instruction: an exception that comes
 * to such a frame is caught there, and nobody can go on from it to its caller. libgcc ends the process that tries. So
 * each walk of ours asks before it does, in the function that libgcc calls for the frame.
 *
 * False: nobody can. True: it is in a module; or of generated code that says how; or that has no table at all, where
 * libgcc stops by itself. */
bool sti_generated_leads_on(uintptr_t instruction);

/* libgcc sorts a table that was registered when it is first asked for something that it might have. It would do that in
 * some task later, in memory of that task: so have it done now. */
void sti_generated_sort(void);

#endif
