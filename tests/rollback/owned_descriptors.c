/* SPDX-License-Identifier: MIT
 *
 * A task that owns its descriptors loses, when it is rolled back, what it opened and did not close, by whatever call
 * and in whatever library, and nothing of anybody else's. */
#include "openers.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <zlib.h>

/* --- Each way to open one --- */

OPENER(open, open("/dev/null", O_RDONLY))
OPENER(open64, open64("/dev/null", O_RDONLY))
OPENER(openat, openat(AT_FDCWD, "/dev/null", O_RDONLY))
OPENER(creat, creat("/dev/null", 0600))
OPENER(socket, socket(AF_UNIX, SOCK_STREAM, 0))
OPENER(dup, dup(1))
OPENER(fcntl, fcntl(1, F_DUPFD, 20))
OPENER(fcntl_cloexec, fcntl(1, F_DUPFD_CLOEXEC, 30))
OPENER(dup2, dup2(1, 200))
OPENER(dup3, dup3(1, 201, O_CLOEXEC))
OPENER(eventfd, eventfd(0, 0))
OPENER(epoll_create, epoll_create(1))
OPENER(epoll_create1, epoll_create1(0))
OPENER(timerfd_create, timerfd_create(CLOCK_MONOTONIC, 0))
OPENER(memfd_create, memfd_create("owned", 0))
OPENER(inotify_init, inotify_init())
OPENER(inotify_init1, inotify_init1(0))

static int open_by_mkstemp(void)
{
    char path[] = "/tmp/stint-owned-XXXXXX";
    int descriptor = mkstemp(path);
    unlink(path);
    return descriptor;
}

static int open_by_signalfd(void)
{
    sigset_t none;
    sigemptyset(&none);
    return signalfd(-1, &none, 0);
}

static int open_by_pipe(void)
{
    int both[2];
    return pipe(both) == 0 ? both[1] : -1;
}

static int open_by_pipe2(void)
{
    int both[2];
    return pipe2(both, O_CLOEXEC) == 0 ? both[0] : -1;
}

static int open_by_socketpair(void)
{
    int both[2];
    return socketpair(AF_UNIX, SOCK_STREAM, 0, both) == 0 ? both[1] : -1;
}

/* As the caller of accept. */
static int open_by_accept(void)
{
    struct sockaddr_un {
        sa_family_t family;
        char path[100];
    } address = { .family = AF_UNIX };
    snprintf(address.path + 1, sizeof address.path - 1, "stint-owned-%d", (int)getpid());
    int listening = socket(AF_UNIX, SOCK_STREAM, 0);
    int calling = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(listening, (struct sockaddr *)&address, sizeof address) != 0 || listen(listening, 1) != 0 ||
        connect(calling, (struct sockaddr *)&address, sizeof address) != 0)
        return -1;
    int accepted = accept(listening, NULL, NULL);
    close(listening);
    close(calling);
    return accepted;
}

static int open_by_fopen(void)
{
    FILE *stream = fopen("/dev/null", "r");
    return stream != NULL ? fileno(stream) : -1;
}

static int open_by_fdopen(void)
{
    FILE *stream = fdopen(open("/dev/null", O_WRONLY), "w");
    return stream != NULL && fputs("unwritten", stream) >= 0 ? fileno(stream) : -1;
}

static int open_by_freopen(void)
{
    FILE *stream = fdopen(open("/dev/null", O_RDONLY), "r");
    stream = freopen("/dev/zero", "r", stream);
    return stream != NULL ? fileno(stream) : -1;
}

static int open_by_opendir(void)
{
    DIR *directory = opendir("/");
    return directory != NULL ? dirfd(directory) : -1;
}

static int open_by_fdopendir(void)
{
    DIR *directory = fdopendir(open("/", O_RDONLY | O_DIRECTORY));
    return directory != NULL ? dirfd(directory) : -1;
}

static int open_by_gzopen(void)
{
    return gzopen("/dev/null", "rb") != NULL ? 0 : -1;
}

#define OPENED(name)                                                                                                   \
    {                                                                                                                  \
#name, open_by_##name                                                                                          \
    }
static const struct {
    const char *name;
    open_fn *open;
} openers[] = {
    OPENED(open),         OPENED(open64),        OPENED(openat),        OPENED(creat),          OPENED(socket),
    OPENED(dup),          OPENED(fcntl),         OPENED(fcntl_cloexec), OPENED(dup2),           OPENED(dup3),
    OPENED(eventfd),      OPENED(epoll_create),  OPENED(epoll_create1), OPENED(timerfd_create), OPENED(memfd_create),
    OPENED(inotify_init), OPENED(inotify_init1), OPENED(mkstemp),       OPENED(signalfd),       OPENED(pipe),
    OPENED(pipe2),        OPENED(socketpair),    OPENED(accept),        OPENED(fopen),          OPENED(fdopen),
    OPENED(freopen),      OPENED(opendir),       OPENED(fdopendir),     OPENED(gzopen),
};
#define OPENERS (sizeof openers / sizeof *openers)

struct work {
    open_fn *open;
    int error; /* that it ends with; negative: it allocates until it is stopped */
    int depth; /* of scopes inside it that end Ok */
    int opened;
    int more;
};

static int open_one(void *arg, void **value)
{
    struct work *work = arg;
    (void)value;
    if (work->depth > 0) {
        struct work inner = { .open = work->open, .depth = work->depth - 1 };
        stint_outcome outcome;
        stint_run(open_one, &inner, NULL, &outcome);
        work->opened = inner.opened;
    } else {
        work->opened = work->open();
    }
    while (work->error < 0)
        keep(malloc(1000));
    return work->error;
}

static stint_outcome run_owning(stint_fn *fn, struct work *work, stint_on_interrupt mode)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.owns_descriptors = true;
    options.on_interrupt = mode;
    options.budget.allocation = MIB;
    return run_task(fn, work, &options);
}

static void check_closed(size_t i, int error, int depth, stint_on_interrupt mode)
{
    struct work work = { .open = openers[i].open, .error = error, .depth = depth, .opened = -2 };
    int before = open_descriptors();
    stint_outcome outcome = run_owning(open_one, &work, mode);
    assert_int_equal(outcome.status, STINT_ERROR);
    if (work.opened < 0 || open_descriptors() != before)
        print_error("%s: %d, %d left\n", openers[i].name, work.opened, open_descriptors() - before);
    assert_true(work.opened >= 0);
    assert_int_equal(open_descriptors(), before);
}

TEST(an_error_closes_what_was_opened_in_each_way)
{
    for (size_t i = 0; i < OPENERS; i++) {
        check_closed(i, EIO, 0, STINT_JUMP);
        check_closed(i, EIO, 2, STINT_JUMP);
    }
}

TEST(so_does_an_interrupt)
{
    for (size_t i = 0; i < OPENERS; i++) {
        check_closed(i, -1, 0, STINT_JUMP);
        check_closed(i, -1, 1, STINT_UNWIND);
    }
}

TEST(an_interrupt_while_one_is_opened_leaves_nothing)
{
    int before = open_descriptors();
    for (size_t i = 0; i < OPENERS; i++) {
        for (size_t limit = 16; limit < 20000; limit += limit / 4 + 16) {
            struct work work = { .open = openers[i].open, .error = EIO };
            stint_options options = STINT_OPTIONS_INIT;
            options.owns_descriptors = true;
            options.on_interrupt = limit % 3 == 0 ? STINT_UNWIND : STINT_JUMP;
            options.budget.allocation = limit;
            run_task(open_one, &work, &options);
        }
        assert_int_equal(open_descriptors(), before);
    }
}

/* --- What stays --- */

TEST(ok_leaves_it_open_and_a_task_that_does_not_ask_for_it_too)
{
    struct work work = { .open = open_by_open };
    assert_ok(run_owning(open_one, &work, STINT_JUMP));
    assert_true(is_open(work.opened));
    close(work.opened);
    work.error = EIO;
    assert_int_equal(run_task(open_one, &work, NULL).reason, STINT_REASON_FAILED);
    assert_true(is_open(work.opened));
    close(work.opened);
}

static int open_and_hand_out(void *arg, void **value)
{
    struct work *work = arg;
    (void)value;
    work->opened = open("/dev/null", O_RDONLY);
    work->more = stint_descriptor_keep(work->opened);
    stint_keep_begin();
    work->depth = open("/dev/null", O_RDONLY);
    stint_keep_end();
    return EIO;
}

TEST(what_is_handed_out_or_opened_to_be_kept_stays_open)
{
    struct work work = { .open = NULL };
    run_owning(open_and_hand_out, &work, STINT_JUMP);
    assert_int_equal(work.more, 0);
    assert_true(is_open(work.opened) && is_open(work.depth));
    assert_int_equal(stint_descriptor_keep(work.opened), ENOENT);
    assert_int_equal(stint_descriptor_keep(-1), EINVAL);
    close(work.opened);
    close(work.depth);
}

static int open_and_close(void *arg, void **value)
{
    struct work *work = arg;
    int both[2];
    (void)value;
    work->opened = open("/dev/null", O_RDONLY);
    close(work->opened);
    FILE *stream = fdopen(open("/dev/null", O_RDONLY), "r");
    fclose(stream);
    closedir(fdopendir(open("/", O_RDONLY | O_DIRECTORY)));
    if (pipe(both) != 0)
        return errno;
    close_range((unsigned)both[0], (unsigned)both[1], 0);
    dup2(1, work->more); /* of the caller's */
    atomic_store((atomic_int *)(void *)&work->depth, 1);
    while (atomic_load((atomic_int *)(void *)&work->depth) == 1)
        sched_yield();
    return EIO;
}

/* Takes the numbers that the task has closed. */
static void *open_meanwhile(void *arg)
{
    struct work *work = arg;
    while (atomic_load((atomic_int *)(void *)&work->depth) == 0)
        sched_yield();
    int *descriptors = calloc(4, sizeof *descriptors);
    for (int i = 0; i < 4; i++)
        descriptors[i] = open("/dev/zero", O_RDONLY);
    atomic_store((atomic_int *)(void *)&work->depth, 2);
    return descriptors;
}

TEST(what_was_closed_or_is_another_s_is_not_touched)
{
    struct work work = { .more = open("/dev/zero", O_RDONLY) };
    pthread_t thread;
    void *result;
    assert_int_equal(pthread_create(&thread, NULL, open_meanwhile, &work), 0);
    run_owning(open_and_close, &work, STINT_JUMP);
    pthread_join(thread, &result);
    const int *descriptors = result;
    for (int i = 0; i < 4; i++) {
        assert_true(is_open(descriptors[i]));
        close(descriptors[i]);
    }
    free(result);
    assert_true(is_open(work.more));
    close(work.more);
}

static int run_a_child(void *arg, void **value)
{
    struct work *work = arg;
    int status;
    (void)value;
    work->opened = open("/dev/null", O_RDONLY);
    pid_t child = vfork();
    if (child == 0) {
        close(work->opened);
        dup2(1, 210);
        _exit(0);
    }
    waitpid(child, &status, 0);
    work->more = is_open(work->opened);
    return EIO;
}

TEST(what_a_child_does_is_its_own)
{
    struct work work = { .open = NULL };
    int before = open_descriptors();
    run_owning(run_a_child, &work, STINT_JUMP);
    assert_true(work.more);
    assert_int_equal(open_descriptors(), before);
}

static int write_and_fail(void *arg, void **value)
{
    FILE *stream = fdopen(dup(*(int *)arg), "w");
    (void)value;
    fputs("half done", stream);
    return EIO;
}

TEST(nothing_half_written_is_written_out)
{
    char text[16];
    int both[2];
    assert_int_equal(pipe2(both, O_NONBLOCK), 0);
    stint_options options = STINT_OPTIONS_INIT;
    options.owns_descriptors = true;
    run_task(write_and_fail, &both[1], &options);
    close(both[1]);
    assert_int_equal(read(both[0], text, sizeof text), 0);
    close(both[0]);
}

static FILE *shared_stream;

static int make_shared_stream(void *arg, void **value)
{
    (void)arg;
    (void)value;
    shared_stream = fdopen(open("/dev/zero", O_RDONLY), "r");
    return EIO;
}

TEST(a_stream_that_a_variable_leads_to_keeps_its_descriptor)
{
    struct work work = { .open = NULL };
    leaves_records(); /* that of the stream, which nobody looks at any more */
    run_owning(make_shared_stream, &work, STINT_JUMP);
    assert_int_equal(fgetc(shared_stream), 0);
    fclose(shared_stream);
    shared_stream = NULL;
}

/* --- The audit --- */

static unsigned told;

static void count_own(const stint_open_fd *fd, void *arg)
{
    (void)arg;
    told += fd->opened_by_task ? 1 : 100;
    close(fd->fd);
}

TEST(the_audit_tells_which_would_be_closed)
{
    struct work work = { .open = open_by_pipe, .error = EIO };
    stint_options options = STINT_OPTIONS_INIT;
    options.audit_fds = true;
    stint_fds_set_report(count_own, NULL);
    stint_outcome outcome = run_task(open_one, &work, &options);
    assert_int_equal(outcome.usage.open_fds, 2);
    assert_int_equal(told, 2);
    options.owns_descriptors = true;
    outcome = run_task(open_one, &work, &options);
    stint_fds_set_report(NULL, NULL);
    assert_int_equal(outcome.usage.open_fds, 0);
    assert_int_equal(told, 2);
}

TEST_MAIN()
