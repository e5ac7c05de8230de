/* SPDX-License-Identifier: MIT
 *
 * A library with a constructor that calls the test's hook, under dlopen. */
#include "library.h"

__attribute__((constructor)) static void construct(void)
{
    masking_hook();
}
