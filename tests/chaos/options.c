/* SPDX-License-Identifier: MIT
 *
 * The command line. */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "plan.h"

static const char *const mode_names[CHAOS_MODES] = {
    [STINT_JUMP] = "jump", [STINT_FAIL] = "fail", [STINT_UNWIND] = "unwind"
};

const char *chaos_mode_name(stint_on_interrupt mode)
{
    return mode_names[mode];
}

static void print_usage(void)
{
    puts("usage: chaos [--interrupts N] [--seconds S] [--seed X] [--library NAME] [--mode MODE] [--reason REASON]\n"
         "             [--workers N] [--task SEED] [--patience S] [--cold] [--allow] [--sampled] [--record]\n"
         "             [--describe] [--verbose]\n"
         "\n"
         "Runs real libraries in tasks on a pool and stops each task at a random point. After every 1,000 interrupts\n"
         "each library must give the answers of a fresh process, and every lock must be free.\n"
         "\n"
         "  --interrupts N    stop after N interrupts (20000; no limit with --seconds)\n"
         "  --seconds S       stop after S seconds\n"
         "  --seed X          the seed of the whole run (random)\n"
         "  --workers N       worker threads (2)\n"
         "  --task SEED       repeat one task; a failure report names its seed\n"
         "  --patience S      call a task hung if no task ends for S seconds (60)\n"
         "  --cold            use no library before the tasks: processes of 40 interrupts each, one after the other\n"
         "  --allow           allow that each library is left in its midst (stint_module_allow), the list or not\n"
         "  --sampled         stop tasks at sample points only\n"
         "  --describe        print a line of JSON of each library, and leave\n"
         "  --record          print a line of JSON at the end, for tests/chaos/matrix; end at the first failure\n"
         "  --verbose         print a line for each batch\n"
         "  --without BITS    switch rules of alloc/platform/caller.h off and end at the first\n"
         "                    failure (chaos-rules only)\n"
         "  --library NAME, --mode MODE, --reason REASON   only this one:");
    for (size_t i = 0; chaos_libraries[i] != NULL; i++)
        printf("%s%s", i == 0 ? "    libraries: " : ", ", chaos_libraries[i]->name);
    for (size_t i = 0; i < CHAOS_MODES; i++)
        printf("%s%s", i == 0 ? "\n    modes: " : ", ", mode_names[i]);
    for (size_t i = 0; i < CHAOS_REASONS; i++)
        printf("%s%s", i == 0 ? "\n    reasons: " : ", ", chaos_reasons[i].name);
    puts("\n\nExit status: 0 nothing failed, 1 something did, 2 usage error, 3 a task hangs.");
}

static _Noreturn void refuse(const char *what, const char *given)
{
    fprintf(stderr, "chaos: %s: %s (see --help)\n", what, given);
    exit(2);
}

static uint64_t number(const char *text)
{
    char *end;
    errno = 0;
    uint64_t value = strtoull(text, &end, 0);
    if (errno != 0 || end == text || *end != '\0' || *text == '-')
        refuse("not a number", text);
    return value;
}

static double duration(const char *text)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value > 0 && value < 1e7))
        refuse("not a number of seconds", text);
    return value;
}

static const struct chaos_library *library_called(const char *name)
{
    for (size_t i = 0; chaos_libraries[i] != NULL; i++) {
        if (strcmp(chaos_libraries[i]->name, name) == 0)
            return chaos_libraries[i];
    }
    refuse("no such library", name);
}

static int mode_called(const char *name)
{
    for (int i = 0; i < CHAOS_MODES; i++) {
        if (strcmp(mode_names[i], name) == 0)
            return i;
    }
    refuse("no such mode", name);
}

static int reason_called(const char *name)
{
    for (int i = 0; i < CHAOS_REASONS; i++) {
        if (strcmp(chaos_reasons[i].name, name) == 0)
            return i;
    }
    refuse("no such reason", name);
}

static void describe_libraries(void)
{
    for (size_t i = 0; chaos_libraries[i] != NULL; i++) {
        const struct chaos_library *library = chaos_libraries[i];
        printf("{\"library\": \"%s\", \"version\": \"%s\", \"modules\": \"%s\", \"modes\": [", library->name,
               library->version != NULL ? library->version() : "", library->modules != NULL ? library->modules : "");
        const char *between = "";
        for (unsigned mode = 0; mode < CHAOS_MODES; mode++) {
            if (library->modes & 1u << mode) {
                printf("%s\"%s\"", between, mode_names[mode]);
                between = ", ";
            }
        }
        puts("]}");
    }
}

void chaos_options_read(struct chaos_options *options, int argc, char **argv)
{
    enum {
        INTERRUPTS,
        SECONDS,
        SEED,
        LIBRARY,
        MODE,
        REASON,
        WORKERS,
        TASK,
        PATIENCE,
        WITHOUT,
        REFERENCE,
        COLD,
        ALLOW,
        SAMPLED,
        DESCRIBE,
        RECORD,
        VERBOSE,
        HELP
    };
    static const struct option known[] = {
        { "interrupts", required_argument, NULL, INTERRUPTS },
        { "seconds", required_argument, NULL, SECONDS },
        { "seed", required_argument, NULL, SEED },
        { "library", required_argument, NULL, LIBRARY },
        { "mode", required_argument, NULL, MODE },
        { "reason", required_argument, NULL, REASON },
        { "workers", required_argument, NULL, WORKERS },
        { "task", required_argument, NULL, TASK },
        { "patience", required_argument, NULL, PATIENCE },
        { "without", required_argument, NULL, WITHOUT },
        { "reference", no_argument, NULL, REFERENCE },
        { "cold", no_argument, NULL, COLD },
        { "allow", no_argument, NULL, ALLOW },
        { "sampled", no_argument, NULL, SAMPLED },
        { "describe", no_argument, NULL, DESCRIBE },
        { "record", no_argument, NULL, RECORD },
        { "verbose", no_argument, NULL, VERBOSE },
        { "help", no_argument, NULL, HELP },
        { NULL, 0, NULL, 0 },
    };
    *options = (struct chaos_options){ .workers = 2, .patience = 60, .mode = -1, .reason = -1 };
    if (getrandom(&options->seed, sizeof options->seed, 0) < 0)
        options->seed = 1;

    int option;
    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        switch (option) {
        case INTERRUPTS:
            options->interrupts = number(optarg);
            break;
        case SECONDS:
            options->seconds = duration(optarg);
            break;
        case SEED:
            options->seed = number(optarg);
            break;
        case LIBRARY:
            options->library = library_called(optarg);
            break;
        case MODE:
            options->mode = mode_called(optarg);
            break;
        case REASON:
            options->reason = reason_called(optarg);
            break;
        case WORKERS:
            options->workers = (unsigned)number(optarg);
            break;
        case TASK:
            options->one_task = true;
            options->task = number(optarg);
            break;
        case PATIENCE:
            options->patience = duration(optarg);
            break;
        case WITHOUT:
            options->without = (unsigned)number(optarg);
            break;
        case REFERENCE:
            options->reference = true;
            break;
        case COLD:
            options->cold = true;
            break;
        case ALLOW:
            options->allow = true;
            break;
        case SAMPLED:
            options->sampled = true;
            break;
        case DESCRIBE:
            describe_libraries();
            exit(0);
        case RECORD:
            options->record = true;
            break;
        case VERBOSE:
            options->verbose = true;
            break;
        case HELP:
            print_usage();
            exit(0);
        default:
            exit(2);
        }
    }
    if (optind < argc)
        refuse("unexpected argument", argv[optind]);
    if (options->workers < 1 || options->workers > 64)
        refuse("workers", "1 to 64 are possible");
    if (options->interrupts == 0 && options->seconds == 0)
        options->interrupts = options->one_task ? 1000 : 20000;
    if (options->library != NULL && options->mode >= 0 && !(options->library->modes & 1u << options->mode))
        refuse("this mode makes no sense for", options->library->name);
}
