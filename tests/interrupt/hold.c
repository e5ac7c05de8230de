/* SPDX-License-Identifier: MIT
 *
 * The locks that a task holds are known exactly, whether the task, the code before it, or an outer scope takes and
 * releases them. Each task below sets its own token, sees that it goes on while it holds a lock, and is stopped at the
 * first allocation without a lock. */
#include "support.h"

static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t second = PTHREAD_MUTEX_INITIALIZER;

struct task {
    stint_token *token;
    int held;     /* allocations that it came back from, with a lock held */
    bool not_met; /* it was not stopped where it held none any more */
};

static void allocate_and_go_on(struct task *task)
{
    free(keep(malloc(100)));
    task->held++;
}

static void allocate_and_stop(struct task *task)
{
    free(keep(malloc(100)));
    task->not_met = true;
}

static void run_cancelled(stint_fn *fn, int held)
{
    struct task task = { NULL, 0, false };
    assert_int_equal(stint_token_create(NULL, &task.token), 0);
    stint_options options = STINT_OPTIONS_INIT;
    options.token = task.token;
    stint_outcome outcome = run_task(fn, &task, &options);
    stint_token_release(task.token);
    assert_outcome(outcome, STINT_CANCELLED, STINT_REASON_TOKEN, ECANCELED);
    assert_int_equal(task.held, held);
    assert_false(task.not_met);
}

static void assert_free(pthread_mutex_t *mutex)
{
    assert_int_equal(pthread_mutex_trylock(mutex), 0);
    pthread_mutex_unlock(mutex);
}

static int hold_one(void *arg, void **value)
{
    (void)value;
    struct task *task = arg;
    stint_token_set(task->token);
    pthread_mutex_lock(&first);
    allocate_and_go_on(task);
    pthread_mutex_lock(&second);
    allocate_and_go_on(task);
    pthread_mutex_unlock(&first);
    allocate_and_go_on(task);
    pthread_mutex_unlock(&second);
    allocate_and_stop(task);
    return 0;
}

TEST(a_task_goes_on_until_it_has_let_go_of_its_last_lock)
{
    run_cancelled(hold_one, 3);
    assert_free(&first);
    assert_free(&second);
}

static int take_turns(void *arg, void **value)
{
    (void)value;
    struct task *task = arg;
    stint_token_set(task->token);
    pthread_mutex_lock(&second);
    pthread_mutex_unlock(&first);
    allocate_and_go_on(task);
    pthread_mutex_unlock(&second);
    allocate_and_stop(task);
    return 0;
}

TEST(a_lock_from_before_the_task_does_not_stand_for_one_of_its_own)
{
    pthread_mutex_lock(&first);
    run_cancelled(take_turns, 1);
    assert_free(&first);
    assert_free(&second);
}

static int stop_at_once(void *arg, void **value)
{
    (void)value;
    struct task *task = arg;
    stint_token_set(task->token);
    allocate_and_stop(task);
    return 0;
}

TEST(a_lock_from_before_the_task_does_not_keep_it)
{
    pthread_mutex_lock(&first);
    run_cancelled(stop_at_once, 0);
    pthread_mutex_unlock(&first);
    run_cancelled(hold_one, 3);
}

static int take_turns_inside(void *arg, void **value)
{
    (void)value;
    stint_outcome outcome;
    pthread_mutex_lock(&first);
    stint_run(take_turns, arg, NULL, &outcome);
    ((struct task *)arg)->not_met = true;
    return 0;
}

TEST(a_lock_of_the_scope_around_does_not_stand_for_one_of_the_inner_scope)
{
    run_cancelled(take_turns_inside, 1);
    assert_free(&first);
    assert_free(&second);
}

static int allocate_once(void *arg, void **value)
{
    (void)value;
    stint_token_set(((struct task *)arg)->token);
    allocate_and_go_on(arg);
    return 0;
}

static int hold_around(void *arg, void **value)
{
    (void)value;
    struct task *task = arg;
    stint_outcome outcome;
    pthread_mutex_lock(&first);
    stint_run(allocate_once, task, NULL, &outcome);
    allocate_and_go_on(task);
    pthread_mutex_unlock(&first);
    allocate_and_stop(task);
    return 0;
}

TEST(an_inner_scope_waits_for_the_lock_of_the_one_around_it)
{
    run_cancelled(hold_around, 2);
    assert_free(&first);
}

static int leave_locked(void *arg, void **value)
{
    (void)value;
    return pthread_mutex_lock(arg);
}

static int unlock_for_inner(void *arg, void **value)
{
    (void)value;
    struct task *task = arg;
    stint_outcome outcome;
    stint_run(leave_locked, &first, NULL, &outcome);
    stint_token_set(task->token);
    allocate_and_go_on(task);
    pthread_mutex_lock(&second);
    pthread_mutex_unlock(&first);
    allocate_and_go_on(task);
    pthread_mutex_unlock(&second);
    allocate_and_stop(task);
    return 0;
}

TEST(what_an_inner_scope_leaves_locked_is_held_by_the_one_around_it)
{
    run_cancelled(unlock_for_inner, 2);
    assert_free(&first);
    assert_free(&second);
}

static int lock_and_run(void *lock, void **value)
{
    (void)value;
    stint_outcome outcome;
    pthread_mutex_lock(lock);
    return stint_run(do_nothing, NULL, NULL, &outcome);
}

static int unlock_for_both(void *arg, void **value)
{
    (void)value;
    struct task *task = arg;
    stint_outcome outcome;
    stint_run(lock_and_run, &first, NULL, &outcome);
    stint_token_set(task->token);
    allocate_and_go_on(task);
    pthread_mutex_unlock(&first);
    allocate_and_stop(task);
    return 0;
}

TEST(so_is_what_one_leaves_locked_that_another_ran_inside)
{
    run_cancelled(unlock_for_both, 1);
    assert_free(&first);
}

TEST(what_a_task_leaves_locked_is_not_held_by_the_next)
{
    for (int round = 0; round < 3; round++) {
        assert_ok(run_task(leave_locked, &first, NULL));
        run_cancelled(stop_at_once, 0);
        run_cancelled(take_turns, 1);
        run_cancelled(hold_one, 3);
    }
}

static pthread_mutex_t checked;

static int lock_in_vain(void *arg, void **value)
{
    (void)value;
    struct task *task = arg;
    pthread_mutex_lock(&checked);
    if (pthread_mutex_lock(&checked) != EDEADLK || pthread_mutex_trylock(&checked) != EBUSY)
        return 1;
    pthread_mutex_unlock(&checked);
    if (pthread_mutex_unlock(&checked) != EPERM)
        return 1;
    stint_token_set(task->token);
    pthread_mutex_lock(&first);
    if (pthread_mutex_unlock(&checked) != EPERM)
        return 1;
    allocate_and_go_on(task);
    pthread_mutex_unlock(&first);
    allocate_and_stop(task);
    return 0;
}

TEST(a_lock_or_an_unlock_that_fails_counts_for_nothing)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(&checked, &attributes);
    run_cancelled(lock_in_vain, 1);
    assert_free(&checked);
    pthread_mutex_destroy(&checked);
}

static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

static int lock_twice(void *arg, void **value)
{
    (void)value;
    struct task *task = arg;
    stint_token_set(task->token);
    pthread_mutex_lock(&recursive);
    pthread_mutex_lock(&recursive);
    pthread_mutex_unlock(&recursive);
    allocate_and_go_on(task);
    pthread_mutex_unlock(&recursive);
    allocate_and_stop(task);
    return 0;
}

TEST(a_mutex_that_is_locked_twice_is_held_until_it_is_unlocked_twice)
{
    run_cancelled(lock_twice, 1);
    pthread_mutex_lock(&first);
    run_cancelled(lock_twice, 1);
    pthread_mutex_unlock(&first);
}

#define MANY 100

static int hold_many(void *arg, void **value)
{
    (void)value;
    struct task *task = arg;
    static pthread_mutex_t many[MANY];
    stint_token_set(task->token);
    for (int i = 0; i < MANY; i++) {
        pthread_mutex_init(&many[i], NULL);
        pthread_mutex_lock(&many[i]);
    }
    for (int i = 0; i < MANY; i++) {
        allocate_and_go_on(task);
        pthread_mutex_unlock(&many[(i * 37) % MANY]);
    }
    allocate_and_stop(task);
    return 0;
}

TEST(any_number_of_locks_may_be_held)
{
    run_cancelled(hold_many, MANY);
    pthread_mutex_lock(&first);
    run_cancelled(hold_many, MANY);
    pthread_mutex_unlock(&first);
}

static int lock_second_inside(void *arg, void **value)
{
    (void)arg;
    (void)value;
    return pthread_mutex_lock(&second);
}

static int go_on_with_the_inner_one_s_second_lock(void *arg, void **value)
{
    struct task *task = arg;
    stint_outcome outcome;
    (void)value;
    pthread_mutex_lock(&first);
    stint_run(lock_second_inside, NULL, NULL, &outcome);
    pthread_mutex_unlock(&first);
    stint_token_set(task->token);
    allocate_and_go_on(task);
    pthread_mutex_unlock(&second);
    allocate_and_stop(task);
    return 0;
}

TEST(so_is_what_it_leaves_locked_beside_a_lock_of_that_one)
{
    run_cancelled(go_on_with_the_inner_one_s_second_lock, 1);
    assert_free(&first);
    assert_free(&second);
}

/* --- An inner scope that is interrupted while it holds a lock ----------------------------------------------------- */

static int lock_and_be_cancelled(void *token, void **value)
{
    (void)value;
    pthread_mutex_lock(&first);
    stint_token_set(token);
    free(keep(malloc(100))); /* where it is found to be due, and to hold something */
    return 0;
}

static int go_on_with_the_inner_one_s_lock(void *arg, void **value)
{
    struct task *task = arg;
    stint_outcome outcome;
    stint_options options = STINT_OPTIONS_INIT;
    (void)value;
    if (stint_token_create(NULL, &options.token) != 0)
        return ENOMEM;
    int error = stint_run(lock_and_be_cancelled, options.token, &options, &outcome);
    stint_token_release(options.token);
    if (error != 0 || outcome.reason != STINT_REASON_TOKEN)
        return EPROTO;
    stint_token_set(task->token);
    allocate_and_go_on(task);
    pthread_mutex_unlock(&first);
    allocate_and_stop(task);
    return 0;
}

TEST(what_an_interrupted_scope_leaves_locked_is_held_by_the_one_around_it)
{
    run_cancelled(go_on_with_the_inner_one_s_lock, 1);
    assert_free(&first);
}

TEST_MAIN()
