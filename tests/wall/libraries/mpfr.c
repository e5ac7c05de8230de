/* SPDX-License-Identifier: MIT
 *
 * MPFR: the constants are cached, and computed further where they are asked for with more digits; pools of numbers are
 * kept for the next use. A refused allocation ends the process. */
#include "library.h"

#include <mpfr.h>

static void sum_value(uint64_t *sum, mpfr_srcptr number)
{
    mpfr_exp_t exponent;
    char *digits = mpfr_get_str(NULL, &exponent, 32, 0, number, MPFR_RNDN);
    sum_text(sum, digits);
    sum_number(sum, (uint64_t)exponent);
    mpfr_free_str(digits);
}

static void sum_constants(mpfr_ptr number, uint64_t *sum)
{
    mpfr_const_pi(number, MPFR_RNDN);
    sum_value(sum, number);
    mpfr_const_log2(number, MPFR_RNDN);
    sum_value(sum, number);
    mpfr_const_euler(number, MPFR_RNDN);
    sum_value(sum, number);
    mpfr_const_catalan(number, MPFR_RNDN);
    sum_value(sum, number);
}

static void sum_functions(mpfr_ptr number, uint32_t seed, uint64_t *sum)
{
    int (*const functions[])(mpfr_ptr, mpfr_srcptr, mpfr_rnd_t) = { mpfr_exp,  mpfr_log,   mpfr_sin,
                                                                    mpfr_atan, mpfr_gamma, mpfr_erf };
    mpfr_t result;
    mpfr_init2(result, mpfr_get_prec(number));
    mpfr_set_ui(number, seed % 97 + 1, MPFR_RNDN);
    mpfr_div_ui(number, number, 7, MPFR_RNDN);
    for (unsigned i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        functions[i](result, number, MPFR_RNDN);
        sum_value(sum, result);
    }
    mpfr_clear(result);
}

/* Numbers that are there at once, each made of the one before. */
static void sum_table(uint32_t seed, uint64_t *sum)
{
    mpfr_t table[80];
    mpfr_init2(table[0], 8192);
    mpfr_set_ui(table[0], seed + 2, MPFR_RNDN);
    mpfr_sqrt(table[0], table[0], MPFR_RNDN);
    for (unsigned i = 1; i < 80; i++) {
        mpfr_init2(table[i], 8192 + 64 * i);
        mpfr_mul(table[i], table[i - 1], table[i / 2], MPFR_RNDN);
        mpfr_frac(table[i], table[i], MPFR_RNDN);
        mpfr_add_ui(table[i], table[i], 1, MPFR_RNDN);
    }
    for (unsigned i = 0; i < 80; i++) {
        if (i % 13 == 0)
            sum_value(sum, table[i]);
        mpfr_clear(table[i]);
    }
}

static int work(uint32_t seed, uint64_t *sum)
{
    static const mpfr_prec_t precisions[] = { 53, 200, 1200, 113, 800 };
    for (unsigned i = 0; i < 5; i++) {
        mpfr_t number;
        mpfr_init2(number, precisions[(seed + i) % 5] + (mpfr_prec_t)(seed % 64));
        sum_constants(number, sum);
        if (mpfr_get_prec(number) < 300)
            sum_functions(number, seed, sum);
        char *text = NULL;
        int length = mpfr_asprintf(&text, "%.30Rg", number);
        if (length < 0)
            return ENOMEM;
        sum_text(sum, text);
        mpfr_free_str(text);
        mpfr_clear(number);
    }
    sum_table(seed, sum);
    if (seed % 4 == 0)
        mpfr_free_cache();
    return 0;
}

const struct library library_mpfr = { "MPFR", { NULL }, work };
