/* SPDX-License-Identifier: MIT
 *
 * FFTW: its planner keeps all that it has learnt in a table of the process, which one thread at a time may use. A
 * refused allocation ends the process. */
#include "library.h"

#include <fftw3.h>
#include <math.h>
#include <pthread.h>

static pthread_mutex_t planner = PTHREAD_MUTEX_INITIALIZER;

static fftw_plan make_plan(int size, fftw_complex *values, int sign)
{
    pthread_mutex_lock(&planner);
    fftw_plan plan = fftw_plan_dft_1d(size, values, values, sign, FFTW_ESTIMATE);
    pthread_mutex_unlock(&planner);
    return plan;
}

static void destroy_plan(fftw_plan plan)
{
    pthread_mutex_lock(&planner);
    fftw_destroy_plan(plan);
    pthread_mutex_unlock(&planner);
}

static int work(uint32_t seed, uint64_t *sum)
{
    static const int sizes[] = { 64, 96, 105, 128, 143, 250 };
    int size = sizes[seed % 6];
    fftw_complex *values = fftw_malloc(sizeof *values * (size_t)size);
    if (values == NULL)
        return ENOMEM;
    fftw_plan there = make_plan(size, values, FFTW_FORWARD);
    fftw_plan back = make_plan(size, values, FFTW_BACKWARD);
    for (int i = 0; i < size; i++) {
        values[i][0] = (double)((unsigned)i * (seed + 1) % 31);
        values[i][1] = i % 3;
    }
    fftw_execute(there);
    fftw_execute(back);
    for (int i = 0; i < size; i++) {
        sum_number(sum, (uint64_t)lround(values[i][0] / size));
        sum_number(sum, (uint64_t)lround(values[i][1] / size));
    }
    destroy_plan(back);
    destroy_plan(there);
    fftw_free(values);
    return 0;
}

const struct library library_fftw = { "FFTW", { NULL }, work };
