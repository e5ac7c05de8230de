/* SPDX-License-Identifier: MIT
 *
 * The command line: reads it into the options, or says in one line which argument is wrong and why. */
#include "options.h"
#include "budget_options.h"
#include "paths.h"

#define MAX_WORKERS 1024
#define MAX_REUSE 1000000
#define BUDGET_HELP BUDGET_OF_DOCUMENT_HELP("  ", "file")

static const char help[] =
    "Usage: stint-batch [OPTION]... PATH...\n"
    "Parse files, each as a task with a budget of its own, in processes that can do nothing else: a file that asks "
    "for\n"
    "too much, or crashes its parser, ends there, and the others go on. The kind is known by the ending: .xml .json\n"
    ".sql .lua .expr .bad; other files are skipped and counted.\n"
    "\n"
    "A PATH is a file, or a folder, which is walked in sorted order; '-' reads paths from standard input, one a line.\n"
    "\n"
    "  -j, --workers N         run N files at once; default: the number of processors\n" BUDGET_HELP
    "      --reuse N           so many files in one process, one after the other; default 128; 1: each alone\n"
    "      --in-place          parse them in this process, for files that you trust not to attack their parser\n"
    "      --unbounded         in place, without tasks and limits, to measure against\n"
    "      --json FILE         write a JSON line for each file, and one for the summary; '-': to standard output\n"
    "      --report DIR        write to this folder why each file that was not ok was stopped, a file for each\n"
    "  -0, --null              paths on standard input end with a zero byte\n"
    "  -q, --quiet             no progress bar and no table, only the summary line\n"
    "  -h, --help              show this\n"
    "  -V, --version           show the version\n"
    "\n" ARGUMENTS_UNITS_HELP "; 0 is no limit.\n"
    "\n"
    "On a terminal a progress bar is shown. Ctrl-C cancels what is left; within a second it reports, and ends.\n"
    "Exit status: 0 all ok, 1 some were not, 2 unusable arguments, 130 cancelled by Ctrl-C.\n";

enum { OPTION_UNBOUNDED = 256, OPTION_JSON, OPTION_REPORT, OPTION_IN_PLACE, OPTION_REUSE };

static const struct option known[] = {
    { "workers", required_argument, NULL, 'j' },
    BUDGET_OPTIONS,
    { "unbounded", no_argument, NULL, OPTION_UNBOUNDED },
    { "in-place", no_argument, NULL, OPTION_IN_PLACE },
    { "reuse", required_argument, NULL, OPTION_REUSE },
    { "json", required_argument, NULL, OPTION_JSON },
    { "report", required_argument, NULL, OPTION_REPORT },
    { "null", no_argument, NULL, '0' },
    { "quiet", no_argument, NULL, 'q' },
    ARGUMENTS_LAST,
};

static bool read_option(void *all, int option)
{
    struct options *options = all;
    switch (option) {
    case 'j':
        return arguments_count("-j", optarg, MAX_WORKERS, &options->workers);
    case OPTION_UNBOUNDED:
        return options->unbounded = true;
    case OPTION_IN_PLACE:
        return options->in_place = true;
    case OPTION_REUSE:
        return arguments_count("--reuse", optarg, MAX_REUSE, &options->reuse);
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
        return budget_options_read(option, &options->budget);
    }
}

static bool fits_together(const struct options *options)
{
    if (options->path_count == 0)
        return arguments_bad("no PATH was given");
    if (options->reuse && (options->in_place || options->unbounded))
        return arguments_bad("--reuse is of no use with %s", options->unbounded ? "--unbounded" : "--in-place");
    return paths_separator_fits(options->zero_separated, options->paths, options->path_count);
}

arguments_next options_read(struct options *options, int argc, char **argv)
{
    static const struct arguments arguments = { "stint-batch", help, ":j:0qhV", known, read_option };
    *options = (struct options){ .workers = arguments_processors(), .budget = BUDGET_OF_DOCUMENT };
    arguments_next next = arguments_read(&arguments, options, argc, argv);
    if (next != ARGUMENTS_RUN)
        return next;
    options->paths = argv + optind;
    options->path_count = argc - optind;
    options->in_place |= options->unbounded;
    return fits_together(options) ? ARGUMENTS_RUN : ARGUMENTS_BAD;
}
