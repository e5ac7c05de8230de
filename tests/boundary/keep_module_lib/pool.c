/* SPDX-License-Identifier: MIT
 *
 * A library with a pool of its own: a returned object waits on a list for the next caller. */
#include <stdlib.h>
#include <string.h>

#define SIZE 200

struct item {
    struct item *next;
    char bytes[SIZE - sizeof(struct item *)];
};

static struct item *unused;

void *pool_take(void);
void pool_give(void *item);
char *pool_name(void);

void *pool_take(void)
{
    if (unused == NULL) {
        struct item *item = malloc(sizeof *item);
        if (item == NULL)
            return NULL;
        item->next = NULL;
        unused = item;
    }
    struct item *taken = unused;
    unused = taken->next;
    return taken;
}

void pool_give(void *given)
{
    struct item *item = given;
    item->next = unused;
    unused = item;
}

char *pool_name(void)
{
    static char *name;
    if (name == NULL)
        name = strdup("made when it is first asked for");
    return name;
}
