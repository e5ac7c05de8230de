/* SPDX-License-Identifier: MIT
 *
 * The command line of stint-worker: reads it into the options, or says in one line what is wrong with it. */
#include "worker_options.h"
#include "arguments.h"
#include "queue_options.h"

#include <stdio.h>
#include <stint/version.h>

#define MAX_CONCURRENCY 1024

static const char help[] =
    "Usage: stint-worker --server URL[,URL...] [OPTION]...\n"
    "Take jobs from a JetStream work queue, run each as a task with a budget of its own, and report what came of it.\n"
    "stint-dispatch makes the queue and fills it.\n"
    "\n" QUEUE_OPTIONS_HELP "  -c, --concurrency N      jobs in hand at once; default: twice the number of processors\n"
    "      --allocation SIZE    bytes a job may allocate in all; default 4G\n"
    "      --memory SIZE        bytes a job may hold at once; default 256M\n"
    "      --timeout DURATION   time a job may take; default 10s\n"
    "      --max-runs N         a job whose worker has died N times is a dead letter; default 5\n"
    "      --drain DURATION     after SIGTERM running jobs may go on for so long, then they go to others; default 10s\n"
    "      --health ADDR:PORT   answer /healthz, and /metrics as OpenMetrics\n"
    "  -v, --verbose            a line for each job that begins\n"
    "  -h, --help               show this\n"
    "  -V, --version            show the version\n"
    "\n"
    "SIZE is a number with k, M, G or T (powers of 1024), DURATION one with us, ms, s, m or h; 0 is no limit.\n"
    "\n"
    "Exit status: 0 after SIGTERM or SIGINT, 1 the servers refuse to take it back, 2 it cannot begin.\n";

enum {
    OPTION_ALLOCATION = 256,
    OPTION_MEMORY,
    OPTION_TIMEOUT,
    OPTION_MAX_RUNS,
    OPTION_DRAIN,
    OPTION_HEALTH,
};

static const struct option known[] = {
    QUEUE_OPTIONS,
    { "concurrency", required_argument, NULL, 'c' },
    { "allocation", required_argument, NULL, OPTION_ALLOCATION },
    { "memory", required_argument, NULL, OPTION_MEMORY },
    { "timeout", required_argument, NULL, OPTION_TIMEOUT },
    { "max-runs", required_argument, NULL, OPTION_MAX_RUNS },
    { "drain", required_argument, NULL, OPTION_DRAIN },
    { "health", required_argument, NULL, OPTION_HEALTH },
    { "verbose", no_argument, NULL, 'v' },
    { "help", no_argument, NULL, 'h' },
    { "version", no_argument, NULL, 'V' },
    { NULL, 0, NULL, 0 },
};

static bool read_unsigned(const char *option, const char *text, uint64_t most, unsigned *number)
{
    uint64_t value = 0;
    bool good = arguments_number(option, text, 1, most, &value);
    *number = (unsigned)value;
    return good;
}

/* An option with an argument. */
static bool read_argument(struct worker_options *options, int option, char **argv)
{
    if (queue_options_has(option))
        return queue_options_read(option, &options->bus, &options->streams);
    switch (option) {
    case 'c':
        return read_unsigned("--concurrency", optarg, MAX_CONCURRENCY, &options->concurrency);
    case OPTION_ALLOCATION:
        return arguments_size("--allocation", optarg, &options->budget.allocation);
    case OPTION_MEMORY:
        return arguments_size("--memory", optarg, &options->budget.memory);
    case OPTION_TIMEOUT:
        return arguments_duration("--timeout", optarg, &options->budget.wall_ns);
    case OPTION_MAX_RUNS:
        return read_unsigned("--max-runs", optarg, 1000, &options->max_runs);
    case OPTION_DRAIN:
        return arguments_duration("--drain", optarg, &options->drain_ns);
    case OPTION_HEALTH:
        options->health = optarg;
        return true;
    default:
        return arguments_bad_option(known, option, argv);
    }
}

worker_options_next worker_options_read(struct worker_options *options, int argc, char **argv)
{
    *options = (struct worker_options){
        .bus = { .program = "stint-worker" },
        .streams = { .name = QUEUE_STREAM_DEFAULT, .durable = QUEUE_DURABLE_DEFAULT },
        .concurrency = 2 * arguments_processors(),
        .max_runs = 5,
        .drain_ns = UINT64_C(10000000000),
        .budget = { .allocation = (size_t)4 << 30, .memory = (size_t)256 << 20, .wall_ns = UINT64_C(10000000000) }
    };
    opterr = 0;
    int option;
    while ((option = getopt_long(argc, argv, ":s:c:vhV", known, NULL)) != -1) {
        if (option == 'h')
            return fputs(help, stdout), WORKER_OPTIONS_DONE;
        if (option == 'V')
            return printf("stint-worker %s\n", stint_version()), WORKER_OPTIONS_DONE;
        if (option == 'v')
            options->verbose = true;
        else if (!read_argument(options, option, argv))
            return WORKER_OPTIONS_BAD;
    }
    if (optind < argc)
        return arguments_bad("'%s' is no option", argv[optind]), WORKER_OPTIONS_BAD;
    return queue_options_end(&options->bus) ? WORKER_OPTIONS_RUN : WORKER_OPTIONS_BAD;
}
