/* SPDX-License-Identifier: MIT
 *
 * Shared by the tests of automatic masking. Each case runs in a process of its own (this program again, with the
 * case's name): once with all rules on, where it must end well, and once with one rule switched off, where it must do
 * the damage that the case names. So each rule is shown to work, and to be needed. C and C++.
 *
 * In the child, CHECK is the purpose of the rule: it fails when the damage is done. REQUIRE is an assumption of the
 * case: it never fails. Code that may hang comes after watch(). With --rules the program prints what each case does
 * without its rule: rules.sh makes one table of these lines. */
#ifndef TESTS_MASKING_H
#define TESTS_MASKING_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif
#include "test.h"
#ifdef __cplusplus
}
#endif
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stint/stint.h>
#include <sys/wait.h>

#ifdef __cplusplus
extern "C" {
#endif
#include "alloc/platform/caller.h"
#include "quarantine.h"
#ifdef __cplusplus
}
#endif

#define RULE_ROOTS (1U << 31) /* has a public switch */

enum {
    NO_DAMAGE,
    CHECK_FAILS = 1,
    CRASHES = 2,
    HANGS = 4,
    PROCESS_ENDS = 8, /* by the loader, with status 127 */
    OTHERWISE = 16,
};

enum { STATUS_CHECK = 3, STATUS_REQUIRE = 4, STATUS_LOADER = 127 };

struct masking_case {
    const char *name;
    unsigned rule;
    int damage; /* one of several, depending on the memory's contents */
    void (*run)(const void *detail);
    const void *detail;
};

static bool masking_rule_on;

static inline void masking_stop(int status, const char *what, int line)
{
    dprintf(STDERR_FILENO, "line %d: %s\n", line, what);
    _exit(status);
}

#define CHECK(condition) ((condition) ? (void)0 : masking_stop(STATUS_CHECK, #condition, __LINE__))
#define REQUIRE(condition) ((condition) ? (void)0 : masking_stop(STATUS_REQUIRE, #condition, __LINE__))

/* From here on it may hang. With the rule on nothing does, however slow the machine. */
static inline void watch(void)
{
    alarm(masking_rule_on ? 50 : 1);
}

static inline void *masking_keep(void *block)
{
    __asm__ volatile("" : "+r"(block) : : "memory");
    return block;
}

static stint_token *masking_token; /* of the task that runs */

/* From here on the task is interrupted, in the next allocation or where its interrupt need not wait any longer. */
static inline void trip(void)
{
    stint_token_set(masking_token);
}

/* Far more than the grace; where the interrupt has to wait, until an allocation fails. */
static inline void allocate_past_the_grace(void)
{
    for (int i = 0; i < 4096; i++) {
        if (masking_keep(malloc(1024)) == NULL)
            return;
    }
}

static inline void trip_and_allocate(void)
{
    trip();
    allocate_past_the_grace();
}

struct masking_work {
    void (*work)(const void *);
    const void *detail;
    bool fails; /* STINT_FAIL */
};

static inline int masking_run_work(void *arg, void **value)
{
    (void)value;
    const struct masking_work *work = (const struct masking_work *)arg;
    work->work(work->detail);
    if (!work->fails)
        masking_keep(
            malloc((size_t)16 << 10)); /* a frame may have been there before, and is asked about after so much */
    REQUIRE(work->fails || masking_keep(malloc(16)) == NULL); /* jumps, by now */
    return 0;
}

/* Run work(detail), which trips, as a task. */
static inline stint_outcome run_tripped(stint_on_interrupt mode, void (*work)(const void *), const void *detail)
{
    stint_outcome outcome;
    stint_options options = STINT_OPTIONS_INIT;
    struct masking_work all = { work, detail, mode == STINT_FAIL };
    REQUIRE(stint_token_create(NULL, &masking_token) == 0);
    options.token = masking_token;
    options.on_interrupt = mode;
    REQUIRE(stint_run(masking_run_work, &all, &options, &outcome) == 0);
    REQUIRE(outcome.reason == STINT_REASON_TOKEN);
    stint_token_release(masking_token);
    masking_token = NULL;
    return outcome;
}

static inline int masking_fill(void *arg, void **value)
{
    const size_t *size = (const size_t *)arg;
    (void)value;
    for (size_t filled = 0; filled < (size_t)16 << 20; filled += *size) {
        void *block = malloc(*size);
        REQUIRE(block != NULL);
        memset(block, 0xaa, *size);
        masking_keep(block);
    }
    return 1;
}

/* Use the memory that a task gave back, where it had blocks of this size. */
static inline void overwrite_freed_blocks(size_t size)
{
    stint_outcome outcome;
    REQUIRE(stint_run(masking_fill, &size, NULL, &outcome) == 0 && outcome.reason == STINT_REASON_FAILED);
}

static inline void in_another_thread(void *(*function)(void *), void *arg)
{
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, function, arg) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
}

static inline size_t masking_resident(void)
{
    unsigned long whole = 0;
    unsigned long resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    REQUIRE(file != NULL && fscanf(file, "%lu %lu", &whole, &resident) == 2);
    fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

/* Run the work as a task, often enough that the leavings of all runs add up. */
static inline void check_nothing_is_left(void (*work)(const void *), const void *detail)
{
    run_tripped(STINT_JUMP, work, detail);
    size_t before = masking_resident();
    for (int i = 0; i < 64; i++)
        run_tripped(STINT_JUMP, work, detail);
    CHECK(masking_resident() < before + ((size_t)16 << 20) + quarantine_room(0));
}

static inline int masking_child(const struct masking_case *one, bool rule_on)
{
    masking_rule_on = rule_on;
    alarm(55);
    if (!rule_on && one->rule == RULE_ROOTS)
        REQUIRE(stint_roots_set_scan(STINT_ROOT_SCAN_NEVER) == 0);
    else if (!rule_on)
        sti_rules_off = one->rule;
    if (!rule_on && one->rule == STI_RULE_PROCESS_BLOCKS)
        memset(&sti_caller_system, 0, sizeof sti_caller_system);
    one->run(one->detail);
    return 0;
}

static inline int masking_damage(const struct masking_case *one, bool rule_on)
{
    pid_t child = fork();
    if (child == 0) {
        if (!rule_on)
            dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
        execl("/proc/self/exe", "masking", one->name, rule_on ? "on" : "off", (char *)NULL);
        _exit(STATUS_REQUIRE);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status)) {
        int signal = WTERMSIG(status);
        if (signal == SIGALRM)
            return HANGS;
        return signal == SIGSEGV || signal == SIGBUS || signal == SIGABRT ? CRASHES : OTHERWISE;
    }
    switch (WEXITSTATUS(status)) {
    case 0:
        return NO_DAMAGE;
    case STATUS_CHECK:
        return CHECK_FAILS;
    case STATUS_LOADER:
        return PROCESS_ENDS;
    default:
        return OTHERWISE;
    }
}

static inline void masking_test(void **state)
{
    const struct masking_case *one = (const struct masking_case *)*state;
    assert_int_equal(masking_damage(one, true), NO_DAMAGE);
    int damage = masking_damage(one, false);
    if ((damage & one->damage) == 0)
        fail_msg("with its rule off it does %d, not %d", damage, one->damage);
}

/* One line a case: the rule's bit, what fails without it, and the case. */
static inline int masking_print(const struct masking_case *cases, size_t count)
{
    static const char *const names[] = { "nothing", "a check fails", "crashes", "", "hangs" };
    for (size_t i = 0; i < count; i++) {
        int damage = masking_damage(&cases[i], false);
        const char *name = damage == PROCESS_ENDS ? "the process ends" : damage <= HANGS ? names[damage] : "otherwise";
        printf("%d\t%s\t%s\n", __builtin_ctz(cases[i].rule), name, cases[i].name);
        fflush(stdout);
    }
    return 0;
}

static inline int masking_main(int argc, char **argv, struct masking_case *cases, size_t count)
{
    struct CMUnitTest tests[64];
    REQUIRE(count <= sizeof tests / sizeof tests[0]);
    for (size_t i = 0; i < count; i++) {
        if (argc == 3 && strcmp(argv[1], cases[i].name) == 0)
            return masking_child(&cases[i], strcmp(argv[2], "on") == 0);
        struct CMUnitTest test = { cases[i].name, masking_test, NULL, NULL, &cases[i] };
        tests[i] = test;
    }
    if (argc == 2 && strcmp(argv[1], "--rules") == 0)
        return masking_print(cases, count);
    REQUIRE(argc == 1);
    return _cmocka_run_group_tests(argv[0], tests, count, NULL, NULL);
}

#endif
