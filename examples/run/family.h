/* SPDX-License-Identifier: MIT
 *
 * A process and all that it has started, as /proc shows them. Main thread. */
#ifndef RUN_FAMILY_H
#define RUN_FAMILY_H

#include <stdint.h>
#include <sys/types.h>

struct family {
    unsigned threads;         /* of all its processes */
    uint64_t resident;        /* bytes; pages that several share count for each but those of files */
    uint64_t most_of_threads; /* of the one that has most, among those that have several threads */
    uint64_t cpu_ns;          /* processor time, with that of children which have been waited for */
    uint64_t most_cpu_ns;     /* of the one that has used most, without its children */
};

/* Measure all descendants of the calling process. */
struct family family_measure(void);

/* Send the signal to all descendants of the calling process. */
void family_signal(int number);

#endif
