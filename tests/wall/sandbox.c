/* SPDX-License-Identifier: MIT
 *
 * The closed sandbox, from inside: refused calls, and ordinary code that goes on working. */
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/xattr.h>

#include "boxed.h"

/* Two ends; one for each process would say more than is asked for. */
static int sockets[2];

static int open_sockets(void)
{
    return socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets);
}

/* --- Files. --- */

static int open_files(void)
{
    struct stat status;
    REFUSED(EACCES, open("/etc/passwd", O_RDONLY));
    REFUSED(EACCES, openat(AT_FDCWD, "/etc/passwd", O_RDONLY));
#ifdef SYS_open
    REFUSED(EACCES, syscall(SYS_open, "/dev/null", O_RDONLY));
#endif
    REFUSED(EACCES, open("/tmp", O_RDONLY | O_DIRECTORY));
    REFUSED(EACCES, open("/tmp", O_PATH));
    REFUSED(EACCES, open("/tmp", O_TMPFILE | O_RDWR, 0600));
    CHECK(stat("/etc/passwd", &status) == 0 && S_ISREG(status.st_mode));
    CHECK(access("/etc/passwd", R_OK) == 0);
    return 0;
}

TEST(opens_no_file)
{
    struct sti_wall_config config = closed();
    assert_passes(&config, open_files);
}

static int change_files(void)
{
    REFUSED(EACCES, creat("/tmp/stint-sandbox-made", 0600));
#ifdef SYS_creat
    REFUSED(EACCES, syscall(SYS_creat, "/tmp/stint-sandbox-made", 0600));
#endif
    REFUSED(EACCES, unlink("/tmp/stint-sandbox-none"));
    REFUSED(EACCES, unlinkat(AT_FDCWD, "/tmp/stint-sandbox-none", 0));
    REFUSED(EACCES, rename("/tmp/stint-sandbox-none", "/tmp/stint-sandbox-none2"));
    REFUSED(EACCES, renameat(AT_FDCWD, "/tmp/stint-sandbox-none", AT_FDCWD, "/tmp/stint-sandbox-none2"));
    REFUSED(EACCES, mkdir("/tmp/stint-sandbox-made", 0700));
    REFUSED(EACCES, rmdir("/tmp/stint-sandbox-none"));
    REFUSED(EACCES, link("/etc/passwd", "/tmp/stint-sandbox-made"));
    REFUSED(EACCES, symlink("/etc/passwd", "/tmp/stint-sandbox-made"));
    REFUSED(EACCES, mknod("/tmp/stint-sandbox-made", S_IFIFO | 0600, 0));
    REFUSED(EACCES, truncate("/tmp/stint-sandbox-none", 0));
    REFUSED(EACCES, chmod("/tmp/stint-sandbox-none", 0600));
    REFUSED(EACCES, chown("/tmp/stint-sandbox-none", 0, 0));
    REFUSED(EACCES, utimensat(AT_FDCWD, "/tmp/stint-sandbox-none", NULL, 0));
    REFUSED(EACCES, setxattr("/tmp/stint-sandbox-none", "user.stint", "", 0, 0));
    return 0;
}

TEST(changes_no_file)
{
    struct sti_wall_config config = closed();
    assert_passes(&config, change_files);
}

/* --- Named paths. --- */

static char place[] = "/tmp/stint-sandbox-XXXXXX";
static char readable[64], writable[64], outside[64];

static void write_file(const char *folder, const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int make_place(void **state)
{
    (void)state;
    strcpy(place + sizeof place - 7, "XXXXXX");
    assert_non_null(mkdtemp(place));
    snprintf(readable, sizeof readable, "%s/readable", place);
    snprintf(writable, sizeof writable, "%s/writable", place);
    snprintf(outside, sizeof outside, "%s/outside", place);
    const char *folders[] = { readable, writable, outside };
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(mkdir(folders[i], 0700), 0);
        write_file(folders[i], "file", "text");
    }
    return 0;
}

static int remove_place(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", place);
    return system(command);
}

static struct sti_wall_config with_place(void)
{
    struct sti_wall_config config = closed();
    name_path(&config, readable, false);
    name_path(&config, writable, true);
    config.file_size = SIZE_MAX;
    return config;
}

#define TEST_WITH_PLACE(name) TEST_WITH(name, make_place, remove_place)

static const char *below(const char *folder, const char *name)
{
    static char paths[8][128];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static int read_named(void)
{
    char text[8] = "";
    int file = open(below(readable, "file"), O_RDONLY);
    CHECK(file >= 0);
    CHECK(read(file, text, sizeof text) == 4 && memcmp(text, "text", 4) == 0);
    int folder = open(readable, O_RDONLY | O_DIRECTORY);
    CHECK(folder >= 0);
    CHECK(openat(folder, "file", O_RDONLY) >= 0);
    return 0;
}

TEST_WITH_PLACE(reads_what_is_named)
{
    struct sti_wall_config config = with_place();
    assert_passes(&config, read_named);
}

static int write_readable(void)
{
    const char *file = below(readable, "file");
    REFUSED(EACCES, open(file, O_WRONLY));
    REFUSED(EACCES, open(file, O_RDWR));
    CHECK(open(file, O_RDONLY | O_TRUNC) == -1);
    CHECK(truncate(file, 0) == -1);
    REFUSED(EACCES, unlink(file));
    REFUSED(EACCES, chmod(file, 0777));
    REFUSED(EACCES, mkdir(below(readable, "made"), 0700));
    REFUSED(EACCES, open(below(readable, "made"), O_CREAT | O_WRONLY, 0600));
    REFUSED(EACCES, fchmod(open(file, O_RDONLY), 0777));
    struct stat status;
    CHECK(stat(file, &status) == 0 && status.st_size == 4);
    return 0;
}

TEST_WITH_PLACE(does_not_write_what_is_named_to_be_read)
{
    struct sti_wall_config config = with_place();
    assert_passes(&config, write_readable);
}

static int write_writable(void)
{
    int file = open(below(writable, "made"), O_CREAT | O_EXCL | O_RDWR, 0600);
    CHECK(file >= 0 && write(file, "abc", 3) == 3);
    CHECK(open(below(writable, "file"), O_WRONLY | O_TRUNC) >= 0);
    CHECK(truncate(below(writable, "made"), 1) == 0);
    CHECK(rename(below(writable, "made"), below(writable, "renamed")) == 0);
    CHECK(mkdir(below(writable, "folder"), 0700) == 0);
    CHECK(symlink("renamed", below(writable, "link")) == 0);
    CHECK(unlink(below(writable, "renamed")) == 0);
    CHECK(rmdir(below(writable, "folder")) == 0);
    return 0;
}

TEST_WITH_PLACE(writes_what_is_named_so)
{
    struct sti_wall_config config = with_place();
    assert_passes(&config, write_writable);
}

static int leave_named(void)
{
    REFUSED(EACCES, open(below(outside, "file"), O_RDONLY));
    REFUSED(EACCES, open(below(writable, "../outside/file"), O_RDONLY));
    CHECK(rename(below(writable, "file"), below(outside, "taken")) == -1 && (errno == EACCES || errno == EXDEV));
    CHECK(rename(below(outside, "file"), below(writable, "taken")) == -1 && (errno == EACCES || errno == EXDEV));
    CHECK(link(below(outside, "file"), below(writable, "taken")) == -1 && (errno == EACCES || errno == EXDEV));
    CHECK(symlink("../outside/file", below(writable, "link")) == 0);
    REFUSED(EACCES, open(below(writable, "link"), O_RDONLY));
    CHECK(mknod(below(writable, "device"), S_IFCHR | 0600, 0x103) == -1);
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", (int)getppid());
    REFUSED(EACCES, open(path, O_RDONLY));
    return 0;
}

TEST_WITH_PLACE(does_not_leave_what_is_named)
{
    struct sti_wall_config config = with_place();
    assert_passes(&config, leave_named);
}

static int open_one_file(void)
{
    CHECK(open(below(outside, "file"), O_RDONLY) >= 0);
    REFUSED(EACCES, open(below(readable, "file"), O_RDONLY));
    REFUSED(EACCES, open(outside, O_RDONLY | O_DIRECTORY));
    return 0;
}

TEST_WITH_PLACE(a_file_can_be_named_alone)
{
    struct sti_wall_config config = closed();
    name_path(&config, below(outside, "file"), false);
    assert_passes(&config, open_one_file);
}

static int find_nothing(void)
{
    return 0;
}

TEST(a_path_that_is_not_there_is_said)
{
    struct sti_wall_config config = closed();
    name_path(&config, "/nonexistent/folder", false);
    struct boxed result = boxed(&config, find_nothing);
    assert_int_equal(result.closed, ENOENT);
    assert_non_null(strstr(result.message, "/nonexistent/folder"));
    assert_int_equal(result.answer, NOTHING);
}

/* --- Other processes and programs. --- */

static int use_sockets(void)
{
    REFUSED(EPERM, socket(AF_UNIX, SOCK_STREAM, 0));
    REFUSED(EPERM, socket(AF_INET, SOCK_STREAM, 0));
    int pair[2];
    REFUSED(EPERM, socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    const struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = "/tmp/stint-none" };
    REFUSED(EPERM, connect(sockets[0], (const struct sockaddr *)&address, sizeof address));
    REFUSED(EPERM, bind(sockets[0], (const struct sockaddr *)&address, sizeof address));
    REFUSED(EPERM, listen(sockets[0], 1));
    REFUSED(EPERM, accept(sockets[0], NULL, NULL));
    char text[4] = "";
    CHECK(send(sockets[0], "abc", 4, 0) == 4);
    CHECK(recv(sockets[1], text, 4, 0) == 4 && strcmp(text, "abc") == 0);
    CHECK(shutdown(sockets[0], SHUT_RDWR) == 0);
    return 0;
}

TEST(makes_no_socket_but_uses_those_it_has)
{
    struct sti_wall_config config = closed();
    assert_passed(boxed_in(&config, NO_GROUPS, open_sockets, use_sockets));
}

static int start_programs(void)
{
    char *const arguments[] = { NULL };
    REFUSED(EPERM, execve("/bin/true", arguments, arguments));
    REFUSED(EPERM, syscall(SYS_execveat, AT_FDCWD, "/bin/true", arguments, arguments, 0));
    return 0;
}

TEST(starts_no_program)
{
    struct sti_wall_config config = closed();
    assert_passes(&config, start_programs);
}

/* Signal 0 is asked for and not sent, so that nothing ends where the rule is broken. */
static int signal_others(void)
{
    pid_t parent = getppid();
    siginfo_t info = { .si_code = SI_QUEUE };
    REFUSED(EPERM, kill(parent, 0));
    REFUSED(EPERM, kill(0, 0));
    REFUSED(EPERM, kill(-1, 0));
    REFUSED(EPERM, kill(-getpgrp(), 0));
    REFUSED(EPERM, kill(1, 0));
    REFUSED(EPERM, syscall(SYS_tkill, parent, 0));
    REFUSED(EPERM, syscall(SYS_tgkill, parent, parent, 0));
    REFUSED(EPERM, syscall(SYS_rt_sigqueueinfo, parent, 0, &info));
    REFUSED(EPERM, syscall(SYS_rt_tgsigqueueinfo, parent, parent, 0, &info));
    REFUSED(EPERM, syscall(SYS_pidfd_open, parent, 0));
    REFUSED(EPERM, syscall(SYS_pidfd_send_signal, sockets[0], 0, NULL, 0));
    REFUSED(EPERM, fcntl(sockets[0], F_SETOWN, parent));
    REFUSED(EPERM, fcntl(sockets[0], F_SETSIG, SIGKILL));
    int number = parent;
    REFUSED(EPERM, ioctl(sockets[0], FIOSETOWN, &number));
    REFUSED(EPERM, ioctl(sockets[0], TIOCSTI, "x"));
    return 0;
}

TEST(sends_no_signal_to_others)
{
    struct sti_wall_config config = closed();
    assert_passed(boxed_in(&config, NO_GROUPS, open_sockets, signal_others));
}

static volatile sig_atomic_t heard;

static void hear(int signal)
{
    (void)signal;
    heard++;
}

static int signal_self(void)
{
    signal(SIGUSR1, hear);
    CHECK(kill(getpid(), SIGUSR1) == 0 && heard == 1);
    CHECK(raise(SIGUSR1) == 0 && heard == 2);
    CHECK(pthread_kill(pthread_self(), SIGUSR1) == 0 && heard == 3);
    CHECK(syscall(SYS_tkill, getpid(), SIGUSR1) == 0 && heard == 4);
    CHECK(sigqueue(getpid(), SIGUSR1, (union sigval){ .sival_int = 1 }) == 0 && heard == 5);
    return 0;
}

TEST(sends_signals_to_itself)
{
    struct sti_wall_config config = closed();
    assert_passes(&config, signal_self);
}

static int abort_here(void)
{
    abort();
}

TEST(abort_is_seen_as_such)
{
    struct sti_wall_config config = closed();
    struct boxed result = boxed(&config, abort_here);
    assert_true(WIFSIGNALED(result.status));
    assert_int_equal(WTERMSIG(result.status), SIGABRT);
    assert_false(WCOREDUMP(result.status));
}

static void *do_no_work(void *arg)
{
    return arg;
}

static int start_processes(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, do_no_work, NULL) == EAGAIN);
    REFUSED(EAGAIN, fork());
#ifdef SYS_fork
    REFUSED(EAGAIN, syscall(SYS_fork));
    REFUSED(EAGAIN, syscall(SYS_vfork));
#endif
    REFUSED(EAGAIN, syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL));
    REFUSED(ENOSYS, syscall(SYS_clone3, NULL, 0));
    return 0;
}

TEST(starts_no_process_and_no_thread)
{
    struct sti_wall_config config = closed();
    assert_passes(&config, start_processes);
}

static int look_into_others(void)
{
    pid_t parent = getppid();
    char byte = 0, held = 7;
    struct iovec here = { &byte, 1 }, there = { &held, 1 };
    REFUSED(EPERM, ptrace(PTRACE_ATTACH, parent, NULL, NULL));
    REFUSED(EPERM, ptrace(PTRACE_TRACEME, 0, NULL, NULL));
    REFUSED(EPERM, process_vm_readv(parent, &here, 1, &there, 1, 0));
    REFUSED(EPERM, process_vm_writev(parent, &here, 1, &there, 1, 0));
    REFUSED(EPERM, process_vm_writev(getpid(), &here, 1, &there, 1, 0));
    REFUSED(EPERM, syscall(SYS_kcmp, parent, parent, 0, 0, 0));
    REFUSED(EPERM, syscall(SYS_pidfd_getfd, 0, 0, 0));
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", (int)parent);
    REFUSED(EACCES, open(path, O_RDWR));
    CHECK(process_vm_readv(getpid(), &here, 1, &there, 1, 0) == 1 && byte == 7);
    return 0;
}

TEST(looks_into_no_process_but_itself)
{
    struct sti_wall_config config = closed();
    assert_passes(&config, look_into_others);
}

static int change_others(void)
{
    cpu_set_t processors;
    struct rlimit limit;
    struct sched_param plain = { 0 };
    CHECK(sched_getaffinity(0, sizeof processors, &processors) == 0);
    CHECK(sched_setaffinity(0, sizeof processors, &processors) == 0);
    REFUSED(EPERM, sched_setaffinity(getppid(), sizeof processors, &processors));
    REFUSED(EPERM, syscall(SYS_sched_setscheduler, 0, SCHED_FIFO, &plain));
    REFUSED(EPERM, setpriority(PRIO_PROCESS, (id_t)getppid(), 10));
    REFUSED(EPERM, prlimit(getppid(), RLIMIT_NOFILE, NULL, &limit));
    REFUSED(EPERM, setsid());
    REFUSED(EPERM, setpgid(0, 0));
    return 0;
}

TEST(changes_no_other_process)
{
    struct sti_wall_config config = closed();
    assert_passes(&config, change_others);
}

/* --- Privileges. --- */

static int gain_privileges(void)
{
    REFUSED(EPERM, prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SYS_ADMIN, 0, 0));
    REFUSED(EPERM, prctl(PR_SET_SECUREBITS, 0, 0, 0, 0));
    REFUSED(EPERM, prctl(PR_SET_DUMPABLE, 1, 0, 0, 0));
    REFUSED(EPERM, prctl(PR_SET_MM, 0, 0, 0, 0));
    REFUSED(EPERM, prctl(PR_SET_PTRACER, getppid(), 0, 0, 0));
    REFUSED(EPERM, prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0));
    CHECK(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
    CHECK(prctl(PR_SET_NAME, "boxed") == 0);
    REFUSED(EPERM, syscall(SYS_setuid, getuid()));
    REFUSED(EPERM, syscall(SYS_setresgid, getgid(), getgid(), getgid()));
    REFUSED(EPERM, syscall(SYS_setgroups, 0, NULL));
    REFUSED(EPERM, syscall(SYS_capset, NULL, NULL));
    REFUSED(EPERM, unshare(CLONE_NEWUSER));
    REFUSED(EPERM, setns(0, 0));
    REFUSED(EACCES, chroot("/"));
    REFUSED(EPERM, mount("none", "/tmp", "tmpfs", 0, NULL));
    REFUSED(EPERM, personality(0xffffffff));
    REFUSED(EPERM, syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL));
    return 0;
}

TEST(gets_no_privileges)
{
    struct sti_wall_config config = closed();
    assert_passes(&config, gain_privileges);
}

static int use_dangerous_calls(void)
{
    REFUSED(EPERM, syscall(SYS_bpf, 0, NULL, 0));
    REFUSED(EPERM, syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0));
    REFUSED(EPERM, syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0));
    REFUSED(EPERM, syscall(SYS_userfaultfd, 0));
    REFUSED(EPERM, syscall(SYS_init_module, NULL, 0, ""));
    REFUSED(EPERM, syscall(SYS_shmget, 0, 4096, 0600));
    REFUSED(EPERM, syscall(SYS_mq_open, "/stint", 0, 0, NULL));
    REFUSED(ENOSYS, syscall(SYS_io_uring_setup, 1, NULL));
    REFUSED(ENOSYS, syscall(SYS_openat2, AT_FDCWD, "/etc/passwd", NULL, 0));
    REFUSED(EPERM, madvise(NULL, 0, 101 /* MADV_SOFT_OFFLINE */));
    CHECK(madvise(NULL, 0, MADV_DONTNEED) == 0);
    return 0;
}

TEST(makes_no_dangerous_calls)
{
    struct sti_wall_config config = closed();
    assert_passes(&config, use_dangerous_calls);
}

/* --- Calls of other variants, with their own numbers. --- */

#if defined(__x86_64__)

static long call_by_interrupt(long number)
{
    long result;
    __asm__ volatile("int $0x80"
                     : "=a"(result)
                     : "a"(number), "b"(0L), "c"(0L), "d"(0L)
                     : "memory", "r8", "r9", "r10", "r11");
    return result;
}

#define X32 0x40000000L
#define FORK_OF_IA32 2
#define GETPID_OF_IA32 20

static int call_otherwise(void)
{
    REFUSED(ENOSYS, syscall(X32 | SYS_getpid));
    REFUSED(ENOSYS, syscall(X32 | SYS_fork));
    CHECK(call_by_interrupt(GETPID_OF_IA32) == -ENOSYS);
    CHECK(call_by_interrupt(FORK_OF_IA32) == -ENOSYS);
    return 0;
}

TEST(calls_of_other_variants_are_unknown)
{
    struct sti_wall_config config = closed();
    assert_passes(&config, call_otherwise);
    config = open_config();
    assert_passes(&config, call_otherwise);
}
#endif

/* --- What goes on. --- */

static int work_on(void)
{
    char *block = malloc(MIB);
    CHECK(block != NULL);
    memset(block, 1, MIB);
    free(block);
    void *mapped = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(mapped != MAP_FAILED && mprotect(mapped, MIB, PROT_READ | PROT_EXEC) == 0 && munmap(mapped, MIB) == 0);
    int pipe_ends[2];
    CHECK(pipe(pipe_ends) == 0 && write(pipe_ends[1], "x", 1) == 1);
    struct epoll_event event = { .events = EPOLLIN };
    int queue = epoll_create1(0);
    CHECK(queue >= 0 && epoll_ctl(queue, EPOLL_CTL_ADD, pipe_ends[0], &event) == 0);
    CHECK(epoll_wait(queue, &event, 1, 0) == 1);
    CHECK(eventfd(0, EFD_NONBLOCK) >= 0);
    CHECK(timerfd_create(CLOCK_MONOTONIC, 0) >= 0);
    CHECK(fcntl(queue, F_DUPFD_CLOEXEC, 0) >= 0);
    CHECK(memfd_create("boxed", 0) >= 0);
    struct timespec now, moment = { .tv_nsec = 1000 };
    CHECK(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now) == 0 && nanosleep(&moment, NULL) == 0);
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    unsigned char random[16];
    CHECK(syscall(SYS_getrandom, random, sizeof random, 0) == sizeof random);
    time_t day = 0;
    struct tm broken;
    CHECK(localtime_r(&day, &broken) != NULL);
    CHECK(snprintf((char *)random, sizeof random, "%g", 0.5) == 3);
    return 0;
}

TEST(ordinary_code_goes_on)
{
    struct sti_wall_config config = closed();
    assert_passes(&config, work_on);
}

/* --- Rules of the program's own. --- */

static int allow_sockets(void *filter, void *arg)
{
    *(bool *)arg = true;
    const struct scmp_arg_cmp local = { .arg = 0, .op = SCMP_CMP_EQ, .datum_a = AF_UNIX };
    return seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1, local);
}

static int use_allowed_sockets(void)
{
    CHECK(socket(AF_UNIX, SOCK_STREAM, 0) >= 0);
    REFUSED(EPERM, socket(AF_INET, SOCK_STREAM, 0));
    return 0;
}

TEST(a_filter_of_its_own_opens_more)
{
    struct sti_wall_config config = closed();
    bool called = false;
    config.filter = allow_sockets;
    config.filter_arg = &called;
    assert_passes(&config, use_allowed_sockets);
}

static int refuse_names(void *filter, void *arg)
{
    (void)arg;
    return seccomp_rule_add(filter, SCMP_ACT_ERRNO(EDOM), SCMP_SYS(uname), 0);
}

static int ask_for_names(void)
{
    REFUSED(EDOM, syscall(SYS_uname, NULL));
    CHECK(open("/etc/passwd", O_RDONLY) >= 0);
    return 0;
}

TEST(a_filter_of_an_open_wall_refuses_what_it_names)
{
    struct sti_wall_config config = open_config();
    config.filter = refuse_names;
    assert_passes(&config, ask_for_names);
}

static int fail_to_filter(void *filter, void *arg)
{
    (void)filter;
    (void)arg;
    return EXDEV;
}

TEST(what_a_filter_returns_is_passed_on)
{
    struct sti_wall_config config = closed();
    config.filter = fail_to_filter;
    struct boxed result = boxed(&config, find_nothing);
    assert_int_equal(result.closed, EXDEV);
    assert_non_null(strstr(result.message, "options.filter"));
}

/* --- An open wall. --- */

static int be_open(void)
{
    CHECK(open("/etc/passwd", O_RDONLY) >= 0);
    CHECK(socket(AF_UNIX, SOCK_STREAM, 0) >= 0);
    CHECK(kill(getppid(), 0) == 0);
    REFUSED(EPERM, setsid());
    REFUSED(EPERM, setpgid(0, 0));
    REFUSED(EAGAIN, fork());
#ifdef SYS_vfork
    REFUSED(EAGAIN, syscall(SYS_vfork));
#endif
    REFUSED(ENOSYS, syscall(SYS_clone3, NULL, 0));
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, do_no_work, NULL) == EAGAIN);
    return 0;
}

TEST(an_open_wall_has_limits_alone)
{
    struct sti_wall_config config = open_config();
    assert_passes(&config, be_open);
}

TESTS_NEED(lack_of_filters)

TEST_MAIN()
