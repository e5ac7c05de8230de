/* SPDX-License-Identifier: MIT
 *
 * What the overrides of malloc cost a program that runs no task: the same loop in this program, which is linked with
 * stint, and in one that is linked with mimalloc alone, run in turns. The figure is the median over the pairs of runs
 * of the ratio. Once nothing but malloc and free of blocks that stay in the first cache, where every instruction
 * counts; once of 65,536 blocks that are also written to, as programs do.
 *
 * usage: malloc PLAIN [PAIRS]   PLAIN: the other program, whose only argument is "hot" or "used" */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "measure.h"

#define HOT 512
#define USED 65536
#define RUN 200000
#define RUNS 20
#define MOST_PAIRS 201

/* Blocks of mixed sizes, freed in another order. The least of several runs: nothing but noise makes one slower. */
static double loop(uint32_t count, bool use)
{
    static void *blocks[USED];
    double least = 1e9;
    uint32_t random = 1;
    for (int run = 0; run < RUNS; run++) {
        double begin = now_ns();
        for (int i = 0; i < RUN; i++) {
            random = random * 1664525 + 1013904223;
            size_t size = 16 + (random >> 8) % 500;
            void **block = &blocks[(random >> 16) % count];
            free(*block);
            *block = malloc(size);
            if (use)
                memset(*block, 1, size);
        }
        double time = (now_ns() - begin) / RUN;
        least = time < least ? time : least;
    }
    return least;
}

static double run_program(const char *path, const char *mode)
{
    char command[4096];
    double figure = 0;
    snprintf(command, sizeof command, "'%s' %s", path, mode);
    FILE *pipe = popen(command, "r");
    if (pipe == NULL || fscanf(pipe, "%lf", &figure) != 1 || pclose(pipe) != 0) {
        fprintf(stderr, "malloc: cannot run %s\n", path);
        exit(1);
    }
    return figure;
}

static void compare(const char *self, const char *other, const char *mode, size_t pairs)
{
    static double plain[MOST_PAIRS];
    static double ours[MOST_PAIRS];
    static double ratio[MOST_PAIRS];
    for (size_t i = 0; i < pairs; i++) {
        if (i % 2 == 0)
            plain[i] = run_program(other, mode);
        ours[i] = run_program(self, mode);
        if (i % 2 != 0)
            plain[i] = run_program(other, mode);
        ratio[i] = ours[i] / plain[i];
    }
    printf("malloc.no_task %-5s %6.2f ns plain, %6.2f ns with stint: %.3f times (half of the pairs within %.3f and "
           "%.3f)\n",
           mode, median(plain, pairs), median(ours, pairs), median(ratio, pairs), quantile(ratio, pairs, 0.25),
           quantile(ratio, pairs, 0.75));
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "hot") == 0)
        return printf("%.4f\n", loop(HOT, false)) < 0;
    if (argc == 2 && strcmp(argv[1], "used") == 0)
        return printf("%.4f\n", loop(USED, true)) < 0;
    size_t pairs = argc == 3 ? strtoul(argv[2], NULL, 10) : 21;
    if (argc < 2 || pairs < 1 || pairs > MOST_PAIRS) {
        fprintf(stderr, "usage: malloc PLAIN [PAIRS]\n");
        return 2;
    }
    compare(argv[0], argv[1], "hot", pairs);
    compare(argv[0], argv[1], "used", pairs);
    return 0;
}
