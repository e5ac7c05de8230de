/* SPDX-License-Identifier: MIT
 *
 * stint_pool_visit: it shows running and waiting tasks wherever a task can wait, and does no harm. */
#include "pools.h"

#define VIEWS 64

struct seen {
    char name[STINT_NAME_SIZE];
    char account[32];
    stint_task_view view;
};

struct views {
    struct seen seen[VIEWS];
    unsigned count;
    unsigned most;
};

static bool note(const stint_task_view *view, void *arg)
{
    struct views *views = arg;
    struct seen *seen = &views->seen[views->count++];
    seen->view = *view;
    snprintf(seen->name, sizeof seen->name, "%s", view->name != NULL ? view->name : "-");
    snprintf(seen->account, sizeof seen->account, "%s", view->account != NULL ? view->account : "-");
    return views->count < views->most;
}

static struct views visit(stint_pool *pool)
{
    struct views views = { .most = VIEWS };
    assert_int_equal(stint_pool_visit(pool, note, &views), 0);
    return views;
}

static const struct seen *find(const struct views *views, const char *name)
{
    const struct seen *found = NULL;
    for (unsigned i = 0; i < views->count; i++) {
        if (strcmp(views->seen[i].name, name) == 0) {
            assert_null(found);
            found = &views->seen[i];
        }
    }
    return found;
}

static stint_future *submit_with(stint_pool *pool, stint_fn *fn, void *arg, stint_options options)
{
    stint_future *future;
    assert_int_equal(stint_submit(pool, fn, arg, &options, &future), 0);
    return future;
}

/* --- What is shown ------------------------------------------------------------------------------------------------ */

struct holder {
    stint_pool *pool;
    struct gate gate;
    stint_future *child;
};

/* With one more in the worker's own deque, and a mebibyte that has been measured. */
static int hold_a_mebibyte_and_a_child(void *arg, void **value)
{
    struct holder *holder = arg;
    stint_options options = { .size = sizeof(stint_options), .name = "child" };
    void *blocks[64];
    for (int i = 0; i < 64; i++)
        blocks[i] = keep(stint_malloc(64 * KIB));
    int error = stint_submit(holder->pool, do_nothing, NULL, &options, &holder->child);
    error = error != 0 ? error : gate_hold(&holder->gate, value);
    for (int i = 0; i < 64; i++)
        stint_free(blocks[i]);
    return error;
}

TEST(what_runs_and_what_waits_is_shown_with_its_name_account_age_and_limits)
{
    char long_name[200];
    memset(long_name, 'n', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    stint_pool *pool = make_pool(.workers = 1);
    struct holder holder = { .pool = pool };
    stint_account *account;
    const stint_account_limits limits = { .size = sizeof(stint_account_limits), .name = "tenant" };
    assert_int_equal(stint_account_create(NULL, &limits, &account), 0);
    stint_options options = { .size = sizeof(stint_options),
                              .name = "runs",
                              .account = account,
                              .budget = { .memory = GIB, .wall_ns = 3600000 * MS } };
    stint_future *running = submit_with(pool, hold_a_mebibyte_and_a_child, &holder, options);
    gate_await(&holder.gate, 1);
    stint_future *waiting[5];
    waiting[0] = submit_with(pool, do_nothing, NULL, (stint_options){ .size = sizeof(stint_options), .name = "plain" });
    waiting[1] =
        submit_with(pool, do_nothing, NULL,
                    (stint_options){ .size = sizeof(stint_options), .name = "of account", .account = account });
    waiting[2] =
        submit_with(pool, do_nothing, NULL,
                    (stint_options){ .size = sizeof(stint_options), .name = "low", .priority = STINT_PRIORITY_LOW });
    waiting[3] =
        submit_with(pool, do_nothing, NULL, (stint_options){ .size = sizeof(stint_options), .name = long_name });
    waiting[4] =
        submit_with(pool, do_nothing, NULL, (stint_options){ .size = sizeof(stint_options), .name = "cancelled" });
    stint_future_cancel(waiting[4]);
    nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);

    struct views views = visit(pool);
    assert_int_equal(views.count, 6);
    const struct seen *seen = &views.seen[0]; /* what runs comes first */
    assert_string_equal(seen->name, "runs");
    assert_string_equal(seen->account, "tenant");
    assert_true(seen->view.running && !seen->view.overdue);
    assert_int_equal(seen->view.worker, 0);
    assert_int_equal(seen->view.deferral, STINT_DEFERRAL_NONE);
    assert_true(seen->view.run_ns >= 2 * MS && seen->view.age_ns >= seen->view.run_ns);
    assert_in_range(seen->view.memory, 2 * MIB, 8 * MIB);
    assert_int_equal(seen->view.limits.memory, GIB);
    assert_int_equal(seen->view.limits.wall_ns, 3600000 * MS);
    const char *const names[] = { "child", "plain", "of account", "low" };
    for (unsigned i = 0; i < 4; i++) {
        seen = find(&views, names[i]);
        assert_non_null(seen);
        assert_false(seen->view.running);
        assert_true(seen->view.age_ns >= 2 * MS);
        assert_int_equal(seen->view.run_ns, 0);
        assert_string_equal(seen->account, i == 2 ? "tenant" : "-");
        assert_int_equal(seen->view.priority, i == 3 ? STINT_PRIORITY_LOW : STINT_PRIORITY_NORMAL);
    }
    long_name[STINT_NAME_SIZE - 1] = '\0';
    assert_non_null(find(&views, long_name));

    struct views one = { .most = 1 };
    assert_int_equal(stint_pool_visit(pool, note, &one), 0);
    assert_int_equal(one.count, 1);
    assert_int_equal(stint_pool_visit(NULL, note, &one), EINVAL);
    assert_int_equal(stint_pool_visit(pool, NULL, &one), EINVAL);
    gate_open(&holder.gate);
    take(running);
    take(holder.child);
    for (int i = 0; i < 5; i++)
        take(waiting[i]);
    assert_int_equal(visit(pool).count, 0);
    assert_int_equal(stint_pool_destroy(pool), 0);
    stint_account_release(account);
}

struct nest {
    stint_pool *pool;
    struct views views;
};

static int visit_from_inside(void *arg, void **value)
{
    struct nest *nest = arg;
    (void)value;
    nest->views.most = VIEWS;
    return stint_pool_visit(nest->pool, note, &nest->views);
}

static int wait_for_one_that_visits(void *arg, void **value)
{
    const struct nest *nest = arg;
    const stint_options options = { .size = sizeof(stint_options), .name = "inner" };
    stint_future *future;
    (void)value;
    int error = stint_submit(nest->pool, visit_from_inside, arg, &options, &future);
    error = error != 0 ? error : stint_future_wait(future, NULL);
    stint_future_release(future);
    return error;
}

TEST(a_task_that_runs_on_top_of_one_that_waits_for_it_is_shown_before_it)
{
    struct nest nest = { .pool = make_pool(.workers = 1) };
    take(submit_with(nest.pool, wait_for_one_that_visits, &nest,
                     (stint_options){ .size = sizeof(stint_options), .name = "outer" }));
    assert_int_equal(nest.views.count, 2);
    assert_string_equal(nest.views.seen[0].name, "inner");
    assert_string_equal(nest.views.seen[1].name, "outer");
    assert_true(nest.views.seen[0].view.running && nest.views.seen[1].view.running);
    assert_int_equal(nest.views.seen[1].view.run_ns, 0);
    assert_int_equal(stint_pool_destroy(nest.pool), 0);
}

static int have_a_part_done(void *arg, void **value)
{
    struct gate *gate = arg;
    stint_subtask part;
    (void)value;
    stint_fork(&part, gate_hold, gate);
    while (atomic_load(&gate->entered) == 0) {
        stint_subtask none; /* to be asked in */
        stint_fork(&none, do_nothing, NULL);
        stint_join(&none, NULL);
        gate_nap();
    }
    return stint_join(&part, NULL);
}

TEST(a_task_that_has_a_part_done_by_another_worker_is_shown_once)
{
    stint_pool *pool = make_pool(.workers = 2);
    struct gate gate = { 0 };
    stint_future *future =
        submit_with(pool, have_a_part_done, &gate, (stint_options){ .size = sizeof(stint_options), .name = "whole" });
    gate_await(&gate, 1);
    struct views views = visit(pool);
    assert_int_equal(views.count, 1);
    assert_true(find(&views, "whole")->view.running);
    gate_open(&gate);
    take(future);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

/* --- What defers an interrupt ------------------------------------------------------------------------------------- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static int hold_masked(void *arg, void **value)
{
    struct gate *gate = arg;
    stint_mask();
    while (!stint_is_interrupted())
        stint_checkpoint();
    gate_hold(gate, value);
    stint_unmask();
    return 0;
}

static int hold_locked(void *arg, void **value)
{
    struct gate *gate = arg;
    pthread_mutex_lock(&mutex);
    while (!stint_is_interrupted())
        stint_checkpoint();
    gate_hold(gate, value);
    pthread_mutex_unlock(&mutex);
    return 0;
}

static void assert_deferral(stint_fn *fn, stint_deferral deferral)
{
    stint_pool *pool = make_pool(.workers = 1);
    struct gate gate = { 0 };
    stint_options options = { .size = sizeof(stint_options), .name = "late", .budget = { .run_ns = MS } };
    stint_future *future = submit_with(pool, fn, &gate, options);
    gate_await(&gate, 1);
    struct views views = visit(pool);
    assert_int_equal(views.count, 1);
    assert_string_equal(stint_deferral_name(views.seen[0].view.deferral), stint_deferral_name(deferral));
    assert_true(views.seen[0].view.overdue);
    gate_open(&gate);
    take(future);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(what_defers_the_interrupt_of_an_overdue_task_is_shown)
{
    assert_deferral(hold_masked, STINT_DEFERRAL_MASK);
    if (stint_malloc_is_overridden()) /* locks are seen then */
        assert_deferral(hold_locked, STINT_DEFERRAL_LOCK);
    assert_string_equal(stint_deferral_name(STINT_DEFERRAL_FRAME), "frame");
    assert_string_equal(stint_deferral_name((stint_deferral)99), "unknown");
}

/* --- It harms nobody ---------------------------------------------------------------------------------------------- */

#define PRODUCERS 3
#define TASKS_EACH 20000
#define WINDOW 64

struct producer {
    pthread_t thread;
    stint_pool *pool;
    uint64_t seed;
    unsigned resolved;
    atomic_uint *done;
};

static int submit_a_child(void *arg, void **value)
{
    stint_future *child;
    (void)value;
    int error = stint_submit(arg, do_nothing, NULL, NULL, &child);
    if (error == 0)
        stint_future_release(child);
    return 0;
}

/* Names and accounts go as soon as their tasks have resolved. */
static void *produce(void *arg)
{
    struct producer *producer = arg;
    stint_future *window[WINDOW];
    char *names[WINDOW];
    for (unsigned i = 0; i < TASKS_EACH + WINDOW; i++) {
        unsigned at = i % WINDOW;
        if (i >= WINDOW && window[at] != NULL) {
            stint_future_wait(window[at], NULL);
            stint_future_release(window[at]);
            free(names[at]);
            producer->resolved++;
        }
        if (i >= TASKS_EACH)
            continue;
        size_t dice = random_below(&producer->seed, 16);
        stint_options options = STINT_OPTIONS_INIT;
        if (dice % 4 == 0)
            stint_account_create(NULL, NULL, &options.account);
        names[at] = malloc(100);
        memset(names[at], 'x', 99);
        names[at][99] = '\0';
        options.name = names[at];
        if (stint_submit(producer->pool, dice < 8 ? submit_a_child : do_nothing, producer->pool, &options,
                         &window[at]) != 0) {
            window[at] = NULL;
            free(names[at]);
        } else if (dice % 3 == 0) {
            stint_future_cancel(window[at]);
        }
        stint_account_release(options.account);
    }
    atomic_fetch_add(producer->done, 1);
    return NULL;
}

static bool check(const stint_task_view *view, void *arg)
{
    if (view->name != NULL &&
        (strlen(view->name) != STINT_NAME_SIZE - 1 || strspn(view->name, "x") != strlen(view->name)))
        *(bool *)arg = false;
    if (view->account != NULL && strncmp(view->account, "account ", 8) != 0)
        *(bool *)arg = false;
    return true;
}

TEST(visits_while_tasks_come_and_go_see_whole_tasks_and_lose_none)
{
    stint_pool *pool = make_pool(.workers = 2);
    struct producer producers[PRODUCERS];
    atomic_uint done = 0;
    for (unsigned i = 0; i < PRODUCERS; i++) {
        producers[i] = (struct producer){ .pool = pool, .seed = i, .done = &done };
        assert_int_equal(pthread_create(&producers[i].thread, NULL, produce, &producers[i]), 0);
    }
    bool whole = true;
    while (atomic_load(&done) < PRODUCERS)
        assert_int_equal(stint_pool_visit(pool, check, &whole), 0);
    for (unsigned i = 0; i < PRODUCERS; i++) {
        pthread_join(producers[i].thread, NULL);
        assert_int_equal(producers[i].resolved, TASKS_EACH);
    }
    assert_true(whole);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST_MAIN()
