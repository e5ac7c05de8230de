/* SPDX-License-Identifier: MIT
 *
 * The program of walled libraries. Libraries that cannot be stopped in place are stopped behind walls: each in a wall
 * whose template has never used it, so that each task does so first, and in one whose template has. A fresh process
 * gives the right answers. Then tasks follow each other, each without a limit or stopped at a random point. No answer
 * may be wrong, nothing may hang, and when the wall is gone no process, descriptor or memory may be left of it. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../support.h"

#include "flight.h"

#define SEEDS 24
#define MAX_CHILDREN 16
#define PATIENCE 60 /* seconds until a task that has not ended hangs */
#define MAX_FAILURES 10
#define GROWTH (4 * MIB)

static const struct library *const libraries[] = { LIBRARIES NULL };

static struct {
    uint64_t interrupts; /* of each library, half of them in each of its two walls */
    const char *library; /* NULL: all */
    unsigned children;
    bool reused;
    bool open; /* walls that are not closed */
    uint64_t seed;
} wanted = { .interrupts = 60, .children = 2, .seed = 1 };

static char place[96]; /* for messages: where the program is */
static unsigned failures;

static void note_failure(const char *what, const char *which)
{
    failures++;
    printf("FAILED: %s, %s: %s; in the run with --seed %" PRIu64 "\n", place, what, which, wanted.seed);
    fflush(stdout);
}

static _Noreturn void give_up(const char *what, int error)
{
    fprintf(stderr, "walled-libraries: %s: %s: %s\n", place, what, strerror(error));
    exit(1);
}

/* Nothing has ended for as long as the alarm was set: that is a hang. With this process go its walls'. */
static void tell_of_hang(int signal)
{
    static const char text[] = "walled-libraries: nothing has ended for a long time: ";
    (void)signal;
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    (void)!write(STDERR_FILENO, place, strlen(place));
    (void)!write(STDERR_FILENO, "\n", 1);
    _exit(3);
}

/* --- The right answers -------------------------------------------------------------------------------------------- */

static bool is_wanted(const struct library *library)
{
    return wanted.library == NULL || strcmp(wanted.library, library->name) == 0;
}

/* In the fresh process: no pool, no wall, no scope. */
static void print_answers(void)
{
    for (size_t i = 0; libraries[i] != NULL; i++) {
        for (uint32_t seed = 0; seed < SEEDS && is_wanted(libraries[i]); seed++) {
            uint64_t sum = SUM_BEGIN;
            int error = libraries[i]->work(seed, &sum);
            if (error != 0)
                give_up(libraries[i]->name, error);
            printf("%" PRIx64 "\n", sum);
        }
    }
}

static void ask_fresh_process(const struct library *library, uint64_t *answers)
{
    int ends[2];
    if (pipe(ends) != 0)
        give_up("pipe", errno);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        execl("/proc/self/exe", "walled-libraries", "--answers", "--library", library->name, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    FILE *lines = fdopen(ends[0], "r");
    bool whole = lines != NULL;
    for (uint32_t seed = 0; seed < SEEDS && whole; seed++)
        whole = fscanf(lines, "%" SCNx64, &answers[seed]) == 1;
    int status;
    if (!whole || fclose(lines) != 0 || waitpid(child, &status, 0) != child || status != 0)
        give_up("the fresh process gave no answers", EIO);
}

/* --- One wall ----------------------------------------------------------------------------------------------------- */

struct course {
    const struct library *library;
    bool warm;
    uint64_t answers[SEEDS];
    uint64_t random;
    struct usual usual;
    stint_wall *wall;
    stint_pool *pool;
    struct flight flights[2 * MAX_CHILDREN];
    size_t flight_count;
    uint64_t landings[LANDINGS];
    uint64_t crashes[NSIG];
    uint64_t interrupts;
};

/* In the template, once, with a seed that no task has. */
static int use_library(void *library)
{
    uint64_t sum = SUM_BEGIN;
    return ((const struct library *)library)->work(SEEDS + 1, &sum);
}

static void make_wall(struct course *course)
{
    stint_wall_path paths[LIBRARY_PATHS];
    char message[256] = "";
    stint_wall_options options = STINT_WALL_OPTIONS_INIT;
    options.name = course->library->name;
    options.children = wanted.children;
    options.tasks_per_child = wanted.reused ? STINT_WALL_REUSED : 1;
    options.sandbox = wanted.open ? STINT_WALL_OPEN : STINT_WALL_CLOSED;
    options.message = message;
    options.message_size = sizeof message;
    if (course->warm) {
        options.setup = use_library;
        options.setup_arg = (void *)(uintptr_t)course->library;
    }
    options.paths = paths;
    while (course->library->reads[options.path_count] != NULL) {
        paths[options.path_count] = (stint_wall_path){ .path = course->library->reads[options.path_count] };
        options.path_count++;
    }
    stint_pool_options pool_options = STINT_POOL_OPTIONS_INIT;
    pool_options.workers = 1;
    int error = stint_wall_create(&options, &course->wall);
    if (error != 0)
        give_up(message[0] != '\0' ? message : "the wall cannot be made", error);
    error = stint_pool_create(&pool_options, &course->pool);
    if (error != 0)
        give_up("the pool cannot be made", error);
}

static void launch(struct course *course, struct flight *flight)
{
    flight->input.library = course->library;
    flight->input.seed = (uint32_t)random_below(&course->random, SEEDS);
    flight->answer = course->answers[flight->input.seed];
    int error = flight_launch(flight, course->pool, course->wall);
    if (error != 0)
        give_up("a task cannot be submitted", error);
}

static void tell_of_wrong(const struct flight *flight)
{
    char flown[128], text[256];
    flight_describe(flight, flown, sizeof flown);
    snprintf(text, sizeof text, "%s, %s, error %d, signal %d (%s)", stint_status_name(flight->outcome.status),
             stint_reason_name(flight->outcome.reason), flight->outcome.error, flight->death.signal, flown);
    note_failure(flight->outcome.status == STINT_OK ? "a wrong answer" : "an end that nobody asked for", text);
}

static void land(struct course *course, struct flight *flight)
{
    enum landing landing = flight_land(flight);
    alarm(PATIENCE);
    course->landings[landing]++;
    if (landing != LANDED_OK)
        course->interrupts++;
    if (landing == LANDED_WRONG)
        tell_of_wrong(flight);
    if (landing == LANDED_CRASH && flight->death.signal > 0 && flight->death.signal < NSIG)
        course->crashes[flight->death.signal]++;
}

static int by_size(const void *a, const void *b)
{
    const uint64_t *left = a, *right = b;
    return *left < *right ? -1 : *left > *right;
}

/* The median of times, as the first tasks may take much longer; of bytes the most. */
static void measure(struct course *course)
{
    uint64_t times[SEEDS] = { 0 };
    for (uint32_t i = 0; i < SEEDS && failures < MAX_FAILURES; i++) {
        struct flight *flight = &course->flights[0];
        flight->stop = STOP_NOT;
        launch(course, flight);
        land(course, flight);
        const stint_usage *usage = &flight->outcome.usage;
        times[i] = usage->wall_ns;
        course->usual.allocated =
            usage->allocated > course->usual.allocated ? usage->allocated : course->usual.allocated;
        course->usual.peak = usage->peak > course->usual.peak ? usage->peak : course->usual.peak;
    }
    qsort(times, SEEDS, sizeof times[0], by_size);
    course->usual.ns = times[SEEDS / 2];
}

/* Flies until this many flights have been interrupted. */
static void fly(struct course *course, uint64_t interrupts)
{
    for (size_t next = 0; course->interrupts < interrupts && failures < MAX_FAILURES; next++) {
        struct flight *flight = &course->flights[next % course->flight_count];
        if (flight->future != NULL)
            land(course, flight);
        flight_plan(flight, &course->usual, &course->random);
        launch(course, flight);
    }
    for (size_t i = 0; i < course->flight_count; i++) {
        if (course->flights[i].future != NULL)
            land(course, &course->flights[i]);
    }
}

/* --- What must not be left ---------------------------------------------------------------------------------------- */

static size_t count_descriptors(void)
{
    size_t count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void judge_memory(size_t before, size_t after)
{
    char text[96];
    snprintf(text, sizeof text, "%.1f MiB after a quarter, %.1f MiB at the end", (double)before / (double)MIB,
             (double)after / (double)MIB);
    if (after > before + GROWTH)
        note_failure("memory grew", text);
}

/* Processes of the wall that have lost their parents are this one's children now. */
static void judge_left(size_t descriptors)
{
    char text[64];
    pid_t child;
    do {
        child = waitpid(-1, NULL, WNOHANG);
    } while (child > 0);
    if (child == 0)
        note_failure("processes are left", "they run");
    snprintf(text, sizeof text, "%zu before, %zu now", descriptors, count_descriptors());
    if (count_descriptors() != descriptors)
        note_failure("descriptors are left open", text);
}

/* --- Rows --------------------------------------------------------------------------------------------------------- */

static void print_heading(void)
{
    printf("%-9s %-5s %10s %7s %8s %9s %10s %7s %7s %6s %7s %7s %6s %6s %9s %8s  %s\n", "library", "used", "interrupts",
           "ok", "deadline", "cancelled", "allocation", "memory", "crash", "exit", "killed", "thrown", "stuck", "wrong",
           "task (us)", "seconds", "crashes");
    fflush(stdout);
}

static void print_row(const struct course *course, double seconds)
{
    static const int widths[LANDINGS] = { 7, 8, 9, 10, 7, 7, 6, 7, 7, 6, 6 };
    printf("%-9s %-5s %10" PRIu64, course->library->name, course->warm ? "warm" : "first", course->interrupts);
    for (unsigned i = 0; i < LANDINGS; i++)
        printf(" %*" PRIu64, widths[i], course->landings[i]);
    printf(" %9.0f %8.1f ", (double)course->usual.ns / 1e3, seconds);
    for (int signal = 1; signal < NSIG; signal++) {
        if (course->crashes[signal] != 0)
            printf(" %" PRIu64 " SIG%s", course->crashes[signal], sigabbrev_np(signal));
    }
    puts("");
    fflush(stdout);
}

static void run_course(struct course *course)
{
    size_t descriptors = count_descriptors();
    uint64_t begin = now_ns();
    course->random = wanted.seed;
    course->flight_count = 2 * wanted.children;
    snprintf(place, sizeof place, "%s, %s", course->library->name, course->warm ? "used before" : "first use");
    alarm(PATIENCE);
    make_wall(course);
    int error = canceller_start(course->flights, course->flight_count);
    if (error != 0)
        give_up("the canceller cannot be started", error);
    measure(course);
    fly(course, wanted.interrupts / 8);
    size_t before = resident();
    fly(course, wanted.interrupts / 2);
    judge_memory(before, resident());
    canceller_stop();
    error = stint_pool_destroy(course->pool);
    if (error == 0)
        error = stint_wall_destroy(course->wall);
    if (error != 0)
        give_up("the wall cannot be taken down", error);
    alarm(0);
    judge_left(descriptors);
    print_row(course, (double)(now_ns() - begin) / 1e9);
}

/* --- The command line --------------------------------------------------------------------------------------------- */

static _Noreturn void print_usage(int status)
{
    fprintf(status == 0 ? stdout : stderr,
            "usage: walled-libraries [--interrupts N] [--library NAME] [--reused] [--open] [--children N] [--seed N]\n"
            "libraries:");
    for (size_t i = 0; libraries[i] != NULL; i++)
        fprintf(status == 0 ? stdout : stderr, " %s", libraries[i]->name);
    fputs("\n", status == 0 ? stdout : stderr);
    exit(status);
}

/* Whether the answers alone are asked for. */
static bool read_options(int argc, char **argv)
{
    static const struct option known[] = {
        { "answers", no_argument, NULL, 'a' },
        { "children", required_argument, NULL, 'c' },
        { "help", no_argument, NULL, 'h' },
        { "interrupts", required_argument, NULL, 'i' },
        { "library", required_argument, NULL, 'l' },
        { "open", no_argument, NULL, 'o' },
        { "reused", no_argument, NULL, 'r' },
        { "seed", required_argument, NULL, 's' },
        { NULL, 0, NULL, 0 },
    };
    bool answers = false;
    int option;
    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        if (option == 'a')
            answers = true;
        else if (option == 'c')
            wanted.children = (unsigned)strtoul(optarg, NULL, 0);
        else if (option == 'i')
            wanted.interrupts = strtoull(optarg, NULL, 0);
        else if (option == 'l')
            wanted.library = optarg;
        else if (option == 'o')
            wanted.open = true;
        else if (option == 'r')
            wanted.reused = true;
        else if (option == 's')
            wanted.seed = strtoull(optarg, NULL, 0);
        else
            print_usage(option == 'h' ? 0 : 2);
    }
    if (optind < argc || wanted.children == 0 || wanted.children > MAX_CHILDREN)
        print_usage(2);
    return answers;
}

/* In a process of its own, as walls are made before the first thread. */
static bool goes_well(struct course *course)
{
    int status;
    pid_t program = fork();
    if (program == 0) {
        signal(SIGALRM, tell_of_hang);
        if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
            give_up("prctl", errno);
        ask_fresh_process(course->library, course->answers);
        run_course(course);
        exit(failures == 0 ? 0 : 1);
    }
    if (program < 0 || waitpid(program, &status, 0) != program)
        give_up("a process of its own", errno);
    if (WIFSIGNALED(status))
        fprintf(stderr, "walled-libraries: the program of %s was ended by SIG%s\n", course->library->name,
                sigabbrev_np(WTERMSIG(status)));
    return status == 0;
}

int main(int argc, char **argv)
{
    if (read_options(argc, argv)) {
        print_answers();
        return 0;
    }
    print_heading();
    unsigned courses = 0, bad = 0;
    for (size_t i = 0; libraries[i] != NULL; i++) {
        for (unsigned warm = 0; warm < 2 && is_wanted(libraries[i]); warm++, courses++) {
            static struct course course;
            course = (struct course){ .library = libraries[i], .warm = warm == 1 };
            if (!goes_well(&course))
                bad++;
        }
    }
    if (courses == 0)
        print_usage(2);
    if (bad > 0)
        printf("%u of %u walls: FAILED\n", bad, courses);
    return bad == 0 ? 0 : 1;
}
