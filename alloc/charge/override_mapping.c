/* SPDX-License-Identifier: MIT
 *
 * Overrides of what asks the system itself for pages and gives them back, so that what a task has of them counts for
 * its limits and goes with a rollback (mapping.h). Any thread; as little as possible where no task has mapped anything.
 *
 * libc's and the loader's own calls do not come here. mimalloc's do, and are told by their return address; where it is
 * a part of this library it makes system calls itself (subprojects/packagefiles/mimalloc). They go on to the system
 * without a look at the record, whose lock is held where blocks are made: mimalloc may have locks of its own there. */
/* Each name is to be its own function, not that of another one. */
#undef _FILE_OFFSET_BITS
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stint/api.h>
#include <sys/mman.h>

#include "alloc/base/backend.h"
#include "alloc/base/caller.h"
#include "alloc/base/lasting.h"
#include "alloc/base/module.h"
#include "alloc/base/scope_state.h"
#include "alloc/rollback/kept.h"
#include "alloc/rollback/mapping.h"
#include "alloc/rollback/place.h"
#include "allocate.h"
#include "record.h"

STINT_API void *mmap(void *address, size_t length, int protection, int flags, int descriptor, off_t offset);
STINT_API void *mmap64(void *address, size_t length, int protection, int flags, int descriptor, off64_t offset);
STINT_API int munmap(void *address, size_t length);
STINT_API void *mremap(void *address, size_t old_length, size_t new_length, int flags, ...);

#define PAGE ((size_t)4096)
#define HUGE_PAGE_SHIFT 21 /* where nothing else is asked for */
#define LARGEST ((size_t)1 << 62)

static struct sti_caller_module backend; /* mimalloc's module; nothing where that is this library's */

__attribute__((constructor)) static void find_backend(void)
{
    struct dl_find_object found;
    if (_dl_find_object((void *)(uintptr_t)sti_backend_address(), &found) != 0 ||
        sti_caller_is_this_module(sti_backend_address()))
        return;
    uintptr_t begin = (uintptr_t)found.dlfo_map_start;
    backend = (struct sti_caller_module){ .begin = begin, .size = (uintptr_t)found.dlfo_map_end - begin };
}

static bool is_backend(const void *caller)
{
    return sti_caller_in(&backend, caller);
}

/* The thread's record if it is a task that asks; otherwise NULL. */
static struct sti_thread *thread_in_task(const void *caller)
{
    struct sti_thread *thread = sti_thread_metered;
    bool is_task = thread != NULL && sti_thread_counted == thread && !is_backend(caller) &&
                   atomic_load_explicit(&sti_link_is_good, memory_order_relaxed);
    return is_task ? thread : NULL;
}

static size_t round_up(size_t length, size_t page)
{
    return length <= LARGEST ? (length + page - 1) & ~(page - 1) : 0;
}

static void *fail(struct sti_mapping *mapping)
{
    sti_mapping_drop(mapping);
    errno = ENOMEM;
    return MAP_FAILED;
}

static int refuse(void)
{
    errno = ENOMEM;
    return -1;
}

/* --- mmap --------------------------------------------------------------------------------------------------------- */

struct wanted {
    void *address;
    size_t length;
    int protection;
    int flags;
    int descriptor;
    off64_t offset;
};

static void *map_plainly(const struct wanted *wanted, int more_flags)
{
    STI_LIBC_FUNCTION(mmap64)
    return plain(wanted->address, wanted->length, wanted->protection, wanted->flags | more_flags, wanted->descriptor,
                 wanted->offset);
}

static int unmap_plainly(void *address, size_t length)
{
    STI_LIBC_FUNCTION(munmap)
    return plain(address, length);
}

static size_t size_of(const struct wanted *wanted)
{
    unsigned shift = (unsigned)wanted->flags >> MAP_HUGE_SHIFT & MAP_HUGE_MASK;
    size_t huge = (size_t)1 << (shift != 0 ? shift : HUGE_PAGE_SHIFT);
    return round_up(wanted->length, (wanted->flags & MAP_HUGETLB) != 0 ? huge : PAGE);
}

static enum sti_mapping_kind kind_of(const struct wanted *wanted)
{
    if ((wanted->flags & MAP_TYPE) != MAP_PRIVATE)
        return (wanted->flags & MAP_ANONYMOUS) != 0 ? STI_MAPPING_CHARGED : STI_MAPPING_FREE;
    return (wanted->protection & PROT_WRITE) != 0 ? STI_MAPPING_CHARGED : STI_MAPPING_RESERVED;
}

/* Who may have as much of the rest as he likes has a record of each all the same. */
static bool charge(struct sti_thread *thread, enum sti_mapping_kind kind, size_t size, const void *caller)
{
    if (kind == STI_MAPPING_CHARGED)
        return sti_meter_charge_pages(thread, size, caller);
    return sti_record_charge_to(thread, sizeof(struct sti_mapping), caller);
}

static void *map_in_place(const struct wanted *wanted, uintptr_t begin, uintptr_t end)
{
    void *made = map_plainly(wanted, 0);
    int saved_errno = errno;
    if (made == MAP_FAILED)
        sti_place_give_up(begin, end);
    struct sti_mapping *mapping = made != MAP_FAILED ? sti_mapping_first(begin, end) : NULL;
    for (; mapping != NULL; mapping = sti_mapping_first(mapping->end, end))
        sti_mapping_set_kind(mapping, kind_of(wanted));
    errno = saved_errno;
    return made;
}

/* In the place of whatever is there: that is still whose it was. What was free is the owner's; NULL: the process's. */
static void *map_over(const struct wanted *wanted, struct sti_mapped *owner)
{
    uintptr_t begin = (uintptr_t)wanted->address;
    uintptr_t end = begin + size_of(wanted);
    bool is_noted = owner != NULL || sti_mapping_any();
    if (!is_noted || end <= begin || begin % PAGE != 0 || !sti_mapping_lock())
        return map_plainly(wanted, 0);
    bool is_ready = sti_mapping_cut(begin, end) && (owner == NULL || sti_place_claim(begin, end, owner));
    void *made = is_ready ? map_in_place(wanted, begin, end) : fail(NULL);
    sti_mapping_unlock();
    return made;
}

static bool replaces(int flags)
{
    return (flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) == MAP_FIXED;
}

/* A task that maps where something is may not own that: an allocator of the process's has reserved it, which takes a
 * part of it into use. So first it is tried whether the place is free. True: it has been mapped, or cannot be. */
static bool map_where_free(const struct wanted *wanted, void **made)
{
    int saved_errno = errno;
    *made = map_plainly(wanted, MAP_FIXED_NOREPLACE);
    if (*made == wanted->address || (*made == MAP_FAILED && errno != EEXIST))
        return true;
    if (*made != MAP_FAILED)
        unmap_plainly(*made, wanted->length); /* a kernel that does not know the flag takes it for a hint */
    errno = saved_errno;
    return false;
}

static void note(struct sti_mapping *mapping, void *made, const struct wanted *wanted, struct sti_mapped *owner)
{
    if (made == MAP_FAILED || !sti_mapping_lock()) {
        sti_mapping_drop(mapping);
        return;
    }
    sti_mapping_put(mapping, (uintptr_t)made, (uintptr_t)made + size_of(wanted), kind_of(wanted), owner);
    sti_mapping_unlock();
}

static void *map_in_task(struct sti_thread *thread, const struct wanted *wanted, const void *caller)
{
    bool is_kept = sti_meter_is_kept_block(thread, caller);
    if (!charge(thread, kind_of(wanted), size_of(wanted), caller))
        return fail(NULL);
    if (is_kept)
        return replaces(wanted->flags) ? map_over(wanted, NULL) : map_plainly(wanted, 0);
    struct sti_mapped *owner = sti_mapped_of(thread->scope);
    struct sti_mapping *mapping = owner != NULL ? sti_mapping_new() : NULL;
    if (mapping == NULL)
        return fail(NULL);
    void *made;
    if (!replaces(wanted->flags)) {
        made = map_plainly(wanted, 0);
    } else if (!map_where_free(wanted, &made)) {
        sti_mapping_drop(mapping);
        return map_over(wanted, owner);
    }
    note(mapping, made, wanted, owner);
    return made;
}

STI_INLINE void *map(const struct wanted *wanted, const void *caller)
{
    struct sti_thread *thread = thread_in_task(caller);
    if (STI_UNLIKELY(thread != NULL))
        return map_in_task(thread, wanted, caller);
    bool is_plain = STI_LIKELY(!replaces(wanted->flags)) || is_backend(caller);
    return is_plain ? map_plainly(wanted, 0) : map_over(wanted, NULL);
}

void *mmap(void *address, size_t length, int protection, int flags, int descriptor, off_t offset)
{
    const struct wanted wanted = { address, length, protection, flags, descriptor, offset };
    return map(&wanted, STI_CALLER());
}

void *mmap64(void *address, size_t length, int protection, int flags, int descriptor, off64_t offset)
{
    const struct wanted wanted = { address, length, protection, flags, descriptor, offset };
    return map(&wanted, STI_CALLER());
}

/* --- munmap ------------------------------------------------------------------------------------------------------- */

/* Off the record first: when the system has them back, others may have the same addresses at once. */
static int unmap_noted(void *address, size_t length)
{
    uintptr_t begin = (uintptr_t)address;
    uintptr_t end = begin + round_up(length, PAGE);
    if (begin % PAGE != 0 || end <= begin || !sti_mapping_lock())
        return unmap_plainly(address, length);
    bool is_cut = sti_mapping_cut(begin, end);
    struct sti_mapping *list = is_cut ? sti_mapping_take_all(begin, end) : NULL;
    sti_mapping_unlock();
    if (!is_cut)
        return refuse();
    int result = unmap_plainly(address, length);
    int saved_errno = errno;
    if (result != 0 && list != NULL && sti_mapping_lock()) {
        list = sti_mapping_put_back(list);
        sti_mapping_unlock();
    }
    sti_mapping_drop_all(list);
    errno = saved_errno;
    return result;
}

int munmap(void *address, size_t length)
{
    if (is_backend(STI_CALLER()))
        return unmap_plainly(address, length);
    if (STI_UNLIKELY(sti_kept_may_contain(address)))
        sti_kept_forget(address);
    return STI_UNLIKELY(sti_mapping_any()) ? unmap_noted(address, length) : unmap_plainly(address, length);
}

/* --- mprotect ----------------------------------------------------------------------------------------------------- */

/* Of these pages, how many bytes count once they can be written to. Their stretches end where these do. False: out of
 * memory. */
static bool find_reserved(uintptr_t begin, uintptr_t end, size_t *reserved)
{
    *reserved = 0;
    if (!sti_mapping_any() || !sti_mapping_lock())
        return true;
    bool is_cut = sti_mapping_cut(begin, end);
    const struct sti_mapping *mapping = sti_mapping_first(begin, end);
    for (; is_cut && mapping != NULL; mapping = sti_mapping_first(mapping->end, end))
        *reserved += mapping->kind == STI_MAPPING_RESERVED ? mapping->end - mapping->begin : 0;
    sti_mapping_unlock();
    return is_cut;
}

/* A protection that fails where nothing is mapped has made writable what lies before it. */
static void take_into_use(uintptr_t begin, uintptr_t end)
{
    if (!sti_mapping_lock())
        return;
    struct sti_mapping *mapping = sti_mapping_first(begin, end);
    for (; mapping != NULL; mapping = sti_mapping_first(mapping->end, end)) {
        if (mapping->kind == STI_MAPPING_RESERVED)
            sti_mapping_set_kind(mapping, STI_MAPPING_CHARGED);
    }
    sti_mapping_unlock();
}

static int protect(void *address, size_t length, int protection, int key, const void *caller)
{
    uintptr_t begin = (uintptr_t)address;
    uintptr_t end = begin + round_up(length, PAGE);
    size_t reserved = 0;
    if ((protection & PROT_WRITE) != 0 && begin % PAGE == 0 && end > begin && !is_backend(caller) &&
        !find_reserved(begin, end, &reserved))
        return refuse();
    struct sti_thread *thread = reserved > 0 ? thread_in_task(caller) : NULL;
    if (thread != NULL && !sti_meter_charge_pages(thread, reserved, caller))
        return -1;
    int result = sti_protect_plainly(address, length, protection, key);
    if (reserved > 0 && (result == 0 || errno == ENOMEM))
        take_into_use(begin, end);
    return result;
}

__attribute__((constructor)) static void hear_of_protections(void)
{
    sti_protect_by(protect);
}

/* --- mremap ------------------------------------------------------------------------------------------------------- */

struct move {
    uintptr_t begin;
    size_t size;
    size_t new_size;
    int flags;
    uintptr_t to;
    bool stays; /* what was there */
};

static void *move_plainly(const struct move *move, size_t old_length, size_t new_length)
{
    STI_LIBC_FUNCTION(mremap)
    return plain((void *)move->begin, old_length, new_length, move->flags, (void *)move->to);
}

static bool has_place(const struct move *move)
{
    return (move->flags & MREMAP_FIXED) != 0;
}

static bool cut(const struct move *move)
{
    size_t stays = move->size < move->new_size ? move->size : move->new_size;
    return sti_mapping_cut(move->begin, move->begin + move->size) &&
           sti_mapping_cut(move->begin, move->begin + stays) &&
           (!has_place(move) || sti_mapping_cut(move->to, move->to + move->new_size));
}

/* The last of what is moved: what is added to it is of its kind. */
static struct sti_mapping *last_of(uintptr_t begin, size_t size)
{
    uintptr_t last = size > 0 ? begin + size - 1 : begin;
    return sti_mapping_first(last, last + 1);
}

/* For what a task has mapped. */
static bool claim_place(const struct move *move)
{
    const struct sti_mapping *last = has_place(move) ? last_of(move->begin, move->size) : NULL;
    return last == NULL || sti_place_claim(move->to, move->to + move->new_size, last->owner);
}

/* What has been taken off, at its new place. Returns the rest, which is no more. */
static struct sti_mapping *put_at(const struct move *move, struct sti_mapping *list, uintptr_t to)
{
    struct sti_mapping *rest = NULL;
    while (list != NULL) {
        struct sti_mapping *mapping = list;
        list = mapping->next;
        size_t offset = mapping->begin - move->begin;
        if (offset < move->new_size) {
            sti_mapping_put(mapping, to + offset, to + (mapping->end - move->begin), mapping->kind, mapping->owner);
        } else {
            mapping->next = rest;
            rest = mapping;
        }
    }
    return rest;
}

/* The pages are at to. spare becomes part of the tree, or is dropped. */
static void put_moved(const struct move *move, uintptr_t to, struct sti_mapping *old, struct sti_mapping *spare)
{
    const struct sti_mapping *last = last_of(move->begin, move->size);
    if (move->stays && last != NULL) {
        sti_mapping_put(spare, to, to + move->new_size, move->size > 0 ? last->kind : STI_MAPPING_FREE, last->owner);
        return;
    }
    sti_mapping_drop(spare);
    sti_mapping_drop_all(put_at(move, old, to));
    struct sti_mapping *grown = move->stays ? NULL : last_of(to, move->size);
    if (move->new_size > move->size && grown != NULL)
        sti_mapping_grow(grown, to + move->new_size);
}

/* It has been done. */
static void follow(const struct move *move, uintptr_t to, struct sti_mapping *spare)
{
    struct sti_mapping *old = move->stays ? NULL : sti_mapping_take_all(move->begin, move->begin + move->size);
    struct sti_mapping *before = sti_mapping_take_all(to, to + move->new_size);
    put_moved(move, to, old, spare);
    if (has_place(move))
        sti_place_settle(to, to + move->new_size, before);
    sti_mapping_drop_all(before);
}

static void *move_in_record(const struct move *move, size_t old_length, size_t new_length, struct sti_mapping *spare)
{
    void *made = move_plainly(move, old_length, new_length);
    int saved_errno = errno;
    if (made != MAP_FAILED) {
        follow(move, (uintptr_t)made, spare);
    } else {
        sti_mapping_drop(spare);
        if (has_place(move))
            sti_place_give_up(move->to, move->to + move->new_size);
    }
    errno = saved_errno;
    return made;
}

static void *move_noted(const struct move *move, size_t old_length, size_t new_length)
{
    struct sti_mapping *spare = sti_mapping_new();
    if (spare == NULL || !sti_mapping_lock())
        return fail(spare);
    bool is_ready = cut(move) && claim_place(move);
    void *made = is_ready ? move_in_record(move, old_length, new_length, spare) : fail(spare);
    sti_mapping_unlock();
    return made;
}

/* Bytes that are to be charged for it. */
static size_t growth(const struct move *move)
{
    if (move->size == 0 || !sti_mapping_lock())
        return 0;
    const struct sti_mapping *last = last_of(move->begin, move->size);
    bool counts = last != NULL && last->kind == STI_MAPPING_CHARGED;
    sti_mapping_unlock();
    if (!counts)
        return 0;
    return move->stays ? move->new_size : move->new_size > move->size ? move->new_size - move->size : 0;
}

static void *move_in_task(const struct move *move, size_t old_length, size_t new_length, const void *caller)
{
    struct sti_thread *thread = thread_in_task(caller);
    size_t grown = thread != NULL ? growth(move) : 0;
    if (grown > 0 && !sti_meter_charge_pages(thread, grown, caller))
        return fail(NULL);
    return move_noted(move, old_length, new_length);
}

static bool is_valid(const struct move *move)
{
    bool is_place = move->to % PAGE == 0 && move->to + move->new_size > move->to;
    return move->begin % PAGE == 0 && move->new_size > 0 && move->size <= LARGEST && (is_place || !has_place(move));
}

void *mremap(void *address, size_t old_length, size_t new_length, int flags, ...)
{
    struct move move = {
        .begin = (uintptr_t)address,
        .size = round_up(old_length, PAGE),
        .new_size = round_up(new_length, PAGE),
        .flags = flags,
        .stays = old_length == 0 || (flags & MREMAP_DONTUNMAP) != 0,
    };
    if ((flags & (MREMAP_FIXED | MREMAP_DONTUNMAP)) != 0) {
        va_list arguments;
        va_start(arguments, flags);
        move.to = (uintptr_t)va_arg(arguments, void *);
        va_end(arguments);
    }
    if (STI_LIKELY(!sti_mapping_any()) || !is_valid(&move))
        return move_plainly(&move, old_length, new_length);
    return move_in_task(&move, old_length, new_length, STI_CALLER());
}
