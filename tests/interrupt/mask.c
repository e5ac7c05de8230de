/* SPDX-License-Identifier: MIT
 *
 * Masks and STINT_FAIL: where an interrupt waits, what may still be allocated there, and how allocations are
 * refused. */
#include "support.h"

struct masked {
    unsigned depth;
    size_t block;
    volatile size_t allocated; /* while masked, after the limit was passed */
    volatile int error;        /* errno of the refusal */
    volatile unsigned unmasked;
};

#define LIMIT (64 * KIB)

static int allocate_masked(void *arg, void **value)
{
    struct masked *masked = arg;
    (void)value;
    for (unsigned i = 0; i < masked->depth; i++)
        stint_mask();
    stint_free(keep(stint_malloc(LIMIT)));
    for (;;) {
        errno = 0;
        void *block = keep(stint_malloc(masked->block));
        if (block == NULL)
            break;
        stint_free(block);
        masked->allocated += masked->block;
    }
    masked->error = errno;
    for (unsigned i = 0; i < masked->depth; i++) {
        stint_unmask();
        masked->unmasked++;
    }
    return 0;
}

static void check_grace(size_t grace, size_t expected, size_t block)
{
    for (unsigned depth = 1; depth <= 3; depth++) {
        struct masked masked = { .depth = depth, .block = block };
        stint_options options = STINT_OPTIONS_INIT;
        options.budget.allocation = LIMIT;
        options.grace = grace;
        stint_outcome outcome = run_task(allocate_masked, &masked, &options);
        assert_limit_passed(outcome);
        assert_int_equal(masked.allocated, expected / block * block);
        assert_int_equal(masked.error, ENOMEM);
        assert_int_equal(masked.unmasked, depth - 1);
        assert_int_equal(outcome.usage.deferred, expected / block + 1);
        assert_int_equal(outcome.usage.allocated, LIMIT + masked.allocated);
    }
}

TEST(while_masked_the_grace_may_be_allocated_and_the_last_unmask_delivers)
{
    check_grace(0, MIB, 4096);
    check_grace(16, 16, 16);
    check_grace(15, 0, 16);
    check_grace(100000, 100000, 64);
    check_grace(8 * MIB, 8 * MIB, MIB);
}

static int allocate_some(void *bytes, void **value)
{
    (void)value;
    return keep(stint_malloc(*(size_t *)bytes)) != NULL ? 0 : ENOMEM;
}

static int run_scopes_masked(void *arg, void **value)
{
    struct masked *masked = arg;
    (void)value;
    stint_mask();
    stint_free(keep(stint_malloc(LIMIT)));
    stint_free(keep(stint_malloc(16))); /* the limit is passed */
    for (unsigned i = 0; i < 100; i++) {
        stint_outcome outcome;
        if (stint_run(allocate_some, &masked->block, NULL, &outcome) == 0)
            masked->allocated += outcome.usage.allocated;
    }
    stint_unmask();
    return 0;
}

TEST(scopes_inside_a_masked_task_have_the_grace_that_it_has_left)
{
    struct masked masked = { .block = 4 * KIB };
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.allocation = LIMIT;
    options.grace = 64 * KIB;
    assert_limit_passed(run_task(run_scopes_masked, &masked, &options));
    assert_in_range(masked.allocated, 60 * KIB - 16, 64 * KIB - 16);
}

static int mask_without_need(void *arg, void **value)
{
    (void)arg;
    (void)value;
    for (int i = 0; i < 1000; i++) {
        stint_mask();
        stint_mask();
        stint_free(keep(stint_malloc(16)));
        stint_unmask();
        stint_unmask();
    }
    return 0;
}

TEST(a_mask_without_an_interrupt_changes_nothing)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.allocation = 16000;
    stint_outcome outcome = run_task(mask_without_need, NULL, &options);
    assert_ok(outcome);
    assert_int_equal(outcome.usage.deferred, 0);
}

static int return_while_masked(void *arg, void **value)
{
    (void)value;
    stint_mask();
    stint_free(keep(stint_malloc(LIMIT + 16)));
    *(volatile bool *)arg = true;
    return 0;
}

TEST(a_task_that_returns_masked_is_interrupted_all_the_same)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.allocation = LIMIT;
    bool reached = false;
    assert_limit_passed(run_task(return_while_masked, &reached, &options));
    assert_true(reached);
    bool next = false;
    stint_outcome outcome = run_task(return_while_masked, &next, NULL);
    assert_outcome(outcome, STINT_ERROR, STINT_REASON_FAILED, EINVAL);
    assert_ok(run_task(mask_without_need, NULL, NULL)); /* the mask ended with its scope */
}

/* Every function of the families refuses alike. */
struct refusals {
    const struct family *family;
    unsigned refused;
    unsigned calls;
    bool left_alone;
    int own_code;
};

static void count_refusal(struct refusals *refusals, bool refused, int error)
{
    refusals->calls++;
    refusals->refused += refused && error == ENOMEM;
}

#define REFUSES(call)                                                                                                  \
    do {                                                                                                               \
        errno = 0;                                                                                                     \
        bool is_null = keep(call) == NULL;                                                                             \
        count_refusal(refusals, is_null, errno);                                                                       \
    } while (0)

static int try_everything(void *arg, void **value)
{
    struct refusals *refusals = arg;
    const struct family *family = refusals->family;
    char *held = keep(family->malloc(100));
    if (held == NULL)
        return 1;
    strcpy(held, "held");
    REFUSES(family->malloc(LIMIT));
    REFUSES(family->malloc(1));
    REFUSES(family->malloc(0));
    REFUSES(family->calloc(2, 8));
    REFUSES(family->realloc(NULL, 8));
    REFUSES(family->realloc(held, 1000));
    REFUSES(family->reallocarray(held, 10, 1000));
    REFUSES(family->aligned_alloc(64, 64));
    REFUSES(family->strdup("text"));
    REFUSES(family->strndup("text", 2));
    void *untouched = held;
    int error = family->posix_memalign(&untouched, 64, 64);
    count_refusal(refusals, error != 0, error);
    refusals->left_alone = untouched == held && strcmp(held, "held") == 0 && stint_is_interrupted();
    family->free(held);
    *value = refusals;
    return refusals->own_code;
}

TEST(in_fail_mode_every_allocation_returns_null_with_enomem_until_the_end)
{
    for (unsigned i = 0; family_at(i) != NULL; i++) {
        for (int code = 0; code < 2; code++) {
            struct refusals refusals = { .family = family_at(i), .own_code = code };
            stint_options options = STINT_OPTIONS_INIT;
            options.budget.allocation = LIMIT;
            options.on_interrupt = STINT_FAIL;
            stint_outcome outcome = run_task(try_everything, &refusals, &options);
            assert_limit_passed(outcome);
            assert_int_equal(refusals.calls, 11);
            assert_int_equal(refusals.refused, refusals.calls);
            assert_true(refusals.left_alone);
            assert_int_equal(outcome.usage.allocated, 112);
        }
    }
}

static int cleanups;

static void count_cleanup(void *unused)
{
    (void)unused;
    cleanups++;
}

static int allocate_in_a_cleanup_region(void *unused, void **value)
{
    (void)unused;
    (void)value;
    pthread_cleanup_push(count_cleanup, NULL);
    for (int i = 0; i < 1000; i++)
        keep(stint_malloc(100));
    pthread_cleanup_pop(1);
    for (;;)
        keep(stint_malloc(100));
    return 0;
}

static void *interrupt_and_exit(void *outcome)
{
    stint_options options = { .size = sizeof(stint_options), .budget = { .allocation = 10000 } };
    stint_run(allocate_in_a_cleanup_region, NULL, &options, outcome);
    pthread_exit(NULL); /* libc runs handlers that it believes are still pushed */
}

TEST(a_cleanup_region_is_left_before_the_interrupt)
{
    if (!stint_malloc_is_overridden())
        skip_because("malloc is not stint's");
    stint_outcome outcome;
    pthread_t thread;
    cleanups = 0;
    assert_int_equal(pthread_create(&thread, NULL, interrupt_and_exit, &outcome), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_limit_passed(outcome);
    assert_int_equal(cleanups, 1);
}

/* --- A task that has finished ------------------------------------------------------------------------------------- */

struct finishing {
    stint_token *token;
    bool finished;
    bool went_on;
};

static void go_on(struct finishing *finishing)
{
    stint_free(keep(stint_malloc(MIB)));
    stint_checkpoint();
    finishing->went_on = true;
}

static int finish_and_go_on(void *arg, void **value)
{
    struct finishing *finishing = arg;
    (void)value;
    finishing->finished = stint_finish();
    stint_token_set(finishing->token);
    go_on(finishing);
    return 0;
}

static void make_finishing(struct finishing *finishing, stint_options *options)
{
    *finishing = (struct finishing){ .token = NULL };
    *options = (stint_options)STINT_OPTIONS_INIT;
    assert_int_equal(stint_token_create(NULL, &finishing->token), 0);
    options->token = finishing->token;
}

TEST(a_task_that_has_finished_is_not_interrupted_any_more)
{
    struct finishing finishing;
    stint_options options;
    make_finishing(&finishing, &options);
    assert_ok(run_task(finish_and_go_on, &finishing, &options));
    assert_true(finishing.finished && finishing.went_on);
    stint_token_release(finishing.token);
}

TEST(a_task_that_has_finished_is_not_stopped_by_a_limit_of_bytes_either)
{
    static const stint_budget budgets[] = { { .allocation = LIMIT }, { .memory = LIMIT } };
    for (size_t i = 0; i < sizeof budgets / sizeof *budgets; i++) {
        struct finishing finishing;
        stint_options options;
        make_finishing(&finishing, &options);
        options.budget = budgets[i];
        assert_ok(run_task(finish_and_go_on, &finishing, &options));
        assert_true(finishing.finished && finishing.went_on);
        stint_token_release(finishing.token);
    }
}

static int finish_inside(void *arg, void **value)
{
    stint_outcome inner;
    (void)value;
    int error = stint_run(finish_and_go_on, arg, NULL, &inner);
    return error != 0 || inner.status != STINT_OK ? EPROTO : 0;
}

TEST(nor_is_one_inside_another_that_is)
{
    struct finishing finishing;
    stint_options options;
    make_finishing(&finishing, &options);
    assert_cancelled(run_task(finish_inside, &finishing, &options), STINT_REASON_TOKEN);
    assert_true(finishing.finished && finishing.went_on);
    stint_token_release(finishing.token);
}

static int finish_too_late(void *arg, void **value)
{
    struct finishing *finishing = arg;
    (void)value;
    stint_mask();
    stint_token_set(finishing->token);
    finishing->finished = stint_finish();
    stint_unmask();
    go_on(finishing);
    return 0;
}

TEST(a_task_that_is_interrupted_cannot_finish)
{
    struct finishing finishing;
    stint_options options;
    make_finishing(&finishing, &options);
    assert_cancelled(run_task(finish_too_late, &finishing, &options), STINT_REASON_TOKEN);
    assert_false(finishing.finished || finishing.went_on);
    stint_token_release(finishing.token);
}

TEST_MAIN()
