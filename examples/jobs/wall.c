/* SPDX-License-Identifier: MIT
 *
 * A wall for documents; see wall.h. parse_wall_run and warm_up run in its processes, the rest in the program. */
#include "wall.h"

#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Documents that wait for a child, each with an open descriptor. */
#define QUEUE 256

#define REPLY_LIMIT ((size_t)4096)

static int warm_up(void *unused)
{
    (void)unused;
    parse_warm_up();
    return 0;
}

/* What a document may have opened: SQLite takes its seed from the one, the other has the converters of iconv. */
static size_t add_paths(stint_wall_path paths[])
{
    static const char *const known[] = { "/dev/urandom", "/usr/lib/x86_64-linux-gnu/gconv",
                                         "/usr/lib/aarch64-linux-gnu/gconv", "/usr/lib/riscv64-linux-gnu/gconv",
                                         "/usr/lib64/gconv" };
    size_t count = 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (access(known[i], R_OK) == 0)
            paths[count++] = (stint_wall_path){ .path = known[i] };
    }
    return count;
}

#define OTHER_DESCRIPTORS 512

/* Each child takes three. */
static void make_room_for_descriptors(unsigned workers)
{
    struct rlimit limit;
    rlim_t wanted = OTHER_DESCRIPTORS + (rlim_t)workers * 3;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= wanted)
        return;
    limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
    setrlimit(RLIMIT_NOFILE, &limit);
}

int parse_wall_create(const parse_wall_options *options, stint_wall **wall, char *message, size_t room)
{
    stint_wall_path paths[4];
    stint_wall_options made = STINT_WALL_OPTIONS_INIT;
    make_room_for_descriptors(options->workers);
    made.name = "documents";
    made.setup = warm_up;
    made.tasks_per_child = options->reuse ? options->reuse : PARSE_WALL_REUSE;
    made.spare = made.tasks_per_child > 1 ? 0 : options->workers;
    made.paths = paths;
    made.path_count = add_paths(paths);
    made.memory = options->memory;
    made.input_limit = sizeof(parse_kind);
    made.reply_limit = REPLY_LIMIT;
    made.queue_capacity = QUEUE;
    made.message = message;
    made.message_size = room;
    return stint_wall_create(&made, wall);
}

int parse_wall_run(const void *input, size_t size, stint_reply *reply)
{
    parse_document document = { .path = "" };
    (void)size;
    memcpy(&document.kind, input, sizeof document.kind);
    int error = parse_document_behind_wall(&document, stint_reply_fd(reply, 0));
    if (error)
        return stint_fail(error, document.detail, strlen(document.detail) + 1);
    return stint_reply_write(reply, &document.items, sizeof document.items);
}
