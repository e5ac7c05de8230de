/* SPDX-License-Identifier: MIT
 *
 * What a child takes down as it crashes; see crash.h. In a child, but for the list of modules, which the template
 * makes; the handler on any thread of it, in any state: it allocates nothing, takes no lock, and reads no memory that
 * might not be there but by sti_walk_word. If it makes a fault all the same, the process ends by the first signal,
 * and the record has what was written until then. */
#include "crash.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "alloc/interrupt/boundary.h"
#include "alloc/platform/caller.h"
#include "alloc/platform/callstack.h"
#include "alloc/platform/libc.h"
#include "alloc/platform/machine.h"
#include "alloc/platform/process.h"
#include "alloc/platform/scope_state.h"
#include "alloc/platform/thread.h"

#define STACK_SIZE ((size_t)256 << 10) /* handlers of the task's run there, too */
#define OWN_FRAMES 24                  /* of this library's, and of what has called it, further out; at most */
#define WALKED (STI_CRASH_DEPTH + OWN_FRAMES)

static const int faults[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS };
#define FAULTS (sizeof faults / sizeof *faults)

static struct {
    struct sti_crash_record *record; /* NULL: nothing is taken down */
    pid_t process;
    const struct sti_thread *thread; /* that runs the task */
    bool is_prepared;
} watched;

static char program[STI_CRASH_KNOWN_PATH_SIZE]; /* the file of the main module, which the loader has no name for */
static atomic_int taken_by;                     /* the thread that takes it down; 0: none yet */
static atomic_int first_signal;                 /* of that thread, */
static atomic_int attempts;                     /* and how often its handler has begun */

/* --- The end. */

static void crash_end_by(int number)
{
    const struct sigaction by_default = { .sa_handler = SIG_DFL };
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, number);
    sigaction(number, &by_default, NULL);
    syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &set, NULL, sizeof(uint64_t));
    syscall(SYS_tgkill, getpid(), (pid_t)syscall(SYS_gettid), number);
}

/* For the same signal a return to the instruction makes the same fault again. */
static void crash_end(int number)
{
    if (number == STI_CRASH_ASK)
        _exit(0);
    crash_end_by(number);
}

/* --- The modules. */

static void copy_end(char *copy, size_t size, const char *path)
{
    size_t length = strlen(path);
    size_t left_out = length < size ? 0 : length - (size - 1);
    memcpy(copy, path + left_out, length - left_out + 1);
}

static void find_program(void)
{
    if (program[0] != '\0')
        return;
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    const char *started = (const char *)getauxval(AT_EXECFN);
    if (length <= 0 && started != NULL)
        copy_end(program, sizeof program, started);
}

static const char *path_of(const struct link_map *map)
{
    return map->l_name != NULL && map->l_name[0] != '\0' ? map->l_name : program;
}

static bool crash_is_listed(const struct sti_crash_record *record, uintptr_t begin)
{
    uint32_t i = 0;
    while (i < record->module_count && record->modules[i].begin != begin)
        i++;
    return i < record->module_count;
}

static void list_module(struct sti_crash_record *record, uintptr_t address)
{
    struct dl_find_object found;
    if (record->module_count == STI_CRASH_MODULES || _dl_find_object((void *)address, &found) != 0 ||
        crash_is_listed(record, (uintptr_t)found.dlfo_map_start))
        return;
    __typeof__(&record->modules[0]) module = &record->modules[record->module_count];
    module->begin = (uintptr_t)found.dlfo_map_start;
    module->end = (uintptr_t)found.dlfo_map_end;
    copy_end(module->path, sizeof module->path, path_of(found.dlfo_link_map));
    record->module_count++;
}

static int list_known(struct dl_phdr_info *info, size_t size, void *argument)
{
    struct sti_crash_modules *modules = argument;
    struct dl_find_object found;
    (void)size;
    size_t i = 0;
    while (i < info->dlpi_phnum && info->dlpi_phdr[i].p_type != PT_LOAD)
        i++;
    if (modules->count == STI_CRASH_KNOWN || i == info->dlpi_phnum ||
        _dl_find_object((void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr), &found) != 0)
        return 0;
    const char *path = path_of(found.dlfo_link_map);
    if (strlen(path) >= STI_CRASH_KNOWN_PATH_SIZE)
        return 0;
    __typeof__(&modules->list[0]) module = &modules->list[modules->count++];
    module->begin = (uintptr_t)found.dlfo_map_start;
    module->end = (uintptr_t)found.dlfo_map_end;
    strcpy(module->path, path);
    return 0;
}

void sti_crash_list_modules(struct sti_crash_modules *modules)
{
    find_program();
    memset(modules, 0, sizeof *modules);
    sti_modules_visit(list_known, modules);
}

/* --- The callstack. */

static bool is_code(uintptr_t address)
{
    struct dl_find_object found;
    return _dl_find_object((void *)address, &found) == 0;
}

/* Of a call that has led to where no code is, the caller is found by what the call has left. */
static size_t crash_walk(struct sti_registers at, void **frames)
{
    struct sti_registers caller;
    if (is_code(at.ip) || !sti_walk_called(&at, &caller) || !is_code(caller.ip))
        return sti_callstack_of(at, 0, frames, WALKED);
    frames[0] = (void *)at.ip;
    caller.ip--; /* as of the call itself */
    size_t length = sti_callstack_of(caller, 0, frames + 1, WALKED - 1);
    frames[1] = (void *)(caller.ip + 1);
    return 1 + length;
}

/* What lies further out than the task is of no use to anybody, nor what has called the task. */
static size_t crash_length_in_task(void *const *frames, size_t length)
{
    size_t end = length;
    while (end > 0 && !sti_boundary_has(frames[end - 1]))
        end--;
    size_t inner = end > 0 ? end - 1 : length;
    while (inner > 1 && sti_caller_is_surely_ours((const char *)frames[inner - 1] - 1))
        inner--;
    return inner > 0 ? inner : length;
}

static void write_frames(struct sti_crash_record *record, struct sti_registers at)
{
    void *frames[WALKED];
    size_t length = crash_length_in_task(frames, crash_walk(at, frames));
    if (length > STI_CRASH_DEPTH)
        length = STI_CRASH_DEPTH;
    for (size_t i = 0; i < length; i++)
        record->frames[i] = (uintptr_t)frames[i];
    record->length = (uint32_t)length;
    for (size_t i = 0; i < length; i++)
        list_module(record, (uintptr_t)frames[i]);
}

/* --- The handler. */

static bool says_address(int number, const siginfo_t *info)
{
    return info->si_code > 0 && (number == SIGSEGV || number == SIGBUS || number == SIGILL || number == SIGFPE);
}

static void crash_publish(struct sti_crash_record *record)
{
    /* release: a process that reads it sees all the rest. */
    atomic_store_explicit((_Atomic uint32_t *)&record->taken, 1, memory_order_release);
}

static void write_usage(struct sti_crash_record *record)
{
    const struct sti_scope *scope = watched.thread != NULL ? watched.thread->scope : NULL;
    while (scope != NULL && scope->outer != NULL)
        scope = scope->outer;
    if (scope == NULL)
        return;
    record->allocated = watched.thread->used - scope->begin;
    record->peak = scope->peak;
}

static void take_down(int number, const siginfo_t *info, const ucontext_t *context)
{
    struct sti_crash_record *record = watched.record;
    const struct sti_registers at = sti_registers_of(context);
    record->signal = number;
    record->code = info->si_code;
    record->address = says_address(number, info) ? (uintptr_t)info->si_addr : 0;
    record->instruction = at.ip;
    record->frames[0] = record->instruction;
    record->length = 1;
    write_frames(record, at);
    write_usage(record);
    crash_publish(record);
}

/* Another thread's fault is no matter any more: the process is about to end. */
static _Noreturn void wait_for_end(void)
{
    for (;;)
        pause();
}

/* False: another thread has come first. */
static bool crash_claim(int number)
{
    int none = 0;
    int self = (int)syscall(SYS_gettid);
    if (!atomic_compare_exchange_strong_explicit(&taken_by, &none, self, memory_order_relaxed, memory_order_relaxed))
        return none == self;
    atomic_store_explicit(&first_signal, number, memory_order_relaxed);
    return true;
}

/* A child of the child's own has the record in common with it, and is nobody's business; the template has none. */
static void on_crash(int number, siginfo_t *info, void *context)
{
    if (watched.record == NULL || getpid() != watched.process) {
        crash_end(number);
        return;
    }
    if (!crash_claim(number))
        wait_for_end();
    int attempt = atomic_fetch_add_explicit(&attempts, 1, memory_order_relaxed);
    if (attempt == 0)
        take_down(number, info, context);
    else if (attempt == 1)
        crash_publish(watched.record);
    crash_end(atomic_load_explicit(&first_signal, memory_order_relaxed));
}

/* --- The watch. */

static void have_stack(void)
{
    size_t size = STACK_SIZE + ((getauxval(AT_MINSIGSTKSZ) + sti_page_size() - 1) & ~(sti_page_size() - 1));
    char *mapped =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED)
        return;
    const stack_t stack = { .ss_sp = mapped + sti_page_size(), .ss_size = size - sti_page_size() };
    mprotect(mapped, sti_page_size(), PROT_NONE);
    sigaltstack(&stack, NULL);
}

/* A fault of the handler's own comes through, and no signal that somebody has sent. */
static void crash_handler_install(int number, sigset_t *all)
{
    struct sigaction action = { .sa_sigaction = on_crash, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER };
    sigfillset(&action.sa_mask);
    for (size_t i = 0; i < FAULTS; i++)
        sigdelset(&action.sa_mask, faults[i]);
    sigaction(number, &action, NULL);
    sigaddset(all, number);
}

static void crash_prepare(void)
{
    sigset_t all;
    find_program();
    have_stack();
    sigemptyset(&all);
    for (size_t i = 0; i < FAULTS; i++)
        crash_handler_install(faults[i], &all);
    crash_handler_install(STI_CRASH_ASK, &all);
    pthread_sigmask(SIG_UNBLOCK, &all, NULL);
    watched.is_prepared = true;
}

void sti_crash_watch(struct sti_crash_record *record)
{
    if (!watched.is_prepared)
        crash_prepare();
    watched.record = record;
    watched.process = getpid();
    watched.thread = record != NULL ? sti_thread_own() : NULL;
}
