/* SPDX-License-Identifier: MIT
 *
 * GSL: a random matrix is decomposed and a system solved; a spline is evaluated. */
#include "library.h"

#include <gsl/gsl_errno.h>
#include <gsl/gsl_linalg.h>
#include <gsl/gsl_rng.h>
#include <gsl/gsl_spline.h>
#include <gsl/gsl_version.h>

#define SIZE 8

static int solve(gsl_matrix *matrix, gsl_vector *right, gsl_permutation *order, uint64_t *sum)
{
    int sign;
    int error = gsl_linalg_LU_decomp(matrix, order, &sign);
    if (error == 0)
        error = gsl_linalg_LU_svx(matrix, order, right);
    chaos_add(sum, right->data, SIZE * sizeof right->data[0]);
    return error;
}

static int use_matrix(unsigned variant, uint64_t *sum)
{
    gsl_rng *random = gsl_rng_alloc(gsl_rng_mt19937);
    gsl_matrix *matrix = gsl_matrix_alloc(SIZE, SIZE);
    gsl_vector *right = gsl_vector_calloc(SIZE);
    gsl_permutation *order = gsl_permutation_alloc(SIZE);
    int error = random != NULL && matrix != NULL && right != NULL && order != NULL ? 0 : -1;
    if (error == 0) {
        gsl_rng_set(random, variant);
        for (size_t i = 0; i < SIZE * SIZE; i++)
            matrix->data[i] = gsl_rng_uniform(random);
        gsl_vector_set(right, variant, 1);
        error = solve(matrix, right, order, sum);
    }
    gsl_permutation_free(order);
    gsl_vector_free(right);
    gsl_matrix_free(matrix);
    gsl_rng_free(random);
    return error;
}

static int run(unsigned variant, uint64_t *sum)
{
    double x[SIZE], y[SIZE];
    for (unsigned i = 0; i < SIZE; i++) {
        x[i] = i;
        y[i] = i * i % (3 + variant);
    }
    int error = use_matrix(variant, sum);
    gsl_spline *spline = error == 0 ? gsl_spline_alloc(gsl_interp_cspline, SIZE) : NULL;
    if (spline == NULL)
        return -1;
    error = gsl_spline_init(spline, x, y, SIZE);
    for (double at = 0; at < SIZE - 1 && error == 0; at += 0.25) {
        double value = gsl_spline_eval(spline, at, NULL);
        chaos_add(sum, &value, sizeof value);
    }
    gsl_spline_free(spline);
    return error;
}

static void prepare(void)
{
    gsl_set_error_handler_off(); /* it would end the process */
}

static const char *version(void)
{
    return gsl_version;
}

const struct chaos_library CHAOS_ONE = {
    .name = "GSL",
    .modes = CHAOS_ANY_MODE,
    .preemptible = true,
    .prepare = prepare,
    .run = run,
    .modules = "libgsl:libgslcblas",
    .version = version,
};
