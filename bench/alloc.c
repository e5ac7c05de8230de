/* SPDX-License-Identifier: MIT
 *
 * alloc.*: what metering costs an allocation, and what it costs work that allocates as it goes. */
#include "bench.h"
#include "task.h"
#include "work.h"

#define A_MINUTE ((uint64_t)60 * 1000000000)

#define IN_TASK(work, wall_ns)                                                                                         \
    static size_t work##_in_task(double *figures)                                                                      \
    {                                                                                                                  \
        return bench_in_task(work, wall_ns, figures);                                                                  \
    }

IN_TASK(work_pair, 0)
IN_TASK(work_used, 0)
IN_TASK(work_sqlite, A_MINUTE)
IN_TASK(work_xml, A_MINUTE)
IN_TASK(work_lua, A_MINUTE)
IN_TASK(work_json, A_MINUTE)

static size_t work_pair_with_deadline(double *figures)
{
    return bench_in_task(work_pair, A_MINUTE, figures);
}

static size_t sqlite_faults_in_task(double *figures)
{
    return work_faults(work_sqlite_in_task, figures);
}

#define MIMALLOC                                                                                                       \
    {                                                                                                                  \
        "mimalloc", .program = "stint-bench-mimalloc"                                                                  \
    }
#define GLIBC                                                                                                          \
    {                                                                                                                  \
        "glibc", .program = "stint-bench-glibc"                                                                        \
    }

/* The task has a deadline, as tasks do. */
#define APP(app, of)                                                                                                   \
    {                                                                                                                  \
        .name = "alloc.app." #app, .unit = "ms", .what = "some work of " of, .rounds = 30,                             \
        .subjects = { { "stint-task", .prepare = work_app_prepare, .measure = work_##app##_in_task },                  \
                      { "stint-idle", .prepare = work_app_prepare, .measure = work_##app },                            \
                      MIMALLOC,                                                                                        \
                      GLIBC },                                                                                         \
        .targets = { { "stint-task", BENCH_RATIO, 1.02, "mimalloc" },                                                  \
                     { "stint-idle", BENCH_RATIO, 1.02, "mimalloc" } },                                                \
    }

const struct bench bench_alloc[] = {
    { .name = "alloc.pair",
      .unit = "ns/op",
      .what = "a free and a malloc of a small block in the first cache",
      .rounds = 30,
      .subjects = { { "stint-task", .prepare = work_pair_prepare, .measure = work_pair_in_task },
                    { "stint-deadline", .prepare = work_pair_prepare, .measure = work_pair_with_deadline },
                    { "stint-idle", .prepare = work_pair_prepare, .measure = work_pair },
                    MIMALLOC,
                    { "forwarding", .program = "stint-bench-forwarding" },
                    { "talloc", .program = "stint-bench-talloc", .package = "libtalloc-dev" } },
      .targets = { { "stint-task", BENCH_RATIO, BENCH_PAIR_MAX, "mimalloc" },
                   { "stint-idle", BENCH_RATIO, 1.02, "mimalloc" } } },
    { .name = "alloc.used",
      .unit = "ns/op",
      .what = "the same of 65,536 blocks that are written to",
      .rounds = 30,
      .subjects = { { "stint-task", .prepare = work_pair_prepare, .measure = work_used_in_task },
                    { "stint-idle", .prepare = work_pair_prepare, .measure = work_used },
                    MIMALLOC },
      .targets = { { "stint-task", BENCH_RATIO, 1.10, "mimalloc" }, { "stint-idle", BENCH_RATIO, 1.02, "mimalloc" } } },
    APP(sqlite, "SQLite in memory: 4,000 rows in, two queries"),
    APP(xml, "libxml2: 2,000 records parsed, walked and written"),
    APP(lua, "Lua: 12,000 strings, tables, sort and gsub"),
    APP(json, "jansson: 2,000 objects parsed and written"),
    { .name = "alloc.faults",
      .unit = "faults",
      .what = "page faults of the work of SQLite, after 40 ms in which it did nothing",
      .rounds = 12,
      .no_ratios = true,
      .subjects = { { "stint-task", .prepare = work_app_prepare, .measure = sqlite_faults_in_task },
                    { "stint-idle", .prepare = work_app_prepare, .measure = work_sqlite_faults },
                    MIMALLOC },
      .targets = { { "stint-task", BENCH_MEDIAN, 8, NULL } } },
    { .name = NULL },
};
