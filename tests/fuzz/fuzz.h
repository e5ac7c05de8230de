/* SPDX-License-Identifier: MIT
 *
 * For fuzzers: what each defines, and how it reads its input. A fuzzer is one function of bytes. libFuzzer calls it in
 * a build with -Dfuzzers=enabled; replay.c calls it in every other build, with the inputs that are kept. */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Called once, before the first input, where a fuzzer has one. */
int LLVMFuzzerInitialize(int *argc, char ***argv);

/* The process ends where a promise is broken, and libFuzzer keeps the input. */
#define fuzz_require(condition)                                                                                        \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: this does not hold: %s\n", __FILE__, __LINE__, #condition);                        \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

#define fuzz_never(what)                                                                                               \
    do {                                                                                                               \
        fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, what);                                                      \
        abort();                                                                                                       \
    } while (0)

struct fuzz_bytes {
    const uint8_t *at;
    size_t left;
};

/* 0 where there is none left. */
static inline uint8_t fuzz_byte(struct fuzz_bytes *bytes)
{
    if (bytes->left == 0)
        return 0;
    bytes->left--;
    return *bytes->at++;
}

static inline unsigned fuzz_below(struct fuzz_bytes *bytes, unsigned bound)
{
    return fuzz_byte(bytes) % bound;
}

/* As many as are left, at most size; the others are zeros. */
static inline void fuzz_fill(struct fuzz_bytes *bytes, void *to, size_t size)
{
    size_t count = bytes->left < size ? bytes->left : size;
    memset(to, 0, size);
    memcpy(to, bytes->at, count);
    bytes->at += count;
    bytes->left -= count;
}

static inline uint64_t fuzz_number(struct fuzz_bytes *bytes)
{
    uint64_t number;
    fuzz_fill(bytes, &number, sizeof number);
    return number;
}

/* A copy with a zero byte behind it, for functions that take strings; to be freed. */
static inline char *fuzz_text(const void *bytes, size_t size)
{
    char *text = malloc(size + 1);
    fuzz_require(text != NULL);
    memcpy(text, bytes, size);
    text[size] = '\0';
    return text;
}

#endif
