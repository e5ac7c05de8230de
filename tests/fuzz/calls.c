/* SPDX-License-Identifier: MIT
 *
 * Sequences of public calls from several threads, against a model. The input is cut into as many parts as there are
 * threads; each does what its part says, to pools, accounts, tokens, groups and serial queues that all of them share,
 * and to futures of its own. The model is small: what each call may return, which outcomes a task may have, given what
 * it does, its limits, and what has been cancelled by the time it is looked at; and at the end what must add up: a
 * completion for each that was asked for, a call for each callback, an account without debts, and no record left. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stint/stint.h>
#include <time.h>

#include "../live/live.h"
#include "fuzz.h"

#define THREADS 3
#define MOST 48 /* tasks of a thread */
#define COMPOUNDS 8
#define POOLS 2
#define TOKENS 3
#define ACCOUNTS 3
#define MS UINT64_C(1000000)
#define PATIENCE (30000 * MS)
#define BLOCK ((size_t)1000)

/* What a task does. */
enum kind { GIVE, FAIL, ALLOCATE, CHECK, FORK, NEST, PAYLOAD, SLEEP, SORT, SCOPE, KINDS };

struct task {
    enum kind kind;
    unsigned number; /* of whatever it does */
    int token;       /* -1: none */
    int pool;
    bool is_timed, is_limited, is_in_account, has_value;
    atomic_bool may_be_cancelled;
    atomic_uint calls; /* of its callbacks */
    unsigned callbacks;
    stint_future *future;
};

struct compound {
    stint_future *future;
    bool is_all;
    size_t count;
    struct task *of[3];
};

struct actor {
    struct fuzz_bytes bytes;
    size_t count, compounds;
    struct task tasks[MOST];
    struct compound compound[COMPOUNDS];
};

static struct world {
    stint_pool *pools[POOLS];
    atomic_bool may_be_shut[POOLS];
    stint_account *accounts[ACCOUNTS];
    stint_token *tokens[TOKENS];
    atomic_bool may_be_set[TOKENS], is_set[TOKENS];
    stint_group *group;
    stint_serial *serial;
    stint_completions *completions;
    atomic_uint added, read;
    struct actor actors[THREADS];
} world;

/* --- Tasks -------------------------------------------------------------------------------------------------------- */

static int leaf(void *arg, void **value)
{
    (void)value;
    atomic_fetch_add((atomic_uint *)arg, 1);
    return 0;
}

static int branch(void *arg, void **value)
{
    stint_subtask left, right;
    stint_fork(&left, leaf, arg);
    stint_fork(&right, leaf, arg);
    (void)value;
    int second = stint_join(&right, NULL);
    int first = stint_join(&left, NULL);
    return first != 0 ? first : second;
}

static int fork_some(struct task *task)
{
    atomic_uint leaves = 0;
    stint_subtask forks[8];
    unsigned count = task->number % 8 + 1;
    int error = 0;
    for (unsigned i = 0; i < count; i++)
        stint_fork(&forks[i], branch, &leaves);
    for (unsigned i = count; i-- > 0;) {
        int joined = stint_join(&forks[i], NULL);
        error = error != 0 ? error : joined;
    }
    return error != 0 ? error : atomic_load(&leaves) == 2 * count ? 0 : EDOM;
}

static int compare(const void *one, const void *other, void *unused)
{
    (void)unused;
    return *(const int *)one - *(const int *)other;
}

static int sort_some(const struct task *task)
{
    int numbers[300];
    for (int i = 0; i < 300; i++)
        numbers[i] = (int)(((unsigned)i * 7919 + task->number) % 1000);
    int error = stint_sort(numbers, 300, sizeof *numbers, compare, NULL);
    for (int i = 1; error == 0 && i < 300; i++)
        error = numbers[i - 1] <= numbers[i] ? 0 : EDOM;
    return error;
}

static int allocate_some(const struct task *task)
{
    for (unsigned i = 0; i < task->number % 64; i++) {
        void *block = stint_malloc(BLOCK);
        if (block == NULL)
            return ENOMEM;
        memset(block, (int)i, BLOCK);
        if (i % 2 == 0)
            stint_free(block);
        else if (i % 3 == 0)
            stint_free(stint_realloc(block, 2 * BLOCK));
        else
            stint_free(block);
    }
    return 0;
}

static int give_address(void *arg, void **value)
{
    *value = arg;
    return 0;
}

static void release_inner(void *future)
{
    stint_future_release(*(stint_future **)future);
}

/* A task waits for one of its own pool or of the other. An interrupt leaves it, so a guard has the future. */
static int nest(struct task *task)
{
    stint_future *future = NULL;
    stint_outcome outcome;
    stint_guard guard;
    stint_guard_push(&guard, release_inner, &future);
    int error = stint_submit(world.pools[task->number % POOLS], give_address, task, NULL, &future);
    if (error == 0) {
        error = stint_future_wait(future, &outcome);
        if (error == 0 && outcome.status != STINT_CANCELLED && outcome.value != task)
            error = EDOM;
    } else if (error == ESHUTDOWN) {
        error = EAGAIN;
    }
    stint_guard_pop(&guard, true);
    return error == EAGAIN ? 0 : error;
}

static int nest_scope(struct task *task)
{
    stint_options options = STINT_OPTIONS_INIT;
    stint_outcome outcome;
    options.budget.allocation = 100;
    int error = stint_run(give_address, task, &options, &outcome);
    return error != 0 ? error : outcome.status != STINT_OK || outcome.value == task ? 0 : EDOM;
}

static int run(void *arg, void **value)
{
    struct task *task = arg;
    int error = 0;
    switch (task->kind) {
    case FAIL:
        return (int)(task->number % 100) + 1000;
    case ALLOCATE:
        error = allocate_some(task);
        break;
    case CHECK:
        while (!stint_is_interrupted())
            stint_checkpoint();
        break;
    case FORK:
        error = fork_some(task);
        break;
    case NEST:
        error = nest(task);
        break;
    case PAYLOAD:
        return stint_fail((int)(task->number % 100) + 1000, task, sizeof(void *));
    case SLEEP:
        stint_blocking_begin();
        nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
        stint_blocking_end();
        break;
    case SORT:
        error = sort_some(task);
        break;
    case SCOPE:
        error = nest_scope(task);
        break;
    default:
        break;
    }
    *value = task;
    return error;
}

static int run_next(const stint_outcome *before, void *arg, void **value)
{
    (void)before;
    return run(arg, value);
}

/* --- What it may end with ----------------------------------------------------------------------------------------- */

static bool may_be_cancelled(struct task *task)
{
    return atomic_load(&task->may_be_cancelled) || (task->token >= 0 && atomic_load(&world.may_be_set[task->token])) ||
           atomic_load(&world.may_be_shut[0]) || atomic_load(&world.may_be_shut[1]);
}

static void judge(struct task *task, const stint_outcome *outcome)
{
    switch (outcome->reason) {
    case STINT_REASON_NONE:
        fuzz_require(outcome->status == STINT_OK && outcome->error == 0);
        fuzz_require(outcome->value == task);
        fuzz_require(task->kind != FAIL && task->kind != PAYLOAD && task->kind != CHECK);
        break;
    case STINT_REASON_FAILED:
        fuzz_require(outcome->status == STINT_ERROR && outcome->value == NULL);
        if (task->kind != FAIL && task->kind != PAYLOAD)
            fuzz_require((outcome->error == ECANCELED && may_be_cancelled(task)) ||
                         (task->is_limited && outcome->error == ENOMEM));
        else
            fuzz_require(outcome->error == (int)(task->number % 100) + 1000);
        fuzz_require(task->kind != PAYLOAD ? outcome->payload == NULL : outcome->payload_size == sizeof(void *));
        break;
    case STINT_REASON_ALLOCATION_LIMIT:
        fuzz_require(outcome->status == STINT_ERROR && outcome->error == ENOMEM && task->is_limited);
        break;
    case STINT_REASON_DEADLINE:
    case STINT_REASON_EXPIRED:
        fuzz_require(outcome->status == STINT_ERROR && outcome->error == ETIMEDOUT && task->is_timed);
        break;
    case STINT_REASON_ACCOUNT:
        fuzz_require(outcome->status == STINT_ERROR && outcome->error == EDQUOT && task->is_in_account);
        break;
    case STINT_REASON_TOKEN:
    case STINT_REASON_SHUTDOWN:
        fuzz_require(outcome->status == STINT_CANCELLED && outcome->error == ECANCELED && outcome->value == NULL);
        fuzz_require(may_be_cancelled(task));
        break;
    default:
        fuzz_never("an outcome that no task here can have");
    }
}

/* --- Steps -------------------------------------------------------------------------------------------------------- */

static void count_call(stint_future *future, const stint_outcome *outcome, void *arg)
{
    struct task *task = arg;
    (void)future;
    judge(task, outcome);
    atomic_fetch_add(&task->calls, 1);
}

static uint64_t soon(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 * MS + (uint64_t)now.tv_nsec + MS;
}

static struct task *pick(struct actor *actor)
{
    struct task *task = actor->count > 0 ? &actor->tasks[fuzz_byte(&actor->bytes) % actor->count] : NULL;
    return task != NULL && task->future != NULL ? task : NULL;
}

static int submit_as(struct actor *actor, struct task *task, stint_options *options)
{
    stint_pool *pool = world.pools[task->pool];
    struct task *before = NULL;
    switch (fuzz_below(&actor->bytes, 8)) {
    case 0:
        return stint_submit_wait(pool, run, task, options, 2 * MS, &task->future);
    case 1:
        return stint_submit_at(pool, run, task, options, soon(), &task->future);
    case 2:
        task->pool = 0;
        return stint_serial_submit(world.serial, run, task, options, &task->future);
    case 3:
        before = pick(actor);
        if (before != NULL)
            return stint_future_then_submit(before->future, pool, run_next, task, options, &task->future);
        break;
    default:
        break;
    }
    return stint_submit(pool, run, task, options, &task->future);
}

static void submit(struct actor *actor)
{
    struct fuzz_bytes *bytes = &actor->bytes;
    if (actor->count == MOST)
        return;
    struct task *task = &actor->tasks[actor->count];
    stint_options options = STINT_OPTIONS_INIT;
    unsigned set = fuzz_byte(bytes);
    task->kind = (enum kind)fuzz_below(bytes, KINDS);
    task->number = fuzz_byte(bytes);
    task->pool = (int)fuzz_below(bytes, POOLS);
    task->token = set & 1 ? (int)fuzz_below(bytes, TOKENS) : -1;
    options.token = task->token >= 0 ? world.tokens[task->token] : NULL;
    task->is_timed = (set & 2) != 0 || task->kind == CHECK;
    options.budget.wall_ns = task->is_timed ? (1 + task->number % 4) * MS : 0;
    task->is_limited = (set & 4) != 0;
    options.budget.allocation = task->is_limited ? (task->number + 1) * BLOCK / 4 : 0;
    task->is_in_account = (set & 8) != 0;
    options.account = task->is_in_account ? world.accounts[fuzz_below(bytes, ACCOUNTS)] : NULL;
    options.completions = set & 16 ? world.completions : NULL;
    options.priority = (stint_priority)((set >> 5) % 3);
    options.report = set & 32 ? STINT_REPORT_STACK : STINT_REPORT_NONE;
    options.on_interrupt = set & 64 ? STINT_FAIL : STINT_JUMP;
    options.discard = (set & 128) != 0;
    int error = submit_as(actor, task, &options);
    if (error != 0) {
        fuzz_require(task->future == NULL);
        fuzz_require(
            error == EAGAIN || (error == EDQUOT && task->is_in_account) || error == ETIMEDOUT ||
            (error == ESHUTDOWN && (atomic_load(&world.may_be_shut[0]) || atomic_load(&world.may_be_shut[1]))));
        return;
    }
    fuzz_require(task->future != NULL);
    if (options.completions != NULL)
        atomic_fetch_add(&world.added, 1);
    actor->count++;
}

static void await(struct task *task, uint64_t timeout)
{
    stint_outcome outcome;
    int error = stint_future_wait_for(task->future, timeout, &outcome);
    fuzz_require(error == 0 || (error == ETIMEDOUT && timeout < PATIENCE));
    if (error != 0)
        return;
    judge(task, &outcome);
    fuzz_require(stint_future_is_ready(task->future));
}

static void compose(struct actor *actor)
{
    if (actor->compounds == COMPOUNDS)
        return;
    struct compound *made = &actor->compound[actor->compounds];
    stint_future *futures[3];
    *made = (struct compound){ .is_all = fuzz_below(&actor->bytes, 2) == 0 };
    for (int i = 0; i < 3; i++) {
        struct task *task = pick(actor);
        if (task != NULL) {
            made->of[made->count] = task;
            futures[made->count++] = task->future;
        }
    }
    if (made->count == 0)
        return;
    fuzz_require((made->is_all ? stint_when_all : stint_when_any)(futures, made->count, &made->future) == 0);
    actor->compounds++;
}

static void check_compound(const struct compound *made)
{
    stint_outcome outcome;
    size_t index = made->count;
    fuzz_require(stint_future_wait_for(made->future, PATIENCE, &outcome) == 0);
    if (!made->is_all) {
        fuzz_require(stint_when_any_index(made->future, &index) == 0 && index < made->count);
        fuzz_require(stint_future_is_ready(made->of[index]->future));
        judge(made->of[index], &outcome);
    } else if (outcome.status == STINT_OK) {
        fuzz_require(outcome.value == NULL);
        for (size_t i = 0; i < made->count; i++) {
            stint_outcome one;
            fuzz_require(stint_future_wait_for(made->of[i]->future, 0, &one) == 0 && one.status == STINT_OK);
        }
    }
}

static void read_completions(size_t max)
{
    stint_completion array[8];
    size_t count = 0;
    fuzz_require(stint_completions_read(world.completions, array, max, &count) == 0);
    fuzz_require(count <= max);
    atomic_fetch_add(&world.read, (unsigned)count);
}

static void change_budget(struct actor *actor, struct task *task)
{
    stint_usage usage;
    const stint_budget budget = { .wall_ns = task->is_timed ? MS * (1 + fuzz_byte(&actor->bytes) % 8) : 0,
                                  .allocation = task->is_limited ? 1 + 64 * (size_t)fuzz_byte(&actor->bytes) : 0 };
    int error = stint_future_set_budget(task->future, &budget);
    fuzz_require(error == 0 || error == EALREADY);
    fuzz_require(stint_future_usage(task->future, &usage) == 0);
}

static void look(unsigned which)
{
    stint_pool_statistics pool = STINT_POOL_STATISTICS_INIT;
    stint_worker_statistics worker = STINT_WORKER_STATISTICS_INIT;
    stint_account_usage usage = STINT_ACCOUNT_USAGE_INIT;
    fuzz_require(stint_pool_read(world.pools[which % POOLS], &pool) == 0);
    fuzz_require(stint_pool_read_worker(world.pools[which % POOLS], 0, &worker) == 0);
    fuzz_require(stint_account_read(world.accounts[which % ACCOUNTS], &usage) == 0);
    bool was_set = atomic_load(&world.is_set[which % TOKENS]);
    bool is_set = stint_token_is_set(world.tokens[which % TOKENS]);
    fuzz_require(is_set || !was_set);
    fuzz_require(!is_set || atomic_load(&world.may_be_set[which % TOKENS]));
}

static void set_token(unsigned which)
{
    atomic_store(&world.may_be_set[which], true);
    if (which == 0) /* the other ones' parent */
        for (int i = 1; i < TOKENS; i++)
            atomic_store(&world.may_be_set[i], true);
    stint_token_set(world.tokens[which]);
    atomic_store(&world.is_set[which], true);
}

static void set_limits(unsigned which, unsigned number)
{
    stint_account_limits limits = STINT_ACCOUNT_LIMITS_INIT;
    limits.running = number % 4;
    limits.waiting = number % 5;
    limits.weight = number;
    fuzz_require(stint_account_set_limits(world.accounts[which], &limits) == 0);
}

static void shut(unsigned which, unsigned how)
{
    atomic_store(&world.may_be_shut[which], true);
    int error = stint_pool_shutdown(world.pools[which], (stint_shutdown)(how % 2), how % 3 == 0 ? 0 : MS);
    fuzz_require(error == 0 || error == ETIMEDOUT);
}

static void step(struct actor *actor)
{
    struct fuzz_bytes *bytes = &actor->bytes;
    unsigned what = fuzz_below(bytes, 18);
    struct task *task = what < 6 ? NULL : pick(actor);
    if (what < 5) {
        submit(actor);
    } else if (what == 5) {
        compose(actor);
    } else if (what < 12 && task != NULL) {
        if (what < 8) {
            await(task, what == 6 ? PATIENCE : MS);
        } else if (what == 8) {
            atomic_store(&task->may_be_cancelled, true);
            stint_future_cancel(task->future);
        } else if (what == 9) {
            fuzz_require(stint_future_then(task->future, count_call, task) == 0);
            task->callbacks++;
        } else if (what == 10) {
            fuzz_require(stint_group_add(world.group, task->future) == 0);
        } else {
            change_budget(actor, task);
        }
    } else if (what == 12 && task != NULL) {
        fuzz_require(stint_completions_add(world.completions, task->future, task) == 0);
        atomic_fetch_add(&world.added, 1);
    } else if (what == 13) {
        read_completions(fuzz_below(bytes, 9));
    } else if (what == 14) {
        look(fuzz_byte(bytes));
    } else if (what == 15) {
        set_token(fuzz_below(bytes, TOKENS));
    } else if (what == 16) {
        set_limits(fuzz_below(bytes, ACCOUNTS), fuzz_byte(bytes));
    } else if (what == 17 && fuzz_below(bytes, 8) == 0) {
        shut(fuzz_below(bytes, POOLS), fuzz_byte(bytes));
    } else {
        int error = stint_group_wait_for(world.group, 0, NULL);
        fuzz_require(error == 0 || error == ETIMEDOUT);
    }
}

static void *act(void *arg)
{
    struct actor *actor = arg;
    while (actor->bytes.left > 0)
        step(actor);
    return NULL;
}

/* --- The beginning and the end ------------------------------------------------------------------------------------ */

static void begin(struct fuzz_bytes *bytes)
{
    memset(&world, 0, sizeof world);
    for (int i = 0; i < POOLS; i++) {
        stint_pool_options options = STINT_POOL_OPTIONS_INIT;
        options.workers = 1 + fuzz_below(bytes, 2);
        options.queue_capacity = (size_t)2 << fuzz_below(bytes, 6);
        options.substitutes = fuzz_below(bytes, 2) == 0 ? 2 : STINT_NO_SUBSTITUTES;
        fuzz_require(stint_pool_create(&options, &world.pools[i]) == 0);
    }
    for (int i = 0; i < ACCOUNTS; i++) {
        stint_account_limits limits = STINT_ACCOUNT_LIMITS_INIT;
        unsigned set = fuzz_byte(bytes);
        limits.allocation = set & 1 ? (size_t)1 << 20 : 0;
        limits.running = set & 2 ? 1 + (set >> 2) % 2 : 0;
        limits.waiting = set & 8 ? 1 + (set >> 4) % 8 : 0;
        limits.weight = set;
        fuzz_require(stint_account_create(i > 0 ? world.accounts[0] : NULL, &limits, &world.accounts[i]) == 0);
    }
    for (int i = 0; i < TOKENS; i++)
        fuzz_require(stint_token_create(i > 0 ? world.tokens[0] : NULL, &world.tokens[i]) == 0);
    fuzz_require(stint_group_create(&world.group) == 0);
    fuzz_require(stint_serial_create(world.pools[0], 8, &world.serial) == 0);
    fuzz_require(stint_completions_create(&world.completions) == 0);
}

static void end_actor(struct actor *actor)
{
    for (size_t i = 0; i < actor->compounds; i++)
        check_compound(&actor->compound[i]);
    for (size_t i = 0; i < actor->count; i++)
        await(&actor->tasks[i], PATIENCE);
    for (size_t i = 0; i < actor->compounds; i++)
        stint_future_release(actor->compound[i].future);
    for (size_t i = 0; i < actor->count; i++)
        stint_future_release(actor->tasks[i].future);
}

static void end_world(void)
{
    for (int i = 0; i < THREADS; i++)
        end_actor(&world.actors[i]);
    fuzz_require(stint_group_wait_for(world.group, PATIENCE, NULL) == 0);
    stint_group_release(world.group);
    stint_serial_release(world.serial);
    for (int i = 0; i < POOLS; i++)
        fuzz_require(stint_pool_destroy(world.pools[i]) == 0);
    for (int i = 0; i < THREADS; i++)
        for (size_t k = 0; k < world.actors[i].count; k++)
            fuzz_require(atomic_load(&world.actors[i].tasks[k].calls) == world.actors[i].tasks[k].callbacks);
    for (unsigned before = atomic_load(&world.read); before < atomic_load(&world.added);) {
        read_completions(8);
        fuzz_require(atomic_load(&world.read) > before);
        before = atomic_load(&world.read);
    }
    fuzz_require(atomic_load(&world.read) == atomic_load(&world.added));
    stint_completions_destroy(world.completions);
    for (int i = ACCOUNTS; i-- > 0;) {
        stint_account_usage usage = STINT_ACCOUNT_USAGE_INIT;
        fuzz_require(stint_account_read(world.accounts[i], &usage) == 0);
        fuzz_require(usage.running == 0 && usage.waiting == 0 && usage.memory == 0);
        stint_account_release(world.accounts[i]);
    }
    for (int i = TOKENS; i-- > 0;)
        stint_token_release(world.tokens[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pthread_t threads[THREADS];
    struct fuzz_bytes bytes = { data, size };
    if (size < 16 || size > 1024)
        return 0;
    uint64_t number = live_number != NULL ? live_number() : 0;
    begin(&bytes);
    size_t part = bytes.left / THREADS;
    for (int i = 0; i < THREADS; i++) {
        world.actors[i].bytes = (struct fuzz_bytes){ bytes.at + (size_t)i * part, part };
        fuzz_require(pthread_create(&threads[i], NULL, act, &world.actors[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    end_world();
    if (live_number == NULL || live_since(number) == 0)
        return 0;
    /* A thread of the library's own may still be giving back what it has. */
    for (int tries = 0; tries < 2000 && live_since(number) > 0; tries++)
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    if (live_since(number) > 0)
        live_tell(number);
    fuzz_require(live_since(number) == 0);
    return 0;
}
