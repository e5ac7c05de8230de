/* SPDX-License-Identifier: MIT
 *
 * Trying out what is assumed of somebody else's insides; see assumption.h. Any thread. */
#undef _FORTIFY_SOURCE

#include "assumption.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <stint/stint.h>
#include <string.h>
#include <unistd.h>
#include <unwind.h>

#include "backend.h"
#include "callstack.h"
#include "machine.h"
#include "module.h"
#include "process.h"
#include "thread.h"
#include "unwinder.h"

/* --- mimalloc: of a heap with more full pages than it would keep to itself if it were not told to. Pages of the system
 * that nobody has written to yet are what costs most here, so few are. --- */

#define BLOCK ((size_t)8 << 10)
#define BLOCKS 32

struct seen {
    size_t count;
    uintptr_t sum; /* of addresses */
    bool lies_in_page;
};

static bool block_see(void *block, uintptr_t page, void *arg)
{
    struct seen *seen = arg;
    seen->count++;
    seen->sum += (uintptr_t)block;
    seen->lies_in_page &= (uintptr_t)block >= page;
    return true;
}

static bool sees_each_once(sti_backend_theap *theap, size_t count, uintptr_t sum)
{
    struct seen seen = { .lies_in_page = true };
    return sti_backend_theap_blocks(theap, block_see, &seen) && seen.count == count && seen.sum == sum &&
           seen.lies_in_page;
}

static bool size_counts(struct sti_backend_size size, size_t count)
{
    return size.blocks == count && size.held >= count * BLOCK && size.held < 2 * count * BLOCK && size.areas > 0 &&
           size.pages >= size.held;
}

/* Each block is the heap's; then one is freed. */
static bool knows_heaps(sti_backend_heap *heap)
{
    sti_backend_theap *theap = sti_backend_heap_theap(heap);
    void *last = NULL;
    uintptr_t sum = 0;
    for (size_t i = 0; i < BLOCKS; i++) {
        void *block = sti_backend_theap_malloc(theap, BLOCK);
        if (block == NULL)
            return true; /* what is known of it is not what fails */
        if (sti_backend_heap_of(block) != heap || !sti_backend_has_made(block))
            return false;
        last = block;
        sum += (uintptr_t)block;
    }
    if (!size_counts(sti_backend_theap_size(theap), BLOCKS) || !sees_each_once(theap, BLOCKS, sum))
        return false;
    if (!stint_malloc_is_overridden()) /* so may be the free that we call, as valgrind has it */
        return true;
    sti_backend_free(last);
    return size_counts(sti_backend_theap_size(theap), BLOCKS - 1) &&
           sees_each_once(theap, BLOCKS - 1, sum - (uintptr_t)last);
}

/* Of pages that it has; none has been given up. */
static bool knows_counts(sti_backend_heap *heap)
{
    size_t areas = sti_backend_theap_size(sti_backend_heap_theap(heap)).areas;
    struct sti_backend_pages pages = sti_backend_heap_pages(heap);
    return pages.now == areas && pages.given_up == 0;
}

/* Of blocks that share a page, and of one that has a page of its own. */
static bool knows_sizes(sti_backend_heap *heap)
{
    static const size_t sizes[] = { 1, 100, 1000, ((size_t)700 << 10) + 1 };
    bool known = true;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && known; i++) {
        void *block = sti_backend_theap_malloc(sti_backend_heap_theap(heap), sizes[i]);
        size_t usable = block != NULL ? sti_backend_usable_size(block) : sizes[i];
        known = usable >= sizes[i] && usable <= sti_backend_block_size(sizes[i]);
    }
    return known;
}

/* --- Frames: of the one that has called ours. --- */

struct frame {
    uintptr_t ip; /* where it goes on */
    uintptr_t sp; /* with this stack pointer */
    bool found;
};

static _Unwind_Reason_Code frame_compare(struct _Unwind_Context *context, void *arg)
{
    struct frame *frame = arg;
    frame->found = _Unwind_GetIP(context) == frame->ip && _Unwind_GetCFA(context) == frame->sp;
    return frame->found || _Unwind_GetCFA(context) > frame->sp ? _URC_END_OF_STACK : _URC_NO_REASON;
}

/* The caller's own return address is the second of these. */
static __attribute__((noinline)) bool finds_both(void *behind)
{
    void *const wanted[] = { __builtin_return_address(0), behind };
    void *frames[2] = { NULL, NULL };
    return sti_callstack(frames, 2, wanted[0]) == 2 && memcmp(frames, wanted, sizeof wanted) == 0;
}

static __attribute__((noinline)) bool knows_frames(void)
{
    bool both = finds_both(__builtin_return_address(0));
    __asm__ volatile(""); /* so that this is no tail call, whose frame would be gone */
    return both;
}

/* The stack pointer is the caller's. */
static __attribute__((noinline)) bool knows_unwinder(uintptr_t stack_pointer)
{
    struct frame caller = { .ip = (uintptr_t)__builtin_return_address(0), .sp = stack_pointer };
    _Unwind_Backtrace(frame_compare, &caller);
    return caller.found;
}

/* --- libc. --- */

#if STI_OVERRIDES
#define DEEPER ((size_t)512)

/* Not at the depth where it was learnt, if it was. */
static __attribute__((noinline)) bool knows_jumps(void)
{
    struct {
        char room[DEEPER];
        struct __jmp_buf_tag here[1];
    } frame;
    sti_resume_point_learn();
    if (_setjmp(frame.here) != 0)
        return false;
    __asm__ volatile("" : : "r"(frame.room) : "memory");
    return sti_resume_point_stack_pointer(frame.here) == sti_registers_here().sp;
}
#else
static bool knows_jumps(void)
{
    return true; /* none is looked at */
}
#endif

#if defined __GLIBC__
/* Of libc's own, to which the loader has set a pointer in every thread. */
static bool knows_variables(void)
{
    struct link_map *libc = sti_module_of((const void *)(uintptr_t)abs);
    void *variables = NULL;
    return libc != NULL && dlinfo(libc, RTLD_DI_TLS_DATA, &variables) == 0 && variables != NULL &&
           (uintptr_t)variables == sti_module_thread_variables(libc);
}
#else
static bool knows_variables(void)
{
    return true; /* dl_iterate_phdr tells where those of each module are */
}
#endif

/* --- All of them. --- */

atomic_bool sti_assumption_failures[STI_ASSUMPTIONS];
/* Release, acquire: a thread that reads true also reads the results. */
static atomic_bool backend_is_tried;
static atomic_bool reading_is_tried;
static atomic_bool unwinder_is_tried;

static void assumption_note(enum sti_assumption assumption, bool holds)
{
    if (!holds)
        atomic_store_explicit(&sti_assumption_failures[assumption], true, memory_order_relaxed);
}

void sti_assumptions_start(void)
{
    assumption_note(STI_ASSUMED_JUMPS, knows_jumps());
    assumption_note(STI_ASSUMED_VARIABLES, knows_variables());
}

static __attribute__((noinline, cold)) void try_backend(void)
{
    sti_backend_heap *heap = sti_process_begin_heap(NULL);
    if (heap == NULL)
        return; /* nor is there memory for the caller: the next call tries again */
    assumption_note(STI_ASSUMED_HEAPS, knows_heaps(heap));
    assumption_note(STI_ASSUMED_COUNTS, knows_counts(heap));
    assumption_note(STI_ASSUMED_SIZES, knows_sizes(heap));
    sti_backend_heap_destroy(heap);
    atomic_store_explicit(&backend_is_tried, true, memory_order_release);
}

void sti_assumptions_before_use(void)
{
    if (__builtin_expect(!atomic_load_explicit(&backend_is_tried, memory_order_acquire), 0))
        try_backend();
}

/* What the loader allocates and maps for it stays, so it is none of the task's, if this is in one. */
static __attribute__((noinline, cold)) bool try_unwinder(void)
{
    struct sti_thread *counted = sti_thread_counted;
    sti_thread_counted = NULL;
    sti_unwinder_load();
    bool is_loaded = sti_unwinder_is_loaded(); /* false: nothing is known of it */
    if (is_loaded) {
        assumption_note(STI_ASSUMED_UNWINDER, knows_unwinder(sti_registers_here().sp));
        atomic_store_explicit(&unwinder_is_tried, true, memory_order_release);
    }
    sti_thread_counted = counted;
    return is_loaded;
}

bool sti_assumptions_before_unwinding(void)
{
    return atomic_load_explicit(&unwinder_is_tried, memory_order_acquire) || try_unwinder();
}

bool sti_assumption_finds_frames(void)
{
    if (__builtin_expect(!atomic_load_explicit(&reading_is_tried, memory_order_acquire), 0)) {
        assumption_note(STI_ASSUMED_FRAMES, knows_frames());
        atomic_store_explicit(&reading_is_tried, true, memory_order_release);
    }
    return !sti_assumption_fails(STI_ASSUMED_FRAMES);
}

/* --- Telling. --- */

static const char *const lines[STI_ASSUMPTIONS] = {
    [STI_ASSUMED_HEAPS] = "all tasks: this mimalloc's heaps cannot be walked as they are to be\n",
    [STI_ASSUMED_SIZES] = "all tasks: this mimalloc's blocks are larger than what is charged for them\n",
    [STI_ASSUMED_COUNTS] =
        "giving back what mimalloc has given up of a heap: this mimalloc counts a heap's pages otherwise\n",
    [STI_ASSUMED_FRAMES] =
        ("leaving a task's code, whose allocations fail instead: call frame tables do not tell of the frame "
         "that has called another\n"), /* in parentheses, for clang */
    [STI_ASSUMED_UNWINDER] = "tasks with STINT_UNWIND: the unwinder does not find the frame that has called another\n",
    [STI_ASSUMED_JUMPS] = "ending what a longjmp passes: this libc keeps the stack pointer of a jump otherwise\n",
    [STI_ASSUMED_VARIABLES] =
        ("giving back a failed task's memory where a module was loaded late that has thread-local variables: this libc "
         "keeps their place otherwise\n"),
};

static char text[1024]; /* under the lock; not written to again once it has been told */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

const char *sti_assumptions_describe(void)
{
    sti_assumptions_before_use();
    sti_assumptions_before_unwinding();
    sti_assumption_finds_frames();
    sti_real_mutex_lock(&lock);
    bool is_made = text[0] != '\0';
    for (size_t i = 0; i < STI_ASSUMPTIONS && !is_made; i++) {
        if (sti_assumption_fails((enum sti_assumption)i))
            strncat(text, lines[i], sizeof text - 1 - strlen(text));
    }
    sti_real_mutex_unlock(&lock);
    return text[0] != '\0' ? text : NULL;
}
