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
#include "override_mapping.h"

#include <stint/api.h>

#include "alloc/base/lasting.h"
#include "alloc/base/module.h"
#include "alloc/rollback/kept.h"
#include "alloc/rollback/pages.h"
#include "allocate.h"

STINT_API void *mmap(void *address, size_t length, int protection, int flags, int descriptor, off_t offset);
STINT_API void *mmap64(void *address, size_t length, int protection, int flags, int descriptor, off64_t offset);
STINT_API int munmap(void *address, size_t length);

#define HUGE_PAGE_SHIFT 21 /* where nothing else is asked for */

static struct sti_caller_module backend; /* mimalloc's module; nothing where that is this library's */

static void find_backend(void)
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

struct sti_thread *sti_mapping_asker(const void *caller)
{
    struct sti_thread *thread = sti_thread_metered;
    bool is_task = thread != NULL && sti_thread_counted == thread && !is_backend(caller) &&
                   atomic_load_explicit(&sti_link_is_good, memory_order_relaxed);
    return is_task ? thread : NULL;
}

void sti_mapping_charge_records(struct sti_thread *thread, size_t paid)
{
    size_t count = atomic_load_explicit(&sti_mapping_count, memory_order_relaxed);
    if (thread == NULL || count <= paid)
        return;
    uint64_t charge = (count - paid) * sti_meter_rounded(sizeof(struct sti_mapping));
    thread->used += charge;
    if (thread->sampling.next != UINT64_MAX) /* a profile that runs is not told of records */
        thread->sampling.next += charge;
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
    return sti_mapping_round_up(wanted->length, (wanted->flags & MAP_HUGETLB) != 0 ? huge : STI_MAPPING_PAGE);
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

static void *map_in_place(const struct wanted *wanted, uintptr_t begin, uintptr_t end)
{
    void *made = map_plainly(wanted, 0);
    int saved_errno = errno;
    if (made == MAP_FAILED)
        sti_place_give_up(begin, end);
    struct sti_mapping *mapping = made != MAP_FAILED ? sti_mapping_first(begin, end) : NULL;
    for (; mapping != NULL; mapping = sti_mapping_first(mapping->end, end)) {
        sti_mapping_set_kind(mapping, kind_of(wanted));
        mapping->continues |= mapping->begin > begin;
    }
    sti_mapping_join(begin, end);
    errno = saved_errno;
    return made;
}

/* In the place of whatever is there: that is still whose it was. What was free is the owner's; NULL: the process's. The
 * thread, of a task, is charged for what is more than one record, unless it is for the pages. With the lock. */
static void *map_over(const struct wanted *wanted, struct sti_mapped *owner, struct sti_thread *thread)
{
    uintptr_t begin = (uintptr_t)wanted->address;
    uintptr_t end = begin + size_of(wanted);
    if (end <= begin || begin % STI_MAPPING_PAGE != 0)
        return map_plainly(wanted, 0);
    size_t paid = atomic_load_explicit(&sti_mapping_count, memory_order_relaxed) + 1;
    bool is_ready = sti_mapping_cut(begin, end) && (owner == NULL || sti_place_claim(begin, end, owner));
    void *made = is_ready ? map_in_place(wanted, begin, end) : sti_mapping_fail(NULL);
    if (kind_of(wanted) != STI_MAPPING_CHARGED)
        sti_mapping_charge_records(thread, paid);
    return made;
}

/* What was free is the process's. */
static void *map_over_for_process(const struct wanted *wanted, struct sti_thread *thread)
{
    if (!sti_mapping_any() || !sti_mapping_lock())
        return map_plainly(wanted, 0);
    void *made = map_over(wanted, NULL, thread);
    sti_mapping_unlock();
    return made;
}

static bool replaces(int flags)
{
    return (flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) == MAP_FIXED;
}

static bool has_place(int flags)
{
    return (flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) != 0;
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

/* With the lock. */
static void put(struct sti_mapping *mapping, void *made, const struct wanted *wanted, struct sti_mapped *owner)
{
    if (made == MAP_FAILED)
        sti_mapping_drop(mapping);
    else
        sti_mapping_put(mapping, (uintptr_t)made, (uintptr_t)made + size_of(wanted), kind_of(wanted), owner);
}

static void *map_anywhere(const struct wanted *wanted, struct sti_mapping *mapping, struct sti_mapped *owner)
{
    void *made = map_plainly(wanted, 0);
    if (made == MAP_FAILED || !sti_mapping_lock()) {
        sti_mapping_drop(mapping);
        return made;
    }
    put(mapping, made, wanted, owner);
    sti_mapping_unlock();
    return made;
}

/* Where other threads know that it is going to be: whatever they do there, they do it before or after. */
static void *map_there(const struct wanted *wanted, struct sti_mapping *mapping, struct sti_mapped *owner,
                       struct sti_thread *thread)
{
    if (!sti_mapping_lock()) {
        sti_mapping_drop(mapping);
        return map_plainly(wanted, 0);
    }
    void *made = MAP_FAILED;
    if (!replaces(wanted->flags)) {
        put(mapping, made = map_plainly(wanted, 0), wanted, owner);
    } else if (map_where_free(wanted, &made)) {
        put(mapping, made, wanted, owner);
    } else {
        sti_mapping_drop(mapping);
        made = map_over(wanted, owner, thread);
    }
    sti_mapping_unlock();
    return made;
}

/* A task that protects pages of its heap is charged for the record. False: out of memory. */
static bool note_protection(uintptr_t begin, uintptr_t end, const void *caller)
{
    struct sti_thread *thread = sti_mapping_asker(caller);
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
    bool is_noted = begin % STI_MAPPING_PAGE == 0 && replaces(wanted->flags) && !is_open(wanted->protection);
    return !is_noted || note_protection(begin, begin + size_of(wanted), caller);
}

static void *map_in_task(struct sti_thread *thread, const struct wanted *wanted, const void *caller)
{
    bool is_kept = sti_meter_is_kept_block(thread, caller);
    if (!charge(thread, kind_of(wanted), size_of(wanted), caller))
        return sti_mapping_fail(NULL);
    if (is_kept)
        return replaces(wanted->flags) ? map_over_for_process(wanted, thread) : map_plainly(wanted, 0);
    struct sti_mapped *owner = sti_mapped_of(thread->scope);
    struct sti_mapping *mapping = owner != NULL && note_place(wanted, caller) ? sti_mapping_new() : NULL;
    if (mapping == NULL)
        return sti_mapping_fail(NULL);
    return has_place(wanted->flags) ? map_there(wanted, mapping, owner, thread) : map_anywhere(wanted, mapping, owner);
}

STI_INLINE void *map(const struct wanted *wanted, const void *caller)
{
    struct sti_thread *thread = sti_mapping_asker(caller);
    if (STI_UNLIKELY(replaces(wanted->flags)) && !is_backend(caller))
        sti_readable_note(wanted->address, wanted->protection);
    if (STI_UNLIKELY(thread != NULL))
        return map_in_task(thread, wanted, caller);
    bool is_plain = STI_LIKELY(!replaces(wanted->flags)) || is_backend(caller);
    return is_plain ? map_plainly(wanted, 0) : map_over_for_process(wanted, NULL);
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
static int unmap_in_record(void *address, size_t length, struct sti_mapping **list)
{
    uintptr_t begin = (uintptr_t)address;
    uintptr_t end = begin + sti_mapping_round_up(length, STI_MAPPING_PAGE);
    if (!sti_mapping_cut(begin, end))
        return refuse();
    int result = unmap_plainly(address, length);
    if (result == 0)
        *list = sti_mapping_take_all(begin, end);
    else
        sti_mapping_join(begin, end);
    return result;
}

static int unmap_noted(void *address, size_t length, struct sti_thread *thread)
{
    uintptr_t begin = (uintptr_t)address;
    uintptr_t end = begin + sti_mapping_round_up(length, STI_MAPPING_PAGE);
    if (begin % STI_MAPPING_PAGE != 0 || end <= begin || !sti_mapping_lock())
        return unmap_plainly(address, length);
    struct sti_mapping *list = NULL;
    size_t paid = atomic_load_explicit(&sti_mapping_count, memory_order_relaxed);
    int result = unmap_in_record(address, length, &list);
    int saved_errno = errno;
    sti_mapping_charge_records(thread, paid);
    sti_mapping_unlock();
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
    return STI_UNLIKELY(sti_mapping_any()) ? unmap_noted(address, length, sti_mapping_asker(STI_CALLER()))
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

static int protect_noted(void *address, size_t length, int protection, int key, bool opens)
{
    uintptr_t begin = (uintptr_t)address;
    int result = sti_protect_plainly(address, length, protection, key);
    if (result == 0 && opens && sti_mapping_any())
        sti_protection_forget(begin, begin + sti_mapping_round_up(length, STI_MAPPING_PAGE));
    return result;
}

/* Nothing is cut before it has been charged. A call that fails then counts all the same: where something is not mapped,
 * the system has made writable what lies before it. */
static int protect(void *address, size_t length, int protection, int key, const void *caller)
{
    uintptr_t begin = (uintptr_t)address;
    uintptr_t end = begin + sti_mapping_round_up(length, STI_MAPPING_PAGE);
    bool opens = is_open(protection);
    bool is_noted = begin % STI_MAPPING_PAGE == 0 && end > begin && !is_backend(caller);
    if (!is_noted)
        return sti_protect_plainly(address, length, protection, key);
    size_t reserved = (protection & PROT_WRITE) != 0 ? reserved_in(begin, end) : 0;
    struct sti_thread *thread = reserved > 0 ? sti_mapping_asker(caller) : NULL;
    if (thread != NULL && !sti_meter_charge_pages(thread, reserved, caller))
        return -1;
    if ((reserved > 0 && !take_into_use(begin, end)) || (!opens && !note_protection(begin, end, caller)))
        return refuse();
    return protect_noted(address, length, protection, key, opens);
}

void sti_override_mapping_start(void)
{
    find_backend();
    sti_protect_by(protect);
}
