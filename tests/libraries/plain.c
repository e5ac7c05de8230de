/* SPDX-License-Identifier: MIT
 *
 * The program without stint: each library in a process of its own whose malloc fails from a random call on, for blocks
 * of some size and above, for as long as a piece of work takes, and then never more. What becomes of that is what a
 * library makes of a machine without memory, and the measure for what it makes of stint: plain-libraries LIBRARY TRIALS
 * SEED prints how many processes ended by each signal, went on, exited, gave a wrong answer afterwards, or hung. */
#include "library.h"

#include <dlfcn.h>
#include <malloc.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define SEEDS 24
#define PATIENCE 3 /* seconds */

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

static const struct library *const libraries[] = { LIBRARIES NULL };

static atomic_long calls;    /* so far */
static atomic_long fails_at; /* from this one on; 0: none */
static size_t smallest;      /* that fails */

static bool is_refused(size_t size)
{
    long at = atomic_load_explicit(&fails_at, memory_order_relaxed);
    long call = atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
    bool refused = at != 0 && call >= at && size >= smallest;
    if (refused)
        errno = ENOMEM;
    return refused;
}

void *malloc(size_t size)
{
    return is_refused(size) ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    return is_refused(count * size) ? NULL : __libc_calloc(count, size);
}

void *realloc(void *block, size_t size)
{
    return is_refused(size) ? NULL : __libc_realloc(block, size);
}

void *memalign(size_t alignment, size_t size)
{
    return is_refused(size) ? NULL : __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return memalign(alignment, size);
}

int posix_memalign(void **block, size_t alignment, size_t size)
{
    *block = memalign(alignment, size);
    return *block == NULL ? ENOMEM : 0;
}

enum { GOES_ON = 40, WRONG };

/* In a process of its own. */
static _Noreturn void try(const struct library *library, uint64_t random)
{
    uint64_t before = SUM_BEGIN, failed = SUM_BEGIN, after = SUM_BEGIN;
    uint32_t seed = (uint32_t)(random_of(&random) % SEEDS);
    bool is_used = random_of(&random) % 2 == 0;
    smallest = random_of(&random) % 2 == 0 ? 0 : (size_t)1 << random_of(&random) % 13;
    alarm(PATIENCE);
    if (freopen("/dev/null", "w", stderr) == NULL)
        _exit(126);
    if (is_used && library->work(seed, &before) != 0)
        _exit(WRONG);
    pid_t counted = fork();
    int status;
    if (counted == 0) { /* which says how many calls there are */
        atomic_store(&calls, 0);
        library->work(seed, &failed);
        _exit(atomic_load(&calls) / 64 > 255 ? 255 : (int)(atomic_load(&calls) / 64));
    }
    waitpid(counted, &status, 0);
    atomic_store(&calls, 0);
    atomic_store(&fails_at, 1 + (long)(random_of(&random) % (64 * (uint64_t)WEXITSTATUS(status) + 64)));
    library->work(seed, &failed);
    atomic_store(&fails_at, 0);
    if (library->work(seed, &after) != 0 || (is_used && before != after))
        _exit(WRONG);
    _exit(GOES_ON);
}

int main(int argc, char **argv)
{
    unsigned long signals[64] = { 0 }, goes_on = 0, wrong = 0, exits = 0;
    const struct library *library = NULL;
    for (size_t i = 0; libraries[i] != NULL && argc == 4; i++) {
        if (strcmp(libraries[i]->name, argv[1]) == 0)
            library = libraries[i];
    }
    if (library == NULL)
        return 2;
    uint64_t random = strtoull(argv[3], NULL, 0);
    for (unsigned long i = strtoul(argv[2], NULL, 0); i > 0; i--) {
        int status;
        uint64_t own = random_of(&random);
        pid_t child = fork();
        if (child == 0)
            try(library, own);
        waitpid(child, &status, 0);
        if (WIFSIGNALED(status))
            signals[WTERMSIG(status) % 64]++;
        else if (WEXITSTATUS(status) == GOES_ON)
            goes_on++;
        else if (WEXITSTATUS(status) == WRONG)
            wrong++;
        else
            exits++;
    }
    printf("goes-on %lu\nwrong %lu\nexits %lu\n", goes_on, wrong, exits);
    for (int i = 1; i < 64; i++) {
        if (signals[i] > 0)
            printf("signal-%d %lu\n", i, signals[i]);
    }
    return 0;
}
