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
    "Parse files, each in a task with a budget of its own, in other processes that can reach nothing. A file that\n"
    "asks for too much, or crashes its parser, ends alone; the others go on. The ending tells the kind: .xml .json\n"
    ".sql .lua .expr .bad. Other files are skipped and counted.\n"
    "\n"
    "A PATH is a file, or a folder, which is walked in sorted order; '-' reads paths from standard input, one a line.\n"
    "\n"
    "  -j, --workers N         parse N files at once; default: the number of processors\n" BUDGET_HELP
    "      --reuse N           parse N files in one process, one after the other; default 128; 1: each alone\n"
    "      --in-place          parse in this process; for files that you trust\n"
    "      --unbounded         parse in this process, without tasks and limits, as a baseline for measurements\n"
    "      --json FILE         write a JSON line for each file and one for the summary; '-': to standard output\n"
    "      --report DIR        write a report to this folder for each file that was not ok: why it was stopped\n"
    "  -0, --null              paths on standard input end with a zero byte\n"
    "  -q, --quiet             show only the summary line\n"
    "  -h, --help              show this help\n"
    "  -V, --version           show the version\n"
    "\n" ARGUMENTS_UNITS_HELP "; 0 is no limit.\n"
    "\n"
    "A terminal shows the progress. Ctrl-C cancels the rest; the program then reports and ends within a second.\n"
    "Exit status: 0 all files were ok, 1 some were not, 2 usage error or no wall, 130 Ctrl-C.\n";

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
        return arguments_bad("a PATH is missing");
    if (options->reuse && (options->in_place || options->unbounded))
        return arguments_bad("--reuse has no effect with %s", options->unbounded ? "--unbounded" : "--in-place");
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
