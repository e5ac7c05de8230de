/* SPDX-License-Identifier: MIT
 *
 * Task heaps that are kept warm and handed on, while committed blocks of earlier tasks lie about: a heap with a live
 * block in it is never handed to another task, nor destroyed after a commit. Blocks are freed on other threads and in
 * other tasks than they were made in, in both directions, while the heaps' own threads go on. */
#include "support.h"

#include <stdatomic.h>

#define THREADS 2
#define RING 512
#define MAX_COMMITTED 4

/* A block with a pattern for its contents. */
struct parcel {
    struct parcel *next; /* committed by the same task */
    size_t size;
    unsigned char bytes[];
};

/* Not in a variable of the program, where the scan of roots would find what must survive without it. */
struct exchange {
    _Atomic(struct parcel *) ring[RING];     /* committed, from any task */
    _Atomic(struct parcel *) gifts[THREADS]; /* of tasks that still run, to be freed by another thread */
};

static struct exchange *exchange;
static atomic_size_t checked;
static atomic_size_t bad;
static atomic_uint running;

static struct parcel *make_parcel(uint64_t *random)
{
    size_t size = random_size(random, random_below(random, 20) == 0 ? 18 : 11);
    struct parcel *parcel = stint_malloc(sizeof *parcel + size);
    parcel->next = NULL;
    parcel->size = size;
    memset(parcel->bytes, (int)(size * 7 & 0xff), size);
    return parcel;
}

static void open_parcel(struct parcel *parcel)
{
    if (parcel == NULL)
        return;
    size_t i = 0;
    while (i < parcel->size && parcel->bytes[i] == (parcel->size * 7 & 0xff))
        i++;
    atomic_fetch_add(&checked, 1);
    atomic_fetch_add(&bad, i != parcel->size);
    stint_free(parcel);
}

struct job {
    uint64_t random;
    unsigned thread;
};

/* The place is empty again when the block has been freed, and not before: then its task may end. */
static void take_gift(unsigned thread)
{
    static struct parcel taken;
    struct parcel *gift = atomic_load(&exchange->gifts[thread]);
    if (gift == NULL || gift == &taken || !atomic_compare_exchange_strong(&exchange->gifts[thread], &gift, &taken))
        return;
    open_parcel(gift);
    atomic_store(&exchange->gifts[thread], NULL);
}

static void take_gifts_of_others(const struct job *job)
{
    for (unsigned i = 0; i < THREADS; i++) {
        if (i != job->thread)
            take_gift(i);
    }
}

/* Another thread frees the block before this task goes on; without another thread, this one does. */
static void give(const struct job *job, struct parcel *parcel)
{
    atomic_store(&exchange->gifts[job->thread], parcel);
    while (atomic_load(&exchange->gifts[job->thread]) != NULL) {
        if (atomic_load(&running) < THREADS)
            take_gift(job->thread);
        take_gifts_of_others(job);
    }
}

/* Ends Ok with up to MAX_COMMITTED parcels, or fails. */
static int pass_parcels(void *arg, void **value)
{
    struct job *job = arg;
    struct parcel *own[16] = { NULL };
    for (size_t steps = random_below(&job->random, 40); steps > 0; steps--) {
        struct parcel **slot = &own[random_below(&job->random, 16)];
        switch (random_below(&job->random, 8)) {
        case 0:
            open_parcel(atomic_exchange(&exchange->ring[random_below(&job->random, RING)], NULL));
            break;
        case 1:
            if (*slot != NULL && random_below(&job->random, 8) == 0) {
                give(job, *slot);
                *slot = NULL;
            }
            break;
        default:
            open_parcel(*slot);
            *slot = random_below(&job->random, 2) == 0 ? make_parcel(&job->random) : NULL;
        }
        take_gifts_of_others(job);
    }
    if (random_below(&job->random, 4) == 0)
        return 1;
    struct parcel *committed = NULL;
    size_t most = random_below(&job->random, MAX_COMMITTED + 1);
    for (unsigned i = 0; i < 16; i++) {
        if (own[i] != NULL && most > 0) {
            own[i]->next = committed;
            committed = own[i];
            most--;
        } else {
            open_parcel(own[i]);
        }
    }
    *value = committed;
    return 0;
}

static void *run_jobs(void *arg)
{
    struct job *job = arg;
    for (unsigned i = 0, tasks = repeats(6000); i < tasks; i++) {
        stint_outcome outcome;
        stint_options options = STINT_OPTIONS_INIT;
        options.wipe = i % 16 == 0; /* a destroyed heap shows even more */
        if (stint_run(pass_parcels, job, &options, &outcome) != 0) {
            atomic_fetch_add(&bad, 1);
            break;
        }
        struct parcel *parcel = outcome.value;
        while (parcel != NULL) {
            struct parcel *next = parcel->next;
            open_parcel(atomic_exchange(&exchange->ring[random_below(&job->random, RING)], parcel));
            parcel = next;
        }
    }
    atomic_fetch_sub(&running, 1);
    return NULL;
}

TEST(no_heap_with_a_live_block_is_handed_on_or_destroyed)
{
    pthread_t threads[THREADS];
    struct job jobs[THREADS];
    exchange = calloc(1, sizeof *exchange);
    assert_non_null(exchange);
    atomic_store(&running, THREADS);
    for (unsigned i = 0; i < THREADS; i++) {
        jobs[i] = (struct job){ .random = i + 1, .thread = i };
        assert_int_equal(pthread_create(&threads[i], NULL, run_jobs, &jobs[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (size_t i = 0; i < RING; i++)
        open_parcel(atomic_exchange(&exchange->ring[i], NULL));
    free(exchange);
    assert_true(atomic_load(&checked) > repeats(6000));
    assert_int_equal(atomic_load(&bad), 0);
}

static int allocate_one(void *unused, void **value)
{
    (void)unused;
    *value = stint_malloc(100);
    return 0;
}

static int fill_and_fail(void *unused, void **value)
{
    (void)unused;
    (void)value;
    for (int i = 0; i < 100; i++)
        memset(stint_malloc(100), 0xee, 100);
    return 1;
}

/* The smallest thing that a heap can have in it, one commit after the other. */
TEST(each_of_many_single_blocks_outlives_the_tasks_that_follow)
{
    const unsigned count = repeats(3000);
    unsigned **blocks = calloc(count, sizeof *blocks);
    assert_non_null(blocks);
    for (unsigned i = 0; i < count; i++) {
        stint_outcome outcome = run_task(allocate_one, NULL, NULL);
        assert_ok(outcome);
        blocks[i] = outcome.value;
        *blocks[i] = i;
        stint_free(run_task(allocate_one, NULL, NULL).value);
        run_task(fill_and_fail, NULL, NULL);
    }
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(*blocks[i], i);
        stint_free(blocks[i]);
    }
    free(blocks);
}

TEST_MAIN()
