/* SPDX-License-Identifier: MIT
 *
 * The chaos program: real libraries in tasks, each stopped at a random point. First a fresh process is asked for the
 * right answers, and what a clean run takes is measured. Then batches of 1,000 interrupts; after each, every library is
 * run undisturbed on every worker and must give the right answers, and every lock must be free. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef CHAOS_SWITCHES
#include "alloc/platform/caller.h"
#endif
#include "tally.h"
#include "watch.h"

#define BATCH 1000
#define MAX_FLIGHTS (2 * 64 + 2)
#define MAX_FAILURES 20

static struct chaos_options options;
static struct chaos_clean clean[CHAOS_LIBRARIES][CHAOS_VARIANTS];
static struct chaos_flight flights[MAX_FLIGHTS];
static size_t flight_count;
static stint_pool *pool;

static _Noreturn void give_up(const char *what, int error)
{
    fprintf(stderr, "chaos: %s: %s\n", what, strerror(error));
    exit(1);
}

static void ready_libraries(void)
{
    for (size_t i = 0; chaos_libraries[i] != NULL; i++) {
        if (chaos_libraries[i]->ready != NULL)
            chaos_libraries[i]->ready();
    }
}

/* --- The right answers -------------------------------------------------------------------------------------------- */

/* In the fresh process: no pool, no scope. */
static void print_answers(void)
{
    for (size_t i = 0; chaos_libraries[i] != NULL; i++) {
        for (unsigned variant = 0; variant < CHAOS_VARIANTS; variant++) {
            uint64_t sum = CHAOS_SUM_BEGIN;
            if (chaos_libraries[i]->run(variant, &sum) != 0)
                give_up(chaos_libraries[i]->name, ENOTRECOVERABLE);
            printf("%" PRIx64 "\n", sum);
        }
    }
}

static void ask_fresh_process(void)
{
    int ends[2];
    if (pipe(ends) != 0)
        give_up("pipe", errno);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        execl("/proc/self/exe", "chaos", "--reference", (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    FILE *answers = fdopen(ends[0], "r");
    bool whole = answers != NULL;
    for (size_t i = 0; chaos_libraries[i] != NULL; i++) {
        for (unsigned variant = 0; variant < CHAOS_VARIANTS; variant++)
            whole = whole && fscanf(answers, "%" SCNx64, &clean[i][variant].sum) == 1;
    }
    int status;
    if (!whole || fclose(answers) != 0 || waitpid(child, &status, 0) != child || status != 0)
        give_up("the fresh process gave no answers", EIO);
}

struct measured {
    const struct chaos_library *library;
    unsigned variant;
};

static int run_measured(void *argument, void **value)
{
    (void)value;
    const struct measured *measured = argument;
    uint64_t sum = CHAOS_SUM_BEGIN;
    return measured->library->run(measured->variant, &sum);
}

static void measure(void)
{
    for (size_t i = 0; chaos_libraries[i] != NULL; i++) {
        for (unsigned variant = 0; variant < CHAOS_VARIANTS; variant++) {
            struct measured measured = { chaos_libraries[i], variant };
            stint_outcome outcome;
            if (stint_run(run_measured, &measured, NULL, &outcome) != 0 || outcome.status != STINT_OK)
                give_up(chaos_libraries[i]->name, ENOTRECOVERABLE);
            clean[i][variant].allocated = outcome.usage.allocated;
            clean[i][variant].peak = outcome.usage.peak;
            if (options.verbose)
                printf("%s %u: %" PRIu64 " bytes allocated, %" PRIu64 " held, %.0f us\n", chaos_libraries[i]->name,
                       variant, outcome.usage.allocated, outcome.usage.peak, (double)outcome.usage.wall_ns / 1e3);
        }
    }
}

/* --- Flights ------------------------------------------------------------------------------------------------------ */

static void land(struct chaos_flight *flight)
{
    if (flight->future == NULL)
        return;
    stint_outcome outcome;
    const char *complaint = chaos_flight_land(flight, &outcome);
    chaos_watch_alive();
    chaos_tally_flight(flight, &outcome, complaint);
}

static void launch(struct chaos_flight *flight, struct chaos_plan plan)
{
    flight->plan = plan;
    flight->clean = clean[plan.library_index][plan.variant];
    int error = chaos_flight_launch(flight, pool);
    if (error != 0)
        give_up("cannot submit", error);
}

static void land_all(void)
{
    for (size_t i = 0; i < flight_count; i++)
        land(&flights[i]);
}

static void run_clean(void)
{
    size_t next = 0;
    for (size_t i = 0; chaos_libraries[i] != NULL; i++) {
        for (unsigned variant = 0; variant < CHAOS_VARIANTS; variant++) {
            for (unsigned worker = 0; worker < options.workers; worker++) {
                struct chaos_flight *flight = &flights[next++ % flight_count];
                land(flight);
                launch(flight, chaos_plan_clean(i, variant));
            }
        }
    }
    land_all();
}

static void try_locks(void)
{
    for (size_t i = 0; chaos_libraries[i] != NULL; i++) {
        if (chaos_libraries[i]->idle != NULL && !chaos_libraries[i]->idle())
            chaos_tally_failure("a lock is held, or what it protects is half done", chaos_libraries[i]->name);
    }
}

/* Makes the thread's own state again. */
static void start_workers(void)
{
    stint_pool_options pool_options = STINT_POOL_OPTIONS_INIT;
    pool_options.workers = options.workers;
    pool_options.worker_begins = chaos_flight_begin_worker;
    int error = pool != NULL ? stint_pool_destroy(pool) : 0;
    if (error == 0)
        error = stint_pool_create(&pool_options, &pool);
    if (error != 0)
        give_up("cannot start workers", error);
}

static bool enough(void)
{
    return (options.interrupts != 0 && chaos_tally_done() >= options.interrupts) ||
           (options.seconds != 0 && chaos_tally_seconds() >= options.seconds) ||
           chaos_tally_failures() >= (options.without != 0 ? 1 : MAX_FAILURES);
}

static void run_batch(uint64_t *state)
{
    uint64_t end = chaos_tally_done() + BATCH;
    for (size_t next = 0; chaos_tally_done() < end && !enough(); next++) {
        struct chaos_flight *flight = &flights[next % flight_count];
        land(flight);
        launch(flight, chaos_plan_make(options.one_task ? options.task : chaos_random(state), &options));
    }
    land_all();
    try_locks();
    run_clean();
    start_workers();
    chaos_tally_batch();
}

/* chaos-rules alone has the switches: what follows has to go wrong. */
static void switch_rules_off(void)
{
#ifdef CHAOS_SWITCHES
    sti_rules_off = options.without;
    if ((options.without & 1U << 31) != 0)
        stint_roots_set_scan(STINT_ROOT_SCAN_NEVER);
    if ((options.without & STI_RULE_PROCESS_BLOCKS) != 0)
        memset(&sti_caller_system, 0, sizeof sti_caller_system);
#else
    if (options.without != 0)
        give_up("--without", ENOTSUP);
#endif
}

int main(int argc, char **argv)
{
    chaos_options_read(&options, argc, argv);
    switch_rules_off();
    ready_libraries();
    if (options.reference) {
        print_answers();
        return 0;
    }
    ask_fresh_process();
    measure();

    flight_count = 2 * options.workers + 2;
    int error = chaos_watch_start(flights, flight_count, &options);
    start_workers(); /* when the handlers of crashes have been set: the library's goes before them */
    if (error == 0)
        error = chaos_interrupter_start(flights, flight_count);
    if (error != 0)
        give_up("cannot start", error);

    chaos_tally_start(&options);
    uint64_t state = options.seed;
    while (!enough())
        run_batch(&state);
    unsigned failures = chaos_tally_end();

    chaos_interrupter_stop();
    error = stint_pool_destroy(pool);
    chaos_watch_stop();
    return failures == 0 && error == 0 ? 0 : 1;
}
