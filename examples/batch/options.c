/* SPDX-License-Identifier: MIT
 *
 * The command line: reads it into the options, or says in one line which argument is wrong and why. */
#include "options.h"
#include "arguments.h"
#include "paths.h"

#include <stdio.h>
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

static bool read_workers(const char *text, unsigned *workers)
{
    uint64_t number = 0;
    bool good = arguments_number("-j", text, 1, MAX_WORKERS, &number);
    *workers = (unsigned)number;
    return good;
}

static bool read_option(struct options *options, int option, char **argv)
{
    switch (option) {
    case 'j':
        return read_workers(optarg, &options->workers);
    case OPTION_ALLOCATION:
        return arguments_size("--allocation", optarg, &options->budget.allocation);
    case OPTION_MEMORY:
        return arguments_size("--memory", optarg, &options->budget.memory);
    case OPTION_TIMEOUT:
        return arguments_duration("--timeout", optarg, &options->budget.wall_ns);
    case OPTION_UNBOUNDED:
        return options->unbounded = true;
    case OPTION_JSON:
        options->json = optarg;
        return true;
    case OPTION_REPORT:
        options->why = optarg;
        return true;
    case '0':
        return options->zero_separated = true;
    case 'q':
        return options->quiet = true;
    default:
        return arguments_bad_option(known, option, argv);
    }
}

static bool fits_together(const struct options *options)
{
    if (options->path_count == 0)
        return arguments_bad("no PATH was given");
    return paths_separator_fits(options->zero_separated, options->paths, options->path_count);
}

options_next options_read(struct options *options, int argc, char **argv)
{
    *options = (struct options){
        .workers = arguments_processors(),
        .budget = { .allocation = (size_t)4 << 30, .memory = (size_t)256 << 20, .wall_ns = UINT64_C(10000000000) }
    };
    opterr = 0;
    int option;
    while ((option = getopt_long(argc, argv, ":j:0qhV", known, NULL)) != -1) {
        if (option == 'h')
            return fputs(help, stdout), OPTIONS_DONE;
        if (option == 'V')
            return printf("stint-batch %s\n", stint_version()), OPTIONS_DONE;
        if (!read_option(options, option, argv))
            return OPTIONS_BAD;
    }
    options->paths = argv + optind;
    options->path_count = argc - optind;
    return fits_together(options) ? OPTIONS_RUN : OPTIONS_BAD;
}
