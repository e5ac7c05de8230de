/* SPDX-License-Identifier: MIT
 *
 * Overrides of what asks the system itself for pages, moves them and gives them back, so that what a task has of them
 * counts for its limits and goes with a rollback (mapping.h). Any thread; as little as possible where no task has
 * mapped anything.
 *
 * libc's and the loader's own calls do not come here. mimalloc's do, and are told by their return address; where it is
 * a part of this library it makes system calls itself (subprojects/packagefiles/mimalloc). mimalloc's calls go on to
 * the system without a look at the record, whose lock is held where blocks are made: mimalloc may have locks of its own
 * there. */
/* Each name is to be its own function, not that of another one. */
#undef _FILE_OFFSET_BITS
#include "override_mapping.h"

#include <errno.h>
#include <stdarg.h>
#include <stint/detail/api.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "alloc/heap/mapping.h"
#include "alloc/heap/retained.h"
#include "alloc/meter/allocate.h"
#include "alloc/platform/backend.h"
#include "alloc/platform/caller.h"
#include "alloc/platform/link.h"
#include "alloc/platform/machine.h"
#include "alloc/platform/module.h"
#include "alloc/platform/permanent.h"
#include "alloc/platform/scope_state.h"
#include "alloc/rollback/undo.h"

STINT_API void *mmap(void *address, size_t length, int protection, int flags, int descriptor, off_t offset);
STINT_API void *mmap64(void *address, size_t length, int protection, int flags, int descriptor, off64_t offset)
    STI_SAME_AS(mmap);
STINT_API int munmap(void *address, size_t length);
STINT_API void *mremap(void *address, size_t old_length, size_t new_length, int flags, ...);
STINT_API int mprotect(void *address, size_t length, int protection);
STINT_API int pkey_mprotect(void *address, size_t length, int protection, int key);
STINT_API int madvise(void *address, size_t length, int advice);
STINT_API int mlock(const void *address, size_t length);
STINT_API int mlock2(const void *address, size_t length, unsigned flags);

#ifndef MADV_GUARD_INSTALL /* glibc 2.36 has it not yet */
#define MADV_GUARD_INSTALL 102
#define MADV_GUARD_REMOVE 103
#endif

#define LARGEST ((size_t)1 << 62)
#define RECORD ((size_t)64) /* what one is charged: with the room that its table has free */
#define HUGE_PAGE_SHIFT 21  /* where nothing else is asked for */

static struct sti_caller_module backend; /* mimalloc's module; nothing where that is this library's */

static void find_backend(void)
{
    if (!sti_caller_is_this_module(sti_backend_address()))
        backend = sti_caller_module_of(sti_backend_address());
}

static bool mapping_is_backend(const void *caller)
{
    return sti_caller_in(&backend, caller);
}

/* The thread's record if it is a task that asks; otherwise NULL. */
static struct sti_thread *mapping_asker(const void *caller)
{
    struct sti_thread *thread = sti_thread_metered;
    bool is_task = thread != NULL && sti_thread_counted == thread && !mapping_is_backend(caller) &&
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
    return begin % sti_page_size() == 0 && end > begin;
}

static int mapping_refuse(int error)
{
    errno = error;
    return -1;
}

static void *mapping_fail(int error)
{
    errno = error;
    return MAP_FAILED;
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

static void *real_map(const struct wanted *wanted)
{
    STI_LIBC_FUNCTION(mmap64)
    return real(wanted->address, wanted->length, wanted->protection, wanted->flags, wanted->descriptor, wanted->offset);
}

static int real_unmap(void *address, size_t length)
{
    STI_LIBC_FUNCTION(munmap)
    return real(address, length);
}

static size_t wanted_size(const struct wanted *wanted)
{
    unsigned shift = (unsigned)wanted->flags >> MAP_HUGE_SHIFT & MAP_HUGE_MASK;
    size_t huge = (size_t)1 << (shift != 0 ? shift : HUGE_PAGE_SHIFT);
    return round_up(wanted->length, (wanted->flags & MAP_HUGETLB) != 0 ? huge : sti_page_size());
}

static enum sti_mapping_kind wanted_kind(const struct wanted *wanted)
{
    if ((wanted->flags & MAP_TYPE) != MAP_PRIVATE)
        return (wanted->flags & MAP_ANONYMOUS) != 0 ? STI_MAPPING_CHARGED : STI_MAPPING_FREE;
    return (wanted->protection & PROT_WRITE) != 0 ? STI_MAPPING_CHARGED : STI_MAPPING_RESERVED;
}

/* Uncharged mappings are unlimited, so the record of each one is charged. */
static bool mapping_charge(struct sti_thread *thread, enum sti_mapping_kind kind, size_t size, const void *caller)
{
    if (kind == STI_MAPPING_CHARGED)
        return sti_meter_charge_pages(thread, size, caller);
    return sti_record_charge_to(thread, RECORD, caller);
}

static bool flags_replace(int flags)
{
    return (flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) == MAP_FIXED;
}

/* In the place of whatever is there, which stays whose it was. Where it has failed, and the system has unmapped
 * something all the same, nothing there is a task's any more. */
static void *map_over(const struct wanted *wanted)
{
    uintptr_t begin = (uintptr_t)wanted->address;
    uintptr_t end = begin + wanted_size(wanted);
    if (!sti_mapping_any() || !is_place(begin, end))
        return real_map(wanted);
    if (!sti_mapping_lock())
        return mapping_fail(ENOMEM);
    void *made = real_map(wanted);
    int saved_errno = errno;
    sti_mapping_cut(begin, end);
    if (made != MAP_FAILED)
        sti_mapping_fill(begin, end, wanted_kind(wanted));
    else if (sti_mapping_has_hole(begin, end))
        sti_mapping_forget(begin, end);
    sti_mapping_join(begin, end);
    sti_mapping_unlock();
    errno = saved_errno;
    return made;
}

static void *map_anew(const struct wanted *wanted, struct sti_mapped *owner)
{
    if (!sti_mapping_lock())
        return mapping_fail(ENOMEM);
    void *made = real_map(wanted);
    if (made != MAP_FAILED)
        sti_mapping_put((uintptr_t)made, (uintptr_t)made + wanted_size(wanted), wanted_kind(wanted), owner);
    sti_mapping_unlock();
    return made;
}

/* --- Pages of its own heaps of which a task has told the kernel something: by mprotect, a guard page below a stack, or
 * what is not to be written to any more; by mlock or madvise, what is not to be swapped out, or not to be in the child
 * of a fork(2). Blocks of a heap that is rolled back go to the next allocation in the process, so a rollback first
 * tells the kernel that they are pages like any other. What a task frees so, or leaves so when it ends Ok, is its
 * program's concern, as it is anywhere.
 *
 * The key of such an entry of the undo log is the range itself: where it begins, an address of so many bits, and behind
 * that, in place of the bits that are 0, how many pages it has, of the smallest that there are. */

#define PAGE_BITS 12
#define LENGTH_BITS (64 - STI_ADDRESS_BITS + PAGE_BITS) /* two TiB, or one; more is refused */

/* NULL: it is longer. */
static void *span_key(uintptr_t begin, uintptr_t end)
{
    size_t pages = (end - begin) >> PAGE_BITS;
    return pages >> LENGTH_BITS == 0 ? (void *)(begin << (LENGTH_BITS - PAGE_BITS) | pages) : NULL;
}

/* All that it may have been told. By system calls, which the overrides do not see. */
static void make_plain(uintptr_t begin, size_t size)
{
    const int advices[] = { MADV_DOFORK, MADV_KEEPONFORK, MADV_DODUMP, MADV_GUARD_REMOVE };
    sti_real_protect((void *)begin, size, PROT_READ | PROT_WRITE, STI_NO_KEY);
    syscall(SYS_munlock, begin, size);
    for (size_t i = 0; i < sizeof advices / sizeof *advices; i++)
        syscall(SYS_madvise, begin, size, advices[i]);
}

/* What the task has freed since may be another heap's, whose task has told the kernel something of it: that stays.
 * mimalloc gives pages from one heap to another in slices, and of a page of some MiB it knows the first ones only: what
 * it does not know is whose those before it are. */
static void make_own_plain(struct sti_scope *scope, void *key, void *unused)
{
    uintptr_t at = (uintptr_t)key >> LENGTH_BITS << PAGE_BITS;
    uintptr_t end = at + (((uintptr_t)key & (((uintptr_t)1 << LENGTH_BITS) - 1)) << PAGE_BITS);
    bool is_own = false;
    uintptr_t first = at;
    (void)unused;
    for (uintptr_t next; at < end; at = next) {
        next = (at | (STI_BACKEND_SLICE - 1)) + 1 < end ? (at | (STI_BACKEND_SLICE - 1)) + 1 : end;
        bool was_own = is_own;
        is_own = sti_backend_has_made((void *)at) ? sti_task_has(scope, at) : is_own;
        if (is_own && !was_own)
            first = at;
        if (was_own && !is_own)
            make_plain(first, at - first);
    }
    if (is_own)
        make_plain(first, end - first);
}

static const struct sti_undo_kind of_protected = { .sort = STI_UNDO_OF_PAGES, .undo = make_own_plain };
static const struct sti_undo_kind of_advised = { .sort = STI_UNDO_OF_PAGES, .undo = make_own_plain };

/* The call is about to do so, and is charged for the entry. False: out of memory. */
static bool note_pages(const struct sti_undo_kind *kind, uintptr_t begin, uintptr_t end, const void *caller)
{
    struct sti_thread *thread = mapping_asker(caller);
    void *key = span_key(begin, end);
    if (thread == NULL || !sti_task_has(thread->scope, begin))
        return true;
    return key != NULL && sti_record_charge_to(thread, RECORD, caller) && sti_undo_add(kind, key, NULL);
}

static bool is_open(int protection)
{
    return (protection & (PROT_READ | PROT_WRITE)) == (PROT_READ | PROT_WRITE);
}

/* Pages of its heap are protected, too, where something is put in their place that is. */
static bool note_place(const struct wanted *wanted, const void *caller)
{
    uintptr_t begin = (uintptr_t)wanted->address;
    bool is_noted = begin % sti_page_size() == 0 && flags_replace(wanted->flags) && !is_open(wanted->protection);
    return !is_noted || note_pages(&of_protected, begin, begin + wanted_size(wanted), caller);
}

/* Where nothing is it is as new, and where something is everywhere it is put in its place. Between the two nobody could
 * say later which pages were whose. */
static void *map_in_place(const struct wanted *wanted, struct sti_mapped *owner)
{
    uintptr_t begin = (uintptr_t)wanted->address;
    uintptr_t end = begin + wanted_size(wanted);
    struct wanted anew = *wanted;
    anew.flags = (wanted->flags & ~MAP_FIXED) | MAP_FIXED_NOREPLACE;
    void *made = map_anew(&anew, owner);
    if (made == wanted->address || (made == MAP_FAILED && errno != EEXIST))
        return made;
    if (made != MAP_FAILED) /* a kernel that does not know the flag takes the address for a hint */
        munmap(made, wanted->length);
    return sti_mapping_has_hole(begin, end) ? mapping_fail(EEXIST) : map_over(wanted);
}

static void *map_in_task(struct sti_thread *thread, const struct wanted *wanted, const void *caller)
{
    bool is_kept = sti_meter_is_kept_block(thread, caller);
    if (!mapping_charge(thread, wanted_kind(wanted), wanted_size(wanted), caller))
        return mapping_fail(ENOMEM);
    struct sti_mapped *owner = is_kept ? NULL : sti_mapped_of(thread->scope);
    if (!is_kept && (owner == NULL || !note_place(wanted, caller)))
        return mapping_fail(ENOMEM);
    if (flags_replace(wanted->flags))
        return is_kept ? map_over(wanted) : map_in_place(wanted, owner);
    return is_kept ? real_map(wanted) : map_anew(wanted, owner);
}

STI_INLINE void *mapping_map(const struct wanted *wanted, const void *caller)
{
    struct sti_thread *thread = mapping_asker(caller);
    if (STI_UNLIKELY(flags_replace(wanted->flags)) && !mapping_is_backend(caller))
        sti_readable_note(wanted->address, wanted->protection);
    if (STI_UNLIKELY(thread != NULL))
        return map_in_task(thread, wanted, caller);
    bool is_plain = STI_LIKELY(!flags_replace(wanted->flags)) || mapping_is_backend(caller);
    return is_plain ? real_map(wanted) : map_over(wanted);
}

void *mmap(void *address, size_t length, int protection, int flags, int descriptor, off_t offset)
{
    const struct wanted wanted = { address, length, protection, flags, descriptor, offset };
    return mapping_map(&wanted, STI_CALLER());
}

/* --- munmap ------------------------------------------------------------------------------------------------------- */

/* With the lock: before it is off the record others may have the same addresses, but enter none; and what others map in
 * this place meanwhile would be taken for what is still there. */
static int unmap_in_record(void *address, size_t length)
{
    uintptr_t begin = (uintptr_t)address;
    uintptr_t end = begin + round_up(length, sti_page_size());
    if (!is_place(begin, end))
        return real_unmap(address, length);
    if (!sti_mapping_lock()) /* or a rollback would unmap what others have got there since */
        return mapping_refuse(ENOMEM);
    int result = real_unmap(address, length);
    if (result == 0) {
        sti_mapping_cut(begin, end);
        sti_mapping_forget(begin, end);
    }
    sti_mapping_unlock();
    return result;
}

int munmap(void *address, size_t length)
{
    if (mapping_is_backend(STI_CALLER()))
        return real_unmap(address, length);
    if (STI_UNLIKELY(sti_retained_may_contain(address)))
        sti_retained_forget(address);
    return STI_UNLIKELY(sti_mapping_any()) ? unmap_in_record(address, length) : real_unmap(address, length);
}

/* --- mprotect ----------------------------------------------------------------------------------------------------- */

/* Of these pages, how many bytes count once they can be written to. */
static size_t reserved_in(uintptr_t begin, uintptr_t end)
{
    size_t reserved = 0;
    if (!sti_mapping_any() || !sti_mapping_lock())
        return 0;
    const struct sti_mapping *mapping;
    for (uintptr_t at = end; at > begin && (mapping = sti_mapping_last(begin, at)) != NULL;) {
        uintptr_t last = mapping->end < at ? mapping->end : at;
        at = mapping->begin > begin ? mapping->begin : begin;
        reserved += mapping->kind == STI_MAPPING_RESERVED ? last - at : 0;
    }
    sti_mapping_unlock();
    return reserved;
}

/* False: out of memory. */
static bool take_into_use(uintptr_t begin, uintptr_t end)
{
    if (!sti_mapping_lock())
        return false;
    sti_mapping_cut(begin, end);
    struct sti_mapping *mapping;
    for (uintptr_t at = end; (mapping = sti_mapping_last(begin, at)) != NULL; at = mapping->begin) {
        if (mapping->kind == STI_MAPPING_RESERVED)
            sti_mapping_set_kind(mapping, STI_MAPPING_CHARGED);
    }
    sti_mapping_join(begin, end);
    sti_mapping_unlock();
    return true;
}

/* A page of a module's data that is forbidden must not be scanned for roots. Nothing is cut before it has been charged.
 * A call that fails then counts all the same: where something is not mapped,
 * the system has made writable what lies before it. */
static int pages_protect(void *address, size_t length, int protection, int key, const void *caller)
{
    uintptr_t begin = (uintptr_t)address;
    uintptr_t end = begin + round_up(length, sti_page_size());
    sti_readable_note(address, protection);
    if (!is_place(begin, end) || mapping_is_backend(caller))
        return sti_real_protect(address, length, protection, key);
    bool opens = is_open(protection);
    size_t reserved = (protection & PROT_WRITE) != 0 ? reserved_in(begin, end) : 0;
    struct sti_thread *thread = reserved > 0 ? mapping_asker(caller) : NULL;
    if (thread != NULL && !sti_meter_charge_pages(thread, reserved, caller))
        return -1;
    if ((reserved > 0 && !take_into_use(begin, end)) || (!opens && !note_pages(&of_protected, begin, end, caller)))
        return mapping_refuse(ENOMEM);
    int result = sti_real_protect(address, length, protection, key);
    if (result == 0 && opens) /* a part of what is noted stays so with the rest of it */
        sti_undo_end(&of_protected, span_key(begin, end), NULL);
    return result;
}

int mprotect(void *address, size_t length, int protection)
{
    return pages_protect(address, length, protection, STI_NO_KEY, STI_CALLER());
}

int pkey_mprotect(void *address, size_t length, int protection, int key)
{
    return pages_protect(address, length, protection, key, STI_CALLER());
}

/* --- madvise and mlock: what stays on pages of a heap. What only a hint of their use is stays on them, too.
 * -------- */

static bool note_advice(const void *address, size_t length, const void *caller)
{
    uintptr_t begin = (uintptr_t)address & ~(sti_page_size() - 1);
    uintptr_t end = round_up((uintptr_t)address + length, sti_page_size());
    return STI_LIKELY(sti_thread_metered == NULL) || !is_place(begin, end) ||
           note_pages(&of_advised, begin, end, caller);
}

int madvise(void *address, size_t length, int advice)
{
    STI_LIBC_FUNCTION(madvise)
    bool stays =
        advice == MADV_DONTFORK || advice == MADV_WIPEONFORK || advice == MADV_DONTDUMP || advice == MADV_GUARD_INSTALL;
    return stays && !note_advice(address, length, STI_CALLER()) ? mapping_refuse(ENOMEM)
                                                                : real(address, length, advice);
}

int mlock(const void *address, size_t length)
{
    STI_LIBC_FUNCTION(mlock)
    return note_advice(address, length, STI_CALLER()) ? real(address, length) : mapping_refuse(ENOMEM);
}

int mlock2(const void *address, size_t length, unsigned flags)
{
    STI_LIBC_FUNCTION(mlock2)
    return note_advice(address, length, STI_CALLER()) ? real(address, length, flags) : mapping_refuse(ENOMEM);
}

/* --- mremap: pages of a task's are grown, shrunk and moved by the system's choice. A place of the caller's choice, or
 * the same pages mapped twice, are refused in a task, and to others where tasks have something there.
 * --------------- */

struct move {
    uintptr_t begin;
    uintptr_t end; /* of the old pages, */
    uintptr_t new_end;
    size_t old_length;
    size_t new_length;
    int flags;
    void *to; /* where it has a place */
};

static void *real_move(const struct move *move)
{
    STI_LIBC_FUNCTION(mremap)
    return real((void *)move->begin, move->old_length, move->new_length, move->flags, move->to);
}

/* One mapping at a time, as every kernel. With the lock. */
static void *grow_in_record(const struct move *move)
{
    struct sti_mapping *mapping = sti_mapping_last(move->begin, move->end);
    if (mapping == NULL)
        return real_move(move);
    if (mapping->begin > move->begin || mapping->end < move->end)
        return mapping_fail(EFAULT);
    uintptr_t made = (uintptr_t)real_move(move);
    enum sti_mapping_kind kind = mapping->kind;
    struct sti_mapped *owner = mapping->owner;
    if (made == move->begin) {
        sti_mapping_put_behind(move->end, move->new_end);
    } else if (made != (uintptr_t)MAP_FAILED) {
        sti_mapping_cut(move->begin, move->end);
        sti_mapping_forget(move->begin, move->end);
        sti_mapping_put(made, made + (move->new_end - move->begin), kind, owner);
    }
    return (void *)made;
}

/* The system unmaps what lies behind the new end. With the lock. */
static void *shrink_in_record(const struct move *move)
{
    void *made = real_move(move);
    if (made != MAP_FAILED) {
        sti_mapping_cut(move->new_end, move->end);
        sti_mapping_forget(move->new_end, move->end);
    }
    return made;
}

static void *move_in_record(const struct move *move)
{
    if (!sti_mapping_lock())
        return mapping_fail(ENOMEM);
    void *made = move->new_end > move->end ? grow_in_record(move) : shrink_in_record(move);
    sti_mapping_unlock();
    return made;
}

/* The bytes that a move is charged for: added pages count if the last page does. */
static size_t move_growth(const struct move *move)
{
    if (move->new_end <= move->end || !sti_mapping_lock())
        return 0;
    const struct sti_mapping *mapping = sti_mapping_last(move->end - sti_page_size(), move->end);
    bool counts = mapping != NULL && mapping->kind == STI_MAPPING_CHARGED;
    sti_mapping_unlock();
    return counts ? move->new_end - move->end : 0;
}

static bool is_recorded(uintptr_t begin, uintptr_t end)
{
    if (!sti_mapping_lock())
        return true;
    bool is = sti_mapping_last(begin, end) != NULL;
    sti_mapping_unlock();
    return is;
}

static void *move_specially(const struct move *move, const struct sti_thread *thread)
{
    uintptr_t to = (move->flags & MREMAP_FIXED) != 0 ? (uintptr_t)move->to : move->begin;
    bool is_refused =
        thread != NULL || is_recorded(move->begin, move->end) || is_recorded(to, to + (move->new_end - move->begin));
    return is_refused ? mapping_fail(ENOTSUP) : real_move(move);
}

void *mremap(void *address, size_t old_length, size_t new_length, int flags, ...)
{
    uintptr_t begin = (uintptr_t)address;
    struct move move = {
        .begin = begin,
        .end = begin + round_up(old_length, sti_page_size()),
        .new_end = begin + round_up(new_length, sti_page_size()),
        .old_length = old_length,
        .new_length = new_length,
        .flags = flags,
    };
    bool is_special = old_length == 0 || (flags & ~MREMAP_MAYMOVE) != 0;
    if ((flags & ~MREMAP_MAYMOVE) != 0) {
        va_list arguments;
        va_start(arguments, flags);
        move.to = va_arg(arguments, void *);
        va_end(arguments);
    }
    struct sti_thread *thread = mapping_asker(STI_CALLER());
    bool is_valid = is_place(begin, move.new_end) && move.end >= begin;
    if ((STI_LIKELY(!sti_mapping_any()) && !(is_special && thread != NULL)) || !is_valid)
        return real_move(&move);
    if (is_special)
        return move_specially(&move, thread);
    size_t grown = thread != NULL ? move_growth(&move) : 0;
    bool is_charged = grown == 0 || sti_meter_charge_pages(thread, grown, STI_CALLER());
    return is_charged ? move_in_record(&move) : mapping_fail(ENOMEM);
}

void sti_override_mapping_start(void)
{
    find_backend();
}
