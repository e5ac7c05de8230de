/* SPDX-License-Identifier: MIT
 *
 * Branches: subtasks of one task on several threads share its outcome and its memory. */
#include "quarantine.h"
#include "repeats.h"
#include "thieves.h"

#define CHUNK ((size_t)1000)
#define CHUNKS 100

struct list {
    struct list *next;
    unsigned char bytes[CHUNK];
};

static struct list *make_list(unsigned length, int mark)
{
    struct list *list = NULL;
    for (unsigned i = 0; i < length; i++) {
        struct list *item = stint_malloc(sizeof *item);
        if (item == NULL)
            return NULL;
        item->next = list;
        memset(item->bytes, mark, sizeof item->bytes);
        list = item;
    }
    return list;
}

/* The number of intact items. */
static unsigned take_apart(struct list *list, int mark)
{
    unsigned good = 0;
    while (list != NULL) {
        struct list *next = list->next;
        bool whole = true;
        for (size_t i = 0; i < CHUNK; i++)
            whole = whole && list->bytes[i] == mark;
        good += whole;
        stint_free(list);
        list = next;
    }
    return good;
}

static int make_chunks(void *arg, void **value)
{
    *value = make_list(CHUNKS, *(int *)arg);
    return 0;
}

struct stolen_lists {
    struct list *lists[2];
    int code;
    bool stolen;
};

static int steal_one_list(void *arg, void **value)
{
    struct stolen_lists *result = arg;
    int marks[] = { 1, 2 };
    struct fork fork;
    (void)value;
    fork_start(&fork, make_chunks, &marks[1]);
    result->stolen = await_theft(&fork);
    result->lists[0] = make_list(CHUNKS, marks[0]);
    void *stolen = NULL;
    int error = fork_join(&fork, &stolen);
    result->lists[1] = stolen;
    return error != 0 ? error : result->code;
}

TEST_WITH_THIEVES(what_a_stolen_subtask_leaves_is_the_tasks)
{
    for (int round = 0; round < 50; round++) {
        struct stolen_lists result = { .code = 0 };
        stint_outcome outcome = run_task(steal_one_list, &result, NULL);
        assert_ok(outcome);
        assert_true(result.stolen);
        assert_int_equal(outcome.usage.allocated, 2 * CHUNKS * ((sizeof(struct list) + 15) / 16 * 16));
        assert_true(outcome.usage.peak >= 2 * CHUNKS * CHUNK);
        assert_int_equal(take_apart(result.lists[0], 1), CHUNKS);
        assert_int_equal(take_apart(result.lists[1], 2), CHUNKS);
    }
}

struct thread_value {
    struct list *list;
    unsigned good;
};

static void *take_apart_elsewhere(void *arg)
{
    struct thread_value *value = arg;
    value->good = take_apart(value->list, 2);
    return NULL;
}

TEST(a_stolen_subtasks_blocks_outlive_its_thread_and_are_freed_on_another)
{
    struct stolen_lists result = { .code = 0 };
    start_thieves(1);
    assert_ok(run_task(steal_one_list, &result, NULL));
    end_thieves();
    struct thread_value value = { .list = result.lists[1] };
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, take_apart_elsewhere, &value), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(value.good, CHUNKS);
    assert_int_equal(take_apart(result.lists[0], 1), CHUNKS);
}

#define CHECKPOINTS 1000

static int look_often(void *arg, void **value)
{
    (void)arg;
    (void)value;
    for (int i = 0; i < CHECKPOINTS; i++)
        stint_checkpoint();
    return 0;
}

static int have_one_look_often(void *arg, void **value)
{
    struct fork fork;
    fork_start(&fork, look_often, arg);
    await_theft(&fork);
    return fork_join(&fork, value);
}

TEST_WITH_THIEVES(sample_points_of_stolen_subtasks_are_the_tasks)
{
    stint_outcome outcome = run_task(have_one_look_often, NULL, NULL);
    assert_ok(outcome);
    assert_true(outcome.usage.samples >= CHECKPOINTS);
}

#define LEFT_BYTES MIB
#define ROLLBACKS (40 + repeats(160))

static int leave_a_lot(void *arg, void **value)
{
    (void)arg;
    (void)value;
    for (size_t left = 0; left < LEFT_BYTES; left += 4096) {
        char *block = stint_malloc(4096);
        if (block != NULL)
            memset(block, 1, 4096);
    }
    return 0;
}

static int leave_a_lot_on_two_threads(void *arg, void **value)
{
    struct fork fork;
    fork_start(&fork, leave_a_lot, NULL);
    await_theft(&fork);
    leave_a_lot(NULL, value);
    int error = fork_join(&fork, NULL);
    return error != 0 ? error : *(int *)arg;
}

TEST_WITH_THIEVES(a_rollback_takes_back_what_branches_left_on_every_thread)
{
    int code = EIO;
    size_t before = 0;
    for (unsigned round = 0, count = ROLLBACKS; round < count; round++) {
        stint_outcome outcome = run_task(leave_a_lot_on_two_threads, &code, NULL);
        assert_outcome(outcome, STINT_ERROR, STINT_REASON_FAILED, EIO);
        await_collection();
        if (round == count / 10)
            before = resident();
    }
    assert_in_range(resident(), 0, before + ROLLBACKS / 4 * LEFT_BYTES + quarantine_room(2 * LEFT_BYTES));
}

/* A thread that runs one branch and then ends, while the task goes on. */
static void *steal_once(void *arg)
{
    run_stolen(arg);
    return NULL;
}

struct lent {
    struct fork fork;
    pthread_t thread;
};

static int lend_to_a_thread_that_ends(void *arg, void **value)
{
    static int mark = 2;
    struct lent *lent = arg;
    (void)value;
    lent->fork = (struct fork){ .fn = make_chunks, .arg = &mark };
    if (sti_group_open(&lent->fork.family) != 0)
        return EPROTO;
    stint_mask(); /* libc allocates for the thread */
    int error = pthread_create(&lent->thread, NULL, steal_once, &lent->fork);
    if (error == 0)
        await_stolen(&lent->fork, false);
    stint_unmask();
    return error;
}

TEST_WITH_THIEVES(a_thread_that_ends_leaves_valid_blocks)
{
    struct lent lent;
    assert_ok(run_task(lend_to_a_thread_that_ends, &lent, NULL));
    assert_int_equal(pthread_join(lent.thread, NULL), 0);
    assert_int_equal(take_apart(lent.fork.value, 2), CHUNKS);
}

static int fail_with(void *arg, void **value)
{
    *value = arg;
    return *(int *)arg;
}

static int survive_a_failed_subtask(void *arg, void **value)
{
    struct fork fork;
    int code = EDOM;
    (void)arg;
    (void)value;
    fork_start(&fork, fail_with, &code);
    await_theft(&fork);
    void *given = NULL;
    return fork_join(&fork, &given) == EDOM && given == &code && !fork.interrupted ? 0 : 1;
}

TEST_WITH_THIEVES(a_subtasks_error_is_for_its_joiner_alone)
{
    assert_ok(run_task(survive_a_failed_subtask, NULL, NULL));
}

/* A subtask that forks again, so that the thief's forks are stolen in turn. */
struct tree {
    unsigned depth;
    atomic_uint *leaves;
};

static int grow(void *arg, void **value)
{
    const struct tree *tree = arg;
    (void)value;
    if (tree->depth == 0) {
        atomic_fetch_add(tree->leaves, 1);
        return stint_malloc(100) != NULL ? 0 : ENOMEM;
    }
    struct tree half = { .depth = tree->depth - 1, .leaves = tree->leaves };
    struct fork fork;
    fork_start(&fork, grow, &half);
    if (tree->depth > 5)
        await_theft(&fork);
    int error = grow(&half, NULL);
    int stolen_error = fork_join(&fork, NULL);
    return error != 0 ? error : stolen_error;
}

TEST_WITH_THIEVES(subtasks_of_subtasks_are_shared_too)
{
    for (int round = 0; round < 100; round++) {
        unsigned stolen = atomic_load(&forks_stolen);
        atomic_uint leaves = 0;
        struct tree tree = { .depth = 7, .leaves = &leaves };
        stint_outcome outcome = run_task(grow, &tree, NULL);
        assert_ok(outcome);
        assert_int_equal(atomic_load(&leaves), 128);
        assert_int_equal(outcome.usage.allocated, 128 * 112);
        assert_true(atomic_load(&forks_stolen) >= stolen + 3);
    }
}

static int open_where_it_cannot_be(void *arg, void **value)
{
    (void)arg;
    (void)value;
    struct sti_group *family;
    return sti_group_open(&family) == ENOTSUP ? 0 : 1;
}

static int open_in_all_places(void *arg, void **value)
{
    (void)arg;
    (void)value;
    struct sti_group *family = NULL;
    struct sti_group *again = NULL;
    stint_outcome inner;
    stint_mask();
    int masked = sti_group_open(&family);
    stint_unmask();
    bool right = masked == EBUSY && sti_group_open(&family) == 0 && sti_group_open(&again) == 0 && family == again;
    return right && stint_run(open_where_it_cannot_be, NULL, NULL, &inner) == 0 && inner.status == STINT_OK ? 0 : 1;
}

TEST_WITH_THIEVES(only_a_tasks_own_scope_shares_and_only_unmasked)
{
    struct sti_group *family;
    assert_int_equal(sti_group_open(&family), ENOTSUP);
    assert_ok(run_task(open_in_all_places, NULL, NULL));
}

static atomic_bool forgotten_runs;
static atomic_bool forgotten_was_released;

static void note_release(void *arg)
{
    (void)arg;
    atomic_store(&forgotten_was_released, true);
}

static int run_until_interrupted(void *arg, void **value)
{
    (void)arg;
    (void)value;
    STINT_GUARD(note_release, NULL);
    atomic_store(&forgotten_runs, true);
    while (!stint_is_interrupted())
        stint_checkpoint();
    return ECANCELED;
}

static struct fork forgotten[2];

static int forget_to_join(void *arg, void **value)
{
    (void)value;
    fork_start(&forgotten[0], run_until_interrupted, NULL);
    while (!atomic_load(&forgotten_runs))
        sched_yield();
    if (arg != NULL) { /* another, which stays: it is not on the board */
        forgotten[1] = (struct fork){ .fn = run_until_interrupted };
        own_forks->entries[own_forks->count++] = &forgotten[1];
    }
    return 0;
}

TEST_WITH_THIEVES(a_task_that_returns_with_forks_outstanding_fails_and_they_are_stopped)
{
    for (int more = 0; more < 2; more++) {
        atomic_store(&forgotten_runs, false);
        atomic_store(&forgotten_was_released, false);
        stint_outcome outcome = run_task(forget_to_join, more ? &more : NULL, NULL);
        assert_outcome(outcome, STINT_ERROR, STINT_REASON_FAILED, EINVAL);
        assert_true(atomic_load(&forgotten_was_released));
        assert_true(forgotten[0].interrupted);
        assert_true(!more || forgotten[1].dropped);
        assert_int_equal(main_stack.count, 0);
    }
}

static int lend_a_forgetful_one(void *arg, void **value)
{
    struct fork fork;
    (void)value;
    fork_start(&fork, forget_to_join, arg);
    await_theft(&fork);
    fork_join(&fork, NULL);
    return 0;
}

TEST_WITH_THIEVES(a_branch_that_returns_with_forks_outstanding_fails_its_task)
{
    atomic_store(&forgotten_runs, false);
    atomic_store(&forgotten_was_released, false);
    stint_outcome outcome = run_task(lend_a_forgetful_one, NULL, NULL);
    assert_outcome(outcome, STINT_ERROR, STINT_REASON_FAILED, EINVAL);
    assert_true(atomic_load(&forgotten_was_released));
}

static pthread_key_t key;

static int set_specific(void *arg, void **value)
{
    *value = pthread_getspecific(key);
    return pthread_setspecific(key, arg);
}

static int set_specific_in_two_branches(void *arg, void **value)
{
    (void)value;
    for (int i = 0; i < 2; i++) {
        struct fork fork;
        void *found = arg;
        fork_start(&fork, set_specific, arg);
        if (!await_theft(&fork) || fork_join(&fork, &found) != 0 || found != NULL)
            return 1;
    }
    return 0;
}

static int start_one(void **state)
{
    (void)state;
    start_thieves(1);
    return 0;
}

TEST_WITH(a_thread_specific_value_set_in_a_branch_is_put_back_at_its_end, start_one, no_thieves)
{
    if (!stint_malloc_is_overridden())
        return;
    assert_int_equal(pthread_key_create(&key, NULL), 0);
    assert_ok(run_task(set_specific_in_two_branches, &key, NULL));
    assert_int_equal(pthread_key_delete(key), 0);
}

TEST_MAIN()
