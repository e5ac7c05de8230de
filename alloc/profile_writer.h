/* SPDX-License-Identifier: MIT
 *
 * What writes profiles, in a module of its own (stint-profile-VERSION.so): so a program loads libdw, libelf, protobuf-c
 * and zlib only when it first writes one. The module calls nothing of this library's but what it is handed. A program
 * that links the inner parts has it linked in. */
#ifndef STI_ALLOC_PROFILE_WRITER_H
#define STI_ALLOC_PROFILE_WRITER_H

#include "profile_snapshot.h"

/* 0, or what went wrong. One thread at a time, with sampling and charging off. */
struct sti_profile_writer {
    int (*write)(const struct sti_profile_snapshot *snapshot, int fd, stint_profile_kind kind);
};

/* In the module, which is found by this name. */
extern const struct sti_profile_writer sti_profile_writer;
#define STI_PROFILE_WRITER "sti_profile_writer"

#endif
