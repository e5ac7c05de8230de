/* SPDX-License-Identifier: MIT
 *
 * A child process of a pool's task has the blocked signals of the pool's maker, and no others; and the signals that
 * workers take. */
#include "support.h"

#include <signal.h>
#include <spawn.h>

extern char **environ;

/* --- Signals to a process that has no thread left but a pool's. First, while this process has no other thread. --- */

static void unblock_the_end(void *ready, unsigned index)
{
    sigset_t set;
    (void)index;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    (void)!write(*(const int *)ready, "", 1);
}

_Noreturn static void live_on_in_a_pool(int ready)
{
    stint_pool *pool;
    stint_pool_options options = STINT_POOL_OPTIONS_INIT;
    sigset_t all;
    options.workers = 1;
    options.worker_begins = unblock_the_end;
    options.worker_data = &ready;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    if (stint_pool_create(&options, &pool) != 0)
        _exit(1);
    for (;;)
        pause();
}

TEST(a_worker_that_unblocks_a_signal_lets_it_end_the_process)
{
    int ready[2];
    char byte;
    int status;
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0)
        live_on_in_a_pool(ready[1]);
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(kill(child, SIGTERM), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGTERM);
    close(ready[0]);
}

/* --- What a task starts. --- */

typedef pid_t start_fn(void);

static char program[] = "sleep";
static char seconds[] = "20";
static char *const arguments[] = { program, seconds, NULL };

static pid_t spawn_by_name(void)
{
    pid_t child;
    return posix_spawnp(&child, program, NULL, NULL, arguments, environ) == 0 ? child : -1;
}

static pid_t spawn_with_attributes(void)
{
    pid_t child;
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    int error = posix_spawn(&child, "/bin/sleep", NULL, &attributes, arguments, environ);
    posix_spawnattr_destroy(&attributes);
    return error == 0 ? child : -1;
}

/* As careful programs do. */
static pid_t spawn_with_own_mask(void)
{
    pid_t child;
    posix_spawnattr_t attributes;
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setsigmask(&attributes, &before);
    int error = posix_spawnp(&child, program, NULL, &attributes, arguments, environ);
    posix_spawnattr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error == 0 ? child : -1;
}

static pid_t fork_and_execute(void)
{
    pid_t child = fork();
    if (child == 0) {
        execvp(program, arguments);
        _exit(1);
    }
    return child;
}

static pid_t fork_and_wait(void)
{
    pid_t child = fork();
    if (child == 0) {
        sleep(20);
        _exit(1);
    }
    return child;
}

static start_fn *const starts[] = { spawn_by_name, spawn_with_attributes, spawn_with_own_mask, fork_and_execute,
                                    fork_and_wait };

static int start_child(void *child, void **value)
{
    (void)value;
    pid_t *place = child;
    start_fn *const *start = *(start_fn *const **)child;
    *place = (*start)();
    return *place > 0 ? 0 : errno;
}

union work {
    start_fn *const *start;
    pid_t child;
};

static pid_t start_in_pool(start_fn *const *start, bool preemptible)
{
    stint_pool_options pool_options = STINT_POOL_OPTIONS_INIT;
    stint_options options = { .size = sizeof(stint_options), .preemptible = preemptible };
    stint_pool *pool;
    stint_future *future;
    stint_outcome outcome;
    union work work = { .start = start };
    pool_options.workers = 1;
    assert_int_equal(stint_pool_create(&pool_options, &pool), 0);
    assert_int_equal(stint_submit(pool, start_child, &work, &options, &future), 0);
    assert_int_equal(stint_future_wait(future, &outcome), 0);
    assert_ok(outcome);
    stint_future_release(future);
    stint_pool_destroy(pool);
    return work.child;
}

/* By this signal, at once. */
static bool is_ended_by(pid_t child, int number)
{
    int status = 0;
    kill(child, number);
    for (int i = 0; i < 300; i++) {
        if (waitpid(child, &status, WNOHANG) == child)
            return WIFSIGNALED(status) && WTERMSIG(status) == number;
        usleep(10000);
    }
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return false;
}

TEST(a_child_of_a_task_can_be_ended)
{
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        assert_true(is_ended_by(start_in_pool(&starts[i], false), SIGTERM));
        assert_true(is_ended_by(start_in_pool(&starts[i], true), SIGUSR1));
    }
}

static sigset_t blocked_in(pid_t child)
{
    char path[64];
    char line[256];
    unsigned long long mask = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)child);
    FILE *file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "SigBlk: %llx", &mask) == 1)
            break;
    }
    if (file != NULL)
        fclose(file);
    sigset_t set;
    sigemptyset(&set);
    for (int number = 1; number <= 64; number++) {
        if ((mask >> (number - 1) & 1) != 0)
            sigaddset(&set, number);
    }
    return set;
}

TEST(it_has_blocked_what_the_maker_of_the_pool_had)
{
    sigset_t wanted;
    sigset_t before;
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &wanted, &before);
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        pid_t child = start_in_pool(&starts[i], false);
        sigset_t blocked = blocked_in(child);
        for (int n = 0; n < 2000 && sigismember(&blocked, SIGUSR1); n++) { /* it may not have come so far */
            usleep(1000);
            blocked = blocked_in(child);
        }
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        assert_int_equal(sigismember(&blocked, SIGUSR2), 1);
        assert_int_equal(sigismember(&blocked, SIGUSR1), 0);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static pid_t spawn_with_changed_mask(void)
{
    sigset_t set;
    sigset_t before;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_SETMASK, &set, &before);
    pid_t child = spawn_by_name();
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return child;
}

TEST(what_the_task_itself_has_blocked_is)
{
    static start_fn *const start = spawn_with_changed_mask;
    pid_t child = start_in_pool(&start, false);
    sigset_t blocked = blocked_in(child);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    assert_int_equal(sigismember(&blocked, SIGUSR1), 1);
    assert_int_equal(sigismember(&blocked, SIGUSR2), 0);
}

TEST_MAIN()
