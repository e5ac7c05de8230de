/* SPDX-License-Identifier: MIT
 *
 * A program that is linked with stint, or with a library that is. */
#include "probe.h"

int main(int count, char **arguments)
{
    return count == 2 ? probe(arguments[1]) : 2;
}
