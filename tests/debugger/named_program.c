/* SPDX-License-Identifier: MIT
 *
 * named_program: has a task with a mistake that valgrind or AddressSanitizer reports, for named.sh. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stint/stint.h>

/* Of a block that is freed, or of a variable that has no value. */
__attribute__((noinline)) static int look(const volatile int *mistaken)
{
    return *mistaken > 0 ? puts("more") : puts("less");
}

static int parse(void *arg, void **value)
{
    volatile int unknown[16];
    (void)arg;
    (void)value;
    int *block = malloc(sizeof *block);
#ifdef __SANITIZE_ADDRESS__
    free(block);
    look(block);
#else
    look(&unknown[7]);
    free(block);
#endif
    return 0;
}

static int nest(void *arg, void **value)
{
    stint_outcome outcome;
    stint_options options = STINT_OPTIONS_INIT;
    options.name = "inner-parse";
    (void)value;
    return stint_run(parse, arg, &options, &outcome);
}

/* named_program inner|outer|none: the mistake is made by a task inside a task, by a named task, or by one without a
 * name. */
int main(int count, char **arguments)
{
    stint_options options = STINT_OPTIONS_INIT;
    stint_pool_options pool_options = STINT_POOL_OPTIONS_INIT;
    const char *whose = count > 1 ? arguments[1] : "none";
    stint_pool *pool;
    stint_future *future;
    stint_outcome outcome;
    options.name = strcmp(whose, "none") != 0 ? "outer-parse" : NULL;
    pool_options.workers = 1;
    pool_options.name = "books";
    if (stint_pool_create(&pool_options, &pool) != 0 ||
        stint_submit(pool, strcmp(whose, "inner") == 0 ? nest : parse, NULL, &options, &future) != 0 ||
        stint_future_wait(future, &outcome) != 0)
        return 1;
    stint_future_release(future);
    return stint_pool_destroy(pool);
}
