/* SPDX-License-Identifier: MIT
 *
 * seccomp: which system calls a wall's template and all its children make; see system_calls.h, and seccomp(2).
 *
 * The filter is made by libseccomp. The list has what ordinary library code asks of the kernel for itself; a call that
 * takes another process's number, or that can be turned against one, is bounded by its arguments or not there. Calls
 * that are bounded by the child's own number are bounded in the child (child_calls.h). */
#include "system_calls.h"

#include <asm/ioctls.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "paths.h"
#include "refuse.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

int sti_system_calls_give_up_privileges(char *message, size_t size)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0)
        return 0;
    return sti_refuse(errno, message, size, "The kernel does not let the wall give up new privileges (%s).",
                      strerror(errno));
}

int sti_system_calls_check(void)
{
    /* A filter at an address that is not there. */
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL) != 0 && errno == EFAULT ? 0 : errno;
}

#if STI_SECCOMP

#include <seccomp.h>

/* Newer than some of the headers that this is built with. */
#ifndef MADV_SOFT_OFFLINE
#define MADV_SOFT_OFFLINE 101
#endif
#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#endif

bool sti_system_calls_are_listed(void)
{
    return true;
}

static const int plain[] = {
    /* memory */
    SCMP_SYS(brk),
    SCMP_SYS(mmap),
    SCMP_SYS(mprotect),
    SCMP_SYS(munmap),
    SCMP_SYS(mremap),
    SCMP_SYS(mincore),
    SCMP_SYS(msync),
    SCMP_SYS(mlock),
    SCMP_SYS(mlock2),
    SCMP_SYS(munlock),
    SCMP_SYS(munlockall),
    SCMP_SYS(pkey_alloc),
    SCMP_SYS(pkey_free),
    SCMP_SYS(pkey_mprotect),
    SCMP_SYS(membarrier),
    SCMP_SYS(memfd_create),
    SCMP_SYS(get_mempolicy),
    SCMP_SYS(process_vm_readv), /* by which a process asks what it may read of itself; bounded in the child */

    /* descriptors that are open */
    SCMP_SYS(read),
    SCMP_SYS(readv),
    SCMP_SYS(pread64),
    SCMP_SYS(preadv),
    SCMP_SYS(preadv2),
    SCMP_SYS(write),
    SCMP_SYS(writev),
    SCMP_SYS(pwrite64),
    SCMP_SYS(pwritev),
    SCMP_SYS(pwritev2),
    SCMP_SYS(lseek),
    SCMP_SYS(close),
    SCMP_SYS(close_range),
    SCMP_SYS(dup),
    SCMP_SYS(dup2),
    SCMP_SYS(dup3),
    SCMP_SYS(fsync),
    SCMP_SYS(fdatasync),
    SCMP_SYS(sync_file_range),
    SCMP_SYS(fadvise64),
    SCMP_SYS(readahead),
    SCMP_SYS(fallocate),
    SCMP_SYS(ftruncate),
    SCMP_SYS(flock),
    SCMP_SYS(sendfile),
    SCMP_SYS(copy_file_range),
    SCMP_SYS(splice),
    SCMP_SYS(tee),
    SCMP_SYS(getdents),
    SCMP_SYS(getdents64),
    SCMP_SYS(sendto),
    SCMP_SYS(sendmsg),
    SCMP_SYS(sendmmsg),
    SCMP_SYS(recvfrom),
    SCMP_SYS(recvmsg),
    SCMP_SYS(recvmmsg),
    SCMP_SYS(shutdown),
    SCMP_SYS(getsockopt),
    SCMP_SYS(getsockname),
    SCMP_SYS(getpeername),

    /* what is known of files */
    SCMP_SYS(stat),
    SCMP_SYS(lstat),
    SCMP_SYS(fstat),
    SCMP_SYS(newfstatat),
    SCMP_SYS(statx),
    SCMP_SYS(statfs),
    SCMP_SYS(fstatfs),
    SCMP_SYS(access),
    SCMP_SYS(faccessat),
    SCMP_SYS(faccessat2),
    SCMP_SYS(readlink),
    SCMP_SYS(readlinkat),
    SCMP_SYS(getcwd),
    SCMP_SYS(umask),

    /* waiting */
    SCMP_SYS(poll),
    SCMP_SYS(ppoll),
    SCMP_SYS(select),
    SCMP_SYS(pselect6),
    SCMP_SYS(epoll_create),
    SCMP_SYS(epoll_create1),
    SCMP_SYS(epoll_ctl),
    SCMP_SYS(epoll_wait),
    SCMP_SYS(epoll_pwait),
    SCMP_SYS(epoll_pwait2),
    SCMP_SYS(eventfd),
    SCMP_SYS(eventfd2),
    SCMP_SYS(pipe),
    SCMP_SYS(pipe2),
    SCMP_SYS(futex),
    SCMP_SYS(futex_waitv),
    SCMP_SYS(set_robust_list),
    SCMP_SYS(get_robust_list),
    SCMP_SYS(rseq),
    SCMP_SYS(set_tid_address),

    /* time */
    SCMP_SYS(time),
    SCMP_SYS(times),
    SCMP_SYS(gettimeofday),
    SCMP_SYS(clock_gettime),
    SCMP_SYS(clock_getres),
    SCMP_SYS(clock_nanosleep),
    SCMP_SYS(nanosleep),
    SCMP_SYS(alarm),
    SCMP_SYS(getitimer),
    SCMP_SYS(setitimer),
    SCMP_SYS(timer_create),
    SCMP_SYS(timer_settime),
    SCMP_SYS(timer_gettime),
    SCMP_SYS(timer_getoverrun),
    SCMP_SYS(timer_delete),
    SCMP_SYS(timerfd_create),
    SCMP_SYS(timerfd_settime),
    SCMP_SYS(timerfd_gettime),

    /* signals; the child's filter bounds their targets */
    SCMP_SYS(rt_sigaction),
    SCMP_SYS(rt_sigprocmask),
    SCMP_SYS(rt_sigreturn),
    SCMP_SYS(rt_sigpending),
    SCMP_SYS(rt_sigsuspend),
    SCMP_SYS(rt_sigtimedwait),
    SCMP_SYS(sigaltstack),
    SCMP_SYS(signalfd),
    SCMP_SYS(signalfd4),
    SCMP_SYS(pause),
    SCMP_SYS(restart_syscall),
    SCMP_SYS(kill),
    SCMP_SYS(tkill),
    SCMP_SYS(tgkill),
    SCMP_SYS(rt_sigqueueinfo),
    SCMP_SYS(rt_tgsigqueueinfo),
    SCMP_SYS(pidfd_send_signal),

    /* the process itself */
    SCMP_SYS(getpid),
    SCMP_SYS(getppid),
    SCMP_SYS(gettid),
    SCMP_SYS(getpgrp),
    SCMP_SYS(getpgid),
    SCMP_SYS(getsid),
    SCMP_SYS(getuid),
    SCMP_SYS(geteuid),
    SCMP_SYS(getgid),
    SCMP_SYS(getegid),
    SCMP_SYS(getresuid),
    SCMP_SYS(getresgid),
    SCMP_SYS(getgroups),
    SCMP_SYS(capget),
    SCMP_SYS(getrusage),
    SCMP_SYS(getrlimit),
    SCMP_SYS(getpriority),
    SCMP_SYS(getcpu),
    SCMP_SYS(getrandom),
    SCMP_SYS(uname),
    SCMP_SYS(sysinfo),
    SCMP_SYS(sched_yield),
    SCMP_SYS(sched_getaffinity),
    SCMP_SYS(sched_getattr),
    SCMP_SYS(sched_getparam),
    SCMP_SYS(sched_getscheduler),
    SCMP_SYS(sched_get_priority_max),
    SCMP_SYS(sched_get_priority_min),
    SCMP_SYS(sched_rr_get_interval),
    SCMP_SYS(exit),
    SCMP_SYS(exit_group),

    /* the template's, and of children that may start processes */
    SCMP_SYS(fork),
    SCMP_SYS(vfork),
    SCMP_SYS(wait4),
    SCMP_SYS(waitid),
    SCMP_SYS(pidfd_open),
    SCMP_SYS(seccomp),
    SCMP_SYS(landlock_create_ruleset),
    SCMP_SYS(landlock_restrict_self),
};

/* Opened to the paths that are named, which Landlock sees to. */
static const int of_paths[] = {
    SCMP_SYS(creat), SCMP_SYS(unlink),    SCMP_SYS(unlinkat), SCMP_SYS(rename), SCMP_SYS(renameat), SCMP_SYS(renameat2),
    SCMP_SYS(mkdir), SCMP_SYS(mkdirat),   SCMP_SYS(rmdir),    SCMP_SYS(link),   SCMP_SYS(linkat),   SCMP_SYS(symlink),
    SCMP_SYS(mknod), SCMP_SYS(symlinkat), SCMP_SYS(mknodat),  SCMP_SYS(chdir),  SCMP_SYS(fchdir),
};

/* Landlock knows nothing of these. */
static const int of_any_file[] = {
    SCMP_SYS(chmod),        SCMP_SYS(fchmod),    SCMP_SYS(fchmodat),          SCMP_SYS(chown),
    SCMP_SYS(fchown),       SCMP_SYS(lchown),    SCMP_SYS(fchownat),          SCMP_SYS(utime),
    SCMP_SYS(utimes),       SCMP_SYS(futimesat), SCMP_SYS(utimensat),         SCMP_SYS(setxattr),
    SCMP_SYS(lsetxattr),    SCMP_SYS(fsetxattr), SCMP_SYS(removexattr),       SCMP_SYS(lremovexattr),
    SCMP_SYS(fremovexattr), SCMP_SYS(chroot),    SCMP_SYS(open_by_handle_at),
};

/* libc and others have an older call to fall back to. */
static const int unknown[] = {
    SCMP_SYS(clone3),         SCMP_SYS(openat2),           SCMP_SYS(io_uring_setup),
    SCMP_SYS(io_uring_enter), SCMP_SYS(io_uring_register),
};

/* What may be asked for by number. F_SETOWN and FIOASYNC are none of these: by them the kernel sends signals. */
static const int controls[] = {
    F_DUPFD,  F_DUPFD_CLOEXEC, F_GETFD,     F_SETFD,      F_GETFL,      F_SETFL,      F_GETLK,     F_SETLK,
    F_SETLKW, F_OFD_GETLK,     F_OFD_SETLK, F_OFD_SETLKW, F_GETPIPE_SZ, F_SETPIPE_SZ, F_ADD_SEALS, F_GET_SEALS,
};
static const int device_controls[] = { FIONREAD, FIONBIO, FIOCLEX, FIONCLEX, TCGETS, TIOCGWINSZ };
static const int process_controls[] = {
    PR_SET_NAME,      PR_GET_NAME,        PR_GET_DUMPABLE, PR_GET_PDEATHSIG,    PR_GET_SECCOMP,      PR_GET_TIMERSLACK,
    PR_SET_PDEATHSIG, PR_GET_THP_DISABLE, PR_CAPBSET_READ, PR_SET_NO_NEW_PRIVS, PR_GET_NO_NEW_PRIVS, PR_SET_VMA,
};
static const int socket_options[] = { SO_RCVTIMEO, SO_SNDTIMEO, SO_KEEPALIVE, SO_LINGER, SO_RCVBUF, SO_SNDBUF };
static const int tcp_options[] = { TCP_NODELAY, TCP_CORK, TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT };

/* A clone into a namespace of its own gets privileges there; one for the caller's parent is none of the caller's. */
#define CLONE_ELSEWHERE                                                                                                \
    ((uint64_t)(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |           \
                CLONE_NEWNET | CLONE_PARENT))

/* libseccomp is loaded by the template that needs it: each process would have to map it otherwise, and each fork(2) to
 * copy that. */
#define LIBRARY "libseccomp.so.2"

static struct {
    __typeof__(seccomp_init) *init;
    __typeof__(seccomp_attr_set) *attr_set;
    __typeof__(seccomp_rule_add) *rule_add;
    __typeof__(seccomp_load) *load;
    __typeof__(seccomp_release) *release;
} library;

static bool load_library(void)
{
    void *module = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (module == NULL)
        return false;
    *(void **)&library.init = dlsym(module, "seccomp_init");
    *(void **)&library.attr_set = dlsym(module, "seccomp_attr_set");
    *(void **)&library.rule_add = dlsym(module, "seccomp_rule_add");
    *(void **)&library.load = dlsym(module, "seccomp_load");
    *(void **)&library.release = dlsym(module, "seccomp_release");
    return library.init != NULL && library.attr_set != NULL && library.rule_add != NULL && library.load != NULL &&
           library.release != NULL;
}

/* Adding rules, up to the first that fails. */
struct list {
    scmp_filter_ctx filter;
    int error; /* as libseccomp says it: below 0 */
};

static void calls_add(struct list *list, uint32_t action, const int *calls, size_t count)
{
    for (size_t i = 0; i < count && list->error == 0; i++)
        list->error = library.rule_add(list->filter, action, calls[i], 0);
}

static void allow_if(struct list *list, int call, struct scmp_arg_cmp condition)
{
    if (list->error == 0)
        list->error = library.rule_add(list->filter, SCMP_ACT_ALLOW, call, 1, condition);
}

static struct scmp_arg_cmp calls_argument(unsigned index, enum scmp_compare comparison, uint64_t a, uint64_t b)
{
    return (struct scmp_arg_cmp){ .arg = index, .op = comparison, .datum_a = a, .datum_b = b };
}

static void allow_each(struct list *list, int call, unsigned index, const int *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        allow_if(list, call, calls_argument(index, SCMP_CMP_EQ, (uint64_t)values[i], 0));
}

static void allow_option(struct list *list, int level, const int *options, size_t count)
{
    for (size_t i = 0; i < count && list->error == 0; i++)
        list->error = library.rule_add(list->filter, SCMP_ACT_ALLOW, SCMP_SYS(setsockopt), 2,
                                       calls_argument(1, SCMP_CMP_EQ, (uint64_t)level, 0),
                                       calls_argument(2, SCMP_CMP_EQ, (uint64_t)options[i], 0));
}

static void allow_some_arguments(struct list *list)
{
    allow_if(list, SCMP_SYS(clone), calls_argument(0, SCMP_CMP_MASKED_EQ, CLONE_ELSEWHERE, 0));
    allow_if(list, SCMP_SYS(prlimit64), calls_argument(0, SCMP_CMP_EQ, 0, 0));
    allow_if(list, SCMP_SYS(sched_setaffinity), calls_argument(0, SCMP_CMP_EQ, 0, 0));
    /* MADV_HWPOISON and MADV_SOFT_OFFLINE take memory from the whole machine. */
    allow_if(list, SCMP_SYS(madvise), calls_argument(2, SCMP_CMP_LT, MADV_HWPOISON, 0));
    allow_if(list, SCMP_SYS(madvise), calls_argument(2, SCMP_CMP_GT, MADV_SOFT_OFFLINE, 0));
    allow_each(list, SCMP_SYS(fcntl), 1, controls, LENGTH(controls));
    allow_each(list, SCMP_SYS(ioctl), 1, device_controls, LENGTH(device_controls));
    allow_each(list, SCMP_SYS(prctl), 0, process_controls, LENGTH(process_controls));
    allow_option(list, SOL_SOCKET, socket_options, LENGTH(socket_options));
    allow_option(list, IPPROTO_TCP, tcp_options, LENGTH(tcp_options));
}

/* Landlock before version 3 does not see that a file which is opened to be read alone is made empty. */
static void allow_open(struct list *list, int call, unsigned flags)
{
    allow_if(list, call, calls_argument(flags, SCMP_CMP_MASKED_EQ, O_TRUNC, 0));
    allow_if(list, call, calls_argument(flags, SCMP_CMP_MASKED_EQ, O_TRUNC | O_ACCMODE, O_TRUNC | O_WRONLY));
    allow_if(list, call, calls_argument(flags, SCMP_CMP_MASKED_EQ, O_TRUNC | O_ACCMODE, O_TRUNC | O_RDWR));
}

static void list_files(struct list *list, const struct sti_wall_config *config)
{
    static const int openers[] = { SCMP_SYS(open), SCMP_SYS(openat) };
    static const int truncate_call[] = { SCMP_SYS(truncate) };
    uint32_t refused = SCMP_ACT_ERRNO(EACCES), of_named = config->path_count > 0 ? SCMP_ACT_ALLOW : refused;
    if (config->path_count > 0) {
        allow_open(list, SCMP_SYS(open), 1);
        allow_open(list, SCMP_SYS(openat), 2);
    } else {
        calls_add(list, refused, openers, LENGTH(openers));
    }
    calls_add(list, of_named, of_paths, LENGTH(of_paths));
    calls_add(list, sti_paths_version() >= STI_PATHS_TRUNCATES ? of_named : refused, truncate_call, 1);
    calls_add(list, refused, of_any_file, LENGTH(of_any_file));
}

static void list_closed(struct list *list, const struct sti_wall_config *config)
{
    calls_add(list, SCMP_ACT_ALLOW, plain, LENGTH(plain));
    calls_add(list, SCMP_ACT_ERRNO(ENOSYS), unknown, LENGTH(unknown));
    allow_some_arguments(list);
    list_files(list, config);
}

static int load_list(struct list *list, const struct sti_wall_config *config, char *message, size_t size)
{
    library.attr_set(list->filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS));
    library.attr_set(list->filter, SCMP_FLTATR_CTL_OPTIMIZE, 2); /* a tree */
    if (config->sandbox == STINT_WALL_CLOSED)
        list_closed(list, config);
    if (list->error != 0)
        return sti_refuse(-list->error, message, size, "libseccomp refuses a rule of the closed sandbox (%s).",
                          strerror(-list->error));
    int error = config->filter != NULL ? config->filter(list->filter, config->filter_arg) : 0;
    if (error != 0)
        return sti_refuse(error, message, size, "options.filter has returned %d.", error);
    error = -library.load(list->filter);
    return error == 0 ? 0 : sti_refuse(error, message, size, "The kernel refuses the filter (%s).", strerror(error));
}

static int calls_load(const struct sti_wall_config *config, char *message, size_t size)
{
    bool closed = config->sandbox == STINT_WALL_CLOSED;
    struct list list = { .filter = library.init(closed ? SCMP_ACT_ERRNO(EPERM) : SCMP_ACT_ALLOW) };
    if (list.filter == NULL)
        return sti_refuse(ENOMEM, message, size, "There is no memory for a filter of system calls.");
    int error = load_list(&list, config, message, size);
    library.release(list.filter);
    return error;
}

#else

bool sti_system_calls_are_listed(void)
{
    return false;
}

static int calls_load(const struct sti_wall_config *config, char *message, size_t size)
{
    (void)config;
    return sti_refuse(ENOTSUP, message, size, "This library was built without libseccomp.");
}

static bool load_library(void)
{
    return true; /* load tells */
}

#endif

static bool is_filtered(const struct sti_wall_config *config)
{
    return config->sandbox == STINT_WALL_CLOSED || config->filter != NULL;
}

int sti_system_calls_prepare(const struct sti_wall_config *config, char *message, size_t size)
{
    return !is_filtered(config) || load_library()
               ? 0
               : sti_refuse(ENOTSUP, message, size,
                            "libseccomp, which makes the filter of system calls, cannot be loaded.");
}

int sti_system_calls_enter_template(const struct sti_wall_config *config, char *message, size_t size)
{
    return is_filtered(config) ? calls_load(config, message, size) : 0;
}
