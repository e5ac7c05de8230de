/* SPDX-License-Identifier: MIT
 *
 * The command line of stint-worker: reads it into the options, or says in one line what is wrong with it. */
#include "worker_options.h"
#include "budget_options.h"
#include "queue_options.h"

#define MAX_CONCURRENCY 1024
#define MAX_REUSE 1000000
#define BUDGET_HELP BUDGET_OF_DOCUMENT_HELP("   ", "job")

static const char help[] =
    "Usage: stint-worker --server URL[,URL...] [OPTION]...\n"
    "Take jobs from a JetStream work queue, run each in a task with a budget of its own, in other processes that can\n"
    "reach nothing, and record the outcome. stint-dispatch makes the queue and fills it.\n"
    "\n" QUEUE_OPTIONS_HELP
    "  -c, --concurrency N      jobs in hand at once; default: twice the number of processors\n" BUDGET_HELP
    "      --reuse N            run N jobs in one process, one after the other; default 128; 1: each alone\n"
    "      --in-place           run jobs in this process; for documents that you trust\n"
    "      --max-runs N         write a job off after N deliveries to workers that died; default 5\n"
    "      --drain DURATION     time for running jobs to end after SIGTERM; then others get them; default 10s\n"
    "      --health ADDR:PORT   answer /healthz, and /metrics as OpenMetrics\n"
    "  -v, --verbose            print a line for each job that begins\n"
    "  -h, --help               show this help\n"
    "  -V, --version            show the version\n"
    "\n" ARGUMENTS_UNITS_HELP "; 0 is no limit.\n"
    "\n"
    "Exit status: 0 after SIGTERM or SIGINT, 1 the servers refuse to take it back, 2 it cannot begin.\n";

enum { OPTION_MAX_RUNS = 256, OPTION_DRAIN, OPTION_HEALTH, OPTION_REUSE, OPTION_IN_PLACE };

static const struct option known[] = {
    QUEUE_OPTIONS,
    { "concurrency", required_argument, NULL, 'c' },
    BUDGET_OPTIONS,
    { "reuse", required_argument, NULL, OPTION_REUSE },
    { "in-place", no_argument, NULL, OPTION_IN_PLACE },
    { "max-runs", required_argument, NULL, OPTION_MAX_RUNS },
    { "drain", required_argument, NULL, OPTION_DRAIN },
    { "health", required_argument, NULL, OPTION_HEALTH },
    { "verbose", no_argument, NULL, 'v' },
    ARGUMENTS_LAST,
};

static bool read_option(void *all, int option)
{
    struct worker_options *options = all;
    if (queue_options_has(option))
        return queue_options_read(option, &options->bus, &options->streams);
    switch (option) {
    case 'c':
        return arguments_count("--concurrency", optarg, MAX_CONCURRENCY, &options->concurrency);
    case OPTION_MAX_RUNS:
        return arguments_count("--max-runs", optarg, 1000, &options->max_runs);
    case OPTION_REUSE:
        return arguments_count("--reuse", optarg, MAX_REUSE, &options->reuse);
    case OPTION_IN_PLACE:
        return options->in_place = true;
    case OPTION_DRAIN:
        return arguments_duration("--drain", optarg, &options->drain_ns);
    case OPTION_HEALTH:
        options->health = optarg;
        return true;
    case 'v':
        return options->verbose = true;
    default:
        return budget_options_read(option, &options->budget);
    }
}

arguments_next worker_options_read(struct worker_options *options, int argc, char **argv)
{
    static const struct arguments arguments = { "stint-worker", help, ":s:c:vhV", known, read_option };
    *options = (struct worker_options){
        .bus = { .program = "stint-worker" },
        .streams = { .name = QUEUE_STREAM_DEFAULT, .durable = QUEUE_DURABLE_DEFAULT },
        .concurrency = 2 * arguments_processors(),
        .max_runs = 5,
        .drain_ns = UINT64_C(10000000000),
        .budget = BUDGET_OF_DOCUMENT,
    };
    arguments_next next = arguments_read(&arguments, options, argc, argv);
    if (next != ARGUMENTS_RUN)
        return next;
    if (optind < argc)
        return arguments_bad("unexpected argument '%s'", argv[optind]), ARGUMENTS_BAD;
    if (options->reuse && options->in_place)
        return arguments_bad("--reuse has no effect with --in-place"), ARGUMENTS_BAD;
    return queue_options_end(&options->bus) ? ARGUMENTS_RUN : ARGUMENTS_BAD;
}
