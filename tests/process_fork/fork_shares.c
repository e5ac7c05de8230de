/* SPDX-License-Identifier: MIT
 *
 * The child of a fork(2) on a thread that keeps something of a task, which is about to be told what becomes of that. */
#include "support.h"

#include "alloc/charge/shared_budget.h"
#include "alloc/interrupt/boundary.h"
#include "alloc/scope/share.h"
#include "alloc/scope/subtask.h"

#define PATIENCE 20 /* seconds until a child that hangs is ended */
#define BLOCKS 1000
#define SIZE ((size_t)1000)

static int decision; /* a state of a share (shared_budget.h) */
static void *blocks[BLOCKS];

static int make_blocks(void *unused, void **value)
{
    (void)value;
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = stint_malloc(SIZE);
        if (blocks[i] == NULL)
            return ENOMEM;
        memset(blocks[i], i, SIZE);
    }
    return unused != NULL;
}

static bool blocks_are_whole(void)
{
    for (int i = 0; i < BLOCKS; i++) {
        const unsigned char *block = blocks[i];
        if (block[0] != (unsigned char)i || block[SIZE - 1] != (unsigned char)i)
            return false;
    }
    return true;
}

static int end_thread_in_child(struct sti_thread *thread)
{
    alarm(PATIENCE);
    sti_share_end_thread(thread);
    return decision == STI_SHARE_ROLLED_BACK || blocks_are_whole() ? 0 : 1;
}

/* The task's thread does that to the share before it tells. */
static void *help_and_fork_when_it_is_decided(void *group)
{
    void *value;
    bool is_interrupted = false;
    if (sti_subtask_run(group, make_blocks, NULL, &value, &is_interrupted) != 0 || is_interrupted)
        return NULL;
    struct sti_thread *thread = sti_thread_own();
    struct sti_share *share = thread->shares;
    atomic_store(&share->state, decision);
    pid_t child = fork();
    if (child == 0)
        _exit(end_thread_in_child(thread));
    atomic_store(&share->state, STI_SHARE_OPEN);
    return (void *)(intptr_t)child;
}

static int have_one_help(void *unused, void **child)
{
    struct sti_group *group;
    pthread_t helper;
    int error = sti_group_open(&group);
    (void)unused;
    if (error == 0)
        error = pthread_create(&helper, NULL, help_and_fork_when_it_is_decided, group);
    return error != 0 ? error : pthread_join(helper, child);
}

TEST(a_thread_that_was_about_to_be_told_ends_in_the_child)
{
    static const int decisions[] = { STI_SHARE_COMMITTED, STI_SHARE_ROLLED_BACK };
    for (int i = 0; i < 2; i++) {
        decision = decisions[i];
        stint_outcome outcome = run_task(have_one_help, NULL, NULL);
        assert_ok(outcome);
        assert_ends_well((pid_t)(intptr_t)outcome.value);
    }
}

TEST_MAIN()
