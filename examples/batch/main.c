/* SPDX-License-Identifier: MIT
 *
 * stint-batch: parse many files, each as a task with a budget of its own. This file puts the parts together. */
#include "options.h"
#include "run.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EXIT_ALL_OK = 0, EXIT_NOT_ALL_OK = 1, EXIT_UNUSABLE = 2, EXIT_INTERRUPTED = 130 };

static stint_token *root;

/* Setting a token is allowed in a signal handler. Who presses twice does not want to wait. */
static void interrupt(int signal)
{
    (void)signal;
    if (stint_token_is_set(root))
        _exit(EXIT_INTERRUPTED);
    stint_token_set(root);
}

static int complain(const char *about, int error)
{
    fprintf(stderr, "stint-batch: %s: %s\n", about, strerror(error));
    return error;
}

static int gather(const struct options *options, struct paths *paths)
{
    for (int i = 0; i < options->path_count; i++) {
        const char *path = options->paths[i];
        bool input = strcmp(path, "-") == 0;
        int error = input ? paths_add_from_input(paths, options->zero_separated ? 0 : '\n') : paths_add(paths, path);
        if (error)
            return complain(input ? "standard input" : path, error);
    }
    return 0;
}

static int open_json(const struct options *options, FILE **json)
{
    if (!options->json)
        return 0;
    *json = strcmp(options->json, "-") == 0 ? stdout : fopen(options->json, "we");
    return *json ? 0 : complain(options->json, errno);
}

static int run_all(const struct options *options, const struct paths *paths, FILE *json)
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
        return complain("report", ENOMEM), EXIT_NOT_ALL_OK;
    struct run run = { paths, report, options->workers, options->budget, root };
    int error = options->unbounded ? run_unbounded(&run) : run_bounded(&run);
    if (error)
        complain("cannot start", error);
    if (report_why_error(report))
        error = complain(options->why, report_why_error(report));
    report_tally tally = report_end(report);
    if (json && (fflush(json) || ferror(json)))
        error = complain(options->json, errno ? errno : EIO);
    if (stint_token_is_set(root))
        return EXIT_INTERRUPTED;
    return error || tally.error || tally.cancelled ? EXIT_NOT_ALL_OK : EXIT_ALL_OK;
}

int main(int argc, char **argv)
{
    struct options options;
    options_next next = options_read(&options, argc, argv);
    if (next != OPTIONS_RUN)
        return next == OPTIONS_DONE ? EXIT_ALL_OK : EXIT_UNUSABLE;
    struct paths paths = PATHS_INIT;
    FILE *json = NULL;
    if (gather(&options, &paths) || open_json(&options, &json)) {
        paths_free(&paths);
        return EXIT_UNUSABLE;
    }
    parse_ready_libraries();
    if (stint_token_create(NULL, &root))
        return complain("token", ENOMEM), EXIT_NOT_ALL_OK;
    struct sigaction action = { .sa_handler = interrupt, .sa_flags = SA_RESTART };
    sigaction(SIGINT, &action, NULL);
    int status = run_all(&options, &paths, json);
    if (json && json != stdout)
        fclose(json);
    paths_free(&paths);
    stint_token_release(root);
    return status;
}
