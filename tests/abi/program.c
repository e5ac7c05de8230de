/* SPDX-License-Identifier: MIT
 *
 * A program of a release, for grown.sh: it is compiled with one release's header (HEADER) and run with another's
 * library. It gives the library each struct that can grow, and asks for each. With LATER each struct of options also
 * has a field that the library is too old to know. */
#include HEADER

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failed;

static void expect(const char *what, long long got, long long wanted)
{
    if (got == wanted)
        return;
    printf("%s: %lld instead of %lld\n", what, got, wanted);
    failed = 1;
}

#ifdef LATER
#define SET_LATER(given) ((given).later_[1] = 1)
#define OUTCOME E2BIG
#else
#define SET_LATER(given) ((void)0)
#define OUTCOME 0
#endif

#define LIMIT (1 << 20)

static int allocate_beyond_limit(void *arg, void **value)
{
    (void)arg;
    (void)value;
    for (int i = 0; i < 4 * LIMIT / 1000; i++) {
        char *volatile block = malloc(1000);
        if (block == NULL)
            return ENOMEM;
        block[0] = 1;
    }
    return 0;
}

static int answer(const void *input, size_t size, stint_reply *reply)
{
    return stint_reply_write(reply, input, size);
}

static void *ignore(const stint_memprof_allocation *allocation, void *arg)
{
    (void)allocation;
    (void)arg;
    return NULL;
}

/* Numbers that the library gives: what lies behind the struct stays, and what it does not know is 0. */
#define READ(type, init, call)                                                                                         \
    do {                                                                                                               \
        struct {                                                                                                       \
            type it;                                                                                                   \
            char behind[64];                                                                                           \
        } room = { .it = init };                                                                                       \
        type *it = &room.it;                                                                                           \
        memset((char *)it + sizeof(size_t), 0x5a, sizeof *it - sizeof(size_t));                                        \
        memset(room.behind, 0x5a, sizeof room.behind);                                                                 \
        expect(#type, call, 0);                                                                                        \
        expect(#type " has kept its size", (long long)it->size, sizeof *it);                                           \
        for (size_t i = 0; i < sizeof room.behind; i++)                                                                \
            expect("what lies behind " #type, room.behind[i], 0x5a);                                                   \
        CHECK_LATER(it);                                                                                               \
    } while (0)

/* A library that knows the field has the same header as we, and fills in nothing there. */
#ifdef GROWN
#define CHECK_LATER(it) expect("a field that no library knows", (it)->later_[0] == 0 && (it)->later_[1] == 0, 1)
#else
#define CHECK_LATER(it) ((void)0)
#endif

int main(void)
{
    /* Before there are threads. */
    stint_wall *wall = NULL;
    stint_wall_options wall_options = STINT_WALL_OPTIONS_INIT;
    wall_options.sandbox = STINT_WALL_OPEN;
    wall_options.children = 1;
    SET_LATER(wall_options);
    expect("stint_wall_create", stint_wall_create(&wall_options, &wall), OUTCOME);

    stint_pool *pool = NULL;
    stint_pool_options pool_options = STINT_POOL_OPTIONS_INIT;
    pool_options.workers = 2;
    SET_LATER(pool_options);
    expect("stint_pool_create", stint_pool_create(&pool_options, &pool), OUTCOME);
    if (pool == NULL)
        expect("a pool with no options", stint_pool_create(NULL, &pool), 0);
    else
        expect("workers", stint_pool_workers(pool), 2);

    stint_options options = STINT_OPTIONS_INIT;
    stint_outcome outcome = { 0 };
    options.budget.allocation = LIMIT;
    SET_LATER(options);
    expect("stint_run", stint_run(allocate_beyond_limit, NULL, &options, &outcome), OUTCOME);
    expect("its reason", outcome.reason, OUTCOME == 0 ? STINT_REASON_ALLOCATION_LIMIT : STINT_REASON_NONE);

    stint_account *account = NULL;
    stint_account_limits limits = STINT_ACCOUNT_LIMITS_INIT;
    limits.allocation = LIMIT;
    SET_LATER(limits);
    expect("stint_account_create", stint_account_create(NULL, &limits, &account), OUTCOME);
    if (account == NULL)
        expect("an account without limits", stint_account_create(NULL, NULL, &account), 0);
    expect("stint_account_set_limits", stint_account_set_limits(account, &limits), OUTCOME);

    stint_profile_options profile = STINT_PROFILE_OPTIONS_INIT;
    SET_LATER(profile);
    expect("stint_profile_start", stint_profile_start(&profile), OUTCOME);
    if (OUTCOME != 0)
        expect("a profile with no options", stint_profile_start(NULL), 0);
    READ(stint_profile_totals, STINT_PROFILE_TOTALS_INIT, stint_profile_read(it));
    expect("stint_profile_stop", stint_profile_stop(), 0);
    stint_memprof_options memprof = STINT_MEMPROF_OPTIONS_INIT;
    memprof.tracker.alloc = ignore;
    SET_LATER(memprof);
    expect("stint_memprof_start", stint_memprof_start(&memprof), OUTCOME);
    stint_memprof_stop();

    READ(stint_link_report, STINT_LINK_REPORT_INIT, stint_link_check(it));
    READ(stint_account_usage, STINT_ACCOUNT_USAGE_INIT, stint_account_read(account, it));
    READ(stint_pool_statistics, STINT_POOL_STATISTICS_INIT, stint_pool_read(pool, it));
    READ(stint_worker_statistics, STINT_WORKER_STATISTICS_INIT, stint_pool_read_worker(pool, 0, it));

    if (wall == NULL) {
        wall_options = (stint_wall_options)STINT_WALL_OPTIONS_INIT;
        wall_options.sandbox = STINT_WALL_OPEN;
    } else {
        stint_future *future = NULL;
        stint_wall_call call = STINT_WALL_CALL_INIT;
        call.fn = answer;
        call.input = "hello";
        call.input_size = 5;
        expect("stint_submit_walled_call", stint_submit_walled_call(pool, wall, &call, NULL, &future), 0);
        expect("stint_future_wait", stint_future_wait(future, &outcome), 0);
        expect("a walled task", outcome.status, STINT_OK);
        expect("its reply", outcome.payload_size == 5 && memcmp(outcome.value, "hello", 5) == 0, 1);
        free(outcome.value);
        stint_future_release(future);
        READ(stint_wall_statistics, STINT_WALL_STATISTICS_INIT, stint_wall_read(wall, it));
    }

    stint_account_release(account);
    expect("stint_pool_destroy", stint_pool_destroy(pool), 0);
    expect("stint_wall_destroy", stint_wall_destroy(wall), 0);
    return failed;
}
