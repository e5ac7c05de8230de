/* SPDX-License-Identifier: MIT
 *
 * Debug mode's record of blocks; see checked.h. Any thread. */
#include "checked.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "alloc/interrupt/hold.h"
#include "alloc/platform/callstack.h"
#include "alloc/platform/module.h"
#include "alloc/platform/scope_state.h"
#include "alloc/platform/thread.h"
#include "free.h"

/* --- The record: for each address what was known of it last. A set of a few entries for each address, of which the
 * least interesting one makes room. --- */

#define SETS ((size_t)1 << 13)
#define WAYS 8
#define DEPTH 8
#define NAME_SIZE 24

enum state { UNKNOWN, ROLLED_BACK, FREED, LIVE }; /* the later, the longer it stays */

/* Who did it. */
struct deed {
    char task[NAME_SIZE];
    size_t depth;
    void *frames[DEPTH];
};

struct entry {
    uintptr_t block;
    size_t size;
    enum state state;
    struct deed made;
    struct deed ended; /* by a free, or its task was rolled back */
};

bool sti_checked_is_on;
static struct entry (*sets)[WAYS];
static bool has_forgotten; /* a live block, for want of room */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct entry *checked_set(uintptr_t block)
{
    return sets[(block >> 4 ^ block >> 19) & (SETS - 1)];
}

/* With the lock. NULL: nothing is known of it. */
static struct entry *checked_find(uintptr_t block)
{
    struct entry *set = checked_set(block);
    for (size_t i = 0; i < WAYS; i++) {
        if (set[i].state != UNKNOWN && set[i].block == block)
            return &set[i];
    }
    return NULL;
}

/* The same, or one that makes room. */
static struct entry *find_or_begin(uintptr_t block)
{
    struct entry *entry = checked_find(block);
    struct entry *set = checked_set(block);
    if (entry != NULL)
        return entry;
    entry = set;
    for (size_t i = 1; i < WAYS; i++)
        entry = set[i].state < entry->state ? &set[i] : entry;
    has_forgotten |= entry->state == LIVE;
    return entry;
}

/* A live block that the address lies in. It is looked for where the process is going to end, or a block was made before
 * the record began. */
static const struct entry *find_around(uintptr_t address)
{
    for (size_t i = 0; i < SETS; i++) {
        for (size_t j = 0; j < WAYS; j++) {
            const struct entry *entry = &sets[i][j];
            if (entry->state == LIVE && address - entry->block < entry->size)
                return entry;
        }
    }
    return NULL;
}

static void deed_note(struct deed *deed, const void *caller)
{
    const struct sti_thread *thread = sti_thread_own();
    const struct sti_scope *scope = thread != NULL ? thread->scope : NULL;
    const char *name = scope != NULL ? scope->request->options->name : NULL;
    strncpy(deed->task, name != NULL ? name : scope != NULL ? "(without a name)" : "(none)", sizeof deed->task - 1);
    deed->depth = sti_callstack(deed->frames, DEPTH, caller);
}

/* --- What is told --- */

static void deed_say(const struct deed *deed, const char *what)
{
    sti_debug_say("stint: %s by task %s, at", what, deed->task);
    backtrace_symbols_fd(deed->frames, (int)deed->depth, STDERR_FILENO);
}

/* With the lock, which is given back: a handler of SIGABRT may allocate. */
static _Noreturn void end_process(const void *block, const struct entry *found, const char *what, const void *caller)
{
    struct deed now = { .depth = 0 };
    struct entry copy = { .state = UNKNOWN };
    struct entry *entry = found != NULL ? &copy : NULL;
    deed_note(&now, caller);
    if (found != NULL)
        copy = *found;
    sti_real_mutex_unlock(&lock);
    sti_thread_suspend(); /* what libc allocates from here on is no task's */
    sti_debug_say("stint: task %s: frees %p, %s", now.task, block, what);
    deed_say(&now, "freed now");
    if (entry != NULL && entry->state == FREED)
        deed_say(&entry->ended, "freed before");
    if (entry != NULL)
        deed_say(&entry->made, "allocated");
    abort();
}

/* With the lock. NULL: as far as is known it is a block, but not which. */
static struct entry *checked_expect(const void *block, const void *caller)
{
    struct entry *entry = checked_find((uintptr_t)block);
    if (entry != NULL && entry->state == LIVE)
        return entry;
    if (entry != NULL)
        end_process(block, entry,
                    entry->state == FREED ? "which has been freed" : "which was rolled back with its task", caller);
    if (!sti_backend_has_made(block))
        end_process(block, NULL, "which is no block of malloc's", caller);
    const struct entry *around = has_forgotten ? NULL : find_around((uintptr_t)block);
    if (around != NULL)
        end_process(block, around, "which lies inside a block", caller);
    return NULL;
}

void sti_checked_expect(const void *block, const void *caller)
{
    sti_real_mutex_lock(&lock);
    checked_expect(block, caller);
    sti_real_mutex_unlock(&lock);
}

void sti_checked_free(const void *block, const void *caller)
{
    sti_real_mutex_lock(&lock);
    struct entry *entry = checked_expect(block, caller);
    if (entry != NULL) {
        entry->state = FREED;
        deed_note(&entry->ended, caller);
    }
    sti_real_mutex_unlock(&lock);
}

/* --- Blocks that are made, and that go with their heap --- */

void *sti_checked_made(void *block, size_t size, const void *caller)
{
    if (block == NULL)
        return NULL;
    sti_real_mutex_lock(&lock);
    struct entry *entry = find_or_begin((uintptr_t)block);
    *entry = (struct entry){ .block = (uintptr_t)block, .size = size + (size == 0), .state = LIVE };
    deed_note(&entry->made, caller);
    sti_real_mutex_unlock(&lock);
    return block;
}

void sti_checked_roll_back(const void *block)
{
    sti_real_mutex_lock(&lock);
    struct entry *entry = checked_find((uintptr_t)block);
    if (entry != NULL)
        entry->state = ROLLED_BACK;
    sti_real_mutex_unlock(&lock);
}

static bool checked_roll_back(void *block, uintptr_t page, void *unused)
{
    (void)page;
    (void)unused;
    sti_checked_roll_back(block);
    return true;
}

void sti_checked_roll_back_heap(sti_backend_theap *theap)
{
    sti_backend_theap_blocks(theap, checked_roll_back, NULL);
}

static const struct sti_backend_process mimalloc_s = STI_BACKEND_PROCESS;

static void *checked_make(size_t size)
{
    return sti_checked_made(mimalloc_s.malloc(size), size, __builtin_return_address(0));
}

static void *checked_make_zeroed(size_t size)
{
    return sti_checked_made(mimalloc_s.zalloc(size), size, __builtin_return_address(0));
}

static void *checked_make_aligned(size_t size, size_t alignment)
{
    return sti_checked_made(mimalloc_s.aligned(size, alignment), size, __builtin_return_address(0));
}

void sti_checked_start(void)
{
    if (!sti_debug_is_on)
        return;
    void *mapped = mmap(NULL, SETS * sizeof *sets, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                        -1, (off_t)0);
    if (mapped == MAP_FAILED)
        return;
    sets = mapped;
    sti_backend_process = (struct sti_backend_process){ checked_make, checked_make_zeroed, checked_make_aligned };
    sti_free_by(sti_free_watched);
    sti_checked_is_on = true;
}
