/* SPDX-License-Identifier: MIT
 *
 * What every public header needs: the export mark and the C++ brackets. Nothing here is called by a user. */
#ifndef STINT_API_H
#define STINT_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STINT_API __attribute__((visibility("default")))

#ifdef __cplusplus
#define STINT_BEGIN_DECLS extern "C" {
#define STINT_END_DECLS }
#else
#define STINT_BEGIN_DECLS
#define STINT_END_DECLS
#endif

/* What a struct that can grow begins as (stint.h), for its macro: its size and nothing else; in C++ its first fields
 * may follow. Of internal linkage: parts of a program that were compiled with different versions each have their
 * own. */
#ifdef __cplusplus
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
extern "C++" {
template <class T, class... Fields> static constexpr T stint_sized_(Fields... fields)
{
    return T{ sizeof(T), fields... };
}
}
#pragma GCC diagnostic pop
#define STINT_SIZED_INIT_(type) stint_sized_<type>()
#else
/* clang-format off */
#define STINT_SIZED_INIT_(type) { .size = sizeof(type) }
/* clang-format on */
#endif

#endif
