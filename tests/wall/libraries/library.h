/* SPDX-License-Identifier: MIT
 *
 * The interface of a library's file to the program: one piece of real work, of 0.2 to 3 ms, at the places where the
 * library cannot be stopped in place: state made at first use, caches, locks of its own. Its answer is a checksum that
 * depends on the seed alone. The files know nothing of walls or interrupts.
 *
 * Each piece of work makes all that it needs of the library: the program decides whether that is the first use in its
 * process. */
#ifndef LIBRARIES_LIBRARY_H
#define LIBRARIES_LIBRARY_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LIBRARY_PATHS 4

struct library {
    const char *name;
    const char *reads[LIBRARY_PATHS]; /* files and folders, up to a NULL */
    /* 0, or what went wrong as an errno value: that may happen only where an allocation was refused. */
    int (*work)(uint32_t seed, uint64_t *sum);
};

extern const struct library library_cairo, library_fftw, library_glib, library_icu, library_libgit2, library_mpfr,
    library_openssl, library_protobuf, library_python, library_rsvg, library_tcl,
    library_one; /* of tests/chaos/libraries */

/* FNV-1a */
#define SUM_BEGIN UINT64_C(0xcbf29ce484222325)

static inline void sum_bytes(uint64_t *sum, const void *bytes, size_t size)
{
    const unsigned char *byte = (const unsigned char *)bytes;
    for (size_t i = 0; i < size; i++)
        *sum = (*sum ^ byte[i]) * UINT64_C(0x100000001b3);
}

static inline void sum_text(uint64_t *sum, const char *text)
{
    sum_bytes(sum, text, strlen(text) + 1);
}

static inline void sum_number(uint64_t *sum, uint64_t number)
{
    sum_bytes(sum, &number, sizeof number);
}

/* splitmix64 */
static inline uint64_t random_of(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

#ifdef __cplusplus
}
#endif

#endif
