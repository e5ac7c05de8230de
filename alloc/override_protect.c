/* SPDX-License-Identifier: MIT
 *
 * Overrides of what forbids pages to be read: a page of a module's data that is must not be scanned for roots. In every
 * build, as it replaces no allocation. Any thread; nothing but a system call, as the first may come before any constructor
 * of ours. */
#include <stint/api.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "caller.h"
#include "module_symbol.h"
#include "readable.h"

STINT_API int mprotect(void *address, size_t length, int protection);
STINT_API int pkey_mprotect(void *address, size_t length, int protection, int key);

static void note(const void *address, int protection)
{
    if ((protection & PROT_READ) == 0 && sti_module_of(address) != NULL)
        sti_readable_no_more();
}

/* A sanitizer's runtime calls it before it is ready itself. */
STI_CALLER_UNINSTRUMENTED int mprotect(void *address, size_t length, int protection)
{
    note(address, protection);
    return (int)syscall(SYS_mprotect, address, length, protection);
}

int pkey_mprotect(void *address, size_t length, int protection, int key)
{
    note(address, protection);
    return (int)syscall(SYS_pkey_mprotect, address, length, protection, key);
}
