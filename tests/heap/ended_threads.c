/* SPDX-License-Identifier: MIT
 *
 * Memory of ended threads. mimalloc lets any heap that needs pages adopt the pages of ended threads, a task's heap
 * too; the destruction of that heap must not destroy the dead thread's blocks. */
#include "support.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>
#include <time.h>

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
    assert_in_range(resident(), 0, before + 16 * MIB + quarantine_room(64 * MIB));
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

/* A key whose destructor runs a scope in each of the rounds in which libc calls them, the last one, too. */
static pthread_key_t key;

static int allocate_some(void *arg, void **value)
{
    (void)arg;
    (void)value;
    stint_free(stint_malloc(10));
    return 0;
}

static void run_in_destructor(void *rounds)
{
    stint_outcome outcome;
    if ((uintptr_t)rounds > 1)
        pthread_setspecific(key, (void *)((uintptr_t)rounds - 1));
    assert_int_equal(stint_run(allocate_some, NULL, NULL, &outcome), 0);
}

static void *set_key(void *runs_before)
{
    stint_outcome outcome;
    if (runs_before != NULL)
        stint_run(allocate_some, NULL, NULL, &outcome);
    pthread_setspecific(key, (void *)(uintptr_t)PTHREAD_DESTRUCTOR_ITERATIONS);
    return NULL;
}

static void run_thread(const pthread_attr_t *attributes, bool runs_before)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, attributes, set_key, runs_before ? &key : NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

TEST(a_scope_in_the_last_destructor_of_a_thread_leaves_nothing_behind)
{
    assert_int_equal(pthread_key_create(&key, run_in_destructor), 0);
    for (int i = 0; i < 20; i++)
        run_thread(NULL, i % 2 == 0);
    left_by_the_system(0); /* measures */
    size_t before = resident();
    for (int i = 0; i < 200; i++)
        run_thread(NULL, i % 2 == 0);
    assert_in_range(resident(), 0, before + 14 * MIB + left_by_the_system(200)); /* half of what 200 threads left */
    assert_int_equal(pthread_key_delete(key), 0);
}

TEST(nor_does_it_leave_the_stack_bounded)
{
    pthread_attr_t attributes;
    char *stack = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int zeros = open("/dev/zero", O_RDONLY);
    assert_true(stack != MAP_FAILED && zeros >= 0);
    assert_int_equal(pthread_key_create(&key, run_in_destructor), 0);
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstack(&attributes, stack, MIB), 0);
    for (int i = 0; i < 2; i++) {
        run_thread(&attributes, i % 2 == 0);
        for (size_t at = 0; at < MIB; at += 4 * KIB)
            assert_int_equal(read(zeros, stack + at, 1), 1);
    }
    pthread_attr_destroy(&attributes);
    assert_int_equal(pthread_key_delete(key), 0);
    close(zeros);
    munmap(stack, MIB);
}

/* Enough pages of one size that mimalloc gives some up, if it gives up any. */
#define IN_A_PAGE 1024
#define PAGES 48
#define SIZE 64

static char **made_late;
static int live; /* its page is left as it is */

static bool is_left(int i)
{
    return (uintptr_t)made_late[i] / (64 * KIB) == (uintptr_t)made_late[live] / (64 * KIB);
}

static int make_pages(void *arg, void **value)
{
    (void)arg;
    (void)value;
    for (int i = 0; i < PAGES * IN_A_PAGE; i++)
        made_late[i] = memset(keep(stint_malloc(SIZE)), 1, SIZE);
    for (int i = 0; i < PAGES * IN_A_PAGE; i++) {
        if (!is_left(i))
            stint_free(made_late[i]);
    }
    return 0;
}

static int overwrite_and_fail(void *arg, void **value)
{
    (void)arg;
    (void)value;
    for (int i = 0; i < PAGES * IN_A_PAGE; i++)
        memset(keep(stint_malloc(SIZE)), 2, SIZE);
    return 1;
}

/* More than a nursery has: from here on the task has a heap. */
static int allocate_large(void *arg, void **value)
{
    void *large = keep(stint_malloc(100 * KIB));
    (void)arg;
    (void)value;
    stint_free(large);
    return large != NULL ? 0 : ENOMEM;
}

static void commit_and_roll_back(void *unused)
{
    stint_outcome outcome;
    (void)unused;
    assert_int_equal(stint_run(make_pages, NULL, NULL, &outcome), 0);
    assert_int_equal(outcome.status, STINT_OK);
    for (int i = 0; i < 2; i++) { /* the second one in what the first has given back */
        assert_int_equal(stint_run(overwrite_and_fail, NULL, NULL, &outcome), 0);
        assert_int_equal(outcome.status, STINT_ERROR);
    }
    for (int i = 0; i < PAGES * IN_A_PAGE; i++) {
        if (!is_left(i) || i == live)
            continue;
        assert_int_equal(made_late[i][0], 1);
        assert_int_equal(made_late[i][SIZE - 1], 1);
        stint_free(made_late[i]);
    }
    stint_free(made_late[live]);
}

static void *leave_a_heap_for_the_destructor(void *unused)
{
    stint_outcome outcome;
    (void)unused;
    assert_int_equal(stint_run(allocate_large, NULL, NULL, &outcome), 0);
    pthread_setspecific(key, &key);
    return NULL;
}

/* mimalloc has ended the thread's part of its heaps by then; a new part may give up pages. */
TEST(what_a_scope_in_a_thread_s_last_destructors_commits_survives_the_next_rollback)
{
    assert_int_equal(pthread_key_create(&key, commit_and_roll_back), 0);
    made_late = calloc((size_t)PAGES * IN_A_PAGE, sizeof *made_late);
    for (live = IN_A_PAGE / 2; live < PAGES * IN_A_PAGE; live += IN_A_PAGE)
        on_a_thread(leave_a_heap_for_the_destructor, NULL);
    free(made_late);
    assert_int_equal(pthread_key_delete(key), 0);
}

static int allocate_small(void *arg, void **value)
{
    void *small = keep(stint_malloc(10));
    (void)arg;
    (void)value;
    stint_free(small);
    return small != NULL ? 0 : ENOMEM;
}

/* libc's blocks are in a heap of their own, which stays for the thread's next task with those that live. */
static FILE *files[2];

static int open_a_file(void *arg, void **value)
{
    FILE **file = &files[files[0] != NULL];
    (void)arg;
    (void)value;
    *file = fopen("/dev/null", "r");
    return *file != NULL ? 0 : errno;
}

struct run {
    stint_fn *fn;
    stint_outcome outcome;
};

static void run_it(void *arg)
{
    struct run *run = arg;
    stint_run(run->fn, NULL, NULL, &run->outcome);
}

static void *run_here_and_in_the_destructor(void *run)
{
    run_it(run);
    pthread_setspecific(key, run);
    return NULL;
}

/* From where the thread had it before: mimalloc's part of that heap is gone. */
TEST(a_scope_in_a_thread_s_last_destructors_gets_memory)
{
    stint_fn *const fns[] = { allocate_large, allocate_small, open_a_file };
    assert_int_equal(pthread_key_create(&key, run_it), 0);
    for (size_t i = 0; i < sizeof fns / sizeof *fns; i++) {
        struct run run = { .fn = fns[i] };
        on_a_thread(run_here_and_in_the_destructor, &run);
        assert_ok(run.outcome);
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(fclose(files[i]), 0);
    assert_int_equal(pthread_key_delete(key), 0);
}

/* --- What many ended threads have left ---------------------------------------------------------------------------- */

#define LEAVERS 200
#define LEFT_BY_EACH 10

static int leave_one(void *unused, void **value)
{
    void *large = stint_malloc(8 << 10); /* from here on it has a heap of its own */
    (void)unused;
    *value = stint_malloc(BLOCK_SIZE);
    stint_free(large);
    return *value != NULL ? 0 : ENOMEM;
}

static void *leave_heaps(void *left)
{
    stint_outcome outcome;
    for (int i = 0; i < LEFT_BY_EACH; i++) {
        if (stint_run(leave_one, NULL, NULL, &outcome) == 0)
            ((void **)left)[i] = outcome.value;
    }
    return NULL;
}

static void run_leavers(void *left[LEAVERS * LEFT_BY_EACH])
{
    for (int i = 0; i < LEAVERS; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, leave_heaps, &left[i * LEFT_BY_EACH]), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
}

static void *leave_nothing(void *unused)
{
    stint_outcome outcome;
    stint_run(hold_one_block, NULL, NULL, &outcome);
    stint_free(outcome.value);
    return unused;
}

static uint64_t processor_time(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* The least of some tries: of a thread's life. */
static uint64_t life_of_a_thread(void)
{
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 40; i++) {
        pthread_t thread;
        uint64_t begin = processor_time();
        assert_int_equal(pthread_create(&thread, NULL, leave_nothing, NULL), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        uint64_t took = processor_time() - begin;
        least = took < least ? took : least;
    }
    return least;
}

static size_t mark_blocks(void *left[LEAVERS * LEFT_BY_EACH])
{
    size_t count = 0;
    for (int i = 0; i < LEAVERS * LEFT_BY_EACH; i++) {
        if (left[i] != NULL)
            *(int *)left[count++] = i;
    }
    return count;
}

TEST(a_thread_s_end_costs_the_same_however_many_heaps_others_have_left)
{
    static void *left[LEAVERS * LEFT_BY_EACH];
    uint64_t before = life_of_a_thread();
    run_leavers(left);
    assert_int_equal(mark_blocks(left), LEAVERS * LEFT_BY_EACH);
    uint64_t with_left = life_of_a_thread();
    for (int i = 0; i < 10 && with_left >= 3 * before; i++) /* on a machine that others use, too */
        with_left = life_of_a_thread();
    assert_in_range(with_left, 0, 3 * before); /* ten times as much, if it looked at all of them */
    for (int i = 0; i < LEAVERS * LEFT_BY_EACH; i++) {
        assert_int_equal(*(int *)left[i], i);
        stint_free(left[i]);
    }
}

/* AddressSanitizer keeps something of each thread, too. */
#if defined(__SANITIZE_ADDRESS__)
#define MOST_GROWTH (60 * MIB)
#else
#define MOST_GROWTH (12 * MIB)
#endif

/* Threads that end, each after it has freed what the one before it left. */
static void *free_and_leave(void *left)
{
    for (int i = 0; i < LEFT_BY_EACH; i++)
        stint_free(((void **)left)[i]);
    nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    return leave_heaps(left);
}

/* Also if scopes ran in the last destructors of a thread. */
TEST(what_ended_threads_have_left_goes_as_others_free_it_and_end)
{
    static void *left[LEFT_BY_EACH];
    size_t before = 0;
    left_by_the_system(0); /* measures */
    assert_int_equal(pthread_key_create(&key, run_in_destructor), 0);
    for (int i = 0; i < 4; i++)
        run_thread(NULL, i % 2 == 0);
    assert_int_equal(pthread_key_delete(key), 0);
    for (int i = 0; i < 300; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, free_and_leave, left), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        if (i == 100)
            before = resident();
    }
    assert_in_range(resident(), 0, before + MOST_GROWTH + record_room() + left_by_the_system(199)); /* of 140 */
    for (int i = 0; i < LEFT_BY_EACH; i++)
        stint_free(left[i]);
}

TEST_MAIN()
