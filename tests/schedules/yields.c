/* SPDX-License-Identifier: MIT
 *
 * Keeps threads at the library's atomic operations (points.h), at random, as a loaded system might: they stop for a
 * while, or move to another processor. To be preloaded. Any thread, signal handlers, and the children of a
 * fork(2); before it has started, and where a thread is already within it, it does nothing.
 *
 * A mistake in a protocol needs either one thread that comes to a stop at just the right line, or one that falls
 * behind all others for a while: one cannot say which lines, which threads, how long. So the seed draws all three anew
 * for each run: which lines are hot, how often threads stop elsewhere, and the longest stop. Threads are slow or not,
 * which changes now and then (in the place of the priorities of "A Randomized Scheduler with Probabilistic Guarantees
 * of Finding Bugs", Burckhardt and others, 2010). No thread spends more than half of its time here.
 *
 * STINT_SCHEDULES_SEED: without it nothing happens. STINT_SCHEDULES_TELL: what was done is told at the end. */
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "points.h"

#define US UINT64_C(1000)
#define MS (1000 * US)
#define FREE_NS (5 * MS) /* so much a thread may always stop */
#define YIELD_NS 1       /* others run for a moment */
#define HOTS 32          /* that are told */

static struct {
    bool is_on;
    uint64_t seed;
    unsigned hot_one_in;  /* so many lines is hot */
    unsigned stop_one_in; /* so many times a thread comes to a hot line */
    unsigned interval;    /* the mean number of points between two actions elsewhere */
    uint64_t longest;     /* ns */
    unsigned processors;
    pid_t process;
} run;

static atomic_uint threads;
static atomic_ulong points, stops, stopped_us, moves;
static struct schedules_place *_Atomic hots[HOTS];

static _Thread_local struct {
    bool is_inside;
    bool has_begun;
    bool is_slow;
    uint64_t random;
    uint64_t began, stopped; /* ns */
    unsigned until_action;   /* in points */
    unsigned until_change;   /* in actions */
    unsigned drawn;          /* until_action, when it was drawn */
} own __attribute__((tls_model("initial-exec")));

static uint64_t mix(uint64_t value)
{
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}

static uint64_t next(uint64_t *state)
{
    return mix(*state += UINT64_C(0x9e3779b97f4a7c15));
}

static uint64_t below(uint64_t limit)
{
    return limit > 0 ? next(&own.random) % limit : 0;
}

static uint64_t now(void)
{
    struct timespec time;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000 * MS + (uint64_t)time.tv_nsec;
}

/* Longer than a microsecond, and each order of magnitude as likely. */
static uint64_t draw_length(void)
{
    unsigned bits = 0;
    while (bits < 24 && (US << bits) < run.longest)
        bits++;
    return (US << below(bits + 1)) / 2 + below(US << below(bits + 1));
}

/* Sleeps so long, and longer on a busy system: counted is how long it took. */
static void stop_for(uint64_t ns)
{
    uint64_t begun = now();
    if (own.stopped + ns > (begun - own.began) / 2 + FREE_NS)
        return;
    struct timespec time = { .tv_sec = (time_t)(ns / (1000 * MS)), .tv_nsec = (long)(ns % (1000 * MS)) };
    syscall(SYS_nanosleep, &time, NULL);
    uint64_t took = now() - begun;
    own.stopped += took;
    atomic_fetch_add_explicit(&stops, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&stopped_us, took / US, memory_order_relaxed);
}

/* To one processor, or to all. A child of a wall must not: it would be refused, or be ended for it. Priorities are left
 * alone: beside other programs, a thread of a low one stands still for seconds. */
static void move(void)
{
    if (getpid() != run.process)
        return;
    bool to_one = below(3) == 0;
    size_t one = below(run.processors);
    cpu_set_t set;
    CPU_ZERO(&set);
    for (size_t i = 0; i < run.processors && i < CPU_SETSIZE; i++)
        if (!to_one || i == one)
            CPU_SET(i, &set);
    if (syscall(SYS_sched_setaffinity, 0, sizeof set, &set) == 0)
        atomic_fetch_add_explicit(&moves, 1, memory_order_relaxed);
}

static void draw_change(void)
{
    own.is_slow = below(8) == 0;
    own.until_change = 1 + (unsigned)below(UINT64_C(16) << below(8));
    if (below(4) == 0)
        move();
}

static void draw_action(void)
{
    own.drawn = own.until_action = 1 + (unsigned)below(2 * (uint64_t)run.interval);
}

static void begin(void)
{
    own.has_begun = true;
    own.random = mix(run.seed ^ atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed));
    own.began = now();
    draw_change();
    draw_action();
}

static signed char draw_heat(struct schedules_place *place)
{
    const char *name = strrchr(place->file, '/');
    uint64_t hash = run.seed + (uint64_t)place->line;
    for (name = name != NULL ? name : place->file; *name != '\0'; name++)
        hash = mix(hash + (unsigned char)*name);
    signed char heat = mix(hash) % run.hot_one_in == 0 ? 1 : -1;
    __atomic_store_n(&place->heat, heat, __ATOMIC_RELAXED);
    for (size_t i = 0; heat > 0 && i < HOTS; i++) {
        struct schedules_place *none = NULL;
        if (atomic_compare_exchange_strong(&hots[i], &none, place))
            break;
    }
    return heat;
}

static void act(void)
{
    atomic_fetch_add_explicit(&points, own.drawn, memory_order_relaxed);
    draw_action();
    if (--own.until_change == 0)
        draw_change();
    stop_for(own.is_slow || below(4) == 0 ? draw_length() : YIELD_NS);
}

static void visit(struct schedules_place *place)
{
    if (!own.has_begun)
        begin();
    signed char heat = __atomic_load_n(&place->heat, __ATOMIC_RELAXED);
    if (heat == 0)
        heat = draw_heat(place);
    if (heat > 0 && below(run.stop_one_in) == 0)
        stop_for(draw_length());
    if (--own.until_action == 0)
        act();
}

__attribute__((visibility("default"))) void schedules_point(struct schedules_place *place)
{
    if (!run.is_on || own.is_inside)
        return;
    int saved = errno;
    own.is_inside = true;
    visit(place);
    own.is_inside = false;
    errno = saved;
}

/* Also where the library and the tests yield: beside other programs, a thread that yields comes after all of these, and
 * a test that yields in a loop to no end. */
__attribute__((visibility("default"))) int sched_yield(void)
{
    int saved = errno;
    syscall(SYS_nanosleep, &(struct timespec){ .tv_nsec = YIELD_NS }, NULL);
    errno = saved;
    return 0;
}

__attribute__((constructor)) static void start(void)
{
    const char *seed = getenv("STINT_SCHEDULES_SEED");
    if (seed == NULL)
        return;
    run.seed = mix(strtoull(seed, NULL, 0) + 1);
    run.process = getpid();
    run.processors = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t random = run.seed;
    run.hot_one_in = 2U << next(&random) % 5;
    run.stop_one_in = 1U << 2 * (next(&random) % 5);
    run.interval = 16U << 2 * (next(&random) % 5);
    run.longest = US << (4 + next(&random) % 10); /* 16 us to 8 ms */
    run.is_on = true;
}

__attribute__((destructor)) static void tell(void)
{
    if (!run.is_on || getenv("STINT_SCHEDULES_TELL") == NULL || getpid() != run.process)
        return;
    fprintf(stderr,
            "schedules: %lu points of %u threads; %lu stops of %lu us or so at most, which took %lu ms; "
            "%lu moves; one line in %u is hot\n",
            atomic_load(&points), atomic_load(&threads), atomic_load(&stops), (unsigned long)(run.longest / US),
            atomic_load(&stopped_us) / 1000, atomic_load(&moves), run.hot_one_in);
    for (size_t i = 0; i < HOTS && atomic_load(&hots[i]) != NULL; i++)
        fprintf(stderr, "schedules: hot: %s:%d\n", atomic_load(&hots[i])->file, atomic_load(&hots[i])->line);
}
