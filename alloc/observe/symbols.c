/* SPDX-License-Identifier: MIT
 *
 * What addresses of code are called (symbols.h), by elfutils' libdwfl. */
#include "symbols.h"

#include <elfutils/libdwfl.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <search.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "alloc/platform/machine.h"

/* dwfl_standard_find_debuginfo would also ask the servers that DEBUGINFOD_URLS names. */
static const Dwfl_Callbacks callbacks = {
    .find_elf = dwfl_linux_proc_find_elf,
    .find_debuginfo = dwfl_build_id_find_debuginfo,
};

/* Open the process by this thread's id: the system says nothing of a process whose main thread has ended. */
static Dwfl *open_process(void)
{
    Dwfl *dwfl = dwfl_begin(&callbacks);
    if (dwfl == NULL)
        return NULL;
    if (dwfl_linux_proc_report(dwfl, gettid()) == 0 && dwfl_report_end(dwfl, NULL, NULL) == 0)
        return dwfl;
    dwfl_end(dwfl);
    return NULL;
}

static void note_build_id(struct sti_module *module, Dwfl_Module *from)
{
    const unsigned char *bytes;
    GElf_Addr where;
    int length = dwfl_module_build_id(from, &bytes, &where);
    for (int i = 0; i < length && i < STI_BUILD_ID_MAX; i++)
        snprintf(module->build_id + 2 * i, 3, "%02x", bytes[i]);
}

/* Narrow the module to its code. */
static void note_code(struct sti_module *module, Dwfl_Module *from)
{
    GElf_Addr bias;
    Elf *elf = dwfl_module_getelf(from, &bias);
    size_t segments;
    if (elf == NULL || elf_getphdrnum(elf, &segments) != 0)
        return;
    for (size_t i = 0; i < segments; i++) {
        GElf_Phdr segment;
        if (gelf_getphdr(elf, (int)i, &segment) == NULL || segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0)
            continue;
        module->start = (bias + segment.p_vaddr) & ~(sti_page_size() - 1);
        module->limit = (bias + segment.p_vaddr + segment.p_memsz + sti_page_size() - 1) & ~(sti_page_size() - 1);
        module->file_offset = segment.p_offset & ~(sti_page_size() - 1);
        return;
    }
}

/* NULL: no memory. */
static struct sti_module *add_module(struct sti_symbols *symbols)
{
    struct sti_module *more = realloc(symbols->modules, (symbols->module_count + 1) * sizeof *more);
    if (more == NULL)
        return NULL;
    symbols->modules = more;
    return &more[symbols->module_count++];
}

static int symbols_note_module(Dwfl_Module *from, void **user, const char *name, Dwarf_Addr start, void *arg)
{
    struct sti_symbols *symbols = arg;
    struct sti_module *module = add_module(symbols);
    if (module == NULL)
        return DWARF_CB_ABORT;
    const char *file = NULL;
    Dwarf_Addr end;
    *module = (struct sti_module){ .begin = start, .start = start, .functions_known = true, .lines_known = true };
    note_code(module, from);
    dwfl_module_info(from, NULL, NULL, &end, NULL, NULL, &file, NULL);
    if (module->limit == 0)
        module->limit = end;
    module->path = file != NULL ? file : name;
    note_build_id(module, from);
    *user = (void *)symbols->module_count; /* its number from 1 on */
    return DWARF_CB_OK;
}

/* --- The modules of another process. The files are there, as a rule, but that process may be gone, and this one has
 * not mapped them: so libdwfl is told of each file where it lay. */

/* A file, and nothing that would wait for somebody. -1: it is none. */
static int symbols_open_file(const char *path)
{
    struct stat status;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (file >= 0 && fstat(file, &status) == 0 && S_ISREG(status.st_mode))
        return file;
    if (file >= 0)
        close(file);
    return -1;
}

static void report_others(Dwfl *dwfl, const struct sti_other_modules *others)
{
    for (size_t i = 0; i < others->count; i++) {
        const struct sti_other_module *other = &others->list[i];
        int file = other->may_be_read ? symbols_open_file(other->path) : -1;
        /* libdwfl closes the file, unless the call fails. */
        if (file >= 0 && dwfl_report_elf(dwfl, other->path, other->path, file, other->begin, false) == NULL)
            close(file);
    }
}

/* Report only modules that may not be read, or cannot. False: no memory. */
static bool add_unread(struct sti_symbols *symbols)
{
    symbols->unread = symbols->module_count;
    for (size_t i = 0; i < symbols->others->count; i++) {
        const struct sti_other_module *other = &symbols->others->list[i];
        if (symbols->dwfl_of_others != NULL && dwfl_addrmodule(symbols->dwfl_of_others, other->begin) != NULL)
            continue;
        struct sti_module *module = add_module(symbols);
        if (module == NULL)
            return false;
        *module = (struct sti_module){
            .begin = other->begin, .start = other->begin, .limit = other->end, .path = other->path
        };
    }
    return true;
}

/* False: no memory. */
static bool symbols_note_others(struct sti_symbols *symbols)
{
    if (symbols->others->count > 0)
        symbols->dwfl_of_others = dwfl_begin(&callbacks);
    if (symbols->dwfl_of_others != NULL) {
        report_others(symbols->dwfl_of_others, symbols->others);
        dwfl_report_end(symbols->dwfl_of_others, NULL, NULL);
        if (dwfl_getmodules(symbols->dwfl_of_others, symbols_note_module, symbols, 0) != 0)
            return false;
    }
    return add_unread(symbols);
}

static bool is_in_others(uintptr_t address, const struct sti_other_modules *others)
{
    size_t i = 0;
    while (i < others->count && (address < others->list[i].begin || address >= others->list[i].end))
        i++;
    return i < others->count;
}

static struct sti_module *find_unread(const struct sti_symbols *symbols, uintptr_t address)
{
    for (size_t i = symbols->unread; i < symbols->module_count; i++) {
        if (address >= symbols->modules[i].begin && address < symbols->modules[i].limit)
            return &symbols->modules[i];
    }
    return NULL;
}

/* --- Looking up. */

/* A version behind an @ is cut off. NULL: no memory. */
static char *symbol_readable(const char *name, sti_demangle_fn *demangle)
{
    int status = -1;
    char *demangled = strncmp(name, "_Z", 2) == 0 && demangle != NULL ? demangle(name, NULL, NULL, &status) : NULL;
    return status == 0 ? demangled : strndup(name, strcspn(name, "@"));
}

/* False: no memory. */
static bool name_in(Dwfl_Module *module, struct sti_frame *frame, const struct sti_symbols *symbols)
{
    GElf_Off offset;
    GElf_Sym symbol;
    void **user;
    dwfl_module_info(module, &user, NULL, NULL, NULL, NULL, NULL, NULL);
    frame->module = &symbols->modules[(size_t)*user - 1];
    Dwfl_Line *line = dwfl_module_getsrc(module, frame->address);
    if (line != NULL)
        frame->file = dwfl_lineinfo(line, NULL, &frame->line, NULL, NULL, NULL);
    const char *name = dwfl_module_addrinfo(module, frame->address, &offset, &symbol, NULL, NULL, NULL);
    if (name != NULL)
        frame->function = symbol_readable(name, symbols->demangle);
    frame->module->functions_known &= frame->function != NULL;
    frame->module->lines_known &= frame->file != NULL;
    return name == NULL || frame->function != NULL;
}

/* False: no memory. */
static bool symbols_look_up(struct sti_frame *frame, const struct sti_symbols *symbols)
{
    bool is_other = is_in_others(frame->address, symbols->others);
    Dwfl *dwfl = is_other ? symbols->dwfl_of_others : symbols->others->alone ? NULL : symbols->dwfl;
    Dwfl_Module *module = dwfl != NULL ? dwfl_addrmodule(dwfl, frame->address) : NULL;
    if (module != NULL)
        return name_in(module, frame, symbols);
    if (is_other)
        frame->module = find_unread(symbols, frame->address);
    return true;
}

static int symbols_by_address(const void *left, const void *right)
{
    uintptr_t a = ((const struct sti_frame *)left)->address;
    uintptr_t b = ((const struct sti_frame *)right)->address;
    return (a > b) - (a < b);
}

static void free_frame(void *frame)
{
    free(((struct sti_frame *)frame)->function);
    free(frame);
}

/* NULL: no memory. */
static const struct sti_frame *symbols_add_frame(struct sti_symbols *symbols, uintptr_t address)
{
    struct sti_frame *frame = malloc(sizeof *frame);
    if (frame == NULL)
        return NULL;
    *frame = (struct sti_frame){ .address = address };
    if (tsearch(frame, &symbols->frames, symbols_by_address) == NULL) {
        free(frame);
        return NULL;
    }
    frame->id = ++symbols->frame_count;
    return symbols_look_up(frame, symbols) ? frame : NULL;
}

const struct sti_frame *sti_symbols_frame(struct sti_symbols *symbols, uintptr_t address)
{
    static const struct sti_frame unknown;
    const struct sti_frame key = { .address = address };
    const struct sti_frame *const *found = tfind(&key, &symbols->frames, symbols_by_address);
    const struct sti_frame *frame = found != NULL ? *found : symbols_add_frame(symbols, address);
    if (frame == NULL)
        symbols->error = ENOMEM;
    return frame != NULL ? frame : &unknown;
}

const char *sti_frame_module(const struct sti_frame *frame)
{
    if (frame->module == NULL)
        return NULL;
    const char *slash = strrchr(frame->module->path, '/');
    return slash != NULL ? slash + 1 : frame->module->path;
}

/* Without /proc the addresses are all there is. */
int sti_symbols_open(struct sti_symbols *symbols, const struct sti_other_modules *others, sti_demangle_fn *demangle)
{
    *symbols = (struct sti_symbols){ .others = others, .demangle = demangle, .dwfl = open_process() };
    if ((symbols->dwfl == NULL || dwfl_getmodules(symbols->dwfl, symbols_note_module, symbols, 0) == 0) &&
        symbols_note_others(symbols))
        return 0;
    sti_symbols_close(symbols);
    return ENOMEM;
}

int sti_symbols_close(struct sti_symbols *symbols)
{
    tdestroy(symbols->frames, free_frame);
    free(symbols->modules);
    dwfl_end(symbols->dwfl);
    dwfl_end(symbols->dwfl_of_others);
    return symbols->error;
}
