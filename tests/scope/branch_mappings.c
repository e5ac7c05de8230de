/* SPDX-License-Identifier: MIT
 *
 * Mappings that branches of a task make on other threads are the task's: charged to its limits, unmapped at its
 * rollback, there after its commit. */
#include <signal.h>
#include <sys/mman.h>

#include "patience.h"
#include "thieves.h"

#define THIEVES 2

static int start(void **state)
{
    (void)state;
    start_thieves(THIEVES);
    return 0;
}

struct branch {
    size_t size;
    char *made;
    int error; /* of mmap */
};

struct work {
    struct branch own;
    struct branch stolen[2];
    size_t left;
    bool gives_back;
    int error; /* that it ends with */
};

static int map_pages(void *arg, void **value)
{
    struct branch *branch = arg;
    (void)value;
    branch->made = mmap(NULL, branch->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    branch->error = branch->made == MAP_FAILED ? errno : 0;
    return branch->error;
}

static int work_in_branches(void *arg, void **value)
{
    struct work *work = arg;
    struct fork forks[2];
    int error = map_pages(&work->own, value);
    for (int i = 0; i < 2; i++) {
        fork_start(&forks[i], map_pages, &work->stolen[i]);
        await_theft(&forks[i]);
    }
    for (int i = 1; i >= 0; i--) {
        int of_branch = fork_join(&forks[i], NULL);
        error = error != 0 ? error : of_branch;
    }
    if (work->gives_back && error == 0)
        munmap(work->stolen[0].made, work->stolen[0].size);
    if (work->gives_back && error == 0)
        error = map_pages(&work->own, value);
    return error != 0 ? error : work->error;
}

static stint_outcome run_work(struct work *work, size_t size, size_t limit)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.memory = limit;
    options.on_interrupt = STINT_FAIL;
    work->own.size = work->stolen[0].size = work->stolen[1].size = size;
    return run_task(work_in_branches, work, &options);
}

static bool is_there(const struct branch *branch)
{
    return msync(branch->made, branch->size, MS_ASYNC) == 0;
}

static void assert_all(const struct work *work, bool there)
{
    assert_int_equal(is_there(&work->own) + is_there(&work->stolen[0]) + is_there(&work->stolen[1]), there ? 3 : 0);
}

static void end(struct branch *branch)
{
    munmap(branch->made, branch->size);
}

/* The threads that ran branches undo their own when they learn of the end. */
TEST_WITH(an_error_of_the_task_takes_all_back, start, NULL)
{
    struct work work = { .error = EIO };
    stint_outcome outcome = run_work(&work, MIB, 0);
    assert_outcome(outcome, STINT_ERROR, STINT_REASON_FAILED, EIO);
    assert_int_equal(outcome.usage.allocated / MIB, 3);
    assert_int_equal(no_thieves(NULL), 0);
    assert_all(&work, false);
}

TEST_WITH(ok_leaves_all, start, no_thieves)
{
    struct work work = { .error = 0 };
    assert_ok(run_work(&work, MIB, 0));
    assert_all(&work, true);
    end(&work.own);
    end(&work.stolen[0]);
    end(&work.stolen[1]);
}

TEST_WITH(they_have_one_memory_limit, start, no_thieves)
{
    struct work work = { .error = 0 };
    assert_ok(run_work(&work, 4 * MIB, 12 * MIB + 256 * KIB));
    end(&work.own);
    end(&work.stolen[0]);
    end(&work.stolen[1]);
    stint_outcome outcome = run_work(&work, 4 * MIB, 11 * MIB);
    assert_outcome(outcome, STINT_ERROR, STINT_REASON_MEMORY_LIMIT, ENOMEM);
}

/* A branch's mapping, seen by the task's own thread. */
TEST_WITH(what_another_thread_of_the_task_unmaps_does_not_count, start, no_thieves)
{
    struct work work = { .gives_back = true };
    atomic_store(&is_patient, true);
    stint_outcome outcome = run_work(&work, 4 * MIB, 13 * MIB);
    assert_ok(outcome);
    end(&work.own);
    end(&work.stolen[1]);
}

/* --- What a branch does to its thread, and to pages
 * ---------------------------------------------------------------- */

static int one_thief(void **state)
{
    (void)state;
    start_thieves(1);
    return 0;
}

static int block_a_signal(void *arg, void **value)
{
    sigset_t signals;
    (void)arg;
    (void)value;
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR2);
    return pthread_sigmask(SIG_BLOCK, &signals, NULL);
}

static int look_at_the_mask(void *blocked, void **value)
{
    sigset_t signals;
    (void)value;
    int error = pthread_sigmask(SIG_BLOCK, NULL, &signals);
    *(bool *)blocked = sigismember(&signals, SIGUSR2) == 1;
    return error;
}

static int have_stolen(stint_fn *fn, void *arg)
{
    struct fork fork;
    fork_start(&fork, fn, arg);
    await_theft(&fork);
    return fork_join(&fork, NULL);
}

static int block_then_look(void *blocked, void **value)
{
    (void)value;
    int error = have_stolen(block_a_signal, NULL);
    return error != 0 ? error : have_stolen(look_at_the_mask, blocked);
}

TEST_WITH(a_signal_that_a_branch_has_blocked_is_let_through_at_its_end, one_thief, no_thieves)
{
    bool blocked = true;
    assert_ok(run_task(block_then_look, &blocked, NULL));
    assert_false(blocked);
}

#define PROTECTED_SIZE ((size_t)64 << 10)

static int protect_pages(void *opposite, void **value)
{
    (void)value;
    char *pages = stint_aligned_alloc(4096, PROTECTED_SIZE);
    *(uintptr_t *)opposite = ~(uintptr_t)pages; /* no root */
    return pages != NULL ? mprotect(pages, PROTECTED_SIZE, PROT_READ) : ENOMEM;
}

/* False: they are not mapped any more, or can be written to. */
static bool is_protected(uintptr_t address)
{
    char line[512];
    bool is = false;
    FILE *maps = fopen("/proc/self/maps", "r");
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps) != NULL) {
        uintptr_t begin, end;
        char rights[8];
        if (sscanf(line, "%lx-%lx %7s", &begin, &end, rights) == 3 && begin <= address && address < end)
            is = rights[1] != 'w';
    }
    fclose(maps);
    return is;
}

static int protect_and_fail(void *opposite, void **value)
{
    (void)value;
    int error = have_stolen(protect_pages, opposite);
    if (error == 0 && !is_protected(~*(uintptr_t *)opposite))
        return EACCES; /* its thread has gone on, but the task has not ended */
    return error != 0 ? error : EIO;
}

TEST_WITH(pages_that_a_branch_has_protected_are_not_when_its_task_is_rolled_back, one_thief, NULL)
{
    uintptr_t opposite = 0;
    assert_outcome(run_task(protect_and_fail, &opposite, NULL), STINT_ERROR, STINT_REASON_FAILED, EIO);
    assert_int_equal(no_thieves(NULL), 0);
    assert_false(is_protected(~opposite));
}

TEST_MAIN()
