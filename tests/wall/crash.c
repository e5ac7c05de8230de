/* SPDX-License-Identifier: MIT
 *
 * The record that a child makes as it crashes, in each possible way, and the program's report of it. Each test forks a
 * child that crashes; the record lies in pages that both have. */
#include <assert.h>
#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>

#include "executor/wall/crash_report.h"
#include "support.h"

#include "alloc/observe/report.h"

#define PAGE 4096
#define TEXT_SIZE ((size_t)64 << 10)

#if defined(__clang__)
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __attribute__((noinline, noclone, noipa))
#endif

static volatile int sink;
static volatile bool never;

struct shared {
    struct sti_crash_record record;
    struct sti_crash_modules known;
    _Atomic bool ready;
};

/* --- A child. */

static struct shared *share(void)
{
    struct shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(shared, MAP_FAILED);
    return shared;
}

/* Nothing of it may be said to have come from a test that has failed in the child, nor a core be left. */
static void prepare(struct sti_crash_record *record)
{
    const struct rlimit none = { 0, 0 };
    setrlimit(RLIMIT_CORE, &none);
    sti_crash_watch(record);
}

typedef void crash_fn(void);

/* Fork a child that watches, and then calls the function. The status with which it ended. */
NOINLINE static int status_of(crash_fn *crash, struct sti_crash_record *record)
{
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        prepare(record);
        crash();
        _exit(99);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

/* The same for a child that ends by the signal after it has written its record; the record is read. */
static void crash_by(crash_fn *crash, int signal, struct shared *shared)
{
    int status = status_of(crash, &shared->record);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), signal);
    assert_true(sti_crash_check(&shared->record));
    assert_int_equal(shared->record.signal, signal);
}

/* --- Its report. */

static stint_outcome outcome_of(stint_wall_death *death, int signal)
{
    *death = (stint_wall_death){ .signal = signal, .known = true };
    return (stint_outcome){ .status = STINT_ERROR,
                            .reason = STINT_REASON_CRASH,
                            .error = EFAULT,
                            .payload = death,
                            .payload_size = sizeof *death };
}

static int walled(const void *input, size_t size, stint_reply *reply)
{
    (void)input;
    (void)size;
    (void)reply;
    return 0;
}

static void write_to(char *text, const stint_report *report, stint_report_kind kind)
{
    memset(text, 0, TEXT_SIZE);
#if PROFILES
    int file = memfd_create("report", MFD_CLOEXEC);
    assert_true(file >= 0);
    assert_int_equal(stint_report_write(report, file, kind), 0);
    assert_true(pread(file, text, TEXT_SIZE - 1, 0) >= 0);
    close(file);
#else
    (void)report;
    (void)kind;
#endif
}

/* The text of the report of a crash, in this kind. */
static const char *said(const struct sti_crash_record *record, int signal, stint_report_kind kind, stint_wall_fn *fn,
                        const struct sti_crash_modules *known)
{
    static char text[TEXT_SIZE];
    stint_wall_death death;
    stint_options options = STINT_OPTIONS_INIT;
    options.name = "request 7";
    stint_outcome outcome = outcome_of(&death, signal);
    stint_report *report = sti_crash_report(record, &outcome, &options, fn, known);
    assert_non_null(report);
    write_to(text, report, kind);
    stint_report_release(report);
    return text;
}

#if PROFILES
#define assert_says(text, part)                                                                                        \
    do {                                                                                                               \
        const char *where = (text);                                                                                    \
        if (strstr(where, part) == NULL)                                                                               \
            fail_msg("\"%s\" is not in: %s", part, where);                                                             \
    } while (0)
#define assert_does_not_say(text, part) assert_null(strstr(text, part))
#else
#define assert_says(text, part) ((void)(text))
#define assert_does_not_say(text, part) ((void)(text))
#endif

static const char *line_of(const struct sti_crash_record *record, int signal)
{
    return said(record, signal, STINT_REPORT_LINE, walled, NULL);
}

static void forget(struct shared *shared)
{
    munmap(shared, sizeof *shared);
}

/* --- Ways to crash. */

/* On purpose, so that no sanitizer is to look. */
NOINLINE __attribute__((no_sanitize("undefined"))) static void write_to_null(void)
{
    volatile int *null = NULL;
    *(volatile int *)((uintptr_t)null + (uintptr_t)sink) = 1;
    sink++;
}

NOINLINE static void call_null(void)
{
    void (*volatile nothing)(void) = NULL;
    nothing();
    sink++;
}

NOINLINE static void call_abort(void)
{
    if (!never)
        abort();
    sink++;
}

NOINLINE static void fail_assertion(void)
{
    close(STDERR_FILENO);
    assert(never);
    sink++;
}

#if defined(__x86_64__)
#define ILLEGAL "ud2"
#define BREAKPOINT "int3"
#define SMASH_STACK "movq $0x100, %rsp\n\tmovq $0, 0"
#elif defined(__aarch64__)
#define ILLEGAL ".inst 0"
#define BREAKPOINT "brk #0"
#define SMASH_STACK "mov x9, #0x100\n\tmov sp, x9\n\tmov x9, xzr\n\tstr xzr, [x9]"
#elif defined(__riscv)
#define ILLEGAL "unimp"
#define BREAKPOINT "ebreak"
#define SMASH_STACK "li sp, 0x100\n\tsd zero, 0(zero)"
#endif

NOINLINE static void do_what_is_illegal(void)
{
    if (!never)
        __asm__ volatile(ILLEGAL);
    sink++;
}

#if defined(__x86_64__) /* elsewhere it is 0, or -1, without a word */
NOINLINE static void divide_by_zero(void)
{
    int quotient;
    __asm__ volatile("xorl %%ecx, %%ecx\n\t"
                     "movl $1, %%eax\n\t"
                     "cltd\n\t"
                     "idivl %%ecx"
                     : "=a"(quotient)
                     :
                     : "ecx", "edx");
    sink += quotient;
}
#endif

NOINLINE static void read_beyond_file(void)
{
    int file = memfd_create("short", MFD_CLOEXEC);
    char *mapped = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, file, 0);
    sink += *(volatile char *)mapped;
}

NOINLINE static void break_point(void)
{
    __asm__ volatile(BREAKPOINT);
    sink++;
}

TEST(a_write_to_null_is_told_with_its_address_and_its_function)
{
    struct shared *shared = share();
    crash_by(write_to_null, SIGSEGV, shared);
    assert_int_equal(shared->record.address, 0);
    assert_int_equal(shared->record.code, SEGV_MAPERR);
    assert_int_equal(shared->record.instruction, shared->record.frames[0]);
    assert_says(line_of(&shared->record, SIGSEGV), "SIGSEGV at address 0x0 in write_to_null < status_of");
    forget(shared);
}

TEST(a_call_of_null_is_told_by_its_caller)
{
    struct shared *shared = share();
    crash_by(call_null, SIGSEGV, shared);
    assert_int_equal(shared->record.address, 0);
    assert_int_equal(shared->record.instruction, 0);
    assert_says(line_of(&shared->record, SIGSEGV), "SIGSEGV at address 0x0 in [unknown] < call_null < status_of");
    forget(shared);
}

TEST(an_abort_is_told)
{
    struct shared *shared = share();
    crash_by(call_abort, SIGABRT, shared);
    assert_int_equal(shared->record.address, 0);
    assert_says(said(&shared->record, SIGABRT, STINT_REPORT_TEXT, walled, NULL), "  process    SIGABRT\n");
    assert_says(line_of(&shared->record, SIGABRT), "SIGABRT in call_abort");
    forget(shared);
}

TEST(a_failed_assertion_is_told)
{
    struct shared *shared = share();
    crash_by(fail_assertion, SIGABRT, shared);
    assert_says(line_of(&shared->record, SIGABRT), "SIGABRT in fail_assertion");
    forget(shared);
}

TEST(an_illegal_instruction_is_told)
{
    struct shared *shared = share();
    crash_by(do_what_is_illegal, SIGILL, shared);
    assert_int_equal(shared->record.address, shared->record.instruction);
    assert_says(line_of(&shared->record, SIGILL), "in do_what_is_illegal < ");
    forget(shared);
}

#if defined(__x86_64__)
TEST(a_division_by_zero_is_told)
{
    struct shared *shared = share();
    crash_by(divide_by_zero, SIGFPE, shared);
    assert_int_equal(shared->record.code, FPE_INTDIV);
    assert_int_equal(shared->record.address, shared->record.instruction);
    assert_says(line_of(&shared->record, SIGFPE), "in divide_by_zero < ");
    forget(shared);
}
#endif

TEST(a_read_beyond_the_end_of_a_file_is_told)
{
    struct shared *shared = share();
    crash_by(read_beyond_file, SIGBUS, shared);
    assert_int_equal(shared->record.code, BUS_ADRERR);
    assert_true(shared->record.address != 0 && shared->record.address % PAGE == 0);
    assert_says(line_of(&shared->record, SIGBUS), "in read_beyond_file < ");
    forget(shared);
}

TEST(a_trap_ends_the_process_and_is_told)
{
    struct shared *shared = share();
    crash_by(break_point, SIGTRAP, shared);
    assert_says(line_of(&shared->record, SIGTRAP), "SIGTRAP in break_point < ");
    forget(shared);
}

static void refuse(int call, uint32_t answer)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, answer),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = { .len = sizeof filter / sizeof *filter, .filter = filter };
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        _exit(98);
}

NOINLINE static void call_what_is_refused(void)
{
    refuse(SYS_getppid, SECCOMP_RET_TRAP);
    syscall(SYS_getppid);
    sink++;
}

TEST(a_system_call_that_a_filter_traps_is_told)
{
    if (lack_of_filters() != NULL)
        skip_because(lack_of_filters());
    struct shared *shared = share();
    crash_by(call_what_is_refused, SIGSYS, shared);
    assert_says(line_of(&shared->record, SIGSYS), "call_what_is_refused");
    forget(shared);
}

NOINLINE static void write_to_null_in_sandbox(void)
{
    refuse(SYS_process_vm_readv, SECCOMP_RET_ERRNO | EPERM);
    write_to_null();
    sink++;
}

TEST(where_a_sandbox_refuses_the_call_that_reads_memory_the_callers_are_told)
{
    if (lack_of_filters() != NULL)
        skip_because(lack_of_filters());
    struct shared *shared = share();
    crash_by(write_to_null_in_sandbox, SIGSEGV, shared);
    assert_says(line_of(&shared->record, SIGSEGV), "in write_to_null < write_to_null_in_sandbox < status_of");
    forget(shared);
}

NOINLINE static void smash_stack_in_sandbox(void)
{
    refuse(SYS_process_vm_readv, SECCOMP_RET_ERRNO | EPERM);
    __asm__ volatile(SMASH_STACK);
}

TEST(a_stack_pointer_that_leads_nowhere_does_not_stop_the_telling)
{
    if (lack_of_filters() != NULL)
        skip_because(lack_of_filters());
    struct shared *shared = share();
    crash_by(smash_stack_in_sandbox, SIGSEGV, shared);
    assert_true(shared->record.length >= 1);
    assert_says(line_of(&shared->record, SIGSEGV), "SIGSEGV at address 0x0 in smash_stack_in_sandbox");
/* Without optimisation, and for AddressSanitizer, a frame has a pointer of its own to its caller's. */
#if defined __OPTIMIZE__ && !defined __SANITIZE_ADDRESS__
    assert_int_equal(shared->record.length, 1);
#endif
    forget(shared);
}

/* On purpose, so that no sanitizer is to look. */
NOINLINE __attribute__((no_sanitize("address"))) static void smash_own_frames(void *(*allocate)(size_t))
{
    volatile uintptr_t *frame = (volatile uintptr_t *)__builtin_frame_address(0);
    char *block = allocate(100);
    for (size_t i = 0; i < 40; i++)
        frame[i] = 0x4141414141414141;
    block[0] = (char)sink;
    write_to_null();
    sink++;
}

NOINLINE static void smash_stack(void)
{
    smash_own_frames(malloc);
    sink++;
}

TEST(where_the_stack_is_smashed_the_innermost_functions_are_told)
{
    struct shared *shared = share();
    crash_by(smash_stack, SIGSEGV, shared);
    assert_in_range(shared->record.length, 2, 4);
    assert_says(line_of(&shared->record, SIGSEGV), "SIGSEGV at address 0x0 in write_to_null < smash_own_frames");
    assert_does_not_say(line_of(&shared->record, SIGSEGV), "status_of");
    forget(shared);
}

NOINLINE static int recurse(volatile int depth)
{
    return never ? depth : recurse(depth + 1) + depth;
}

static void recurse_alone(void)
{
    sink += recurse(0);
}

TEST(a_stack_that_is_spent_outside_of_tasks_is_told)
{
    struct shared *shared = share();
    crash_by(recurse_alone, SIGSEGV, shared);
    assert_int_equal(shared->record.length, STI_CRASH_DEPTH);
    assert_says(line_of(&shared->record, SIGSEGV), " in recurse");
    forget(shared);
}

/* --- In tasks of the library's. */

static int recurse_in_task(void *arg, void **value)
{
    (void)arg;
    (void)value;
    return recurse(0);
}

static void run_recursion(void)
{
    stint_outcome outcome;
    stint_run(recurse_in_task, NULL, NULL, &outcome);
}

TEST(a_task_that_spends_the_stack_of_its_process_is_told)
{
    struct shared *shared = share();
    crash_by(run_recursion, SIGSEGV, shared);
    assert_int_equal(shared->record.length, STI_CRASH_DEPTH);
    assert_says(line_of(&shared->record, SIGSEGV), " in recurse");
    forget(shared);
}

#define ENDED_WELL 17

static void *of_plugin(const char *name)
{
    void *plugin = dlopen(CRASH_PLUGIN, RTLD_NOW);
    void *found = plugin != NULL ? dlsym(plugin, name) : NULL;
    if (found == NULL)
        _exit(98);
    return found;
}

static int crash_in_task(void *arg, void **value)
{
    (void)arg;
    (void)value;
    write_to_null();
    return ++sink;
}

static void run_crash(void)
{
    stint_outcome outcome;
    stint_run(crash_in_task, NULL, NULL, &outcome);
    sink++;
}

TEST(the_callstack_of_a_task_ends_where_the_task_begins)
{
    struct shared *shared = share();
    crash_by(run_crash, SIGSEGV, shared);
    assert_says(line_of(&shared->record, SIGSEGV), "in write_to_null < crash_in_task");
    assert_does_not_say(said(&shared->record, SIGSEGV, STINT_REPORT_TEXT, walled, NULL), "run_crash");
    forget(shared);
}

/* --- On other threads. */

static void *crash_on_thread(void *arg)
{
    (void)arg;
    write_to_null();
    sink++;
    return NULL;
}

static void start_thread_that_crashes(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, crash_on_thread, NULL) == 0)
        pthread_join(thread, NULL);
}

TEST(a_crash_on_another_thread_is_told)
{
    struct shared *shared = share();
    crash_by(start_thread_that_crashes, SIGSEGV, shared);
    assert_says(line_of(&shared->record, SIGSEGV), "in write_to_null < crash_on_thread");
    forget(shared);
}

static int start_thread_in_task(void *arg, void **value)
{
    (void)arg;
    (void)value;
    start_thread_that_crashes();
    return 0;
}

static void run_thread_that_crashes(void)
{
    stint_outcome outcome;
    stint_run(start_thread_in_task, NULL, NULL, &outcome);
}

TEST(a_crash_on_a_thread_of_a_task_is_told)
{
    struct shared *shared = share();
    crash_by(run_thread_that_crashes, SIGSEGV, shared);
    assert_says(line_of(&shared->record, SIGSEGV), "in write_to_null < crash_on_thread");
    forget(shared);
}

static atomic_uint arrived;

#define MANY 4

/* Awake, as those that sleep wake up one after the other. */
static void *crash_at_once(void *arg)
{
    (void)arg;
    atomic_fetch_add(&arrived, 1);
    while (atomic_load(&arrived) < MANY)
        sched_yield();
    write_to_null();
    sink++;
    return NULL;
}

static void crash_on_many(void)
{
    pthread_t thread;
    for (int i = 0; i < MANY; i++)
        pthread_create(&thread, NULL, crash_at_once, NULL);
    for (;;)
        pause();
}

TEST(of_threads_that_crash_at_once_one_is_told)
{
    struct shared *shared = share();
    for (int round = 0; round < 50; round++) {
        memset(&shared->record, 0, sizeof shared->record);
        crash_by(crash_on_many, SIGSEGV, shared);
        assert_true(shared->record.length > 2);
    }
    assert_says(line_of(&shared->record, SIGSEGV), "SIGSEGV at address 0x0 in write_to_null < crash_at_once < ");
    forget(shared);
}

/* --- Made ready by a template. */

static int status_in_template(crash_fn *crash, struct sti_crash_record *record)
{
    int status;
    pid_t template = fork();
    if (template == 0) {
        prepare(NULL);
        status = status_of(crash, record);
        _exit(WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    }
    assert_int_equal(waitpid(template, &status, 0), template);
    return status;
}

TEST(a_child_of_a_template_that_was_made_ready_tells_its_crash)
{
    struct shared *shared = share();
    int status = status_in_template(recurse_alone, &shared->record);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), SIGSEGV);
    assert_true(sti_crash_check(&shared->record));
    assert_says(line_of(&shared->record, SIGSEGV), " in recurse");
    forget(shared);
}

TEST(a_template_that_crashes_itself_ends_by_its_signal)
{
    int status = status_of(write_to_null, NULL);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGSEGV);
}

/* --- Faults of the handler's own. */

TEST(a_record_that_cannot_be_written_leaves_the_first_signal)
{
    struct shared *shared = share();
    assert_int_equal(mprotect(shared, sizeof *shared, PROT_NONE), 0);
    int status = status_of(call_abort, &shared->record);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
    forget(shared);
}

TEST(a_fault_in_the_midst_of_the_handler_leaves_what_was_written_before)
{
    char *pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct sti_crash_record *record =
        (struct sti_crash_record *)(void *)(pages + PAGE - offsetof(struct sti_crash_record, modules));
    assert_int_equal(mprotect(pages + PAGE, PAGE, PROT_READ), 0);
    int status = status_of(call_abort, record);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
    assert_int_equal(record->taken, 1);
    assert_int_equal(record->signal, SIGABRT);
#ifdef __GLIBC__ /* musl's abort may have no call frame table */
    assert_true(record->length > 2);
#endif
    munmap(pages, 2 * PAGE);
}

/* --- What is somebody else's. */

static void fork_a_crash(void)
{
    int status;
    pid_t child = fork();
    if (child == 0)
        write_to_null();
    waitpid(child, &status, 0);
    _exit(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV ? ENDED_WELL : 98);
}

TEST(the_crash_of_a_process_that_the_child_has_forked_is_not_the_childs)
{
    struct shared *shared = share();
    int status = status_of(fork_a_crash, &shared->record);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), ENDED_WELL);
    assert_false(sti_crash_check(&shared->record));
    forget(shared);
}

static void take_it(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)info;
    (void)context;
    _exit(ENDED_WELL);
}

static void handle_own_fault(void)
{
    struct sigaction action = { .sa_sigaction = take_it, .sa_flags = SA_SIGINFO };
    sigaction(SIGSEGV, &action, NULL);
    write_to_null();
}

TEST(a_fault_that_the_childs_code_handles_itself_is_none)
{
    struct shared *shared = share();
    int status = status_of(handle_own_fault, &shared->record);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), ENDED_WELL);
    assert_false(sti_crash_check(&shared->record));
    forget(shared);
}

static void kill_self(void)
{
    kill(getpid(), SIGSEGV);
}

TEST(a_signal_that_was_sent_has_no_address)
{
    struct shared *shared = share();
    crash_by(kill_self, SIGSEGV, shared);
    assert_int_equal(shared->record.code, SI_USER);
    assert_int_equal(shared->record.address, 0);
    assert_does_not_say(line_of(&shared->record, SIGSEGV), "at address");
    forget(shared);
}

/* --- The question. */

static struct shared *asked;

NOINLINE static void loop_in_child(void)
{
    atomic_store(&asked->ready, true);
    while (!never)
        sink++;
}

TEST(a_child_that_is_asked_says_where_it_is_and_ends)
{
    int status;
    asked = share();
    pid_t child = fork();
    if (child == 0) {
        prepare(&asked->record);
        loop_in_child();
        _exit(99);
    }
    while (!atomic_load(&asked->ready))
        nap_ms(1);
    assert_int_equal(kill(child, STI_CRASH_ASK), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_true(sti_crash_check(&asked->record));
    assert_int_equal(asked->record.signal, STI_CRASH_ASK);
    char text[TEXT_SIZE];
    stint_options options = STINT_OPTIONS_INIT;
    stint_outcome outcome = { .status = STINT_ERROR, .reason = STINT_REASON_DEADLINE, .error = ETIMEDOUT };
    stint_report *report = sti_crash_report(&asked->record, &outcome, &options, walled, NULL);
    write_to(text, report, STINT_REPORT_TEXT);
    assert_says(text, "error, deadline, error");
    assert_says(text, "\nwhere it was stopped:\n    #0  loop_in_child");
    assert_does_not_say(text, "process");
    stint_report_release(report);
    forget(asked);
}

/* --- Modules that the program has not loaded. */

static struct shared *set_up;

NOINLINE static void crash_in_plugin(void)
{
    int (*parse)(volatile int *);
    *(void **)&parse = of_plugin("plugin_parse");
    sti_crash_list_modules(&set_up->known);
    sink += parse((volatile int *)16);
}

TEST(a_module_that_only_the_child_has_is_told_by_file_and_offset)
{
    set_up = share();
    crash_by(crash_in_plugin, SIGSEGV, set_up);
    const char *text = said(&set_up->record, SIGSEGV, STINT_REPORT_TEXT, walled, NULL);
    assert_says(text, " (in libcrash-plugin.so+0x");
    assert_does_not_say(text, "plugin_inner");
    assert_says(text, " crash_in_plugin (");
    assert_says(said(&set_up->record, SIGSEGV, STINT_REPORT_LINE, walled, NULL), "0x10 in [libcrash-plugin.so] < ");
    forget(set_up);
}

TEST(a_module_that_the_template_has_named_is_told_with_its_functions)
{
    set_up = share();
    crash_by(crash_in_plugin, SIGSEGV, set_up);
    assert_says(said(&set_up->record, SIGSEGV, STINT_REPORT_LINE, walled, &set_up->known),
                "SIGSEGV at address 0x10 in plugin_inner < plugin_parse < crash_in_plugin");
    assert_true(strlen(said(&set_up->record, SIGSEGV, STINT_REPORT_PPROF, walled, &set_up->known)) > 0 || !PROFILES);
    forget(set_up);
}

TEST(addresses_of_another_program_are_looked_up_in_its_files_alone)
{
    set_up = share();
    crash_by(crash_in_plugin, SIGSEGV, set_up);
    assert_says(said(&set_up->record, SIGSEGV, STINT_REPORT_LINE, NULL, &set_up->known),
                "in plugin_inner < plugin_parse < crash_in_plugin");
    set_up->record.module_count = 0;
    assert_says(said(&set_up->record, SIGSEGV, STINT_REPORT_LINE, NULL, NULL), "in [unknown]\n");
    forget(set_up);
}

/* --- Records that lie. */

TEST(a_record_that_counts_too_far_and_ends_no_string_is_made_safe)
{
    struct sti_crash_record record;
    memset(&record, 0xff, sizeof record);
    assert_true(sti_crash_check(&record));
    assert_int_equal(record.length, STI_CRASH_DEPTH);
    assert_int_equal(record.module_count, STI_CRASH_MODULES);
    for (size_t i = 0; i < STI_CRASH_MODULES; i++)
        assert_true(strlen(record.modules[i].path) < STI_CRASH_PATH_SIZE);
    memset(&record, 0, sizeof record);
    assert_false(sti_crash_check(&record));
}

TEST(what_a_child_says_of_another_end_than_the_kernel_is_not_believed)
{
    struct shared *shared = share();
    crash_by(write_to_null, SIGSEGV, shared);
    const char *line = line_of(&shared->record, SIGKILL);
    assert_says(line, "SIGKILL\n");
    forget(shared);
}

TEST(random_records_are_reported)
{
    uint64_t seed = 1;
    struct sti_crash_record record;
    struct sti_crash_modules known;
    for (int round = 0; round < (PROFILES ? 20 : 1); round++) {
        for (size_t i = 0; i < sizeof record; i++)
            ((unsigned char *)&record)[i] = (unsigned char)random_next(&seed);
        for (size_t i = 0; i < sizeof known; i++)
            ((unsigned char *)&known)[i] = (unsigned char)random_next(&seed);
        record.taken |= 1;
        record.signal = round % 2 == 0 ? SIGSEGV : record.signal;
        assert_true(sti_crash_check(&record));
        for (int kind = STINT_REPORT_TEXT; kind <= STINT_REPORT_PPROF; kind++)
            said(&record, record.signal, (stint_report_kind)kind, round % 4 < 2 ? walled : NULL,
                 round % 3 == 0 ? &known : NULL);
    }
}

/* --- Other ends. */

TEST(each_end_of_a_process_has_its_words)
{
    static const struct {
        stint_reason reason;
        stint_wall_death death;
        const char *line;
    } ends[] = {
        { STINT_REASON_EXIT, { .known = true, .status = 3 }, "exit status 3\n" },
        { STINT_REASON_KILLED, { .known = true, .signal = SIGKILL }, "killed by SIGKILL\n" },
        { STINT_REASON_KILLED, { .known = false }, "not known\n" },
        { STINT_REASON_BROKEN, { .known = true, .signal = SIGKILL }, "what it said cannot be true\n" },
        { STINT_REASON_CRASH, { .known = true, .signal = SIGBUS }, "SIGBUS\n" },
        { STINT_REASON_CRASH, { .known = true, .signal = 50 }, "signal 50\n" },
    };
    char text[TEXT_SIZE];
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        stint_outcome outcome = { .status = STINT_ERROR,
                                  .reason = ends[i].reason,
                                  .payload = &ends[i].death,
                                  .payload_size = sizeof ends[i].death };
        stint_report *report = sti_crash_report(NULL, &outcome, NULL, walled, NULL);
        write_to(text, report, STINT_REPORT_LINE);
        if (PROFILES)
            assert_string_equal(text, ends[i].line);
        stint_report_release(report);
    }
}

TEST(json_has_the_end_of_the_process)
{
    struct shared *shared = share();
    crash_by(write_to_null, SIGSEGV, shared);
    const char *text = said(&shared->record, SIGSEGV, STINT_REPORT_JSON, walled, NULL);
    assert_says(text, "\"task\":\"request 7\"");
    assert_says(text, "\"death\":{\"is_known\":true,\"status\":0,\"signal\":11,\"signal_name\":\"SIGSEGV\",\"code\":1,"
                      "\"address\":\"0x0\",\"instruction\":{\"address\":\"0x");
    forget(shared);
}

TEST_MAIN()
