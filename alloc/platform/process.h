/* SPDX-License-Identifier: MIT
 *
 * What belongs to the whole process: memory for the library's own records, and what becomes of the process at a
 * fork(2). Any thread. */
#ifndef STI_ALLOC_PLATFORM_PROCESS_H
#define STI_ALLOC_PLATFORM_PROCESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* --- Memory for the library's own records: from the process's heap, charged to nobody, no sample point. Any thread; a
 * block may be freed from any other. */

void *sti_process_malloc(size_t size);
void *sti_process_calloc(size_t count, size_t size);
void *sti_process_realloc(void *block, size_t size);
void *sti_process_aligned(size_t alignment, size_t size); /* uninitialised */
void sti_process_free(void *block);

/* The same for records that stay when nobody uses them: those of threads, heaps and names, which the next one takes
 * over, and what the program is given. Tests look whether any of the others has been left behind (tests/live/). */
void *sti_process_lasting_malloc(size_t size);
void *sti_process_lasting_calloc(size_t count, size_t size);
void *sti_process_lasting_realloc(void *block, size_t size);
void *sti_process_lasting_aligned(size_t alignment, size_t size);

/* Give the free pages of the process's heap to all others, and those of all heaps back to the system. Some
 * milliseconds. */
void sti_process_collect(void);

/* The calling thread's part of a heap, of a new one for NULL: backend.h, which lets one be made at a time. NULL: out of
 * memory. */
struct mi_heap_s *sti_process_begin_heap(struct mi_heap_s *heap);

/* --- fork(2). The child has one of the process's threads. Where that was the only one, the child is a whole process:
 * nobody else was in the midst of anything. Otherwise it is part of one: what the other threads held is held for ever,
 * what they were changing is half changed, and nothing of this library can be used there. So each public function says
 * ENOTSUP, or does nothing where it has no error to say; malloc is libc's own, which libc looks after at a fork(2); and
 * a block of mimalloc's stays as it is: free does nothing with it, realloc copies it. What the library does around a
 * fork(2) is one list, executor/start/forks.c. */

/* Of the calling process: set in the child of a fork(2), by its one thread. */
extern bool sti_process_is_part __attribute__((visibility("hidden")));

static inline bool sti_process_is_partial(void)
{
    return __builtin_expect(sti_process_is_part, 0);
}

/* fork(2), of which the child is a whole process: where there are no threads but the calling one and the library's own.
 * For walls; not from a scope. */
pid_t sti_process_fork(void);

/* A thread of the library's own works; or rests, which it does in a fork by that function. */
void sti_service_works(void);
void sti_service_rests(void);

/* dl_iterate_phdr, which has a lock of the loader's: the child of a fork(2) beside it could never load a library again,
 * nor open a conversion or a name service, which libc loads. So no fork begins meanwhile. Any thread. */
struct dl_phdr_info;
int sti_modules_visit(int (*visit)(struct dl_phdr_info *module, size_t size, void *arg), void *arg);
void sti_modules_before_fork(void);
void sti_modules_after_fork(void);
void sti_modules_in_child(void);

/* A function of the program's has returned to this library in part of a process: nothing of it goes on, and its thread
 * ends, without handlers and destructors. */
_Noreturn void sti_process_end_thread_of_part(void);

/* How many threads the system counts, without those of a sanitizer. /proc/self/task has a folder for each. The folder
 * of a joined thread goes a moment later, and that of an ended main thread stays until the process ends. 0: /proc does
 * not tell, so there are others for all that is known. Any thread. */
unsigned sti_process_count_threads(void);

/* Around each fork(2): before it, and in the child. */
void sti_process_before_fork(void);
void sti_process_in_child(void);

/* Of the fork that the calling thread is in. */
bool sti_process_child_is_whole(void);

/* The process has a record of a thread, a thread of the library's own, or a wall: something that a child is to have
 * otherwise. The code that makes one says so once. Any thread. */
void sti_process_note_use(void);
bool sti_process_is_used(void);

/* In part of a process: blocks of libc's, and those that mimalloc made before. */
void sti_process_free_in_part(void *block);
void *sti_process_realloc_in_part(void *block, size_t size);
size_t sti_process_usable_size_in_part(void *block);

/* --- What a fork(2) costs: a page that a handler writes to is copied, half a microsecond in the parent and as much in
 * the child. So all that is written at each fork(2) lies together in this section of the library's data, and what
 * seldom changes is written only where it is to change. */
#define STI_AT_FORKS __attribute__((section("sti_forks")))

/* Pages of code are mapped anew in the child, too, as it comes to them: functions that are seldom called lie
 * together. */
#define STI_FORK_HANDLER __attribute__((cold))

/* A second name of a function. */
#ifdef __clang__
#define STI_SAME_AS(function) __attribute__((alias(#function)))
#else
#define STI_SAME_AS(function) __attribute__((alias(#function), copy(function)))
#endif

/* A large table, of which most pages are never written to. The linker puts common symbols behind all other variables,
 * which therefore share few pages: a fork(2) copies each page that the parent has written to. Such a table is never
 * static, and has a name that is like those between files. */
#define STI_TABLE __attribute__((common, visibility("hidden")))

/* In the child of a fork(2), where nobody else runs. */
#define STI_SET_IN_CHILD(variable, value)                                                                              \
    do {                                                                                                               \
        if (atomic_load_explicit(&(variable), memory_order_relaxed) != (value))                                        \
            atomic_store_explicit(&(variable), (value), memory_order_relaxed);                                         \
    } while (0)

#endif
