/* SPDX-License-Identifier: MIT
 *
 * Shared by the tests of the sandbox: a process that closes it, as a template does, and one in it that tries things,
 * as a child does. */
#ifndef TESTS_WALL_BOXED_H
#define TESTS_WALL_BOXED_H

#include <executor/wall/group.h>
#include <executor/wall/sandbox.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "../support.h"

#define NO_GROUPS NULL, 0

/* The end of a child: in memory that the processes share. */
struct boxed {
    int closed;  /* what closing has said */
    int entered; /* and entering */
    int answer;  /* what the child has found; NOTHING: it came to no end */
    int status;  /* as waitpid has it */
    bool setup_failed;
    char message[STI_WALL_MESSAGE_SIZE];
};

#define NOTHING (-12345)

/* Nothing is named, and little allowed. */
static inline struct sti_wall_config config_of(stint_wall_sandbox sandbox)
{
    return (struct sti_wall_config){
        .sandbox = sandbox,
        .memory = 64 * MIB,
        .descriptors = 64,
        .stack = 8 * MIB,
        .input_limit = MIB,
        .reply_limit = MIB,
    };
}

static inline struct sti_wall_config closed(void)
{
    return config_of(STINT_WALL_CLOSED);
}

static inline struct sti_wall_config open_config(void)
{
    return config_of(STINT_WALL_OPEN);
}

static inline void name_path(struct sti_wall_config *config, const char *path, bool writable)
{
    snprintf(config->paths[config->path_count].path, STI_WALL_PATH_SIZE, "%s", path);
    config->paths[config->path_count++].writable = writable;
}

static inline void run_in_box(struct boxed *boxed, const struct sti_wall_config *config, const int *groups,
                              size_t count, int (*setup)(void), int (*function)(void))
{
    boxed->setup_failed = setup != NULL && setup() != 0;
    if (boxed->setup_failed)
        return;
    boxed->closed = sti_sandbox_close(config, boxed->message, sizeof boxed->message);
    if (boxed->closed != 0)
        return;
    pid_t child = fork();
    if (child == 0) {
        boxed->entered = sti_sandbox_enter_child(config, groups, count);
        if (boxed->entered == 0)
            boxed->answer = function();
        _exit(0);
    }
    if (child < 0 || waitpid(child, &boxed->status, 0) != child)
        boxed->setup_failed = true;
}

/* The function runs in a child; setup in its template, before the sandbox closes. */
static inline struct boxed boxed_in(const struct sti_wall_config *config, const int *groups, size_t count,
                                    int (*setup)(void), int (*function)(void))
{
    struct boxed *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    shared->answer = NOTHING;
    pid_t template = fork();
    if (template == 0) {
        run_in_box(shared, config, groups, count, setup, function);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(template, &status, 0), template);
    assert_int_equal(status, 0);
    struct boxed boxed = *shared;
    munmap(shared, sizeof *shared);
    assert_false(boxed.setup_failed);
    return boxed;
}

static inline struct boxed boxed(const struct sti_wall_config *config, int (*function)(void))
{
    return boxed_in(config, NO_GROUPS, NULL, function);
}

/* The function finds nothing wrong: 0; otherwise the line where something was. */
#define assert_passes(config, function) assert_passed(boxed(config, function))
#define assert_passed(result)                                                                                          \
    do {                                                                                                               \
        const struct boxed given = (result);                                                                           \
        assert_string_equal(given.message, "");                                                                        \
        assert_int_equal(given.closed, 0);                                                                             \
        assert_int_equal(given.entered, 0);                                                                            \
        assert_int_equal(given.status, 0);                                                                             \
        assert_int_equal(given.answer, 0);                                                                             \
    } while (0)

/* In a child: return the line if it is not so. */
#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            return __LINE__;                                                                                           \
    } while (0)

/* The call fails with this error. */
#define REFUSED(error, call) CHECK((errno = 0, (call)) == -1 && errno == (error))

#endif
