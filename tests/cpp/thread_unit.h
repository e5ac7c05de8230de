/* SPDX-License-Identifier: MIT
 *
 * Functions that use thread_local variables for the first time, the same from several compilations of
 * thread_unit.cpp. */
#ifndef TESTS_CPP_THREAD_UNIT_H
#define TESTS_CPP_THREAD_UNIT_H

/* Each returns what the variable's constructor has put there, 42 or 0, and then calls checkpoints without end if asked
 * to. */
typedef int first_use(bool goes_on);
struct first_uses {
    const char *unit;
    first_use *alone;   /* of the only variable that this part of the program has */
    first_use *pointer; /* which needs no destructor */
    first_use *one_of_many;
    first_use *exported;
    first_use *flag; /* what C code does by hand */
};

#endif
