/* SPDX-License-Identifier: MIT
 *
 * Sampling; see sampling.h.
 *
 * A Poisson process over a stream of bytes.
 *
 * An exponential variate is a whole number of half-lives and a rest: -ln(u), where u = (1 + f) / 2^n has a random
 * number n - 1 of leading zero bits, is n ln 2 - ln(1 + f). Bits give n without bound, so the tail is right however far
 * out; and f has bits of its own, so no interval is coarser than a double. */
#include "sampling.h"

#define LN_2 0.69314718055994530942
#define SQRT_2 1.41421356237309504880
#define LONGEST_INTERVAL 0x1p62 /* bytes; what does not fit an integer is never reached */

static uint64_t word_rotated(uint64_t word, int bits)
{
    return word << bits | word >> (64 - bits);
}

/* xoshiro256++, by Blackman and Vigna, 2019. */
static uint64_t next_random(uint64_t state[4])
{
    uint64_t result = word_rotated(state[0] + state[3], 23) + state[0];
    uint64_t shifted = state[1] << 17;
    state[2] ^= state[0];
    state[3] ^= state[1];
    state[1] ^= state[2];
    state[0] ^= state[3];
    state[2] ^= shifted;
    state[3] = word_rotated(state[3], 45);
    return result;
}

/* SplitMix64, by Steele, Lea and Flood, 2014: what its authors give to spread a seed over xoshiro's state. */
static uint64_t next_seed(uint64_t *seed)
{
    uint64_t mixed = *seed += 0x9e3779b97f4a7c15;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
    return mixed ^ mixed >> 31;
}

/* ln(x) for 1 <= x < 2 without libm. With s = (x - 1) / (x + 1), ln(x) = 2 (s + s³/3 + s⁵/5 + ...); halving a larger x
 * keeps |s| under 0.1716, and what is left out from s¹⁷ on is less than 1.2e-14. */
static double natural_log(double x)
{
    double half_lives = 0;
    if (x > SQRT_2) {
        x /= 2;
        half_lives = LN_2;
    }
    double s = (x - 1) / (x + 1);
    double square = s * s;
    double series = 1.0 / 15;
    for (int odd = 13; odd >= 1; odd -= 2)
        series = series * square + 1.0 / odd;
    return half_lives + 2 * s * series;
}

/* Of mean 1. */
static double next_exponential(struct sti_sampler *sampler)
{
    int half_lives = 1;
    uint64_t word;
    while ((word = next_random(sampler->random)) == 0)
        half_lives += 64;
    half_lives += __builtin_clzll(word);
    double rest = 1 + (double)(next_random(sampler->random) >> 12) * 0x1p-52;
    return half_lives * LN_2 - natural_log(rest);
}

void sti_sampler_init(struct sti_sampler *sampler, uint64_t seed, double mean_bytes)
{
    for (int i = 0; i < 4; i++)
        sampler->random[i] = next_seed(&seed);
    sampler->mean_bytes = mean_bytes;
    sampler->fraction = 0;
}

/* Samples fall at real positions, of which an interval gives the whole bytes: the fraction is carried over, so that
 * rounding neither adds up nor changes what falls in a block. */
uint64_t sti_sampler_interval(struct sti_sampler *sampler)
{
    double position = sampler->fraction + next_exponential(sampler) * sampler->mean_bytes;
    if (position >= LONGEST_INTERVAL)
        return (uint64_t)LONGEST_INTERVAL;
    uint64_t bytes = (uint64_t)position;
    sampler->fraction = position - (double)bytes;
    return bytes;
}

static double next_uniform(struct sti_sampler *sampler)
{
    return (double)(next_random(sampler->random) >> 11) * 0x1p-53;
}

/* A random one of the two whole numbers around the expected one, so that the mean is exact. */
static uint64_t expected_count(struct sti_sampler *sampler, double expected)
{
    return (uint64_t)(expected + next_uniform(sampler));
}

uint64_t sti_sampler_split(struct sti_sampler *sampler, uint64_t samples, double share)
{
    uint64_t part = 0;
    if (samples > STI_SAMPLER_MAX_DRAWN)
        return expected_count(sampler, (double)samples * share);
    for (uint64_t i = 0; i < samples; i++)
        part += next_uniform(sampler) < share;
    return part;
}

uint64_t sti_sampler_count(struct sti_sampler *sampler, uint64_t *to_next, uint64_t size)
{
    uint64_t samples = 0;
    if ((double)size > sampler->mean_bytes * STI_SAMPLER_MAX_DRAWN) {
        samples = expected_count(sampler, (double)size / sampler->mean_bytes);
        *to_next = sti_sampler_interval(sampler); /* a Poisson process has no memory */
        return samples;
    }
    while (*to_next < size) {
        size -= *to_next;
        /* The next interval begins at the sampled byte, which is the first of the rest of the block. */
        *to_next = sti_sampler_interval(sampler);
        samples++;
    }
    *to_next -= size;
    return samples;
}

/* --- What the profiler registers, and the marks of what it follows. Any thread. --- */

_Atomic uint64_t sti_sampling_profile;
atomic_bool sti_sampling_follows;
_Atomic(_Atomic uint8_t *) sti_sampling_marks;
