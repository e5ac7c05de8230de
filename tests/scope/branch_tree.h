/* SPDX-License-Identifier: MIT
 *
 * Random trees of branches, which end in every way that a task can end; afterwards the ledger is balanced, every guard
 * has run once, and no thread keeps anything. */
#ifndef STINT_TESTS_BRANCH_TREE_H
#define STINT_TESTS_BRANCH_TREE_H

#include "thieves.h"

#include <stint/account.h>

#define TREE_THIEVES 3

struct tree_run {
    stint_token *token;
    atomic_int nodes_left;    /* before the tree stops growing */
    atomic_int until_set;     /* nodes; when it reaches 0 the token is set */
    atomic_int until_failure; /* and here a node makes the task fail */
    atomic_long guards;       /* pushed and not released */
    _Atomic(void *) left;     /* blocks that the tree leaves, each beginning with the next one's address */
    atomic_bool failed;
};

struct tree_node {
    struct tree_run *run;
    uint64_t seed;
};

static int grow_tree(void *arg, void **value);

static void release_one(void *arg)
{
    atomic_fetch_sub((atomic_long *)arg, 1);
}

static int allocate_inside(void *arg, void **value)
{
    uint64_t random = *(uint64_t *)arg;
    (void)value;
    for (unsigned i = 0; i < 20; i++)
        keep(stint_malloc(random_size(&random, 10)));
    return random_below(&random, 2) == 0 ? 0 : EIO;
}

static void allocate_some(uint64_t *random, void *blocks[static 8])
{
    for (unsigned count = (unsigned)random_below(random, 60); count > 0; count--) {
        void **slot = &blocks[random_below(random, 8)];
        stint_free(*slot);
        *slot = stint_malloc(sizeof(void *) + random_size(random, random_below(random, 16) == 0 ? 18 : 10));
    }
}

static void leave(struct tree_run *run, void *block)
{
    void *next = atomic_load(&run->left);
    do
        *(void **)block = next;
    while (!atomic_compare_exchange_weak(&run->left, &next, block));
}

/* Frees committed blocks, because many trees would fill the memory. */
static void free_what_is_left(struct tree_run *run)
{
    void *block = atomic_load(&run->left);
    while (block != NULL) {
        void *next = *(void **)block;
        stint_free(block);
        block = next;
    }
}

static void live_a_little(struct tree_run *run, uint64_t *random)
{
    void *blocks[8] = { NULL };
    stint_guard guard;
    atomic_fetch_add(&run->guards, 1);
    stint_guard_push(&guard, release_one, &run->guards);
    allocate_some(random, blocks);
    if (random_below(random, 8) == 0) {
        stint_options options = STINT_OPTIONS_INIT;
        stint_outcome inner;
        options.budget.allocation = random_size(random, 14);
        stint_run(allocate_inside, random, &options, &inner);
    }
    if (random_below(random, 8) == 0) {
        stint_mask();
        allocate_some(random, blocks);
        stint_unmask();
    }
    for (unsigned i = 0; i < 8; i++) {
        if (random_below(random, 2) == 0)
            stint_free(blocks[i]);
        else if (blocks[i] != NULL)
            leave(run, blocks[i]);
    }
    stint_guard_pop(&guard, true);
}

static void fork_some(struct tree_run *run, uint64_t *random)
{
    struct tree_node nodes[3];
    struct fork forks[3];
    unsigned count = (unsigned)random_below(random, 4);
    for (unsigned i = 0; i < count; i++) {
        nodes[i] = (struct tree_node){ .run = run, .seed = random_next(random) };
        fork_start(&forks[i], grow_tree, &nodes[i]);
        /* All the thieves may be in trees of their own. */
        if (random_below(random, 4) == 0)
            sched_yield();
    }
    live_a_little(run, random);
    while (count > 0)
        fork_join(&forks[--count], NULL);
}

static int grow_tree(void *arg, void **value)
{
    const struct tree_node *node = arg;
    struct tree_run *run = node->run;
    uint64_t random = node->seed;
    (void)value;
    if (atomic_fetch_sub(&run->until_set, 1) == 1)
        stint_token_set(run->token);
    if (atomic_fetch_sub(&run->until_failure, 1) == 1)
        atomic_store(&run->failed, true);
    live_a_little(run, &random);
    if (atomic_fetch_sub(&run->nodes_left, 1) > 0)
        fork_some(run, &random);
    return 0;
}

static int grow_root(void *arg, void **value)
{
    const struct tree_node *node = arg;
    int error = grow_tree(arg, value);
    return atomic_load(&node->run->failed) ? EIO : error;
}

/* Any of the ways that a task can end, each about as often. */
static stint_options random_end(struct tree_run *run, uint64_t *random)
{
    stint_options options = STINT_OPTIONS_INIT;
    static const stint_on_interrupt modes[] = { STINT_JUMP, STINT_JUMP, STINT_UNWIND, STINT_FAIL };
    options.on_interrupt = modes[random_below(random, 4)];
    switch (random_below(random, 6)) {
    case 0:
        atomic_store(&run->until_set, 1 + (int)random_below(random, 30));
        break;
    case 1:
        atomic_store(&run->until_failure, 1 + (int)random_below(random, 30));
        break;
    case 2:
        options.budget.allocation = random_size(random, 19);
        break;
    case 3:
        options.budget.memory = random_size(random, 19);
        break;
    case 4:
        options.budget.wall_ns = 1 + random_below(random, 2000000);
        break;
    default:
        break;
    }
    return options;
}

struct tree_sums {
    uint64_t allocated;
    unsigned ends[STINT_REASON_OUTER + 1];
};

static stint_outcome run_tree(uint64_t *random, stint_account *account)
{
    struct tree_run run = { .token = NULL };
    struct tree_node root = { .run = &run, .seed = random_next(random) };
    stint_outcome outcome;
    atomic_store(&run.nodes_left, (int)random_below(random, 30));
    stint_options options = random_end(&run, random);
    assert_int_equal(stint_token_create(NULL, &run.token), 0);
    options.token = run.token;
    options.account = account;
    assert_int_equal(stint_run(grow_root, &root, &options, &outcome), 0);
    stint_token_release(run.token);
    if (outcome.status == STINT_OK)
        free_what_is_left(&run);
    assert_int_equal(atomic_load(&run.guards), 0);
    assert_int_equal(main_stack.count, 0);
    if (outcome.status == STINT_OK)
        assert_true(options.budget.allocation == 0 || outcome.usage.allocated <= options.budget.allocation);
    else if (outcome.reason == STINT_REASON_ALLOCATION_LIMIT)
        assert_true(outcome.usage.allocated + MIB > options.budget.allocation);
    return outcome;
}

static void test_random_trees(unsigned trees)
{
    stint_account *account;
    stint_account_usage usage = STINT_ACCOUNT_USAGE_INIT;
    struct tree_sums sums = { .allocated = 0 };
    uint64_t random = 2026;
    assert_int_equal(stint_account_create(NULL, NULL, &account), 0);
    start_thieves(TREE_THIEVES);
    for (unsigned i = 0; i < trees; i++) {
        stint_outcome outcome = run_tree(&random, account);
        sums.allocated += outcome.usage.allocated;
        sums.ends[outcome.reason]++;
        assert_int_equal(stint_account_read(account, &usage), 0);
        assert_int_equal(usage.allocated, sums.allocated);
        assert_int_equal(usage.memory, 0);
        assert_int_equal(usage.running, 0);
        if (i % 256 == 0)
            await_collection();
    }
    end_thieves();
    assert_false(sti_subtask_undecided());
    stint_account_release(account);
    /* Or the test tests little. */
    assert_true(atomic_load(&forks_stolen) > trees / 4);
    assert_true(sums.ends[STINT_REASON_NONE] > trees / 50);
    assert_true(sums.ends[STINT_REASON_FAILED] > trees / 50);
    assert_true(sums.ends[STINT_REASON_TOKEN] > trees / 50);
    assert_true(sums.ends[STINT_REASON_ALLOCATION_LIMIT] > trees / 50);
}

#endif
