/* SPDX-License-Identifier: MIT
 *
 * A rollback restores the thread's locale, signal mask and cancellation; a commit keeps the task's changes. */
#include "support.h"

#include <locale.h>
#include <signal.h>

static locale_t other; /* than the thread has */

struct changes {
    int error; /* that the task ends with; negative: it allocates until it is stopped */
    unsigned depth;
};

static void change(void)
{
    sigset_t all;
    int before;
    sigfillset(&all);
    uselocale(other);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &before);
    /* A second change: a rollback restores the state before the first. */
    sigdelset(&all, SIGUSR1);
    sigprocmask(SIG_SETMASK, &all, NULL);
    uselocale(LC_GLOBAL_LOCALE);
    uselocale(other);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
}

static int change_in_scopes(void *arg, void **value)
{
    (void)value;
    const struct changes *changes = arg;
    if (changes->depth > 0) {
        struct changes inner = { .depth = changes->depth - 1 };
        stint_outcome outcome;
        int error = stint_run(change_in_scopes, &inner, NULL, &outcome);
        if (error != 0)
            return error;
    } else {
        change();
    }
    while (changes->error < 0)
        keep(stint_malloc(1000));
    return changes->error;
}

struct state {
    locale_t locale;
    sigset_t mask;
    int cancel;
    int cancel_type;
};

static struct state state_now(void)
{
    struct state state = { .locale = uselocale((locale_t)0) };
    pthread_sigmask(SIG_BLOCK, NULL, &state.mask);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state.cancel);
    pthread_setcancelstate(state.cancel, NULL);
    pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &state.cancel_type);
    pthread_setcanceltype(state.cancel_type, NULL);
    return state;
}

static void put_back(const struct state *state)
{
    uselocale(state->locale);
    pthread_sigmask(SIG_SETMASK, &state->mask, NULL);
    pthread_setcanceltype(state->cancel_type, NULL);
    pthread_setcancelstate(state->cancel, NULL);
}

static void assert_same(const struct state *a, const struct state *b)
{
    assert_ptr_equal(a->locale, b->locale);
    assert_int_equal(a->cancel, b->cancel);
    assert_int_equal(a->cancel_type, b->cancel_type);
    for (int number = 1; number < SIGRTMIN; number++)
        assert_int_equal(sigismember(&a->mask, number), sigismember(&b->mask, number));
    for (int number = SIGRTMIN; number <= SIGRTMAX; number++)
        assert_int_equal(sigismember(&a->mask, number), sigismember(&b->mask, number));
}

static void assert_put_back(struct changes changes, stint_options options)
{
    options.budget.allocation = MIB;
    struct state before = state_now();
    stint_outcome outcome = run_task(change_in_scopes, &changes, &options);
    struct state after = state_now();
    put_back(&before);
    assert_int_equal(outcome.status, STINT_ERROR);
    assert_same(&before, &after);
}

TEST(an_error_puts_the_thread_s_state_back)
{
    const stint_options options = STINT_OPTIONS_INIT;
    assert_put_back((struct changes){ .error = EIO }, options);
}

TEST(an_interrupt_puts_the_thread_s_state_back)
{
    const stint_options options = STINT_OPTIONS_INIT;
    assert_put_back((struct changes){ .error = -1 }, options);
}

TEST(so_does_one_of_a_preemptible_task)
{
    const stint_options options = { .size = sizeof(stint_options), .preemptible = true };
    for (int i = 0; i < 2; i++)
        assert_put_back((struct changes){ .error = i == 0 ? EIO : -1 }, options);
    sigset_t blocked;
    sigset_t before;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGRTMAX - 2);
    pthread_sigmask(SIG_BLOCK, &blocked, &before);
    assert_put_back((struct changes){ .error = EIO }, options);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

TEST(what_scopes_inside_changed_and_committed_is_put_back_with_the_outer_one)
{
    const stint_options options = STINT_OPTIONS_INIT;
    for (unsigned depth = 1; depth <= 3; depth++)
        assert_put_back((struct changes){ .error = EIO, .depth = depth }, options);
}

TEST(a_task_that_succeeds_may_change_it_for_good)
{
    struct state before = state_now();
    struct changes changes = { .error = 0, .depth = 1 };
    stint_outcome outcome = run_task(change_in_scopes, &changes, NULL);
    struct state after = state_now();
    put_back(&before);
    assert_ok(outcome);
    assert_ptr_equal(after.locale, other);
    assert_int_equal(after.cancel, PTHREAD_CANCEL_DISABLE);
    assert_int_equal(after.cancel_type, PTHREAD_CANCEL_ASYNCHRONOUS);
    assert_int_equal(sigismember(&after.mask, SIGUSR1), 0);
    assert_int_equal(sigismember(&after.mask, SIGUSR2), 1);
}

static int make_other(void **state)
{
    (void)state;
    other = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    return other != (locale_t)0 ? 0 : -1;
}

TEST_MAIN_WITH(make_other, NULL)
