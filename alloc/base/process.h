/* SPDX-License-Identifier: MIT
 *
 * What belongs to the whole process: memory for the library's own records, and locks over a fork(2): nobody holds ours
 * then, and mimalloc's are looked after in the child. Any thread. */
#ifndef STI_ALLOC_BASE_PROCESS_H
#define STI_ALLOC_BASE_PROCESS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

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

/* Give the free pages of the process's heap to all others, and those of all heaps back to the system. Not while
 * somebody forks: mimalloc does not look after what it is in the midst of. Some milliseconds; not from a quiet region
 * (below). */
void sti_process_collect(void);

/* --- What is quiet over a fork(2). The child has one thread, and whatever another one held at that moment is held in
 * it for ever. So a fork(2) waits until no thread holds these. Locks that this library takes for a few instructions,
 * with none of its others asked for meanwhile, are listed here; those with more to them have handlers of their own
 * (watch.c), or are among those of the executor (outer_lock.h). Any thread. */

enum sti_quiet_lock {
    STI_QUIET_ACCOUNTS,    /* account.c: emptying one that was a parent process's */
    STI_QUIET_BACKEND,     /* process.c: mimalloc's locks in a child, which may call fork(2), too */
    STI_QUIET_FREE,        /* free.c: which function it is */
    STI_QUIET_FREERS,      /* free.c: the record for threads without one */
    STI_QUIET_GLOBAL,      /* global.c: who is told */
    STI_QUIET_HEAPS,       /* heap.c: making one */
    STI_QUIET_KEPT,        /* kept.c */
    STI_QUIET_LABELS,      /* account.c: making one */
    STI_QUIET_MAPPINGS,    /* mapping.c */
    STI_QUIET_MODULES,     /* lasting.c: adding one that is kept */
    STI_QUIET_ASSUMPTIONS, /* assumption.c: what is told of them */
    STI_QUIET_OBJECTS,     /* object_lock.c: making one anew in a child */
    STI_QUIET_RESIDENT,    /* system.c: reading it */
    STI_QUIET_RETIRED,     /* retired.c */
    STI_QUIET_ROOTS,       /* roots.c: who is told */
    STI_QUIET_UNDO,        /* undo.c */
    STI_QUIET_LOCKS,
};

/* No two share a line of the cache. */
extern struct sti_quiet_mutex {
    _Alignas(64) pthread_mutex_t mutex;
} sti_quiet_locks[STI_QUIET_LOCKS] __attribute__((visibility("hidden")));

/* While the calling thread is where others have locks that they do not look after: in the loader for this library, in
 * dl_iterate_phdr or dlopen; or where mimalloc makes or ends a heap, or what it has of a thread. Any number at once;
 * does not nest. */
void sti_quiet_enter(void);
void sti_quiet_leave(void);

/* --- Handlers of a fork(2). What the library does around one is one list, executor/start/forks.c; what it calls is
 * declared beside what it is about, as sti_NOUN_before_fork, sti_NOUN_after_fork, which is called in the parent, and
 * sti_NOUN_in_child. */

/* Does the thread that forks take locks over that? Not where the process has no other. To be read by the handlers. */
extern _Thread_local bool sti_fork_takes_locks __attribute__((visibility("hidden")));

void sti_quiet_before_fork(void);
void sti_quiet_after_fork(void);
void sti_quiet_in_child(void);

/* --- What a fork(2) costs: a page that a handler writes to is copied, half a microsecond in the parent and as much in
 * the child. So all that is written at each fork(2) lies together in this section of the library's data, and what
 * seldom changes is written only where it is to change. */
#define STI_AT_FORKS __attribute__((section("sti_forks")))

/* Pages of code are mapped anew in the child, too, as it comes to them: functions that are seldom called lie
 * together. */
#define STI_FORK_HANDLER __attribute__((cold))

/* A large table, of which most pages are never written to. They come behind all other variables, which so have few
 * pages: a fork(2) copies what the parent has of each. Such a table is never static, and has a name that is like those
 * between files. */
#define STI_TABLE __attribute__((common, visibility("hidden")))

/* In the child of a fork(2), where nobody else runs. */
#define STI_SET_IN_CHILD(variable, value)                                                                              \
    do {                                                                                                               \
        if (atomic_load_explicit(&(variable), memory_order_relaxed) != (value))                                        \
            atomic_store_explicit(&(variable), (value), memory_order_relaxed);                                         \
    } while (0)

/* The process has one thread, and had no other before; so no lock is anybody else's. That thread. */
bool sti_process_has_one_thread(void);

/* A thread of this process, by the system's number of it (gettid): it has ended, and no new one has got that number.
 * Any thread. */
bool sti_process_thread_is_gone(int id);

/* libc's mutex is held, by the thread with this number (gettid; 0: by none, or it is about to be taken or released).
 * libc's headers do not promise that: assumption.h. */
bool sti_mutex_is_held(const pthread_mutex_t *mutex);
int sti_mutex_owner(const pthread_mutex_t *mutex);

/* --- mimalloc's locks in the child of a fork(2). It does not look after them: one that another thread held at that
 * moment, in the midst of an allocation, is held in the child for ever. */

/* The process is the child of a fork(2), and somebody there is about to take this lock for the caller: if it is
 * mimalloc's, and the thread that holds it is not there, nobody holds it from now on. Any thread of the child. */
void sti_lock_in_child(pthread_mutex_t *mutex, const void *caller);

#endif
