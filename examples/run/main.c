/* SPDX-License-Identifier: MIT
 *
 * stint-run: starts a program with the module preloaded that meters it, looks after its time, and tells what it took.
 *
 *     main        options, the program's file, the record, then
 *     start       fork, limits of the kernel's, exec
 *     supervise   one loop: the program's end, signals to pass on, limits of time and of all processes together
 *     tell        the last line */
#include "clock.h"
#include "family.h"
#include "options.h"
#include "program.h"
#include "text.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    STATUS_ALLOCATION = 120,
    STATUS_MEMORY = 121,
    STATUS_CPU = 122,
    STATUS_PROCESSES = 123,
    STATUS_TIMEOUT = 124,
    STATUS_FAILED = 125,
    STATUS_NOT_RUN = 126,
    STATUS_NOT_FOUND = 127,
    STATUS_SIGNALLED = 128,
};

/* A limit that was passed. */
enum passed { PASSED_NONE, PASSED_ALLOCATION, PASSED_MEMORY, PASSED_CPU, PASSED_PROCESSES, PASSED_TIMEOUT };

static const struct {
    const char *name;
    int status;
} limits[] = {
    [PASSED_NONE] = { "none", 0 },
    [PASSED_ALLOCATION] = { "allocation", STATUS_ALLOCATION },
    [PASSED_MEMORY] = { "memory", STATUS_MEMORY },
    [PASSED_CPU] = { "cpu", STATUS_CPU },
    [PASSED_PROCESSES] = { "processes", STATUS_PROCESSES },
    [PASSED_TIMEOUT] = { "timeout", STATUS_TIMEOUT },
};

#define LOOK_EVERY_MS 10
#define NS_PER_MS UINT64_C(1000000)
#define LAST_KILLS_NS UINT64_C(2000000000)
#define DATA_SLACK ((size_t)256 << 20) /* an allocator takes more from the kernel than it gives out */

struct run {
    struct options options;
    char path[PATH_MAX];
    bool is_preloaded;
    struct record *record; /* NULL: nothing is preloaded */
    pid_t pid;
    int pidfd;
    int signals;
    uint64_t begin;
    enum passed passed;
    uint64_t kill_at; /* UINT64_MAX: it has not been told to end */
};

static int complain(const char *about, const char *what)
{
    fprintf(stderr, "stint-run: %s: %s\n", about, what);
    return STATUS_FAILED;
}

/* --- What is preloaded. --- */

#ifndef RUN_ALLOCATOR /* the loader finds it quickly, or there is none */
#define RUN_ALLOCATOR ""
#define RUN_ALLOCATOR_BUILT ""
#endif

/* What is preloaded, in this order. */
struct modules {
    char module[PATH_MAX];
    char library[PATH_MAX];
    char allocator[PATH_MAX];
};

/* Beside this program where it was built, or else where it is installed; and the library some folders above. */
static bool find_modules(struct modules *found)
{
    char folder[PATH_MAX - 64] = ".";
    ssize_t length = readlink("/proc/self/exe", folder, sizeof folder - 1);
    if (length > 0) {
        folder[length] = '\0';
        *strrchr(folder, '/') = '\0';
    }
    snprintf(found->module, PATH_MAX, "%s/%s", folder, RUN_MODULE);
    snprintf(found->library, PATH_MAX, "%s/../../%s", folder, RUN_LIBRARY);
    snprintf(found->allocator, PATH_MAX, "%s/%s/%s", folder, RUN_ALLOCATOR_BUILT, RUN_ALLOCATOR);
    if (length > 0 && access(found->module, R_OK) == 0)
        return true;
    snprintf(found->module, PATH_MAX, "%s/%s", RUN_MODULE_FOLDER, RUN_MODULE);
    snprintf(found->library, PATH_MAX, "%s/../%s", RUN_MODULE_FOLDER, RUN_LIBRARY);
    snprintf(found->allocator, PATH_MAX, "%s/%s", RUN_MODULE_FOLDER, RUN_ALLOCATOR);
    return access(found->module, R_OK) == 0;
}

static int preload(const struct run *run, int record_fd)
{
    struct modules found;
    char list[4 * PATH_MAX];
    char record[64];
    const char *before = getenv("LD_PRELOAD");
    if (!find_modules(&found))
        return complain(found.module, "is not there");
    if (access(found.library, R_OK) != 0)
        return complain(found.library, "is not there");
    if (strpbrk(found.module, " :") != NULL)
        return complain(found.module, "a path with a space or a colon in it cannot be preloaded");
    bool has_allocator = RUN_ALLOCATOR[0] != '\0' && access(found.allocator, R_OK) == 0;
    snprintf(list, sizeof list, "%s:%s%s%s%s%s", found.module, found.library, has_allocator ? ":" : "",
             has_allocator ? found.allocator : "", before != NULL ? ":" : "", before != NULL ? before : "");
    snprintf(record, sizeof record, "/proc/%d/fd/%d", (int)getppid(), record_fd);
    if (before != NULL)
        setenv(RECORD_PRELOADED, before, 1);
    setenv("LD_PRELOAD", list, 1);
    /* libc's malloc asks for no huge pages either; a short-lived process clears 2 MiB for a few blocks. */
    setenv("MIMALLOC_ALLOW_THP", "0", 0);
    setenv(RECORD_VARIABLE, record, 1);
    run->record->pid = getpid();
    return 0;
}

/* Of this process and the program. NULL: no memory. */
static struct record *make_record(const struct options *options, int *fd)
{
    *fd = memfd_create("stint-run", MFD_CLOEXEC);
    if (*fd < 0 || ftruncate(*fd, sizeof(struct record)) != 0)
        return NULL;
    struct record *record = mmap(NULL, sizeof *record, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
    if (record == MAP_FAILED)
        return NULL;
    record->magic = RECORD_MAGIC;
    record->children = options->children;
    record->is_walled = options->wall;
    record->files = options->files;
    record->budget = (stint_budget){ .allocation = options->budget.allocation, .memory = options->budget.memory };
    snprintf(record->profile, sizeof record->profile, "%s", options->profile != NULL ? options->profile : "");
    snprintf(record->report, sizeof record->report, "%s", options->report != NULL ? options->report : "");
    return record;
}

/* --- Starting it. --- */

static void limit(__rlimit_resource_t resource, rlim_t value)
{
    struct rlimit limit;
    getrlimit(resource, &limit);
    limit.rlim_cur = value < limit.rlim_max ? value : limit.rlim_max;
    limit.rlim_max = limit.rlim_cur;
    setrlimit(resource, &limit);
}

static void limit_by_kernel(const struct options *options, bool is_preloaded)
{
    if (options->files != 0 && !is_preloaded) /* what is preloaded does it when all is loaded */
        limit(RLIMIT_NOFILE, options->files);
    if (!options->wall)
        return;
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    limit(RLIMIT_CORE, 0);
    if (options->budget.memory != 0 && options->budget.memory < SIZE_MAX / 4)
        limit(RLIMIT_DATA, 3 * options->budget.memory + DATA_SLACK);
    if (options->budget.cpu_ns != 0) /* for where this process could not look */
        limit(RLIMIT_CPU, options->budget.cpu_ns / UINT64_C(1000000000) + 2);
}

static void become_program(struct run *run, int record_fd, const sigset_t *before, const struct sigaction *children)
{
    if (run->record != NULL && preload(run, record_fd) != 0)
        _exit(STATUS_FAILED);
    limit_by_kernel(&run->options, run->record != NULL);
    sigprocmask(SIG_SETMASK, before, NULL);
    sigaction(SIGCHLD, children, NULL);
    execv(run->path, run->options.program);
    int error = errno;
    complain(run->path, strerror(error));
    _exit(error == ENOENT ? STATUS_NOT_FOUND : STATUS_NOT_RUN);
}

static int start(struct run *run, int record_fd)
{
    sigset_t passed_on, before;
    /* Where it is ignored, children go without a word. */
    struct sigaction children, as_usual = { .sa_handler = SIG_DFL };
    sigaction(SIGCHLD, &as_usual, &children);
    sigemptyset(&passed_on);
    sigaddset(&passed_on, SIGCHLD); /* but this one: reap_orphans */
    sigaddset(&passed_on, SIGTERM);
    sigaddset(&passed_on, SIGINT);
    sigaddset(&passed_on, SIGHUP);
    sigaddset(&passed_on, SIGQUIT);
    sigaddset(&passed_on, SIGUSR1);
    sigaddset(&passed_on, SIGUSR2);
    sigprocmask(SIG_BLOCK, &passed_on, &before);
    run->signals = signalfd(-1, &passed_on, SFD_CLOEXEC);
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); /* what it leaves behind is still found below this process */
    run->begin = clock_now();
    run->pid = fork();
    if (run->pid == 0)
        become_program(run, record_fd, &before, &children);
    run->pidfd = run->pid > 0 ? (int)syscall(SYS_pidfd_open, run->pid, 0) : -1;
    if (run->signals < 0 || run->pidfd < 0)
        return complain(run->path, strerror(errno));
    return 0;
}

/* --- Looking after it. --- */

static uint64_t cpu_of(pid_t pid)
{
    clockid_t clock;
    return clock_getcpuclockid(pid, &clock) == 0 ? clock_of(clock) : 0;
}

static uint64_t ns_of(struct timeval time)
{
    return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_usec * 1000;
}

static uint64_t cpu_of_orphans(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_CHILDREN, &usage) == 0 ? ns_of(usage.ru_utime) + ns_of(usage.ru_stime) : 0;
}

/* Of all processes, or of the one that has used most. */
static uint64_t cpu_looked_at(const struct run *run, const struct family *family)
{
    if (run->options.children == RECORD_SHARE)
        return family->cpu_ns + cpu_of_orphans();
    uint64_t own = cpu_of(run->pid);
    return own > family->most_cpu_ns ? own : family->most_cpu_ns;
}

static bool has_threads(const struct run *run)
{
    return run->record != NULL && atomic_load(&run->record->threads) != 0;
}

/* Of all its processes together. */
static bool is_memory_shared(const struct options *options)
{
    return options->wall || options->children == RECORD_SHARE;
}

/* A task's own memory is metered, that of other threads is not. */
static bool is_memory_watched(const struct run *run)
{
    return run->options.budget.memory != 0 && (is_memory_shared(&run->options) || has_threads(run));
}

static enum passed look_at_limits(const struct run *run)
{
    const struct options *options = &run->options;
    const stint_budget *budget = &options->budget;
    struct family family = { 0 };
    if (is_memory_watched(run) || options->processes != 0 || (budget->cpu_ns != 0 && options->children != RECORD_FREE))
        family = family_measure();
    uint64_t cpu = budget->cpu_ns != 0 ? cpu_looked_at(run, &family) : 0;
    if (budget->wall_ns != 0 && clock_now() - run->begin >= budget->wall_ns)
        return PASSED_TIMEOUT;
    if (budget->cpu_ns != 0 && cpu >= budget->cpu_ns)
        return PASSED_CPU;
    if (options->processes != 0 && family.threads > options->processes)
        return PASSED_PROCESSES;
    size_t most_resident = budget->memory + budget->memory / 8 + 16 * ((size_t)1 << 20);
    uint64_t resident = is_memory_shared(options) ? family.resident : family.most_of_threads;
    return is_memory_watched(run) && resident > most_resident ? PASSED_MEMORY : PASSED_NONE;
}

/* Memory and processes grow while one waits; a program that runs out of time may tidy up. */
static void end_program(struct run *run, enum passed passed)
{
    bool at_once = passed == PASSED_MEMORY || passed == PASSED_PROCESSES;
    run->passed = passed;
    run->kill_at = at_once ? 0 : clock_now() + run->options.kill_after_ns;
    if (!at_once) {
        family_signal(SIGTERM);
        family_signal(SIGCONT);
    }
}

static int milliseconds_to_wait(const struct run *run)
{
    const struct options *options = &run->options;
    bool looks_often = options->budget.cpu_ns != 0 || options->processes != 0 || options->budget.memory != 0;
    uint64_t until = run->kill_at != UINT64_MAX     ? run->kill_at
                     : options->budget.wall_ns != 0 ? run->begin + options->budget.wall_ns
                                                    : UINT64_MAX;
    uint64_t now = clock_now();
    if (until <= now)
        return 0;
    if (looks_often && run->kill_at == UINT64_MAX)
        return LOOK_EVERY_MS;
    if (until == UINT64_MAX)
        return -1;
    uint64_t wait = (until - now) / NS_PER_MS + 1;
    return wait < INT_MAX ? (int)wait : INT_MAX;
}

/* Those that have lost their parent are this process's: as long as nobody asks for them they are counted. */
static void reap_orphans(const struct run *run)
{
    siginfo_t ended = { 0 };
    while (waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid != 0 &&
           ended.si_pid != run->pid) {
        waitpid(ended.si_pid, NULL, 0);
        ended.si_pid = 0;
    }
}

/* As timeout does: what is to end it goes to all of its processes, one that is stopped ends, too. A terminal has sent
 * it to them as well. */
static void pass_signal_on(const struct run *run)
{
    struct signalfd_siginfo got;
    if (read(run->signals, &got, sizeof got) != (ssize_t)sizeof got)
        return;
    int number = (int)got.ssi_signo;
    if (number == SIGCHLD) {
        reap_orphans(run);
    } else if (number == SIGUSR1 || number == SIGUSR2) {
        kill(run->pid, number);
    } else if (got.ssi_code != SI_KERNEL) {
        family_signal(number);
        family_signal(SIGCONT);
    }
}

static void supervise(struct run *run)
{
    struct pollfd waits[] = { { .fd = run->pidfd, .events = POLLIN }, { .fd = run->signals, .events = POLLIN } };
    for (;;) {
        poll(waits, 2, milliseconds_to_wait(run));
        if (waits[0].revents != 0)
            return;
        if (waits[1].revents != 0)
            pass_signal_on(run);
        if (run->kill_at != UINT64_MAX && clock_now() >= run->kill_at) {
            family_signal(SIGKILL);
        } else if (run->kill_at == UINT64_MAX) {
            enum passed passed = look_at_limits(run);
            if (passed != PASSED_NONE)
                end_program(run, passed);
        }
    }
}

/* --- Telling. --- */

/* What the record says, checked: the program may have written anything there. */
static int read_record(const struct run *run, struct record *copy)
{
    memset(copy, 0, sizeof *copy);
    if (run->record == NULL)
        return RECORD_NOT_LOADED;
    memcpy(copy, run->record, sizeof *copy);
    copy->message[sizeof copy->message - 1] = '\0';
    return atomic_load(&copy->state);
}

static enum passed passed_of(int reason)
{
    return reason == STINT_REASON_ALLOCATION_LIMIT ? PASSED_ALLOCATION
           : reason == STINT_REASON_MEMORY_LIMIT   ? PASSED_MEMORY
                                                   : PASSED_NONE;
}

static void tell_json(const struct run *run, int status, const struct rusage *usage, const struct record *record)
{
    bool is_known = atomic_load(&record->state) == RECORD_ENDED;
    fprintf(stderr, "{\"exited\":%s,\"code\":%d,\"limit\":\"%s\",\"wall_ns\":%" PRIu64 ",\"cpu_ns\":%" PRIu64,
            WIFEXITED(status) ? "true" : "false", WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status),
            limits[run->passed].name, clock_now() - run->begin, ns_of(usage->ru_utime) + ns_of(usage->ru_stime));
    if (is_known)
        fprintf(stderr, ",\"allocated\":%" PRIu64 ",\"peak\":%" PRIu64, record->usage.allocated, record->usage.peak);
    fprintf(stderr,
            ",\"resident\":%" PRIu64 ",\"children\":%" PRIu64 ",\"children_allocated\":%" PRIu64
            ",\"children_unmetered\":%u,\"threads\":%u}\n",
            (uint64_t)usage->ru_maxrss * 1024, atomic_load(&record->children_ended),
            atomic_load(&record->children_allocated), atomic_load(&record->children_unmetered),
            atomic_load(&record->threads));
}

static void tell_line(const struct run *run, int status, const struct rusage *usage, const struct record *record)
{
    char room[6][TEXT_ROOM];
    uint64_t children = atomic_load(&record->children_ended);
    unsigned unmetered = atomic_load(&record->children_unmetered);
    if (WIFEXITED(status))
        fprintf(stderr, "stint-run: exit status %d", WEXITSTATUS(status));
    else
        fprintf(stderr, "stint-run: ended by SIG%s", sigabbrev_np(WTERMSIG(status)));
    if (run->passed != PASSED_NONE)
        fprintf(stderr, ", passed --%s", limits[run->passed].name);
    fprintf(stderr, ": %s, %s of processor", text_write_duration(room[0], clock_now() - run->begin),
            text_write_duration(room[1], ns_of(usage->ru_utime) + ns_of(usage->ru_stime)));
    if (atomic_load(&record->state) == RECORD_ENDED)
        fprintf(stderr, ", %s allocated", text_write_size(room[2], record->usage.allocated));
    if (atomic_load(&record->state) == RECORD_ENDED && record->usage.peak > 0)
        fprintf(stderr, ", %s held at most", text_write_size(room[3], record->usage.peak));
    fprintf(stderr, ", %s resident", text_write_size(room[4], (uint64_t)usage->ru_maxrss * 1024));
    if (children > 0)
        fprintf(stderr, "; %" PRIu64 " child%s ended, %s allocated", children, children > 1 ? "ren" : "",
                text_write_size(room[5], atomic_load(&record->children_allocated)));
    if (unmetered > 0)
        fprintf(stderr, "; %u child%s not metered", unmetered, unmetered > 1 ? "ren" : "");
    fputc('\n', stderr);
}

/* Whoever waits for this process sees the signal that ended the program: a shell ends its loop at SIGINT. The core is
 * the program's. */
static void end_by(int number)
{
    sigset_t only;
    sigemptyset(&only);
    sigaddset(&only, number);
    fflush(NULL);
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    signal(number, SIG_DFL);
    raise(number);
    sigprocmask(SIG_UNBLOCK, &only, NULL);
}

static int status_of(const struct run *run, int status)
{
    if (run->passed != PASSED_NONE && !run->options.preserve_status)
        return limits[run->passed].status;
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    if (run->passed == PASSED_NONE)
        end_by(WTERMSIG(status));
    return STATUS_SIGNALLED + WTERMSIG(status);
}

/* Some may have been started while the list was read: until nobody is left. What the kernel does not let go is. */
static void kill_all(void)
{
    uint64_t until = clock_now() + LAST_KILLS_NS;
    pid_t ended;
    do {
        family_signal(SIGKILL);
        while ((ended = waitpid(-1, NULL, WNOHANG)) > 0)
            continue;
    } while (ended == 0 && clock_now() < until);
}

static int finish(struct run *run)
{
    struct record record;
    struct rusage usage;
    int status;
    while (wait4(run->pid, &status, 0, &usage) < 0)
        continue;
    if (run->passed != PASSED_NONE || run->options.wall)
        kill_all(); /* what it has left behind */
    int state = read_record(run, &record);
    if (state == RECORD_REFUSED)
        return complain(run->path, record.message), fprintf(stderr, "stint-run: run it with --wall\n"), STATUS_NOT_RUN;
    if (run->passed == PASSED_NONE && state == RECORD_ENDED)
        run->passed = passed_of((int)record.reason);
    if (run->passed == PASSED_NONE && run->options.children == RECORD_SHARE)
        run->passed = passed_of(atomic_load(&record.children_reason));
    if (record.output_error != 0)
        complain("--profile or --report", strerror(record.output_error));
    if (!run->options.quiet)
        (run->options.json ? tell_json : tell_line)(run, status, &usage, &record);
    return status_of(run, status);
}

static int find_program(struct run *run)
{
    const char *name = run->options.program[0];
    int error = program_find(name, run->path);
    if (error != 0)
        return complain(name, strerror(error)), error == ENOENT ? STATUS_NOT_FOUND : STATUS_NOT_RUN;
    const char *why = program_why_not_preloaded(run->path);
    run->is_preloaded = why == NULL;
    if (why == NULL || run->options.wall)
        return 0;
    fprintf(stderr, "stint-run: %s: %s, so it cannot be metered: run it with --wall\n", run->path, why);
    return STATUS_NOT_RUN;
}

int main(int argc, char **argv)
{
    struct run run = { .kill_at = UINT64_MAX };
    int record_fd = -1;
    arguments_next next = options_read(&run.options, argc, argv);
    if (next != ARGUMENTS_RUN)
        return next == ARGUMENTS_DONE ? 0 : STATUS_FAILED;
    if (access("/proc/self/fd", R_OK) != 0)
        return complain("/proc", "is not mounted: the limits are kept by what it says of the program");
    int status = find_program(&run);
    if (status != 0)
        return status;
    if (run.is_preloaded) {
        run.record = make_record(&run.options, &record_fd);
        if (run.record == NULL)
            return complain("memory", strerror(errno));
    }
    status = start(&run, record_fd);
    if (status != 0)
        return status;
    supervise(&run);
    return finish(&run);
}
