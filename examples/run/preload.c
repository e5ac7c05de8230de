/* SPDX-License-Identifier: MIT
 *
 * The module that stint-run preloads, in front of the library: it runs the program's main function as a task. The exit
 * handlers that the program registers run in the task, too; then control comes back to the task's function, which
 * returns, so the task ends as every other one and its outcome is whole. Main thread. */
#include "metered_threads.h"
#include "record.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef int main_fn(int argc, char **argv, char **environment);
typedef int start_fn(main_fn *program, int argc, char **argv, void (*init)(void), void (*fini)(void),
                     void (*loader_fini)(void), void *stack_end);

int __libc_start_main(main_fn *program, int argc, char **argv, void (*init)(void), void (*fini)(void),
                      void (*loader_fini)(void), void *stack_end) __attribute__((visibility("default")));
void _exit(int status) __attribute__((visibility("default"), noreturn));
void _Exit(int status) __attribute__((visibility("default"), noreturn));
void abort(void) __attribute__((visibility("default"), noreturn));

static struct {
    struct record *record;
    main_fn *main;
    int argc;
    char **argv;
    char **environment;
    pid_t pid;        /* in which the task began */
    bool is_child;    /* of the program, with a task of its own */
    atomic_bool runs; /* the task has begun, and nobody has noted its end */
    stint_budget budget;
    jmp_buf end; /* in the task's function */
    int status;  /* with which the program ends */
} program;

/* --- The record. --- */

static struct record *open_record(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    struct record *record = mmap(NULL, sizeof *record, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (record == MAP_FAILED)
        return NULL;
    if (record->magic == RECORD_MAGIC)
        return record;
    munmap(record, sizeof *record);
    return NULL;
}

static void limit_files(unsigned files)
{
    struct rlimit limit;
    if (files == 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max <= files)
        return;
    limit.rlim_cur = limit.rlim_max = files;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* Programs that this one starts are not to be limited. */
static void free_children(void)
{
    const char *before = getenv(RECORD_PRELOADED);
    if (before != NULL)
        setenv("LD_PRELOAD", before, 1);
    else
        unsetenv("LD_PRELOAD");
    unsetenv(RECORD_PRELOADED);
    unsetenv(RECORD_VARIABLE);
}

static uint64_t less(uint64_t limit, uint64_t used)
{
    return limit > used ? limit - used : 1;
}

/* Allocation that the processes have ended with is taken from what they share. Memory is looked at by stint-run. */
static stint_budget own_budget(void)
{
    stint_budget budget = program.record->budget;
    if (program.is_child && program.record->children == RECORD_SHARE && budget.allocation != 0)
        budget.allocation = less(budget.allocation, atomic_load(&program.record->children_allocated));
    return budget;
}

static void note_child(const stint_usage *usage, stint_reason reason)
{
    int none = STINT_REASON_NONE;
    atomic_fetch_add(&program.record->children_ended, 1);
    atomic_fetch_add(&program.record->children_allocated, usage->allocated);
    atomic_compare_exchange_strong(&program.record->children_reason, &none, (int)reason);
}

/* The task and the threads charge one account; where there was no thread the task's own count is exact. */
static uint64_t allocated_by_all(uint64_t by_task)
{
    uint64_t by_threads = threads_allocated();
    return by_threads > by_task ? by_threads : by_task;
}

static void note_end(const stint_outcome *outcome)
{
    stint_usage usage = outcome->usage;
    stint_reason reason = outcome->reason;
    if (reason == STINT_REASON_ACCOUNT || (reason == STINT_REASON_NONE && threads_passed_limit()))
        reason = STINT_REASON_ALLOCATION_LIMIT;
    usage.allocated = allocated_by_all(usage.allocated);
    if (program.is_child) {
        note_child(&usage, reason);
        return;
    }
    program.record->reason = reason;
    program.record->usage = usage;
    atomic_store(&program.record->state, RECORD_ENDED);
}

/* The limit that has interrupted the task. Of the account's nothing is left when all together have used it up. */
static stint_reason reason_now(const stint_budget *left, uint64_t allocated)
{
    if (!stint_is_interrupted())
        return STINT_REASON_NONE;
    bool by_allocation = left->allocation == 0 || program.budget.memory == 0 ||
                         (program.budget.allocation != 0 && allocated_by_all(allocated) >= program.budget.allocation);
    return by_allocation ? STINT_REASON_ALLOCATION_LIMIT : STINT_REASON_MEMORY_LIMIT;
}

/* Of a program that ends without its exit handlers, or by another thread than the main one. What the main one held is
 * not known to that, and it has no limit but the account's. */
static void note_abrupt_end(void)
{
    stint_outcome outcome = { .reason = STINT_REASON_NONE };
    stint_budget left;
    if (!atomic_exchange(&program.runs, false) || stint_usage_now(&outcome.usage, &left) != 0)
        return;
    if (gettid() == getpid()) {
        outcome.reason = reason_now(&left, outcome.usage.allocated);
    } else {
        outcome.reason = stint_is_interrupted() ? STINT_REASON_ACCOUNT : STINT_REASON_NONE;
        outcome.usage.peak = 0;
    }
    note_end(&outcome);
}

/* --- What is written at the end. --- */

static void write_to(const char *path, int (*write_all)(int fd, const void *what), const void *what)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    int error = fd < 0 ? errno : write_all(fd, what);
    if (fd >= 0)
        close(fd);
    if (error != 0)
        program.record->output_error = error;
}

static bool ends_in(const char *path, const char *ending)
{
    size_t length = strlen(path);
    return length >= strlen(ending) && strcmp(path + length - strlen(ending), ending) == 0;
}

static int write_profile(int fd, const void *unused)
{
    (void)unused;
    stint_profile_kind kind =
        ends_in(program.record->profile, ".collapsed") ? STINT_PROFILE_COLLAPSED : STINT_PROFILE_PPROF;
    return stint_profile_write(fd, kind);
}

static int write_report(int fd, const void *report)
{
    return stint_report_write(report, fd,
                              ends_in(program.record->report, ".json") ? STINT_REPORT_JSON : STINT_REPORT_TEXT);
}

static void write_files(const stint_report *report)
{
    if (program.is_child)
        return;
    if (program.record->profile[0] != '\0') {
        stint_profile_stop();
        write_to(program.record->profile, write_profile, NULL);
    }
    if (report != NULL && program.record->report[0] != '\0')
        write_to(program.record->report, write_report, report);
}

/* --- The task. --- */

/* The first handler of all, so it runs last. A child of fork(2) that goes on with the program's code is not the task's
 * process: it is counted, and ends as it would. */
static void come_back(int status, void *unused)
{
    (void)unused;
    if (!program.runs)
        return;
    bool is_forked = getpid() != program.pid;
    program.is_child |= is_forked;
    if (is_forked || gettid() != getpid()) {
        note_abrupt_end();
        return;
    }
    fflush(NULL);
    program.status = status;
    longjmp(program.end, 1);
}

static int run_program(void *unused, void **value)
{
    (void)unused;
    (void)value;
    if (setjmp(program.end) == 0)
        exit(program.main(program.argc, program.argv, program.environment));
    program.runs = false;
    return 0;
}

static int refuse(const char *why, const char *of)
{
    snprintf(program.record->message, sizeof program.record->message, "%s%s", why, of != NULL ? of : "");
    atomic_store(&program.record->state, RECORD_REFUSED);
    return 126;
}

typedef void *new_fn(size_t size);
typedef void delete_fn(void *block);

static int make_and_drop(void *unused, void **value)
{
    new_fn *make = (new_fn *)dlsym(RTLD_DEFAULT, "_Znwm");
    delete_fn *drop = (delete_fn *)dlsym(RTLD_DEFAULT, "_ZdlPv");
    (void)unused;
    (void)value;
    if (make == NULL || drop == NULL)
        return ENOENT;
    drop(make(1));
    return 0;
}

static int do_nothing(void *unused, void **value)
{
    (void)unused;
    (void)value;
    return 0;
}

/* As the program will be: in a task that is never left, for which the library loads no unwinder. */
static bool runs_in_task(stint_fn *fn, unsigned flags, stint_outcome *outcome)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.on_interrupt = STINT_FAIL;
    options.flags = flags;
    return stint_run(fn, NULL, &options, outcome) == 0 && outcome->status == STINT_OK;
}

/* A program that a whole libstdc++ is linked into, as gcc's cc1 is, has operators of its own. They ask malloc, which
 * counts: one block shows it. */
static bool operators_are_counted(void)
{
    stint_outcome outcome;
    return runs_in_task(make_and_drop, STINT_ALLOW_UNMETERED, &outcome) && outcome.usage.allocated > 0;
}

static const char *why_not_metered(char room[RECORD_MESSAGE_ROOM])
{
    stint_link_report link = STINT_LINK_REPORT_INIT;
    stint_outcome outcome;
    if (runs_in_task(do_nothing, 0, &outcome) || stint_link_check(&link) == 0)
        return NULL;
    if (link.function != NULL && strncmp(link.function, "operator ", strlen("operator ")) == 0 && link.locked &&
        operators_are_counted())
        return NULL;
    if (link.function == NULL)
        return link.off != NULL ? link.off : "its libraries are not ones that stint knows";
    snprintf(room, RECORD_MESSAGE_ROOM, "its %s is that of %s", link.function,
             link.module == NULL || link.module[0] == '\0' ? "the program itself" : link.module);
    return room;
}

/* Of the task and the program's other threads, which have one limit on allocation. */
static int make_account(stint_account **account)
{
    stint_account_limits limits = STINT_ACCOUNT_LIMITS_INIT;
    limits.allocation = program.budget.allocation;
    limits.name = program_invocation_short_name;
    return stint_account_create(NULL, &limits, account);
}

static int run_as_task(int argc, char **argv, char **environment)
{
    char room[RECORD_MESSAGE_ROOM];
    const char *why = why_not_metered(room);
    limit_files(program.record->files); /* now that the library has loaded what it needs */
    program.argc = argc;
    program.argv = argv;
    program.environment = environment;
    program.pid = getpid();
    if (why != NULL && program.is_child)
        atomic_fetch_add(&program.record->children_unmetered, 1);
    if (why != NULL)
        return program.is_child || program.record->is_walled ? program.main(argc, argv, environment)
                                                             : refuse(why, NULL);
    stint_options options = STINT_OPTIONS_INIT;
    stint_outcome outcome;
    stint_report *report = NULL;
    stint_account *account;
    program.budget = options.budget = own_budget();
    int error = make_account(&account);
    if (error != 0)
        return refuse("there is no account for its threads: ", strerror(error));
    options.account = account;
    options.on_interrupt = STINT_FAIL;
    /* operators_are_counted; and what its threads and its libraries' last functions use stays. */
    options.flags = STINT_ALLOW_UNMETERED | STINT_COMMIT;
    options.name = program_invocation_short_name;
    options.report = program.record->report[0] != '\0' && !program.is_child ? STINT_REPORT_HEAP : STINT_REPORT_NONE;
    if (program.record->profile[0] != '\0' && !program.is_child)
        program.record->output_error = stint_profile_start(NULL);
    if (!program.is_child)
        atomic_store(&program.record->state, RECORD_RUNS);
    on_exit(come_back, NULL);
    program.runs = true;
    threads_begin(program.record, account);
    error = stint_run_reported(run_program, NULL, &options, &outcome, &report);
    if (error != 0)
        return program.is_child ? 125 : refuse("it could not be run as a task: ", strerror(error));
    note_end(&outcome);
    write_files(report);
    stint_report_release(report);
    return program.status;
}

int __libc_start_main(main_fn *main_of_program, int argc, char **argv, void (*init)(void), void (*fini)(void),
                      void (*loader_fini)(void), void *stack_end)
{
    start_fn *start = (start_fn *)dlsym(RTLD_NEXT, "__libc_start_main");
    const char *path = getenv(RECORD_VARIABLE);
    program.main = main_of_program;
    program.record = path != NULL ? open_record(path) : NULL;
    if (program.record == NULL)
        return start(main_of_program, argc, argv, init, fini, loader_fini, stack_end);
    program.is_child = program.record->pid != getpid();
    if (program.record->children == RECORD_FREE)
        free_children();
    return start(run_as_task, argc, argv, init, fini, loader_fini, stack_end);
}

/* A child of vfork(2) that is about to end, or could not execute its program, has the memory of its parent. */
void _exit(int status)
{
    if (program.record != NULL && getpid() == program.pid)
        note_abrupt_end();
    for (;;)
        syscall(SYS_exit_group, status);
}

/* A program that gets no memory may end so, as node does. */
void abort(void)
{
    if (program.record != NULL && getpid() == program.pid)
        note_abrupt_end();
    ((void (*)(void))dlsym(RTLD_NEXT, "abort"))();
    __builtin_trap(); /* it does not return */
}

void _Exit(int status)
{
    _exit(status);
}
