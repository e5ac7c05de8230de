/* SPDX-License-Identifier: MIT
 *
 * What the model of the pool (model.py) is fed with and checked against, measured on two processors of this machine:
 *
 *   costs    of what the pool's protocols are made of: a line of the cache that moves, an atomic instruction, a
 *            wake-up, a task, a fork, a steal, a set token
 *   loads    how long two workers take, and one, for the same tasks
 *
 * It prints one JSON object. Each figure is what the quickest of several turns took. `run` of this folder calls it. */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <stint/stint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TURNS_MAX 101
#define PROCESSORS 2

static int turns = 15;
static size_t processors[PROCESSORS];

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static _Noreturn void give_up(const char *what, int error)
{
    fprintf(stderr, "measure: %s: %s\n", what, strerror(error));
    exit(1);
}

static void must(const char *what, int error)
{
    if (error != 0)
        give_up(what, error);
}

static int compare_figures(const void *one, const void *other)
{
    double difference = *(const double *)one - *(const double *)other;
    return (difference > 0) - (difference < 0);
}

static double median_of(double *figures, int count)
{
    qsort(figures, (size_t)count, sizeof *figures, compare_figures);
    return figures[count / 2];
}

/* What the quickest of so many turns took, after one that is thrown away: others use the machine too. */
static double measured(double (*measure)(void *), void *arg)
{
    double figures[TURNS_MAX];
    measure(arg);
    for (int i = 0; i < turns; i++)
        figures[i] = measure(arg);
    qsort(figures, (size_t)turns, sizeof *figures, compare_figures);
    return figures[0];
}

static void stay_on(int processor)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processors[processor], &set);
    sched_setaffinity(0, sizeof set, &set);
}

static void stay_anywhere(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int i = 0; i < PROCESSORS; i++)
        CPU_SET(processors[i], &set);
    sched_setaffinity(0, sizeof set, &set);
}

/* --- Work that takes a given time on a processor that it has for itself ------------------------------------------- */

static double rounds_a_ns = 1;

static __attribute__((noinline)) void work_rounds(uint64_t rounds)
{
    uint64_t value = rounds;
    for (uint64_t i = 0; i < rounds; i++)
        __asm__ volatile("" : "+r"(value));
}

static void work_for(double ns)
{
    work_rounds((uint64_t)(ns * rounds_a_ns));
}

#define CALIBRATION 4000000

static double time_of_rounds(void *arg)
{
    (void)arg;
    double begin = now_ns();
    work_rounds(CALIBRATION);
    return now_ns() - begin;
}

/* --- Two threads, each on its processor --------------------------------------------------------------------------- */

struct pair {
    _Alignas(64) _Atomic uint64_t word;
    _Alignas(64) atomic_int ready;
    uint64_t rounds;
    double times[PROCESSORS];
    void (*body)(struct pair *pair, int which);
};

struct half {
    struct pair *pair;
    int which;
};

static void *pair_half(void *argument)
{
    struct half *half = argument;
    struct pair *pair = half->pair;
    stay_on(half->which);
    atomic_fetch_add_explicit(&pair->ready, 1, memory_order_acq_rel);
    while (atomic_load_explicit(&pair->ready, memory_order_acquire) < PROCESSORS)
        ;
    double begin = now_ns();
    pair->body(pair, half->which);
    pair->times[half->which] = now_ns() - begin;
    return NULL;
}

static double pair_run(struct pair *pair)
{
    struct half halves[PROCESSORS] = { { pair, 0 }, { pair, 1 } };
    pthread_t threads[PROCESSORS];
    atomic_store(&pair->word, 0);
    atomic_store(&pair->ready, 0);
    for (int i = 0; i < PROCESSORS; i++)
        must("a thread", pthread_create(&threads[i], NULL, pair_half, &halves[i]));
    for (int i = 0; i < PROCESSORS; i++)
        pthread_join(threads[i], NULL);
    return pair->times[0] > pair->times[1] ? pair->times[0] : pair->times[1];
}

static void alternate(struct pair *pair, int which)
{
    for (uint64_t i = 0; i < pair->rounds; i++) {
        while (atomic_load_explicit(&pair->word, memory_order_acquire) % 2 != (unsigned)which)
            ;
        atomic_fetch_add_explicit(&pair->word, 1, memory_order_acq_rel);
    }
}

static void add_both(struct pair *pair, int which)
{
    (void)which;
    for (uint64_t i = 0; i < pair->rounds; i++)
        atomic_fetch_add_explicit(&pair->word, 1, memory_order_seq_cst);
}

static void add_one(struct pair *pair, int which)
{
    if (which == 0)
        add_both(pair, which);
}

static void spin_both(struct pair *pair, int which)
{
    (void)which;
    work_rounds(pair->rounds);
}

#define PAIR_ROUNDS 300000

static double line_moves(void *arg)
{
    struct pair pair = { .rounds = PAIR_ROUNDS, .body = alternate };
    (void)arg;
    return pair_run(&pair) / (2.0 * PAIR_ROUNDS);
}

static double atomic_alone(void *arg)
{
    struct pair pair = { .rounds = PAIR_ROUNDS, .body = add_one };
    (void)arg;
    pair_run(&pair);
    return pair.times[0] / PAIR_ROUNDS;
}

static double atomic_contended(void *arg)
{
    struct pair pair = { .rounds = PAIR_ROUNDS, .body = add_both };
    (void)arg;
    return pair_run(&pair) / (2.0 * PAIR_ROUNDS);
}

/* How much longer two loops take side by side than one alone: processors may share a core. */
static double side_by_side(void *arg)
{
    struct pair pair = { .rounds = CALIBRATION, .body = spin_both };
    (void)arg;
    return pair_run(&pair) * rounds_a_ns / CALIBRATION;
}

/* --- A wake-up ---------------------------------------------------------------------------------------------------- */

#define WAKES 40

struct sleeper {
    sem_t call, answer;
    double awake;
};

static void *sleeper_main(void *argument)
{
    struct sleeper *sleeper = argument;
    stay_on(1);
    for (int i = 0; i < WAKES; i++) {
        while (sem_wait(&sleeper->call) != 0)
            ;
        sleeper->awake = now_ns();
        sem_post(&sleeper->answer);
    }
    return NULL;
}

/* Until the sleeper runs; or what it costs the one that wakes it. */
static double wake_up(void *of_the_waker)
{
    struct sleeper sleeper = { .awake = 0 };
    double figures[WAKES];
    pthread_t thread;
    stay_on(0);
    sem_init(&sleeper.call, 0, 0);
    sem_init(&sleeper.answer, 0, 0);
    must("a thread", pthread_create(&thread, NULL, sleeper_main, &sleeper));
    for (int i = 0; i < WAKES; i++) {
        usleep(300);
        double begin = now_ns();
        sem_post(&sleeper.call);
        double posted = now_ns();
        while (sem_trywait(&sleeper.answer) != 0)
            ;
        figures[i] = (*(bool *)of_the_waker ? posted : sleeper.awake) - begin;
    }
    pthread_join(thread, NULL);
    stay_anywhere();
    return median_of(figures, WAKES);
}

/* --- Loads of the pool -------------------------------------------------------------------------------------------- */

static stint_pool *pool_of(unsigned workers)
{
    stint_pool_options options = STINT_POOL_OPTIONS_INIT;
    stint_pool *pool;
    options.workers = workers;
    options.pinned = true;
    options.queue_capacity = 1 << 16;
    must("a pool", stint_pool_create(&options, &pool));
    return pool;
}

/* So many tasks of so many nanoseconds each, put into the queue while all workers are held, and then let go. */
struct batch {
    unsigned workers, accounts;
    size_t tasks;
    double ns;
    atomic_uint held;
    atomic_bool open;
    atomic_size_t left;
    stint_wall *wall;
    double queueing; /* of one, for the submitter */
};

static int hold_worker(void *argument, void **value)
{
    struct batch *batch = argument;
    (void)value;
    atomic_fetch_add(&batch->held, 1);
    while (!atomic_load_explicit(&batch->open, memory_order_acquire))
        ;
    return 0;
}

static int batch_task(void *argument, void **value)
{
    struct batch *batch = argument;
    (void)value;
    work_for(batch->ns);
    return 0;
}

static int walled_task(const void *input, size_t size, stint_reply *reply)
{
    double ns;
    (void)reply;
    memcpy(&ns, input, size);
    work_for(ns);
    return 0;
}

static void hold_all(struct batch *batch, stint_pool *pool)
{
    atomic_store(&batch->held, 0);
    atomic_store(&batch->open, false);
    for (unsigned i = 0; i < batch->workers; i++) {
        stint_future *future;
        must("a task", stint_submit(pool, hold_worker, batch, NULL, &future));
        stint_future_release(future);
    }
    while (atomic_load(&batch->held) < batch->workers)
        usleep(100);
}

static int submit_one(struct batch *batch, stint_pool *pool, stint_options *options, stint_future **future)
{
    if (batch->wall != NULL)
        return stint_submit_walled(pool, batch->wall, walled_task, &batch->ns, sizeof batch->ns, options, future);
    return stint_submit(pool, batch_task, batch, options, future);
}

#define ACCOUNTS_MAX 64

/* Of one task, from the moment at which the workers are let go until the last has ended. */
static double batch_run(void *argument)
{
    struct batch *batch = argument;
    stint_pool *pool = pool_of(batch->workers);
    stint_account *accounts[ACCOUNTS_MAX];
    stint_future **futures = calloc(batch->tasks, sizeof *futures);
    stint_options options = STINT_OPTIONS_INIT;
    stint_outcome outcome;
    for (unsigned i = 0; i < batch->accounts; i++)
        must("an account", stint_account_create(NULL, NULL, &accounts[i]));
    hold_all(batch, pool);
    double queued = now_ns();
    for (size_t i = 0; i < batch->tasks; i++) {
        options.account = batch->accounts != 0 ? accounts[i % batch->accounts] : NULL;
        must("a task", submit_one(batch, pool, &options, &futures[i]));
    }
    double begin = now_ns();
    batch->queueing = (begin - queued) / (double)batch->tasks;
    atomic_store_explicit(&batch->open, true, memory_order_release);
    for (size_t i = batch->tasks; i-- > 0;) {
        /* This thread sleeps in the last one's wait: it leaves the processors to the workers. */
        must("a wait", stint_future_wait(futures[i], &outcome));
        if (outcome.status != STINT_OK)
            give_up("a task failed", outcome.error);
    }
    double elapsed = now_ns() - begin;
    for (size_t i = 0; i < batch->tasks; i++)
        stint_future_release(futures[i]);
    for (unsigned i = 0; i < batch->accounts; i++)
        stint_account_release(accounts[i]);
    free(futures);
    must("the end of a pool", stint_pool_destroy(pool));
    return elapsed / (double)batch->tasks;
}

static double batch_queueing(void *argument)
{
    batch_run(argument);
    return ((struct batch *)argument)->queueing;
}

/* A binary tree of forks, whose leaves work for so many nanoseconds. */
struct tree {
    unsigned workers;
    int depth;
    double ns;
};

struct branch {
    const struct tree *tree;
    int depth;
};

static int branch_out(void *argument, void **value)
{
    const struct branch *branch = argument;
    struct branch next = { branch->tree, branch->depth - 1 };
    stint_subtask subtask;
    if (branch->depth == 0) {
        work_for(branch->tree->ns);
        return 0;
    }
    stint_fork(&subtask, branch_out, &next);
    int error = branch_out(&next, value);
    int joined = stint_join(&subtask, value);
    return error != 0 ? error : joined;
}

struct timed_tree {
    struct branch root;
    double ns;
};

static int grow_twice(void *argument, void **value)
{
    struct timed_tree *timed = argument;
    int error = branch_out(&timed->root, value); /* wakes the other worker */
    double begin = now_ns();
    if (error == 0)
        error = branch_out(&timed->root, value);
    timed->ns = now_ns() - begin;
    return error;
}

/* Of one leaf. */
static double tree_run(void *argument)
{
    const struct tree *tree = argument;
    struct timed_tree timed = { { tree, tree->depth }, 0 };
    stint_pool *pool = pool_of(tree->workers);
    stint_future *future;
    stint_outcome outcome;
    must("a task", stint_submit(pool, grow_twice, &timed, NULL, &future));
    must("a wait", stint_future_wait(future, &outcome));
    if (outcome.status != STINT_OK)
        give_up("a task failed", outcome.error);
    stint_future_release(future);
    must("the end of a pool", stint_pool_destroy(pool));
    return timed.ns / (double)(1 << tree->depth);
}

/* From a fork until another worker has begun it: the other searches all the time, as others have forked before. */
struct theft {
    _Atomic uint64_t begun;
    double ns;
};

static int note_begin(void *argument, void **value)
{
    struct theft *theft = argument;
    (void)value;
    theft->ns = now_ns();
    atomic_store_explicit(&theft->begun, 1, memory_order_release);
    return 0;
}

#define THEFTS 50

static int be_robbed(void *argument, void **value)
{
    double *figure = argument;
    double figures[THEFTS];
    for (int i = 0; i < THEFTS; i++) {
        struct theft theft = { .begun = 0 };
        stint_subtask subtask, another;
        double begin = now_ns();
        stint_fork(&subtask, note_begin, &theft);
        while (atomic_load_explicit(&theft.begun, memory_order_acquire) == 0) {
            struct theft none = { .begun = 0 }; /* its fork shares the older one, if that was asked for */
            stint_fork(&another, note_begin, &none);
            stint_join(&another, value);
        }
        figures[i] = theft.ns - begin;
        stint_join(&subtask, value);
    }
    *figure = median_of(figures, THEFTS);
    return 0;
}

static double steal(void *arg)
{
    stint_pool *pool = pool_of(2);
    stint_future *future;
    double figure = 0;
    (void)arg;
    must("a task", stint_submit(pool, be_robbed, &figure, NULL, &future));
    must("a wait", stint_future_wait(future, NULL));
    stint_future_release(future);
    must("the end of a pool", stint_pool_destroy(pool));
    return figure;
}

/* --- What the process that forks a wall's children takes for each ------------------------------------------------- */

static long parent_of(long pid)
{
    char path[64], line[256];
    long parent = -1;
    snprintf(path, sizeof path, "/proc/%ld/status", pid);
    FILE *file = fopen(path, "r");
    while (file != NULL && parent < 0 && fgets(line, sizeof line, file) != NULL)
        sscanf(line, "PPid: %ld", &parent);
    if (file != NULL)
        fclose(file);
    return parent;
}

static bool is_template(long pid)
{
    char path[64], name[32] = "";
    snprintf(path, sizeof path, "/proc/%ld/comm", pid);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return false;
    bool is = fgets(name, sizeof name, file) != NULL && strcmp(name, "stint-template\n") == 0;
    fclose(file);
    return is && parent_of(parent_of(pid)) == getpid();
}

static long find_template(void)
{
    DIR *folder = opendir("/proc");
    struct dirent *entry;
    long found = 0;
    while (folder != NULL && found == 0 && (entry = readdir(folder)) != NULL) {
        long pid = strtol(entry->d_name, NULL, 10);
        if (pid > 0 && is_template(pid))
            found = pid;
    }
    if (folder != NULL)
        closedir(folder);
    if (found == 0)
        give_up("the wall's template", ESRCH);
    return found;
}

/* Its processor time so far. */
static double time_of(long pid)
{
    char path[64];
    double ns = 0;
    snprintf(path, sizeof path, "/proc/%ld/schedstat", pid);
    FILE *file = fopen(path, "r");
    if (file == NULL || fscanf(file, "%lf", &ns) != 1)
        give_up(path, ENOENT);
    fclose(file);
    return ns;
}

static double template_works(void *argument)
{
    const struct batch *batch = argument;
    long template = find_template();
    double before = time_of(template);
    batch_run(argument);
    return (time_of(template) - before) / (double)batch->tasks;
}

/* --- A token that so many running tasks watch --------------------------------------------------------------------- */

static int wait_for_token(void *argument, void **value)
{
    (void)value;
    atomic_fetch_add((atomic_uint *)argument, 1);
    while (!stint_is_interrupted()) {
        struct timespec moment = { 0, 200000 };
        nanosleep(&moment, NULL);
        stint_checkpoint();
    }
    return 0;
}

static double token_set(void *argument)
{
    unsigned tasks = *(unsigned *)argument;
    stint_future *futures[128];
    atomic_uint running = 0;
    stint_options options = STINT_OPTIONS_INIT;
    stint_pool_options many = STINT_POOL_OPTIONS_INIT;
    stint_pool *pool;
    many.workers = tasks;
    must("a pool", stint_pool_create(&many, &pool));
    must("a token", stint_token_create(NULL, &options.token));
    for (unsigned i = 0; i < tasks; i++)
        must("a task", stint_submit(pool, wait_for_token, &running, &options, &futures[i]));
    while (atomic_load(&running) < tasks)
        usleep(1000);
    double begin = now_ns();
    stint_token_set(options.token);
    double elapsed = now_ns() - begin;
    for (unsigned i = 0; i < tasks; i++) {
        must("a wait", stint_future_wait(futures[i], NULL));
        stint_future_release(futures[i]);
    }
    stint_token_release(options.token);
    must("the end of a pool", stint_pool_destroy(pool));
    return elapsed;
}

/* --- All of it ---------------------------------------------------------------------------------------------------- */

static void print_cost(const char *name, double figure)
{
    static bool any;
    printf("%s  \"%s\": %.2f", any ? ",\n" : "", name, figure);
    any = true;
    fflush(stdout);
}

static void progress(const char *what)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[Kmeasuring %s", what);
}

static void measure_costs(void)
{
    static bool of_the_sleeper = false, of_the_waker = true;
    static unsigned watchers[] = { 1, 16, 64 };
    progress("costs");
    stay_on(0);
    rounds_a_ns = CALIBRATION / measured(time_of_rounds, NULL);
    stay_anywhere();
    print_cost("side_by_side", measured(side_by_side, NULL));
    print_cost("line", measured(line_moves, NULL));
    print_cost("atomic", measured(atomic_alone, NULL));
    print_cost("atomic_contended", measured(atomic_contended, NULL));
    print_cost("wake", measured(wake_up, &of_the_sleeper));
    print_cost("wake_call", measured(wake_up, &of_the_waker));
    print_cost("steal", measured(steal, NULL));
    for (size_t i = 0; i < sizeof watchers / sizeof *watchers; i++) {
        char name[32];
        snprintf(name, sizeof name, "token.%u", watchers[i]);
        print_cost(name, measured(token_set, &watchers[i]));
    }
}

static void measure_batches(const char *kind, unsigned accounts, const double *grains, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t tasks = grains[i] < 2000 ? 20000 : 5000;
        for (unsigned workers = 1; workers <= PROCESSORS; workers++) {
            struct batch batch = { .workers = workers, .accounts = accounts, .tasks = tasks, .ns = grains[i] };
            char name[48];
            snprintf(name, sizeof name, "%s.%g.%u", kind, grains[i], workers);
            progress(name);
            print_cost(name, measured(batch_run, &batch));
        }
    }
}

static void measure_walls(const char *kind, unsigned tasks_per_child, const double *grains, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        for (unsigned workers = 1; workers <= PROCESSORS; workers++) {
            stint_wall_options options = STINT_WALL_OPTIONS_INIT;
            struct batch batch = { .workers = workers, .tasks = 300, .ns = grains[i] };
            char name[48];
            options.children = workers;
            options.tasks_per_child = tasks_per_child;
            must("a wall", stint_wall_create(&options, &batch.wall));
            snprintf(name, sizeof name, "%s.%g.%u", kind, grains[i], workers);
            progress(name);
            print_cost(name, measured(batch_run, &batch));
            if (tasks_per_child == 1 && grains[i] == 0 && workers == 1)
                print_cost("template", measured(template_works, &batch));
            must("the end of a wall", stint_wall_destroy(batch.wall));
        }
    }
}

static void measure_trees(const double *grains, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        for (unsigned workers = 1; workers <= PROCESSORS; workers++) {
            struct tree tree = { workers, grains[i] < 2000 ? 15 : 11, grains[i] };
            char name[48];
            snprintf(name, sizeof name, "fork.%g.%u", grains[i], workers);
            progress(name);
            print_cost(name, measured(tree_run, &tree));
        }
    }
}

int main(int argc, char **argv)
{
    static const double grains[] = { 0, 300, 1000, 5000, 20000 };
    static const double wall_grains[] = { 0, 20000, 100000 };
    cpu_set_t set;
    int found = 0;
    if (argc > 1 && ((turns = atoi(argv[1])) < 1 || turns > TURNS_MAX))
        give_up("usage: measure [TURNS], 1 to 101", EINVAL);
    sched_getaffinity(0, sizeof set, &set);
    for (int i = 0; i < CPU_SETSIZE && found < PROCESSORS; i++) {
        if (CPU_ISSET((size_t)i, &set))
            processors[found++] = (size_t)i;
    }
    if (found < PROCESSORS)
        give_up("two processors are needed", ENODEV);
    printf("{\n");
    measure_costs();
    struct batch queueing = { .workers = 1, .tasks = 20000 };
    print_cost("submit", measured(batch_queueing, &queueing));
    size_t count = sizeof grains / sizeof *grains;
    measure_batches("plain", 0, grains, count);
    measure_batches("account", 1, grains, count);
    measure_batches("accounts", ACCOUNTS_MAX, grains, count);
    measure_trees(grains, count);
    count = sizeof wall_grains / sizeof *wall_grains;
    measure_walls("wall", 1000000, wall_grains, count);
    measure_walls("fresh", 1, wall_grains, count);
    printf("\n}\n");
    progress("");
    return 0;
}
