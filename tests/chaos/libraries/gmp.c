/* SPDX-License-Identifier: MIT
 *
 * GMP: a factorial, a power and a quotient. A refused allocation ends the process, so never STINT_FAIL. */
#include "library.h"

#include <gmp.h>

static int run(unsigned variant, uint64_t *sum)
{
    mpz_t a, b, c;
    mpz_inits(a, b, c, NULL);
    mpz_fac_ui(a, 200 + variant);
    mpz_ui_pow_ui(b, 7 + variant, 150);
    mpz_tdiv_qr(c, a, a, b);
    mpz_gcd(b, a, b);
    mpz_add(c, c, b);
    char *digits = mpz_get_str(NULL, 10, c);
    chaos_add_text(sum, digits);
    free(digits);
    mpz_clears(a, b, c, NULL);
    return 0;
}

static const char *version(void)
{
    return gmp_version;
}

const struct chaos_library CHAOS_ONE = {
    .name = "GMP",
    .modes = CHAOS_LEAVING,
    .preemptible = true,
    .run = run,
    .modules = "libgmp",
    .version = version,
};
