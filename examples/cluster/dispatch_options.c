/* SPDX-License-Identifier: MIT
 *
 * The command line of stint-dispatch: reads it into the options, or says in one line what is wrong with it. */
#include "dispatch_options.h"
#include "paths.h"
#include "queue_options.h"

static const char help[] =
    "Usage: stint-dispatch --server URL[,URL...] [OPTION]... PATH...\n"
    "Send files as jobs to a JetStream work queue, from which stint-worker takes them, and report each outcome.\n"
    "A missing queue is made. PATH and kinds of files are as in stint-batch; equal files are sent once.\n"
    "\n" QUEUE_OPTIONS_HELP
    "      --replicas N         copies of each stream, 1 to 5; default: unchanged, 1 for a new stream\n"
    "      --max-jobs N         for a new stream: jobs that may wait; default 1000000; 0: no limit\n"
    "      --max-bytes SIZE     for a new stream: bytes that may wait, which the servers set aside; default 1G\n"
    "      --ack-wait DURATION  for a new consumer: time after which the job of a silent worker goes to another;\n"
    "                           default 30s\n"
    "      --keep DURATION      for a new stream: time that results are kept; default 24h\n"
    "      --run NAME           resume the run of this name, and send only what it has not sent; default: a new run\n"
    "      --create             only make what is missing\n"
    "      --json FILE          write a JSON line for each file and one for the summary; '-': to standard output\n"
    "  -0, --null               paths on standard input end with a zero byte\n"
    "  -q, --quiet              show only the summary line\n"
    "  -h, --help               show this help\n"
    "  -V, --version            show the version\n"
    "\n" ARGUMENTS_UNITS_HELP ".\n"
    "\n"
    "Ctrl-C cancels the jobs, on whichever worker they run, and still reports; a second Ctrl-C ends at once.\n"
    "Exit status: 0 all files were ok, 1 some were not, 2 nothing could be sent, 130 Ctrl-C.\n";

enum {
    OPTION_REPLICAS = 256,
    OPTION_MAX_JOBS,
    OPTION_MAX_BYTES,
    OPTION_ACK_WAIT,
    OPTION_KEEP,
    OPTION_RUN,
    OPTION_CREATE,
    OPTION_JSON,
};

static const struct option known[] = {
    QUEUE_OPTIONS,
    { "replicas", required_argument, NULL, OPTION_REPLICAS },
    { "max-jobs", required_argument, NULL, OPTION_MAX_JOBS },
    { "max-bytes", required_argument, NULL, OPTION_MAX_BYTES },
    { "ack-wait", required_argument, NULL, OPTION_ACK_WAIT },
    { "keep", required_argument, NULL, OPTION_KEEP },
    { "run", required_argument, NULL, OPTION_RUN },
    { "create", no_argument, NULL, OPTION_CREATE },
    { "json", required_argument, NULL, OPTION_JSON },
    { "null", no_argument, NULL, '0' },
    { "quiet", no_argument, NULL, 'q' },
    ARGUMENTS_LAST,
};

/* At least a millisecond: the servers count in nanoseconds, but take 0 for a default of theirs. */
static bool read_time(const char *option, const char *text, int64_t *nanoseconds)
{
    uint64_t time = 0;
    if (!arguments_duration(option, text, &time))
        return false;
    *nanoseconds = (int64_t)time;
    return (time >= 1000000 && time <= INT64_MAX) ||
           arguments_bad("%s: '%s' is not a duration of 1ms or more", option, text);
}

static bool read_stream(struct streams *streams, int option)
{
    uint64_t number = 0;
    size_t size = 0;
    bool good;
    switch (option) {
    case OPTION_REPLICAS:
        good = arguments_number("--replicas", optarg, 1, 5, &number);
        streams->replicas = (int)number;
        return good;
    case OPTION_MAX_JOBS:
        good = arguments_number("--max-jobs", optarg, 0, INT64_MAX, &number);
        streams->max_jobs = (int64_t)number;
        return good;
    case OPTION_MAX_BYTES:
        good = arguments_size("--max-bytes", optarg, &size);
        streams->max_bytes = (int64_t)(size < INT64_MAX ? size : INT64_MAX);
        return good;
    case OPTION_ACK_WAIT:
        return read_time("--ack-wait", optarg, &streams->ack_wait_ns);
    default:
        return read_time("--keep", optarg, &streams->keep_ns);
    }
}

static bool read_option(void *all, int option)
{
    struct dispatch_options *options = all;
    if (queue_options_has(option))
        return queue_options_read(option, &options->bus, &options->streams);
    switch (option) {
    case OPTION_RUN:
        return arguments_name("--run", optarg, &options->run);
    case OPTION_CREATE:
        return options->create = true;
    case OPTION_JSON:
        options->json = optarg;
        return true;
    case '0':
        return options->zero_separated = true;
    case 'q':
        return options->quiet = true;
    default:
        return read_stream(&options->streams, option);
    }
}

static bool fits_together(const struct dispatch_options *options)
{
    if (!queue_options_end(&options->bus))
        return false;
    if (options->create && options->path_count)
        return arguments_bad("--create sends nothing, so it takes no PATH: '%s'", options->paths[0]);
    if (!options->create && !options->path_count)
        return arguments_bad("a PATH is missing");
    return paths_separator_fits(options->zero_separated, options->paths, options->path_count);
}

arguments_next dispatch_options_read(struct dispatch_options *options, int argc, char **argv)
{
    static const struct arguments arguments = { "stint-dispatch", help, ":s:0qhV", known, read_option };
    *options = (struct dispatch_options){
        .bus = { .program = "stint-dispatch" },
        .streams = { .name = QUEUE_STREAM_DEFAULT,
                     .durable = QUEUE_DURABLE_DEFAULT,
                     .max_jobs = 1000000,
                     .max_bytes = INT64_C(1) << 30,
                     .ack_wait_ns = INT64_C(30000000000),
                     .keep_ns = INT64_C(86400000000000) },
    };
    arguments_next next = arguments_read(&arguments, options, argc, argv);
    if (next != ARGUMENTS_RUN)
        return next;
    options->paths = argv + optind;
    options->path_count = argc - optind;
    return fits_together(options) ? ARGUMENTS_RUN : ARGUMENTS_BAD;
}
