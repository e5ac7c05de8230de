/* SPDX-License-Identifier: MIT
 *
 * Memory that the loader allocates in a rolled-back task is the process's, however the program was started: MODULE. */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stint/stint.h>

struct loading {
    const char *path;
    void *module;
};

static int load_and_fail(void *arg, void **value)
{
    (void)value;
    struct loading *loading = arg;
    loading->module = dlopen(loading->path, RTLD_NOW);
    return -1;
}

/* Whatever was destroyed is written over. */
static int fill(void *arg, void **value)
{
    (void)arg;
    (void)value;
    for (size_t size = 8; size <= 8192; size += size / 8 + 8) {
        for (size_t i = 0; i < ((size_t)1 << 18) / size; i++) {
            void *volatile block = malloc(size);
            if (block != NULL)
                memset(block, 0xee, size);
        }
    }
    return -1;
}

int main(int count, char **arguments)
{
    if (count != 2)
        return 2;
    struct loading loading = { .path = arguments[1] };
    stint_outcome outcome;
    if (stint_run(load_and_fail, &loading, NULL, &outcome) != 0 || loading.module == NULL)
        return 3;
    if (outcome.usage.kept > 0)
        return 4;
    for (int i = 0; i < 4; i++)
        stint_run(fill, NULL, NULL, &outcome);
    const struct link_map *map = loading.module;
    return strcmp(map->l_name, loading.path) == 0 && dlsym(loading.module, "probe") != NULL &&
                   dlclose(loading.module) == 0
               ? 0
               : 5;
}
