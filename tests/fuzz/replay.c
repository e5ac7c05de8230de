/* SPDX-License-Identifier: MIT
 *
 * Calls a fuzzer with inputs that are kept: every file of the folders that its arguments name, in alphabetical order.
 * No file, or one that cannot be read, is an error: a test that tests nothing must not pass. */
#include <dirent.h>
#include <errno.h>
#include <unistd.h>

#include "fuzz.h"

#define LARGEST ((size_t)1 << 20)

#pragma weak LLVMFuzzerInitialize

static unsigned count;

static void replay(const char *folder, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    uint8_t *bytes = malloc(LARGEST);
    if (file == NULL || bytes == NULL) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        exit(1);
    }
    size_t size = fread(bytes, 1, LARGEST, file);
    fclose(file);
    /* Of exactly its size, so that a sanitizer sees a look behind it. */
    uint8_t *input = malloc(size);
    fuzz_require(input != NULL || size == 0);
    if (size > 0)
        memcpy(input, bytes, size);
    free(bytes);
    fprintf(stderr, "%s\n", name);
    LLVMFuzzerTestOneInput(input, size);
    free(input);
    count++;
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

int main(int argc, char **argv)
{
    if (LLVMFuzzerInitialize != NULL)
        LLVMFuzzerInitialize(&argc, &argv);
    for (int i = 1; i < argc; i++) {
        struct dirent **entries;
        int found = scandir(argv[i], &entries, is_visible, alphasort);
        for (int k = 0; k < found; k++) {
            alarm(120);
            replay(argv[i], entries[k]->d_name);
            free(entries[k]);
        }
        if (found >= 0)
            free(entries);
    }
    if (count == 0) {
        fprintf(stderr, "usage: %s FOLDER...: there are no inputs\n", argv[0]);
        return 1;
    }
    printf("%u inputs\n", count);
    return 0;
}
