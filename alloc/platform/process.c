/* SPDX-License-Identifier: MIT
 *
 * What belongs to the whole process: memory for the library's own records, giving back, and fork(2); see process.h. Any
 * thread. */
#include "process.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "backend.h"
#include "instrumentation.h"
#include "module.h"

/* --- Memory for the library's own records. --- */

struct sti_backend_process sti_backend_process = STI_BACKEND_PROCESS;

void *sti_process_malloc(size_t size)
{
    return sti_backend_malloc(size);
}

void *sti_process_calloc(size_t count, size_t size)
{
    size_t total;
    void *block = __builtin_mul_overflow(count, size, &total) ? NULL : sti_process_malloc(total);
    return block != NULL ? memset(block, 0, total) : NULL;
}

void *sti_process_realloc(void *block, size_t size)
{
    return sti_process_is_partial() ? sti_process_realloc_in_part(block, size) : sti_backend_realloc(block, size);
}

void *sti_process_aligned(size_t alignment, size_t size)
{
    return sti_backend_aligned(alignment, size);
}

void sti_process_free(void *block)
{
    if (sti_process_is_partial())
        sti_process_free_in_part(block);
    else
        sti_backend_free(block);
}

/* The same functions, under names that tests do not count. */
void *sti_process_lasting_malloc(size_t size) STI_SAME_AS(sti_process_malloc);
void *sti_process_lasting_calloc(size_t count, size_t size) STI_SAME_AS(sti_process_calloc);
void *sti_process_lasting_realloc(void *block, size_t size) STI_SAME_AS(sti_process_realloc);
void *sti_process_lasting_aligned(size_t alignment, size_t size) STI_SAME_AS(sti_process_aligned);

/* --- Giving back. mimalloc has one thread at a time give free pages to the system, and does not do what another asks
 * for meanwhile, nor later if nobody allocates any more. So one of ours at a time asks it, until nobody has asked that
 * one meanwhile:
 *
 *   AT_REST    -> COLLECTING   by the thread that then asks mimalloc
 *   COLLECTING -> ASKED        by a thread that comes meanwhile, after it has freed all that it has; it goes on
 *   ASKED      -> COLLECTING   by the asking thread, which asks mimalloc again
 *   COLLECTING -> AT_REST      by the same
 *
 * Each is a read-modify-write, acquire and release: what was freed before ASKED is seen by what mimalloc is asked for
 * after it. tests/models/collect.pml searches the states. What mimalloc does of itself at that moment, in a thread that
 * allocates, we cannot see; such a thread comes back to it. */

enum { AT_REST, COLLECTING, ASKED };
static atomic_int collecting;

static bool move_on(int from, int to)
{
    return atomic_compare_exchange_strong_explicit(&collecting, &from, to, memory_order_acq_rel, memory_order_relaxed);
}

/* False: somebody collects, and will do it once more. */
static bool begin_collecting(void)
{
    if (move_on(AT_REST, COLLECTING))
        return true;
    sti_backend_thread_collect();
    for (;;) {
        if (move_on(COLLECTING, ASKED) || move_on(ASKED, ASKED))
            return false;
        if (move_on(AT_REST, COLLECTING))
            return true;
    }
}

void sti_process_collect(void)
{
    if (!begin_collecting())
        return;
    do
        sti_backend_process_collect();
    while (move_on(ASKED, COLLECTING) || !move_on(COLLECTING, AT_REST));
}

sti_backend_heap *sti_process_begin_heap(sti_backend_heap *heap)
{
    static pthread_mutex_t beginning = PTHREAD_MUTEX_INITIALIZER;
    sti_real_mutex_lock(&beginning);
    heap = sti_backend_heap_begin(heap);
    sti_real_mutex_unlock(&beginning);
    return heap;
}

/* --- fork(2). --- */

STI_AT_FORKS bool sti_process_is_part;

/* Of the fork that the calling thread is in. */
static _Thread_local bool others_rest;
static _Thread_local bool child_is_whole;

#define FOLDERS_OF_NO_THREAD 2 /* as of any folder: itself, and its name in the one above */

unsigned sti_process_count_threads(void)
{
    struct stat folder;
    int saved_errno = errno;
    bool tells = stat("/proc/self/task", &folder) == 0 && folder.st_nlink > FOLDERS_OF_NO_THREAD + STI_TOOL_THREADS;
    errno = saved_errno;
    return tells ? (unsigned)folder.st_nlink - FOLDERS_OF_NO_THREAD - STI_TOOL_THREADS : 0;
}

static bool has_one_thread(void)
{
    return __libc_single_threaded != 0 || sti_process_count_threads() == 1;
}

STI_FORK_HANDLER void sti_process_before_fork(void)
{
    bool will_be_whole = others_rest || has_one_thread();
    if (child_is_whole != will_be_whole)
        child_is_whole = will_be_whole;
}

static STI_AT_FORKS atomic_bool is_used; /* relaxed: a thread that forks sees what it has made */

void sti_process_note_use(void)
{
    if (!sti_process_is_used())
        atomic_store_explicit(&is_used, true, memory_order_relaxed);
}

bool sti_process_is_used(void)
{
    return atomic_load_explicit(&is_used, memory_order_relaxed);
}

bool sti_process_child_is_whole(void)
{
    return child_is_whole;
}

/* --- Memory in part of a process: libc's functions, which this library and mimalloc both replace. --- */

static void *(*libc_malloc)(size_t size);
static void *(*libc_calloc)(size_t count, size_t size);
static void *(*libc_realloc)(void *block, size_t size);
static void *(*libc_memalign)(size_t alignment, size_t size);
static void (*libc_free)(void *block);
static size_t (*libc_usable_size)(void *block);

static void find_libc_s(void)
{
    *(void **)&libc_malloc = sti_libc_function("malloc");
    *(void **)&libc_calloc = sti_libc_function("calloc");
    *(void **)&libc_realloc = sti_libc_function("realloc");
    *(void **)&libc_memalign = sti_libc_function("memalign");
    *(void **)&libc_free = sti_libc_function("free");
    *(void **)&libc_usable_size = sti_libc_function("malloc_usable_size");
}

static void *zalloc_in_part(size_t size)
{
    return libc_calloc(1, size);
}

static void *aligned_in_part(size_t size, size_t alignment)
{
    return libc_memalign(alignment, size);
}

void sti_process_free_in_part(void *block)
{
    if (!sti_backend_has_made(block))
        libc_free(block);
}

void *sti_process_realloc_in_part(void *block, size_t size)
{
    if (!sti_backend_has_made(block))
        return libc_realloc(block, size);
    void *moved = libc_malloc(size);
    size_t before = sti_backend_usable_size(block);
    return moved != NULL ? memcpy(moved, block, before < size ? before : size) : NULL;
}

size_t sti_process_usable_size_in_part(void *block)
{
    return sti_backend_has_made(block) ? sti_backend_usable_size(block) : libc_usable_size(block);
}

_Noreturn void sti_process_end_thread_of_part(void)
{
    for (;;)
        syscall(SYS_exit, 0);
}

STI_FORK_HANDLER void sti_process_in_child(void)
{
    if (child_is_whole)
        return;
    sti_process_is_part = true;
    find_libc_s();
    sti_backend_process = (struct sti_backend_process){ libc_malloc, zalloc_in_part, aligned_in_part };
}

/* --- Modules are looked at with the read side of a lock, of which a fork(2) has the other. No thread waits for ever: a
 * thread that looks may wait for the loader's lock, which is held by a thread that now waits to look; so after a while
 * the fork goes ahead. */

#define PATIENCE_NS 100000000

static STI_AT_FORKS pthread_rwlock_t looking = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
static _Thread_local bool looks;            /* and a handler of a signal forks, or looks, too */
static _Thread_local bool has_all_not_look; /* of the fork that the thread is in */

int sti_modules_visit(int (*visit)(struct dl_phdr_info *module, size_t size, void *arg), void *arg)
{
    sti_libc_look();
    if (looks)
        return sti_libc_visit(visit, arg);
    looks = true;
    atomic_signal_fence(memory_order_seq_cst);
    sti_real_rwlock_rdlock(&looking);
    int answer = sti_libc_visit(visit, arg);
    sti_real_rwlock_unlock(&looking);
    atomic_signal_fence(memory_order_seq_cst);
    looks = false;
    return answer;
}

static bool have_all_not_look(void)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += PATIENCE_NS;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    return sti_real_rwlock_clockwrlock(&looking, CLOCK_MONOTONIC, &until) == 0;
}

STI_FORK_HANDLER void sti_modules_before_fork(void)
{
    has_all_not_look = !looks && have_all_not_look();
}

STI_FORK_HANDLER void sti_modules_after_fork(void)
{
    if (has_all_not_look)
        sti_real_rwlock_unlock(&looking);
}

STI_FORK_HANDLER void sti_modules_in_child(void)
{
    looking = (pthread_rwlock_t)PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
}

/* --- A fork beside the library's own threads, which rest in it: each has the read side of a lock while it works. */

static pthread_rwlock_t works = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;

void sti_service_works(void)
{
    sti_real_rwlock_rdlock(&works);
}

void sti_service_rests(void)
{
    sti_real_rwlock_unlock(&works);
}

/* Of the lock the child has a new one: libc has noted the number of the parent's thread in it. */
pid_t sti_process_fork(void)
{
    sti_real_rwlock_wrlock(&works);
    others_rest = true;
    pid_t pid = fork();
    others_rest = false;
    if (pid == 0)
        works = (pthread_rwlock_t)PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
    else
        sti_real_rwlock_unlock(&works);
    return pid;
}
