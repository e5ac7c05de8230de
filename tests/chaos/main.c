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
#define COLD_BATCH 40       /* in a process where no task has used a library before */
#define FLIGHTS_A_WORKER 16 /* so that none waits for main, which may be late */
#define MAX_FLIGHTS (FLIGHTS_A_WORKER * 64)
#define MAX_FAILURES 20

static struct chaos_options options;
static struct chaos_clean clean[CHAOS_LIBRARIES][CHAOS_VARIANTS];
static struct chaos_clean first[CHAOS_LIBRARIES][CHAOS_VARIANTS]; /* where the first variant was the first use */
static struct chaos_flight flights[MAX_FLIGHTS];
static size_t flight_count;
static stint_pool *pool;

static _Noreturn void give_up(const char *what, int error)
{
    fprintf(stderr, "chaos: %s: %s\n", what, strerror(error));
    exit(1);
}

static void prepare_libraries(void)
{
    for (size_t i = 0; chaos_libraries[i] != NULL; i++) {
        if (chaos_libraries[i]->prepare != NULL)
            chaos_libraries[i]->prepare();
    }
}

static void ready_libraries(void)
{
    for (size_t i = 0; chaos_libraries[i] != NULL; i++) {
        if (chaos_libraries[i]->ready != NULL)
            chaos_libraries[i]->ready();
    }
}

static void allow_module(const char *name, size_t length)
{
    char text[64];
    snprintf(text, sizeof text, "%.*s", (int)length, name);
    int error = stint_module_allow(text);
    if (error != 0)
        give_up(text, error);
}

static void allow_libraries(void)
{
    for (size_t i = 0; chaos_libraries[i] != NULL; i++) {
        for (const char *name = chaos_libraries[i]->modules; name != NULL && *name != '\0';) {
            size_t length = strcspn(name, ":");
            allow_module(name, length);
            name += length + (name[length] == ':');
        }
    }
}

/* --- The right answers -------------------------------------------------------------------------------------------- */

struct measured {
    const struct chaos_library *library;
    unsigned variant;
    uint64_t sum;
};

static int run_measured(void *argument, void **value)
{
    (void)value;
    struct measured *measured = argument;
    measured->sum = CHAOS_SUM_BEGIN;
    return measured->library->run(measured->variant, &measured->sum);
}

/* Once outside of any scope: that is the answer. And once in one, for what it takes. */
static struct chaos_clean ask_library(const struct chaos_library *library, unsigned variant)
{
    struct measured measured = { .library = library, .variant = variant };
    stint_outcome outcome;
    uint64_t sum = CHAOS_SUM_BEGIN;
    if (!options.cold && library->run(variant, &sum) != 0)
        give_up(library->name, ENOTRECOVERABLE);
    if (stint_run(run_measured, &measured, NULL, &outcome) != 0 || outcome.status != STINT_OK ||
        (!options.cold && measured.sum != sum))
        give_up(library->name, ENOTRECOVERABLE);
    return (struct chaos_clean){
        .sum = measured.sum,
        .allocated = outcome.usage.allocated,
        .peak = outcome.usage.peak,
        .ns = outcome.usage.wall_ns,
    };
}

/* In the fresh process: no pool. With --cold what the very first use takes, and the rest likewise. */
static void print_answers(void)
{
    for (size_t i = 0; chaos_libraries[i] != NULL; i++) {
        for (unsigned variant = 0; variant < CHAOS_VARIANTS; variant++) {
            struct chaos_clean asked = ask_library(chaos_libraries[i], variant);
            printf("%" PRIx64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", asked.sum, asked.allocated, asked.peak,
                   asked.ns);
        }
    }
}

static void ask_fresh_process(struct chaos_clean (*answers)[CHAOS_VARIANTS], bool cold)
{
    int ends[2];
    if (pipe(ends) != 0)
        give_up("pipe", errno);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        execl("/proc/self/exe", "chaos", "--reference", cold ? "--cold" : (char *)NULL, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    FILE *lines = fdopen(ends[0], "r");
    bool whole = lines != NULL;
    for (size_t i = 0; chaos_libraries[i] != NULL; i++) {
        for (unsigned variant = 0; variant < CHAOS_VARIANTS; variant++) {
            struct chaos_clean *answer = &answers[i][variant];
            whole = whole && fscanf(lines, "%" SCNx64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &answer->sum,
                                    &answer->allocated, &answer->peak, &answer->ns) == 4;
            if (options.verbose)
                printf("%s %u: %" PRIu64 " bytes allocated, %" PRIu64 " held, %.0f us\n", chaos_libraries[i]->name,
                       variant, answer->allocated, answer->peak, (double)answer->ns / 1e3);
        }
    }
    int status;
    if (!whole || fclose(lines) != 0 || waitpid(child, &status, 0) != child || status != 0)
        give_up("the fresh process gave no answers", EIO);
}

/* Used once, outside of tasks. */
static void warm_up(void)
{
    for (size_t i = 0; chaos_libraries[i] != NULL; i++) {
        for (unsigned variant = 0; variant < CHAOS_VARIANTS; variant++)
            (void)ask_library(chaos_libraries[i], variant);
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
    /* A limit is somewhere in the first use, or in the later ones. */
    if (options.cold && plan.seed % 2 == 0) {
        flight->clean.allocated = first[plan.library_index][0].allocated;
        flight->clean.peak = first[plan.library_index][0].peak;
    }
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
           chaos_tally_failures() >= (options.without != 0 || options.record ? 1 : MAX_FAILURES);
}

static void run_batch(uint64_t *state)
{
    uint64_t end = chaos_tally_done() + (options.cold ? COLD_BATCH : BATCH);
    for (size_t next = 0; chaos_tally_done() < end && !enough(); next++) {
        struct chaos_flight *flight = &flights[next % flight_count];
        land(flight);
        launch(flight, chaos_plan_make(options.one_task ? options.task : chaos_random(state), &options));
    }
    land_all();
    try_locks();
    run_clean();
    if (!options.cold)
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

/* Batches until there were enough, or one. */
static void fly(uint64_t *state)
{
    int error = chaos_watch_start(flights, flight_count, &options);
    start_workers(); /* when the handlers of crashes have been set: the library's goes before them */
    if (error == 0)
        error = chaos_interrupter_start(flights, flight_count);
    if (error != 0)
        give_up("cannot start", error);
    do {
        run_batch(state);
    } while (!options.cold && !enough());
}

static void land_workers(void)
{
    chaos_interrupter_stop();
    int error = stint_pool_destroy(pool);
    chaos_watch_stop();
    if (error != 0)
        give_up("cannot end the workers", error);
}

static void judge_process(int status)
{
    char text[64];
    if (WIFSIGNALED(status))
        snprintf(text, sizeof text, "by SIG%s", sigabbrev_np(WTERMSIG(status)));
    else
        snprintf(text, sizeof text, "with status %d", WEXITSTATUS(status));
    chaos_tally_failure("a process in which the library was used first ended", text);
}

/* A batch in a process that has not used any library. */
static void fly_cold(uint64_t *state)
{
    int ends[2];
    int status = 0;
    uint64_t own = chaos_random(state);
    if (pipe(ends) != 0)
        give_up("pipe", errno);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        chaos_tally_begin_process();
        fly(&own);
        chaos_tally_hand_over(ends[1]);
        fflush(stdout);
        _exit(0);
    }
    close(ends[1]);
    bool came = child > 0 && chaos_tally_take_over(ends[0]);
    close(ends[0]);
    if (child < 0 || waitpid(child, &status, 0) != child)
        give_up("a process", errno);
    if (!came || status != 0)
        judge_process(status);
}

int main(int argc, char **argv)
{
    uint64_t state;
    chaos_options_read(&options, argc, argv);
    switch_rules_off();
    if (options.allow)
        allow_libraries();
    prepare_libraries();
    if (!options.cold)
        ready_libraries();
    if (options.reference) {
        print_answers();
        return 0;
    }
    ask_fresh_process(clean, false);
    if (options.cold)
        ask_fresh_process(first, true);
    else
        warm_up();

    state = options.seed;
    flight_count = (size_t)FLIGHTS_A_WORKER * options.workers;
    chaos_tally_start(&options);
    if (!options.cold) {
        fly(&state);
        land_workers();
    }
    while (options.cold && !enough())
        fly_cold(&state);
    return chaos_tally_end() == 0 ? 0 : 1;
}
