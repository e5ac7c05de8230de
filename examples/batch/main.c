/* SPDX-License-Identifier: MIT
 *
 * stint-batch: parse many files, each as a task with a budget of its own. This file puts the parts together. */
#include "arguments.h"
#include "budget_options.h"
#include "interrupt.h"
#include "lines.h"
#include "options.h"
#include "run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EXIT_ALL_OK = 0, EXIT_NOT_ALL_OK = 1, EXIT_UNUSABLE = 2, EXIT_INTERRUPTED = 130 };

/* Before any thread. */
static bool open_wall(const struct options *options, stint_wall **wall)
{
    char message[512] = "";
    parse_wall_options wanted = { options->workers, options->reuse, budget_backstop(&options->budget) };
    if (options->in_place)
        return true;
    int error = parse_wall_create(&wanted, wall, message, sizeof message);
    if (error)
        fprintf(stderr, "stint-batch: cannot make a wall (--in-place works without one): %s\n",
                message[0] ? message : strerror(error));
    return error == 0;
}

/* *left: something still runs, which only the end of the process stops. */
static int run_all(const struct options *options, const struct paths *paths, FILE *json, stint_wall *wall,
                   stint_token *root, bool *left)
{
    struct report *report = report_begin(&(report_options){
        .files = paths->count,
        .skipped = paths->skipped,
        .workers = options->workers,
        .unbounded = options->unbounded,
        .quiet = options->quiet,
        .why = options->why,
        .json = json,
        .text = json == stdout ? stderr : stdout,
    });
    if (!report)
        return arguments_complain("report", ENOMEM), EXIT_NOT_ALL_OK;
    struct run run = { paths, report, options->workers, options->budget, wall, root, false };
    int error = options->unbounded ? run_unbounded(&run) : run_bounded(&run);
    if (error)
        arguments_complain("cannot start", error);
    if (report_why_error(report))
        error = arguments_complain(options->why, report_why_error(report));
    report_tally tally = report_end(report);
    int lines_error = lines_check(options->json, json);
    *left = run.left;
    if (interrupt_came())
        return EXIT_INTERRUPTED;
    return error || lines_error || tally.error || tally.cancelled ? EXIT_NOT_ALL_OK : EXIT_ALL_OK;
}

/* All that was gathered. */
static int run_opened(const struct options *options, const struct paths *paths, FILE *json)
{
    stint_wall *wall = NULL;
    stint_token *root;
    bool left = false;
    parse_ready_libraries();
    if (stint_token_create(NULL, &root))
        return arguments_complain("token", ENOMEM), EXIT_NOT_ALL_OK;
    interrupt_sets(root);
    int status = open_wall(options, &wall) ? run_all(options, paths, json, wall, root, &left) : EXIT_UNUSABLE;
    if (left) {
        fflush(NULL);
        _exit(status);
    }
    stint_wall_destroy(wall);
    interrupt_sets(NULL);
    stint_token_release(root);
    return status;
}

int main(int argc, char **argv)
{
    interrupt_catch();
    struct options options;
    arguments_next next = options_read(&options, argc, argv);
    if (next != ARGUMENTS_RUN)
        return next == ARGUMENTS_DONE ? EXIT_ALL_OK : EXIT_UNUSABLE;
    struct paths paths = PATHS_INIT;
    FILE *json = NULL;
    if (paths_gather(&paths, options.paths, options.path_count, options.zero_separated) ||
        lines_open(options.json, &json)) {
        paths_free(&paths);
        return EXIT_UNUSABLE;
    }
    int status = run_opened(&options, &paths, json);
    lines_close(json);
    paths_free(&paths);
    return status;
}
