/* SPDX-License-Identifier: MIT
 *
 * The limit on the whole process: it is read in all circumstances, and free memory is given back before a task is
 * stopped. */
#include "support.h"

#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define ROOM (64 * MIB)
#define TOO_MUCH (4 * ROOM)

static void *build(size_t bytes, size_t size)
{
    void **newest = NULL;
    for (size_t built = 0; built < bytes; built += size) {
        void **block = stint_malloc(size);
        if (block == NULL)
            break;
        memset(block, 1, size);
        *block = newest;
        newest = block;
    }
    return newest;
}

static void drop(void **block)
{
    while (block != NULL) {
        void **next = *block;
        stint_free(block);
        block = next;
    }
}

static int hold(void *bytes, void **value)
{
    (void)value;
    build(*(size_t *)bytes, 100 * KIB);
    return 1;
}

static int build_list(void *bytes, void **value)
{
    *value = build(*(size_t *)bytes, 1000);
    return *value == NULL;
}

static int build_and_drop(void *bytes, void **value)
{
    (void)value;
    drop(build(*(size_t *)bytes, 1000));
    return 0;
}

static bool is_stopped(size_t bytes)
{
    return run_task(hold, &bytes, NULL).reason == STINT_REASON_GLOBAL_MEMORY_LIMIT;
}

/* A limit on the process, so far above what it holds. */
static void leave_room(size_t room)
{
    assert_int_equal(stint_global_set_memory_limit(resident() + room), 0);
}

static int remove_limit(void **state)
{
    (void)state;
    return stint_global_set_memory_limit(0);
}

/* In a process of its own, for what cannot be undone. */
static void assert_in_child(bool (*body)(void))
{
    pid_t child = fork();
    if (child == 0)
        _exit(body() ? 0 : 1);
    assert_ends_well(child);
}

static void use_up_descriptors(void)
{
    struct rlimit few = { 64, 64 };
    setrlimit(RLIMIT_NOFILE, &few);
    while (open("/dev/null", O_RDONLY) >= 0)
        ;
}

static bool stops_without_descriptors(void)
{
    use_up_descriptors();
    return is_stopped(TOO_MUCH) && !is_stopped(ROOM / 4);
}

TEST_WITH(when_descriptors_have_run_out_there_is_still_a_limit, NULL, remove_limit)
{
    leave_room(ROOM);
    assert_in_child(stops_without_descriptors);
}

static bool stops_in_child_of_one_without(void)
{
    use_up_descriptors();
    pid_t child = fork();
    int status;
    if (child == 0)
        _exit(is_stopped(TOO_MUCH) && !is_stopped(ROOM / 4) ? 0 : 1);
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

TEST_WITH(the_child_of_a_process_that_has_none_left_has_its_limit_too, NULL, remove_limit)
{
    leave_room(ROOM);
    assert_in_child(stops_in_child_of_one_without);
}

static bool stops_after_all_were_closed(void)
{
    close_range(3, ~0U, 0);
    int next = open("/dev/zero", O_RDONLY);
    bool stopped = is_stopped(TOO_MUCH) && !is_stopped(ROOM / 4);
    char byte = 1;
    return stopped && next == 3 && read(next, &byte, 1) == 1 && byte == 0;
}

TEST_WITH(a_program_may_close_all_descriptors_and_use_their_numbers, NULL, remove_limit)
{
    leave_room(ROOM);
    assert_in_child(stops_after_all_were_closed);
}

/* The peak counts then, which stays within the limit until a task passes it. */
static bool stops_with_nothing_to_read(void)
{
    close_range(3, ~0U, 0);
    use_up_descriptors();
    return !is_stopped(ROOM / 4) && is_stopped(TOO_MUCH);
}

TEST_WITH(where_the_size_cannot_be_read_at_all_nobody_goes_on_without_end, NULL, remove_limit)
{
    leave_room(ROOM);
    assert_in_child(stops_with_nothing_to_read);
}

static bool stops_in_a_smaller_root(void)
{
    bool changed = chroot("/var/empty") == 0 || chroot(P_tmpdir) == 0;
    return (!changed || access("/proc/self/statm", R_OK) != 0) && is_stopped(TOO_MUCH) && !is_stopped(ROOM / 4);
}

TEST_WITH(the_child_of_a_fork_may_change_its_root, NULL, remove_limit)
{
    leave_room(ROOM);
    assert_in_child(stops_in_a_smaller_root);
}

static int grown[2];

static bool counts_itself_alone(void)
{
    char byte;
    return read(grown[0], &byte, 1) == 1 && !is_stopped(ROOM / 4) && is_stopped(TOO_MUCH);
}

TEST_WITH(the_child_of_a_fork_is_not_stopped_for_what_its_parent_holds, NULL, remove_limit)
{
    assert_int_equal(pipe(grown), 0);
    leave_room(ROOM);
    pid_t child = fork();
    if (child == 0)
        _exit(counts_itself_alone() ? 0 : 1);
    void *much = mmap(NULL, TOO_MUCH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    assert_ptr_not_equal(much, MAP_FAILED);
    assert_int_equal(write(grown[1], "", 1), 1);
    assert_ends_well(child);
    munmap(much, TOO_MUCH);
    close(grown[0]);
    close(grown[1]);
}

static void *stop_and_exit(void *first)
{
    pthread_join(*(pthread_t *)first, NULL);
    _exit(is_stopped(TOO_MUCH) && !is_stopped(ROOM / 4) ? 0 : 1);
}

static bool goes_on_without_its_first_thread(void)
{
    static pthread_t first;
    pthread_t other;
    first = pthread_self();
    if (pthread_create(&other, NULL, stop_and_exit, &first) == 0)
        pthread_exit(NULL);
    return false;
}

TEST_WITH(a_process_whose_first_thread_has_ended_has_its_limit, NULL, remove_limit)
{
    leave_room(ROOM);
    assert_in_child(goes_on_without_its_first_thread);
}

struct round {
    stint_pool *pool;
    atomic_bool over;
};

static int allocate_a_little(void *unused, void **value)
{
    (void)unused;
    return build_list(&(size_t){ 64 * KIB }, value);
}

static void *submit_and_sleep(void *argument)
{
    struct round *round = argument;
    while (!atomic_load(&round->over)) {
        stint_future *future;
        stint_outcome outcome = { .value = NULL };
        if (stint_submit(round->pool, allocate_a_little, NULL, NULL, &future) == 0) {
            stint_future_wait(future, &outcome);
            stint_future_release(future);
            drop(outcome.value);
        }
        usleep(300);
    }
    return NULL;
}

/* Workers are asked just as they find work, fall asleep or leave: no task is lost, and no asker waits for ever.
 * (While one worker is asked, the others are not looked at.) */
TEST_WITH(workers_may_be_called_while_they_are_asked, NULL, remove_limit)
{
    stint_pool_options two = { .size = sizeof(stint_pool_options), .workers = 2 };
    struct round round = { .pool = NULL };
    pthread_t submitter;
    int stopped = 0;
    leave_room(ROOM);
    for (int pools = 0; pools < 3; pools++) {
        assert_int_equal(stint_pool_create(&two, &round.pool), 0);
        atomic_store(&round.over, false);
        assert_int_equal(pthread_create(&submitter, NULL, submit_and_sleep, &round), 0);
        for (int i = 0; i < 20; i++)
            stopped += is_stopped(TOO_MUCH);
        atomic_store(&round.over, true);
        assert_int_equal(pthread_join(submitter, NULL), 0);
        assert_int_equal(stint_pool_destroy(round.pool), 0);
    }
    assert_true(stopped > 0);
}

static uint64_t parks_of(stint_pool *pool)
{
    stint_worker_statistics statistics = STINT_WORKER_STATISTICS_INIT;
    assert_int_equal(stint_pool_read_worker(pool, 0, &statistics), 0);
    return statistics.parks;
}

/* Another thread frees memory that a task committed, and its worker sleeps. This test is last, because it leaves
 * free memory that other tests could use. */
TEST_WITH(what_an_idle_worker_can_give_back_stops_nobody, NULL, remove_limit)
{
    size_t much = 6 * ROOM;
    size_t less = 4 * ROOM;
    stint_pool *pool;
    stint_future *future;
    stint_outcome outcome;
    stint_pool_options one = { .size = sizeof(stint_pool_options), .workers = 1 };
    assert_int_equal(stint_pool_create(&one, &pool), 0);
    leave_room(8 * ROOM);
    for (int turn = 0; turn < 3; turn++) {
        while (parks_of(pool) == (uint64_t)turn)
            usleep(1000); /* it sleeps before each task, and after it */
        assert_int_equal(stint_submit(pool, build_list, &much, NULL, &future), 0);
        assert_int_equal(stint_future_wait(future, &outcome), 0);
        stint_future_release(future);
        assert_ok(outcome);
        drop(outcome.value);
        while (parks_of(pool) < (uint64_t)turn + 2)
            usleep(1000);
        usleep(20000); /* it is about to */
        assert_ok(run_task(build_and_drop, &less, NULL));
    }
    assert_int_equal(stint_pool_destroy(pool), 0);
}

/* --- Between tasks ------------------------------------------------------------------------------------------------ */

static int ask_for(void *size, void **value)
{
    (void)value;
    return stint_malloc(*(size_t *)size) == NULL ? 0 : EINVAL;
}

/* By the limit of a task, and for want of an address space. */
TEST_WITH(what_was_refused_to_one_task_does_not_hide_what_the_next_one_takes, NULL, remove_limit)
{
    stint_options options = { .size = sizeof(stint_options), .on_interrupt = STINT_FAIL, .budget.memory = MIB };
    size_t sizes[] = { (size_t)1 << 40, (size_t)1 << 60 };
    leave_room(ROOM);
    assert_int_equal(run_task(ask_for, &sizes[0], &options).reason, STINT_REASON_MEMORY_LIMIT);
    assert_true(is_stopped(stint_global_memory_limit()));
    assert_ok(run_task(ask_for, &sizes[1], NULL));
    assert_true(is_stopped(stint_global_memory_limit()));
}

TEST_WITH(a_limit_that_was_lowered_is_looked_at_by_the_next_task, NULL, remove_limit)
{
    leave_room((size_t)2 << 30);
    assert_false(is_stopped(100 * KIB));
    assert_int_equal(stint_global_set_memory_limit(resident() / 2), 0);
    assert_true(is_stopped(100 * KIB));
}

/* --- A thread that is to be cancelled, which it is not in a malloc --- */

static void *hold_while_cancelled(void *outcome)
{
    size_t bytes = stint_global_memory_limit();
    pthread_cancel(pthread_self());
    *(stint_outcome *)outcome = run_task(hold, &bytes, NULL);
    pthread_testcancel();
    return NULL;
}

TEST_WITH(a_thread_that_is_cancelled_is_not_while_others_give_memory_back, NULL, remove_limit)
{
    enum { WORKERS = 4 };
    size_t bytes = MIB;
    stint_pool *pool;
    stint_future *futures[WORKERS * 4];
    const stint_pool_options idle = { .size = sizeof(stint_pool_options), .workers = WORKERS };
    assert_int_equal(stint_pool_create(&idle, &pool), 0);
    for (int i = 0; i < WORKERS * 4; i++)
        assert_int_equal(stint_submit(pool, build_and_drop, &bytes, NULL, &futures[i]), 0);
    for (int i = 0; i < WORKERS * 4; i++) {
        assert_int_equal(stint_future_wait(futures[i], NULL), 0);
        stint_future_release(futures[i]);
    }
    leave_room(ROOM);
    for (int i = 0; i < 3; i++) {
        stint_outcome outcome = { .reason = STINT_REASON_NONE };
        pthread_t thread;
        void *result;
        assert_int_equal(pthread_create(&thread, NULL, hold_while_cancelled, &outcome), 0);
        assert_int_equal(pthread_join(thread, &result), 0);
        assert_ptr_equal(result, PTHREAD_CANCELED);
        assert_int_equal(outcome.reason, STINT_REASON_GLOBAL_MEMORY_LIMIT);
    }
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST_MAIN()
