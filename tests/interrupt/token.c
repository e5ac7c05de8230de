/* SPDX-License-Identifier: MIT
 *
 * Tokens: set from anywhere, seen at the very next allocation, nested, counted. */
#include "support.h"

#include <signal.h>
#include <stdatomic.h>

static stint_token *make_token(stint_token *parent)
{
    stint_token *token = NULL;
    assert_int_equal(stint_token_create(parent, &token), 0);
    assert_non_null(token);
    return token;
}

static stint_options with_token(stint_token *token, stint_on_interrupt mode)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.token = token;
    options.on_interrupt = mode;
    return options;
}

TEST(a_parent_sets_its_children_and_not_the_other_way)
{
    stint_token *root = make_token(NULL);
    stint_token *left = make_token(root);
    stint_token *right = make_token(root);
    stint_token *leaf = make_token(left);
    stint_token_set(left);
    assert_false(stint_token_is_set(root));
    assert_true(stint_token_is_set(left));
    assert_false(stint_token_is_set(right));
    assert_true(stint_token_is_set(leaf));
    stint_token_set(root);
    stint_token_set(root);
    assert_true(stint_token_is_set(root));
    assert_true(stint_token_is_set(right));
    stint_token_release(root);
    stint_token_release(left);
    stint_token_release(right);
    stint_token_release(leaf);
}

TEST(a_parent_that_is_released_first_stays_for_its_children)
{
    stint_token *parent = make_token(NULL);
    stint_token *child = make_token(parent);
    stint_token *other = stint_token_retain(parent);
    assert_ptr_equal(other, parent);
    stint_token_release(parent);
    stint_token_set(other);
    stint_token_release(other);
    for (int i = 0; i < 10000; i++) /* which would take the memory of a freed parent */
        stint_token_release(make_token(NULL));
    assert_true(stint_token_is_set(child));
    stint_token_release(child);
}

TEST(null_tokens)
{
    assert_int_equal(stint_token_create(NULL, NULL), EINVAL);
    stint_token_set(NULL);
    assert_false(stint_token_is_set(NULL));
    assert_null(stint_token_retain(NULL));
    stint_token_release(NULL);
}

TEST(a_chain_of_tokens_may_be_long)
{
    stint_token *root = make_token(NULL);
    stint_token *leaf = stint_token_retain(root);
    for (int i = 0; i < 100000; i++) {
        stint_token *below = make_token(leaf);
        stint_token_release(leaf);
        leaf = below;
    }
    assert_false(stint_token_is_set(leaf));
    stint_token_set(root);
    assert_true(stint_token_is_set(leaf));
    stint_token_release(root);
    stint_token_release(leaf);
}

static int note_call(void *arg, void **value)
{
    *(bool *)arg = true;
    *value = arg;
    return 0;
}

TEST(a_task_whose_token_is_set_already_does_not_start)
{
    stint_token *parent = make_token(NULL);
    stint_token *token = make_token(parent);
    stint_token_set(parent);
    for (int mode = STINT_JUMP; mode <= STINT_FAIL; mode++) {
        bool called = false;
        stint_options options = with_token(token, (stint_on_interrupt)mode);
        stint_outcome outcome = run_task(note_call, &called, &options);
        assert_cancelled(outcome, STINT_REASON_TOKEN);
        assert_false(called);
        assert_int_equal(outcome.usage.allocated, 0);
    }
    stint_token_release(token);
    stint_token_release(parent);
}

/* How a task that sets its own token goes on. */
struct self {
    stint_token *token;
    int step;
    volatile int allocated_after;
    volatile bool interrupted;
};

static int set_own_token(void *arg, void **value)
{
    struct self *self = arg;
    *value = self;
    for (int i = 0; i < 1000; i++)
        stint_free(keep(stint_malloc(64)));
    stint_token_set(self->token);
    if (self->step == 0) { /* the next allocation */
        self->allocated_after = stint_malloc(1) != NULL;
    } else if (self->step == 1) {
        stint_checkpoint();
        self->allocated_after = stint_malloc(1) != NULL;
    } else if (self->step == 2) { /* nothing more: the end sees it */
        return 0;
    }
    self->interrupted = stint_is_interrupted();
    return 0;
}

TEST(a_token_is_seen_at_the_very_next_sample_point_or_the_end)
{
    for (int step = 0; step < 3; step++) {
        for (int mode = STINT_JUMP; mode <= STINT_FAIL; mode++) {
            struct self self = { .token = make_token(NULL), .step = step };
            stint_options options = with_token(self.token, (stint_on_interrupt)mode);
            assert_cancelled(run_task(set_own_token, &self, &options), STINT_REASON_TOKEN);
            assert_int_equal(self.allocated_after, 0);
            assert_int_equal(self.interrupted, mode == STINT_FAIL && step < 2);
            stint_token_release(self.token);
        }
    }
}

static atomic_bool started;

static int allocate_until_null(void *arg, void **value)
{
    (void)arg;
    (void)value;
    atomic_store(&started, true);
    for (size_t i = 0;; i++) {
        void *block = keep(stint_malloc(16 + i % 256));
        if (block == NULL)
            return 0;
        stint_free(block);
    }
}

static void *set_when_started(void *token)
{
    while (!atomic_load(&started))
        ;
    stint_token_set(token);
    return NULL;
}

TEST(a_token_set_by_another_thread_ends_a_task_that_allocates)
{
    for (int round = 0; round < 300; round++) {
        stint_token *parent = make_token(NULL);
        stint_token *token = make_token(parent);
        stint_options options = with_token(token, round % 2 == 0 ? STINT_JUMP : STINT_FAIL);
        atomic_store(&started, false);
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, set_when_started, round % 3 == 0 ? parent : token), 0);
        assert_cancelled(run_task(allocate_until_null, NULL, &options), STINT_REASON_TOKEN);
        assert_int_equal(pthread_join(thread, NULL), 0);
        stint_token_release(token);
        stint_token_release(parent);
    }
}

static stint_token *signalled;

static void set_in_handler(int signal)
{
    (void)signal;
    stint_token_set(signalled);
}

TEST(a_token_may_be_set_in_a_signal_handler)
{
    struct sigaction action = { .sa_handler = set_in_handler };
    struct sigaction before;
    assert_int_equal(sigaction(SIGALRM, &action, &before), 0);
    for (int round = 0; round < 100; round++) {
        signalled = make_token(NULL);
        stint_options options = with_token(signalled, STINT_JUMP);
        const struct itimerspec soon = { .it_value = { 0, 1 + round * 20000 } };
        timer_t timer;
        struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM };
        assert_int_equal(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
        assert_int_equal(timer_settime(timer, 0, &soon, NULL), 0);
        assert_cancelled(run_task(allocate_until_null, NULL, &options), STINT_REASON_TOKEN);
        assert_int_equal(timer_delete(timer), 0);
        stint_token_release(signalled);
    }
    assert_int_equal(sigaction(SIGALRM, &before, NULL), 0);
}

#define REUSED 10000

static int give_up_own_token(void *arg, void **value)
{
    stint_token *others[64];
    (void)value;
    stint_token_release(arg);
    for (int round = 0; round < REUSED / 64; round++) { /* one of these would have the memory of the freed token */
        for (int i = 0; i < 64; i++) {
            if (stint_token_create(NULL, &others[i]) != 0)
                return 1;
            stint_token_set(others[i]);
        }
        stint_checkpoint();
        for (int i = 0; i < 64; i++)
            stint_token_release(others[i]);
    }
    return 0;
}

TEST(a_running_task_keeps_its_token)
{
    stint_token *token = make_token(NULL);
    stint_options options = with_token(token, STINT_JUMP);
    assert_ok(run_task(give_up_own_token, token, &options));
}

TEST_MAIN()
