/* SPDX-License-Identifier: MIT
 *
 * The command line; see options.h. */
#include "options.h"
#include "budget_options.h"

#include <limits.h>
#include <string.h>

#define KILL_AFTER_NS UINT64_C(2000000000)

static const char help[] =
    "Usage: stint-run [OPTION]... [--] PROGRAM [ARGUMENT]...\n"
    "Run a program that knows nothing of stint within limits, and say at the end what it took.\n"
    "\n"
    "      --allocation SIZE   bytes that it may allocate in all; then its allocations fail\n"
    "      --memory SIZE       bytes that it may hold at once; then its allocations fail\n"
    "      --timeout DURATION  time that it may take; then it gets SIGTERM\n"
    "      --cpu DURATION      processor time of all its threads; then it gets SIGTERM\n"
    "      --files N           descriptors that each of its processes may have\n"
    "      --processes N       processes and threads that it may have at once, itself counted; then it is killed\n"
    "      --children HOW      what limits the programs that it starts have: 'inherit' (the default): each the same;\n"
    "                          'share': all together these; 'free': none\n"
    "      --wall              have the kernel limit it too, and limit the memory of all its processes together; this\n"
    "                          is for any program, also for one that is linked statically or has its own malloc\n"
    "      --kill-after DURATION\n"
    "                          time between SIGTERM and SIGKILL; default 2s\n"
    "      --profile FILE      write a profile of its memory: pprof, or collapsed stacks where FILE ends in "
    ".collapsed\n"
    "      --report FILE       write where it was, and what it held, when it passed --allocation or --memory: text, "
    "or\n"
    "                          JSON where FILE ends in .json\n"
    "      --json              write the last line as JSON\n"
    "      --preserve-status   end with the program's own status where a limit was passed, too\n"
    "  -q, --quiet             write no last line\n"
    "  -h, --help              show this\n"
    "  -V, --version           show the version\n"
    "\n" ARGUMENTS_UNITS_HELP "; 0 is no limit.\n"
    "\n"
    "What is counted: what all threads of a dynamic program allocate, in its own code and in all libraries, to the "
    "byte.\n"
    "--memory counts what the main thread holds; once there are other threads, also what is resident, as --wall does. "
    "A\n"
    "program that another one starts is counted by itself. Time is that of the program; processor time is each\n"
    "process's, with --children share that of all, with free the program's.\n"
    "\n"
    "Exit status: that of the program; 128 + N if signal N ended it; and where a limit was passed 120 (--allocation),\n"
    "121 (--memory), 122 (--cpu), 123 (--processes) or 124 (--timeout). 125: stint-run failed; 126: the program "
    "cannot\n"
    "be run, or cannot be metered; 127: it was not found.\n";

enum {
    OPTION_CPU = 256,
    OPTION_FILES,
    OPTION_PROCESSES,
    OPTION_CHILDREN,
    OPTION_WALL,
    OPTION_KILL_AFTER,
    OPTION_PROFILE,
    OPTION_REPORT,
    OPTION_JSON,
    OPTION_PRESERVE_STATUS,
};

static const struct option known[] = {
    BUDGET_OPTIONS,
    { "cpu", required_argument, NULL, OPTION_CPU },
    { "files", required_argument, NULL, OPTION_FILES },
    { "processes", required_argument, NULL, OPTION_PROCESSES },
    { "children", required_argument, NULL, OPTION_CHILDREN },
    { "wall", no_argument, NULL, OPTION_WALL },
    { "kill-after", required_argument, NULL, OPTION_KILL_AFTER },
    { "profile", required_argument, NULL, OPTION_PROFILE },
    { "report", required_argument, NULL, OPTION_REPORT },
    { "json", no_argument, NULL, OPTION_JSON },
    { "preserve-status", no_argument, NULL, OPTION_PRESERVE_STATUS },
    { "quiet", no_argument, NULL, 'q' },
    ARGUMENTS_LAST,
};

static bool read_children(const char *text, enum record_children *children)
{
    static const char *const names[] = {
        [RECORD_INHERIT] = "inherit", [RECORD_SHARE] = "share", [RECORD_FREE] = "free"
    };
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(text, names[i]) == 0) {
            *children = (enum record_children)i;
            return true;
        }
    }
    return arguments_bad("--children: '%s' is none of inherit, share and free", text);
}

static bool read_path(const char *option, const char *text, const char **path)
{
    *path = text;
    return (text[0] != '\0' && strlen(text) < PATH_MAX) || arguments_bad("%s: '%s' is no path of a file", option, text);
}

static bool read_limit(struct options *options, int option)
{
    switch (option) {
    case OPTION_CPU:
        return arguments_duration("--cpu", optarg, &options->budget.cpu_ns);
    case OPTION_FILES:
        return arguments_count("--files", optarg, INT_MAX, &options->files);
    case OPTION_PROCESSES:
        return arguments_count("--processes", optarg, INT_MAX, &options->processes);
    case OPTION_KILL_AFTER:
        return arguments_duration("--kill-after", optarg, &options->kill_after_ns);
    default:
        return budget_options_read(option, &options->budget);
    }
}

static bool read_option(void *all, int option)
{
    struct options *options = all;
    switch (option) {
    case OPTION_CHILDREN:
        return read_children(optarg, &options->children);
    case OPTION_WALL:
        return options->wall = true;
    case OPTION_PROFILE:
        return read_path("--profile", optarg, &options->profile);
    case OPTION_REPORT:
        return read_path("--report", optarg, &options->report);
    case OPTION_JSON:
        return options->json = true;
    case OPTION_PRESERVE_STATUS:
        return options->preserve_status = true;
    case 'q':
        return options->quiet = true;
    default:
        return read_limit(options, option);
    }
}

arguments_next options_read(struct options *options, int argc, char **argv)
{
    /* "+": what lies behind PROGRAM is the program's. */
    static const struct arguments arguments = { "stint-run", help, "+:qhV", known, read_option };
    *options = (struct options){ .kill_after_ns = KILL_AFTER_NS };
    arguments_next next = arguments_read(&arguments, options, argc, argv);
    if (next != ARGUMENTS_RUN)
        return next;
    options->program = argv + optind;
    if (options->program[0] == NULL)
        return arguments_bad("no PROGRAM was given"), ARGUMENTS_BAD;
    return ARGUMENTS_RUN;
}
