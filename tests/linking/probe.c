/* SPDX-License-Identifier: MIT
 *
 * See probe.h: the answers of stint_link_check, what is refused, and what works nevertheless. */
#include "probe.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <stint/stint.h>

#define BLOCKS 1000
#define BLOCK 1000
#define LIMIT ((size_t)1 << 20)

static int failures;

static void expect(bool condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "not so: %s\n", what);
        failures++;
    }
}
#define EXPECT(condition) expect(condition, #condition)

static bool has_run;

static int allocate(void *arg, void **value)
{
    (void)arg;
    (void)value;
    has_run = true;
    for (int i = 0; i < BLOCKS; i++) {
        void *volatile block = malloc(BLOCK);
        free(block);
    }
    return 0;
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static int pass_the_limit_with_a_lock_held(void *arg, void **value)
{
    (void)arg;
    (void)value;
    pthread_mutex_lock(&mutex);
    for (size_t sum = 0; sum < LIMIT + LIMIT / 2; sum += BLOCK) {
        void *volatile block = malloc(BLOCK);
        free(block);
    }
    pthread_mutex_unlock(&mutex);
    return 0;
}

static void expect_meter_and_locks(void)
{
    stint_outcome outcome;
    EXPECT(stint_run(allocate, NULL, NULL, &outcome) == 0);
    EXPECT(outcome.usage.allocated >= BLOCKS * BLOCK);
    const stint_options limited = { .size = sizeof(stint_options), .budget = { .allocation = LIMIT } };
    EXPECT(stint_run(pass_the_limit_with_a_lock_held, NULL, &limited, &outcome) == 0);
    EXPECT(outcome.reason == STINT_REASON_ALLOCATION_LIMIT);
    EXPECT(outcome.usage.deferred > 0);
    EXPECT(pthread_mutex_trylock(&mutex) == 0);
    pthread_mutex_unlock(&mutex);
}

static void expect_pool(unsigned flags)
{
    const stint_pool_options pool_options = { .size = sizeof(stint_pool_options), .workers = 1, .flags = flags };
    const stint_options options = { .size = sizeof(stint_options), .flags = flags };
    stint_pool *pool = NULL;
    stint_future *future = NULL;
    stint_outcome outcome = { .status = STINT_ERROR };
    EXPECT(stint_pool_create(&pool_options, &pool) == 0);
    if (pool == NULL)
        return;
    if (flags != 0)
        EXPECT(stint_submit(pool, allocate, NULL, NULL, &future) == ENOTSUP);
    if (flags != 0)
        EXPECT(stint_submit_wait(pool, allocate, NULL, NULL, STINT_FOREVER, &future) == ENOTSUP);
    EXPECT(stint_submit(pool, allocate, NULL, &options, &future) == 0);
    EXPECT(stint_future_wait(future, &outcome) == 0);
    EXPECT(outcome.status == STINT_OK);
    stint_future_release(future);
    EXPECT(stint_pool_destroy(pool) == 0);
}

static void expect_refusal(void)
{
    stint_outcome outcome;
    stint_pool *pool = NULL;
    stint_options options = STINT_OPTIONS_INIT;
    EXPECT(stint_run(allocate, NULL, NULL, &outcome) == ENOTSUP);
    EXPECT(stint_run(allocate, NULL, &options, &outcome) == ENOTSUP);
    EXPECT(stint_pool_create(NULL, &pool) == ENOTSUP);
    EXPECT(!has_run);
    options.flags = ~STINT_ALLOW_UNMETERED;
    EXPECT(stint_run(allocate, NULL, &options, &outcome) == EINVAL);
    options.flags = STINT_ALLOW_UNMETERED;
    EXPECT(stint_run(allocate, NULL, &options, &outcome) == 0);
    EXPECT(has_run);
}

static int pass_the_limit(void *arg, void **value)
{
    (void)value;
    for (size_t *sum = arg; *sum < 2 * LIMIT; *sum += BLOCK) {
        if (stint_malloc(BLOCK) == NULL)
            return ENOMEM;
    }
    return 0;
}

/* If some lock functions are another's, a lock may seem to be held for ever: then the grace is exhausted too. */
static void expect_own_family(unsigned flags, bool locked)
{
    const stint_options limited = { .size = sizeof(stint_options), .budget = { .allocation = LIMIT }, .flags = flags };
    stint_outcome outcome;
    size_t sum = 0;
    EXPECT(stint_run(pass_the_limit, &sum, &limited, &outcome) == 0);
    EXPECT(outcome.reason == STINT_REASON_ALLOCATION_LIMIT);
    EXPECT(sum <= LIMIT || !locked);
}

/* A block that a failing task leaves in this module's variables stays; any other goes. */
#define LETTERS 320 /* a size of mimalloc's blocks: what lay there before is overwritten whole, and leads nowhere */

static char *in_variable;
static _Thread_local char *in_thread;
enum left { NOWHERE, IN_VARIABLE, IN_THREAD };

static int leave_block(void *arg, void **value)
{
    (void)value;
    char *block = stint_malloc(LETTERS);
    char *other = stint_malloc(LETTERS);
    if (block == NULL || other == NULL)
        return ENOMEM;
    memset(block, 'x', LETTERS);
    memset(other, 'y', LETTERS);
    if (*(enum left *)arg == IN_VARIABLE)
        in_variable = block;
    else if (*(enum left *)arg == IN_THREAD)
        in_thread = block;
    return EIO;
}

static bool is_whole(const char *block)
{
    size_t i = 0;
    while (block != NULL && i < LETTERS && block[i] == 'x')
        i++;
    return i == LETTERS;
}

static void expect_roots(unsigned flags)
{
    const stint_options options = { .size = sizeof(stint_options), .flags = flags };
    for (enum left left = NOWHERE; left <= IN_THREAD; left++) {
        stint_outcome outcome;
        EXPECT(stint_run(leave_block, &left, &options, &outcome) == 0);
        EXPECT(outcome.error == EIO);
        EXPECT((outcome.usage.kept != 0) == (left != NOWHERE));
        EXPECT(outcome.usage.kept < 2 * LETTERS);
    }
    for (int i = 0; i < BLOCKS; i++)
        stint_free(stint_malloc(LETTERS));
    EXPECT(is_whole(in_variable));
    EXPECT(is_whole(in_thread));
    stint_free(in_variable);
    stint_free(in_thread);
    in_variable = in_thread = NULL;
}

/* A block that libc makes for its caller is freed by the program's free. A program that is linked with stint, but
 * gets it behind libc, has libc's oldest realpath, which makes no block. */
static void expect_that_libc_s_blocks_can_be_freed(bool behind_libc)
{
    char *copy = strdup("a copy");
    EXPECT(strcmp(copy, "a copy") == 0);
    char *grown = realloc(copy, BLOCK);
    EXPECT(strcmp(grown, "a copy") == 0);
    free(grown);
    char *printed = NULL;
    EXPECT(asprintf(&printed, "%d", 42) == 2);
    free(printed);
    char *path = realpath("/.", NULL);
    EXPECT(behind_libc || (path != NULL && strcmp(path, "/") == 0));
    free(path);
    char *line = NULL;
    size_t size = 0;
    FILE *file = fopen("/proc/self/status", "r");
    EXPECT(file != NULL && getline(&line, &size, file) > 0);
    fclose(file);
    free(line);
}

int probe(const char *wanted)
{
    bool ours = strcmp(wanted, "ours") == 0;
    /* This may be a library, and the function of its task is its own code. */
    EXPECT(stint_module_allow("liblinking*") == 0 && stint_module_allow("linking_extension*") == 0);
    stint_link_report report = { .size = sizeof(stint_link_report), .function = "none" };
    EXPECT(stint_link_check(NULL) == EINVAL);
    EXPECT(stint_link_check(&report) == (ours ? 0 : ENOTSUP));
    if (ours) {
        EXPECT(report.metered && report.locked && report.unwinds && report.function == NULL && report.module == NULL);
        EXPECT(stint_malloc_is_overridden());
        expect_meter_and_locks();
    } else {
        const char *module = strchr(wanted, ':') + 1;
        size_t length = (size_t)(module - 1 - wanted);
        EXPECT(!report.metered || !report.locked);
        EXPECT(report.function != NULL && strlen(report.function) == length &&
               strncmp(report.function, wanted, length) == 0);
        EXPECT(report.module != NULL &&
               (strcmp(module, ".") == 0 ? report.module[0] == '\0' : strstr(report.module, module) != NULL));
        EXPECT(stint_malloc_is_overridden() == (strncmp(wanted, "malloc:", 7) != 0));
        expect_refusal();
    }
    if (failures > 0)
        fprintf(stderr, "check: %s of %s\n", report.function, report.module);
    expect_own_family(ours ? 0 : STINT_ALLOW_UNMETERED, report.locked);
    expect_pool(ours ? 0 : STINT_ALLOW_UNMETERED);
    expect_roots(ours ? 0 : STINT_ALLOW_UNMETERED);
    expect_that_libc_s_blocks_can_be_freed(strstr(wanted, ":libc.so") != NULL);
    stint_link_report again = STINT_LINK_REPORT_INIT;
    EXPECT(stint_link_check(&again) == (ours ? 0 : ENOTSUP));
    EXPECT(again.function == report.function && again.module == report.module);
    return failures;
}
