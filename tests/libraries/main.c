/* SPDX-License-Identifier: MIT
 *
 * The chaos over libraries that are not on the list (docs/interrupts.md): each is used in place, first of all inside a
 * task, and its tasks are stopped at random points, with a grace that is often too small. No frame of it may ever be
 * left: a guard and the unwinder's entry look at that by libgcc (frames.h). What it does at worst is what it does in a
 * program without stint whose malloc fails: end the process, where that does so too (plain.c). So each library has
 * processes of its own, one after the other. What it puts into tables of the process is kept: from the start
 * (caller.c), or because this program says so, where that would take too much from all others. So no answer may be
 * wrong, and no process end but by what was refused.
 *
 * A row says: flights that landed, those that ended Ok and those that were stopped; guards that ran, and how often
 * frames were looked at; in whose midst a library was left; wrong answers; processes that ended, those of them of whose
 * task nothing was refused, signals by which they ended and no plain program does, and
 * those that hung. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stint/stint.h>

#include "../wall/libraries/library.h"

#include "frames.h"

#define SEEDS 24
#define WORKERS 2
#define FLIGHTS 4     /* at once */
#define A_PROCESS 500 /* flights; the library's caches and leaks go with the process */
/* Seconds without a resume point: it hangs. */
#define PATIENCE 20
#define TRIALS_MAX 500 /* of the program without stint */
#define TRIALS_RARE 1000

static const struct library *const libraries[] = { LIBRARIES NULL };

/* Between the program and its processes. */
struct course {
    uint64_t seed;
    uint64_t first, until; /* flights */
    uint64_t answers[SEEDS];
    uint64_t allocated, peak, ns; /* by a piece of work, at most */
    atomic_ulong flown, ok, stopped, left, looked_at, foreign, wrong;
    atomic_bool died, was_interrupted, is_measured;
    atomic_int signal; /* 0: by exit */
    char said[160];
};

static struct {
    uint64_t flights;
    const char *library;
    const char *plain;
    uint64_t seed;
    unsigned rarely; /* one flight of so many has next to no grace */
} wanted = { .flights = 200, .seed = 1, .rarely = 20 };

static struct course *course;
static const struct library *library;

static _Noreturn void give_up(const char *what, int error)
{
    fprintf(stderr, "unlisted-libraries: %s: %s\n", what, strerror(error));
    exit(1);
}

static uint64_t random_below(uint64_t *random, uint64_t below)
{
    return below == 0 ? 0 : random_of(random) % below;
}

/* --- In a process of its own: how it ends --- */

static void note_death(int signal)
{
    atomic_store(&course->signal, signal);
    atomic_store(&course->was_interrupted, stint_is_interrupted());
    atomic_store(&course->died, true);
}

static void on_end(int number)
{
    note_death(number);
    signal(number, SIG_DFL);
    raise(number);
}

static bool is_ending_well;

static void on_exit_of_library(void)
{
    if (!is_ending_well)
        note_death(0);
}

static void watch_ends(void)
{
    static const int ends[] = { SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP };
    struct sigaction action = { .sa_handler = on_end, .sa_flags = SA_NODEFER | SA_ONSTACK };
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        sigaction(ends[i], &action, NULL);
    atexit(on_exit_of_library);
}

/* --- Flights --- */

/* Each function of the work is a sample point where it begins and where it ends: compiled with
 * -finstrument-functions. */
void __cyg_profile_func_enter(void *function, void *caller);
void __cyg_profile_func_exit(void *function, void *caller);

void __cyg_profile_func_enter(void *function, void *caller)
{
    (void)function;
    (void)caller;
    stint_checkpoint();
}

void __cyg_profile_func_exit(void *function, void *caller)
{
    __cyg_profile_func_enter(function, caller);
}

static void be_patient(void)
{
    alarm(PATIENCE);
}

struct flight {
    stint_future *future;
    uint32_t seed;
    uint64_t sum;
};

static void look_at_frames(void *unused)
{
    (void)unused;
    atomic_fetch_add_explicit(&course->left, 1, memory_order_relaxed);
    frames_look();
}

static int fly(void *argument, void **value)
{
    struct flight *flight = argument;
    stint_guard guard;
    uint64_t sum = SUM_BEGIN;
    (void)value;
    frames_begin();
    stint_guard_push(&guard, look_at_frames, NULL);
    int error = library->work(flight->seed, &sum);
    stint_guard_pop(&guard, false);
    flight->sum = sum;
    return error;
}

/* Small and large are as likely: a first use may take a hundred times as much as later uses. */
static uint64_t part_of(uint64_t whole, uint64_t *random)
{
    return 1 + random_below(random, whole >> random_below(random, 8));
}

static stint_options plan(uint64_t *random)
{
    static const stint_on_interrupt modes[] = { STINT_JUMP, STINT_JUMP, STINT_UNWIND, STINT_UNWIND, STINT_FAIL };
    stint_options options = STINT_OPTIONS_INIT;
    options.on_interrupt = modes[random_below(random, 5)];
    if (options.on_interrupt == STINT_FAIL && random_below(random, wanted.rarely) != 0)
        options.on_interrupt = STINT_JUMP;
    if (random_below(random, wanted.rarely) == 0)
        options.grace = 1 + random_below(random, 4096);
    switch (random_below(random, 4)) {
    case 0:
        options.budget.allocation = part_of(course->allocated, random);
        break;
    case 1:
        options.budget.memory = part_of(course->peak, random);
        break;
    case 2:
        options.budget.run_ns = part_of(course->ns, random);
        break;
    default:
        break;
    }
    return options;
}

static void land(struct flight *flight)
{
    stint_outcome outcome;
    const char *module;
    if (flight->future == NULL)
        return;
    stint_future_wait(flight->future, &outcome);
    stint_future_release(flight->future);
    flight->future = NULL;
    be_patient();
    bool is_right = outcome.status == STINT_OK ? flight->sum == course->answers[flight->seed]
                                               : outcome.reason != STINT_REASON_FAILED;
    atomic_fetch_add(outcome.status == STINT_OK ? &course->ok : &course->stopped, 1);
    atomic_fetch_add(&course->wrong, is_right ? 0 : 1);
    atomic_store(&course->looked_at, frames_looked_at());
    atomic_store(&course->foreign, frames_foreign(&module));
    if (module != NULL)
        snprintf(course->said, sizeof course->said, "%s", module);
    atomic_fetch_add(&course->flown, 1);
}

static void fly_all(void)
{
    static struct flight flights[FLIGHTS];
    stint_pool_options options = STINT_POOL_OPTIONS_INIT;
    stint_pool *pool;
    options.workers = WORKERS;
    int error = stint_pool_create(&options, &pool);
    for (uint64_t i = course->first; i < course->until && error == 0; i++) {
        struct flight *flight = &flights[i % FLIGHTS];
        uint64_t random = course->seed + i * UINT64_C(0x9e3779b97f4a7c15);
        land(flight);
        flight->seed = (uint32_t)random_below(&random, SEEDS);
        stint_options planned = plan(&random);
        error = stint_submit(pool, fly, flight, &planned, &flight->future);
    }
    for (size_t i = 0; i < FLIGHTS; i++)
        land(&flights[i]);
    if (error == 0)
        error = stint_pool_destroy(pool);
    if (error != 0)
        give_up("a pool", error);
}

/* protobuf has libstdc++ make the strings of its tables. */
static void keep_modules(void)
{
    static const char *const modules[] = { "libprotobuf", "libstdc++" };
    for (size_t i = 0; i < 2 && strcmp(library->name, "protobuf") == 0; i++) {
        int error = stint_module_keep(modules[i]);
        if (error != 0)
            give_up(modules[i], error);
    }
}

/* The right answers in a process without a task; then what a piece of work takes, where it is the first. */
static void measure(void)
{
    for (uint32_t seed = 0; seed < SEEDS; seed++) {
        course->answers[seed] = SUM_BEGIN;
        int error = library->work(seed, &course->answers[seed]);
        if (error != 0)
            give_up(library->name, error);
    }
}

static void measure_first(void)
{
    struct flight flight = { .seed = 0 };
    stint_outcome outcome;
    int error = stint_run(fly, &flight, NULL, &outcome);
    if (error != 0 || outcome.status != STINT_OK)
        give_up("a first run", error);
    course->allocated = outcome.usage.allocated;
    course->peak = outcome.usage.peak;
    course->ns = outcome.usage.wall_ns;
}

static int run_process(const char *what)
{
    frames_start();
    if (strcmp(what, "measure") == 0)
        measure();
    else if (strcmp(what, "first") == 0)
        measure_first();
    if (strcmp(what, "fly") == 0) {
        keep_modules();
        watch_ends();
        be_patient();
        fly_all();
    }
    is_ending_well = true;
    return 0;
}

/* --- In the program --- */

static int spawn(const char *what, int shared)
{
    char descriptor[16], rarely[16];
    int status = -1;
    snprintf(descriptor, sizeof descriptor, "%d", shared);
    snprintf(rarely, sizeof rarely, "%u", wanted.rarely);
    pid_t child = fork();
    if (child == 0) {
        if (freopen("/dev/null", "w", stderr) == NULL)
            _exit(126);
        setenv("G_SLICE", "always-malloc", 1);
        execl("/proc/self/exe", "unlisted-libraries", "--process", what, "--shared", descriptor, "--library",
              library->name, "--rarely", rarely, (char *)NULL);
        _exit(127);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        give_up("a process", errno);
    return status;
}

/* The library's behaviour without stint: a bit for each signal, and the lowest bit for an exit. */
static uint64_t ask_plain(unsigned trials, uint64_t seed)
{
    char command[512], what[32];
    unsigned long count;
    uint64_t ends = 0;
    snprintf(command, sizeof command, "'%s' '%s' %u %" PRIu64, wanted.plain, library->name, trials, seed);
    FILE *said = popen(command, "r");
    printf("%-9s plain  ", library->name);
    while (said != NULL && fscanf(said, "%31s %lu", what, &count) == 2) {
        printf(" %s %lu,", what, count);
        if (strncmp(what, "signal-", 7) == 0)
            ends |= UINT64_C(1) << atoi(what + 7);
        else if (strcmp(what, "exits") == 0 && count > 0)
            ends |= 1;
    }
    puts("");
    if (said == NULL || pclose(said) != 0)
        give_up(wanted.plain, ECHILD);
    return ends;
}

struct result {
    unsigned long deaths, unasked, hangs;
    uint64_t by_signal[65];
    uint64_t refused; /* a bit for each signal that ended one after a refusal */
};

/* GLib ends the process by either. */
static uint64_t unseen(uint64_t ends, uint64_t plain)
{
    uint64_t trap = UINT64_C(1) << SIGTRAP;
    return ends & ~plain & ~((plain >> SIGABRT & 1) != 0 ? trap : 0);
}

static void judge_end(int status, struct result *result)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return;
    int ended_by = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    result->deaths++;
    result->by_signal[ended_by % 65]++;
    if (ended_by == SIGALRM)
        result->hangs++;
    else if (!atomic_load(&course->died) || !atomic_load(&course->was_interrupted))
        result->unasked++;
    else
        result->refused |= UINT64_C(1) << ended_by % 64;
}

/* Flights that a process took along are not flown again. */
static bool run_course(int shared, uint64_t plain)
{
    struct result result = { .deaths = 0 };
    uint64_t answers[SEEDS], allocated = course->allocated, peak = course->peak, ns = course->ns;
    memcpy(answers, course->answers, sizeof answers);
    memset(course, 0, sizeof *course);
    *course = (struct course){ .seed = wanted.seed, .allocated = allocated, .peak = peak, .ns = ns };
    memcpy(course->answers, answers, sizeof answers);
    unsigned long foreign = 0, looked_at = 0;
    while (course->first < wanted.flights) {
        unsigned long before = atomic_load(&course->flown);
        course->until = course->first + A_PROCESS < wanted.flights ? course->first + A_PROCESS : wanted.flights;
        atomic_store(&course->died, false);
        judge_end(spawn("fly", shared), &result);
        foreign += atomic_exchange(&course->foreign, 0);
        looked_at += atomic_exchange(&course->looked_at, 0);
        course->first += atomic_load(&course->flown) - before + FLIGHTS;
    }
    if (unseen(result.refused, plain) != 0) /* few trials do not show what is rare */
        plain |= ask_plain(TRIALS_RARE, wanted.seed + 1);
    int unlike = __builtin_popcountll(unseen(result.refused, plain));
    unsigned long may_hang = unseen(UINT64_C(1) << SIGALRM, plain) == 0 ? result.deaths : 1;
    bool is_good = foreign == 0 && looked_at > 0 && result.unasked == 0 && unlike == 0 && result.hangs <= may_hang &&
                   atomic_load(&course->wrong) == 0;
    printf("%-9s        %8lu %8lu %8lu %8lu %8lu %7lu %7lu %7lu %7lu %7d %6lu ", library->name,
           atomic_load(&course->flown), atomic_load(&course->ok), atomic_load(&course->stopped),
           atomic_load(&course->left), looked_at, foreign, atomic_load(&course->wrong), result.deaths, result.unasked,
           unlike, result.hangs);
    for (int i = 0; i < 65; i++) {
        if (result.by_signal[i] > 0)
            printf(" %" PRIu64 " by %s", result.by_signal[i], i == 0 ? "exit" : sigabbrev_np(i));
    }
    printf("%s%s%s\n", foreign > 0 ? " LEFT: " : "", foreign > 0 ? course->said : "", is_good ? "" : "  FAILED");
    fflush(stdout);
    return is_good;
}

static bool run_library(int shared)
{
    if (spawn("measure", shared) != 0 || spawn("first", shared) != 0)
        give_up(library->name, ECHILD);
    unsigned trials = wanted.flights < TRIALS_MAX ? (unsigned)wanted.flights : TRIALS_MAX;
    uint64_t plain = ask_plain(trials, wanted.seed);
    return run_course(shared, plain);
}

static _Noreturn void print_usage(int status)
{
    fprintf(status == 0 ? stdout : stderr,
            "usage: unlisted-libraries --plain PROGRAM [--flights N] [--library NAME] [--seed N] [--rarely N]\n");
    exit(status);
}

static const char *process;
static int descriptor = -1;

static void read_options(int argc, char **argv)
{
    static const struct option known[] = {
        { "flights", required_argument, NULL, 'f' },
        { "help", no_argument, NULL, 'h' },
        { "library", required_argument, NULL, 'l' },
        { "plain", required_argument, NULL, 'p' },
        { "process", required_argument, NULL, 'x' },
        { "rarely", required_argument, NULL, 'r' },
        { "seed", required_argument, NULL, 's' },
        { "shared", required_argument, NULL, 'd' },
        { NULL, 0, NULL, 0 },
    };
    int option;
    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        if (option == 'f')
            wanted.flights = strtoull(optarg, NULL, 0);
        else if (option == 'l')
            wanted.library = optarg;
        else if (option == 'p')
            wanted.plain = optarg;
        else if (option == 'r')
            wanted.rarely = (unsigned)strtoul(optarg, NULL, 0);
        else if (option == 's')
            wanted.seed = strtoull(optarg, NULL, 0);
        else if (option == 'x')
            process = optarg;
        else if (option == 'd')
            descriptor = atoi(optarg);
        else
            print_usage(option == 'h' ? 0 : 2);
    }
    if (optind < argc || wanted.rarely == 0 || (process == NULL && wanted.plain == NULL))
        print_usage(2);
}

static void share(void)
{
    if (descriptor < 0) {
        descriptor = memfd_create("course", 0);
        if (descriptor < 0 || ftruncate(descriptor, sizeof *course) != 0)
            give_up("memory", errno);
    }
    course = mmap(NULL, sizeof *course, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (course == MAP_FAILED)
        give_up("memory", errno);
}

int main(int argc, char **argv)
{
    bool is_good = true;
    read_options(argc, argv);
    share();
    if (process == NULL)
        printf("%-9s %-6s %8s %8s %8s %8s %8s %7s %7s %7s %7s %7s %6s\n", "library", "", "flights", "ok", "stopped",
               "guards", "looks", "midst", "wrong", "deaths", "unasked", "unlike", "hangs");
    for (size_t i = 0; libraries[i] != NULL; i++) {
        library = libraries[i];
        if (wanted.library != NULL && strcmp(wanted.library, library->name) != 0)
            continue;
        if (process != NULL)
            return run_process(process);
        is_good = run_library(descriptor) && is_good;
    }
    return is_good ? 0 : 1;
}
