/* SPDX-License-Identifier: MIT
 *
 * stint-endurance WHAT COUNT: one kind of work, very often, whose memory `run` beside this file watches from outside.
 * SIGTERM ends it before. At the end it prints how often it was done, how often it was cancelled, and the bytes that
 * roots keep. Ends with 1 as soon as an outcome is wrong. */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <stint/stint.h>

#define LIVE 1000 /* results that are kept, before the oldest is freed */

static unsigned long wrong;
static unsigned long done, cancelled; /* of those kinds that cancel */
static volatile sig_atomic_t ended;

static void end(int signal)
{
    (void)signal;
    ended = 1;
}

static bool goes_on(unsigned long n, unsigned long count)
{
    return n < count && wrong == 0 && !ended;
}

static stint_outcome run(stint_fn *fn, void *arg, const stint_options *options, stint_reason wanted)
{
    stint_outcome outcome = { .reason = STINT_REASON_NONE };
    if (stint_run(fn, arg, options, &outcome) != 0 || outcome.reason != wanted)
        wrong++;
    return outcome;
}

/* Leaves one block of a size that differs from task to task. */
static int leave_block(void *number, void **value)
{
    unsigned long n = *(unsigned long *)number;
    for (int i = 0; i < 8; i++)
        free(memset(malloc(16 + (n * 7 + (unsigned)i * 131) % 2000), 1, 16));
    *value = malloc(16 + n * 37 % 500);
    return *value == NULL;
}

static void commits(unsigned long count)
{
    static void *live[LIVE];
    for (unsigned long n = 0; goes_on(n, count); n++) {
        free(live[n % LIVE]);
        live[n % LIVE] = run(leave_block, &n, NULL, STINT_REASON_NONE).value;
    }
    for (size_t i = 0; i < LIVE; i++)
        free(live[i]);
}

static int hold_too_much(void *arg, void **value)
{
    (void)arg;
    do
        *value = malloc(1000);
    while (*value != NULL);
    return -1;
}

/* Every other inner scope is stopped, and all lie in one task. */
static int nest(void *count, void **value)
{
    stint_options limited = STINT_OPTIONS_INIT;
    limited.budget.memory = (size_t)256 << 10;
    (void)value;
    for (unsigned long n = 0; goes_on(n, *(unsigned long *)count); n++) {
        if (n % 2 == 0)
            free(run(leave_block, &n, NULL, STINT_REASON_NONE).value);
        else
            run(hold_too_much, NULL, &limited, STINT_REASON_MEMORY_LIMIT);
    }
    return wrong != 0;
}

static void scopes(unsigned long count)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.memory = (size_t)64 << 20;
    run(nest, &count, &options, STINT_REASON_NONE);
}

static void *thread_of_one_task(void *number)
{
    return run(leave_block, number, NULL, STINT_REASON_NONE).value;
}

/* One after the other; what each leaves another thread frees. */
static void threads(unsigned long count)
{
    static void *live[LIVE];
    for (unsigned long n = 0; goes_on(n, count); n++) {
        pthread_t thread;
        void *result = NULL;
        if (pthread_create(&thread, NULL, thread_of_one_task, &n) != 0 || pthread_join(thread, &result) != 0)
            wrong++;
        free(live[n % LIVE]);
        live[n % LIVE] = result;
    }
    for (size_t i = 0; i < LIVE; i++)
        free(live[i]);
}

/* --- Tasks of a pool that are cancelled at random ----------------------------------------------------------------- */

#define AT_ONCE 16

static unsigned next_random(void)
{
    static unsigned state = 1;
    state = state * 1664525 + 1013904223;
    return state >> 8;
}

/* The pause before a cancellation: none, or up to a quarter of a millisecond. */
static void nap(void)
{
    if (next_random() % 2 == 0)
        nanosleep(&(struct timespec){ .tv_nsec = (long)(next_random() % 250000) }, NULL);
}

struct part {
    unsigned depth;
    unsigned long leaves;
};

/* Counts the leaves of a tree by forks, and allocates in each node. */
static int count_leaves(void *arg, void **value)
{
    struct part *part = arg;
    struct part halves[] = { { part->depth - 1, 0 }, { part->depth - 1, 0 } };
    stint_subtask fork;
    void *block = malloc(64 + part->depth * 100);
    (void)value;
    if (block == NULL)
        return -1;
    if (part->depth == 0) {
        part->leaves = 1;
    } else {
        stint_fork(&fork, count_leaves, &halves[0]);
        int error = count_leaves(&halves[1], NULL);
        int other = stint_join(&fork, NULL);
        if (error != 0 || other != 0)
            return -1;
        part->leaves = halves[0].leaves + halves[1].leaves;
    }
    free(block);
    return 0;
}

static int count_tree(void *depth, void **value)
{
    struct part whole = { (unsigned)(size_t)depth, 0 };
    int error = count_leaves(&whole, NULL);
    unsigned long *leaves = error == 0 ? malloc(500) : NULL;
    if (leaves != NULL)
        *leaves = whole.leaves;
    *value = leaves;
    return leaves == NULL;
}

struct submitted {
    stint_future *future;
    size_t kind; /* the depth of a tree, or what a child does */
    bool may_be_cancelled;
};

/* Waits, counts, and says that the value is to be looked at. */
static bool take(const struct submitted *one, stint_reason expected, stint_outcome *outcome)
{
    if (stint_future_wait(one->future, outcome) != 0) {
        wrong++;
        return false;
    }
    stint_future_release(one->future);
    done++;
    if (one->may_be_cancelled && outcome->reason == STINT_REASON_TOKEN) {
        cancelled++;
        return false;
    }
    if (outcome->reason != expected)
        wrong++;
    return outcome->status == STINT_OK;
}

/* One kind of task: what a new one is to do, how it is submitted, how it should end, and whether its value is right. */
struct work {
    struct submitted (*choose)(void);
    int (*submit)(struct submitted *one);
    stint_reason (*expects)(const struct submitted *one);
    bool (*is_right)(const struct submitted *one, const stint_outcome *outcome);
};

static void take_and_look(const struct work *work, const struct submitted *one)
{
    stint_outcome outcome;
    if (!take(one, work->expects(one), &outcome))
        return;
    wrong += !work->is_right(one, &outcome);
    free(outcome.value);
}

/* Always as many at once, of which the oldest is taken before the next is submitted. */
static void submit_and_cancel(const struct work *work, unsigned long count)
{
    struct submitted all[AT_ONCE];
    unsigned long n = 0;
    for (; goes_on(n, count) || (n % AT_ONCE != 0 && wrong == 0); n++) {
        struct submitted *one = &all[n % AT_ONCE];
        if (n >= AT_ONCE)
            take_and_look(work, one);
        *one = work->choose();
        if (work->submit(one) != 0) {
            wrong++;
            break;
        }
        if (one->may_be_cancelled) {
            nap();
            stint_future_cancel(one->future);
        }
    }
    for (size_t i = 0; wrong == 0 && n >= AT_ONCE && i < AT_ONCE; i++)
        take_and_look(work, &all[i]);
}

static stint_pool *pool;

static struct submitted choose_tree(void)
{
    return (struct submitted){ .kind = next_random() % 14, .may_be_cancelled = next_random() % 3 == 0 };
}

static int submit_tree(struct submitted *one)
{
    return stint_submit(pool, count_tree, (void *)one->kind, NULL, &one->future);
}

static stint_reason expects_nothing(const struct submitted *one)
{
    (void)one;
    return STINT_REASON_NONE;
}

static bool is_count(const struct submitted *one, const stint_outcome *outcome)
{
    return *(unsigned long *)outcome->value == 1ul << one->kind;
}

static void cancels(unsigned long count)
{
    static const struct work trees = { choose_tree, submit_tree, expects_nothing, is_count };
    stint_pool_options four = STINT_POOL_OPTIONS_INIT;
    four.workers = 4;
    if (stint_pool_create(&four, &pool) != 0) {
        wrong++;
        return;
    }
    submit_and_cancel(&trees, count);
    wrong += stint_pool_destroy(pool) != 0;
}

/* --- Walled tasks that crash, exit, hang, or are cancelled at random ---------------------------------------------- */

enum deed { ECHOES, CRASHES, EXITS, HANGS, IS_KILLED, DEEDS };

static const stint_reason ends[DEEDS] = {
    [ECHOES] = STINT_REASON_NONE,    [CRASHES] = STINT_REASON_CRASH,    [EXITS] = STINT_REASON_EXIT,
    [HANGS] = STINT_REASON_DEADLINE, [IS_KILLED] = STINT_REASON_KILLED,
};

static int do_deed(const void *input, size_t size, stint_reply *reply)
{
    volatile int *volatile nowhere = NULL;
    switch (*(const size_t *)input) {
    case CRASHES:
        *nowhere = 1;
        break;
    case EXITS:
        exit(9);
    case HANGS:
        while (nowhere == NULL)
            ;
        break;
    case IS_KILLED:
        raise(SIGKILL);
        break;
    default:
        break;
    }
    return stint_reply_write(reply, input, size);
}

static stint_wall *wall;

/* One in fifty does not end well, one in ten is cancelled. */
static struct submitted choose_deed(void)
{
    return (struct submitted){ .kind = next_random() % 50 == 0 ? 1 + next_random() % (DEEDS - 1) : ECHOES,
                               .may_be_cancelled = next_random() % 10 == 0 };
}

static int submit_deed(struct submitted *one)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.run_ns = one->kind == HANGS ? 20000000 : 0;
    return stint_submit_walled(pool, wall, do_deed, &one->kind, sizeof one->kind, &options, &one->future);
}

static stint_reason expects_end(const struct submitted *one)
{
    return ends[one->kind];
}

static bool is_echo(const struct submitted *one, const stint_outcome *outcome)
{
    return outcome->payload_size == sizeof one->kind && *(size_t *)outcome->value == one->kind;
}

static void walls(unsigned long count)
{
    static const struct work deeds = { choose_deed, submit_deed, expects_end, is_echo };
    stint_wall_options two = STINT_WALL_OPTIONS_INIT;
    two.children = 2;
    two.tasks_per_child = 100;
    if (stint_wall_create(&two, &wall) != 0 || stint_pool_create(NULL, &pool) != 0) {
        wrong++;
        return;
    }
    submit_and_cancel(&deeds, count);
    wrong += stint_pool_destroy(pool) != 0;
    wrong += stint_wall_destroy(wall) != 0;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(unsigned long count);
    } kinds[] = {
        { "commits", commits }, { "scopes", scopes }, { "threads", threads }, { "cancels", cancels }, { "walls", walls }
    };
    unsigned long count = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
    for (size_t i = 0; count > 0 && i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(argv[1], kinds[i].name) == 0) {
            signal(SIGTERM, end);
            kinds[i].run(count);
            printf("%lu done, %lu cancelled, %zu bytes kept, %lu wrong\n", done, cancelled, stint_roots_kept_bytes(),
                   wrong);
            return wrong != 0;
        }
    }
    fprintf(stderr, "usage: stint-endurance commits|scopes|threads|cancels|walls COUNT\n");
    return 2;
}
