/* SPDX-License-Identifier: MIT
 *
 * The guardian and the template; see template.h. In them, on their one thread.
 *
 * Which process ends when. The template and its children are one process group. All of them end
 *
 *   when the program closes the control socket, or ends, however it does: the template sees the socket closed, kills
 *       its children, reaps them and exits; the guardian kills what is left of the group
 *   when the program has ended: the kernel kills the whole group, whatever it is doing. The lifeline is a pipe of which
 *       only the program has the end to write; for the other end the group is owner, SIGKILL the signal (fcntl(2):
 *       F_SETOWN, F_SETSIG, O_ASYNC). The guardian and the template keep that end open, and the children have it not
 *   when the template ends: the guardian kills the group, and makes another template
 *   when the guardian ends: the template goes on. No guardian is made again
 *   when the guardian is stopped as the program ends: the kernel has it go on, by a lifeline of its own, which is the
 *       same pipe opened once more
 *   when both have ended, at once or one after the other: the kernel kills each child as its parent has ended
 *       (PR_SET_PDEATHSIG, which minds the thread that forked: the template has one). Nobody else would, and the
 *       lifeline has no holder left
 *
 * Where children may start processes, each is a group of its own, that the template kills when the child has ended, and
 * what has left even that is adopted by the template and killed there. */
#include "template.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "alloc/platform/libc.h"
#include "alloc/platform/process.h"
#include "alloc/platform/system.h"
#include "area.h"
#include "sandbox.h"

/* A template that has not become ready so often in a row will not. */
#define FAILURES_MAX 8
#define FIRST_PAUSE_MS 10

/* --- What the two have in common. --- */

static struct {
    const struct sti_wall_config *config;
    const struct sti_wall_entries *entries;
    int control;
    int lifeline;
    int ready;      /* an eventfd: the template has become ready */
    bool was_ready; /* one has; the program has been told, and waits for no word of the next ones */
} own;

/* A process that ignores SIGCHLD is not told of its children's ends. */
static void hear_of_ends(void)
{
    const struct sigaction action = { .sa_handler = SIG_DFL };
    sigaction(SIGCHLD, &action, NULL);
}

/* The program's handlers are not for these processes: one might jump to a frame of the program's. */
static void reset_signals(void)
{
    sigset_t none;
    for (int number = 1; number < __SIGRTMIN; number++) {
        struct sigaction action;
        if (sigaction(number, NULL, &action) != 0 || action.sa_handler == SIG_IGN)
            continue;
        action = (struct sigaction){ .sa_handler = SIG_DFL };
        sigaction(number, &action, NULL);
    }
    hear_of_ends();
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* What is not named leads nowhere. */
static void open_standard(const struct sti_wall_config *config)
{
    int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd < 3; fd++) {
        if (!sti_wall_is_named(config, fd) && nowhere >= 0)
            dup2(nowhere, fd);
    }
    if (nowhere > 2)
        close(nowhere);
}

/* The wall's own descriptors to where they are known to be, and all others closed. */
static void arrange_descriptors(const struct sti_wall_config *config, int control, int lifeline)
{
    int first = sti_wall_first_own_fd(config);
    int moved = fcntl(control, F_DUPFD_CLOEXEC, first + 3); /* out of each other's way */
    int moved_line = fcntl(lifeline, F_DUPFD_CLOEXEC, first + 3);
    if (moved < 0 || moved_line < 0 || dup3(moved, first, O_CLOEXEC) < 0 || dup3(moved_line, first + 1, O_CLOEXEC) < 0)
        _exit(1);
    own.control = first;
    own.lifeline = first + 1;
    own.ready = first + 2;
    sti_wall_close_others(config, first, first + 2);
    open_standard(config);
    int ready = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (ready < 0 || (ready != own.ready && (dup3(ready, own.ready, O_CLOEXEC) < 0 || close(ready) != 0)))
        _exit(1);
}

/* When the program ends, to a process or a group. */
static bool ask_for_signal(int lifeline, int signal, pid_t owner)
{
    return fcntl(lifeline, F_SETOWN, owner) == 0 && fcntl(lifeline, F_SETSIG, signal) == 0 &&
           fcntl(lifeline, F_SETFL, O_ASYNC | O_NONBLOCK) == 0;
}

static bool program_is_gone(void)
{
    struct pollfd ends[2] = { { .fd = own.control }, { .fd = own.lifeline } };
    return poll(ends, 2, 0) > 0 && ((ends[0].revents | ends[1].revents) & (POLLHUP | POLLERR | POLLNVAL)) != 0;
}

/* False: it could not be said. */
static bool template_say(int error, int pid, const char *text)
{
    struct sti_wall_message message = { .kind = STI_WALL_READY, .ready = { .error = error, .pid = pid } };
    snprintf(message.ready.text, sizeof message.ready.text, "%s", text);
    return sti_wall_send(own.control, &message, NULL, 0, !own.was_ready) == 0; /* after the first one nobody may read */
}

/* Kill the adopted processes, which /proc lists. */
static void kill_adopted(void)
{
    char path[64];
    int pid;
    snprintf(path, sizeof path, "/proc/self/task/%d/children", getpid());
    FILE *children = fopen(path, "re");
    if (children == NULL)
        return;
    while (fscanf(children, "%d", &pid) == 1)
        kill(pid, SIGKILL);
    fclose(children);
}

/* --- The template. --- */

/* A child that lives: where to tell it when it has ended. */
struct known {
    pid_t pid;
    int ending; /* the end to write of its pipe */
};

static struct {
    struct known *known;
    size_t count;
    size_t room;
} children;

static bool template_remember(pid_t pid, int ending)
{
    if (children.count == children.room) {
        size_t room = children.room != 0 ? 2 * children.room : 16;
        struct known *more = realloc(children.known, room * sizeof *more);
        if (more == NULL)
            return false;
        children.known = more;
        children.room = room;
    }
    children.known[children.count++] = (struct known){ pid, ending };
    return true;
}

static struct known *template_find_child(pid_t pid)
{
    for (size_t i = 0; i < children.count; i++) {
        if (children.known[i].pid == pid)
            return &children.known[i];
    }
    return NULL;
}

static void template_notify(int pipe, int code, int status)
{
    const struct sti_wall_ending ending = { .code = code, .status = status };
    ssize_t written = write(pipe, &ending, sizeof ending);
    (void)written; /* nobody may want to know */
}

static void template_notify_death(const siginfo_t *end)
{
    struct known *child = template_find_child(end->si_pid);
    if (child == NULL)
        return; /* adopted */
    template_notify(child->ending, end->si_code, end->si_status);
    close(child->ending);
    *child = children.known[--children.count];
}

static void template_reap(void)
{
    siginfo_t end;
    for (;;) {
        end.si_pid = 0;
        if (waitid(P_ALL, 0, &end, WEXITED | WNOHANG | WNOWAIT) != 0 || end.si_pid == 0)
            return;
        if (own.config->processes > 0)
            kill(-end.si_pid, SIGKILL); /* the number is the group's until the child has been reaped */
        waitid(P_PID, (id_t)end.si_pid, &end, WEXITED | WNOHANG);
        template_notify_death(&end);
    }
}

__attribute__((noreturn)) static void end_template(void)
{
    for (size_t i = 0; i < children.count; i++) {
        kill(children.known[i].pid, SIGKILL);
        if (own.config->processes > 0)
            kill(-children.known[i].pid, SIGKILL);
    }
    while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
        ;
    _exit(0);
}

/* The child's descriptors take the places of the wall's. By system calls themselves: each function of the library's and
 * of libc's lies in a page that a new process has to ask for, and of those there are many. */
__attribute__((noreturn)) static void become_child(pid_t template_pid, int socket, int area, const int *groups,
                                                   unsigned group_count)
{
    const uint64_t none = 0;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0 || getppid() != template_pid)
        _exit(1);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, sizeof none);
    if (syscall(SYS_dup3, socket, own.control, O_CLOEXEC) < 0)
        _exit(1);
    syscall(SYS_close, own.lifeline);
    sti_inside_serve(own.config, own.entries, own.control, area, groups, group_count);
}

/* The child has its descriptors itself now. */
static void close_request(const int *fds, unsigned count, int kept)
{
    for (unsigned i = 0; i < count; i++) {
        if (fds[i] != kept)
            close(fds[i]);
    }
}

/* The descriptors: the child's socket and area, the end to write of its pipe, then its control groups. Where no child
 * comes of them they are closed, which tells the program so; that they are too few is for want of room for them
 * here. */
static void start_child(const int *fds, unsigned count)
{
    pid_t template_pid = getpid();
    pid_t pid = count >= 3 ? sti_process_fork() : -1;
    if (pid == 0)
        become_child(template_pid, fds[0], fds[1], fds + 3, count - 3);
    if (pid < 0 && count >= 3)
        template_notify(fds[2], STI_WALL_NOT_FORKED, errno);
    bool is_known = pid > 0 && template_remember(pid, fds[2]);
    if (pid > 0 && !is_known)
        kill(pid, SIGKILL);
    close_request(fds, count, is_known ? fds[2] : -1);
    sti_inside_seed();
}

static void read_request(void)
{
    struct sti_wall_message message;
    int fds[STINT_WALL_FDS_MAX];
    unsigned count = STINT_WALL_FDS_MAX;
    int error = sti_wall_receive(own.control, &message, fds, &count, false);
    if (error == EPIPE || error == ECONNRESET)
        end_template();
    if (error == 0 && message.kind == STI_WALL_SPAWN)
        start_child(fds, count);
}

__attribute__((noreturn)) static void serve_requests(int ended)
{
    struct pollfd sources[2] = { { .fd = own.control, .events = POLLIN }, { .fd = ended, .events = POLLIN } };
    struct signalfd_siginfo signals; /* one stands for all that have ended */
    for (;;) {
        if (poll(sources, 2, -1) < 0)
            continue;
        if (sources[0].revents != 0)
            read_request(); /* first: somebody waits for that */
        if (sources[1].revents != 0 && read(ended, &signals, sizeof signals) > 0)
            template_reap();
    }
}

/* So that the kernel kills the group when the program has ended, whatever its processes are doing. */
static bool hold_lifeline(void)
{
    return ask_for_signal(own.lifeline, SIGKILL, -getpgrp()) && !program_is_gone();
}

static struct sti_crash_modules modules; /* to be told with READY */

static int prepare_template(char *text, size_t size)
{
    const struct sti_wall_config *config = own.config;
    int error = config->setup != NULL ? config->setup(config->setup_arg) : 0;
    if (error != 0) {
        snprintf(text, size, "setup returned %d (%s)", error, strerror(error));
        return error;
    }
    unsigned threads = sti_process_threads();
    if (threads > 1) {
        snprintf(text, size, "setup has left %u thread%s running: no child would have it", threads - 1,
                 threads > 2 ? "s" : "");
        return EBUSY;
    }
    error = sti_inside_prepare(config);
    if (error != 0) {
        snprintf(text, size, "no task can be run in the template: %s", strerror(error));
        return error;
    }
    fflush(NULL);
    sti_crash_list_modules(&modules);
    sti_crash_watch(NULL);
    return sti_sandbox_close(config, text, size);
}

/* The program waits for what could not be sent, until the guardian tells it that this template has failed. */
__attribute__((noreturn)) static void end_unheard(void)
{
    eventfd_t ready;
    eventfd_read(own.ready, &ready);
    _exit(1);
}

__attribute__((noreturn)) static void template_main(void)
{
    char text[STI_WALL_MESSAGE_SIZE] = "";
    sigset_t end;
    setpgid(0, 0);
    prctl(PR_SET_NAME, "stint-template", 0, 0, 0);
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    if (!hold_lifeline())
        _exit(1);
    int error = prepare_template(text, sizeof text);
    hear_of_ends(); /* setup may have thought otherwise */
    sigemptyset(&end);
    sigaddset(&end, SIGCHLD);
    sigaddset(&end, SIGPIPE); /* of the pipe of a child that nobody asks about any more */
    sigprocmask(SIG_BLOCK, &end, NULL);
    int ended = error == 0 ? signalfd(-1, &end, SFD_CLOEXEC | SFD_NONBLOCK) : -1;
    if (error == 0 && ended < 0)
        error = errno;
    if (error == 0)
        eventfd_write(own.ready, 1);
    bool is_told = template_say(error, getpid(), text);
    if (error != 0)
        _exit(1);
    if (!own.was_ready && (!is_told || !sti_wall_send_modules(own.control, &modules)))
        end_unheard();
    serve_requests(ended);
}

/* --- The guardian. --- */

/* It is not killed with the group, as it ends what is left of that; but if it is stopped it has to go on. Where /proc
 * is not there it stays as it is. */
static void hold_own_lifeline(void)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", own.lifeline);
    int line = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (line >= 0)
        ask_for_signal(line, SIGCONT, getpid());
}

static pid_t start_template(void)
{
    pid_t pid = sti_process_fork();
    if (pid == 0)
        template_main();
    if (pid > 0)
        setpgid(pid, pid); /* as it does itself; the first one wins */
    return pid;
}

/* The program's end comes first, as the template's follows from it. */
static void await_end_of(pid_t template_pid)
{
    int end = (int)syscall(SYS_pidfd_open, template_pid, 0);
    struct pollfd sources[3] = { { .fd = end, .events = POLLIN }, { .fd = own.control }, { .fd = own.lifeline } };
    while (poll(sources, 3, -1) < 0)
        ;
    if (program_is_gone()) {
        /* The template ends its children itself; it is given a moment. */
        poll(sources, 1, 1000);
    }
    close(end);
}

/* And all that it has left. */
static int end_template_group(pid_t template_pid)
{
    int status = 0;
    kill(-template_pid, SIGKILL); /* the number is the group's until the template has been reaped */
    kill(template_pid, SIGKILL);
    while (waitpid(template_pid, &status, 0) < 0 && errno == EINTR)
        ;
    do
        kill_adopted();
    while (waitpid(-1, NULL, 0) > 0 || errno == EINTR);
    return status;
}

static void pause_after(unsigned failures)
{
    struct pollfd end = { .fd = own.control };
    if (failures > 0)
        poll(&end, 1, FIRST_PAUSE_MS << (failures < 7 ? failures : 7));
}

static void notify_first_failure(int status)
{
    char text[STI_WALL_MESSAGE_SIZE];
    if (WIFSIGNALED(status))
        snprintf(text, sizeof text, "the template was ended by signal %d (%s) in its setup", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        snprintf(text, sizeof text, "the template exited with status %d in its setup", WEXITSTATUS(status));
    template_say(ECHILD, 0, text);
}

void sti_guardian_main(const struct sti_wall_config *config, const struct sti_wall_entries *entries, int control,
                       int lifeline)
{
    own.config = config;
    own.entries = entries;
    reset_signals();
    if (!sti_inside_exit_at_once())
        _exit(1);
    setpgid(0, 0);
    arrange_descriptors(config, control, lifeline);
    prctl(PR_SET_NAME, "stint-guardian", 0, 0, 0);
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); /* one bit written would copy 2 MiB */
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    hold_own_lifeline();
    for (unsigned failures = 0; failures < FAILURES_MAX && !program_is_gone();) {
        eventfd_t ready;
        pid_t template_pid = start_template();
        if (template_pid < 0) {
            pause_after(++failures);
            continue;
        }
        await_end_of(template_pid);
        int status = end_template_group(template_pid);
        bool became_ready = eventfd_read(own.ready, &ready) == 0;
        failures = became_ready ? 0 : failures + 1;
        own.was_ready = own.was_ready || became_ready;
        if (!own.was_ready) {
            notify_first_failure(status);
            break;
        }
        pause_after(failures);
    }
    _exit(0);
}
