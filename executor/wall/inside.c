/* SPDX-License-Identifier: MIT
 *
 * The life of a child; see inside.h. In the child, on its one thread. The child trusts the program and the template;
 * they do not trust it: once it has begun its first task, all that it says may be a lie. */
#include "inside.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "alloc/interrupt/boundary.h"
#include "alloc/interrupt/warning.h"
#include "alloc/meter/account.h"
#include "alloc/meter/meter.h"
#include "alloc/observe/report.h"
#include "alloc/platform/assumption.h"
#include "alloc/platform/libc.h"
#include "alloc/platform/thread.h"
#include "alloc/scope/run.h"
#include "crash.h"
#include "sandbox.h"

#define PREPARED_BLOCKS 64 /* more than the nursery takes */
#define PREPARED_SIZE 1024

struct stint_reply {
    char *bytes; /* in the area */
    size_t size;
    size_t limit;
    int fds[STINT_WALL_FDS_MAX];
    unsigned fd_count;
};

/* There is one child in this process. */
static struct {
    const struct sti_wall_config *config;
    const struct sti_wall_entries *entries;
    struct sti_wall_layout layout;
    struct sti_wall_area *area;
    int socket;
} own;

/* --- The reply: by the task. --- */

void *stint_reply_reserve(stint_reply *reply, size_t size)
{
    int error = reply == NULL ? EINVAL : size > reply->limit - reply->size ? EMSGSIZE : 0;
    struct sti_thread *thread = sti_thread_metered;
    if (error == 0 && thread != NULL &&
        !sti_meter_charge_pages(thread, sti_meter_rounded(size), __builtin_return_address(0)))
        error = ENOMEM;
    if (error != 0) {
        errno = error;
        return NULL;
    }
    void *room = reply->bytes + reply->size;
    reply->size += size;
    return room;
}

int stint_reply_write(stint_reply *reply, const void *bytes, size_t size)
{
    if (bytes == NULL && size > 0)
        return EINVAL;
    int saved_errno = errno;
    void *room = stint_reply_reserve(reply, size);
    int error = room != NULL ? 0 : errno;
    errno = saved_errno;
    if (room != NULL && size > 0)
        memcpy(room, bytes, size);
    return error;
}

size_t stint_reply_size(const stint_reply *reply)
{
    return reply != NULL ? reply->size : 0;
}

int stint_reply_fd(const stint_reply *reply, size_t index)
{
    return reply != NULL && index < reply->fd_count ? reply->fds[index] : -1;
}

/* --- Descriptors. --- */

static int compare_fds(const void *one, const void *other)
{
    return *(const int *)one - *(const int *)other;
}

static void close_from_to(int first, int end)
{
    if (first < end)
        syscall(SYS_close_range, (unsigned)first, (unsigned)end - 1, 0);
}

void sti_wall_close_others(const struct sti_wall_config *config, int first_own, int end)
{
    int kept[STI_WALL_FDS_MAX];
    int next = 3;
    memcpy(kept, config->fds, config->fd_count * sizeof *kept);
    qsort(kept, config->fd_count, sizeof *kept, compare_fds);
    for (size_t i = 0; i < config->fd_count; i++) {
        if (kept[i] < 3)
            continue;
        close_from_to(next, kept[i]);
        next = kept[i] + 1;
    }
    close_from_to(next, first_own);
    syscall(SYS_close_range, (unsigned)end, UINT_MAX, 0);
}

/* --- The account, of which the program has the ledger. --- */

static bool ask_for_more(unsigned number, uint64_t amount)
{
    struct sti_wall_message message = { .kind = STI_WALL_DRAW, .draw = { .number = number, .amount = amount } };
    if (sti_wall_send(own.socket, &message, NULL, 0, true) != 0)
        return false;
    if (sti_wall_receive(own.socket, &message, NULL, NULL, true) != 0 || message.kind != STI_WALL_GRANT)
        _exit(0); /* the program is gone, or does not want the task any more */
    return message.draw.amount != 0;
}

static void hand_on_warning(const stint_warning *warning)
{
    const struct sti_wall_message message = { .kind = STI_WALL_WARNING,
                                              .warning = { .reason = warning->reason, .used = warning->used } };
    sti_wall_send(own.socket, &message, NULL, 0, false); /* where the program does not read it is lost */
}

static stint_account *open_account(const struct sti_wall_task *task)
{
    static stint_account *account;
    if (account == NULL && stint_account_create(NULL, NULL, &account) != 0)
        return NULL;
    sti_account_follow(account, task->granted, ask_for_more);
    return account;
}

/* --- Running a task. --- */

struct call {
    stint_wall_fn *fn;
    const void *input;
    size_t size;
    stint_reply *reply;
};

STI_CALLING_CODE static int call_function(void *arg, void **value)
{
    const struct call *call = arg;
    (void)value;
    return call->fn(call->input, call->size, call->reply);
}

static stint_wall_fn *find_entry(const char *name)
{
    for (size_t i = 0; i < own.entries->count; i++) {
        if (strcmp(own.entries->entries[i].name, name) == 0)
            return own.entries->entries[i].fn;
    }
    return NULL;
}

static uint64_t processor_time(void)
{
    struct timespec now;
    syscall(SYS_clock_gettime, CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

/* Reports lie in the program's heap, not in the task's. */
static size_t leave_report(const stint_report *report)
{
    if (report == NULL)
        return 0;
    memcpy((char *)own.area + own.layout.report, report, sizeof *report);
    return sizeof *report;
}

static void leave_payload(const stint_outcome *outcome, stint_reply *reply, struct sti_wall_done *done)
{
    if (outcome->payload == NULL)
        return;
    done->payload_size = outcome->payload_size < reply->limit ? outcome->payload_size : reply->limit;
    memcpy(reply->bytes, outcome->payload, done->payload_size);
}

static int child_run_in_scope(const struct sti_wall_task *task, struct call *call, stint_outcome *outcome,
                              stint_report **report)
{
    const stint_options options = {
        .size = sizeof options,
        .budget = { .allocation = task->allocation, .memory = task->memory },
        .on_interrupt = task->on_interrupt,
        .report = task->report,
        .grace = task->grace,
        .name = task->name[0] != '\0' ? task->name : NULL,
        .account = task->has_account ? open_account(task) : NULL,
        .wipe = task->wipe,
        .sample_rate = task->sample_rate,
        .flags = STINT_ALLOW_UNMETERED, /* the program has looked */
        .discard = task->discard,
        .warn = task->warn,
    };
    if (task->has_account && options.account == NULL)
        return ENOMEM;
    struct sti_limits *limits = own.area != NULL ? &own.area->limits : NULL; /* the template has no area */
    return sti_run_taken(call_function, call, &options, outcome, task->report != STINT_REPORT_NONE ? report : NULL,
                         limits);
}

static void child_run_task(const struct sti_wall_task *task, stint_reply *reply)
{
    static struct sti_wall_message answer;
    struct sti_wall_done *done = &answer.done;
    struct call call = {
        .fn = task->fn != NULL ? task->fn : find_entry(task->entry),
        .input = (char *)own.area + own.layout.input,
        .size = task->input_size,
        .reply = reply,
    };
    stint_outcome outcome = { .status = STINT_ERROR };
    stint_report *report = NULL;
    memset(&answer, 0, sizeof answer);
    answer.kind = STI_WALL_DONE;
    uint64_t begun = task->measures_cpu ? processor_time() : 0;
    int error = call.fn != NULL ? child_run_in_scope(task, &call, &outcome, &report) : ENOENT;
    done->reason = error == 0 ? outcome.reason : STINT_REASON_FAILED;
    done->error = error == 0 ? outcome.error : error;
    done->usage = outcome.usage;
    done->usage.cpu_ns = task->measures_cpu ? processor_time() - begun : 0;
    memcpy(done->message, outcome.message, sizeof done->message);
    if (error == 0 && outcome.status == STINT_OK)
        done->reply_size = reply->size;
    else
        leave_payload(&outcome, reply, done);
    done->report_size = leave_report(report);
    free((void *)(uintptr_t)outcome.payload);
    stint_report_release(report);
    fflush(NULL); /* a child ends by _exit */
    if (sti_wall_send(own.socket, &answer, NULL, 0, true) != 0)
        _exit(0);
}

/* --- Between two tasks. --- */

/* What the standard and the named descriptors are, in the template and all children, to be compared when a task has
 * ended. */
static struct {
    int fds[3 + STI_WALL_FDS_MAX];
    struct stat are[3 + STI_WALL_FDS_MAX];
    size_t count;
} kept;

static void child_note_retained(const struct sti_wall_config *config)
{
    kept.count = 0;
    for (int fd = 0; fd < 3; fd++)
        kept.fds[kept.count++] = fd;
    for (size_t i = 0; i < config->fd_count; i++)
        kept.fds[kept.count++] = config->fds[i];
    for (size_t i = 0; i < kept.count; i++)
        fstat(kept.fds[i], &kept.are[i]);
}

static bool are_kept(void)
{
    struct stat now;
    for (size_t i = 0; i < kept.count; i++) {
        if (fstat(kept.fds[i], &now) != 0 || now.st_dev != kept.are[i].st_dev || now.st_ino != kept.are[i].st_ino)
            return false;
    }
    return true;
}

/* --- Before the first child: in the template. --- */

/* A heap that is left empty is kept for the next task: each child has its copy. */
static int fill_and_empty(const void *input, size_t size, stint_reply *reply)
{
    void *volatile blocks[PREPARED_BLOCKS];
    (void)input;
    (void)size;
    (void)reply;
    for (size_t i = 0; i < PREPARED_BLOCKS; i++)
        blocks[i] = malloc(PREPARED_SIZE);
    for (size_t i = 0; i < PREPARED_BLOCKS; i++)
        free(blocks[i]);
    return 0;
}

void sti_inside_seed(void)
{
    unsigned seeds[3];
    if (getrandom(seeds, sizeof seeds, 0) != (ssize_t)sizeof seeds)
        _exit(1);
    srandom(seeds[0]); /* rand() too */
    srand48((long)seeds[1]);
    unsigned short seed[3] = { (unsigned short)seeds[1], (unsigned short)(seeds[1] >> 16), (unsigned short)seeds[2] };
    seed48(seed);
}

int sti_inside_prepare(const struct sti_wall_config *config)
{
    const struct sti_wall_task task = { .memory = config->memory };
    struct call call = { .fn = fill_and_empty };
    stint_outcome outcome;
    /* A program that serves has looked at nothing yet, and its children may load nothing. Without libgcc theirs are
     * refused what has to be unwound, as anybody's. */
    sti_assumptions_before_unwinding();
    child_note_retained(config);
    sti_inside_seed();
    return child_run_in_scope(&task, &call, &outcome, NULL);
}

/* --- The child. --- */

static void end_at_once(int status, void *unused)
{
    (void)unused;
    _exit(status);
}

/* quick_exit() passes no status to its handlers. */
static void end_quickly(void)
{
    _exit(EXIT_FAILURE);
}

bool sti_inside_exit_at_once(void)
{
    return on_exit(end_at_once, NULL) == 0 && at_quick_exit(end_quickly) == 0;
}

static void say_hello(void)
{
    struct sti_wall_message message = { .kind = STI_WALL_HELLO, .hello = { .pid = getpid() } };
    int own_pid = (int)syscall(SYS_pidfd_open, message.hello.pid, 0);
    if (own_pid < 0 || sti_wall_send(own.socket, &message, &own_pid, 1, true) != 0)
        _exit(1);
    syscall(SYS_close, own_pid);
}

static void child_begin(const int *groups, unsigned group_count)
{
    prctl(PR_SET_NAME, "stint-child", 0, 0, 0);
    if (own.config->processes > 0)
        setpgid(0, 0); /* the template kills what is left of it */
    /* Once more: setup may have registered something. */
    if (!sti_inside_exit_at_once() || sti_sandbox_enter_child(own.config, groups, group_count) != 0)
        _exit(1);
    sti_crash_watch(&own.area->crash);
}

static bool child_pick(void)
{
    uint32_t offered = STI_WALL_OFFERED;
    return atomic_compare_exchange_strong_explicit(&own.area->state, &offered, STI_WALL_PICKED, memory_order_acq_rel,
                                                   memory_order_relaxed);
}

/* False: there is none, and never will be. */
static bool receive_task(struct sti_wall_message *message, stint_reply *reply)
{
    reply->fd_count = STINT_WALL_FDS_MAX;
    return sti_wall_receive(own.socket, message, reply->fds, &reply->fd_count, true) == 0 &&
           message->kind == STI_WALL_TASK && child_pick();
}

void sti_inside_serve(const struct sti_wall_config *config, const struct sti_wall_entries *entries, int socket,
                      int area, const int *groups, unsigned group_count)
{
    static struct sti_wall_message message;
    stint_reply reply = { .limit = config->reply_limit };
    own.config = config;
    own.entries = entries;
    own.socket = socket;
    own.layout = sti_wall_layout(config);
    own.area = sti_wall_area_map(area, &own.layout);
    if (own.area == NULL)
        _exit(1);
    sti_warning_divert(hand_on_warning);
    say_hello();
    child_begin(groups, group_count);
    sti_wall_close_others(config, socket, socket + 1);
    while (receive_task(&message, &reply)) {
        reply.bytes = (char *)own.area + own.layout.reply;
        reply.size = 0;
        child_run_task(&message.task, &reply);
        if (!config->reuses)
            continue; /* until the program lets go of it: the program wakes sooner where this process sleeps than
                         ends */
        sti_wall_close_others(config, socket, socket + 1);
        alarm(0);
        if (!are_kept())
            break;
    }
    _exit(0);
}
