/* SPDX-License-Identifier: MIT
 *
 * A page of the program's own data is forbidden, for the first time in the process, while another thread scans for
 * roots and reads all data as it lies there. */
#include "support.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#define LARGE ((size_t)64 << 20) /* to be scanned takes longer than the test needs to forbid a part of it */
#define SCANS 5

static _Alignas(65536) char large[LARGE];
static atomic_bool begun;

static int leave_block_and_fail(void *arg, void **value)
{
    (void)arg;
    (void)value;
    keep(stint_malloc(1000));
    atomic_store(&begun, true);
    return 1;
}

static void *fail_some(void *unused)
{
    stint_outcome outcome;
    for (int i = 0; i < SCANS; i++)
        assert_int_equal(stint_run(leave_block_and_fail, NULL, NULL, &outcome), 0);
    return unused;
}

TEST(data_is_forbidden_while_another_thread_reads_it)
{
    pthread_t thread;
    memset(large, 0, sizeof large);
    assert_int_equal(pthread_create(&thread, NULL, fail_some, NULL), 0);
    while (!atomic_load(&begun))
        ;
    nanosleep(&(struct timespec){ .tv_nsec = 3 * (long)MS }, NULL);
    assert_int_equal(mprotect(large + LARGE - 65536, 65536, PROT_NONE), 0);
    pthread_join(thread, NULL);
    assert_int_equal(mprotect(large + LARGE - 65536, 65536, PROT_READ | PROT_WRITE), 0);
}

TEST_MAIN()
