/* SPDX-License-Identifier: MIT
 *
 * A program that knows nothing of stint and loads a plugin: PLUGIN local|global WANTED. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int count, char **arguments)
{
    if (count != 4)
        return 2;
    void *plugin = dlopen(arguments[1], RTLD_NOW | (strcmp(arguments[2], "global") == 0 ? RTLD_GLOBAL : RTLD_LOCAL));
    if (plugin == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    int (*probe)(const char *);
    *(void **)&probe = dlsym(plugin, "probe");
    return probe(arguments[3]);
}
