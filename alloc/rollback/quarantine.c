/* SPDX-License-Identifier: MIT
 *
 * The quarantine; see quarantine.h. Thread of the heaps, but for the handler of faults: it reads what may be changed
 * meanwhile by others, so that is never freed, and at worst it names nobody. */
#include "quarantine.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "alloc/heap/heap.h"
#include "alloc/interrupt/hold.h"
#include "alloc/platform/backend.h"
#include "alloc/platform/libc.h"
#include "alloc/platform/machine.h"
#include "alloc/platform/process.h"
#include "alloc/platform/thread.h"

/* Of a thread; and stretches of pages side by side, of a heap: what lies beyond is left accessible, as each may take
 * two of the process's mappings, of 65530. */
#define MAX_HEAPS 32
#define MAX_STRETCHES 16

struct stretch {
    _Atomic uintptr_t begin;
    _Atomic uintptr_t end;
};

struct entry {
    struct sti_heap *heap; /* NULL: none */
    char task[STI_HEAP_TASK_NAME];
    atomic_uint count;
    struct stretch stretches[MAX_STRETCHES];
};

struct sti_quarantine {
    struct entry entries[MAX_HEAPS];
    unsigned next; /* the oldest */
    bool ended;    /* the thread is about to be, */
    int owner;     /* which has this id: the next one with its record takes the quarantine, too */
};

extern int __cxa_thread_atexit_impl(void (*function)(void *), void *argument, void *module);
extern void *__dso_handle;

/* --- A fault ------------------------------------------------------------------------------------------------------ */

static struct sigaction before_ours;

static bool lies_in(const struct entry *entry, uintptr_t address)
{
    unsigned count = atomic_load_explicit(&entry->count, memory_order_acquire);
    for (unsigned i = 0; i < count; i++) {
        if (address >= atomic_load_explicit(&entry->stretches[i].begin, memory_order_relaxed) &&
            address < atomic_load_explicit(&entry->stretches[i].end, memory_order_relaxed))
            return true;
    }
    return false;
}

static const struct entry *quarantine_find(uintptr_t address)
{
    for (struct sti_thread *thread = sti_thread_first(); thread != NULL; thread = thread->next) {
        const struct sti_quarantine *quarantine = atomic_load_explicit(&thread->quarantine, memory_order_acquire);
        for (unsigned i = 0; quarantine != NULL && i < MAX_HEAPS; i++) {
            if (lies_in(&quarantine->entries[i], address))
                return &quarantine->entries[i];
        }
    }
    return NULL;
}

/* The instruction is tried again after this, with whatever was there before for it: a debugger or a core shows it. */
static void quarantine_on_fault(int number, siginfo_t *info, void *context)
{
    const struct entry *entry = quarantine_find((uintptr_t)info->si_addr);
    if (entry != NULL)
        sti_debug_say("stint: %p was memory of task %s, which has been rolled back: a stale pointer is used here",
                      info->si_addr, entry->task[0] != '\0' ? entry->task : "(without a name)");
    if (entry == NULL && (before_ours.sa_flags & SA_SIGINFO) != 0)
        before_ours.sa_sigaction(number, info, context);
    else if (entry == NULL && before_ours.sa_handler != SIG_DFL && before_ours.sa_handler != SIG_IGN)
        before_ours.sa_handler(number);
    else
        sigaction(number, &before_ours, NULL);
}

static void hear_faults(void)
{
    struct sigaction action = { .sa_sigaction = quarantine_on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK };
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, &before_ours);
}

/* --- In and out --------------------------------------------------------------------------------------------------- */

/* Pages of blocks of one size begin with mimalloc's record of them, in their first slice. What is behind that goes back
 * to the system, also where there is no room to list it: a page is as large as a huge page of the system's may have
 * made it. What lies between its last block and the end of its last slice is the page's, too, and was written to by
 * those who had the slice before. */
static void note_page(const struct sti_backend_area *area, void *argument)
{
    struct entry *entry = argument;
    uintptr_t first = area->begin & ~(STI_BACKEND_SLICE - 1);
    uintptr_t last = (area->reach + STI_BACKEND_SLICE - 1) & ~(STI_BACKEND_SLICE - 1);
    uintptr_t contents = (area->begin + sti_page_size() - 1) & ~(sti_page_size() - 1);
    unsigned count = atomic_load_explicit(&entry->count, memory_order_relaxed);
    if (contents < last)
        madvise((void *)contents, last - contents, MADV_DONTNEED);
    if (count > 0 && atomic_load_explicit(&entry->stretches[count - 1].end, memory_order_relaxed) == first) {
        atomic_store_explicit(&entry->stretches[count - 1].end, last, memory_order_relaxed);
    } else if (count < MAX_STRETCHES) {
        atomic_store_explicit(&entry->stretches[count].begin, first, memory_order_relaxed);
        atomic_store_explicit(&entry->stretches[count].end, last, memory_order_relaxed);
        atomic_store_explicit(&entry->count, count + 1, memory_order_release);
    }
}

static void quarantine_protect(struct entry *entry, int protection)
{
    unsigned count = atomic_load_explicit(&entry->count, memory_order_relaxed);
    for (unsigned i = 0; i < count; i++) {
        uintptr_t begin = atomic_load_explicit(&entry->stretches[i].begin, memory_order_relaxed);
        uintptr_t end = atomic_load_explicit(&entry->stretches[i].end, memory_order_relaxed);
        mprotect((void *)begin, end - begin, protection);
    }
}

/* First all are listed, by mimalloc's records; then these may be out of reach. */
static void close_off(struct entry *entry)
{
    sti_backend_theap_areas(entry->heap->theap, note_page, entry);
    quarantine_protect(entry, PROT_NONE);
}

static void open_up(struct entry *entry)
{
    quarantine_protect(entry, PROT_READ | PROT_WRITE);
    atomic_store_explicit(&entry->count, 0, memory_order_relaxed);
}

/* mimalloc lists a page's free blocks in these blocks themselves, so what lives is not known any more once the contents
 * are gone. Who frees one block after the other has to know it: the heap's map does. False: out of memory. */
static bool note_live(struct sti_heap *heap)
{
    if (!sti_heap_is_destroyed_whole(heap))
        return sti_heap_map_make_whole(heap);
    sti_heap_map_drop(&heap->map);
    return true;
}

static void free_noted(uintptr_t block, size_t size, bool is_kept, void *unused)
{
    (void)size;
    (void)is_kept;
    (void)unused;
    sti_backend_free((void *)block);
}

static void quarantine_let_out(struct entry *entry)
{
    if (entry->heap == NULL)
        return;
    open_up(entry);
    sti_heap_map_visit(entry->heap, free_noted, NULL);
    sti_heap_end(entry->heap);
    entry->heap = NULL;
}

static void quarantine_end_thread(void *argument)
{
    struct sti_quarantine *quarantine = argument;
    quarantine->ended = true;
    for (unsigned i = 0; i < MAX_HEAPS; i++)
        quarantine_let_out(&quarantine->entries[i]);
}

void sti_quarantine_end_thread(struct sti_thread *thread)
{
    struct sti_quarantine *quarantine = atomic_load_explicit(&thread->quarantine, memory_order_relaxed);
    if (quarantine == NULL)
        return;
    quarantine->owner = thread->id;
    quarantine_end_thread(quarantine);
}

/* Its thread has another id in the child of a fork(2). */
STI_FORK_HANDLER void sti_quarantine_in_child(void)
{
    const struct sti_thread *thread = sti_thread_own();
    struct sti_quarantine *own =
        thread != NULL ? atomic_load_explicit(&thread->quarantine, memory_order_relaxed) : NULL;
    if (own != NULL)
        own->owner = thread->id;
}

static struct sti_quarantine *quarantine_make(struct sti_thread *thread)
{
    static pthread_once_t heard = PTHREAD_ONCE_INIT;
    struct sti_quarantine *quarantine = sti_process_lasting_calloc(1, sizeof *quarantine);
    pthread_once(&heard, hear_faults);
    atomic_store_explicit(&thread->quarantine, quarantine, memory_order_release);
    return quarantine;
}

/* NULL: there is none, or no more. */
static struct sti_quarantine *quarantine_of(struct sti_thread *thread)
{
    struct sti_quarantine *quarantine = atomic_load_explicit(&thread->quarantine, memory_order_relaxed);
    if (quarantine == NULL)
        quarantine = quarantine_make(thread);
    if (quarantine == NULL || quarantine->owner == thread->id)
        return quarantine != NULL && !quarantine->ended ? quarantine : NULL;
    quarantine->owner = thread->id;
    quarantine->ended = __cxa_thread_atexit_impl(quarantine_end_thread, quarantine, &__dso_handle) != 0;
    return quarantine->ended ? NULL : quarantine;
}

bool sti_quarantine_put(struct sti_thread *thread, struct sti_heap *heap)
{
    struct sti_quarantine *quarantine = quarantine_of(thread);
    if (quarantine == NULL || heap->backend == NULL || !note_live(heap))
        return false;
    struct entry *entry = &quarantine->entries[quarantine->next];
    quarantine->next = (quarantine->next + 1) % MAX_HEAPS;
    quarantine_let_out(entry);
    entry->heap = heap;
    memcpy(entry->task, heap->task, sizeof entry->task);
    close_off(entry);
    return true;
}
