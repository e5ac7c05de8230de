/* SPDX-License-Identifier: MIT
 *
 * The peer that is plain glibc, and what the bare machine takes: stint-bench-glibc. */
#include <string.h>

#include "machine.h"
#include "plain.h"
#include "work.h"

int main(int argc, char **argv)
{
    static const struct bench_work works[] = {
        { "alloc.app.sqlite", "glibc", work_app_prepare, work_sqlite },
        { "alloc.app.xml", "glibc", work_app_prepare, work_xml },
        { "alloc.app.lua", "glibc", work_app_prepare, work_lua },
        { "alloc.app.json", "glibc", work_app_prepare, work_json },
        { "map.pair", "plain", NULL, work_map },
        { "mutex.pair", "plain", work_mutex_prepare, work_mutex },
        { "contain.job", "pthread", work_hold_much, plain_thread_job },
        { "contain.job", "fork-rlimit", work_hold_much, plain_fork_job },
        { "contain.bomb", "fork-rlimit", NULL, plain_fork_bomb },
        { "fork.fib", "serial", NULL, plain_fib },
        { "fork.queens", "serial", NULL, plain_queens },
        { "fork.uts", "serial", NULL, plain_tree },
        { "fork.sort", "serial", NULL, plain_sort },
        { "machine.call", "machine", NULL, machine_call },
        { "machine.clock", "machine", NULL, machine_clock },
        { "machine.locked", "machine", NULL, machine_locked },
        { "machine.wake", "machine", NULL, machine_wake },
        { "submit.future", "machine", NULL, machine_submission },
        { "idle.first", "machine", NULL, machine_wake },
        { "cancel.allocating", "machine", NULL, machine_wake },
        { "cancel.looping", "machine", NULL, machine_two_wakes },
        { "wall.reused", "machine", NULL, machine_trip },
        { "wall.spare", "machine", NULL, machine_paced_trip },
        { "wall.job", "fork-rlimit", plain_fork_parse_prepare, plain_fork_parse },
        { "wall.job", "posix_spawn", work_hold_much, plain_spawn_parse },
        { "wall.throughput", "fork-rlimit", work_parse_first, plain_fork_throughput },
        { NULL, NULL, NULL, NULL },
    };
    if (argc == 2 && strcmp(argv[1], PLAIN_PARSE) == 0)
        return plain_parse_main();
    return bench_serve_main(works, argc, argv);
}
