/* SPDX-License-Identifier: MIT
 *
 * Overrides of what asks the system itself for pages, moves them and gives them back, so that what a task has of them
 * counts for its limits and goes with a rollback (mapping.h). Any thread; as little as possible where no task has
 * mapped anything.
 *
 * libc's and the loader's own calls do not come here. mimalloc's do, and are told by their return address; where it is
 * a part of this library it makes system calls itself (subprojects/packagefiles/mimalloc). They go on to the system
 * without a look at the record, whose lock is held where blocks are made: mimalloc may have locks of its own there. */
/* Each name is to be its own function, not that of another one. */
#undef _FILE_OFFSET_BITS
#include "override_mapping.h"

#include <errno.h>
#include <stdarg.h>
#include <stint/api.h>
#include <sys/mman.h>

#include "alloc/base/backend.h"
#include "alloc/base/caller.h"
#include "alloc/base/lasting.h"
#include "alloc/base/module.h"
#include "alloc/base/scope_state.h"
#include "alloc/rollback/kept.h"
#include "alloc/rollback/mapping.h"
#include "allocate.h"

STINT_API void *mmap(void *address, size_t length, int protection, int flags, int descriptor, off_t offset);
STINT_API void *mmap64(void *address, size_t length, int protection, int flags, int descriptor, off64_t offset);
STINT_API int munmap(void *address, size_t length);
STINT_API void *mremap(void *address, size_t old_length, size_t new_length, int flags, ...);
STINT_API int mprotect(void *address, size_t length, int protection);
STINT_API int pkey_mprotect(void *address, size_t length, int protection, int key);

#define PAGE ((size_t)4096)
#define LARGEST ((size_t)1 << 62)
#define HUGE_PAGE_SHIFT 21 /* where nothing else is asked for */

static struct sti_caller_module backend; /* mimalloc's module; nothing where that is this library's */

static void find_backend(void)
{
    if (!sti_caller_is_this_module(sti_backend_address()))
        backend = sti_caller_module_of(sti_backend_address());
}

static bool is_backend(const void *caller)
{
    return sti_caller_in(&backend, caller);
}

/* The thread's record if it is a task that asks; otherwise NULL. */
static struct sti_thread *asker(const void *caller)
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

/* Of whole pages that can be there. */
static bool is_place(uintptr_t begin, uintptr_t end)
{
    return begin % PAGE == 0 && end > begin;
}

static int refuse(int error)
{
    errno = error;
    return -1;
}

static void *fail(int error)
{
    errno = error;
    return MAP_FAILED;
}

static size_t record_count(void)
{
    return atomic_load_explicit(&sti_mapping_count, memory_order_relaxed);
}

/* The task is charged for the records that there are beyond so many. That is no sample point, as no memory that is
 * given back is to be refused: the next one sees it. With the lock of the record; NULL: nobody is. */
static void charge_records(struct sti_thread *thread, size_t paid)
{
    size_t count = record_count();
    if (thread == NULL || count <= paid)
        return;
    uint64_t charge = (count - paid) * sti_meter_rounded(sizeof(struct sti_mapping));
    thread->used += charge;
    if (thread->sampling.next != UINT64_MAX) /* a profile that runs is not told of records */
        thread->sampling.next += charge;
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

static void *map_plainly(const struct wanted *wanted)
{
    STI_LIBC_FUNCTION(mmap64)
    return plain(wanted->address, wanted->length, wanted->protection, wanted->flags, wanted->descriptor,
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
    if ((wanted->protection & PROT_WRITE) != 0)
        return STI_MAPPING_CHARGED;
    return (wanted->flags & MAP_ANONYMOUS) != 0 ? STI_MAPPING_RESERVED : STI_MAPPING_READ;
}

/* Who may have as much of the rest as he likes has a record of each all the same. */
static bool charge(struct sti_thread *thread, enum sti_mapping_kind kind, size_t size, const void *caller)
{
    if (kind == STI_MAPPING_CHARGED)
        return sti_meter_charge_pages(thread, size, caller);
    return sti_record_charge_to(thread, sizeof(struct sti_mapping), caller);
}

static bool replaces(int flags)
{
    return (flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) == MAP_FIXED;
}

/* In the place of whatever is there: that is still whose it was. What was free is the owner's; NULL: the process's. The
 * thread, of a task, is charged for what is more than one record, unless it is for the pages. */
static void *map_over(const struct wanted *wanted, struct sti_mapped *owner, struct sti_thread *thread)
{
    uintptr_t begin = (uintptr_t)wanted->address;
    uintptr_t end = begin + size_of(wanted);
    if ((owner == NULL && !sti_mapping_any()) || !is_place(begin, end) || !sti_mapping_lock())
        return map_plainly(wanted);
    size_t paid = record_count() + 1;
    void *made = sti_place_claim(begin, end, owner) ? map_plainly(wanted) : fail(ENOMEM);
    int saved_errno = errno;
    if (made != MAP_FAILED)
        sti_place_fill(begin, end, kind_of(wanted), NULL);
    else
        sti_place_give_up(begin, end);
    sti_mapping_join(begin, end);
    if (kind_of(wanted) != STI_MAPPING_CHARGED)
        charge_records(thread, paid);
    sti_mapping_unlock();
    errno = saved_errno;
    return made;
}

/* Where other threads know where it is going to be the lock is taken before: whatever they do there, they do it before
 * or after. */
static void *map_anew(const struct wanted *wanted, struct sti_mapped *owner)
{
    struct sti_mapping *mapping = sti_mapping_new();
    if (mapping == NULL)
        return fail(ENOMEM);
    bool is_known = (wanted->flags & MAP_FIXED_NOREPLACE) != 0 && sti_mapping_lock();
    void *made = map_plainly(wanted);
    bool is_noted = is_known || (made != MAP_FAILED && sti_mapping_lock());
    if (is_noted && made != MAP_FAILED)
        sti_mapping_put(mapping, (uintptr_t)made, (uintptr_t)made + size_of(wanted), kind_of(wanted), owner);
    else
        sti_mapping_drop(mapping);
    if (is_noted)
        sti_mapping_unlock();
    return made;
}

/* A task that protects pages of its heap is charged for the record. False: out of memory. */
static bool note_protection(uintptr_t begin, uintptr_t end, const void *caller)
{
    struct sti_thread *thread = asker(caller);
    if (thread == NULL || !sti_protection_concerns(thread, begin))
        return true;
    return sti_record_charge_to(thread, sizeof(struct sti_mapping), caller) &&
           sti_protection_note(thread->scope, begin, end);
}

static bool is_open(int protection)
{
    return (protection & (PROT_READ | PROT_WRITE)) == (PROT_READ | PROT_WRITE);
}

/* Pages of its heap are protected, too, where something is put in their place that is. */
static bool note_place(const struct wanted *wanted, const void *caller)
{
    uintptr_t begin = (uintptr_t)wanted->address;
    bool is_noted = begin % PAGE == 0 && replaces(wanted->flags) && !is_open(wanted->protection);
    return !is_noted || note_protection(begin, begin + size_of(wanted), caller);
}

static void *map_in_task(struct sti_thread *thread, const struct wanted *wanted, const void *caller)
{
    bool is_kept = sti_meter_is_kept_block(thread, caller);
    if (!charge(thread, kind_of(wanted), size_of(wanted), caller))
        return fail(ENOMEM);
    struct sti_mapped *owner = is_kept ? NULL : sti_mapped_of(thread->scope);
    if (!is_kept && (owner == NULL || !note_place(wanted, caller)))
        return fail(ENOMEM);
    if (replaces(wanted->flags))
        return map_over(wanted, owner, thread);
    return is_kept ? map_plainly(wanted) : map_anew(wanted, owner);
}

STI_INLINE void *map(const struct wanted *wanted, const void *caller)
{
    struct sti_thread *thread = asker(caller);
    if (STI_UNLIKELY(replaces(wanted->flags)) && !is_backend(caller))
        sti_readable_note(wanted->address, wanted->protection);
    if (STI_UNLIKELY(thread != NULL))
        return map_in_task(thread, wanted, caller);
    bool is_plain = STI_LIKELY(!replaces(wanted->flags)) || is_backend(caller);
    return is_plain ? map_plainly(wanted) : map_over(wanted, NULL, NULL);
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

/* With the lock: before it is off the record others may have the same addresses, but enter none; and what others map in
 * this place meanwhile would be taken for what is still there. */
static int unmap_in_record(void *address, size_t length)
{
    uintptr_t begin = (uintptr_t)address;
    uintptr_t end = begin + round_up(length, PAGE);
    if (!sti_mapping_cut(begin, end))
        return refuse(ENOMEM);
    int result = unmap_plainly(address, length);
    if (result == 0)
        sti_mapping_forget(begin, end);
    else
        sti_mapping_join(begin, end);
    return result;
}

static int unmap_noted(void *address, size_t length, struct sti_thread *thread)
{
    if (!is_place((uintptr_t)address, (uintptr_t)address + round_up(length, PAGE)) || !sti_mapping_lock())
        return unmap_plainly(address, length);
    size_t paid = record_count();
    int result = unmap_in_record(address, length);
    int saved_errno = errno;
    charge_records(thread, paid);
    sti_mapping_unlock();
    errno = saved_errno;
    return result;
}

int munmap(void *address, size_t length)
{
    if (is_backend(STI_CALLER()))
        return unmap_plainly(address, length);
    if (STI_UNLIKELY(sti_kept_may_contain(address)))
        sti_kept_forget(address);
    return STI_UNLIKELY(sti_mapping_any()) ? unmap_noted(address, length, asker(STI_CALLER()))
                                           : unmap_plainly(address, length);
}

/* --- mprotect ----------------------------------------------------------------------------------------------------- */

/* Of these pages, how many bytes count once they can be written to. */
static size_t reserved_in(uintptr_t begin, uintptr_t end)
{
    size_t reserved = 0;
    if (!sti_mapping_any() || !sti_mapping_lock())
        return 0;
    const struct sti_mapping *mapping = sti_mapping_first(begin, end);
    for (; mapping != NULL; mapping = sti_mapping_first(mapping->end, end)) {
        uintptr_t first = mapping->begin > begin ? mapping->begin : begin;
        uintptr_t last = mapping->end < end ? mapping->end : end;
        reserved += sti_mapping_may_count(mapping->kind) ? last - first : 0;
    }
    sti_mapping_unlock();
    return reserved;
}

/* False: out of memory. */
static bool take_into_use(uintptr_t begin, uintptr_t end)
{
    if (!sti_mapping_lock())
        return true;
    bool is_cut = sti_mapping_cut(begin, end);
    struct sti_mapping *mapping = is_cut ? sti_mapping_first(begin, end) : NULL;
    for (; mapping != NULL; mapping = sti_mapping_first(mapping->end, end)) {
        if (sti_mapping_may_count(mapping->kind))
            sti_mapping_set_kind(mapping, STI_MAPPING_CHARGED);
    }
    sti_mapping_join(begin, end);
    sti_mapping_unlock();
    return is_cut;
}

/* A page of a module's data that is forbidden must not be scanned for roots. Nothing is cut before it has been charged.
 * A call that fails then counts all the same: where something is not mapped,
 * the system has made writable what lies before it. */
static int protect(void *address, size_t length, int protection, int key, const void *caller)
{
    uintptr_t begin = (uintptr_t)address;
    uintptr_t end = begin + round_up(length, PAGE);
    sti_readable_note(address, protection);
    if (!is_place(begin, end) || is_backend(caller))
        return sti_protect_plainly(address, length, protection, key);
    bool opens = is_open(protection);
    size_t reserved = (protection & PROT_WRITE) != 0 ? reserved_in(begin, end) : 0;
    struct sti_thread *thread = reserved > 0 ? asker(caller) : NULL;
    if (thread != NULL && !sti_meter_charge_pages(thread, reserved, caller))
        return -1;
    if ((reserved > 0 && !take_into_use(begin, end)) || (!opens && !note_protection(begin, end, caller)))
        return refuse(ENOMEM);
    int result = sti_protect_plainly(address, length, protection, key);
    if (result == 0 && opens && sti_mapping_any())
        sti_protection_forget(begin, end);
    return result;
}

int mprotect(void *address, size_t length, int protection)
{
    return protect(address, length, protection, STI_NO_KEY, STI_CALLER());
}

int pkey_mprotect(void *address, size_t length, int protection, int key)
{
    return protect(address, length, protection, key, STI_CALLER());
}

/* --- mremap -------------------------------------------------------------------------------------------------------
 *
 * One mapping is moved at a time. From Linux 6.17 on a call may move several, with holes between them, and fail at any;
 * where tasks have something to do with such a one it is refused with EFAULT, as by an older kernel. */

struct move {
    uintptr_t begin;
    uintptr_t end; /* of the old pages */
    size_t new_size;
    int flags;
    uintptr_t to; /* where it has a place */
    bool stays;   /* what was there */
    /* What there will be, and whose: the kind and the owner of the old pages, or of the same pages mapped once more.
     * NULL: the process's. */
    enum sti_mapping_kind kind;
    struct sti_mapped *owner;
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

/* It stays where it is, and the system unmaps what lies behind the new end. */
static bool only_shrinks(const struct move *move)
{
    return !has_place(move) && !move->stays && move->new_size <= move->end - move->begin;
}

/* False: it is not one mapping. Those that the record knows, and the process's, are. */
static bool find_owner(struct move *move)
{
    uintptr_t end = move->end - move->begin < move->new_size ? move->end : move->begin + move->new_size;
    const struct sti_mapping *mapping = sti_mapping_first(move->begin, end);
    if (mapping == NULL)
        return !has_place(move) || !sti_place_has_hole(move->begin, end);
    move->kind = mapping->kind;
    move->owner = mapping->owner;
    return mapping->begin <= move->begin && mapping->end >= end && mapping->kind != STI_MAPPING_PROTECTED;
}

/* The lock is held until it has been done. */
static bool cut(const struct move *move)
{
    return sti_mapping_cut(move->begin, move->end) && sti_mapping_cut(move->begin, move->begin + move->new_size) &&
           (!has_place(move) || sti_place_claim(move->to, move->to + move->new_size, move->owner));
}

/* It has been done. */
static void follow(const struct move *move, uintptr_t made, struct sti_mapping *spare)
{
    uintptr_t end = made + move->new_size;
    bool is_moved = made != move->begin;
    if (!move->stays)
        sti_mapping_forget(is_moved ? move->begin : end, move->end);
    if (only_shrinks(move))
        return;
    if (move->owner == NULL)
        sti_mapping_forget(made, end);
    else if (has_place(move))
        sti_place_fill(made, end, move->kind, move->owner);
    else if (is_moved)
        sti_mapping_put(spare, made, end, move->kind, move->owner);
    else if (end > move->end)
        sti_mapping_grow(sti_mapping_first(made, end), end);
}

/* It has failed. Where it has been made in part, as the kernel has one of the record's in several, what has not arrived
 * is left to the process. */
static void follow_failed(const struct move *move)
{
    bool is_whole = move->begin == move->end || !sti_place_has_hole(move->begin, move->end);
    sti_place_give_up(move->begin, move->end);
    if (!has_place(move))
        return;
    if (!is_whole && move->owner != NULL)
        sti_place_fill(move->to, move->to + move->new_size, move->kind, move->owner);
    else
        sti_place_give_up(move->to, move->to + move->new_size);
}

/* With the lock. */
static void *move_in_record(struct move *move, size_t old_length, size_t new_length)
{
    if (move->begin != move->end && !only_shrinks(move) && !find_owner(move))
        return fail(EFAULT);
    bool puts = move->owner != NULL && !has_place(move) && !only_shrinks(move);
    struct sti_mapping *spare = puts ? sti_mapping_new() : NULL;
    bool is_ready = (!puts || spare != NULL) && cut(move);
    void *made = is_ready ? move_plainly(move, old_length, new_length) : fail(ENOMEM);
    int saved_errno = errno;
    if (made != MAP_FAILED)
        follow(move, (uintptr_t)made, spare);
    else if (is_ready)
        follow_failed(move);
    if (made == MAP_FAILED || (uintptr_t)made == move->begin)
        sti_mapping_drop(spare);
    sti_mapping_join(move->begin, move->end);
    if (has_place(move))
        sti_mapping_join(move->to, move->to + move->new_size);
    errno = saved_errno;
    return made;
}

/* paid: for so many records the thread, of a task, has been charged. */
static void *move_noted(struct move *move, size_t old_length, size_t new_length, struct sti_thread *thread, size_t paid)
{
    if (!sti_mapping_lock())
        return fail(ENOMEM);
    paid += record_count();
    void *made = move_in_record(move, old_length, new_length);
    charge_records(thread, paid);
    sti_mapping_unlock();
    return made;
}

/* Bytes that are to be charged for it: pages. Those that are added count if the last one does. */
static size_t growth(const struct move *move)
{
    size_t size = move->end - move->begin;
    size_t grown = move->stays ? size : move->new_size > size ? move->new_size - size : 0;
    if (size == 0 || grown == 0 || !sti_mapping_lock())
        return 0;
    const struct sti_mapping *mapping = sti_mapping_first(move->end - PAGE, move->end);
    bool counts = mapping != NULL && mapping->kind == STI_MAPPING_CHARGED;
    sti_mapping_unlock();
    return counts ? grown : 0;
}

static void *move_in_task(struct move *move, size_t old_length, size_t new_length, struct sti_thread *thread,
                          const void *caller)
{
    bool is_kept = sti_meter_is_kept_block(thread, caller);
    size_t grown = growth(move);
    bool is_charged = grown > 0 ? sti_meter_charge_pages(thread, grown, caller)
                                : !move->stays || sti_record_charge_to(thread, sizeof(struct sti_mapping), caller);
    if (!is_charged || (move->begin == move->end && !is_kept && (move->owner = sti_mapped_of(thread->scope)) == NULL))
        return fail(ENOMEM);
    return move_noted(move, old_length, new_length, thread,
                      grown > 0 ? grown / sizeof(struct sti_mapping) : move->stays);
}

void *mremap(void *address, size_t old_length, size_t new_length, int flags, ...)
{
    uintptr_t begin = (uintptr_t)address;
    struct move move = {
        .begin = begin,
        .end = begin + round_up(old_length, PAGE),
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
    struct sti_thread *thread = asker(STI_CALLER());
    bool is_copied = old_length == 0 && thread != NULL;
    bool is_valid = is_place(begin, begin + move.new_size) && move.end >= begin &&
                    (!has_place(&move) || is_place(move.to, move.to + move.new_size));
    if ((STI_LIKELY(!sti_mapping_any()) && !is_copied) || !is_valid)
        return move_plainly(&move, old_length, new_length);
    return thread != NULL ? move_in_task(&move, old_length, new_length, thread, STI_CALLER())
                          : move_noted(&move, old_length, new_length, NULL, 0);
}

void sti_override_mapping_start(void)
{
    find_backend();
}
