/* SPDX-License-Identifier: MIT
 *
 * libm: its state is its arguments, errno and the rounding mode. It allocates nothing; blocks between its calls are
 * sample points. */
#include "library.h"

#include <gnu/libc-version.h>
#include <math.h>

static double use(double x)
{
    return sin(x) + exp(x / 10) + pow(x, 1.7) + tgamma(x / 3) + j0(x) + log1p(x) + cbrt(x) + erf(x) + fma(x, x, x);
}

static int run(unsigned variant, uint64_t *sum)
{
    for (unsigned i = 1; i <= 20; i++) {
        double value = use(i + variant / 8.0);
        chaos_add(sum, &value, sizeof value);
        if (chaos_pass(1) != 0)
            return -1;
    }
    return 0;
}

const struct chaos_library CHAOS_ONE = {
    .name = "libm",
    .modes = CHAOS_ANY_MODE,
    .preemptible = true,
    .run = run,
    .modules = "libm",
    .version = gnu_get_libc_version,
};
