/* SPDX-License-Identifier: MIT
 *
 * Memory of stopped tasks is not resident beside that of the next ones: it goes back to the system at once, or when 64
 * MiB have gathered. */
#include <pthread.h>
#include <sys/prctl.h>

#include "support.h"

#define LEFT_MAX (72 * MIB) /* 64 of rolled back heaps, and what the program needs */

static int hold(void *bytes, void **value)
{
    (void)value;
    for (size_t held = 0; held < *(size_t *)bytes; held += MIB / 16)
        memset(stint_malloc(MIB / 16), 1, MIB / 16);
    return 1;
}

static void left_by_tasks_of(size_t bytes, int count)
{
    size_t before = resident();
    for (int i = 0; i < count; i++) {
        assert_outcome(run_task(hold, &bytes, NULL), STINT_ERROR, STINT_REASON_FAILED, 1);
        assert_in_range(resident(), 0, before + LEFT_MAX + quarantine_room(bytes));
    }
}

TEST(what_a_large_task_held_is_gone_when_its_outcome_is_told)
{
    left_by_tasks_of(200 * MIB, 3);
}

TEST(what_many_small_tasks_held_does_not_add_up)
{
    left_by_tasks_of(MIB, 300);
}

#define GIVERS 4
#define PART (16 * MIB)

/* A list of pages, all freed between two barriers. */
static void *give_back(void *barrier)
{
    void **first = NULL;
    for (size_t held = 0; held < PART; held += 4 * KIB) {
        void **page = stint_malloc(4 * KIB);
        *page = first;
        first = page;
    }
    pthread_barrier_wait(barrier);
    while (first != NULL) {
        void **next = *first;
        stint_free(first);
        first = next;
    }
    stint_malloc_trim(0);
    pthread_barrier_wait(barrier);
    pthread_barrier_wait(barrier);
    return NULL;
}

/* But a page of 2 MiB of the system's is resident as a whole where one block was in it, so there are none here. */
TEST(what_threads_give_back_at_the_same_time_is_all_gone)
{
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    left_by_the_system(0); /* measures */
    size_t before = resident();
    for (unsigned round = 0; round < 40; round++) {
        pthread_barrier_t barrier;
        pthread_t threads[GIVERS];
        assert_int_equal(pthread_barrier_init(&barrier, NULL, GIVERS + 1), 0);
        for (int i = 0; i < GIVERS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, give_back, &barrier), 0);
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier);
        size_t after = resident();
        pthread_barrier_wait(&barrier);
        for (int i = 0; i < GIVERS; i++)
            assert_int_equal(pthread_join(threads[i], NULL), 0);
        pthread_barrier_destroy(&barrier);
        assert_in_range(after, 0, before + PART / 8 + record_room() + left_by_the_system(GIVERS * (round + 1)));
    }
}

TEST_MAIN()
