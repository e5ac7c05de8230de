/* SPDX-License-Identifier: MIT
 *
 * The command line of stint-bench; see options.h. */
#include "options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#define RUNS_MAX 1000

static const char help[] =
    "usage: stint-bench [--list] [--only GLOB] [--quick] [--runs N] [--json FILE] [--markdown FILE]\n"
    "                   [--compare OLD.json]\n"
    "\n"
    "Compares stint with what one would use instead. The subjects of a bench run in turns, each in a process of its\n"
    "own, so other programs disturb all of them alike. Trust the ratios, not the nanoseconds.\n"
    "\n"
    "  --list           name the benches and their subjects, and measure nothing\n"
    "  --only GLOB      only the benches whose names match, as in 'alloc.*'\n"
    "  --quick          less than 5 minutes; otherwise less than 30\n"
    "  --runs N         start each subject's process N times; default 11, or 5 with --quick\n"
    "  --json FILE      also write one line of JSON a figure; -: to standard output, and the table to standard error\n"
    "  --markdown FILE  also write the table in Markdown\n"
    "  --compare FILE   name what got slower since an earlier run wrote FILE\n"
    "  --help           show this help\n"
    "\n"
    "Exit status: 0; 1 something got slower beyond the noise, or could not be measured; 2 usage error.\n";

static void misused(const char *what)
{
    fprintf(stderr, "stint-bench: %s (see --help)\n", what);
    exit(2);
}

struct bench_options bench_options_read(int argc, char **argv)
{
    static const struct option known[] = {
        { "list", no_argument, NULL, 'l' },
        { "only", required_argument, NULL, 'o' },
        { "quick", no_argument, NULL, 'q' },
        { "runs", required_argument, NULL, 'r' },
        { "json", required_argument, NULL, 'j' },
        { "compare", required_argument, NULL, 'c' },
        { "help", no_argument, NULL, 'h' },
        { "markdown", required_argument, NULL, 'm' },
        { NULL, 0, NULL, 0 },
    };
    struct bench_options options = { .runs = 0 };
    int option;
    while ((option = getopt_long(argc, argv, "h", known, NULL)) != -1) {
        char *end;
        switch (option) {
        case 'l':
            options.list = true;
            break;
        case 'o':
            options.only = optarg;
            break;
        case 'q':
            options.quick = true;
            break;
        case 'r':
            options.runs = strtoul(optarg, &end, 10);
            if (*end != '\0' || options.runs < 1 || options.runs > RUNS_MAX)
                misused("--runs takes a number from 1 to 1000");
            break;
        case 'j':
            options.json = optarg;
            break;
        case 'c':
            options.compare = optarg;
            break;
        case 'm':
            options.markdown = optarg;
            break;
        case 'h':
            fputs(help, stdout);
            exit(0);
        default:
            exit(2);
        }
    }
    if (optind != argc)
        misused("there are arguments that are no options");
    return options;
}
