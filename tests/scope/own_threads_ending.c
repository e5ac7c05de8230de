/* SPDX-License-Identifier: MIT
 *
 * The ends of threads that a task has started: what their thread-specific values' destructors wait for, who waits for
 * them, and what counts of what they leave. */
#include "own_threads.h"

#include <semaphore.h>
#include <sys/mman.h>

static pthread_key_t key; /* with a destructor */
static sem_t destructor_runs;

static void *set_value(void *value)
{
    pthread_setspecific(key, value);
    return NULL;
}

static void await(sem_t *semaphore)
{
    while (sem_wait(semaphore) != 0)
        ;
}

/* --- Destructors that wait for a lock --- */

static pthread_mutex_t registry = PTHREAD_MUTEX_INITIALIZER;
static bool entered_in_time;

static void leave_the_registry(void *unused)
{
    struct timespec late;
    (void)unused;
    sem_post(&destructor_runs);
    clock_gettime(CLOCK_REALTIME, &late);
    late.tv_sec += 3;
    entered_in_time = pthread_mutex_timedlock(&registry, &late) == 0;
    if (entered_in_time)
        pthread_mutex_unlock(&registry);
}

static void *nothing_to_do(void *unused)
{
    return unused;
}

static int start_two_with_the_lock(void *unused, void **value)
{
    pthread_t first;
    pthread_t second;
    (void)value;
    (void)unused;
    pthread_mutex_lock(&registry);
    int error = pthread_create(&first, NULL, set_value, &key);
    if (error == 0)
        error = pthread_detach(first);
    if (error == 0)
        await(&destructor_runs);
    usleep(2000); /* until it waits for the lock */
    if (error == 0)
        error = pthread_create(&second, NULL, nothing_to_do, NULL);
    pthread_mutex_unlock(&registry);
    return error != 0 ? error : pthread_join(second, NULL);
}

TEST(starting_a_thread_waits_for_no_destructors_of_another)
{
    sem_init(&destructor_runs, 0, 0);
    assert_int_equal(pthread_key_create(&key, leave_the_registry), 0);
    assert_ok(run_with(start_two_with_the_lock, NULL, STINT_THREADS_CHARGED));
    assert_true(entered_in_time);
    pthread_key_delete(key);
}

/* --- One that somebody outside waits for, for a time, when the task fails --- */

static pthread_t waited_for;
static char *its_stack;
static sem_t is_started;
static sem_t nobody_waits;

static void wait_until_nobody_does(void *unused)
{
    (void)unused;
    sem_post(&destructor_runs);
    await(&nobody_waits);
}

static void *show_itself(void *value)
{
    char here[1];
    its_stack = (char *)((uintptr_t)here & ~(uintptr_t)4095);
    pthread_setspecific(key, value);
    waited_for = pthread_self();
    sem_post(&is_started);
    sem_post(&is_started);
    return NULL;
}

static int start_one_and_fail(void *unused, void **value)
{
    pthread_t id;
    pthread_attr_t attributes;
    (void)unused;
    (void)value;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 * MIB); /* libc keeps none that is so large */
    int error = pthread_create(&id, &attributes, show_itself, &key);
    pthread_attr_destroy(&attributes);
    if (error == 0)
        await(&is_started);
    usleep(10000);
    return error != 0 ? error : EIO;
}

static void *wait_for_a_time(void *unused)
{
    struct timespec late;
    (void)unused;
    await(&is_started);
    clock_gettime(CLOCK_REALTIME, &late);
    late.tv_sec += late.tv_nsec >= 900000000;
    late.tv_nsec = (late.tv_nsec + 100000000) % 1000000000;
    int error = pthread_timedjoin_np(waited_for, NULL, &late);
    sem_post(&nobody_waits);
    return (void *)(uintptr_t)error;
}

TEST(of_one_that_somebody_waits_for_in_vain_nothing_stays_either)
{
    sem_init(&destructor_runs, 0, 0);
    sem_init(&is_started, 0, 0);
    sem_init(&nobody_waits, 0, 0);
    assert_int_equal(pthread_key_create(&key, wait_until_nobody_does), 0);
    pthread_t waiting;
    void *error;
    assert_int_equal(pthread_create(&waiting, NULL, wait_for_a_time, NULL), 0);
    assert_int_equal(run_with(start_one_and_fail, NULL, STINT_THREADS_CHARGED).status, STINT_ERROR);
    pthread_join(waiting, &error);
    assert_int_equal((uintptr_t)error, ETIMEDOUT);
    assert_int_not_equal(msync(its_stack, 4096, MS_ASYNC), 0);
    pthread_key_delete(key);
}

/* --- What they leave counts as long as it is there, and no longer --- */

#define PIECE MIB

static void *map_a_piece(void *unused)
{
    (void)unused;
    void *piece = mmap(NULL, PIECE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return piece != MAP_FAILED ? piece : NULL;
}

static void *allocate_a_piece(void *unused)
{
    (void)unused;
    return malloc(PIECE);
}

static void *allocate_small_pieces(void *unused)
{
    void **last = NULL;
    (void)unused;
    for (size_t i = 0; i < PIECE / 1000; i++) {
        void **piece = malloc(1000);
        if (piece == NULL)
            return NULL;
        *piece = last;
        last = piece;
    }
    return last;
}

struct pieces {
    void *(*make)(void *unused);
    bool frees;
    unsigned made;
};

static void free_pieces(const struct pieces *pieces, void *made)
{
    if (pieces->make == map_a_piece) {
        munmap(made, PIECE);
        return;
    }
    void *next = pieces->make == allocate_small_pieces ? *(void **)made : NULL;
    free(made);
    if (next != NULL)
        free_pieces(pieces, next);
}

static int have_pieces_made(void *arg, void **value)
{
    struct pieces *pieces = arg;
    (void)value;
    for (pieces->made = 0; pieces->made < 80; pieces->made++) {
        pthread_t id;
        void *made;
        int error = pthread_create(&id, NULL, pieces->make, NULL);
        if (error != 0 || pthread_join(id, &made) != 0)
            return EAGAIN;
        if (made == NULL || made == PTHREAD_CANCELED)
            return ENOMEM;
        if (pieces->frees)
            free_pieces(pieces, made);
    }
    return 0;
}

static stint_outcome run_pieces(struct pieces *pieces)
{
    stint_options options = with(STINT_THREADS_CHARGED, 0, LIMIT);
    return run_task(have_pieces_made, pieces, &options);
}

TEST(what_they_left_and_others_have_freed_does_not_count)
{
    assert_ok(run_pieces(&(struct pieces){ .make = map_a_piece, .frees = true }));
    assert_ok(run_pieces(&(struct pieces){ .make = allocate_a_piece, .frees = true }));
    assert_ok(run_pieces(&(struct pieces){ .make = allocate_small_pieces, .frees = true }));
}

TEST(nor_does_it_for_an_account)
{
    const stint_account_limits limits = { .size = sizeof(stint_account_limits), .memory = LIMIT };
    stint_account *account;
    assert_int_equal(stint_account_create(NULL, &limits, &account), 0);
    void *(*const makers[])(void *unused) = { map_a_piece, allocate_a_piece, allocate_small_pieces };
    for (size_t i = 0; i < 3; i++) {
        struct pieces pieces = { .make = makers[i], .frees = true };
        stint_options options = with(STINT_THREADS_CHARGED, 0, 0);
        options.account = account;
        assert_ok(run_task(have_pieces_made, &pieces, &options));
        pieces.frees = false;
        assert_outcome(run_task(have_pieces_made, &pieces, &options), STINT_ERROR, STINT_REASON_ACCOUNT, EDQUOT);
    }
    stint_account_release(account);
}

TEST(what_they_left_and_nobody_has_freed_counts)
{
    void *(*const makers[])(void *unused) = { map_a_piece, allocate_a_piece, allocate_small_pieces };
    for (size_t i = 0; i < 3; i++) {
        struct pieces pieces = { .make = makers[i] };
        assert_outcome(run_pieces(&pieces), STINT_ERROR, STINT_REASON_MEMORY_LIMIT, ENOMEM);
        assert_true(pieces.made <= LIMIT / PIECE && pieces.made >= LIMIT / PIECE / 2);
    }
}

/* Shares that are taken to be used again and to be measured, put back, and left, all at once. */
#define STARTERS 4

static void *start_one_after_the_other(void *first)
{
    for (size_t i = 0; i < repeats(30); i++) {
        pthread_t id;
        void *made;
        bool maps = (i + (uintptr_t)first) % 3 == 0;
        if (pthread_create(&id, NULL, maps ? map_a_piece : allocate_a_piece, NULL) != 0 || pthread_join(id, &made) != 0)
            return NULL;
        if (made == NULL || made == PTHREAD_CANCELED)
            return NULL;
        if (maps)
            munmap(made, PIECE);
        else
            free(made);
    }
    return &registry; /* anything */
}

static int start_starters(void *unused, void **value)
{
    pthread_t ids[STARTERS];
    bool good = true;
    (void)unused;
    (void)value;
    for (uintptr_t i = 0; i < STARTERS; i++) {
        if (pthread_create(&ids[i], NULL, start_one_after_the_other, (void *)i) != 0)
            return EAGAIN;
    }
    for (int i = 0; i < STARTERS; i++) {
        void *value_of_it;
        good = pthread_join(ids[i], &value_of_it) == 0 && value_of_it == &registry && good;
    }
    return good ? 0 : EIO;
}

TEST(so_it_is_where_many_start_them_at_once)
{
    stint_options options = with(STINT_THREADS_CHARGED, 0, LIMIT);
    assert_ok(run_task(start_starters, NULL, &options));
}

TEST_MAIN()
