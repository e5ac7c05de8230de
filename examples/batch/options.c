/* SPDX-License-Identifier: MIT
 *
 * The command line: reads it into the options, or says in one line which argument is wrong and why. */
#include "options.h"
#include "text.h"

#include <getopt.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stint/version.h>

#define MAX_WORKERS 1024

static const char help[] =
    "Usage: stint-batch [OPTION]... PATH...\n"
    "Parse files, each as a task with a budget of its own: one that asks for too much is stopped, and its memory is\n"
    "taken back. The kind is known by the ending: .xml .json .sql .lua .expr; other files are skipped and counted.\n"
    "\n"
    "A PATH is a file, or a folder, which is walked in sorted order; '-' reads paths from standard input, one a line.\n"
    "\n"
    "  -j, --workers N         run N files at once; default: the number of processors\n"
    "      --allocation SIZE   bytes a file may allocate in all; default 4G\n"
    "      --memory SIZE       bytes a file may hold at once; default 256M\n"
    "      --timeout DURATION  time a file may take; default 10s\n"
    "      --unbounded         the same work without tasks and limits, to measure against\n"
    "      --json FILE         write a JSON line for each file, and one for the summary; '-': to standard output\n"
    "      --report DIR        write to this folder why each file that was not ok was stopped, a file for each\n"
    "  -0, --null              paths on standard input end with a zero byte\n"
    "  -q, --quiet             no progress bar and no table, only the summary line\n"
    "  -h, --help              show this\n"
    "  -V, --version           show the version\n"
    "\n"
    "SIZE is a number with k, M, G or T (powers of 1024), DURATION one with us, ms, s, m or h; 0 is no limit.\n"
    "\n"
    "On a terminal a progress bar is shown. Ctrl-C cancels what is left and still reports; a second one ends at once.\n"
    "Exit status: 0 all ok, 1 some were not, 2 unusable arguments, 130 cancelled by Ctrl-C.\n";

enum { OPTION_ALLOCATION = 256, OPTION_MEMORY, OPTION_TIMEOUT, OPTION_UNBOUNDED, OPTION_JSON, OPTION_REPORT };

static const struct option known[] = {
    { "workers", required_argument, NULL, 'j' },
    { "allocation", required_argument, NULL, OPTION_ALLOCATION },
    { "memory", required_argument, NULL, OPTION_MEMORY },
    { "timeout", required_argument, NULL, OPTION_TIMEOUT },
    { "unbounded", no_argument, NULL, OPTION_UNBOUNDED },
    { "json", required_argument, NULL, OPTION_JSON },
    { "report", required_argument, NULL, OPTION_REPORT },
    { "null", no_argument, NULL, '0' },
    { "quiet", no_argument, NULL, 'q' },
    { "help", no_argument, NULL, 'h' },
    { "version", no_argument, NULL, 'V' },
    { NULL, 0, NULL, 0 },
};

static options_next bad(const char *format, ...) __attribute__((format(printf, 1, 2)));

static options_next bad(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("stint-batch: ", stderr);
    vfprintf(stderr, format, arguments);
    fputs(" (see stint-batch --help)\n", stderr);
    va_end(arguments);
    return OPTIONS_BAD;
}

static unsigned processors(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set))
        return 1;
    return (unsigned)CPU_COUNT(&set);
}

static options_next read_workers(const char *text, unsigned *workers)
{
    char *end;
    unsigned long number = strtoul(text, &end, 10);
    if (*end || strspn(text, "0123456789") == 0 || number < 1 || number > MAX_WORKERS)
        return bad("-j: '%s' is no number from 1 to %d", text, MAX_WORKERS);
    *workers = (unsigned)number;
    return OPTIONS_RUN;
}

static options_next read_size(const char *option, const char *text, size_t *size)
{
    if (!text_read_size(text, size))
        return bad("%s: '%s' is no size, such as 64M or 1GiB", option, text);
    return OPTIONS_RUN;
}

static options_next read_timeout(const char *text, uint64_t *nanoseconds)
{
    if (!text_read_duration(text, nanoseconds))
        return bad("--timeout: '%s' is no duration, such as 500ms or 2s", text);
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

static options_next read_option(struct options *options, int option, char **argv)
{
    switch (option) {
    case 'j':
        return read_workers(optarg, &options->workers);
    case OPTION_ALLOCATION:
        return read_size("--allocation", optarg, &options->budget.allocation);
    case OPTION_MEMORY:
        return read_size("--memory", optarg, &options->budget.memory);
    case OPTION_TIMEOUT:
        return read_timeout(optarg, &options->budget.wall_ns);
    case OPTION_UNBOUNDED:
        options->unbounded = true;
        return OPTIONS_RUN;
    case OPTION_JSON:
        options->json = optarg;
        return OPTIONS_RUN;
    case OPTION_REPORT:
        options->why = optarg;
        return OPTIONS_RUN;
    case '0':
        options->zero_separated = true;
        return OPTIONS_RUN;
    case 'q':
        options->quiet = true;
        return OPTIONS_RUN;
    case 'h':
        fputs(help, stdout);
        return OPTIONS_DONE;
    case 'V':
        printf("stint-batch %s\n", stint_version());
        return OPTIONS_DONE;
    default:
        return bad_option(option, argv);
    }
}

static bool has_dash(const struct options *options)
{
    for (int i = 0; i < options->path_count; i++) {
        if (strcmp(options->paths[i], "-") == 0)
            return true;
    }
    return false;
}

options_next options_read(struct options *options, int argc, char **argv)
{
    *options = (struct options){
        .workers = processors(),
        .budget = { .allocation = (size_t)4 << 30, .memory = (size_t)256 << 20, .wall_ns = UINT64_C(10000000000) }
    };
    opterr = 0;
    int option;
    while ((option = getopt_long(argc, argv, ":j:0qhV", known, NULL)) != -1) {
        options_next next = read_option(options, option, argv);
        if (next != OPTIONS_RUN)
            return next;
    }
    options->paths = argv + optind;
    options->path_count = argc - optind;
    if (options->path_count == 0)
        return bad("no PATH was given");
    if (options->zero_separated && !has_dash(options))
        return bad("-0 is of use only where a PATH is '-'");
    return OPTIONS_RUN;
}
