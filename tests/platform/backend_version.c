/* SPDX-License-Identifier: MIT
 *
 * A library that was compiled for one mimalloc and finds another at start refuses to run tasks. This program says in
 * mimalloc's place which version it is. */
#include <errno.h>
#include <mimalloc.h>
#include <stdatomic.h>

#include "test.h"
#include <stint/stint.h>

static atomic_int version;

int mi_version(void)
{
    return atomic_load(&version);
}

static int answer(void *arg, void **value)
{
    *value = arg;
    return 0;
}

static void refused(int running)
{
    atomic_store(&version, running);
    stint_outcome outcome;
    stint_pool *pool = NULL;
    assert_int_equal(stint_backend_version(), running);
    assert_int_equal(stint_run(answer, NULL, NULL, &outcome), ENOTSUP);
    assert_int_equal(stint_pool_create(NULL, &pool), ENOTSUP);
    assert_null(pool);
}

TEST(an_older_mimalloc_or_one_of_another_major_version_is_refused)
{
    refused(209);
    refused(20302);
    refused(3012);
    refused(MI_MALLOC_VERSION - 1);
    refused((MI_MALLOC_VERSION / 10000 + 1) * 10000);
}

TEST(the_same_and_a_newer_one_run_tasks)
{
    const int running[] = { MI_MALLOC_VERSION, MI_MALLOC_VERSION + 1, MI_MALLOC_VERSION + 100 };
    for (size_t i = 0; i < sizeof running / sizeof *running; i++) {
        atomic_store(&version, running[i]);
        stint_outcome outcome;
        stint_pool *pool;
        assert_int_equal(stint_run(answer, &version, NULL, &outcome), 0);
        assert_ptr_equal(outcome.value, &version);
        assert_int_equal(stint_pool_create(NULL, &pool), 0);
        assert_int_equal(stint_pool_destroy(pool), 0);
    }
}

TEST_MAIN()
