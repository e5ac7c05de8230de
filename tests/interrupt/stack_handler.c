/* SPDX-License-Identifier: MIT
 *
 * A fault in the midst of the handler of another one: the process ends, and says where. */
#include "support.h"

#include <signal.h>

#include "alloc/base/scope_state.h"
#include "alloc/base/thread.h"

static volatile bool never;

static __attribute__((noinline)) int recurse(volatile int depth)
{
    return never ? depth : recurse(depth + 1) + depth;
}

static int ruin_scope(void *arg, void **value)
{
    (void)value;
    dup2(*(int *)arg, STDERR_FILENO);
    sti_thread_own()->scope = (struct sti_scope *)16;
    return recurse(0);
}

static _Noreturn void fault_in_handler(int *to)
{
    stint_outcome outcome;
    signal(SIGSEGV, SIG_DFL); /* cmocka's */
    stint_run(ruin_scope, to, NULL, &outcome);
    _exit(100);
}

TEST(a_fault_in_the_handler_ends_the_process_and_is_told)
{
    int said[2];
    int status;
    char text[1000] = "";
    assert_int_equal(pipe(said), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        fault_in_handler(&said[1]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGSEGV);
    close(said[1]);
    assert_true(read(said[0], text, sizeof text - 1) > 0);
    assert_ptr_equal(strstr(text, "stint: fault at "), text);
    assert_non_null(strstr(text, "in the handler of another fault\n"));
    assert_int_equal(strchr(text, '\n')[1], '\0');
    close(said[0]);
}

TEST_MAIN()
