/* SPDX-License-Identifier: MIT
 *
 * The command line: reads it into the options, or says in one line which argument is wrong and why. */
#include "options.h"
#include "text.h"

#include <errno.h>
#include <getopt.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_WORKERS 1024
#define MAX_QUEUE 1000000
/* Each may have a query that waits for its reader, and each of those wants a substitute, of which a pool has 1024. */
#define MAX_CONNECTIONS 1000
#define MAX_STATEMENT ((size_t)16 << 20)
#define LISTEN "127.0.0.1:8080"

static const char help[] =
    "Usage: stint-sqld [OPTION]... [DATABASE.db]\n"
    "Answer SQL over HTTP from a SQLite database, which is opened read-only. Each query is a task with a budget of "
    "its\n"
    "own: one that asks for too much costs its sender an error, and nobody else anything. Without a DATABASE a sample\n"
    "one is made of the countries, languages, currencies and scripts of ISO.\n"
    "\n"
    "      --listen ADDR:PORT    default " LISTEN "; port 0 takes a free one\n"
    "      --workers N           run N queries at once; default: the number of processors\n"
    "      --memory SIZE         bytes a query may hold at once; default 64M\n"
    "      --allocation SIZE     bytes a query may allocate in all, with those of its answer; default 1G\n"
    "      --timeout DURATION    time from a query's arrival to its last row; default 5s\n"
    "      --queue N             queries that may wait; default 256\n"
    "      --global-memory SIZE  bytes that the whole process should not pass; default: what its control group allows\n"
    "      --tenants FILE        keys, and what each tenant may take; read again at SIGHUP\n"
    "      --page-key FILE       the key of the page and of /debug, which only loopback gets without one\n"
    "      --statement SIZE      bytes of SQL in one request; default 64k, at most 16M\n"
    "      --connections N       connections at once; default and at most 1000\n"
    "      --idle DURATION       time to send a request in, or to take the end of an answer; default 30s\n"
    "      --drain DURATION      time that queries get to end in at SIGTERM; default 10s\n"
    "      --unbounded           queries without tasks and limits, to measure against\n"
    "  -h, --help                show this\n"
    "  -V, --version             show the version\n"
    "\n"
    "    curl -d 'SELECT name FROM country LIMIT 3' http://" LISTEN "/query\n"
    "\n"
    "SIZE is a number with k, M, G or T (powers of 1024), DURATION one with us, ms, s, m or h; 0 is no limit.\n"
    "docs/server.md tells the rest. Exit status: 0 it was told to stop, 1 it could not go on, 2 unusable arguments.\n";

enum {
    OPTION_LISTEN = 256,
    OPTION_WORKERS,
    OPTION_MEMORY,
    OPTION_ALLOCATION,
    OPTION_TIMEOUT,
    OPTION_QUEUE,
    OPTION_GLOBAL_MEMORY,
    OPTION_TENANTS,
    OPTION_PAGE_KEY,
    OPTION_STATEMENT,
    OPTION_CONNECTIONS,
    OPTION_IDLE,
    OPTION_DRAIN,
    OPTION_UNBOUNDED,
};

static const struct option known[] = {
    { "listen", required_argument, NULL, OPTION_LISTEN },
    { "workers", required_argument, NULL, OPTION_WORKERS },
    { "memory", required_argument, NULL, OPTION_MEMORY },
    { "allocation", required_argument, NULL, OPTION_ALLOCATION },
    { "timeout", required_argument, NULL, OPTION_TIMEOUT },
    { "queue", required_argument, NULL, OPTION_QUEUE },
    { "global-memory", required_argument, NULL, OPTION_GLOBAL_MEMORY },
    { "tenants", required_argument, NULL, OPTION_TENANTS },
    { "page-key", required_argument, NULL, OPTION_PAGE_KEY },
    { "statement", required_argument, NULL, OPTION_STATEMENT },
    { "connections", required_argument, NULL, OPTION_CONNECTIONS },
    { "idle", required_argument, NULL, OPTION_IDLE },
    { "drain", required_argument, NULL, OPTION_DRAIN },
    { "unbounded", no_argument, NULL, OPTION_UNBOUNDED },
    { "help", no_argument, NULL, 'h' },
    { "version", no_argument, NULL, 'V' },
    { NULL, 0, NULL, 0 },
};

static options_next bad(const char *format, ...) __attribute__((format(printf, 1, 2)));

static options_next bad(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("stint-sqld: ", stderr);
    vfprintf(stderr, format, arguments);
    fputs(" (see stint-sqld --help)\n", stderr);
    va_end(arguments);
    return OPTIONS_BAD;
}

static options_next read_number(const char *option, const char *text, unsigned long most, unsigned long *number)
{
    char *end;
    errno = 0;
    *number = strtoul(text, &end, 10);
    if (*end || strspn(text, "0123456789") == 0 || errno || *number < 1 || *number > most)
        return bad("%s: '%s' is no number from 1 to %lu", option, text, most);
    return OPTIONS_RUN;
}

static options_next read_unsigned(const char *option, const char *text, unsigned most, unsigned *number)
{
    unsigned long wide;
    options_next next = read_number(option, text, most, &wide);
    if (next == OPTIONS_RUN)
        *number = (unsigned)wide;
    return next;
}

static options_next read_size(const char *option, const char *text, size_t *size)
{
    return text_read_size(text, size) ? OPTIONS_RUN : bad("%s: '%s' is no size, such as 64M or 1GiB", option, text);
}

static options_next read_statement(const char *text, size_t *size)
{
    options_next next = read_size("--statement", text, size);
    if (next == OPTIONS_RUN && (*size < 1 || *size > MAX_STATEMENT))
        return bad("--statement: '%s' is not from 1 to 16M", text);
    return next;
}

static options_next read_duration(const char *option, const char *text, uint64_t *nanoseconds)
{
    return text_read_duration(text, nanoseconds) ? OPTIONS_RUN
                                                 : bad("%s: '%s' is no duration, such as 500ms or 2s", option, text);
}

static options_next read_idle(const char *text, uint64_t *nanoseconds)
{
    options_next next = read_duration("--idle", text, nanoseconds);
    if (next == OPTIONS_RUN && *nanoseconds < UINT64_C(1000000000))
        return bad("--idle: '%s' is less than a second", text);
    return next;
}

/* 127.0.0.1:8080, [::1]:8080. No names: what they stand for may change. */
static options_next read_address(struct options *options, const char *text)
{
    const char *colon = strrchr(text, ':');
    char host[64];
    size_t length = colon ? (size_t)(colon - text) : 0;
    bool brackets = length > 2 && text[0] == '[' && text[length - 1] == ']';
    if (length == 0 || length >= sizeof host)
        return bad("--listen: '%s' is no address with a port, such as " LISTEN " or [::1]:8080", text);
    memcpy(host, text + brackets, length);
    host[length - 2 * (size_t)brackets] = 0;
    struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE, .ai_socktype = SOCK_STREAM };
    struct addrinfo *found = NULL;
    if (strspn(colon + 1, "0123456789") != strlen(colon + 1) || !colon[1] || atol(colon + 1) > 65535 ||
        (!brackets && strchr(host, ':')) || getaddrinfo(host, colon + 1, &hints, &found))
        return bad("--listen: '%s' is no address with a port, such as " LISTEN " or [::1]:8080", text);
    options->listen = text;
    options->address_length = found->ai_addrlen;
    memcpy(&options->address, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return OPTIONS_RUN;
}

/* What getopt_long found wrong: it says little, so the argument itself is looked at. */
static options_next bad_option(int kind, char **argv)
{
    const char *argument = argv[optind - 1];
    if (kind == ':')
        return bad("%s: its argument is missing", argument);
    if (optopt == 0)
        return bad("'%s' is no option", argument);
    for (const struct option *option = known; option->name; option++) {
        if (option->val == optopt && option->has_arg == no_argument)
            return bad("--%s takes no argument", option->name);
    }
    return bad("'-%c' is no option", optopt);
}

static options_next read_limit(struct options *options, int option)
{
    switch (option) {
    case OPTION_MEMORY:
        return read_size("--memory", optarg, &options->budget.memory);
    case OPTION_ALLOCATION:
        return read_size("--allocation", optarg, &options->budget.allocation);
    case OPTION_TIMEOUT:
        return read_duration("--timeout", optarg, &options->budget.wall_ns);
    case OPTION_GLOBAL_MEMORY:
        return read_size("--global-memory", optarg, &options->global_memory);
    case OPTION_STATEMENT:
        return read_statement(optarg, &options->statement);
    case OPTION_CONNECTIONS:
        return read_unsigned("--connections", optarg, MAX_CONNECTIONS, &options->connections);
    case OPTION_IDLE:
        return read_idle(optarg, &options->idle_ns);
    default:
        return read_duration("--drain", optarg, &options->drain_ns);
    }
}

static options_next read_option(struct options *options, int option, char **argv)
{
    switch (option) {
    case OPTION_LISTEN:
        return read_address(options, optarg);
    case OPTION_WORKERS:
        return read_unsigned("--workers", optarg, MAX_WORKERS, &options->workers);
    case OPTION_QUEUE:
        return read_number("--queue", optarg, MAX_QUEUE, &options->queue);
    case OPTION_TENANTS:
        options->tenants = optarg;
        return OPTIONS_RUN;
    case OPTION_PAGE_KEY:
        options->page_key = optarg;
        return OPTIONS_RUN;
    case OPTION_UNBOUNDED:
        options->unbounded = true;
        return OPTIONS_RUN;
    case 'h':
        fputs(help, stdout);
        return OPTIONS_DONE;
    case 'V':
        printf("stint-sqld %s\n", stint_version());
        return OPTIONS_DONE;
    case ':':
    case '?':
        return bad_option(option, argv);
    default:
        return read_limit(options, option);
    }
}

options_next options_read(struct options *options, int argc, char **argv)
{
    *options = (struct options){
        .budget = { .memory = (size_t)64 << 20, .allocation = (size_t)1 << 30, .wall_ns = UINT64_C(5000000000) },
        .queue = 256,
        .global_memory = STINT_MEMORY_LIMIT_OF_CGROUP,
        .statement = (size_t)64 << 10,
        .connections = MAX_CONNECTIONS,
        .idle_ns = UINT64_C(30000000000),
        .drain_ns = UINT64_C(10000000000),
    };
    read_address(options, LISTEN);
    opterr = 0;
    int option;
    while ((option = getopt_long(argc, argv, ":hV", known, NULL)) != -1) {
        options_next next = read_option(options, option, argv);
        if (next != OPTIONS_RUN)
            return next;
    }
    if (argc - optind > 1)
        return bad("'%s': there can be one DATABASE only", argv[optind + 1]);
    options->database = argv[optind];
    return OPTIONS_RUN;
}
