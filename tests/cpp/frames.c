/* SPDX-License-Identifier: MIT
 *
 * A C function with a cleanup attribute, for unwind_stops.cpp. Compiled three times, with tables for
 * exceptions, without them, and without any for unwinding: NAME is what it is called. */
#include "frames.h"

static void note(const int *place)
{
    unwind_note(*place);
}

void NAME(void (*inner)(void))
{
    __attribute__((cleanup(note))) int place = 'c';
    inner();
    place++;
}
