/* SPDX-License-Identifier: MIT
 *
 * Learning which functions of libstdc++ allocate for itself; see cxx_caches.h.
 *
 * By their names in its table of symbols. Helpers without a name there have been inlined into these, or lie beside them. */
#include "cxx_caches.h"

#include <string.h>

#include "process.h"

#define HELPER 4096 /* bytes it has at most */

static const struct sti_cxx_code unknown;
_Atomic(const struct sti_cxx_code *) sti_cxx_code = &unknown;

/* Mangled, behind std:: or std::__cxx11::, those of locales and of what fills a facet's cache at its first use; and of the
 * free lists of __gnu_cxx's allocators. */
static const char *const of_std[] = {
    "6locale",   "7num_putI",  "7num_getI",     "9money_putI",    "9money_getI",        "8time_putI",
    "8time_getI", "8numpunctI", "10moneypunctI", "11__timepunctI", "16__numpunct_cacheI", "18__moneypunct_cacheI",
    "17__timepunct_cacheI", "8messagesI",
};
static const char *const of_gnu[] = { "6__poolI", "17__pool_alloc_base" };

/* What follows the prefix; NULL: it is none. */
static const char *behind(const char *name, const char *prefix)
{
    size_t length = strlen(prefix);
    return strncmp(name, prefix, length) == 0 ? name + length : NULL;
}

static bool begins_with_any(const char *name, const char *const *beginnings, size_t count)
{
    size_t i = 0;
    while (i < count && behind(name, beginnings[i]) == NULL)
        i++;
    return i < count;
}

static bool is_for_itself(const char *name)
{
    const char *member = behind(name, "_ZN");
    if (member == NULL)
        return false;
    if (*member == 'K')
        member++;
    const char *of = behind(member, "9__gnu_cxx");
    if (of != NULL)
        return begins_with_any(of, of_gnu, sizeof of_gnu / sizeof *of_gnu);
    if ((member = behind(member, "St")) == NULL)
        return false;
    of = behind(member, "7__cxx11");
    return begins_with_any(of != NULL ? of : member, of_std, sizeof of_std / sizeof *of_std);
}

struct learnt {
    struct sti_caller_module module;
    uint64_t *named; /* code of functions with a name */
    uint64_t *caches;
};

static void set(uint64_t *bits, uintptr_t offset)
{
    bits[offset / 1024] |= UINT64_C(1) << offset / 16 % 64;
}

static bool is_set(const uint64_t *bits, uintptr_t offset)
{
    return (bits[offset / 1024] >> offset / 16 % 64 & 1) != 0;
}

static void note_named(const char *name, const void *begin, size_t size, void *argument)
{
    const struct learnt *learnt = argument;
    uintptr_t first = (uintptr_t)begin - learnt->module.begin;
    (void)name;
    for (uintptr_t offset = first; offset < first + size && offset < learnt->module.size; offset += 16)
        set(learnt->named, offset);
}

/* With the code before and behind it that has no name: helpers. */
static void learn_function(const char *name, const void *begin, size_t size, void *argument)
{
    const struct learnt *learnt = argument;
    if (!is_for_itself(name))
        return;
    uintptr_t first = (uintptr_t)begin - learnt->module.begin;
    uintptr_t end = first + size;
    for (uintptr_t offset = first; offset < learnt->module.size; offset += 16) {
        if (offset >= end && (offset >= end + HELPER || is_set(learnt->named, offset)))
            break;
        set(learnt->caches, offset);
    }
    for (uintptr_t offset = first; offset >= 16 && offset + HELPER > first; offset -= 16) {
        if (is_set(learnt->named, offset - 16))
            break;
        set(learnt->caches, offset - 16);
    }
}

void sti_cxx_caches_learn(struct sti_module module, const char *path, struct sti_caller_module code)
{
    const char *slash = strrchr(path, '/');
    if (slash == NULL || strncmp(slash, "/libstdc++.so", 13) != 0 ||
        atomic_load_explicit(&sti_cxx_code, memory_order_relaxed) != &unknown)
        return;
    struct sti_cxx_code *made = sti_process_malloc(sizeof *made);
    uint64_t *caches = sti_process_calloc(code.size / 1024 + 1, sizeof *caches);
    uint64_t *named = sti_process_calloc(code.size / 1024 + 1, sizeof *named);
    if (made == NULL || caches == NULL || named == NULL) {
        sti_process_free(made);
        sti_process_free(caches);
        sti_process_free(named);
        return;
    }
    struct learnt learnt = { .module = code, .named = named, .caches = caches };
    sti_module_visit_functions(module, note_named, &learnt);
    sti_module_visit_functions(module, learn_function, &learnt);
    sti_process_free(named);
    *made = (struct sti_cxx_code){ .module = code, .caches = caches };
    const struct sti_cxx_code *before = &unknown;
    if (!atomic_compare_exchange_strong_explicit(&sti_cxx_code, &before, made, memory_order_release,
                                                 memory_order_relaxed)) {
        sti_process_free(made);
        sti_process_free(caches);
    }
}
