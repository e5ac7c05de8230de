/* SPDX-License-Identifier: MIT
 *
 * Memory of threads that have ended. mimalloc lets any heap that needs pages adopt those of ended threads, a task's heap
 * too; destroying that heap must not take the dead thread's blocks along. */
#include "support.h"

#define THREADS 8
#define BLOCKS 200
#define BLOCK_SIZE 600

static void *leave_blocks(void *argument)
{
    unsigned char **blocks = argument;
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = stint_malloc(BLOCK_SIZE);
        memset(blocks[i], i % 251, BLOCK_SIZE);
    }
    return NULL;
}

static int take_much(void *unused, void **value)
{
    (void)unused;
    (void)value;
    for (int i = 0; i < 100000; i++) {
        unsigned char *block = stint_malloc(BLOCK_SIZE);
        memset(block, 0xee, BLOCK_SIZE);
    }
    return ECANCELED;
}

static void leave_blocks_in_threads(unsigned char *blocks[THREADS][BLOCKS])
{
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, leave_blocks, blocks[i]), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
}

static void check_and_free(unsigned char *blocks[THREADS][BLOCKS])
{
    for (int i = 0; i < THREADS; i++) {
        for (int j = 0; j < BLOCKS; j++) {
            for (int k = 0; k < BLOCK_SIZE; k++)
                assert_int_equal(blocks[i][j][k], j % 251);
            stint_free(blocks[i][j]);
            blocks[i][j] = NULL; /* or it would be a root of whatever comes to lie there */
        }
    }
}

TEST(blocks_of_ended_threads_survive_a_rollback)
{
    static unsigned char *blocks[THREADS][BLOCKS];
    for (int round = 0; round < 6; round++) {
        leave_blocks_in_threads(blocks);
        /* The second one writes over what the first one's rollback has freed. */
        for (int i = 0; i < 2; i++) {
            stint_outcome outcome;
            assert_int_equal(stint_run(take_much, NULL, NULL, &outcome), 0);
            assert_int_equal(outcome.status, STINT_ERROR);
        }
        check_and_free(blocks);
    }
}

static void *run_tasks(void *unused)
{
    (void)unused;
    for (int i = 0; i < 8; i++) {
        stint_outcome outcome;
        if (stint_run(take_much, NULL, NULL, &outcome) != 0 || outcome.status != STINT_ERROR)
            return (void *)1;
    }
    return NULL;
}

TEST(blocks_of_threads_that_end_while_tasks_are_rolled_back_survive)
{
    static unsigned char *blocks[THREADS][BLOCKS];
    for (int round = 0; round < 4; round++) {
        pthread_t runners[2];
        for (int i = 0; i < 2; i++)
            assert_int_equal(pthread_create(&runners[i], NULL, run_tasks, NULL), 0);
        for (int i = 0; i < 5; i++) {
            leave_blocks_in_threads(blocks);
            check_and_free(blocks);
        }
        leave_blocks_in_threads(blocks);
        for (int i = 0; i < 2; i++) {
            void *failed;
            assert_int_equal(pthread_join(runners[i], &failed), 0);
            assert_null(failed);
        }
        check_and_free(blocks);
    }
}

static int hold_one_block(void *unused, void **value)
{
    (void)unused;
    *value = stint_malloc(100);
    return *value != NULL ? 0 : ENOMEM;
}

TEST(blocks_of_ended_threads_are_not_held_by_the_task)
{
    static unsigned char *blocks[THREADS][BLOCKS];
    leave_blocks_in_threads(blocks);
    stint_outcome outcome;
    assert_int_equal(stint_run(hold_one_block, NULL, NULL, &outcome), 0);
    assert_int_equal(outcome.status, STINT_OK);
    assert_true(outcome.usage.peak <= 64 << 10);
    stint_free(outcome.value);
    check_and_free(blocks);
}

TEST(a_rollback_beside_blocks_of_ended_threads_still_gives_the_memory_back)
{
    static unsigned char *blocks[THREADS][BLOCKS];
    leave_blocks_in_threads(blocks);
    size_t before = 0;
    for (int i = 0; i < 30; i++) {
        stint_outcome outcome;
        assert_int_equal(stint_run(take_much, NULL, NULL, &outcome), 0);
        if (i == 9) {
            stint_malloc_trim(0);
            before = resident();
        }
    }
    stint_malloc_trim(0);
    assert_true(resident() < before + 16 * MIB + quarantine_room(64 * MIB));
    check_and_free(blocks);
}

#define OWN_BLOCKS 60000

static void *free_half(void *blocks)
{
    for (int i = 0; i < OWN_BLOCKS; i += 2)
        stint_free(((void **)blocks)[i]);
    return NULL;
}

/* Blocks of full pages, which another thread then frees: their page does not know it yet when the task ends. */
static int have_half_freed(void *blocks, void **value)
{
    pthread_t thread;
    (void)value;
    for (int i = 0; i < OWN_BLOCKS; i++)
        ((void **)blocks)[i] = stint_malloc(BLOCK_SIZE);
    if (pthread_create(&thread, NULL, free_half, blocks) != 0 || pthread_join(thread, NULL) != 0)
        return EAGAIN;
    return ECANCELED;
}

TEST(what_another_thread_has_freed_is_not_freed_again_beside_blocks_of_ended_threads)
{
    static unsigned char *left[THREADS][BLOCKS];
    void **own = calloc(OWN_BLOCKS, sizeof *own);
    size_t **made = calloc(OWN_BLOCKS, sizeof *made);
    for (int round = 0; round < 5; round++) {
        leave_blocks_in_threads(left);
        assert_outcome(run_task(have_half_freed, own, NULL), STINT_ERROR, STINT_REASON_FAILED, ECANCELED);
        for (size_t i = 0; i < OWN_BLOCKS; i++) {
            made[i] = stint_malloc(BLOCK_SIZE);
            *made[i] = i;
        }
        for (size_t i = 0; i < OWN_BLOCKS; i++) {
            assert_int_equal(*made[i], i);
            stint_free(made[i]);
        }
        check_and_free(left);
    }
    free(own);
    free(made);
}

TEST_MAIN()
