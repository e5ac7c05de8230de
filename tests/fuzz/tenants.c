/* SPDX-License-Identifier: MIT
 *
 * The server's tenants file: it is read and put in force, or a message says what is wrong with it. */
#include "tenants.h"

#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct tenants *tenants;
    char path[64], message[TENANTS_MESSAGE] = "";
    if (tenants == NULL)
        tenants = tenants_create(8);
    fuzz_require(tenants != NULL);
    int file = memfd_create("tenants", MFD_CLOEXEC);
    fuzz_require(file >= 0 && write(file, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    struct tenants_file *read = tenants_file_read(path, message);
    close(file);
    if (read == NULL) {
        fuzz_require(message[0] != '\0' && memchr(message, '\0', sizeof message) != NULL);
        return 0;
    }
    fuzz_require(tenants_apply(tenants, read) == 0);
    tenants_file_free(read);
    return 0;
}
