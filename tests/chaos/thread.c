/* SPDX-License-Identifier: MIT
 *
 * State of the thread: its signal mask, locale, rounding mode and cancel state, and a value of its own. The work
 * changes all of them, and restores them at its end. So the next task finds them unchanged; and children of the thread
 * have the signal mask of the pool's maker. */
#include "library.h"

#include <errno.h>
#include <fenv.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wchar.h>

#define RUNS_A_CHILD 100

static pthread_key_t current; /* what the thread works on */
static locale_t other;

static void ready(void)
{
    pthread_key_create(&current, NULL);
    other = newlocale(LC_ALL_MASK, "C.UTF-8", NULL);
}

/* Blocked or not: all of a thread's are the same. */
static bool are_signals_alike(void)
{
    sigset_t mask;
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    return sigismember(&mask, SIGUSR1) == sigismember(&mask, SIGUSR2);
}

static bool is_as_before(void)
{
    int cancel;
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &cancel);
    return cancel == PTHREAD_CANCEL_ENABLE && are_signals_alike() && uselocale(NULL) == LC_GLOBAL_LOCALE &&
           fegetround() == FE_TONEAREST && pthread_getspecific(current) == NULL;
}

struct state {
    sigset_t mask;
    locale_t locale;
    int cancel;
};

static void change(struct state *before)
{
    sigset_t user;
    sigemptyset(&user);
    sigaddset(&user, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, NULL, &before->mask);
    pthread_sigmask(sigismember(&before->mask, SIGUSR1) ? SIG_UNBLOCK : SIG_BLOCK, &user, NULL);
    before->locale = uselocale(other);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before->cancel);
    fesetround(FE_UPWARD);
}

static void change_back(const struct state *before)
{
    fesetround(FE_TONEAREST);
    pthread_setcancelstate(before->cancel, NULL);
    uselocale(before->locale);
    sigset_t user;
    sigemptyset(&user);
    sigaddset(&user, SIGUSR1);
    pthread_sigmask(sigismember(&before->mask, SIGUSR1) ? SIG_BLOCK : SIG_UNBLOCK, &user, NULL);
}

static int print_numbers(unsigned variant, uint64_t *sum)
{
    for (unsigned i = 1; i < 20; i++) {
        char *text;
        volatile double divisor = 3 * i;
        if (asprintf(&text, "%.9f %lc %*u", variant / divisor, (wint_t)0xe4, 300, i) < 0)
            return -1;
        chaos_add_text(sum, text);
        free(text);
    }
    return 0;
}

static int work_on(char *block, unsigned variant, uint64_t *sum)
{
    int error = pthread_setspecific(current, block);
    if (error == 0)
        error = print_numbers(variant, sum);
    if (error == 0)
        chaos_add_text(sum, pthread_getspecific(current));
    pthread_setspecific(current, NULL);
    return error;
}

static int work_in_another_state(unsigned variant, uint64_t *sum)
{
    char *block = strdup("what the thread works on");
    if (block == NULL)
        return -1;
    struct state before;
    change(&before);
    int error = work_on(block, variant, sum);
    change_back(&before);
    free(block);
    return error;
}

/* A child that no guard waits for must have been waited for: so interrupts wait. */
static bool is_child_interruptible(void)
{
    static char shell[] = "sh";
    static char option[] = "-c";
    static char line[] = "kill -USR1 $$; exit 0"; /* goes on where it is blocked */
    static char *const arguments[] = { shell, option, line, NULL };
    pid_t child;
    int status = 0;
    stint_mask();
    int error = posix_spawn(&child, "/bin/sh", NULL, NULL, arguments, environ);
    if (error == 0) {
        while (waitpid(child, &status, 0) < 0 && errno == EINTR)
            ;
    }
    stint_unmask();
    return error != 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR1);
}

static int run(unsigned variant, uint64_t *sum)
{
    static atomic_uint runs;
    chaos_add_number(sum, is_as_before());
    int error = work_in_another_state(variant, sum);
    unsigned number = atomic_fetch_add_explicit(&runs, 1, memory_order_relaxed);
    chaos_add_number(sum, number % RUNS_A_CHILD != 0 || is_child_interruptible());
    return error;
}

const struct chaos_library chaos_thread = {
    .name = "thread",
    .modes = CHAOS_ANY_MODE,
    .preemptible = true,
    .ready = ready,
    .run = run,
};
