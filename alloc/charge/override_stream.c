/* SPDX-License-Identifier: MIT
 *
 * Overrides of what opens and closes libc's streams, so that a rollback closes those that a task left open (handle.h).
 * What lies unwritten in a stream's buffer was the task's, and goes with it. Any thread.
 *
 * One that another thread has locked is left open, unless its memory is the task's. One that was made for a descriptor
 * is closed without it: that was opened by other means, which know whose it is. A child that popen started may run on,
 * and pclose waits for it: so that is done on a thread of its own. */
/* Each name is to be its own function, not that of another one. */
#undef _FILE_OFFSET_BITS
#include <errno.h>
#include <mntent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <stint/interrupt.h>
#include <wchar.h>

#include "alloc/base/module.h"
#include "alloc/base/scope_state.h"
#include "alloc/base/thread.h"
#include "alloc/rollback/free.h"
#include "alloc/rollback/handle.h"
#include "allocate.h"

STINT_API FILE *fopen(const char *path, const char *mode);
STINT_API FILE *fopen64(const char *path, const char *mode);
STINT_API FILE *fdopen(int descriptor, const char *mode);
STINT_API FILE *tmpfile(void);
STINT_API FILE *tmpfile64(void);
STINT_API FILE *popen(const char *command, const char *mode);
STINT_API FILE *fmemopen(void *buffer, size_t size, const char *mode);
STINT_API FILE *fopencookie(void *cookie, const char *mode, cookie_io_functions_t functions);
STINT_API FILE *setmntent(const char *path, const char *mode);
STINT_API FILE *open_memstream(char **buffer, size_t *size);
STINT_API FILE *open_wmemstream(wchar_t **buffer, size_t *size);
STINT_API int fclose(FILE *stream);
STINT_API int pclose(FILE *stream);
STINT_API int endmntent(FILE *stream);

/* --- Closing what a task left ------------------------------------------------------------------------------------- */

#define TRIES 1000

/* fflush(NULL) of another thread has it for a moment; who reads from it, for as long as that takes. */
static bool is_free(FILE *stream)
{
    for (unsigned i = 0; i < TRIES; i++) {
        if (ftrylockfile(stream) == 0) {
            funlockfile(stream);
            return true;
        }
        sched_yield();
    }
    return false;
}

static void close_stream(void *stream, void *unused)
{
    (void)unused;
    if (!is_free(stream))
        return;
    __fpurge(stream);
    fclose(stream);
}

static const struct sti_handle_kind of_file = { .close = close_stream };
static const struct sti_handle_kind of_cookie = { .close = close_stream, .calls_back = true };

static void close_without_descriptor(void *key, void *unused)
{
    FILE *stream = key;
    (void)unused;
    if (!is_free(stream))
        return;
    __fpurge(stream);
    stream->_fileno = -1;
    fclose(stream);
}

static const struct sti_handle_kind of_descriptor = { .close = close_without_descriptor };

/* Nobody waits for what lies in memory. */
static void close_memory(void *stream, void *unused)
{
    (void)unused;
    __fpurge(stream);
    fclose(stream);
}

static void leave_memory(void *stream, void *unused)
{
    (void)unused;
    __fpurge(stream);
}

static const struct sti_handle_kind of_memory = { .close = close_memory, .leave = leave_memory };

static void *wait_for_child(void *stream)
{
    pclose(stream);
    return NULL;
}

static void close_pipe(void *stream, void *unused)
{
    (void)unused;
    if (!is_free(stream))
        return;
    __fpurge(stream);
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0)
        return;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_t thread;
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    sti_thread_start(&thread, &attributes, wait_for_child, stream);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
}

static const struct sti_handle_kind of_pipe = { .close = close_pipe };

/* --- Opening ------------------------------------------------------------------------------------------------------ */

static inline FILE *noted(FILE *stream, const struct sti_handle_kind *kind)
{
    if (stream != NULL)
        sti_handle_add(stream, kind, NULL, 0);
    return stream;
}

#define OPENING(kind, name, parameters, arguments)                                                                     \
    FILE *name parameters                                                                                              \
    {                                                                                                                  \
        STI_LIBC_FUNCTION(name)                                                                                        \
        return noted(plain arguments, kind);                                                                           \
    }

OPENING(&of_file, fopen, (const char *path, const char *mode), (path, mode))
OPENING(&of_file, fopen64, (const char *path, const char *mode), (path, mode))
OPENING(&of_descriptor, fdopen, (int descriptor, const char *mode), (descriptor, mode))
OPENING(&of_file, tmpfile, (void), ())
OPENING(&of_file, tmpfile64, (void), ())
OPENING(&of_pipe, popen, (const char *command, const char *mode), (command, mode))
OPENING(&of_memory, fmemopen, (void *buffer, size_t size, const char *mode), (buffer, size, mode))
OPENING(&of_cookie, fopencookie, (void *cookie, const char *mode, cookie_io_functions_t functions),
        (cookie, mode, functions))
OPENING(&of_file, setmntent, (const char *path, const char *mode), (path, mode))

/* --- Streams that make their block -------------------------------------------------------------------------------- */

/* Where such a stream tells its user of the block is often a variable of a function that is gone by the time of a
 * rollback. libc keeps the two addresses side by side in the stream, where they are found when it is new. */
struct growing {
    void **block_at;
    size_t *size_at;
    size_t unit;    /* bytes of a character */
    void **kept_at; /* the two addresses in the stream; NULL: not found */
    void *block;    /* what it is told instead */
    size_t size;
};

static void tell_us(struct growing *growing)
{
    if (growing->kept_at == NULL)
        return;
    growing->kept_at[0] = &growing->block;
    growing->kept_at[1] = &growing->size;
}

static void close_growing(void *stream, void *copy)
{
    struct growing *growing = copy;
    if (growing->kept_at == NULL)
        return;
    tell_us(growing);
    fclose(stream);
    free(growing->block);
}

static void leave_growing(void *stream, void *copy)
{
    (void)stream;
    tell_us(copy);
}

static const struct sti_handle_kind of_growing = { .close = close_growing, .leave = leave_growing };

static FILE *note_growing(FILE *stream, void **block_at, size_t *size_at, size_t unit)
{
    if (stream == NULL || sti_thread_metered == NULL || !sti_backend_has_made(stream))
        return stream;
    struct growing growing = { .block_at = block_at, .size_at = size_at, .unit = unit };
    void **words = (void **)stream;
    size_t count = sti_backend_usable_size(stream) / sizeof *words;
    for (size_t i = 0; i + 1 < count && growing.kept_at == NULL; i++) {
        if (words[i] == (void *)block_at && words[i + 1] == (void *)size_at)
            growing.kept_at = &words[i];
    }
    sti_handle_add(stream, &of_growing, &growing, sizeof growing);
    return stream;
}

FILE *open_memstream(char **buffer, size_t *size)
{
    STI_LIBC_FUNCTION(open_memstream)
    return note_growing(plain(buffer, size), (void **)buffer, size, 1);
}

FILE *open_wmemstream(wchar_t **buffer, size_t *size)
{
    STI_LIBC_FUNCTION(open_wmemstream)
    return note_growing(plain(buffer, size), (void **)buffer, size, sizeof(wchar_t));
}

/* The block is its user's now: it becomes the task's, as what is handed over does. */
static __attribute__((noinline)) void hand_over_block(const struct growing *growing, const void *caller)
{
    void *block = *growing->block_at;
    if (block == NULL || !sti_link_has_malloc())
        return;
    size_t size = (*growing->size_at + 1) * growing->unit;
    void *copy = sti_allocate(size, caller);
    if (copy == NULL)
        copy = sti_allocate_unrefused(0, size);
    if (copy == NULL)
        return;
    *growing->block_at = memcpy(copy, block, size);
    sti_free(block);
}

/* The scope's that opened it, and not one's inside it. */
static bool is_own_growing(const struct sti_handle *handle)
{
    const struct sti_thread *thread = sti_thread_metered;
    return handle->kind == &of_growing && thread != NULL && handle->scope == thread->scope;
}

/* --- Closing ------------------------------------------------------------------------------------------------------ */

static int close_noted(FILE *stream, struct sti_handle *handle, __typeof__(fclose) *plain, const void *caller)
{
    bool hands_over = is_own_growing(handle);
    int result = plain(stream);
    if (hands_over) {
        stint_mask();
        hand_over_block((const struct growing *)(const void *)handle->copy, caller);
    }
    sti_handle_drop(handle);
    if (hands_over)
        stint_unmask();
    return result;
}

#define CLOSING(name)                                                                                                  \
    int name(FILE *stream)                                                                                             \
    {                                                                                                                  \
        STI_LIBC_FUNCTION(name)                                                                                        \
        struct sti_handle *handle = sti_handle_take(stream);                                                           \
        return STI_LIKELY(handle == NULL) ? plain(stream) : close_noted(stream, handle, plain, STI_CALLER());          \
    }

CLOSING(fclose)
CLOSING(pclose)
CLOSING(endmntent)
