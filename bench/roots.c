/* SPDX-License-Identifier: MIT
 *
 * What the scan of roots costs: a rollback with it against one without, in turns; with more to scan; with a large heap
 * that a root points into; with pointers to blocks that are gone; and how long what is kept slows later rollbacks. */
#include <link.h>
#include <stdio.h>

#include <stint/stint.h>

#include "measure.h"

#define MOST_PAIRS 2001
#define MIB ((size_t)1 << 20)

static char more_segment[64 * MIB];
static char *root;
static char *stale[1000];

static int add_writable(struct dl_phdr_info *info, size_t size, void *sum)
{
    (void)size;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_LOAD && (info->dlpi_phdr[i].p_flags & PF_W))
            *(size_t *)sum += info->dlpi_phdr[i].p_memsz;
        else if (info->dlpi_phdr[i].p_type == PT_GNU_RELRO)
            *(size_t *)sum -= info->dlpi_phdr[i].p_memsz;
    }
    return 0;
}

struct work {
    size_t blocks;
    size_t size;
    size_t stale; /* of the first blocks so many are freed, and pointed to */
    bool rooted;
};

static int allocate_and_fail(void *arg, void **value)
{
    const struct work *work = arg;
    (void)value;
    for (size_t i = 0; i < work->blocks; i++) {
        char *block = stint_malloc(work->size);
        *(volatile char *)block = 1;
        if (i < work->stale)
            stale[i] = block;
        else if (work->rooted)
            root = block;
    }
    for (size_t i = 0; i < work->stale; i++)
        stint_free(stale[i]);
    return 1;
}

static double roll_back(struct work work, stint_root_scan scan)
{
    stint_outcome outcome;
    stint_set_root_scan(scan);
    double begin = now_ns();
    if (stint_run(allocate_and_fail, &work, NULL, &outcome) != 0)
        exit(1);
    double time = now_ns() - begin - (double)outcome.usage.wall_ns;
    stint_set_root_scan(STINT_ROOT_SCAN_ALWAYS);
    return time / 1e3;
}

struct medians {
    double with;
    double without;
    double more;
};

static struct medians compare(struct work work, size_t pairs)
{
    static double with[MOST_PAIRS];
    static double without[MOST_PAIRS];
    static double more[MOST_PAIRS];
    for (size_t i = 0; i < pairs; i++) {
        if (i % 2 == 0)
            without[i] = roll_back(work, STINT_ROOT_SCAN_NEVER);
        with[i] = roll_back(work, STINT_ROOT_SCAN_ALWAYS);
        if (i % 2 != 0)
            without[i] = roll_back(work, STINT_ROOT_SCAN_NEVER);
        more[i] = with[i] - without[i];
    }
    return (struct medians){ median(with, pairs), median(without, pairs), median(more, pairs) };
}

static void print_comparison(const char *name, struct work work, size_t pairs)
{
    struct medians medians = compare(work, pairs);
    printf("%-52s %10.1f %10.1f %+10.1f\n", name, medians.without, medians.with, medians.more);
}

int main(void)
{
    const struct work small = { .blocks = 10, .size = 100 };
    size_t writable = 0;
    dl_iterate_phdr(add_writable, &writable);

    printf("us a rollback, median                                   without       scan       more\n");
    struct medians clean = compare(small, 51);
    printf("%-52s %10.1f %10.1f %+10.1f\n", "10 blocks, 64 MiB of zero pages to scan", clean.without, clean.with,
           clean.more);
    for (size_t i = 0; i < sizeof more_segment; i += sizeof(uintptr_t))
        *(uintptr_t *)(more_segment + i) = i;
    struct medians filled = compare(small, 51);
    printf("%-52s %10.1f %10.1f %+10.1f\n", "10 blocks, 64 MiB of data to scan", filled.without, filled.with,
           filled.more);
    printf("%-52s %10.1f\n", "  for a MiB", filled.more / ((double)writable / (double)MIB));
    print_comparison("100,000 blocks of 256 bytes", (struct work){ .blocks = 100000, .size = 256 }, 51);
    print_comparison("the same, 1 stale pointer", (struct work){ .blocks = 100000, .size = 256, .stale = 1 }, 21);
    print_comparison("the same, 100 stale pointers", (struct work){ .blocks = 100000, .size = 256, .stale = 100 }, 5);
    print_comparison("the same, 1000 stale pointers", (struct work){ .blocks = 100000, .size = 256, .stale = 1000 }, 3);

    double kept = roll_back((struct work){ .blocks = 4 * MIB, .size = 256, .rooted = true }, STINT_ROOT_SCAN_ALWAYS);
    printf("%-52s %21.1f\n", "1 GiB of 256-byte blocks, a root", kept);
    print_comparison("10 blocks, while that is kept", small, 11);
    root = NULL;
    printf("%-52s %21.1f\n", "10 blocks, and that is destroyed", roll_back(small, STINT_ROOT_SCAN_ALWAYS));
    return 0;
}
