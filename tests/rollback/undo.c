/* SPDX-License-Identifier: MIT
 *
 * Tasks on several threads, with scopes inside scopes, that open and close handles and change their thread at random.
 * A scope that fails leaves everything as it was before; the changes of a scope that succeeds stay. */
#include "support.h"

#include <dirent.h>
#include <locale.h>
#include <regex.h>
#include <signal.h>

#define THREADS 3
#define TASKS 2000 /* a thread */
#define KEYS 3
#define MOST 200 /* handles that are open at once */

static pthread_key_t keys[KEYS];
static locale_t other;

/* --- What is open --- */

enum kind { FILE_OPEN, DIRECTORY_OPEN, REGEX_OPEN, KINDS };

struct handle {
    enum kind kind;
    void *opened; /* NULL: it is closed again */
    regex_t regex;
};

static void open_one(struct handle *handle, enum kind kind)
{
    handle->kind = kind;
    handle->opened = NULL;
    if (kind == FILE_OPEN)
        handle->opened = fopen("/dev/null", "w");
    else if (kind == DIRECTORY_OPEN)
        handle->opened = opendir("/proc");
    else if (regcomp(&handle->regex, "a*b", REG_EXTENDED) == 0)
        handle->opened = handle;
}

static void *close_one(void *arg)
{
    struct handle *handle = arg;
    if (handle->opened == NULL)
        return NULL;
    if (handle->kind == FILE_OPEN)
        fclose(handle->opened);
    else if (handle->kind == DIRECTORY_OPEN)
        closedir(handle->opened);
    else
        regfree(&handle->regex);
    handle->opened = NULL;
    return NULL;
}

static void close_elsewhere(struct handle *handle)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, close_one, handle) == 0)
        pthread_join(thread, NULL);
}

/* --- What the thread has --- */

struct state {
    void *values[KEYS];
    locale_t locale;
    bool is_blocked;
    int cancel;
};

static struct state state_now(void)
{
    struct state state;
    sigset_t mask;
    for (unsigned i = 0; i < KEYS; i++)
        state.values[i] = pthread_getspecific(keys[i]);
    state.locale = uselocale((locale_t)0);
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    state.is_blocked = sigismember(&mask, SIGUSR2) == 1;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state.cancel);
    pthread_setcancelstate(state.cancel, NULL);
    return state;
}

static bool is_same(const struct state *a, const struct state *b)
{
    return memcmp(a->values, b->values, sizeof a->values) == 0 && a->locale == b->locale &&
           a->is_blocked == b->is_blocked && a->cancel == b->cancel;
}

static void change(uint64_t *random)
{
    sigset_t set;
    switch (random_below(random, 4)) {
    case 0:
        pthread_setspecific(keys[random_below(random, KEYS)], &keys[random_below(random, KEYS)]);
        break;
    case 1:
        uselocale(random_below(random, 2) == 0 ? other : LC_GLOBAL_LOCALE);
        break;
    case 2:
        sigemptyset(&set);
        sigaddset(&set, SIGUSR2);
        pthread_sigmask(random_below(random, 2) == 0 ? SIG_BLOCK : SIG_UNBLOCK, &set, NULL);
        break;
    default:
        pthread_setcancelstate(random_below(random, 2) == 0 ? PTHREAD_CANCEL_DISABLE : PTHREAD_CANCEL_ENABLE, NULL);
    }
}

/* --- Scopes --- */

struct run {
    uint64_t random;
    struct handle handles[MOST];
    size_t count;
    unsigned bad; /* times that something was not as it should be */
};

struct level {
    struct run *run;
    unsigned depth;
    int error; /* that it ends with */
};

static void run_scope(struct run *run, unsigned depth);

static int work(void *arg, void **value)
{
    const struct level *level = arg;
    struct run *run = level->run;
    (void)value;
    for (int i = 0; i < 6; i++) {
        size_t which = run->count > 0 ? random_below(&run->random, run->count) : 0;
        switch (random_below(&run->random, 5)) {
        case 0:
            if (run->count < MOST)
                open_one(&run->handles[run->count++], (enum kind)random_below(&run->random, KINDS));
            break;
        case 1:
            if (run->count > 0 && random_below(&run->random, 20) == 0)
                close_elsewhere(&run->handles[which]);
            else if (run->count > 0)
                close_one(&run->handles[which]);
            break;
        case 2:
            if (level->depth > 0)
                run_scope(run, level->depth - 1);
            break;
        default:
            change(&run->random);
        }
    }
    while (level->error < 0)
        free(keep(malloc(4096)));
    return level->error;
}

static void run_scope(struct run *run, unsigned depth)
{
    static const int errors[] = { 0, 0, EIO, -1 };
    struct level level = { .run = run, .depth = depth, .error = errors[random_below(&run->random, 4)] };
    stint_options options = STINT_OPTIONS_INIT;
    stint_outcome outcome;
    options.budget.allocation = level.error < 0 ? 128 * KIB : 0;
    options.on_interrupt = random_below(&run->random, 2) == 0 ? STINT_JUMP : STINT_UNWIND;
    size_t count = run->count;
    struct state before = state_now();
    if (stint_run(work, &level, &options, &outcome) != 0)
        run->bad++;
    if (outcome.status == STINT_OK)
        return;
    struct state after = state_now();
    run->bad += !is_same(&before, &after);
    run->count = count;
}

static void *run_tasks(void *arg)
{
    struct run *run = arg;
    for (unsigned i = 0; i < repeats(TASKS); i++) {
        run_scope(run, 3);
        for (size_t k = 0; k < run->count; k++)
            close_one(&run->handles[k]);
        run->count = 0;
    }
    return NULL;
}

static int open_descriptors(void)
{
    int count = 0;
    for (int i = 0; i < 1000; i++)
        count += fcntl(i, F_GETFD) >= 0;
    return count;
}

TEST(each_scope_that_fails_leaves_all_as_it_was)
{
    struct run *runs = calloc(THREADS, sizeof *runs); /* what a variable led to would stay open */
    pthread_t threads[THREADS];
    unsigned bad = 0;
    int before = open_descriptors();
    other = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    for (unsigned i = 0; i < KEYS; i++)
        assert_int_equal(pthread_key_create(&keys[i], NULL), 0);
    for (unsigned i = 0; i < THREADS; i++) {
        runs[i].random = i;
        assert_int_equal(pthread_create(&threads[i], NULL, run_tasks, &runs[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        bad += runs[i].bad;
    }
    assert_int_equal(bad, 0);
    assert_int_equal(open_descriptors(), before);
    for (unsigned i = 0; i < KEYS; i++)
        pthread_key_delete(keys[i]);
    freelocale(other);
    free(runs);
}

TEST_MAIN()
