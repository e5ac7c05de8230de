/* SPDX-License-Identifier: MIT
 *
 * A task that owns its descriptors owns those too that the rarer functions of libc open: terminals, queues, shared
 * memory, handles of processes and file systems, and what another process has sent. */
#undef _FORTIFY_SOURCE
#include "openers.h"

#include <mqueue.h>
#include <netdb.h>
#include <pty.h>
#include <signal.h>
#include <sys/fanotify.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <utmp.h>
#if __GLIBC_PREREQ(2, 36)
#include <sys/pidfd.h>
#endif

extern int __open(const char *path, int flags, ...);
extern int __open64(const char *path, int flags, ...);
extern int __close(int descriptor);
extern int __dup2(int descriptor, int place);
extern int __pipe(int both[2]);
extern int __fcntl(int descriptor, int command, ...);
extern mqd_t __mq_open_2(const char *name, int flags);

#define NAME "/stint-opened-otherwise"

/* --- Each way to open one --- */

OPENER(other_open, __open("/dev/null", O_RDONLY))
OPENER(other_open64, __open64("/dev/null", O_RDONLY))
OPENER(other_dup2, __dup2(1, 200))
OPENER(other_fcntl, __fcntl(1, F_DUPFD, 20))
OPENER(shm_open, shm_open(NAME, O_CREAT | O_RDWR, 0600))
OPENER(posix_openpt, posix_openpt(O_RDWR))
OPENER(getpt, getpt())
OPENER(mq_open, mq_open(NAME, O_CREAT | O_RDWR, 0600, NULL))
OPENER(mq_open_2, __mq_open_2(NAME, O_RDWR))
OPENER(fanotify_init, fanotify_init(FAN_CLASS_NOTIF, O_RDONLY))
OPENER(rresvport, rresvport(&(int){ 1000 }))
OPENER(rresvport_af, rresvport_af(&(int){ 1001 }, AF_INET6))
#if __GLIBC_PREREQ(2, 36)
OPENER(pidfd_open, pidfd_open(getpid(), 0))
OPENER(fsopen, fsopen("tmpfs", 0))
OPENER(fspick, fspick(AT_FDCWD, "/", 0))
OPENER(open_tree, open_tree(AT_FDCWD, "/", 1)) /* a copy */

static int open_by_pidfd_getfd(void)
{
    int process = pidfd_open(getpid(), 0);
    return process >= 0 ? pidfd_getfd(process, 1, 0) : -1;
}
#endif

static int open_by_other_pipe(void)
{
    int both[2];
    return __pipe(both) == 0 ? both[1] : -1;
}

static int open_by_openpty(void)
{
    int main, second;
    return openpty(&main, &second, NULL, NULL, NULL) == 0 ? second : -1;
}

static int open_by_forkpty(void)
{
    int main;
    pid_t child = forkpty(&main, NULL, NULL, NULL);
    if (child == 0)
        _exit(0);
    waitpid(child, NULL, 0);
    return child > 0 ? main : -1;
}

static int open_by_handle(void)
{
    char space[sizeof(struct file_handle) + 128];
    struct file_handle *handle = (void *)space;
    int mount;
    handle->handle_bytes = 128;
    int where = open("/", O_RDONLY);
    int result = name_to_handle_at(AT_FDCWD, "/", handle, &mount, 0);
    return result == 0 ? open_by_handle_at(where, handle, O_RDONLY) : -1;
}

/* Two, in a message of our own. */
static int send_two(int pair[2], struct msghdr *message, char *space)
{
    int two[2] = { 0, 1 };
    char byte = 0;
    struct iovec content = { &byte, 1 };
    *message = (struct msghdr){ .msg_iov = &content, .msg_iovlen = 1, .msg_control = space };
    message->msg_controllen = CMSG_SPACE(sizeof two);
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) != 0)
        return -1;
    struct cmsghdr *part = CMSG_FIRSTHDR(message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof two);
    memcpy(CMSG_DATA(part), two, sizeof two);
    int result = sendmsg(pair[0], message, 0) == 1 ? 0 : -1;
    message->msg_iov = NULL;
    message->msg_iovlen = 0;
    return result;
}

static int received(const struct msghdr *message)
{
    int two[2] = { -1, -1 };
    const struct cmsghdr *part = CMSG_FIRSTHDR(message);
    if (part != NULL && part->cmsg_len == CMSG_LEN(sizeof two))
        memcpy(two, CMSG_DATA(part), sizeof two);
    return is_open(two[0]) && is_open(two[1]) ? two[1] : -1;
}

static int open_by_recvmsg(void)
{
    _Alignas(struct cmsghdr) char space[CMSG_SPACE(2 * sizeof(int))];
    struct msghdr message;
    int pair[2];
    return send_two(pair, &message, space) == 0 && recvmsg(pair[1], &message, 0) >= 0 ? received(&message) : -1;
}

static int open_by_recvmmsg(void)
{
    _Alignas(struct cmsghdr) char space[CMSG_SPACE(2 * sizeof(int))];
    struct mmsghdr message = { .msg_len = 0 };
    int pair[2];
    return send_two(pair, &message.msg_hdr, space) == 0 && recvmmsg(pair[1], &message, 1, 0, NULL) == 1
               ? received(&message.msg_hdr)
               : -1;
}

#define OPENED(name, is_privileged)                                                                                    \
    {                                                                                                                  \
#name, open_by_##name, is_privileged                                                                           \
    }
static const struct {
    const char *name;
    open_fn *open;
    bool is_privileged; /* or the kernel may be without it */
} openers[] = {
    OPENED(other_open, false),   OPENED(other_open64, false), OPENED(other_dup2, false),  OPENED(other_fcntl, false),
    OPENED(other_pipe, false),   OPENED(shm_open, false),     OPENED(posix_openpt, true), OPENED(getpt, true),
    OPENED(openpty, true),       OPENED(forkpty, true),       OPENED(mq_open, true),      OPENED(mq_open_2, true),
    OPENED(fanotify_init, true), OPENED(handle, true),        OPENED(rresvport, true),    OPENED(rresvport_af, true),
    OPENED(recvmsg, false),      OPENED(recvmmsg, false),
#if __GLIBC_PREREQ(2, 36)
    OPENED(pidfd_open, true),    OPENED(pidfd_getfd, true),   OPENED(fsopen, true),       OPENED(fspick, true),
    OPENED(open_tree, true),
#endif
};

struct work {
    open_fn *open;
    int error; /* that it ends with */
    int opened;
};

static int open_one(void *arg, void **value)
{
    struct work *work = arg;
    (void)value;
    work->opened = work->open();
    return work->error;
}

static stint_outcome run_owning(stint_fn *fn, void *arg)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.owns_descriptors = true;
    return run_task(fn, arg, &options);
}

TEST(an_error_closes_what_was_opened_in_each_way)
{
    for (size_t i = 0; i < sizeof openers / sizeof *openers; i++) {
        struct work work = { .open = openers[i].open, .error = EIO, .opened = -2 };
        int before = open_descriptors();
        assert_int_equal(run_owning(open_one, &work).status, STINT_ERROR);
        if ((work.opened < 0 && !openers[i].is_privileged) || open_descriptors() != before)
            print_error("%s: %d, %d left\n", openers[i].name, work.opened, open_descriptors() - before);
        assert_true(work.opened >= 0 || openers[i].is_privileged);
        assert_int_equal(open_descriptors(), before);
    }
    shm_unlink(NAME);
    mq_unlink(NAME);
}

/* --- What is closed otherwise is nobody's any more --- */

static int close_otherwise(void *arg, void **value)
{
    int *others = arg;
    (void)value;
    int first = open("/dev/null", O_RDONLY);
    __close(first);
    stint_keep_begin();
    others[0] = open("/dev/zero", O_RDONLY);
    stint_keep_end();
    mqd_t queue = mq_open(NAME, O_CREAT | O_RDWR, 0600, NULL);
    if (queue >= 0)
        mq_close(queue);
    stint_keep_begin();
    others[1] = open("/dev/zero", O_RDONLY);
    stint_keep_end();
    return first == others[0] && (queue < 0 || queue == others[1]) ? EIO : 0;
}

TEST(what_was_closed_otherwise_is_not_closed_again)
{
    int others[2];
    assert_int_equal(run_owning(close_otherwise, others).status, STINT_ERROR);
    for (int i = 0; i < 2; i++) {
        assert_true(is_open(others[i]));
        close(others[i]);
    }
    mq_unlink(NAME);
}

/* In a child, as it becomes the terminal of the process. */
static int log_in(void *arg, void **value)
{
    int main, second;
    (void)value;
    if (openpty(&main, &second, NULL, NULL, NULL) != 0 || login_tty(second) != 0)
        return 0;
    stint_keep_begin();
    *(int *)arg = open("/dev/zero", O_RDONLY);
    stint_keep_end();
    return *(int *)arg == second ? EIO : 0;
}

TEST(nor_is_the_terminal_that_a_process_has_logged_in_to)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        int other = -1;
        signal(SIGHUP, SIG_IGN); /* the rollback closes the other end */
        setsid();
        bool is_rolled_back = run_owning(log_in, &other).status == STINT_ERROR;
        _exit(other < 0 ? 0 : !is_rolled_back ? 1 : is_open(other) ? 0 : 2);
    }
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
}

TEST_MAIN()
