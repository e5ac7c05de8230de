/* SPDX-License-Identifier: MIT
 *
 * escapes BOMB...: tasks that try to get past their budget in a way that is no malloc, each with 64 MiB and two
 * seconds, and what became of them:
 *
 *   streams   is stopped with streams open, a hundred times; ok if none is open afterwards
 *   walker    walks a tree of libxml2's that is nested a million levels deep, by a function that calls itself */
#include <dirent.h>
#include <libxml/tree.h>
#include <stdio.h>
#include <stdlib.h>
#include <stint/stint.h>
#include <string.h>

#define MEMORY ((size_t)64 << 20)
#define LARGE ((size_t)1 << 30)
#define TEN_SECONDS UINT64_C(10000000000)
#define LEVELS 1000000
#define STREAMS 100

/* volatile: or a compiler that sees that nobody reads the blocks makes none, and loops for ever. */
static void fill(void)
{
    for (;;) {
        char *volatile block = malloc(1000);
        if (block == NULL)
            return;
        memset(block, 1, 1000);
    }
}

/* --- streams --- */

static int open_and_fill(void *unused, void **value)
{
    (void)unused;
    (void)value;
    FILE *stream = fopen("/dev/null", "w");
    if (stream == NULL)
        return 1;
    fputs("half a line", stream);
    fill();
    return 0;
}

static int count_descriptors(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    if (folder == NULL)
        return -1;
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

/* --- walker --- */

static size_t count_below(const xmlNode *node)
{
    size_t count = 1;
    for (const xmlNode *child = node->children; child != NULL; child = child->next)
        count += count_below(child);
    return count;
}

static int walk(void *unused, void **value)
{
    (void)unused;
    (void)value;
    static const xmlChar name[] = "a";
    xmlNodePtr root = xmlNewNode(NULL, name);
    xmlNodePtr at = root;
    for (int i = 0; at != NULL && i < LEVELS; i++)
        at = xmlNewChild(at, NULL, name, NULL);
    return at == NULL || count_below(root) != LEVELS + 1;
}

/* --- */

static stint_pool *pool; /* a stack has its end on a worker only */

static stint_outcome run(stint_fn *fn, size_t memory)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget = (stint_budget){ .memory = memory, .run_ns = TEN_SECONDS };
    stint_future *future;
    stint_outcome outcome;
    if (stint_submit(pool, fn, NULL, &options, &future) != 0 || stint_future_wait(future, &outcome) != 0)
        exit(1);
    stint_future_release(future);
    return outcome;
}

static void say(const char *bomb, stint_outcome outcome)
{
    printf("%s: %s, %s\n", bomb, stint_status_name(outcome.status), stint_reason_name(outcome.reason));
}

static int leave_streams(void)
{
    run(open_and_fill, MEMORY); /* whatever is opened once, is */
    int before = count_descriptors();
    stint_outcome outcome;
    for (int i = 0; i < STREAMS; i++)
        outcome = run(open_and_fill, MEMORY / 16);
    say("streams", outcome);
    int after = count_descriptors();
    if (after != before)
        printf("streams: %d descriptors before, %d after\n", before, after);
    return after != before;
}

int main(int argc, char **argv)
{
    int error = 0;
    if (stint_pool_create(NULL, &pool) != 0)
        return 1;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "streams") == 0)
            error |= leave_streams();
        else if (strcmp(argv[i], "walker") == 0)
            say(argv[i], run(walk, LARGE));
        else
            return 2;
    }
    return stint_pool_destroy(pool) != 0 || error;
}
