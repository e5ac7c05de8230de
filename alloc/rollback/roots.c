/* SPDX-License-Identifier: MIT
 *
 * Looking, before a heap is destroyed, for pointers into it from the process's variables, and telling of them; see
 * roots.h. */
#include "roots.h"

#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stint/memory.h>
#include <string.h>
#include <unistd.h>

#include "alloc/heap/heap.h"
#include "alloc/heap/retained.h"
#include "alloc/interrupt/boundary.h"
#include "alloc/interrupt/cxx.h"
#include "alloc/platform/assumption.h"
#include "alloc/platform/caller.h"
#include "alloc/platform/libc.h"
#include "alloc/platform/module.h"
#include "alloc/platform/permanent.h"
#include "alloc/platform/process.h"
#include "alloc/platform/reporting.h"

/* --- The scan of roots. Thread of the scope only, outside its scope.
 *
 * Every aligned word of the roots is looked up on the maps of all heaps in question (heap_map.h): most lie outside the
 * range of all areas and cost two compares. A word is a hit if it points into a live block, from which on blocks are
 * looked at like roots, until no more are found (the marking of a conservative collector: Boehm and Weiser, 1988).
 * Other threads may write the roots meanwhile: a word is read whole, and who stores a pointer to this task's block at
 * this very moment got it from a task that is being rolled back, which no scan could help.
 *
 * The loader's lock is held while it is asked where modules have their variables. What is never unloaded (permanent.h)
 * is read afterwards, or threads that roll back would wait for each other; any other module, which another thread may
 * be unloading, is read with the lock. */

#define SAMPLED_EVERY 64
#define MAX_HITS 16
#define ADDRESS_BITS (UINTPTR_MAX >> 16) /* some keep a type in the others */

static _Atomic stint_root_scan scan_mode;

int stint_roots_set_scan(stint_root_scan scan)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    if (scan != STINT_ROOT_SCAN_ALWAYS && scan != STINT_ROOT_SCAN_SAMPLED && scan != STINT_ROOT_SCAN_NEVER)
        return EINVAL;
    atomic_store_explicit(&scan_mode, scan, memory_order_relaxed);
    return 0;
}

bool sti_roots_scan_due(void)
{
    static _Thread_local unsigned rollbacks;
    stint_root_scan mode = atomic_load_explicit(&scan_mode, memory_order_relaxed);
    if (mode == STINT_ROOT_SCAN_SAMPLED)
        return rollbacks++ % SAMPLED_EVERY == 0;
    return mode == STINT_ROOT_SCAN_ALWAYS;
}

bool sti_roots_are_scanned(void)
{
    return atomic_load_explicit(&scan_mode, memory_order_relaxed) != STINT_ROOT_SCAN_NEVER;
}

struct scan {
    struct sti_heap *heaps;
    uintptr_t begin; /* of all areas of theirs */
    uintptr_t end;
    struct hit {
        struct sti_root root;
        char *module; /* the name in it */
        const struct sti_heap *heap;
        size_t size; /* of the block; 0: another root led to it before */
    } hits[MAX_HITS];
    size_t hit_count;
    struct sti_heap_block *pending; /* marked, and not looked at yet */
    size_t pending_count;
    size_t pending_capacity;
    struct part *parts; /* to be scanned */
    size_t part_count;
    size_t part_capacity;
    uintptr_t *copy; /* room for a piece of what may be unreadable; NULL: there has been none */
    bool blind;      /* there is something that it could neither read nor know to be unreadable */
};

/* libc's own lists of what it has open keep nothing open, but these variables of its are anybody's to set; nor does the
 * loader, which opens none. */
static bool is_of_libc(uintptr_t address)
{
    if (sti_caller_in(&sti_caller_system.loader, (const void *)address))
        return true;
    return sti_caller_in(&sti_caller_system.libc, (const void *)address) && address != (uintptr_t)&stdin &&
           address != (uintptr_t)&stdout && address != (uintptr_t)&stderr;
}

static void scan_push(struct scan *scan, struct sti_heap_block block)
{
    if (scan->pending_count == scan->pending_capacity) {
        size_t larger = scan->pending_capacity == 0 ? 64 : 2 * scan->pending_capacity;
        struct sti_heap_block *pending = sti_process_realloc(scan->pending, larger * sizeof *pending);
        if (pending == NULL) {
            scan->blind = true;
            return;
        }
        scan->pending = pending;
        scan->pending_capacity = larger;
    }
    scan->pending[scan->pending_count++] = block;
}

/* The module may be gone when it is told of, and its name with it. */
static void note_hit(struct scan *scan, const struct sti_root *root, const struct sti_heap *heap, size_t size)
{
    struct hit *hit = &scan->hits[scan->hit_count++];
    size_t length = strlen(root->module) + 1;
    *hit = (struct hit){ .root = *root, .module = sti_process_malloc(length), .heap = heap, .size = size };
    hit->root.module = hit->module != NULL ? memcpy(hit->module, root->module, length) : "";
}

/* A root without a module is a word of a marked block. */
static __attribute__((noinline)) void scan_look_at(struct scan *scan, uintptr_t word, const struct sti_root *root)
{
    struct sti_heap_block block;
    struct sti_heap *heap = scan->heaps;
    enum sti_heap_found found = STI_HEAP_NOTHING;
    while (heap != NULL && ((heap->is_of_libc && is_of_libc(root->address)) ||
                            (found = sti_heap_map_mark(heap, word, &block)) == STI_HEAP_NOTHING))
        heap = heap->next;
    if (heap == NULL)
        return;
    if (found == STI_HEAP_UNKNOWN)
        scan->blind = true;
    if (found == STI_HEAP_NEW && !heap->is_of_libc && heap->reach == 0) /* what libc's point to is libc's */
        scan_push(scan, block);
    if (root->module != NULL && scan->hit_count < MAX_HITS)
        note_hit(scan, root, heap, found == STI_HEAP_NEW ? block.size : 0);
}

/* Variables that belong together; the offset of a root counts from base. */
struct range {
    uintptr_t base;
    const char *module;
    const char *where;
};

struct part {
    struct range range;
    uintptr_t begin;
    uintptr_t end;
};

/* Most words are zero, or numbers, or addresses of elsewhere: their upper halves, four at a time, tell so of AT_ONCE
 * words quicker than each word by itself. */
#define AT_ONCE 16

typedef int32_t halves __attribute__((vector_size(16), aligned(8), may_alias));

__attribute__((no_sanitize("address", "thread", "undefined"))) static inline bool may_have_any(const struct scan *scan,
                                                                                               const uintptr_t *words)
{
    const halves *of = (const halves *)words;
    const int32_t lowest = (int32_t)(scan->begin >> 32);
    const int32_t highest = (int32_t)(scan->end >> 32);
    union {
        halves halves;
        uint64_t words[2];
    } found = { .words = { 0, 0 } };
    for (size_t i = 0; i < AT_ONCE / 2; i += 2) {
        halves upper = __builtin_shufflevector(of[i], of[i + 1], 1, 3, 5, 7) & (int32_t)(ADDRESS_BITS >> 32);
        found.halves |= (upper >= lowest) & (upper <= highest);
    }
    return (found.words[0] | found.words[1]) != 0;
}

/* Words that lie at begin, be they read there or in a copy. Reads whatever lies there, a sanitizer's red zones too. */
__attribute__((no_sanitize("address", "thread", "undefined"))) static inline void
scan_words(struct scan *scan, const struct range *range, uintptr_t begin, const uintptr_t *words, size_t count)
{
    for (size_t i = 0; i < count;) {
        while (i + AT_ONCE <= count && !may_have_any(scan, words + i))
            i += AT_ONCE;
        for (size_t end = i + AT_ONCE < count ? i + AT_ONCE : count; i < end; i++) {
            uintptr_t word = *(const volatile uintptr_t *)&words[i] & ADDRESS_BITS;
            if (__builtin_expect(word - scan->begin >= scan->end - scan->begin, 1))
                continue;
            uintptr_t at = begin + i * sizeof(uintptr_t);
            struct sti_root root = {
                .address = at, .offset = at - range->base, .module = range->module, .where = range->where
            };
            scan_look_at(scan, word, &root);
        }
    }
}

#define PAGE 4096         /* or a part of one */
#define PIECE (16 * PAGE) /* to ask for each page takes five times as long */

/* False: the system does not say what can be read. A piece of which a part cannot be is read page by page. */
static __attribute__((noinline)) bool scan_readable(struct scan *scan, const struct range *range, uintptr_t begin,
                                                    uintptr_t end)
{
    uintptr_t most = PIECE;
    if (scan->copy == NULL && (scan->copy = sti_process_malloc(PIECE)) == NULL)
        return false;
    while (begin < end) {
        size_t size = most - begin % most;
        size = size < end - begin ? size : end - begin;
        long copied = sti_readable_copy(scan->copy, begin, size);
        if (copied < 0)
            return false;
        if ((size_t)copied < size && most == PIECE) {
            most = PAGE;
            continue;
        }
        scan_words(scan, range, begin, scan->copy, (size_t)copied / sizeof(uintptr_t));
        begin += size;
        if (begin % PIECE == 0)
            most = PIECE;
    }
    return true;
}

static bool range_align(uintptr_t *begin, uintptr_t *end)
{
    *begin = (*begin + sizeof(uintptr_t) - 1) & ~(uintptr_t)(sizeof(uintptr_t) - 1);
    *end &= ~(uintptr_t)(sizeof(uintptr_t) - 1);
    return *begin < *end;
}

static void scan_range(struct scan *scan, const struct range *range, uintptr_t begin, uintptr_t end)
{
    if (!range_align(&begin, &end))
        return;
    if (sti_readable_begin(STI_READABLE_DATA)) {
        scan_words(scan, range, begin, (const uintptr_t *)begin, (end - begin) / sizeof(uintptr_t));
        sti_readable_end(STI_READABLE_DATA);
    } else if (!scan_readable(scan, range, begin, end)) {
        scan->blind = true;
    }
}

/* --- Where the variables are -------------------------------------------------------------------------------------- */

/* Now, or later, without the loader's lock. */
static void have_scanned(struct scan *scan, const struct part *part, bool lasts)
{
    if (!lasts) {
        scan_range(scan, &part->range, part->begin, part->end);
        return;
    }
    if (scan->part_count == scan->part_capacity) {
        size_t larger = scan->part_capacity == 0 ? 64 : 2 * scan->part_capacity;
        struct part *parts = sti_process_realloc(scan->parts, larger * sizeof *parts);
        if (parts == NULL) {
            scan->blind = true;
            return;
        }
        scan->parts = parts;
        scan->part_capacity = larger;
    }
    scan->parts[scan->part_count++] = *part;
}

/* Writable, but for the part that is read-only once relocated; and for the loader's that begins as zeros: it
 * says there where files had been mapped, and a task may have mapped something in their place. */
static void have_data_scanned(struct scan *scan, const struct dl_phdr_info *info)
{
    struct part part = { .range = { .base = info->dlpi_addr, .module = info->dlpi_name, .where = "data" } };
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t constant = 0;
    uintptr_t constant_end = 0;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type == PT_GNU_RELRO) {
            constant = info->dlpi_addr + segment->p_vaddr;
            constant_end = (constant + segment->p_memsz) & ~(page - 1);
        }
    }
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_W))
            continue;
        part.begin = info->dlpi_addr + segment->p_vaddr;
        part.end = part.begin + (sti_caller_is_loader((void *)part.begin) ? segment->p_filesz : segment->p_memsz);
        if (constant_end > part.begin && constant <= part.begin && constant_end <= part.end)
            part.begin = constant_end;
        have_scanned(scan, &part, sti_module_lasts(info));
    }
}

/* 0: it has none of this module's. */
static uintptr_t begin_of_thread_local(struct scan *scan, const struct dl_phdr_info *info)
{
    if (info->dlpi_tls_data != NULL)
        return (uintptr_t)info->dlpi_tls_data;
    if (sti_assumption_fails(STI_ASSUMED_VARIABLES)) {
        scan->blind = true;
        return 0;
    }
    return sti_module_thread_variables(sti_module_of((const void *)sti_caller_module_at(info).begin));
}

/* Of the calling thread, where it has any of this module's. Nobody else takes them away, but their name. */
static void have_thread_local_scanned(struct scan *scan, const struct dl_phdr_info *info)
{
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t begin = segment->p_type == PT_TLS ? begin_of_thread_local(scan, info) : 0;
        struct part part = { .begin = begin,
                             .end = begin + segment->p_memsz,
                             .range = { .base = begin, .module = info->dlpi_name, .where = "thread-local" } };
        if (begin != 0)
            have_scanned(scan, &part, sti_module_lasts(info));
    }
}

/* With the loader's lock. This library and mimalloc know every heap; what they say of one keeps nothing alive. */
static int have_module_scanned(struct dl_phdr_info *info, size_t size, void *scan)
{
    (void)size;
    if (!sti_caller_module_is_only_ours(info)) {
        have_data_scanned(scan, info);
        have_thread_local_scanned(scan, info);
    }
    return 0;
}

static void scan_modules(struct scan *scan)
{
    sti_modules_visit(have_module_scanned, scan);
    for (size_t i = 0; i < scan->part_count; i++)
        scan_range(scan, &scan->parts[i].range, scan->parts[i].begin, scan->parts[i].end);
    sti_process_free(scan->parts);
}

static void scan_specifics(struct scan *scan)
{
    for (pthread_key_t key = 0; key < PTHREAD_KEYS_MAX; key++) {
        uintptr_t word = (uintptr_t)pthread_getspecific(key);
        if (word - scan->begin < scan->end - scan->begin) {
            struct sti_root root = { .offset = key, .module = "", .where = "specific" };
            scan_look_at(scan, word, &root);
        }
    }
}

/* One of a locale that is the task's own goes with that. */
static void look_at_cache(const void *locale, const void *facet, void *argument)
{
    struct scan *scan = argument;
    const struct sti_root root = { .address = (uintptr_t)locale, .module = "libstdc++", .where = "data" };
    const struct sti_heap *heap = scan->heaps;
    if ((uintptr_t)facet - scan->begin >= scan->end - scan->begin)
        return;
    while (heap != NULL && !sti_heap_map_covers(heap, (uintptr_t)locale))
        heap = heap->next;
    if (heap == NULL)
        scan_look_at(scan, (uintptr_t)facet, &root);
}

static void scan_marked(struct scan *scan)
{
    const struct range range = { .module = NULL };
    while (scan->pending_count > 0) {
        struct sti_heap_block block = scan->pending[--scan->pending_count];
        if (!block.is_mapped)
            scan_range(scan, &range, block.begin, block.begin + block.size);
        else if (!scan_readable(scan, &range, block.begin, block.begin + block.size))
            scan->blind = true;
    }
    sti_process_free(scan->pending);
}

static bool make_maps(struct sti_heap *list)
{
    for (struct sti_heap *heap = list; heap != NULL; heap = heap->next) {
        if (!sti_heap_map_make(heap))
            return false;
    }
    return true;
}

static void pin_all(struct sti_heap *list, bool pinned)
{
    for (; list != NULL; list = list->next) {
        list->pinned = pinned;
        if (pinned)
            list->map.held = sti_heap_bytes(list);
    }
}

static size_t sum_retained(const struct sti_heap *list)
{
    size_t retained = 0;
    for (; list != NULL; list = list->next)
        retained += sti_heap_retained(list);
    return retained;
}

size_t sti_roots_pin(struct sti_heap *list, const char *task)
{
    /* Without memory for a map nothing can be said of any heap, and all are kept. */
    bool mapped = make_maps(list);
    pin_all(list, !mapped);
    if (!mapped)
        return sum_retained(list);
    struct scan scan = { .heaps = list, .begin = UINTPTR_MAX };
    for (const struct sti_heap *heap = list; heap != NULL; heap = heap->next) {
        if (heap->map.count == 0)
            continue;
        scan.begin = heap->map.begin < scan.begin ? heap->map.begin : scan.begin;
        scan.end = heap->map.end > scan.end ? heap->map.end : scan.end;
    }
    if (scan.end == 0)
        return 0;
    scan_modules(&scan);
    scan_specifics(&scan);
    sti_cxx_caches_visit(look_at_cache, &scan);
    scan_marked(&scan);
    if (scan.copy != NULL) {
        explicit_bzero(scan.copy, PIECE); /* a wiped task may have written what was read */
        sti_process_free(scan.copy);
    }
    if (scan.blind)
        pin_all(list, true);
    size_t retained = sum_retained(list);
    for (size_t i = 0; i < scan.hit_count; i++) {
        sti_reporting_retained(sti_thread_own(), &scan.hits[i].root, scan.hits[i].size);
        sti_roots_report(&scan.hits[i].root, sti_heap_retained(scan.hits[i].heap), sti_retained_bytes() + retained,
                         task);
        sti_process_free(scan.hits[i].module);
    }
    return retained;
}

/* --- Telling the user of roots that keep a heap, once a root. Any thread; one at a time. --- */

#define REMEMBERED 256
#define TOO_MUCH ((size_t)64 << 20)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static stint_root_report_fn *report_function;
static void *report_argument;
static uintptr_t reported[REMEMBERED];
static size_t reported_count;
static size_t said; /* the bytes that were too many the last time it was said; 0: they were not */

void stint_roots_set_report(stint_root_report_fn *report, void *arg)
{
    if (sti_process_is_partial())
        return;
    pthread_mutex_lock(&lock);
    report_function = report;
    report_argument = arg;
    reported_count = 0;
    pthread_mutex_unlock(&lock);
}

/* A specific value has no address; its key, which is small, stands for one. */
static bool first_time(const struct sti_root *root)
{
    uintptr_t identity = root->address != 0 ? root->address : root->offset + 1;
    for (size_t i = 0; i < reported_count; i++) {
        if (reported[i] == identity)
            return false;
    }
    if (reported_count == REMEMBERED)
        return false;
    reported[reported_count++] = identity;
    return true;
}

/* With the lock. */
static bool must_say_too_much(size_t all)
{
    if (all <= TOO_MUCH)
        said = 0;
    bool must = all > TOO_MUCH && all / 2 >= said;
    if (must)
        said = all;
    return must;
}

void sti_roots_report(const struct sti_root *root, size_t retained, size_t all, const char *task)
{
    pthread_mutex_lock(&lock);
    stint_root_report_fn *function = report_function;
    void *argument = report_argument;
    bool too_much = all > TOO_MUCH;
    bool must = must_say_too_much(all);
    bool reports = function != NULL && (first_time(root) || must);
    pthread_mutex_unlock(&lock);
    if (!reports)
        return;
    stint_root public = {
        .address = (const void *)root->address,
        .module = root->module,
        .symbol = root->address != 0 ? sti_libc_symbol((const void *)root->address) : NULL,
        .where = root->where,
        .offset = root->offset,
        .task = task,
        .kept = retained,
        .kept_in_all = all,
        .too_much = too_much,
    };
    STI_BOUNDARY_CALLBACK(function, &public, argument, NULL);
}
