/* SPDX-License-Identifier: MIT
 *
 * What happens when the library is loaded: one list, for the whole library, and its only constructor. One thread, but
 * for those of programs that load the library by dlopen while others run.
 *
 * Constructors of other modules may have run before, and called what this library overrides; so each override finds
 * what it needs at its first call, if that comes earlier (module.h), and a scope may even have been run. The list only
 * has what must not wait for a first call, or costs less here. To add something: a line, and why it stands where it
 * does, where that matters. What can be made at its first use is not among these: each process pays for them. */
#include "alloc/heap/checked.h"
#include "alloc/heap/heap.h"
#include "alloc/interpose/override_mapping.h"
#include "alloc/interrupt/cxx.h"
#include "alloc/interrupt/hold.h"
#include "alloc/interrupt/safe.h"
#include "alloc/interrupt/watch.h"
#include "alloc/meter/allocate.h"
#include "alloc/observe/profile.h"
#include "alloc/observe/trace.h"
#include "alloc/platform/assumption.h"
#include "alloc/platform/caller.h"
#include "alloc/platform/permanent.h"
#include "alloc/scope/share.h"
#include "forks.h"

__attribute__((constructor(101))) static void library_start(void)
{
    sti_debug_ask_environment(); /* before the first block is made: in debug mode some are made otherwise */

    /* mimalloc's options before this library has it make a block; its key for thread-specific values, and right behind
     * that ours (heap.c), before any other. */
    sti_heap_start();
    sti_allocate_start();

    sti_assumptions_start(); /* of libc's insides, before anything is built on them */

    /* Modules: what is loaded, and whose functions the program calls. */
    sti_caller_start();
    sti_permanent_start();
    sti_verdict_ask_environment();
    sti_checked_start();
#if STI_OVERRIDES
    sti_override_mapping_start();
#endif

    sti_watch_start();
    sti_share_start(); /* its key is to be among the last that a thread's end comes to: behind those of others */

    sti_cxx_look(); /* runs code of the C++ runtime, which may allocate */

    sti_forks_start();

    /* Last: these begin a profile and a trace, with a thread that needs all of the above. */
    sti_profile_ask_environment();
    sti_trace_ask_environment();
}
