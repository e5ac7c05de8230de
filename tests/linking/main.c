/* SPDX-License-Identifier: MIT
 *
 * A program that is linked with stint, or with a library that is. */
#include "probe.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZES_ADDRESSES 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define SANITIZES_ADDRESSES 1
#endif

#define SKIPPED 77

/* It takes the highest address to be as high as the stack, which an emulation lays lower than what it lets be mapped;
 * and mimalloc asks for high addresses. */
#ifdef SANITIZES_ADDRESSES
#define HIGH ((uintptr_t)4 << 40)
#define SIZE ((size_t)64 << 10)

void *__asan_region_is_poisoned(void *begin, size_t size);

static const char *lack_of_known_addresses(void)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    long mapped =
        syscall(SYS_mmap, HIGH, SIZE, PROT_READ | PROT_WRITE, flags, -1, (off_t)0); /* its own mmap asks for less */
    bool is_known = mapped == -1 || __asan_region_is_poisoned((void *)mapped, 1) == NULL;
    if (mapped != -1)
        munmap((void *)mapped, SIZE);
    return is_known ? NULL : "AddressSanitizer does not know how high addresses are here";
}
#else
static const char *lack_of_known_addresses(void)
{
    return NULL;
}
#endif

int main(int count, char **arguments)
{
    const char *lack = lack_of_known_addresses();
    if (lack != NULL) {
        printf("not tested: %s\n", lack);
        return SKIPPED;
    }
    return count == 2 ? probe(arguments[1]) : 2;
}
