/* SPDX-License-Identifier: MIT
 *
 * Counting; see tally.h. */
#include "tally.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define MAX_ROOTS 64
#define SETTLED 3000 /* interrupts until memory must not grow any more */
#define GROWTH (16 * MIB)
#define FEW 4 /* batches: memory goes up and down by 15 MiB, and the least of so few with it */
#define GROWTH_IN_DEBUG_MODE (48 * MIB) /* up and down: each thread keeps its last 64 heaps */
#define OPENED_AT_FIRST_USE 4           /* descriptors */
#define FAR_TOO_MUCH (256 * MIB)

struct count {
    uint64_t stopped; /* in the middle of the work */
    uint64_t late;    /* stopped when the work had been done already */
    uint64_t through; /* Ok */
    uint64_t deferred;
    uint64_t kept;
    uint64_t kept_bytes;
};

static struct {
    const struct chaos_options *options;
    struct count counts[CHAOS_LIBRARIES][CHAOS_MODES][CHAOS_REASONS];
    uint64_t interrupts;
    uint64_t tasks;
    uint64_t clean;
    unsigned failures;
    uint64_t reports;
    uint64_t kept_now; /* bytes, at the end */
    struct timespec begin;
    size_t resident_first; /* after the first batch */
    size_t *settled;       /* resident memory after each batch from the SETTLEDth interrupt on */
    size_t settled_count;
    size_t descriptors;
    bool terminal;
} tally;

/* --- Roots -------------------------------------------------------------------------------------------------------- */

static pthread_mutex_t roots_lock = PTHREAD_MUTEX_INITIALIZER;
static char roots[MAX_ROOTS][160];
static size_t root_count;

static void note_root(const stint_root *root, void *unused)
{
    (void)unused;
    const char *slash = strrchr(root->module, '/');
    const char *module = slash != NULL ? slash + 1 : root->module;
    pthread_mutex_lock(&roots_lock);
    if (root_count < MAX_ROOTS)
        snprintf(roots[root_count++], sizeof roots[0], "%s %s%s%s+0x%" PRIx64 ", first in a task of %s, %zu bytes",
                 root->where, module, root->symbol != NULL ? " " : "", root->symbol != NULL ? root->symbol : "",
                 root->offset, root->task, root->kept);
    pthread_mutex_unlock(&roots_lock);
}

/* --- What the process holds --------------------------------------------------------------------------------------- */

static size_t resident(void)
{
    char text[128] = "";
    int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (file < 0 || read(file, text, sizeof text - 1) <= 0)
        abort();
    close(file);
    return strtoul(strchr(text, ' '), NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
}

static size_t descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    size_t count = 0;
    while (folder != NULL && readdir(folder) != NULL)
        count++;
    if (folder != NULL)
        closedir(folder);
    return count;
}

/* --- Counting ----------------------------------------------------------------------------------------------------- */

void chaos_tally_start(const struct chaos_options *options)
{
    tally.options = options;
    tally.terminal = isatty(STDERR_FILENO);
    tally.descriptors = descriptors();
    clock_gettime(CLOCK_MONOTONIC, &tally.begin);
    stint_roots_set_report(note_root, NULL);
}

double chaos_tally_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - tally.begin.tv_sec) + (double)(now.tv_nsec - tally.begin.tv_nsec) / 1e9;
}

uint64_t chaos_tally_done(void)
{
    return tally.options->one_task ? tally.tasks : tally.interrupts;
}

unsigned chaos_tally_failures(void)
{
    return tally.failures;
}

void chaos_tally_failure(const char *what, const char *which)
{
    tally.failures++;
    printf("%sFAILED: %s: %s\n  in the run with --seed 0x%" PRIx64 ", after %" PRIu64 " interrupts\n",
           tally.terminal ? "\r\033[K" : "", what, which, tally.options->seed, tally.interrupts);
    fflush(stdout);
}

void chaos_tally_flight(const struct chaos_flight *flight, const stint_outcome *outcome, const char *complaint)
{
    if (complaint != NULL) {
        char what[128];
        snprintf(what, sizeof what, "%s (%s, %s)", complaint, stint_status_name(outcome->status),
                 stint_reason_name(outcome->reason));
        chaos_tally_failure(what, flight->repeat);
    }
    if (flight->plan.reason == CHAOS_NONE) {
        tally.clean++;
        return;
    }
    struct count *count = &tally.counts[flight->plan.library_index][flight->plan.mode][flight->plan.reason];
    tally.tasks++;
    if (outcome->status == STINT_OK) {
        count->through++;
    } else if (flight->finished) {
        count->late++;
    } else {
        count->stopped++;
        tally.interrupts++;
    }
    count->deferred += outcome->usage.deferred;
    if (outcome->usage.kept > 0) {
        count->kept++;
        count->kept_bytes += outcome->usage.kept;
    }
}

/* --- What is judged ----------------------------------------------------------------------------------------------- */

static void judge_memory(size_t before, size_t memory, size_t growth)
{
    char text[128];
    snprintf(text, sizeof text, "%.1f MiB, %.1f MiB now", (double)before / (double)MIB, (double)memory / (double)MIB);
    if (before != 0 && memory > before + growth)
        chaos_tally_failure("memory grew", text);
}

static void note_settled(size_t memory)
{
    size_t *grown = realloc(tally.settled, (tally.settled_count + 1) * sizeof *grown);
    if (grown == NULL)
        abort();
    tally.settled = grown;
    tally.settled[tally.settled_count++] = memory;
}

/* The least of a quarter of the settled batches: memory goes up and down with the libraries' caches, but only lost
 * memory raises the least. */
static size_t floor_of_quarter(size_t from, size_t count)
{
    size_t least = SIZE_MAX;
    for (size_t i = from; i < from + count; i++) {
        if (tally.settled[i] < least)
            least = tally.settled[i];
    }
    return least;
}

/* In the first quarter the libraries' caches fill up, and with them the heaps that keep a block. */
static void judge_floors(void)
{
    size_t quarter = tally.settled_count / 4;
    if (quarter == 0)
        return;
    size_t first = floor_of_quarter(quarter, quarter);
    size_t last = floor_of_quarter(tally.settled_count - quarter, quarter);
    printf("resident: at least %.1f MiB in the second quarter of the settled run, %.1f MiB in the last\n",
           (double)first / (double)MIB, (double)last / (double)MIB);
    size_t growth = getenv("STINT_DEBUG") != NULL ? GROWTH_IN_DEBUG_MODE : GROWTH;
    judge_memory(first, last, quarter < FEW ? 2 * growth : growth);
}

/* A first use may open some for the process's life. */
static void judge_descriptors(void)
{
    char text[128];
    size_t open_now = descriptors();
    size_t may_open = tally.options->cold ? OPENED_AT_FIRST_USE : 0;
    snprintf(text, sizeof text, "%zu before, %zu now", tally.descriptors, open_now);
    if (open_now < tally.descriptors || open_now > tally.descriptors + may_open)
        chaos_tally_failure("descriptors were left open", text);
}

void chaos_tally_batch(void)
{
    size_t memory = resident();
    if (tally.interrupts >= SETTLED)
        note_settled(memory);
    if (tally.resident_first == 0)
        tally.resident_first = memory;
    judge_memory(tally.resident_first, memory, FAR_TOO_MUCH);
    judge_descriptors();
    tally.kept_now = stint_roots_kept_bytes();
    if (!tally.terminal && !tally.options->verbose)
        return;
    fprintf(stderr, "%s%" PRIu64 " interrupts, %.0f/s, %zu MiB resident, %zu KiB kept, %u failed%s",
            tally.terminal ? "\r" : "", tally.interrupts, (double)tally.interrupts / chaos_tally_seconds(),
            memory / MIB, (size_t)tally.kept_now >> 10, tally.failures,
            tally.terminal && !tally.options->verbose ? "   " : "\n");
}

/* --- The summary -------------------------------------------------------------------------------------------------- */

static void print_row(size_t library, stint_on_interrupt mode, struct count *sum)
{
    uint64_t by_reason[CHAOS_REASONS];
    struct count row = { 0 };
    for (unsigned reason = 0; reason < CHAOS_REASONS; reason++) {
        const struct count *count = &tally.counts[library][mode][reason];
        by_reason[reason] = count->stopped;
        row.stopped += count->stopped;
        row.late += count->late;
        row.through += count->through;
        row.deferred += count->deferred;
        row.kept += count->kept;
        row.kept_bytes += count->kept_bytes;
    }
    if (row.stopped + row.late + row.through == 0)
        return;
    printf("%-8s %-6s", chaos_libraries[library]->name, chaos_mode_name(mode));
    for (unsigned reason = 0; reason < CHAOS_REASONS; reason++)
        printf(" %10" PRIu64, by_reason[reason]);
    printf(" %9" PRIu64 " %9" PRIu64 " %9" PRIu64 " %6" PRIu64 "\n", row.late, row.through, row.deferred, row.kept);
    sum->late += row.late;
    sum->through += row.through;
    sum->deferred += row.deferred;
    sum->kept += row.kept;
    sum->kept_bytes += row.kept_bytes;
}

void chaos_tally_begin_process(void)
{
    tally.descriptors = descriptors();
    tally.resident_first = 0;
}

/* The bytes of this structure, and the roots; what hangs on pointers stays. */
void chaos_tally_hand_over(int file)
{
    tally.reports = chaos_flight_reports;
    if (write(file, &tally, sizeof tally) != sizeof tally || write(file, &root_count, sizeof root_count) < 0 ||
        write(file, roots, root_count * sizeof roots[0]) < 0)
        _exit(1);
}

static bool read_all(int file, void *bytes, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t got = read(file, (char *)bytes + done, size - done);
        if (got <= 0)
            return false;
        done += (size_t)got;
    }
    return true;
}

bool chaos_tally_take_over(int file)
{
    const struct chaos_options *options = tally.options;
    static __typeof__(tally) read_in;
    if (!read_all(file, &read_in, sizeof read_in))
        return false;
    tally = read_in;
    tally.options = options;
    tally.settled = NULL;
    tally.settled_count = 0;
    tally.resident_first = 0;
    chaos_flight_reports = tally.reports;
    return read_all(file, &root_count, sizeof root_count) && read_all(file, roots, root_count * sizeof roots[0]);
}

static void print_record(const struct count *sum)
{
    printf("RECORD {\"interrupts\": %" PRIu64 ", \"tasks\": %" PRIu64 ", \"late\": %" PRIu64 ", \"through\": %" PRIu64
           ", \"deferred\": %" PRIu64 ", \"kept\": %" PRIu64 ", \"kept_now\": %" PRIu64
           ", \"seconds\": %.2f, \"failures\": %u}\n",
           tally.interrupts, tally.tasks, sum->late, sum->through, sum->deferred, sum->kept, tally.kept_now,
           chaos_tally_seconds(), tally.failures);
}

unsigned chaos_tally_end(void)
{
    if (tally.terminal)
        fprintf(stderr, "\r\033[K");
    printf("%-8s %-6s", "library", "mode");
    for (unsigned reason = 0; reason < CHAOS_REASONS; reason++)
        printf(" %10s", chaos_reasons[reason].name);
    printf(" %9s %9s %9s %6s\n", "late", "through", "deferred", "kept");
    struct count sum = { 0 };
    for (size_t library = 0; chaos_libraries[library] != NULL; library++) {
        for (unsigned mode = 0; mode < CHAOS_MODES; mode++)
            print_row(library, (stint_on_interrupt)mode, &sum);
    }
    for (size_t i = 0; i < root_count; i++)
        printf("root: %s\n", roots[i]);
    judge_floors();
    double seconds = chaos_tally_seconds();
    printf("%" PRIu64 " interrupts of %" PRIu64 " tasks (%" PRIu64 " after the work, %" PRIu64 " ran through), %" PRIu64
           " clean runs, %" PRIu64 " sample points at which one had to wait, %" PRIu64 " heaps kept with %" PRIu64
           " bytes, %" PRIu64 " reports taken; %.1f s, %.0f interrupts/s; seed 0x%" PRIx64 "; %u failed\n",
           tally.interrupts, tally.tasks, sum.late, sum.through, tally.clean, sum.deferred, sum.kept, sum.kept_bytes,
           chaos_flight_reports, seconds, (double)tally.interrupts / seconds, tally.options->seed, tally.failures);
    if (tally.options->record)
        print_record(&sum);
    return tally.failures;
}
