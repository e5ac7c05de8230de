/* SPDX-License-Identifier: MIT
 *
 * The measured side of the harness; see serve.h. */
#include "serve.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WARM_SLICES 3

size_t bench_idle(double *figures)
{
    double begin = bench_process_ns();
    sleep(1);
    figures[0] = (bench_process_ns() - begin) * 1e-7;
    return 1;
}

double bench_slices(void (*slice)(void *arg), void *arg, size_t operations)
{
    double sorted[BENCH_SLICES];
    for (int i = 0; i < WARM_SLICES; i++)
        slice(arg);
    for (size_t i = 0; i < BENCH_SLICES; i++) {
        double begin = bench_thread_ns();
        slice(arg);
        double time = bench_thread_ns() - begin;
        size_t place = i;
        for (; place > 0 && sorted[place - 1] > time; place--)
            sorted[place] = sorted[place - 1];
        sorted[place] = time;
    }
    return sorted[BENCH_SLICES / 2] / (double)operations;
}

int bench_serve(const struct bench_work *work, unsigned workers)
{
    static struct {
        uint64_t count;
        double figures[BENCH_FIGURES_MAX];
    } answer;
    char go;
    if (work->prepare != NULL)
        work->prepare(workers);
    while (read(STDIN_FILENO, &go, 1) == 1) {
        answer.count = work->measure(answer.figures);
        size_t size = sizeof answer.count + answer.count * sizeof *answer.figures;
        /* Less than a pipe takes at once. */
        if (write(STDOUT_FILENO, &answer, size) != (ssize_t)size)
            return 1;
    }
    return 0;
}

int bench_serve_main(const struct bench_work *works, int argc, char **argv)
{
    unsigned long workers = argc == 5 ? strtoul(argv[4], NULL, 10) : 0;
    if (workers >= 1 && workers <= 1024 && strcmp(argv[1], "--serve") == 0) {
        for (const struct bench_work *work = works; work->bench != NULL; work++) {
            if (strcmp(work->bench, argv[2]) == 0 && strcmp(work->subject, argv[3]) == 0)
                return bench_serve(work, (unsigned)workers);
        }
    }
    fprintf(stderr, "%s is a part of stint-bench: run stint-bench\n", argv[0]);
    return 2;
}
