/* SPDX-License-Identifier: MIT
 *
 * trace_program MODE [PATH]: what trace_read.py reads a trace of. With a path the program traces itself; without one
 * it knows nothing of traces. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../lacks.h"
#include <stint/stint.h>

#define FLOOD 80000
#define WINDOW 1024
#define WORKERS 2

static int must(int error)
{
    if (error != 0) {
        fprintf(stderr, "%s\n", strerror(error));
        exit(1);
    }
    return error;
}

static stint_pool *make_pool(unsigned workers)
{
    stint_pool *pool;
    must(stint_pool_create(
        &(stint_pool_options){ .size = sizeof(stint_pool_options), .workers = workers, .name = "traced" }, &pool));
    return pool;
}

static stint_outcome finish(stint_future *future)
{
    stint_outcome outcome;
    must(stint_future_wait(future, &outcome));
    stint_future_release(future);
    return outcome;
}

static stint_future *submit(stint_pool *pool, const char *name, stint_fn *fn, void *arg, size_t memory)
{
    stint_options options = STINT_OPTIONS_INIT;
    stint_future *future;
    options.name = name;
    options.budget.memory = memory;
    must(stint_submit(pool, fn, arg, &options, &future));
    return future;
}

/* --- Tasks. --- */

static int do_nothing(void *arg, void **value)
{
    (void)arg;
    (void)value;
    return 0;
}

static int fill(void *arg, void **value)
{
    (void)arg;
    for (;;) {
        void **block = stint_malloc(1000);
        if (block == NULL)
            return ENOMEM;
        *block = *value;
        *value = block;
    }
}

static int fill_masked(void *arg, void **value)
{
    stint_mask();
    for (int i = 0; i < 200; i++)
        *value = stint_malloc(1000);
    stint_unmask();
    return fill(arg, value);
}

static int keep_some(void *arg, void **value)
{
    *value = stint_malloc((size_t)(uintptr_t)arg);
    return 0;
}

static int run_inside(void *arg, void **value)
{
    stint_options options = STINT_OPTIONS_INIT;
    stint_outcome outcome;
    (void)value;
    options.name = "inside";
    return stint_run(keep_some, arg, &options, &outcome);
}

static int set_taken(void *arg, void **value)
{
    (void)value;
    atomic_store((atomic_bool *)arg, true);
    return 0;
}

/* The entry lies in this worker's deque, where the worker does not look meanwhile. */
static int have_stolen(void *arg, void **value)
{
    stint_pool *pool = arg;
    atomic_bool taken = false;
    (void)value;
    stint_future *child = submit(pool, "child", set_taken, &taken, 0);
    while (!atomic_load(&taken))
        sched_yield();
    finish(child);
    return 0;
}

static int have_fork_taken(void *arg, void **value)
{
    atomic_bool taken = false;
    stint_subtask part;
    (void)arg;
    (void)value;
    stint_fork(&part, set_taken, &taken);
    while (!atomic_load(&taken)) {
        stint_subtask none;
        stint_fork(&none, do_nothing, NULL);
        stint_join(&none, NULL);
        sched_yield();
    }
    return stint_join(&part, NULL);
}

struct sleeper {
    sem_t begun;
    sem_t release;
};

static void await(sem_t *semaphore)
{
    while (sem_wait(semaphore) != 0)
        ;
}

static int sleep_until_posted(void *arg, void **value)
{
    struct sleeper *sleeper = arg;
    (void)value;
    sem_post(&sleeper->begun);
    await(&sleeper->release);
    return 0;
}

/* --- Modes. --- */

/* As the kernel has it. */
static bool is_sleeping_worker(const char *thread)
{
    char path[64];
    char line[128];
    snprintf(path, sizeof path, "/proc/self/task/%.20s/stat", thread);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return false;
    const char *read = fgets(line, sizeof line, file);
    fclose(file);
    return read != NULL && strstr(line, "(traced/") != NULL && strstr(line, ") S ") != NULL;
}

static int sleeping_workers(void)
{
    int count = 0;
    DIR *threads = opendir("/proc/self/task");
    if (threads == NULL)
        must(errno);
    for (const struct dirent *entry; (entry = readdir(threads)) != NULL;)
        count += is_sleeping_worker(entry->d_name);
    closedir(threads);
    return count;
}

static void do_everything(void)
{
    stint_pool *pool = make_pool(3);
    finish(submit(pool, "quick \"one\" \\ \xc3\xa9\xff\n", do_nothing, NULL, 0));
    stint_worker_statistics statistics = STINT_WORKER_STATISTICS_INIT;
    for (unsigned i = 0; i < 3; i++) {
        do
            must(stint_pool_read_worker(pool, i, &statistics));
        while (statistics.parks == 0 && sched_yield() == 0);
    }
    while (sleeping_workers() < 3)
        sched_yield();
    finish(submit(pool, NULL, do_nothing, NULL, 0));
    finish(submit(pool, "a name of more bytes than a trace has room for", do_nothing, NULL, 0));
    finish(submit(pool, "keeps", keep_some, (void *)10000, 0));
    finish(submit(pool, "too much", fill, NULL, 100000));
    finish(submit(pool, "masked", fill_masked, NULL, 100000));
    finish(submit(pool, "outside", run_inside, (void *)5000, 0));
    finish(submit(pool, "parent", have_stolen, pool, 0));
    finish(submit(pool, "forks", have_fork_taken, NULL, 0));
    stint_options options = STINT_OPTIONS_INIT;
    stint_outcome outcome;
    options.name = "here";
    must(stint_run(do_nothing, NULL, &options, &outcome));
    options.flags = STINT_UNTIMED;
    options.name = "untimed";
    must(stint_run(do_nothing, NULL, &options, &outcome));
    stint_pool_destroy(pool);
}

static void flood(void)
{
    static stint_future *futures[WINDOW];
    stint_pool *pool = make_pool(WORKERS);
    stint_worker_statistics statistics = STINT_WORKER_STATISTICS_INIT;
    unsigned long long parks = 0;
    for (size_t i = 0; i < FLOOD + WINDOW; i++) {
        if (i >= WINDOW)
            finish(futures[i % WINDOW]);
        if (i < FLOOD)
            must(stint_submit(pool, do_nothing, NULL, NULL, &futures[i % WINDOW]));
    }
    for (unsigned i = 0; i < WORKERS; i++) {
        must(stint_pool_read_worker(pool, i, &statistics));
        parks += statistics.parks;
    }
    printf("%d %llu\n", FLOOD, parks);
    stint_pool_destroy(pool);
}

static void fork_child(void)
{
    stint_pool *pool = make_pool(2);
    finish(submit(pool, "before", do_nothing, NULL, 0));
    pid_t child = fork();
    if (child == 0) {
        stint_outcome outcome;
        stint_options options = STINT_OPTIONS_INIT;
        options.name = "in the child";
        bool refused = stint_run(do_nothing, NULL, &options, &outcome) == ENOTSUP && stint_trace_stop() == ENOTSUP;
        exit(refused ? 0 : 1);
    }
    int status;
    if (waitpid(child, &status, 0) != child || status != 0)
        exit(1);
    finish(submit(pool, "after", do_nothing, NULL, 0));
    stint_pool_destroy(pool);
}

static void *run_outside(void *arg)
{
    stint_outcome outcome;
    must(stint_run(do_nothing, NULL, arg, &outcome));
    return NULL;
}

/* One thread after the other has the same ring. */
static void come_and_go(void)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.name = "short";
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        must(pthread_create(&thread, NULL, run_outside, &options));
        pthread_join(thread, NULL);
    }
    puts("all have come and gone");
    fflush(stdout);
}

/* A child of _Fork, which calls no handlers, ends like any other. */
static void fork_silently(void)
{
    stint_outcome outcome;
    int status;
    must(stint_run(do_nothing, NULL, NULL, &outcome));
    pid_t child = _Fork();
    if (child == 0) {
        alarm(20);
        exit(0);
    }
    if (waitpid(child, &status, 0) != child || status != 0)
        exit(1);
}

static bool is_watched; /* by a thread of the library's that may be the last one in the tracer's place */

static void *outlive_main(void *main_thread)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.name = "last";
    options.preemptible = is_watched;
    pthread_join(*(pthread_t *)main_thread, NULL);
    return run_outside(&options);
}

/* The process ends with its last thread, because no thread has called exit. */
/* The library's own threads learn by that whether they are alone. */
static void end_main_first(bool watched)
{
    const char *reason = lack_of_remote_reads();
    if (reason != NULL) {
        printf("not tested: %s\n", reason);
        exit(77);
    }
    static pthread_t main_thread;
    pthread_t other;
    is_watched = watched;
    main_thread = pthread_self();
    must(pthread_create(&other, NULL, outlive_main, &main_thread));
    pthread_detach(other);
    pthread_exit(NULL);
}

static void do_mode(const char *mode)
{
    if (strcmp(mode, "everything") == 0)
        do_everything();
    else if (strcmp(mode, "flood") == 0)
        flood();
    else if (strcmp(mode, "fork") == 0)
        fork_child();
    else if (strcmp(mode, "threads") == 0)
        come_and_go();
    else if (strcmp(mode, "silent") == 0)
        fork_silently();
    else if (strcmp(mode, "mainless") == 0)
        end_main_first(false);
    else if (strcmp(mode, "watched") == 0)
        end_main_first(true);
}

static int open_new(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    return fd >= 0 ? fd : must(errno);
}

/* A task that goes on while the trace ends, and one that has begun before the next. */
static void go_on(const char *path)
{
    stint_pool *pool = make_pool(1);
    struct sleeper sleeper;
    sem_init(&sleeper.begun, 0, 0);
    sem_init(&sleeper.release, 0, 0);
    for (int turn = 0; turn < 2; turn++) {
        int fd = open_new(path);
        must(stint_trace_start(fd));
        stint_future *future = submit(pool, "goes on", sleep_until_posted, &sleeper, 0);
        await(&sleeper.begun);
        must(stint_trace_stop());
        close(fd);
        sem_post(&sleeper.release);
        finish(future);
    }
    stint_pool_destroy(pool);
}

/* --- Traces that come and go while tasks are submitted, stopped, preempted and forked. --- */

#define STORM_TRACES 12

struct storm {
    stint_pool *pool;
    atomic_uint rounds;
    atomic_bool ends;
};

static int fork_a_little(void *arg, void **value)
{
    (void)value;
    if ((uintptr_t)arg == 0)
        return 0;
    stint_subtask part;
    stint_fork(&part, fork_a_little, (void *)((uintptr_t)arg - 1));
    fork_a_little((void *)((uintptr_t)arg - 1), value);
    return stint_join(&part, NULL);
}

static int spin(void *arg, void **value)
{
    (void)value;
    while (atomic_fetch_add((atomic_uint *)arg, 1) < 1U << 30)
        stint_checkpoint();
    return 0;
}

static void *rage(void *arg)
{
    struct storm *storm = arg;
    atomic_uint turns = 0;
    while (!atomic_load(&storm->ends)) {
        stint_options options = STINT_OPTIONS_INIT;
        options.name = "spins";
        options.preemptible = true;
        options.budget.run_ns = 200000;
        stint_future *spins;
        must(stint_submit(storm->pool, spin, &turns, &options, &spins));
        finish(submit(storm->pool, "forks", fork_a_little, (void *)8, 0));
        finish(submit(storm->pool, "too much", fill_masked, NULL, 100000));
        must(stint_run(run_inside, NULL, NULL, &(stint_outcome){ .value = NULL }));
        stint_future_cancel(spins);
        finish(spins);
        atomic_fetch_add(&storm->rounds, 1);
    }
    return NULL;
}

static void storm(const char *path)
{
    struct storm storm = { .pool = make_pool(3) };
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        must(pthread_create(&threads[i], NULL, rage, &storm));
    for (int i = 0; i < STORM_TRACES; i++) {
        char name[200];
        snprintf(name, sizeof name, "%s.%d", path, i);
        int fd = open_new(name);
        must(stint_trace_start(fd));
        /* Every fourth is stopped at once. */
        for (unsigned before = atomic_load(&storm.rounds); atomic_load(&storm.rounds) - before < (unsigned)i % 4;)
            sched_yield();
        must(stint_trace_stop());
        close(fd);
    }
    atomic_store(&storm.ends, true);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    stint_pool_destroy(storm.pool);
}

int main(int count, char **arguments)
{
    if (count == 3 && strcmp(arguments[1], "storm") == 0) {
        storm(arguments[2]);
        return 0;
    }
    if (count == 3 && strcmp(arguments[1], "unfinished") == 0) {
        go_on(arguments[2]);
        return 0;
    }
    int fd = count == 3 ? open_new(arguments[2]) : -1;
    if (fd >= 0)
        must(stint_trace_start(fd));
    do_mode(arguments[1]);
    return fd >= 0 ? must(stint_trace_stop()) : 0;
}
