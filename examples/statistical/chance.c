/* SPDX-License-Identifier: MIT
 *
 * The probabilities behind docs/metering.md (chance.h). */
#include "chance.h"

#include <gsl/gsl_cdf.h>
#include <math.h>

double chance_sampled(double bytes, double mean)
{
    return -expm1(-bytes / mean);
}

double chance_missed(double bytes, double mean)
{
    return exp(-bytes / mean);
}

double chance_bytes_until_sampled(double missed, double mean)
{
    return -log(missed) * mean;
}

/* The sum of k exponential intervals is gamma distributed: the regularised incomplete gamma function P(k, n/S). */
double chance_interrupted(double k, double bytes, double mean)
{
    return gsl_cdf_gamma_P(bytes / mean, k, 1);
}

/* The cumulative binomial distribution, as the regularised incomplete beta function I_p(k, n - k + 1). */
double chance_interrupted_words(double k, double words, double rate)
{
    return words < k ? 0 : gsl_cdf_beta_P(rate, k, words - k + 1);
}

/* Newton's way to invert a distribution fails in tails as far as these, and halving an interval does not. */
double chance_safe(double k, double mean, double target)
{
    double safe = 0;
    double unsafe = k * mean;
    for (int i = 0; i < 100; i++) {
        double middle = (safe + unsafe) / 2;
        *(chance_interrupted(k, middle, mean) <= target ? &safe : &unsafe) = middle;
    }
    return safe;
}

double chance_safe_words(double k, double rate, double target)
{
    double safe = k - 1;
    double unsafe = ceil(k / rate);
    while (unsafe - safe > 1) {
        double middle = floor((safe + unsafe) / 2);
        *(chance_interrupted_words(k, middle, rate) <= target ? &safe : &unsafe) = middle;
    }
    return safe;
}

struct chance_interval chance_expected(double samples, double doubt)
{
    return (struct chance_interval){
        .low = samples > 0 ? gsl_cdf_gamma_Pinv(doubt / 2, samples, 1) : 0,
        .high = gsl_cdf_gamma_Qinv(doubt / 2, samples + 1, 1),
    };
}

struct chance_interval chance_of(double seen, double runs, double doubt)
{
    double z = gsl_cdf_ugaussian_Qinv(doubt / 2);
    double share = seen / runs;
    double middle = share + z * z / (2 * runs);
    double half = z * sqrt(share * (1 - share) / runs + z * z / (4 * runs * runs));
    double whole = 1 + z * z / runs;
    return (struct chance_interval){ .low = (middle - half) / whole, .high = (middle + half) / whole };
}
