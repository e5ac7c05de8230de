/* SPDX-License-Identifier: MIT
 *
 * What addresses of code are called: module, function, file, line. The only room that knows libdw. One thread a table.
 *
 * Only what is on this machine is read: no debuginfo server is asked. */
#ifndef STI_ALLOC_OBSERVE_SYMBOLS_H
#define STI_ALLOC_OBSERVE_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile_write.h"

#define STI_BUILD_ID_MAX 64 /* bytes */

struct sti_module {
    uintptr_t begin; /* of all of it in memory */
    uintptr_t start; /* of its code */
    uintptr_t limit;
    uint64_t file_offset;
    const char *path;
    bool functions_known; /* of all frames that have been looked up in it */
    bool lines_known;
    char build_id[2 * STI_BUILD_ID_MAX + 1]; /* in hexadecimal; empty: it has none */
};

struct sti_frame {
    uintptr_t address;
    uint64_t id;               /* from 1 on, in the order in which they were looked up first; 0: no memory */
    struct sti_module *module; /* NULL: none */
    char *function;            /* demangled if it is C++ and the process can do that; NULL: not known */
    const char *file;          /* NULL: not known */
    int line;
};

struct sti_symbols {
    struct sti_module *modules;
    size_t module_count;
    size_t unread; /* from this one on nothing is known of them but their files */
    void *frames;  /* a tree, by address */
    uint64_t frame_count;
    int error;
    void *dwfl;
    void *dwfl_of_others; /* NULL: there are none, or none may be read */
    const struct sti_other_modules *others;
    sti_demangle_fn *demangle;
};

/* Open a table of what the process has loaded now, and of the other modules, which must stay as long as the table. 0;
 * ENOMEM. */
int sti_symbols_open(struct sti_symbols *symbols, const struct sti_other_modules *others, sti_demangle_fn *demangle);

/* 0; ENOMEM: some address could not be looked up. */
int sti_symbols_close(struct sti_symbols *symbols);

/* Look the address up: in the other modules, and where these are not alone in the process's own. As long as the table
 * is open; never NULL. */
const struct sti_frame *sti_symbols_frame(struct sti_symbols *symbols, uintptr_t address);

/* The file of its module, without folders; NULL: it is in none. */
const char *sti_frame_module(const struct sti_frame *frame);

#endif
