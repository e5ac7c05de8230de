/* SPDX-License-Identifier: MIT
 *
 * stint-endurance WHAT COUNT: one kind of work, very often, whose memory `run` beside this file watches from outside.
 * Ends with 1 as soon as an outcome is wrong. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stint/stint.h>

#define LIVE 1000 /* results that are kept, before the oldest is freed */

static unsigned long wrong;

static stint_outcome run(stint_fn *fn, void *arg, const stint_options *options, stint_reason wanted)
{
    stint_outcome outcome = { .reason = STINT_REASON_NONE };
    if (stint_run(fn, arg, options, &outcome) != 0 || outcome.reason != wanted)
        wrong++;
    return outcome;
}

/* Leaves one block of a size that differs from task to task. */
static int leave_block(void *number, void **value)
{
    unsigned long n = *(unsigned long *)number;
    for (int i = 0; i < 8; i++)
        free(memset(malloc(16 + (n * 7 + (unsigned)i * 131) % 2000), 1, 16));
    *value = malloc(16 + n * 37 % 500);
    return *value == NULL;
}

static void commits(unsigned long count)
{
    static void *live[LIVE];
    for (unsigned long n = 0; n < count && wrong == 0; n++) {
        free(live[n % LIVE]);
        live[n % LIVE] = run(leave_block, &n, NULL, STINT_REASON_NONE).value;
    }
    for (size_t i = 0; i < LIVE; i++)
        free(live[i]);
}

static int hold_too_much(void *arg, void **value)
{
    (void)arg;
    do
        *value = malloc(1000);
    while (*value != NULL);
    return -1;
}

/* Every other inner scope is stopped, and all lie in one task. */
static int nest(void *count, void **value)
{
    stint_options limited = STINT_OPTIONS_INIT;
    limited.budget.memory = (size_t)256 << 10;
    (void)value;
    for (unsigned long n = 0; n < *(unsigned long *)count && wrong == 0; n++) {
        if (n % 2 == 0)
            free(run(leave_block, &n, NULL, STINT_REASON_NONE).value);
        else
            run(hold_too_much, NULL, &limited, STINT_REASON_MEMORY_LIMIT);
    }
    return wrong != 0;
}

static void scopes(unsigned long count)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.memory = (size_t)64 << 20;
    run(nest, &count, &options, STINT_REASON_NONE);
}

static void *thread_of_one_task(void *number)
{
    return run(leave_block, number, NULL, STINT_REASON_NONE).value;
}

/* One after the other; what each leaves another thread frees. */
static void threads(unsigned long count)
{
    static void *live[LIVE];
    for (unsigned long n = 0; n < count && wrong == 0; n++) {
        pthread_t thread;
        void *result = NULL;
        if (pthread_create(&thread, NULL, thread_of_one_task, &n) != 0 || pthread_join(thread, &result) != 0)
            wrong++;
        free(live[n % LIVE]);
        live[n % LIVE] = result;
    }
    for (size_t i = 0; i < LIVE; i++)
        free(live[i]);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(unsigned long count);
    } kinds[] = { { "commits", commits }, { "scopes", scopes }, { "threads", threads } };
    unsigned long count = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
    for (size_t i = 0; count > 0 && i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(argv[1], kinds[i].name) == 0) {
            kinds[i].run(count);
            return wrong != 0;
        }
    }
    fprintf(stderr, "usage: stint-endurance commits|scopes|threads COUNT\n");
    return 2;
}
