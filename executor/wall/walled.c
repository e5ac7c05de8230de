/* SPDX-License-Identifier: MIT
 *
 * Walled tasks: submitted by any thread, driven by the workers of the wall's own pool; see walled.h.
 *
 * A driver runs a walled task in a scope of its own, in which it waits for the child: so a token, a deadline and a
 * shutdown reach it as they reach any task that waits. What the child is charged is the task's: its account is drawn
 * from here, where the ledger is, and its usage is added when the scope has ended.
 *
 * A task keeps its pool as a worker would, from its submission until all of its callbacks have returned: so a shutdown
 * of the pool waits for it. */
#include "walled.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "alloc/interrupt/hook.h"
#include "alloc/interrupt/interrupt.h"
#include "alloc/interrupt/warning.h"
#include "alloc/meter/account.h"
#include "alloc/meter/allocate.h"
#include "alloc/observe/report.h"
#include "alloc/platform/clock.h"
#include "alloc/platform/libc.h"
#include "alloc/platform/process.h"
#include "alloc/platform/thread.h"
#include "alloc/scope/context.h"
#include "alloc/scope/scope.h"
#include "crash_report.h"
#include "executor/base/state.h"
#include "executor/pool/shutdown.h"
#include "executor/task/completions.h"
#include "executor/task/continuation.h"
#include "executor/task/submit.h"
#include "executor/worker/worker.h"
#include "group.h"
#include "wall.h"

/* Children that may die, or never come, before one begins the task. */
#define TRIES 8

#define CPU_LOOK_NS 20000
#define HEARD_AT_ONCE 64
#define SOON_NS UINT64_C(1000000)

/* Drawn before the child has to ask. */
#define FIRST_GRANT ((uint64_t)256 << 10)
#define LARGEST_GRANT ((uint64_t)1 << 47)
#define DEFAULT_GRACE ((uint64_t)1 << 20)

/* No number of bytes or nanoseconds that a task may really have used is above this, and what the program adds up of
 * them does not overflow soon. */
#define POSSIBLE ((uint64_t)1 << 56)

/* What a child's tasks may leave allocated before it is replaced: so what they leak is bounded. */
#define COMMITTED_MAX ((uint64_t)64 << 20)

struct sti_walled {
    sti_task task; /* first: it is one block, that the task frees */
    stint_wall *wall;
    _Atomic(stint_pool *) home; /* that it was submitted to; NULL: let go */
    struct sti_continuation follower;
    stint_wall_fn *fn;
    char entry[STI_WALL_ENTRY_SIZE];
    const void *input;
    size_t input_size;
    int fds[STINT_WALL_FDS_MAX];
    unsigned fd_count;

    /* While it runs, by its driver. */
    struct sti_wall_driver *driver;
    struct sti_scope *scope;
    uint64_t drawn[2]; /* of the account, as STI_WALL_ALLOCATED and so on number it */
    uint64_t clock_begin;
    bool has_clock;     /* and that is set */
    unsigned warned;    /* of its limits of bytes: a bit each */
    uint64_t cpu_mark;  /* where its warning of processor time is due; UINT64_MAX: nowhere */
    uint64_t passed_on; /* the version of its limits that the child has been told of */
    bool answered;
    struct sti_wall_done done;
    void *reply;
    void *payload;
    size_t payload_size;
    stint_report *report;
    struct sti_crash_record *crash; /* of a child that has died, where a report is wanted */
};

static struct sti_walled *walled_of(sti_task *task)
{
    return (struct sti_walled *)task;
}

/* The pool's hook runs the task, so nothing calls this function. */
static int walled_fn(void *arg, void **value)
{
    (void)arg;
    (void)value;
    return EINVAL;
}

/* --- What a driver and a child say to each other. --- */

static void copy_text(char *copy, size_t size, const char *text)
{
    snprintf(copy, size, "%s", text != NULL ? text : "");
}

static stint_report_level report_level(const struct sti_walled *walled)
{
    const stint_pool *home = atomic_load_explicit(&walled->home, memory_order_relaxed);
    stint_report_level level = walled->task.options.report;
    return level != STINT_REPORT_NONE ? level : home->options.report;
}

static void write_task(const struct sti_walled *walled, struct sti_wall_message *message)
{
    const stint_options *options = &walled->task.options;
    const stint_budget budget = sti_task_budget(&walled->task);
    memset(message, 0, sizeof *message);
    message->kind = STI_WALL_TASK;
    struct sti_wall_task *task = &message->task;
    task->fn = walled->fn;
    copy_text(task->entry, sizeof task->entry, walled->entry);
    copy_text(task->name, sizeof task->name, options->name);
    task->input_size = walled->input_size;
    task->allocation = budget.allocation;
    task->memory = budget.memory;
    task->grace = options->grace;
    task->on_interrupt = options->on_interrupt;
    task->report = report_level(walled);
    task->sample_rate = options->sample_rate;
    task->measures_cpu = options->budget.cpu_ns != 0;
    task->wipe = options->wipe;
    task->discard = options->discard;
    task->warn = options->warn;
    task->has_account = options->account != NULL;
    task->fd_count = walled->fd_count;
    memcpy(task->granted, walled->drawn, sizeof task->granted);
}

static char *input_of(const struct sti_wall_child *child)
{
    return (char *)child->area + child->layout.input;
}

static char *reply_of(const struct sti_wall_child *child)
{
    return (char *)child->area + child->layout.reply;
}

/* What the child draws from the account. A liar gets no more than the account has, nor so much that its sum would begin
 * anew. */
static bool walled_grant(struct sti_walled *walled, unsigned number, uint64_t amount)
{
    if (amount > LARGEST_GRANT || walled->drawn[number] > POSSIBLE - amount ||
        !sti_account_take(walled->task.options.account, number, amount))
        return false;
    walled->drawn[number] += amount;
    return true;
}

static int answer_draw(struct sti_walled *walled, const struct sti_wall_message *asked)
{
    struct sti_wall_message answer = { .kind = STI_WALL_GRANT, .draw = { .number = asked->draw.number } };
    if (walled->task.options.account == NULL || asked->draw.number > STI_WALL_MEMORY || asked->draw.amount == 0)
        return EPROTO;
    if (walled_grant(walled, asked->draw.number, asked->draw.amount))
        answer.draw.amount = asked->draw.amount;
    int error = sti_wall_send(walled->driver->child->socket, &answer, NULL, 0, false);
    return error == 0 || error == EPIPE ? 0 : EPROTO; /* it may have died meanwhile */
}

/* A limit that the task has, or may have had when the child found it passed. */
static bool may_pass(const struct sti_walled *walled, size_t limit)
{
    return limit != 0 || sti_limits_version(&walled->task.limits) != 0;
}

/* What a child may end with by itself; all else is the program's to find. */
static bool is_childs_reason(const struct sti_walled *walled, const struct sti_wall_done *done)
{
    switch (done->reason) {
    case STINT_REASON_NONE:
        return done->error == 0;
    case STINT_REASON_FAILED:
    case STINT_REASON_EXCEPTION:
        return done->error != 0;
    case STINT_REASON_ALLOCATION_LIMIT:
        return may_pass(walled, walled->task.options.budget.allocation);
    case STINT_REASON_MEMORY_LIMIT:
        return may_pass(walled, walled->task.options.budget.memory);
    case STINT_REASON_ACCOUNT:
        return walled->task.options.account != NULL;
    case STINT_REASON_GLOBAL_MEMORY_LIMIT:
    case STINT_REASON_STACK:
    case STINT_REASON_TRACKER:
        return true;
    default:
        return false;
    }
}

/* The reply and the payload lie in the same place, so there is one of them. */
static bool fits_area(const struct sti_walled *walled, const struct sti_wall_done *done)
{
    const struct sti_wall_layout *layout = &walled->driver->child->layout;
    size_t room = layout->size - layout->reply;
    size_t limit = walled->wall->config.reply_limit < room ? walled->wall->config.reply_limit : room;
    size_t other = done->reason == STINT_REASON_NONE ? done->payload_size : done->reply_size;
    return other == 0 && done->reply_size <= limit && done->payload_size <= limit &&
           done->report_size <= layout->report_room;
}

static bool is_possible(const struct sti_walled *walled, const stint_usage *usage)
{
    if (usage->allocated > POSSIBLE || usage->peak > POSSIBLE || usage->committed > POSSIBLE ||
        usage->cpu_ns > POSSIBLE || usage->samples > POSSIBLE || usage->deferred > POSSIBLE || usage->kept > POSSIBLE)
        return false;
    size_t grace = walled->task.options.grace;
    return walled->task.options.account == NULL || grace > POSSIBLE ||
           usage->allocated <= walled->drawn[STI_WALL_ALLOCATED] + grace + DEFAULT_GRACE;
}

/* The message is a copy of the program's own. */
static bool is_true(const struct sti_walled *walled, struct sti_wall_done *done)
{
    done->message[sizeof done->message - 1] = '\0';
    return is_childs_reason(walled, done) && fits_area(walled, done) && is_possible(walled, &done->usage);
}

static bool copy_out(const char *from, size_t size, void **copy)
{
    *copy = sti_process_lasting_malloc(size != 0 ? size : 1);
    if (*copy != NULL)
        memcpy(*copy, from, size);
    return *copy != NULL;
}

/* One that cannot be true, or that there is no memory for, is left out. */
static void take_report(struct sti_walled *walled, const void *bytes, size_t size)
{
    if (sti_report_adopt(bytes, size, &walled->report) == 0)
        sti_crash_name_modules(walled->report, walled->fn, walled->wall->known);
}

/* 0; EPROTO; ENOMEM: the program has no room for the reply. */
static int take_answer(struct sti_walled *walled, struct sti_wall_message *message)
{
    const struct sti_wall_child *child = walled->driver->child;
    struct sti_wall_done *done = &walled->done;
    if (!is_true(walled, &message->done))
        return EPROTO;
    *done = message->done;
    if (done->reason == STINT_REASON_NONE) {
        if (!copy_out(reply_of(child), done->reply_size, &walled->reply))
            return ENOMEM;
    } else if (done->payload_size != 0 && copy_out(reply_of(child), done->payload_size, &walled->payload)) {
        walled->payload_size = done->payload_size;
    }
    if (done->report_size != 0)
        take_report(walled, (const char *)child->area + child->layout.report, done->report_size);
    walled->answered = true;
    return 0;
}

/* --- Waiting for the child. --- */

enum end {
    ANSWERED,
    DIED,        /* the child, having begun the task */
    UNBEGUN,     /* the child is gone, and has not begun it */
    INTERRUPTED, /* the task */
    LIED,        /* the child */
    NO_ROOM,     /* for the reply, in the program */
    BUSY,        /* the template: try again */
    ALONE,       /* the program: there is no template, and there will be none */
    REFUSED,     /* by the system, with errno: there can be no child now */
};

static void walled_warn(const struct sti_walled *walled, stint_reason reason, uint64_t used, uint64_t limit)
{
    const stint_warning warning = { .reason = reason, .name = walled->task.options.name, .used = used, .limit = limit };
    sti_warning_post(&warning);
}

static bool is_cpu_limit(uint64_t limit)
{
    return limit != 0 && limit != UINT64_MAX;
}

static bool has_cpu_limit(const struct sti_walled *walled)
{
    return is_cpu_limit(sti_task_budget(&walled->task).cpu_ns);
}

static void begin_clock(struct sti_walled *walled, uint64_t now)
{
    walled->clock_begin = now;
    walled->has_clock = true;
}

/* What the child's process has used for the task; 0: not known yet. */
static uint64_t cpu_used(const struct sti_walled *walled)
{
    uint64_t now = sti_wall_child_clock(walled->driver->child);
    return now > walled->clock_begin ? now - walled->clock_begin : 0;
}

/* Until the processor time may be used up: it passes no faster than the clock times the child's threads. UINT64_MAX:
 * there is no limit. 0: it is used up. */
static uint64_t until_cpu_look(struct sti_walled *walled)
{
    uint64_t limit = sti_task_budget(&walled->task).cpu_ns;
    if (!is_cpu_limit(limit))
        return UINT64_MAX;
    walled->done.usage.cpu_ns = cpu_used(walled);
    atomic_store_explicit(&walled->task.limits.cpu_used, walled->done.usage.cpu_ns, memory_order_relaxed);
    if (walled->done.usage.cpu_ns >= limit)
        return 0;
    if (walled->done.usage.cpu_ns > walled->cpu_mark) {
        walled->cpu_mark = UINT64_MAX;
        walled_warn(walled, STINT_REASON_CPU, walled->done.usage.cpu_ns, limit);
    }
    limit = walled->cpu_mark < limit ? walled->cpu_mark : limit;
    return (limit - walled->done.usage.cpu_ns) / (walled->wall->config.processes + UINT64_C(1)) + CPU_LOOK_NS;
}

struct signs {
    bool has_spoken; /* the child */
    bool is_woken;   /* the driver's wake_fd: a token, a deadline, a shutdown */
    bool is_dead;    /* the child's process */
};

/* Until there is something to look at, at most so long (UINT64_MAX: as long as it takes). */
static struct signs sleep_on(const struct sti_walled *walled, uint64_t ns)
{
    const struct sti_wall_child *child = walled->driver->child;
    struct pollfd sources[3] = { { .fd = child->socket, .events = POLLIN },
                                 { .fd = walled->driver->wake_fd, .events = POLLIN },
                                 { .fd = sti_wall_child_end_fd(child), .events = POLLIN } };
    struct timespec timeout = { .tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000) };
    uint64_t woken;
    long ready = syscall(SYS_ppoll, sources, 3, ns != UINT64_MAX ? &timeout : NULL, NULL, 0);
    if (ready < 0 && errno != EINTR) /* for want of memory: so all that can be asked is asked */
        return (struct signs){ .has_spoken = true, .is_woken = true };
    if (ready <= 0)
        return (struct signs){ .has_spoken = false };
    if (sources[1].revents != 0)
        syscall(SYS_read, walled->driver->wake_fd, &woken, sizeof woken);
    return (struct signs){ .has_spoken = sources[0].revents != 0,
                           .is_woken = sources[1].revents != 0,
                           .is_dead = sources[2].revents != 0 };
}

/* Where the template has died before the child has said hello, the kernel is about to kill the child, but may not have
 * done it. So the task is withdrawn: first, so that what the child has not read then it never begins. And if it has
 * begun it is killed here. */
static enum end end_of_dead(const struct sti_walled *walled)
{
    struct sti_wall_child *child = walled->driver->child;
    if (sti_wall_child_withdraw(child) && !sti_wall_child_has_begun(child))
        return UNBEGUN;
    sti_wall_child_kill(child);
    return DIED;
}

/* A process that lives has no reason to close its socket. */
static enum end end_of_silent(const struct sti_walled *walled)
{
    return sti_wall_child_has_ended(walled->driver->child) ? end_of_dead(walled) : LIED;
}

/* Take a child's warning, of which there is one for each limit and each change of the limits. */
static bool take_warning(struct sti_walled *walled, const struct sti_wall_message *message)
{
    const stint_budget budget = sti_task_budget(&walled->task);
    bool is_memory = message->warning.reason == STINT_REASON_MEMORY_LIMIT;
    unsigned bit = is_memory ? 2 : 1;
    if ((!is_memory && message->warning.reason != STINT_REASON_ALLOCATION_LIMIT) || walled->task.options.warn == 0 ||
        message->warning.used > POSSIBLE)
        return false;
    if ((walled->warned & bit) == 0)
        walled_warn(walled, message->warning.reason, message->warning.used,
                    is_memory ? budget.memory : budget.allocation);
    walled->warned |= bit;
    return true;
}

/* 0: this is its end. EINTR: there may be more to hear. EAGAIN: there is not. */
static int listen_to_child(struct sti_walled *walled, enum end *end)
{
    struct sti_wall_child *child = walled->driver->child;
    struct sti_wall_message message;
    int error = sti_wall_child_hear(child, &message);
    if (error == EPIPE) {
        *end = end_of_silent(walled);
    } else if (error == 0 && message.kind == STI_WALL_DONE) {
        error = take_answer(walled, &message);
        *end = error == 0 ? ANSWERED : error == ENOMEM ? NO_ROOM : LIED;
    } else if (error == 0 && message.kind == STI_WALL_DRAW) {
        return answer_draw(walled, &message) == 0 ? EINTR : (*end = LIED, 0);
    } else if (error == 0 && message.kind == STI_WALL_WARNING) {
        return take_warning(walled, &message) ? EINTR : (*end = LIED, 0);
    } else if (error == EAGAIN) {
        return EAGAIN;
    } else {
        *end = LIED;
    }
    return 0;
}

/* All that it has said so far: it may have answered and died, and then the answer counts. But one that talks without
 * end is not listened to without end: as the one above. */
static int listen_to_all(struct sti_walled *walled, enum end *end)
{
    int error = EINTR;
    for (int heard = 0; error == EINTR && heard < HEARD_AT_ONCE; heard++)
        error = listen_to_child(walled, end);
    return error;
}

static bool is_interrupted(struct sti_walled *walled)
{
    if (sti_wall_is_ending(walled->wall))
        sti_interrupt_trip(walled->scope, STINT_REASON_SHUTDOWN);
    return sti_waking_is_due();
}

static void walled_begin_warnings(struct sti_walled *walled)
{
    unsigned percent = walled->task.options.warn;
    walled->warned = 0;
    walled->cpu_mark = percent != 0 ? sti_warning_part(sti_task_budget(&walled->task).cpu_ns, percent) : UINT64_MAX;
}

static void copy_usage(_Atomic uint64_t *ours, const _Atomic uint64_t *childs)
{
    uint64_t used = atomic_load_explicit(childs, memory_order_relaxed);
    atomic_store_explicit(ours, used < POSSIBLE ? used : POSSIBLE, memory_order_relaxed);
}

/* New limits of bytes to the child, which takes them at its next sample point; and its usage to a thread that asks. */
static void pass_on(struct sti_walled *walled)
{
    struct sti_limits *limits = &walled->task.limits;
    struct sti_limits *childs = &walled->driver->child->area->limits;
    uint64_t version = sti_limits_version(limits);
    if (version != walled->passed_on) {
        const stint_budget budget = sti_limits_read(limits);
        walled_begin_warnings(walled);
        sti_limits_store(childs, &(const stint_budget){ .allocation = budget.allocation, .memory = budget.memory });
        if (is_cpu_limit(budget.cpu_ns) && !walled->has_clock)
            begin_clock(walled, sti_wall_child_clock(walled->driver->child));
        walled->passed_on = version;
    }
    copy_usage(&limits->allocated, &childs->allocated);
    copy_usage(&limits->peak, &childs->peak);
}

/* An answer counts, whatever has come meanwhile: the scope looks once more at its end. A waiter is woken once for an
 * interrupt, so if the interrupt is not due yet the waiter looks again soon. Where the task takes long, others get new
 * spare children meanwhile. */
static enum end await_child(struct sti_walled *walled, const struct sti_waking *waking)
{
    enum end end;
    bool is_refilled = walled->wall->spare_wanted == 0;
    for (;;) {
        pass_on(walled);
        uint64_t ns = until_cpu_look(walled);
        if (ns == 0) {
            sti_interrupt_trip(walled->scope, STINT_REASON_CPU);
            return INTERRUPTED;
        }
        bool has_come = sti_waking_has_come(waking);
        struct signs signs = sleep_on(walled, (has_come || !is_refilled) && ns > SOON_NS ? SOON_NS : ns);
        int error = signs.has_spoken || signs.is_dead ? listen_to_all(walled, &end) : EAGAIN;
        if (error == 0)
            return end;
        if (signs.is_dead && error == EAGAIN)
            return end_of_dead(walled);
        if ((signs.is_woken || has_come) && is_interrupted(walled))
            return INTERRUPTED;
        if (is_refilled || signs.has_spoken)
            continue;
        sti_wall_refill(walled->wall);
        is_refilled = true;
    }
}

static void walled_wake(void *driver)
{
    const uint64_t one = 1;
    syscall(SYS_write, ((const struct sti_wall_driver *)driver)->wake_fd, &one, sizeof one);
}

static void wake_for_limits(void *walled)
{
    walled_wake(((const struct sti_walled *)walled)->driver);
}

/* --- Driving: in the task's scope, on the driver. --- */

static int walled_offer(struct sti_walled *walled)
{
    struct sti_wall_child *child = walled->driver->child;
    struct sti_wall_message message;
    if (walled->input_size != 0)
        memcpy(input_of(child), walled->input, walled->input_size);
    sti_limits_init(&child->area->limits);
    walled->passed_on = 0;
    walled_begin_warnings(walled);
    walled->has_clock = false;
    if (has_cpu_limit(walled))
        begin_clock(walled, child->tasks != 0 ? sti_wall_child_clock(child) : 0);
    write_task(walled, &message);
    return sti_wall_child_offer(child, &message, walled->fds);
}

/* The template does not read: it has been stopped, or there is none at the moment. */
static enum end await_template(struct sti_walled *walled)
{
    struct timespec soon = { .tv_nsec = SOON_NS };
    struct pollfd woken = { .fd = walled->driver->wake_fd, .events = POLLIN };
    syscall(SYS_ppoll, &woken, 1, &soon, NULL, 0);
    return is_interrupted(walled) ? INTERRUPTED : BUSY;
}

/* By the system: such as a descriptor that is not open. */
static enum end refuse_offer(struct sti_walled *walled, int error)
{
    sti_wall_drop_child(walled->driver);
    errno = error;
    return REFUSED;
}

static enum end try_once(struct sti_walled *walled, const struct sti_waking *waking)
{
    if (sti_wall_is_ending(walled->wall) && is_interrupted(walled))
        return INTERRUPTED;
    if (sti_wall_take_child(walled->wall, walled->driver) == NULL)
        return errno == EAGAIN || errno == ETOOMANYREFS ? await_template(walled) : errno == EPIPE ? ALONE : REFUSED;
    int error = walled_offer(walled);
    if (error == EPIPE)
        return UNBEGUN;
    if (error == EAGAIN) /* it has not read what it had asked for */
        return LIED;
    return error == 0 ? await_child(walled, waking) : refuse_offer(walled, error);
}

/* What no task that ends by itself has: how its process ended. */
static stint_reason read_death(struct sti_walled *walled, const struct sti_crash_record *crash, stint_wall_death *death)
{
    static const int crashes[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS };
    struct sti_wall_ending ending;
    death->known = sti_wall_child_await_ending(walled->driver->child, &ending);
    if (!death->known)
        return STINT_REASON_KILLED;
    if (ending.code == CLD_EXITED) {
        death->status = ending.status;
        return STINT_REASON_EXIT;
    }
    death->signal = ending.status;
    if (crash->signal == death->signal) {
        death->code = crash->code;
        death->address = crash->address;
        death->instruction = crash->instruction;
    }
    for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++) {
        if (death->signal == crashes[i])
            return STINT_REASON_CRASH;
    }
    return STINT_REASON_KILLED;
}

static void say_how(struct sti_walled *walled, const stint_wall_death *death, stint_reason reason)
{
    char *text = walled->done.message;
    size_t size = sizeof walled->done.message;
    if (reason == STINT_REASON_EXIT)
        snprintf(text, size, "exit status %d", death->status);
    else if (!death->known)
        snprintf(text, size, "its process is gone, and no template says how");
    else if (death->instruction != 0 && (death->signal == SIGSEGV || death->signal == SIGBUS))
        snprintf(text, size, "SIG%s at address %#llx", sigabbrev_np(death->signal), (unsigned long long)death->address);
    else if (walled->driver->child->group != NULL && sti_wall_group_ran_out(walled->driver->child->group))
        snprintf(text, size, "killed by the kernel, for want of memory in its control group");
    else
        snprintf(text, size, "SIG%s", sigabbrev_np(death->signal) != NULL ? sigabbrev_np(death->signal) : "?");
}

static void give_death(struct sti_walled *walled, const stint_wall_death *death)
{
    sti_process_free(walled->payload);
    walled->payload_size = copy_out((const char *)death, sizeof *death, &walled->payload) ? sizeof *death : 0;
}

/* The report is made when the outcome is known. */
static void keep_crash(struct sti_walled *walled, const struct sti_crash_record *crash)
{
    walled->done.usage.allocated = crash->allocated < POSSIBLE ? crash->allocated : POSSIBLE;
    walled->done.usage.peak = crash->peak < POSSIBLE ? crash->peak : POSSIBLE;
    if (report_level(walled) != STINT_REPORT_NONE && (walled->crash = sti_process_malloc(sizeof *crash)) != NULL)
        *walled->crash = *crash;
}

static void walled_note_death(struct sti_walled *walled)
{
    stint_wall_death death = { 0 };
    struct sti_crash_record crash = walled->driver->child->area->crash; /* a copy, then a check */
    if (!sti_crash_check(&crash))
        memset(&crash, 0, sizeof crash);
    stint_reason reason = read_death(walled, &crash, &death);
    say_how(walled, &death, reason);
    keep_crash(walled, &crash);
    give_death(walled, &death);
    sti_wall_count(&walled->wall->crashed);
    sti_interrupt_trip(walled->scope, reason);
}

/* Where it was when its time was up, for the report: it is given a moment to say that. */
static void ask_where(struct sti_walled *walled)
{
    if (report_level(walled) == STINT_REPORT_NONE || !sti_wall_child_ask_where(walled->driver->child))
        return;
    struct sti_crash_record crash = walled->driver->child->area->crash; /* a copy, then a check */
    if (sti_crash_check(&crash))
        keep_crash(walled, &crash);
}

static void kill_child(const struct sti_walled *walled)
{
    sti_wall_child_kill(walled->driver->child);
    sti_wall_count(&walled->wall->killed);
}

static bool may_keep_child(const struct sti_walled *walled)
{
    const struct sti_wall_child *child = walled->driver->child;
    return walled->wall->config.reuses && walled->done.reason == STINT_REASON_NONE &&
           child->tasks < walled->wall->tasks_per_child && child->committed < COMMITTED_MAX;
}

static void wipe_area(const struct sti_walled *walled)
{
    const struct sti_wall_child *child = walled->driver->child;
    explicit_bzero(input_of(child), walled->input_size);
    explicit_bzero(reply_of(child), walled->done.reply_size + walled->done.payload_size);
}

static int take_answered(struct sti_walled *walled)
{
    const struct sti_wall_done *done = &walled->done;
    walled->driver->child->committed += done->usage.committed;
    if (walled->task.options.wipe)
        wipe_area(walled);
    if (!may_keep_child(walled)) {
        walled->driver->used = walled->driver->child;
        walled->driver->child = NULL;
    }
    if (done->reason != STINT_REASON_NONE && done->reason != STINT_REASON_FAILED)
        sti_interrupt_trip(walled->scope, done->reason);
    return done->error;
}

static int break_off(struct sti_walled *walled, stint_reason reason, int error, const char *text)
{
    if (walled->driver->child != NULL)
        kill_child(walled);
    sti_wall_drop_child(walled->driver);
    copy_text(walled->done.message, sizeof walled->done.message, text);
    if (reason != STINT_REASON_NONE) {
        give_death(walled, &(const stint_wall_death){ .known = false });
        sti_interrupt_trip(walled->scope, reason);
    }
    return error;
}

/* No child has begun it, so often. */
static int walled_give_up(struct sti_walled *walled)
{
    char text[STINT_MESSAGE_SIZE] = "no child of the wall lived to begin it";
    struct sti_wall_ending ending;
    if (sti_wall_child_await_ending(walled->driver->child, &ending) && ending.code == STI_WALL_NOT_FORKED)
        snprintf(text, sizeof text, "the template can start no child: %s", strerrordesc_np(ending.status));
    return break_off(walled, STINT_REASON_KILLED, ECHILD, text);
}

/* False: try again. Otherwise *error is what the task's function returns. */
static bool walled_settle(struct sti_walled *walled, enum end end, unsigned *tried, int *error)
{
    switch (end) {
    case ANSWERED:
        *error = take_answered(walled);
        return true;
    case DIED:
        walled_note_death(walled);
        sti_wall_drop_child(walled->driver);
        *error = ECHILD;
        return true;
    case INTERRUPTED:
        if (walled->driver->child != NULL)
            ask_where(walled);
        *error = break_off(walled, STINT_REASON_NONE, ECANCELED, NULL);
        return true;
    case LIED:
        *error = break_off(walled, STINT_REASON_BROKEN, EPROTO, "its process has said what cannot be true");
        return true;
    case NO_ROOM:
        *error = break_off(walled, STINT_REASON_NONE, ENOMEM, NULL);
        return true;
    case ALONE:
        *error = break_off(walled, STINT_REASON_KILLED, ECHILD, "the wall has no template any more");
        return true;
    case REFUSED:
        *error = errno;
        return true;
    case UNBEGUN:
        sti_wall_count(&walled->wall->retried);
        if (++*tried == TRIES) {
            *error = walled_give_up(walled);
            return true;
        }
        sti_wall_drop_child(walled->driver);
        return false;
    case BUSY:
        break;
    }
    return false;
}

/* The task's function, to its scope. */
static int walled_drive(void *arg, void **value)
{
    struct sti_walled *walled = arg;
    struct sti_waking waking;
    unsigned tried = 0;
    int error = 0;
    (void)value;
    walled->scope = sti_thread_metered->scope;
    sti_waking_begin(&waking, walled_wake, walled->driver);
    while (!walled_settle(walled, try_once(walled, &waking), &tried, &error))
        ;
    sti_waking_end(&waking);
    return error;
}

/* --- The account: entered, drawn from and left here. --- */

static bool enter_account(struct sti_walled *walled)
{
    stint_account *account = walled->task.options.account;
    memset(walled->drawn, 0, sizeof walled->drawn);
    if (account == NULL)
        return true;
    if (!walled->task.entered && !sti_account_enter(account, NULL))
        return false;
    for (unsigned number = STI_WALL_ALLOCATED; number <= STI_WALL_MEMORY; number++) {
        if (sti_account_take(account, number, FIRST_GRANT))
            walled->drawn[number] = FIRST_GRANT;
    }
    return true;
}

static void walled_leave_account(struct sti_walled *walled, const stint_outcome *outcome)
{
    stint_account *account = walled->task.options.account;
    if (account == NULL)
        return;
    uint64_t used = walled->answered ? walled->done.usage.allocated : walled->drawn[STI_WALL_ALLOCATED];
    sti_account_settle(account, NULL, walled->drawn[STI_WALL_ALLOCATED], used);
    sti_account_reserve(account, NULL, walled->drawn[STI_WALL_MEMORY], 0);
    sti_account_count(account, outcome->reason, outcome->usage.allocated);
    sti_account_leave(account, NULL);
}

/* --- Running it, as sti_task_run runs another. --- */

static void finish_outcome(struct sti_walled *walled, stint_outcome *outcome)
{
    const struct sti_wall_done *done = &walled->done;
    const stint_usage *used = &done->usage;
    outcome->usage.cpu_ns = walled->task.options.budget.cpu_ns != 0 ? used->cpu_ns : 0;
    outcome->usage.allocated = used->allocated;
    outcome->usage.peak = used->peak;
    outcome->usage.samples = used->samples;
    outcome->usage.deferred = used->deferred;
    outcome->usage.kept = used->kept;
    if (outcome->status == STINT_OK) {
        outcome->value = walled->reply;
        outcome->payload_size = done->reply_size;
        outcome->usage.committed = done->reply_size;
        return;
    }
    sti_process_free(walled->reply);
    if (outcome->status == STINT_ERROR) {
        outcome->payload = walled->payload;
        outcome->payload_size = walled->payload_size;
        memcpy(outcome->message, done->message, sizeof outcome->message);
    } else {
        sti_process_free(walled->payload);
    }
}

/* The child's own, or what the program can tell of its end. */
static void finish_report(struct sti_walled *walled)
{
    sti_task *task = &walled->task;
    if (walled->report != NULL)
        sti_report_describe(walled->report, &task->options, &task->outcome);
    else if (task->outcome.status != STINT_OK && report_level(walled) != STINT_REPORT_NONE)
        walled->report =
            sti_crash_report(walled->crash, &task->outcome, &task->options, walled->fn, walled->wall->known);
    sti_process_free(walled->crash);
    if (task->outcome.status == STINT_OK)
        stint_report_release(walled->report);
    else
        task->report = walled->report;
}

static void walled_fail_unstarted(sti_task *task, int error)
{
    task->outcome = sti_outcome_unstarted(STINT_REASON_FAILED, sti_clock_now() - task->submitted_ns);
    task->outcome.error = error;
    sti_task_count_labelled(task, STINT_REASON_FAILED);
}

static int walled_run_in_scope(struct sti_walled *walled)
{
    const stint_options *given = &walled->task.options;
    struct sti_tally unread; /* what is counted there does not know of the child */
    const stint_options options = {
        .size = sizeof options,
        .budget = { .wall_ns = given->budget.wall_ns, .run_ns = given->budget.run_ns },
        .on_interrupt = STINT_FAIL,
        .name = given->name,
        .context = given->context,
        .flags = given->flags & ~STI_OPTIONS_HOOKED,
        .warn = given->warn,
    };
    const stint_pool *home = atomic_load_explicit(&walled->home, memory_order_relaxed);
    const struct sti_scope_request request = {
        .fn = walled_drive,
        .arg = walled,
        .options = &options,
        .token = &walled->task.token,
        .stop = &home->stop,
        .tally = &unread,
        .limits = &walled->task.limits,
        .submitted_ns = walled->task.submitted_ns,
        .detached = true,
    };
    memset(&unread, 0, sizeof unread);
    return sti_scope_run(&request, &walled->task.outcome);
}

static void walled_count(struct sti_tally *tally, const stint_outcome *outcome)
{
    sti_histogram_add_own(&tally->waited, outcome->usage.queued_ns);
    sti_tally_count(tally, outcome->reason, outcome->usage.wall_ns, outcome->usage.allocated);
}

static void run_walled(struct sti_worker *worker, sti_task *task)
{
    struct sti_walled *walled = walled_of(task);
    task->counted = true;
    sti_wall_free_left(walled->wall);
    walled->driver = &walled->wall->drivers[worker->index];
    if (!enter_account(walled)) {
        walled_fail_unstarted(task, EBUSY);
        sti_counter_add_own(&worker->tally.outcomes[STINT_REASON_FAILED]);
        return;
    }
    sti_wall_count(&walled->wall->tasks);
    atomic_fetch_add_explicit(&walled->wall->running, 1, memory_order_release);
    int error = walled_run_in_scope(walled);
    atomic_fetch_sub_explicit(&walled->wall->running, 1, memory_order_relaxed);
    if (error != 0)
        walled_fail_unstarted(task, error);
    else
        finish_outcome(walled, &task->outcome);
    finish_report(walled);
    walled_count(&worker->tally, &task->outcome);
    walled_leave_account(walled, &task->outcome);
}

/* Its pool is let go. */
static void settle_walled(sti_task *task)
{
    struct sti_walled *walled = walled_of(task);
    stint_pool *home = atomic_exchange_explicit(&walled->home, NULL, memory_order_acq_rel);
    if (home != NULL && sti_shutdown_leave_to_free(home))
        sti_wall_leave_pool(walled->wall, home);
}

/* Starting a process and ending one take long: no waiter for the answer has to wait for either. */
static void tidy_walled(struct sti_worker *worker, sti_task *task)
{
    stint_wall *wall = walled_of(task)->wall;
    struct sti_wall_driver *driver = &wall->drivers[worker->index];
    if (driver->used != NULL)
        sched_yield(); /* to the waiter, if there is one processor for both */
    sti_wall_end_used(driver);
    sti_wall_refill(wall);
}

const struct sti_pool_hooks sti_walled_hooks = { .run = run_walled, .settle = settle_walled, .tidy = tidy_walled };

/* --- Submitting. Any thread. --- */

static void walled_follow(struct sti_continuation *follower)
{
    (void)follower; /* a continuation that does nothing, so that a drainer runs and then settles */
}

static int walled_make_task(stint_pool *pool, stint_pool *drivers, stint_wall *wall, const stint_wall_call *call,
                            const stint_options *options, sti_task **task)
{
    *task = sti_task_create_sized(sizeof(struct sti_walled), drivers, walled_fn, NULL, options);
    if (*task == NULL)
        return ENOMEM;
    struct sti_walled *walled = walled_of(*task);
    memset((char *)walled + sizeof walled->task, 0, sizeof *walled - sizeof walled->task);
    walled->wall = wall;
    walled->task.limits.changed = wake_for_limits;
    walled->fn = call->fn;
    copy_text(walled->entry, sizeof walled->entry, call->entry);
    walled->input = call->input;
    walled->input_size = call->input_size;
    walled->fd_count = (unsigned)call->fd_count;
    if (call->fd_count != 0)
        memcpy(walled->fds, call->fds, call->fd_count * sizeof *walled->fds);
    if ((*task)->options.completions != NULL && sti_completions_expect(*task) != 0) {
        (*task)->options.completions = NULL;
        sti_task_discard(*task);
        return ENOMEM;
    }
    (*task)->options.flags |= STI_OPTIONS_HOOKED;
    atomic_init(&walled->home, pool);
    walled->follower = (struct sti_continuation){ .task = *task, .run = walled_follow };
    sti_continuation_add(&walled->follower);
    return 0;
}

/* The pool stays until the task has settled, or was never submitted. */
static int walled_try(stint_pool *pool, stint_pool *drivers, stint_wall *wall, const stint_wall_call *call,
                      const stint_options *options, uint64_t begun, uint64_t deadline, bool uninterruptible,
                      const void *caller, stint_future **future)
{
    sti_task *task;
    bool settles = false;
    if (!sti_record_charge(sizeof(struct sti_walled), caller)) /* may not return: so nothing is kept yet */
        return ENOMEM;
    if (!sti_pool_is_open(pool) || !sti_shutdown_keep(pool))
        return ESHUTDOWN;
    int error = sti_pool_is_open(pool) ? walled_make_task(pool, drivers, wall, call, options, &task) : ESHUTDOWN;
    if (error == 0) {
        task->submitted_ns = begun;
        error = sti_submit_made(drivers, task, deadline, uninterruptible, future, &settles);
    }
    if (error != 0 && !settles && sti_shutdown_leave_to_free(pool))
        sti_wall_leave_pool(wall, pool);
    return error;
}

static int check_call(const stint_wall *wall, const stint_wall_call *call)
{
    if ((call->input == NULL && call->input_size > 0) || (call->fds == NULL && call->fd_count > 0) ||
        call->fd_count > STINT_WALL_FDS_MAX || (call->fn == NULL) == (call->entry == NULL))
        return EINVAL;
    if (wall->is_program != (call->entry != NULL))
        return EINVAL;
    if (call->entry != NULL && (call->entry[0] == '\0' || strlen(call->entry) >= STI_WALL_ENTRY_SIZE))
        return EINVAL;
    if (call->fn != NULL && !sti_wall_knows_function(wall, call->fn))
        return EINVAL;
    return call->input_size <= wall->config.input_limit ? 0 : EMSGSIZE;
}

static int walled_submit(stint_pool *pool, stint_wall *wall, const stint_wall_call *call, const stint_options *options,
                         const void *caller, stint_future **future)
{
    stint_options room;
    stint_pool *drivers;
    if (sti_process_is_partial())
        return ENOTSUP;
    uint64_t begun = sti_clock_now();
    uint64_t deadline = call->wait_ns != 0 ? sti_deadline_after(call->wait_ns) : 0;
    if (pool == NULL || wall == NULL)
        return EINVAL;
    if (wall->is_parents)
        return ENOTSUP;
    int error = sti_options_take(&options, &room);
    if (error == 0)
        error = check_call(wall, call);
    if (error == 0)
        error = sti_wall_open_pool(wall, pool, &drivers);
    if (error != 0)
        return error;
    error = EINTR;
    for (bool uninterruptible = false; error == EINTR; uninterruptible = true) {
        error = walled_try(pool, drivers, wall, call, options, begun, deadline, uninterruptible, caller, future);
        if (error == EINTR && sti_waking_deliver())
            error = ECANCELED;
    }
    return error;
}

int stint_submit_walled(stint_pool *pool, stint_wall *wall, stint_wall_fn *fn, const void *input, size_t size,
                        const stint_options *options, stint_future **future)
{
    const stint_wall_call call = { .size = sizeof call, .fn = fn, .input = input, .input_size = size };
    if (future == NULL)
        return EINVAL;
    *future = NULL;
    return walled_submit(pool, wall, &call, options, STI_CALLER(), future);
}

int stint_submit_walled_call(stint_pool *pool, stint_wall *wall, const stint_wall_call *call,
                             const stint_options *options, stint_future **future)
{
    stint_wall_call taken = STINT_WALL_CALL_INIT;
    if (future == NULL)
        return EINVAL;
    *future = NULL;
    int error =
        call != NULL ? sti_sized_in(&taken, sizeof taken, STI_SIZED_UP_TO(stint_wall_call, wait_ns), call) : EINVAL;
    return error == 0 ? walled_submit(pool, wall, &taken, options, STI_CALLER(), future) : error;
}
