/* SPDX-License-Identifier: MIT
 *
 * stint-statistics: the tables of docs/metering.md. It prints the same each time. */
#include <stdio.h>
#include <string.h>

#include "chance.h"
#include "simulation.h"

#define WORD 8.0
#define RATE 1e-4          /* samples a word, as memprof-limits has them */
#define MEAN (WORD / RATE) /* the same in bytes from one to the next */
#define KIB 1024.0
#define MIB (1024 * KIB)

#define SEED 2
#define DOUBT 0.01 /* that an interval of confidence is beside the truth */
#define TAIL_TASKS 10000000
#define COUNTING_TASKS 200000

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static const double targets[] = { 1e-9, 4e-15, 1e-50 };

static void title(const char *text)
{
    printf("\n%s\n", text);
    for (size_t i = 0; i < strlen(text); i++)
        putchar('-');
    printf("\n\n");
}

static void print_size(double bytes)
{
    if (bytes < 100)
        printf(" %9.0f B  ", bytes);
    else if (bytes < MIB)
        printf(" %9.4g KiB", bytes / KIB);
    else
        printf(" %9.4g MiB", bytes / MIB);
}

static void print_first_look(void)
{
    static const double amounts[] = { 80 * KIB, 1.62 * MIB, 2.5 * MIB, 8.8 * MIB };
    title("1. A limit has been passed: until the task is next looked at");
    printf("              by samples, one in %.0f bytes       exactly\n", MEAN);
    printf("    allocated    looked at   not looked at     looked at\n");
    for (size_t i = 0; i < COUNT_OF(amounts); i++) {
        print_size(amounts[i]);
        printf("  %9.2f %%  %14.1e         100 %%\n", 100 * chance_sampled(amounts[i], MEAN),
               chance_missed(amounts[i], MEAN));
    }
    printf("\n  The chance that it was not looked at is down to\n");
    for (size_t i = 0; i < COUNT_OF(targets); i++) {
        printf("  %14.0e after", targets[i]);
        print_size(chance_bytes_until_sampled(targets[i], MEAN));
        printf("\n");
    }
}

static void print_allocation_limits(void)
{
    static const double samples[] = { 3, 6, 10, 20, 50, 100, 200, 500, 1000, 10000 };
    title("2. An allocation limit l: what is safe to allocate (N), and by how much l is larger ((l-N)/N)");
    printf("                         by samples, interrupted too early with a chance of at most        exactly\n");
    printf("    k     limit l    ");
    for (size_t i = 0; i < COUNT_OF(targets); i++)
        printf("%16.0e       ", targets[i]);
    printf("    N = l\n");
    for (size_t i = 0; i < COUNT_OF(samples); i++) {
        printf("%5.0f", samples[i]);
        print_size(samples[i] * MEAN);
        for (size_t j = 0; j < COUNT_OF(targets); j++) {
            double limit = samples[i] / RATE;
            double safe = chance_safe_words(samples[i], RATE, targets[j]);
            print_size(safe * WORD);
            printf(" %8.3g", (limit - safe) / safe);
        }
        printf("        0\n");
    }
}

/* A task with a memory limit holds too much from some moment on, and is found out at its next sample. */
static void print_memory_limits(void)
{
    static const double limits[] = { 64 * KIB, MIB, 8 * MIB, 64 * MIB, 512 * MIB, 4096 * MIB };
    title("3. A memory limit: by how much it can be passed");
    printf("                   by samples, by more with a chance of at most        exactly\n");
    printf("        limit   ");
    for (size_t i = 0; i < COUNT_OF(targets); i++)
        printf("%11.0e   ", targets[i]);
    printf("       never more\n");
    for (size_t i = 0; i < COUNT_OF(limits); i++) {
        double floor = 64 * KIB;
        double share = limits[i] / 128;
        print_size(limits[i]);
        for (size_t j = 0; j < COUNT_OF(targets); j++)
            print_size(chance_bytes_until_sampled(targets[j], MEAN));
        printf("   ");
        print_size(share > floor ? share : floor);
        printf("\n");
    }
}

static void print_tail_simulation(void)
{
    struct simulation_tail tail = simulate_tail(SEED, MEAN, TAIL_TASKS);
    title("4. Simulated: tasks that were not looked at");
    printf("  allocated    of %d tasks     share, with %.0f %% confidence       e^(-n/S)\n", TAIL_TASKS,
           100 - 100 * DOUBT);
    for (int i = 1; i <= SIMULATION_MEANS; i++) {
        struct chance_interval share = chance_of(tail.unsampled[i], TAIL_TASKS, DOUBT);
        printf("  %7d S  %12.0f         %.4e to %.4e      %.4e\n", i, tail.unsampled[i], share.low, share.high,
               chance_missed(i * MEAN, MEAN));
    }
}

static void print_counting_simulation(void)
{
    static const double shares[] = { 0.25, 0.4, 0.6, 0.8, 1, 1.2, 1.4 };
    const unsigned k = 20;
    title("5. Simulated: tasks with a limit of 20 samples that were interrupted");
    printf("  allocated    of %d tasks      share, with %.0f %% confidence      by bytes    by words    exactly\n",
           COUNTING_TASKS, 100 - 100 * DOUBT);
    for (size_t i = 0; i < COUNT_OF(shares); i++) {
        double bytes = shares[i] * k * MEAN;
        double interrupted = simulate_interrupted(SEED + i, MEAN, COUNTING_TASKS, k, bytes);
        struct chance_interval share = chance_of(interrupted, COUNTING_TASKS, DOUBT);
        printf("  %7.2f l  %12.0f         %.4e to %.4e    %.4e  %.4e    %7d\n", shares[i], interrupted, share.low,
               share.high, chance_interrupted(k, bytes, MEAN), chance_interrupted_words(k, bytes / WORD, RATE),
               shares[i] > 1);
    }
}

static void print_estimates(void)
{
    static const double samples[] = { 0, 1, 3, 10, 30, 100, 1000, 10000 };
    title("6. A profile: what so many samples say of the bytes, one in 524288");
    printf("  samples     estimate        truth, with 95 %% confidence          of the estimate\n");
    for (size_t i = 0; i < COUNT_OF(samples); i++) {
        struct chance_interval expected = chance_expected(samples[i], 0.05);
        printf("  %7.0f", samples[i]);
        print_size(samples[i] * 524288);
        printf("   ");
        print_size(expected.low * 524288);
        printf("  to");
        print_size(expected.high * 524288);
        if (samples[i] > 0)
            printf("    %3.0f to %3.0f %%", 100 * expected.low / samples[i], 100 * expected.high / samples[i]);
        printf("\n");
    }
}

int main(void)
{
    printf("S = %.0f bytes, %.0f words\n", MEAN, 1 / RATE);
    print_first_look();
    print_allocation_limits();
    print_memory_limits();
    print_tail_simulation();
    print_counting_simulation();
    print_estimates();
    return 0;
}
