/* SPDX-License-Identifier: MIT
 *
 * The probabilities behind docs/metering.md: what a meter that only looks at random samples can promise. Pure
 * functions; the special functions are the GNU Scientific Library's.
 *
 * Two models. A stint sampler is a Poisson process over bytes, of a mean interval of so many bytes. OCaml's Memprof,
 * which memprof-limits counts by, tosses a coin of so much rate for every word, so its counts are binomial. Where a
 * task is interrupted at its k-th sample, its limit is k means, or k / rate words. */
#ifndef EXAMPLES_CHANCE_H
#define EXAMPLES_CHANCE_H

/* That among so many bytes at least one is sampled. With whole blocks, it is at least that after each block. */
double chance_sampled(double bytes, double mean);

/* That none is: what is left of 1, however little. */
double chance_missed(double bytes, double mean);

/* After how many bytes the chance that none was sampled has come down to missed. */
double chance_bytes_until_sampled(double missed, double mean);

/* That the k-th sample lies among so many bytes, or words: that a task with that limit has been interrupted. */
double chance_interrupted(double k, double bytes, double mean);
double chance_interrupted_words(double k, double words, double rate);

/* How many bytes, or whole words, a task may allocate and have been interrupted with a chance of at most target. */
double chance_safe(double k, double mean, double target);
double chance_safe_words(double k, double rate, double target);

struct chance_interval {
    double low;
    double high;
};

/* Where the expected number of samples lies, when so many were seen: outside with a chance of at most doubt. Exact
 * (Garwood 1936). Times the mean: where the true number of bytes lies. */
struct chance_interval chance_expected(double samples, double doubt);

/* Where a probability lies, when it came true in so many of so many runs (Wilson 1927). */
struct chance_interval chance_of(double seen, double runs, double doubt);

#endif
