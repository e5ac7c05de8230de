/* SPDX-License-Identifier: MIT
 *
 * What addresses of code are called: module, function, file, line. The only room that knows libdw. One thread a table.
 *
 * Only what is on this machine is read: no debuginfo server is asked. */
#ifndef STI_ALLOC_PROFILE_SYMBOLS_H
#define STI_ALLOC_PROFILE_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "write.h"

#define STI_BUILD_ID_MAX 64 /* bytes */

struct sti_module {
    uintptr_t begin; /* of all of it in memory */
    uintptr_t start; /* of its code */
    uintptr_t limit;
    uint64_t file_offset;
    const char *path;
    bool functions_known; /* of all frames in it */
    bool lines_known;
    char build_id[2 * STI_BUILD_ID_MAX + 1]; /* in hexadecimal; empty: it has none */
};

struct sti_frame {
    uintptr_t address;
    size_t module;    /* its number; SIZE_MAX: none */
    char *function;   /* demangled if it is C++ and the process can do that; NULL: not known */
    const char *file; /* NULL: not known */
    int line;
};

struct sti_symbols {
    size_t frame_count;
    struct sti_frame *frames; /* by address, each once */
    size_t module_count;
    struct sti_module *modules;
    void *dwfl;
    void *dwfl_of_others; /* NULL: there are none, or none may be read */
    sti_demangle_fn *demangle;
};

/* Look up the addresses, of which some may be equal: in the other modules, which stay as long as the table, and where
 * these are not alone in the process's own. 0; ENOMEM. */
int sti_symbols_open(struct sti_symbols *symbols, const uintptr_t *addresses, size_t count,
                     const struct sti_other_modules *others, sti_demangle_fn *demangle);
void sti_symbols_close(struct sti_symbols *symbols);

/* One of those that were looked up. */
const struct sti_frame *sti_symbols_frame(const struct sti_symbols *symbols, uintptr_t address);

#endif
