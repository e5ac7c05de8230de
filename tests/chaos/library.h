/* SPDX-License-Identifier: MIT
 *
 * The interface of a library's file to the chaos programs: one small piece of real work, of 10 to 500 microseconds,
 * whose answer is a checksum that depends on the variant alone. The files know nothing of interrupts; each follows
 * only the advice of docs/recipes.md for its library. */
#ifndef CHAOS_LIBRARY_H
#define CHAOS_LIBRARY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <stint/stint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CHAOS_VARIANTS 6
#define CHAOS_LIBRARIES 32 /* at most */

#define CHAOS_IN(mode) (1u << (mode))
#define CHAOS_LEAVING (CHAOS_IN(STINT_JUMP) | CHAOS_IN(STINT_UNWIND))
#define CHAOS_ANY_MODE (CHAOS_LEAVING | CHAOS_IN(STINT_FAIL))

struct chaos_library {
    const char *name;
    unsigned modes;   /* those that make sense: CHAOS_IN of each */
    bool preemptible; /* may be left at any instruction: has no locks of its own making */
    /* In main, once, before the first task: makes state that the library keeps for ever. Not called where the library
     * is to be used first in a task. NULL: nothing. */
    void (*ready)(void);
    /* In a task, on any worker. 0, or whatever the library said when an allocation was refused. */
    int (*run)(unsigned variant, uint64_t *sum);
    /* In main, while no task runs: can every lock of the library be taken? NULL: the library has none. */
    bool (*idle)(void);
    /* In main, once, in any case, and before ready: makes what the work reads, without the library. NULL: nothing. */
    void (*prepare)(void);
    const char *modules;          /* those that it consists of, for stint_module_allow, with ':' between; NULL: none */
    const char *(*version)(void); /* as the library says; NULL: it does not say */
};

/* Ends with NULL. */
extern const struct chaos_library *const chaos_libraries[];
extern const struct chaos_library chaos_xml, chaos_sql, chaos_lua, chaos_json, chaos_regex, chaos_deflate, chaos_expat,
    chaos_javascript, chaos_libc, chaos_holds, chaos_thread, chaos_handles, chaos_caches, chaos_pool, chaos_cxx,
    chaos_mappings;

#ifdef CHAOS_ONE
extern const struct chaos_library CHAOS_ONE; /* of a program of one library */
#endif

/* FNV-1a */
#define CHAOS_SUM_BEGIN UINT64_C(0xcbf29ce484222325)

static inline void chaos_add(uint64_t *sum, const void *bytes, size_t size)
{
    const unsigned char *byte = (const unsigned char *)bytes;
    for (size_t i = 0; i < size; i++)
        *sum = (*sum ^ byte[i]) * UINT64_C(0x100000001b3);
}

static inline void chaos_add_text(uint64_t *sum, const char *text)
{
    chaos_add(sum, text, text != NULL ? strlen(text) : 0);
}

static inline void chaos_add_number(uint64_t *sum, uint64_t number)
{
    chaos_add(sum, &number, sizeof number);
}

/* Allocates and frees this many blocks, each a place for an interrupt. 0, or -1 if one was refused: then none
 * follows. */
static inline int chaos_pass(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        void *block = malloc(1000);
        __asm__ volatile("" : "+r"(block) : : "memory"); /* it is really made */
        if (block == NULL)
            return -1;
        free(block);
    }
    return 0;
}

/* splitmix64 */
static inline uint64_t chaos_random(uint64_t *state)
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
