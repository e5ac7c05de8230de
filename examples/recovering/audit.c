/* SPDX-License-Identifier: MIT
 *
 * Finding what a stopped task leaves: a block that a static variable points to. Then the same cache filled for the
 * process. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <stint/stint.h>

static void *volatile cache;

static void report_root(const stint_root *root, void *unused)
{
    (void)unused;
    printf("%s left a pointer in %s of %s: %zu bytes kept\n", root->task, root->where,
           root->module[0] != '\0' ? root->module : "the program", root->kept);
}

static int careless(void *unused, void **value)
{
    (void)unused;
    cache = malloc(100);
    for (void **node; (node = malloc(1000)) != NULL; *value = node)
        *node = *value;
    return ENOMEM;
}

static int careful(void *unused, void **value)
{
    (void)unused;
    stint_keep_begin(); /* these blocks are the process's */
    cache = malloc(100);
    stint_keep_end();
    for (void **node; (node = malloc(1000)) != NULL; *value = node)
        *node = *value;
    return ENOMEM;
}

int main(void)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.allocation = 1 << 20;
    stint_outcome first;
    stint_outcome second;
    stint_roots_set_report(report_root, NULL);
    options.name = "careless";
    if (stint_run(careless, NULL, &options, &first) != 0)
        return 1;
    options.name = "careful";
    if (stint_run(careful, NULL, &options, &second) != 0)
        return 1;
    printf("careful left %d bytes kept\n", (int)second.usage.kept);
    free(cache);
    return first.usage.kept == 0 || second.usage.kept != 0;
}
