/* SPDX-License-Identifier: MIT
 *
 * The budget of a task changes while the task waits or runs, and a reader sees what it has used so far. */
#include "pools.h"

static void set(stint_future *future, stint_budget budget)
{
    assert_int_equal(stint_future_set_budget(future, &budget), 0);
}

static void assert_stopped(stint_future *future, stint_reason reason)
{
    stint_outcome outcome = take_in_time(future);
    assert_string_equal(stint_reason_name(outcome.reason), stint_reason_name(reason));
}

static void assert_well(stint_future *future)
{
    assert_stopped(future, STINT_REASON_NONE);
}

/* --- Tasks -------------------------------------------------------------------------------------------------------- */

#define CHUNK ((size_t)1000)

/* Allocates a megabyte, keeps it, says so, waits for the gate, and allocates another one. */
struct two_megabytes {
    struct gate gate;
    bool inside; /* a scope of its own */
};

static int allocate_megabyte(void *arg, void **value)
{
    (void)arg;
    (void)value;
    for (size_t i = 0; i < MIB / CHUNK; i++) {
        if (stint_malloc(CHUNK) == NULL)
            return ENOMEM;
    }
    return 0;
}

static int allocate_two(void *arg, void **value)
{
    struct two_megabytes *two = arg;
    stint_outcome outcome;
    int error = allocate_megabyte(NULL, value);
    gate_hold(&two->gate, value);
    if (error == 0 && two->inside)
        error = stint_run(allocate_megabyte, NULL, NULL, &outcome);
    else if (error == 0)
        error = allocate_megabyte(NULL, value);
    return error;
}

static int poll_until_open(void *arg, void **value)
{
    struct gate *gate = arg;
    (void)value;
    atomic_fetch_add(&gate->entered, 1);
    while (!atomic_load(&gate->open)) {
        stint_checkpoint();
        gate_nap();
    }
    return 0;
}

#ifdef __SANITIZE_THREAD__
#define LOOPS false /* ThreadSanitizer holds signals back until the thread makes a system call */
#else
#define LOOPS true
#endif

static int loop_until_open(void *arg, void **value)
{
    struct gate *gate = arg;
    (void)value;
    atomic_fetch_add(&gate->entered, 1);
    while (!atomic_load_explicit(&gate->open, memory_order_relaxed))
        ;
    return 0;
}

static int wait_for(void *future, void **value)
{
    (void)value;
    return stint_future_wait(future, NULL);
}

/* --- Limits of bytes ---------------------------------------------------------------------------------------------- */

static stint_future *begin_two(stint_pool *pool, struct two_megabytes *two, stint_budget budget)
{
    const stint_options options = { .size = sizeof options, .budget = budget };
    stint_future *future = submit(pool, allocate_two, two, &options);
    gate_await(&two->gate, 1);
    return future;
}

TEST(a_running_task_goes_by_its_new_limits_of_bytes)
{
    static const struct {
        stint_budget before, after;
        stint_reason reason;
    } cases[] = {
        { { .allocation = MIB + MIB / 2 }, { .allocation = 4 * MIB }, STINT_REASON_NONE },
        { { .allocation = MIB + MIB / 2 }, { 0 }, STINT_REASON_NONE },
        { { .allocation = 4 * MIB }, { .allocation = MIB + MIB / 2 }, STINT_REASON_ALLOCATION_LIMIT },
        { { .allocation = 4 * MIB }, { .allocation = MIB / 2 }, STINT_REASON_ALLOCATION_LIMIT },
        { { 0 }, { .allocation = MIB + MIB / 2 }, STINT_REASON_ALLOCATION_LIMIT },
        { { .memory = MIB + MIB / 2 }, { .memory = 4 * MIB }, STINT_REASON_NONE },
        { { .memory = 4 * MIB }, { .memory = MIB + MIB / 2 }, STINT_REASON_MEMORY_LIMIT },
        { { 0 }, { .memory = MIB / 2 }, STINT_REASON_MEMORY_LIMIT },
    };
    stint_pool *pool = make_pool(.workers = 1);
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        struct two_megabytes two = { .inside = i % 2 == 1 };
        stint_future *future = begin_two(pool, &two, cases[i / 2].before);
        set(future, cases[i / 2].after);
        gate_open(&two.gate);
        assert_stopped(future, cases[i / 2].reason);
    }
    assert_int_equal(stint_pool_destroy(pool), 0);
}

static int checkpoint_when_open(void *arg, void **value)
{
    struct two_megabytes *two = arg;
    int error = allocate_megabyte(NULL, value);
    gate_hold(&two->gate, value);
    stint_checkpoint();
    return error != 0 || stint_is_interrupted() ? 0 : EAGAIN;
}

TEST(a_task_that_holds_more_than_its_new_limit_is_stopped_at_its_next_sample_point)
{
    stint_pool *pool = make_pool(.workers = 1);
    struct two_megabytes two = { 0 };
    const stint_options options = { .size = sizeof options, .budget.memory = 64 * MIB, .on_interrupt = STINT_FAIL };
    stint_future *future = submit(pool, checkpoint_when_open, &two, &options);
    gate_await(&two.gate, 1);
    set(future, (stint_budget){ .memory = MIB / 2 });
    gate_open(&two.gate);
    assert_stopped(future, STINT_REASON_MEMORY_LIMIT);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(an_allocation_limit_that_was_raised_is_exact)
{
    stint_pool *pool = make_pool(.workers = 1);
    const uint64_t all = 2 * (MIB / CHUNK) * ((CHUNK + 15) / 16 * 16);
    for (int less = 0; less < 2; less++) {
        struct two_megabytes two = { 0 };
        stint_future *future = begin_two(pool, &two, (stint_budget){ .allocation = MIB + MIB / 2 });
        set(future, (stint_budget){ .allocation = all - (size_t)less });
        gate_open(&two.gate);
        assert_stopped(future, less == 0 ? STINT_REASON_NONE : STINT_REASON_ALLOCATION_LIMIT);
    }
    assert_int_equal(stint_pool_destroy(pool), 0);
}

static int raise_own(void *own, void **value)
{
    int error = stint_future_set_budget(await_pointer(own), &(stint_budget){ .allocation = 8 * MIB });
    return error != 0 ? error : allocate_megabyte(NULL, value);
}

TEST(a_task_changes_its_own_budget)
{
    stint_pool *pool = make_pool(.workers = 1);
    stint_future *_Atomic own = NULL;
    const stint_options options = { .size = sizeof options, .budget.allocation = MIB / 2 };
    stint_future *future = submit(pool, raise_own, &own, &options);
    atomic_store(&own, future);
    assert_well(future);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

/* --- Limits of time ----------------------------------------------------------------------------------------------- */

static stint_future *begin(stint_pool *pool, stint_fn *fn, struct gate *gate, stint_budget budget, bool preemptible)
{
    const stint_options options = { .size = sizeof options, .budget = budget, .preemptible = preemptible };
    stint_future *future = submit(pool, fn, gate, &options);
    gate_await(gate, 1);
    return future;
}

static void nap_beyond(uint64_t ns)
{
    uint64_t twice = 2 * ns;
    nanosleep(&(struct timespec){ .tv_sec = (time_t)(twice / 1000000000), .tv_nsec = (long)(twice % 1000000000) },
              NULL);
}

TEST(a_running_task_has_the_time_that_it_was_given_later)
{
    static const stint_budget later[] = { { .wall_ns = 60000 * MS }, { .run_ns = 60000 * MS }, { 0 } };
    stint_pool *pool = make_pool(.workers = 1);
    for (size_t i = 0; i < sizeof later / sizeof *later; i++) {
        struct gate gate = { 0 };
        stint_future *future = begin(pool, poll_until_open, &gate, (stint_budget){ .wall_ns = 200 * MS }, false);
        int error = stint_future_set_budget(future, &later[i]);
        nap_beyond(200 * MS);
        gate_open(&gate);
        assert_stopped(future, error == EALREADY ? STINT_REASON_DEADLINE : STINT_REASON_NONE);
    }
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(a_running_task_is_stopped_at_an_earlier_deadline)
{
    static const stint_budget earlier[] = { { .wall_ns = 1 }, { .run_ns = 1 } };
    stint_pool *pool = make_pool(.workers = 2);
    struct gate never = { 0 };
    stint_future *held = submit(pool, gate_hold, &never, NULL);
    for (unsigned i = 0; i < 6; i++) {
        if (!LOOPS && i / 2 == 1)
            continue;
        struct gate gate = { 0 };
        stint_budget before = { .wall_ns = i % 2 == 0 ? 0 : 60000 * MS };
        stint_future *future = i < 2   ? begin(pool, poll_until_open, &gate, before, false)
                               : i < 4 ? begin(pool, loop_until_open, &gate, before, true)
                                       : submit(pool, wait_for, held, NULL);
        gate_nap();
        set(future, earlier[i % 2]);
        stint_outcome outcome = take_in_time(future);
        assert_true(outcome.reason == STINT_REASON_DEADLINE || (i >= 4 && outcome.reason == STINT_REASON_EXPIRED));
    }
    gate_open(&never);
    assert_well(held);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(a_running_task_goes_by_its_new_limit_of_processor_time)
{
    stint_pool *pool = make_pool(.workers = 1);
    for (unsigned i = 0; LOOPS && i < 2; i++) {
        struct gate gate = { 0 };
        stint_budget before = { .cpu_ns = i == 0 ? 0 : 60000 * MS };
        stint_future *future = begin(pool, loop_until_open, &gate, before, true);
        set(future, (stint_budget){ .cpu_ns = 1 * MS });
        assert_stopped(future, STINT_REASON_CPU);
    }
    assert_int_equal(stint_pool_destroy(pool), 0);
}

/* --- Tasks that wait ---------------------------------------------------------------------------------------------- */

static stint_future *hold_worker(stint_pool *pool, struct gate *gate)
{
    stint_future *held = submit(pool, gate_hold, gate, NULL);
    gate_await(gate, 1);
    return held;
}

TEST(a_queued_task_waits_for_as_long_as_it_was_given_later)
{
    stint_pool *pool = make_pool(.workers = 1);
    struct gate gate = { 0 };
    stint_future *held = hold_worker(pool, &gate);
    const stint_options options = { .size = sizeof options, .budget.wall_ns = 300 * MS };
    stint_future *future = submit(pool, do_nothing, NULL, &options);
    int error = stint_future_set_budget(future, &(stint_budget){ .wall_ns = 60000 * MS });
    nap_beyond(300 * MS);
    bool ended = stint_future_is_ready(future);
    gate_open(&gate);
    assert_stopped(future, error == EALREADY ? STINT_REASON_EXPIRED : STINT_REASON_NONE);
    assert_true(error == EALREADY || !ended);
    assert_well(held);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(a_queued_task_that_is_given_more_time_expires_then)
{
    stint_pool *pool = make_pool(.workers = 1);
    struct gate gate = { 0 };
    stint_future *held = hold_worker(pool, &gate);
    const stint_options options = { .size = sizeof options, .budget.wall_ns = 50 * MS };
    stint_future *future = submit(pool, do_nothing, NULL, &options);
    stint_future_set_budget(future, &(stint_budget){ .wall_ns = 100 * MS });
    assert_stopped(future, STINT_REASON_EXPIRED);
    gate_open(&gate);
    assert_well(held);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(a_task_that_waits_begins_with_the_budget_that_it_has_then)
{
    stint_pool *pool = make_pool(.workers = 1);
    struct gate gate = { 0 };
    stint_future *held = hold_worker(pool, &gate);
    stint_future *futures[4];
    futures[0] = submit(pool, allocate_megabyte, NULL, NULL);
    futures[1] = submit(pool, do_nothing, NULL, NULL);
    assert_int_equal(stint_submit_at(pool, allocate_megabyte, NULL, NULL, 1, &futures[2]), 0);
    futures[3] = submit(pool, allocate_megabyte, NULL, NULL);
    set(futures[0], (stint_budget){ .allocation = 1000 });
    set(futures[1], (stint_budget){ .wall_ns = 1 });
    set(futures[2], (stint_budget){ .memory = MIB / 2 });
    set(futures[3], (stint_budget){ .allocation = 1000 });
    set(futures[3], (stint_budget){ .allocation = 0 });
    gate_open(&gate);
    assert_stopped(futures[0], STINT_REASON_ALLOCATION_LIMIT);
    assert_stopped(futures[1], STINT_REASON_EXPIRED);
    assert_stopped(futures[2], STINT_REASON_MEMORY_LIMIT);
    assert_well(futures[3]);
    assert_well(held);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

/* --- Tasks on several threads ------------------------------------------------------------------------------------- */

struct forking {
    struct two_megabytes own, subtask;
    atomic_uint begun;
};

static int begin_subtask(void *arg, void **value)
{
    struct forking *forking = arg;
    atomic_store(&forking->begun, 1);
    return allocate_two(&forking->subtask, value);
}

static int allocate_on_two_threads(void *arg, void **value)
{
    struct forking *forking = arg;
    stint_subtask subtask;
    stint_fork(&subtask, begin_subtask, forking);
    have_stolen(&forking->begun);
    int error = allocate_two(&forking->own, value);
    int other = stint_join(&subtask, NULL);
    return error != 0 ? error : other;
}

TEST(all_threads_of_a_task_go_by_its_new_budget)
{
    static const struct {
        stint_budget before, after;
        stint_reason reason;
    } cases[] = {
        { { .allocation = 3 * MIB }, { .allocation = 16 * MIB }, STINT_REASON_NONE },
        { { .allocation = 3 * MIB }, { 0 }, STINT_REASON_NONE },
        { { 0 }, { .allocation = 3 * MIB }, STINT_REASON_ALLOCATION_LIMIT },
        { { .allocation = 16 * MIB }, { .allocation = 3 * MIB }, STINT_REASON_ALLOCATION_LIMIT },
        { { .memory = 3 * MIB }, { .memory = 16 * MIB }, STINT_REASON_NONE },
        { { 0 }, { .memory = 3 * MIB }, STINT_REASON_MEMORY_LIMIT },
        { { 0 }, { .wall_ns = 1 }, STINT_REASON_DEADLINE },
    };
    stint_pool *pool = make_pool(.workers = 2);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct forking forking = { .begun = 0 };
        const stint_options options = { .size = sizeof options, .budget = cases[i].before };
        stint_future *future = submit(pool, allocate_on_two_threads, &forking, &options);
        gate_await(&forking.own.gate, 1);
        gate_await(&forking.subtask.gate, 1);
        set(future, cases[i].after);
        gate_open(&forking.own.gate);
        gate_open(&forking.subtask.gate);
        assert_stopped(future, cases[i].reason);
    }
    assert_int_equal(stint_pool_destroy(pool), 0);
}

struct limited_later {
    struct gate before, after; /* a sample point */
    atomic_uint begun;
};

static int allocate_before_and_after(void *arg, void **value)
{
    struct limited_later *later = arg;
    atomic_fetch_add(&later->begun, 1);
    int error = allocate_megabyte(NULL, value);
    gate_hold(&later->before, value);
    stint_checkpoint();
    gate_hold(&later->after, value);
    return error != 0 ? error : allocate_megabyte(NULL, value);
}

static int allocate_later_on_two_threads(void *arg, void **value)
{
    struct limited_later *later = arg;
    stint_subtask subtask;
    stint_fork(&subtask, allocate_before_and_after, later);
    have_stolen(&later->begun);
    int error = allocate_before_and_after(later, value);
    int other = stint_join(&subtask, NULL);
    return error != 0 ? error : other;
}

/* And not only when both have ended. */
TEST(all_threads_of_a_task_that_had_no_limit_stop_at_its_first_one)
{
    stint_pool *pool = make_pool(.workers = 2);
    struct limited_later later = { .begun = 0 };
    stint_future *future = submit(pool, allocate_later_on_two_threads, &later, NULL);
    gate_await(&later.before, 2);
    set(future, (stint_budget){ .allocation = 2 * MIB + MIB / 2 });
    gate_open(&later.before);
    gate_await(&later.after, 2);
    gate_open(&later.after);
    stint_outcome outcome = take_in_time(future);
    assert_int_equal(outcome.reason, STINT_REASON_ALLOCATION_LIMIT);
    assert_in_range(outcome.usage.allocated, 2 * MIB, 3 * MIB);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

/* --- Too late, and wrong ------------------------------------------------------------------------------------------ */

static int fail_until_open(void *arg, void **value)
{
    struct gate *gate = arg;
    while (stint_malloc(CHUNK) != NULL)
        ;
    return gate_hold(gate, value);
}

TEST(a_task_that_has_been_stopped_or_has_ended_is_given_no_other_budget)
{
    stint_pool *pool = make_pool(.workers = 1);
    struct gate gate = { 0 };
    const stint_budget none = { 0 };
    const stint_options options = { .size = sizeof options, .budget.allocation = MIB, .on_interrupt = STINT_FAIL };
    stint_future *future = submit(pool, fail_until_open, &gate, &options);
    gate_await(&gate, 1);
    assert_int_equal(stint_future_set_budget(future, &none), EALREADY);
    gate_open(&gate);
    assert_int_equal(stint_future_wait(future, NULL), 0);
    assert_int_equal(stint_future_set_budget(future, &none), EALREADY);
    stint_future *all;
    assert_int_equal(stint_when_all(&future, 1, &all), 0);
    assert_int_equal(stint_future_set_budget(all, &none), EINVAL);
    assert_int_equal(stint_future_set_budget(NULL, &none), EINVAL);
    assert_int_equal(stint_future_set_budget(future, NULL), EINVAL);
    stint_future_release(all);
    stint_future_release(future);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

/* --- What is told of it ------------------------------------------------------------------------------------------- */

static void count_report(const stint_overdue_report *report, void *count)
{
    (void)report;
    atomic_fetch_add((atomic_uint *)count, 1);
}

TEST(a_task_that_is_given_more_time_is_overdue_later)
{
    atomic_uint told = 0;
    stint_pool *pool = make_pool(.workers = 1, .overdue_ns = 1 * MS, .on_overdue = count_report, .overdue_arg = &told);
    struct gate gate = { 0 };
    stint_future *future = begin(pool, gate_hold, &gate, (stint_budget){ .wall_ns = 300 * MS }, false);
    set(future, (stint_budget){ .wall_ns = 60000 * MS });
    bool late = atomic_load(&told) > 0; /* the machine was */
    nap_beyond(300 * MS);
    assert_true(late || atomic_load(&told) == 0);
    set(future, (stint_budget){ .wall_ns = 1 });
    gate_open(&gate);
    stint_future_wait(future, NULL);
    stint_future_release(future);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

static bool note_limits(const stint_task_view *view, void *limits)
{
    *(stint_budget *)limits = view->limits;
    return true;
}

TEST(a_visit_shows_the_limits_as_they_are_now)
{
    stint_pool *pool = make_pool(.workers = 1);
    struct gate gate = { 0 };
    stint_future *future = begin(pool, gate_hold, &gate, (stint_budget){ .memory = MIB }, false);
    stint_budget seen = { 0 };
    set(future, (stint_budget){ .memory = 7 * MIB, .run_ns = 60000 * MS });
    assert_int_equal(stint_pool_visit(pool, note_limits, &seen), 0);
    assert_int_equal(seen.memory, 7 * MIB);
    assert_int_equal(seen.run_ns, 60000 * MS);
    gate_open(&gate);
    assert_well(future);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(what_a_task_has_used_so_far_can_be_read)
{
    stint_pool *pool = make_pool(.workers = 1);
    struct two_megabytes two = { 0 };
    stint_usage usage;
    stint_future *future = begin_two(pool, &two, (stint_budget){ 0 });
    assert_int_equal(stint_future_usage(future, &usage), 0);
    assert_in_range(usage.allocated, MIB - 112 * KIB, MIB + MIB / 8);
    assert_in_range(usage.peak, MIB / 2, 2 * MIB);
    assert_true(usage.wall_ns > 0);
    gate_open(&two.gate);
    stint_outcome outcome;
    assert_int_equal(stint_future_wait(future, &outcome), 0);
    assert_int_equal(stint_future_usage(future, &usage), 0);
    assert_memory_equal(&usage, &outcome.usage, sizeof usage);
    assert_int_equal(stint_future_usage(NULL, &usage), EINVAL);
    assert_int_equal(stint_future_usage(future, NULL), EINVAL);
    stint_future_release(future);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

/* --- A change in the midst of a sample point ---------------------------------------------------------------------- */

#define LARGE_BLOCK ((size_t)200000) /* an allocation of it is a sample point */
#define SMALL_BLOCKS 500             /* between two of those: no sample point, unless one is asked for */

struct counting {
    struct gate gate;
    atomic_ulong made;
};

static int allocate_and_count(void *arg, void **value)
{
    struct counting *counting = arg;
    (void)value;
    atomic_store(&counting->gate.entered, 1);
    for (;;) {
        stint_free(stint_malloc(LARGE_BLOCK));
        for (size_t i = 0; i < SMALL_BLOCKS; i++) {
            stint_free(stint_malloc(64));
            atomic_fetch_add_explicit(&counting->made, 1, memory_order_relaxed);
        }
    }
    return 0;
}

TEST(a_lower_limit_of_bytes_stops_the_next_allocation_also_when_it_comes_during_a_sample_point)
{
    stint_pool *pool = make_pool(.workers = 1);
    unsigned long most = 0;
    for (unsigned i = 0; i < repeats(400); i++) {
        struct counting counting = { .made = 0 };
        stint_future *future = submit(pool, allocate_and_count, &counting, NULL);
        while (atomic_load(&counting.gate.entered) == 0)
            ;
        for (volatile unsigned turn = 0; turn < 20 * (i % 64); turn++)
            ;
        set(future, (stint_budget){ .allocation = 1 });
        unsigned long before = atomic_load(&counting.made);
        assert_stopped(future, STINT_REASON_ALLOCATION_LIMIT);
        unsigned long made = atomic_load(&counting.made) - before;
        most = made > most ? made : most;
    }
    assert_in_range(most, 0, SMALL_BLOCKS / 10); /* what was on its way, and not all that there is until the next one */
    assert_int_equal(stint_pool_destroy(pool), 0);
}

static void note_fired(void *arg)
{
    atomic_store((atomic_bool *)arg, true);
}

/* Has used some of its thread's processor time when it says that it has entered. A hook that runs although nothing has
 * tripped the task is an error. */
static int poll_with_hook(void *arg, void **value)
{
    struct gate *gate = arg;
    stint_hook hook;
    atomic_bool fired = false;
    uint64_t begin = thread_time_ns();
    (void)value;
    while (thread_time_ns() - begin < 3 * MS)
        ;
    assert_int_equal(stint_hook_push(&hook, note_fired, &fired), 0);
    atomic_fetch_add(&gate->entered, 1);
    while (!atomic_load_explicit(&gate->open, memory_order_relaxed) && !stint_is_interrupted())
        stint_checkpoint();
    stint_hook_pop(&hook);
    return atomic_load(&fired) ? EBADMSG : 0;
}

static void *keep_watch_awake(void *arg)
{
    struct gate *gate = arg;
    stint_token *token;
    int descriptor;
    while (!atomic_load(&gate->open)) {
        assert_int_equal(stint_token_create(NULL, &token), 0);
        assert_int_equal(stint_token_fd(token, &descriptor), 0);
        stint_token_set(token);
        stint_token_release(token);
    }
    return NULL;
}

TEST(the_first_limit_of_processor_time_counts_from_the_change_for_hooks_too)
{
    struct gate waker = { 0 };
    pthread_t thread;
    stint_pool *pool = make_pool(.workers = 1);
    assert_int_equal(pthread_create(&thread, NULL, keep_watch_awake, &waker), 0);
    for (unsigned i = 0; i < repeats(150); i++) {
        struct gate gate = { 0 };
        stint_future *future = submit(pool, poll_with_hook, &gate, NULL);
        gate_await(&gate, 1);
        set(future, (stint_budget){ .cpu_ns = 2 * MS });
        gate_nap();
        gate_open(&gate);
        stint_outcome outcome = take_in_time(future);
        assert_true(outcome.reason == STINT_REASON_NONE || outcome.reason == STINT_REASON_CPU);
    }
    gate_open(&waker);
    pthread_join(thread, NULL);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

/* --- All at once -------------------------------------------------------------------------------------------------- */

enum { CHANGERS = 2, SLOTS = 8 };

struct storm {
    stint_future *_Atomic slots[SLOTS];
    atomic_bool over;
    pthread_mutex_t lock; /* to retain one of a slot that may be given back */
    atomic_uint changed;
};

static stint_future *retain_slot(struct storm *storm, size_t slot)
{
    pthread_mutex_lock(&storm->lock);
    stint_future *future = stint_future_retain(atomic_load(&storm->slots[slot]));
    pthread_mutex_unlock(&storm->lock);
    return future;
}

/* Each change allows only ends that the task could have without the change, too. */
static void *change_for_ever(void *arg)
{
    struct storm *storm = arg;
    uint64_t random = (uint64_t)(uintptr_t)&random;
    while (!atomic_load(&storm->over)) {
        stint_future *future = retain_slot(storm, random_below(&random, SLOTS));
        const stint_budget budget = {
            .allocation = random_below(&random, 2) == 0 ? 0 : random_size(&random, 22),
            .memory = random_below(&random, 2) == 0 ? 0 : random_size(&random, 22),
            .wall_ns = random_below(&random, 4) == 0 ? random_size(&random, 25) : 0,
            .run_ns = random_below(&random, 4) == 0 ? random_size(&random, 25) : 0,
            .cpu_ns = random_below(&random, 4) == 0 ? random_size(&random, 25) : 0,
        };
        stint_usage usage;
        if (future != NULL) {
            int error = stint_future_set_budget(future, &budget);
            atomic_fetch_add(&storm->changed, error == 0);
            if (stint_future_usage(future, &usage) != 0 || (error != 0 && error != EALREADY))
                abort();
        }
        stint_future_release(future);
    }
    return NULL;
}

static int grow(size_t begin, size_t end, void *arg)
{
    (void)arg;
    for (size_t i = begin; i < end; i++) {
        void *block = stint_malloc(100);
        stint_checkpoint();
        if (i % 2 == 0)
            stint_free(block);
    }
    return 0;
}

static int grow_on_all(void *arg, void **value)
{
    (void)value;
    stint_outcome outcome;
    if (arg != NULL)
        return stint_for(0, 4000, 100, grow, NULL);
    grow(0, 2000, NULL);
    return stint_run(allocate_megabyte, NULL, NULL, &outcome);
}

TEST(budgets_are_changed_while_tasks_begin_and_end)
{
    struct storm storm = { .lock = PTHREAD_MUTEX_INITIALIZER };
    pthread_t changers[CHANGERS];
    unsigned reasons[STINT_REASONS_MAX] = { 0 };
    stint_pool *pool = make_pool(.workers = 3, .overdue_ns = 1 * MS);
    for (size_t i = 0; i < CHANGERS; i++)
        assert_int_equal(pthread_create(&changers[i], NULL, change_for_ever, &storm), 0);
    for (unsigned i = 0; i < repeats(4000); i++) {
        const stint_options options = { .size = sizeof options,
                                        .budget.wall_ns = i % 3 == 0 ? 20 * MS : 0,
                                        .preemptible = i % 5 == 0,
                                        .priority = i % 7 == 0 ? STINT_PRIORITY_HIGH : STINT_PRIORITY_NORMAL };
        stint_future *future = submit(pool, grow_on_all, i % 4 == 0 ? &storm : NULL, &options);
        pthread_mutex_lock(&storm.lock);
        stint_future *before = atomic_exchange(&storm.slots[i % SLOTS], future);
        pthread_mutex_unlock(&storm.lock);
        if (before != NULL)
            reasons[take_in_time(before).reason]++;
    }
    atomic_store(&storm.over, true);
    for (size_t i = 0; i < CHANGERS; i++)
        pthread_join(changers[i], NULL);
    for (size_t i = 0; i < SLOTS; i++)
        reasons[take_in_time(atomic_load(&storm.slots[i])).reason]++;
    assert_true(atomic_load(&storm.changed) > 0);
    assert_int_equal(reasons[STINT_REASON_FAILED] + reasons[STINT_REASON_OUTER] + reasons[STINT_REASON_TOKEN], 0);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST_MAIN()
