/* SPDX-License-Identifier: MIT
 *
 * Structs that can grow, made by programs of other versions: smaller ones, with unreadable memory behind them; larger
 * ones; and some without a size. There has been one release only, so a wrapper of sti_sized_in and sti_sized_out plays
 * an earlier one, which knew less. For the tests of the functions that take such structs and of those that fill
 * them. */
#ifndef TESTS_SIZED_H
#define TESTS_SIZED_H

#include "pools.h"

#include <sys/mman.h>
#include <unistd.h>

#include "alloc/platform/sized.h"

/* --- The first release -------------------------------------------------------------------------------------------- */

static size_t earlier;  /* the size of a struct in a release before the first; 0: there was none */
static size_t as_first; /* and in the first one */

int __real_sti_sized_in(void *ours, size_t size, size_t first, const void *given);
int __wrap_sti_sized_in(void *ours, size_t size, size_t first, const void *given);
int __real_sti_sized_out(void *given, size_t first, const void *ours, size_t size);
int __wrap_sti_sized_out(void *given, size_t first, const void *ours, size_t size);

int __wrap_sti_sized_in(void *ours, size_t size, size_t first, const void *given)
{
    as_first = first;
    return __real_sti_sized_in(ours, size, earlier != 0 ? earlier : first, given);
}

int __wrap_sti_sized_out(void *given, size_t first, const void *ours, size_t size)
{
    as_first = first;
    return __real_sti_sized_out(given, earlier != 0 ? earlier : first, ours, size);
}

/* --- Structs of programs ------------------------------------------------------------------------------------------ */

#define ROOM 8192 /* more than any struct may have */
#define BEYOND 64 /* more bytes than we know */

/* A struct of this size, without a zero byte, in front of a missing page. */
static inline char *make_struct(size_t size)
{
    static char *room;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t whole = (ROOM + page - 1) / page * page;
    if (room == NULL) {
        room = mmap(NULL, whole + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_ptr_not_equal(room, MAP_FAILED);
        assert_int_equal(mprotect(room + whole, page, PROT_NONE), 0);
    }
    memset(room, 0xa5, whole);
    return room + whole - size;
}

static inline void set_size(char *given, size_t size)
{
    memcpy(given, &size, sizeof size);
}

/* In tables of structs: the size now, and the one that an earlier release may have had. */
#define LESS(type, field) sizeof(type), offsetof(type, field)

#define FOR_EACH(each, table) for (size_t i = 0; i < sizeof table / sizeof *table && (each = &table[i]); i++)

/* --- A pool for all tests ----------------------------------------------------------------------------------------- */

static stint_pool *the_pool;

static inline int make_the_pool(void **state)
{
    (void)state;
    the_pool = make_pool(.workers = 1);
    return 0;
}

static inline int destroy_the_pool(void **state)
{
    (void)state;
    return stint_pool_destroy(the_pool);
}

static inline int end_earlier_release(void **state)
{
    (void)state;
    earlier = 0;
    return 0;
}

#endif
