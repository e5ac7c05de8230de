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

#endif
