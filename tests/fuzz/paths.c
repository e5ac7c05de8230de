/* SPDX-License-Identifier: MIT
 *
 * The list of paths that stint-batch reads from standard input: each line that is not empty becomes a file of the list,
 * or is counted as one that nothing parses. Paths are looked up below a folder that does not exist, so that no input
 * names a file of this machine. */
#include "paths.h"

#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct paths paths = PATHS_INIT;
    if (size < 1)
        return 0;
    int separator = data[0] % 2 == 0 ? '\n' : '\0';
    size_t lines = 0;
    int input = memfd_create("input", MFD_CLOEXEC);
    fuzz_require(input >= 0);
    for (size_t at = 1; at < size;) {
        const uint8_t *end = memchr(data + at, separator, size - at);
        size_t length = end != NULL ? (size_t)(end - data) - at : size - at;
        fuzz_require(write(input, "/nowhere/", 9) == 9);
        fuzz_require(write(input, data + at, length) == (ssize_t)length);
        fuzz_require(separator == '\0' ? write(input, "", 1) == 1 : write(input, "\n", 1) == 1);
        lines++;
        at += length + 1;
    }
    fuzz_require(lseek(input, 0, SEEK_SET) == 0 && dup2(input, STDIN_FILENO) == STDIN_FILENO);
    close(input);
    fuzz_require(paths_add_from_input(&paths, separator) == 0);
    fuzz_require(paths.count == lines && paths.skipped == 0);
    for (size_t i = 0; i < paths.count; i++) {
        fuzz_require(strncmp(paths.files[i].path, "/nowhere/", 9) == 0);
        fuzz_require((paths.files[i].kind == PARSE_UNKNOWN) == (paths.files[i].error != 0));
    }
    paths_free(&paths);
    return 0;
}
