/* SPDX-License-Identifier: MIT
 *
 * A Poisson process over a stream of bytes: where its samples fall. One thread a sampler; it allocates nothing and calls
 * nothing outside its file, so it may be used in the middle of an allocation.
 *
 * Every byte is as likely to be sampled as any other, whatever was sampled before. So the number of samples in a block
 * of size bytes has the Poisson distribution of mean size / mean_bytes, and samples × mean_bytes is an estimate of the
 * bytes without bias. As in tcmalloc and in OCaml's Memprof; docs/statistical.md has the formulas. */
#ifndef STI_ALLOC_BASE_SAMPLER_H
#define STI_ALLOC_BASE_SAMPLER_H

#include <stdint.h>

struct sti_sampler {
    uint64_t random[4]; /* xoshiro256++ */
    double mean_bytes;
    double fraction; /* of a byte: where in the sampled byte the last sample fell */
};

/* mean_bytes: from one sample to the next, at least 1. The same seed gives the same samples; seeds as near as 1 and 2
 * give unrelated ones. */
void sti_sampler_init(struct sti_sampler *sampler, uint64_t seed, double mean_bytes);

/* How many bytes the next sampled byte is after this one: 0 when it is the same. At the start of the stream: the bytes
 * before the first one that is sampled. */
uint64_t sti_sampler_interval(struct sti_sampler *sampler);

/* The next size bytes of the stream, at most PTRDIFF_MAX, become a block; before the next sampled byte there are
 * *to_next bytes, at first those of sti_sampler_interval. Returns how many samples fall in the block, and leaves in
 * *to_next the bytes from the block's end to the next sampled byte. A block of more than STI_SAMPLER_MOST_DRAWN means
 * gets the number to be expected in place of a random one: just as unbiased, more exact, and a huge block costs no more
 * than a large one. */
uint64_t sti_sampler_count(struct sti_sampler *sampler, uint64_t *to_next, uint64_t size);

#define STI_SAMPLER_MOST_DRAWN 65536

#endif
