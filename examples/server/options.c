/* SPDX-License-Identifier: MIT
 *
 * The command line: reads it into the options, or says in one line which argument is wrong and why. */
#include "options.h"
#include "budget_options.h"

#include <netdb.h>
#include <string.h>

#define MAX_WORKERS 1024
#define MAX_QUEUE 1000000
/* Each may have a query that waits for its reader, and each of those wants a substitute, of which a pool has 1024. */
#define MAX_CONNECTIONS 1000
#define MAX_STATEMENT ((size_t)16 << 20)
#define MAX_ANSWER ((size_t)1 << 30)
#define ANSWER ((size_t)16 << 20)
/* libmicrohttpd counts in seconds. */
#define LEAST_IDLE_NS UINT64_C(1000000000)
#define MOST_IDLE_NS UINT64_C(86400000000000)
#define LISTEN "127.0.0.1:8080"

static const char help[] =
    "Usage: stint-sqld [OPTION]... [DATABASE.db]\n"
    "Answer SQL over HTTP from a SQLite database, which is opened read-only. Each query is a task with a budget of\n"
    "its own: one that asks for too much costs its sender an error, and nobody else anything. Without a DATABASE the\n"
    "server makes a sample of the countries, languages, currencies and scripts of ISO.\n"
    "\n"
    "      --listen ADDR:PORT    default " LISTEN "; port 0 takes a free one\n"
    "      --workers N           run N queries at once; default: twice the number of processors\n"
    "      --memory SIZE         bytes a query may hold at once; default 64M\n"
    "      --allocation SIZE     bytes a query may allocate in all, its answer included; default 1G\n"
    "      --timeout DURATION    time from a query's arrival to its last row; default 5s\n"
    "      --queue N             queries that may wait; default 1000. Without --tenants one address may have half\n"
    "      --global-memory SIZE  bytes that the whole process should not pass; default: its control group's limit\n"
    "      --tenants FILE        keys and limits of tenants; SIGHUP reads it again. Without it each address gets an\n"
    "                            equal share of the workers' time\n"
    "      --page-key FILE       key for the page and /debug; without it only this machine may see them\n"
    "      --statement SIZE      bytes of SQL in one request; default 64k, at most 16M\n"
    "      --connections N       connections at once; default and at most 1000\n"
    "      --idle DURATION       time to send a request, or to take the end of an answer; default 30s\n"
    "      --drain DURATION      time for running queries to end after SIGTERM; default 10s\n"
    "      --wall                run each query in a process of its own, which can always be stopped; an answer is\n"
    "                            then sent when its last row is there\n"
    "      --answer SIZE         with --wall: bytes of an answer; default 16M, at most 1G\n"
    "      --unbounded           run queries without tasks and limits, as a baseline for measurements\n"
    "  -h, --help                show this help\n"
    "  -V, --version             show the version\n"
    "\n"
    "    curl -d 'SELECT name FROM country LIMIT 3' http://" LISTEN "/query\n"
    "\n" ARGUMENTS_UNITS_HELP "; 0 is no limit.\n"
    "docs/server.md has the rest. Exit status: 0 ended by a signal, 1 error while running, 2 usage error.\n";

enum {
    OPTION_LISTEN = 256,
    OPTION_WORKERS,
    OPTION_QUEUE,
    OPTION_GLOBAL_MEMORY,
    OPTION_TENANTS,
    OPTION_PAGE_KEY,
    OPTION_STATEMENT,
    OPTION_CONNECTIONS,
    OPTION_IDLE,
    OPTION_DRAIN,
    OPTION_UNBOUNDED,
    OPTION_WALL,
    OPTION_ANSWER,
};

static const struct option known[] = {
    { "listen", required_argument, NULL, OPTION_LISTEN },
    { "workers", required_argument, NULL, OPTION_WORKERS },
    BUDGET_OPTIONS,
    { "queue", required_argument, NULL, OPTION_QUEUE },
    { "global-memory", required_argument, NULL, OPTION_GLOBAL_MEMORY },
    { "tenants", required_argument, NULL, OPTION_TENANTS },
    { "page-key", required_argument, NULL, OPTION_PAGE_KEY },
    { "statement", required_argument, NULL, OPTION_STATEMENT },
    { "connections", required_argument, NULL, OPTION_CONNECTIONS },
    { "idle", required_argument, NULL, OPTION_IDLE },
    { "drain", required_argument, NULL, OPTION_DRAIN },
    { "unbounded", no_argument, NULL, OPTION_UNBOUNDED },
    { "wall", no_argument, NULL, OPTION_WALL },
    { "answer", required_argument, NULL, OPTION_ANSWER },
    ARGUMENTS_LAST,
};

static bool read_statement(size_t *size)
{
    return arguments_size("--statement", optarg, size) &&
           ((*size >= 1 && *size <= MAX_STATEMENT) || arguments_bad("--statement: '%s' is not from 1 to 16M", optarg));
}

static bool read_answer(size_t *size)
{
    return arguments_size("--answer", optarg, size) &&
           ((*size >= 1 && *size <= MAX_ANSWER) || arguments_bad("--answer: '%s' is not from 1 to 1G", optarg));
}

static bool read_idle(uint64_t *nanoseconds)
{
    return arguments_duration("--idle", optarg, nanoseconds) &&
           ((*nanoseconds >= LEAST_IDLE_NS && *nanoseconds <= MOST_IDLE_NS) ||
            arguments_bad("--idle: '%s' is not from 1s to 24h", optarg));
}

/* No names: what they stand for may change. */
static bool read_address(struct options *options, const char *text)
{
    options->listen = text;
    bool whole = text[0] != ':' && (text[0] == '[' || strchr(text, ':') == strrchr(text, ':'));
    return (whole && address_read(&options->address, text, AI_NUMERICHOST | AI_NUMERICSERV) == 0) ||
           arguments_bad("--listen: '%s' is not an address with a port, such as " LISTEN " or [::1]:8080", text);
}

static bool read_limit(struct options *options, int option)
{
    switch (option) {
    case OPTION_GLOBAL_MEMORY:
        return arguments_size("--global-memory", optarg, &options->global_memory);
    case OPTION_STATEMENT:
        return read_statement(&options->statement);
    case OPTION_ANSWER:
        return read_answer(&options->answer);
    case OPTION_CONNECTIONS:
        return arguments_count("--connections", optarg, MAX_CONNECTIONS, &options->connections);
    case OPTION_IDLE:
        return read_idle(&options->idle_ns);
    case OPTION_DRAIN:
        return arguments_duration("--drain", optarg, &options->drain_ns);
    default:
        return budget_options_read(option, &options->budget);
    }
}

static bool read_option(void *all, int option)
{
    struct options *options = all;
    switch (option) {
    case OPTION_LISTEN:
        return read_address(options, optarg);
    case OPTION_WORKERS:
        return arguments_count("--workers", optarg, MAX_WORKERS, &options->workers);
    case OPTION_QUEUE:
        return arguments_count("--queue", optarg, MAX_QUEUE, &options->queue);
    case OPTION_TENANTS:
        options->tenants = optarg;
        return true;
    case OPTION_PAGE_KEY:
        options->page_key = optarg;
        return true;
    case OPTION_UNBOUNDED:
        return options->unbounded = true;
    case OPTION_WALL:
        return options->wall = true;
    default:
        return read_limit(options, option);
    }
}

/* What cannot be had together. */
static bool fits_together(struct options *options)
{
    if (options->wall && options->unbounded)
        return arguments_bad("--wall and --unbounded exclude each other");
    if (options->wall && options->global_memory != STINT_MEMORY_LIMIT_OF_CGROUP)
        return arguments_bad(
            "--wall and --global-memory exclude each other: each walled query has a process of its own");
    if (options->answer && !options->wall)
        return arguments_bad("--answer has an effect only with --wall");
    if (!options->answer)
        options->answer = ANSWER;
    return true;
}

arguments_next options_read(struct options *options, int argc, char **argv)
{
    static const struct arguments arguments = { "stint-sqld", help, ":hV", known, read_option };
    *options = (struct options){
        .budget = { .memory = (size_t)64 << 20, .allocation = (size_t)1 << 30, .wall_ns = UINT64_C(5000000000) },
        .queue = 1000,
        .global_memory = STINT_MEMORY_LIMIT_OF_CGROUP,
        .statement = (size_t)64 << 10,
        .connections = MAX_CONNECTIONS,
        .idle_ns = UINT64_C(30000000000),
        .drain_ns = UINT64_C(10000000000),
    };
    read_address(options, LISTEN);
    arguments_next next = arguments_read(&arguments, options, argc, argv);
    if (next != ARGUMENTS_RUN)
        return next;
    if (argc - optind > 1)
        return arguments_bad("'%s': only one DATABASE is allowed", argv[optind + 1]), ARGUMENTS_BAD;
    options->database = argv[optind];
    return fits_together(options) ? ARGUMENTS_RUN : ARGUMENTS_BAD;
}
