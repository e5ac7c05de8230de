/* SPDX-License-Identifier: MIT
 *
 * Forks at any moment of what other threads do with this library: they take the locks that it looks after over a fork,
 * in turn, over and over, while tasks run in a pool, threads start and end, and a profile is taken. Several threads
 * fork, some of the time inside a task. Each child takes those locks itself, runs tasks that are rolled back, and now
 * and then has a pool of its own; none hangs, and each says so. 100,000 children, or as many as the first argument
 * says; one in 16 has a pool, or one in as many as the second says.
 *
 * It is cheap: a small process, and children that write to few pages and leave by _exit. One lock is taken many times
 * in a row by all, so that forks come upon it held; a child that stood still tells by a shared page at what. */
#include "support.h"

#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define PATIENCE 10 /* seconds until a child that hangs is ended */
#define FORKING 2   /* threads */
#define BUSY 2
#define SLICE_NS 1000000
#define IN_A_ROW 8

static unsigned pool_every = 16; /* children, of which one has a pool and threads of its own */
static atomic_bool enough;
static stint_account *account;
static stint_account *narrow; /* one task at a time: the others wait for its slot */
static stint_pool *pool;
static char text[256];

/* --- What threads do, each that takes a lock: 0, or why it is wrong. ---------------------------------------------- */

static int note_module(struct dl_phdr_info *info, size_t size, void *count)
{
    (void)info;
    (void)size;
    ++*(unsigned *)count;
    return 0;
}

static int visit_modules(void)
{
    unsigned modules = 0;
    dl_iterate_phdr(note_module, &modules);
    return modules > 0 ? 0 : ENOENT;
}

static int allocate_and_fail(void *arg, void **value)
{
    (void)arg;
    (void)value;
    for (size_t size = 16; size < 4096; size *= 2)
        keep(stint_malloc(size));
    return EIO;
}

static int run_to_failure(stint_fn *fn, const stint_options *options)
{
    stint_outcome outcome;
    int error = stint_run(fn, NULL, options, &outcome);
    if (error != 0)
        return error;
    return outcome.status == STINT_ERROR && outcome.error == EIO ? 0 : EPROTO;
}

static int roll_back(void)
{
    return run_to_failure(allocate_and_fail, NULL);
}

static int roll_back_in_account(void)
{
    const stint_options options = { .size = sizeof(stint_options),
                                    .account = account,
                                    .budget = { .wall_ns = 10000000000, .memory = MIB } };
    return run_to_failure(allocate_and_fail, &options);
}

/* A root of each thread, so that nobody frees another's. */
static _Thread_local void *root;

static int leave_a_root(void *arg, void **value)
{
    (void)arg;
    (void)value;
    root = stint_malloc(64);
    return EIO;
}

static int keep_and_free(void)
{
    int error = run_to_failure(leave_a_root, NULL);
    stint_free(root);
    root = NULL;
    return error;
}

static int open_and_fail(void *arg, void **value)
{
    (void)arg;
    (void)value;
    return fmemopen(text, sizeof text, "r") != NULL ? EIO : errno;
}

static int close_handle(void)
{
    return run_to_failure(open_and_fail, NULL);
}

static void told_of_a_root(const stint_root *told, void *arg)
{
    (void)told;
    (void)arg;
}

static int set_root_report(void)
{
    stint_roots_set_report(told_of_a_root, NULL);
    return 0;
}

static int set_global_report(void)
{
    stint_global_set_report(NULL, NULL);
    return 0;
}

static int read_profile(void)
{
    stint_profile_totals totals = STINT_PROFILE_TOTALS_INIT;
    int error = stint_profile_read(&totals);
    return error == EINVAL ? 0 : error; /* a child has none */
}

static int read_account(void)
{
    stint_account_usage usage = STINT_ACCOUNT_USAGE_INIT;
    return stint_account_read(account, &usage);
}

static int watch_token(void)
{
    stint_token *token;
    int error = stint_token_create(NULL, &token);
    if (error != 0)
        return error;
    int descriptor;
    error = stint_token_fd(token, &descriptor);
    stint_token_release(token);
    return error;
}

static int return_at_once(void *arg, void **value)
{
    (void)value;
    void *block = keep(stint_malloc(100));
    if (arg != NULL)
        return EIO;
    stint_free(block);
    return 0;
}

static int await_another(void *to, void **value)
{
    stint_future *future;
    stint_outcome outcome;
    (void)value;
    int error = stint_submit(to, return_at_once, NULL, NULL, &future);
    if (error != 0)
        return error;
    error = stint_future_wait(future, &outcome);
    stint_future_release(future);
    return error != 0 ? error : outcome.status == STINT_OK ? 0 : EPROTO;
}

static int submit_to(stint_pool *to)
{
    stint_future *futures[4];
    const stint_options options = { .size = sizeof(stint_options), .account = narrow };
    int error = 0;
    unsigned count = 0;
    while (error == 0 && count < 4) {
        error = count == 0 ? stint_submit(to, await_another, to, NULL, &futures[count])
                           : stint_submit(to, return_at_once, NULL, &options, &futures[count]);
        count += error == 0;
    }
    for (unsigned i = 0; i < count; i++) {
        stint_outcome outcome;
        int end = stint_future_wait(futures[i], &outcome);
        if (error == 0)
            error = end != 0 ? end : outcome.status == STINT_OK ? 0 : outcome.error != 0 ? outcome.error : EPROTO;
        stint_future_release(futures[i]);
    }
    return error;
}

static int submit(void)
{
    return submit_to(pool);
}

static int make_pool(void)
{
    stint_pool *made;
    const stint_pool_options one = { .size = sizeof(stint_pool_options), .workers = 1 };
    int error = stint_pool_create(&one, &made);
    return error == 0 ? stint_pool_destroy(made) : error;
}

static bool look_at_task(const stint_task_view *view, void *count)
{
    (void)view;
    ++*(unsigned *)count;
    return true;
}

static int visit_tasks(void)
{
    unsigned count = 0;
    return stint_pool_visit(pool, look_at_task, &count);
}

static void *live_shortly(void *arg)
{
    void *blocks[8];
    for (size_t i = 0; i < 8; i++)
        blocks[i] = stint_malloc((size_t)16 << i);
    int error = roll_back();
    for (size_t i = 0; i < 8; i++)
        stint_free(blocks[i]);
    return error == 0 ? arg : NULL;
}

static int start_thread(void)
{
    pthread_t thread;
    void *ended = NULL;
    int error = pthread_create(&thread, NULL, live_shortly, text);
    if (error == 0)
        error = pthread_join(thread, &ended);
    return error != 0 ? error : ended != NULL ? 0 : EPROTO;
}

static const struct use {
    const char *name;
    int (*once)(void);
    enum { OF_ALL, OF_CHILDREN, OF_PARENTS } of;
} uses[] = {
    { "the loader", visit_modules, OF_CHILDREN }, /* the library alone looks after that lock */
    { "a rollback", roll_back, OF_ALL },
    { "a rollback with an account", roll_back_in_account, OF_ALL },
    { "a block that is kept", keep_and_free, OF_ALL },
    { "a handle that is closed", close_handle, OF_ALL },
    { "the report of roots", set_root_report, OF_ALL },
    { "the report of the whole process", set_global_report, OF_ALL },
    { "the profile", read_profile, OF_ALL },
    { "an account", read_account, OF_ALL },
    { "the watch", watch_token, OF_ALL },
    { "a pool", submit, OF_PARENTS },
    { "a pool that begins and ends", make_pool, OF_PARENTS },
    { "a visit", visit_tasks, OF_PARENTS },
    { "a thread", start_thread, OF_PARENTS },
};
#define USES (sizeof uses / sizeof *uses)

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* All at the same time at the same, so that its lock is hardly ever free. */
static void *be_busy(void *unused)
{
    while (!atomic_load(&enough)) {
        const struct use *use = &uses[now() / SLICE_NS % USES];
        for (int i = 0; i < IN_A_ROW && use->of != OF_CHILDREN; i++) {
            if (use->once() != 0) {
                dprintf(STDERR_FILENO, "in the parent: %s\n", use->name);
                abort();
            }
        }
    }
    return unused;
}

/* --- Children ----------------------------------------------------------------------------------------------------- */

struct forking {
    pthread_t thread;
    unsigned forks; /* still to come */
    unsigned done;
    unsigned bad;
    atomic_uint *where; /* what the child does; USES: it has a pool. Shared with it */
    int status;         /* of the bad one, which is the last */
};

static int have_a_pool(void)
{
    stint_pool *own;
    stint_pool *parents = pool;
    if (stint_submit(parents, return_at_once, NULL, NULL, &(stint_future *){ NULL }) != EOWNERDEAD)
        return EPROTO;
    const stint_pool_options options = { .size = sizeof(stint_pool_options), .workers = 2 };
    int error = stint_pool_create(&options, &own);
    for (int i = 0; i < 4 && error == 0; i++)
        error = submit_to(own);
    unsigned count = 0;
    if (error == 0)
        error = stint_pool_visit(own, look_at_task, &count);
    if (error == 0)
        error = start_thread();
    return error != 0 ? error : stint_pool_destroy(own);
}

static int live(const struct forking *forking)
{
    for (unsigned i = 0; i < USES; i++) {
        atomic_store(forking->where, i);
        if (uses[i].of != OF_PARENTS && uses[i].once() != 0)
            return 1;
    }
    stint_account_usage usage = STINT_ACCOUNT_USAGE_INIT;
    if (stint_account_read(account, &usage) != 0 || usage.running != 0 || usage.memory != 0)
        return 2;
    atomic_store(forking->where, USES);
    return forking->forks % pool_every == 0 && have_a_pool() != 0 ? 3 : 0;
}

static int fork_once(struct forking *forking)
{
    pid_t child = fork();
    if (child == 0) {
        alarm(PATIENCE);
        _exit(live(forking));
    }
    int status = -1;
    if (child < 0 || waitpid(child, &status, 0) != child)
        return -1;
    return status;
}

static int fork_in_task(void *arg, void **status)
{
    *status = (void *)(intptr_t)fork_once(arg);
    return 0;
}

static void note(struct forking *forking, int status)
{
    forking->done++;
    if (status == 0)
        return;
    forking->bad++;
    forking->status = status;
    atomic_store(&enough, true);
}

static void *fork_on_and_on(void *arg)
{
    struct forking *forking = arg;
    for (; forking->forks > 0 && !atomic_load(&enough); forking->forks--) {
        stint_outcome outcome;
        if (forking->forks % 4 != 0)
            note(forking, fork_once(forking));
        else if (stint_run(fork_in_task, forking, NULL, &outcome) != 0 || outcome.status != STINT_OK)
            note(forking, -1);
        else
            note(forking, (int)(intptr_t)outcome.value);
    }
    return NULL;
}

static const char *name_of(unsigned where)
{
    return where < USES ? uses[where].name : "a pool of its own";
}

static unsigned forks = 100000;

static void start_all(struct forking *forking, pthread_t *busy, atomic_uint *where)
{
    for (unsigned i = 0; i < BUSY; i++)
        assert_int_equal(pthread_create(&busy[i], NULL, be_busy, NULL), 0);
    for (unsigned i = 0; i < FORKING; i++) {
        forking[i] = (struct forking){ .forks = (forks + i) / FORKING, .where = &where[i] };
        assert_int_equal(pthread_create(&forking[i].thread, NULL, fork_on_and_on, &forking[i]), 0);
    }
}

/* How many children ended well. */
static unsigned wait_for_all(const struct forking *forking, const pthread_t *busy)
{
    unsigned good = 0;
    for (unsigned i = 0; i < FORKING; i++) {
        pthread_join(forking[i].thread, NULL);
        good += forking[i].done - forking[i].bad;
        if (forking[i].bad > 0)
            print_error("in %u forks: status %#x at %s\n", forking[i].done, (unsigned)forking[i].status,
                        name_of(atomic_load(forking[i].where)));
    }
    atomic_store(&enough, true);
    for (unsigned i = 0; i < BUSY; i++)
        pthread_join(busy[i], NULL);
    return good;
}

TEST(no_child_hangs_whatever_lock_its_parent_held)
{
    atomic_uint *where = mmap(NULL, FORKING * sizeof *where, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(where, MAP_FAILED);
    const stint_account_limits limits = { .size = sizeof(stint_account_limits), .running = 64, .memory = 64 * MIB };
    const stint_pool_options two = { .size = sizeof(stint_pool_options), .workers = 2 };
    const stint_profile_options often = { .size = sizeof(stint_profile_options),
                                          .interval = 4096,
                                          .callstack_depth = 4 };
    assert_int_equal(stint_account_create(NULL, &limits, &account), 0);
    const stint_account_limits one_at_a_time = { .size = sizeof(stint_account_limits), .running = 1 };
    assert_int_equal(stint_account_create(NULL, &one_at_a_time, &narrow), 0);
    assert_int_equal(stint_pool_create(&two, &pool), 0);
    assert_int_equal(stint_profile_start(&often), 0);
    struct forking forking[FORKING];
    pthread_t busy[BUSY];
    start_all(forking, busy, where);
    unsigned good = wait_for_all(forking, busy);
    print_message("%u forks\n", good);
    assert_int_equal(good, forks);
    assert_int_equal(stint_profile_stop(), 0);
    assert_int_equal(stint_pool_destroy(pool), 0);
    stint_roots_set_report(NULL, NULL);
    stint_account_usage usage = STINT_ACCOUNT_USAGE_INIT;
    assert_int_equal(stint_account_read(account, &usage), 0);
    assert_int_equal(usage.running, 0);
    assert_int_equal(usage.memory, 0);
    stint_account_release(account);
    stint_account_release(narrow);
    munmap(where, FORKING * sizeof *where);
}

int main(int count, char **arguments)
{
    if (count > 1)
        forks = (unsigned)strtoul(arguments[1], NULL, 10);
    if (count > 2)
        pool_every = (unsigned)strtoul(arguments[2], NULL, 10);
    return run_all_tests(NULL, NULL);
}
