/* SPDX-License-Identifier: MIT
 *
 * What a walled child may write: messages of any kind, size and contents, its half of the shared area while the program
 * reads it, its reply, and its end. The input tells the child what to do. The program's future resolves with an outcome
 * that is possible, what it hands out is whole, nothing of its account stays taken, and the next task is answered. */
#include <errno.h>
#include <signal.h>
#include <stint/stint.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "alloc/observe/report.h"
#include "executor/wall/area.h"
#include "fuzz.h"

#define SOCKET 3 /* the first of the wall's own descriptors, where none is named */
#define LIMIT ((size_t)1 << 16)
#define MS UINT64_C(1000000)

static stint_pool *pool;
static stint_wall *walls[2]; /* a fresh child for each task; the same until it does not end Ok */
static stint_account *account;

static struct sti_wall_layout layout(void)
{
    struct sti_wall_config config = { .input_limit = LIMIT, .reply_limit = LIMIT };
    return sti_wall_layout(&config);
}

/* --- In the child. --- */

static void say_anything(struct fuzz_bytes *bytes)
{
    static union {
        struct sti_wall_message message;
        unsigned char bytes[2 * sizeof(struct sti_wall_message)];
    } said;
    int fds[STINT_WALL_FDS_MAX];
    for (unsigned i = 0; i < STINT_WALL_FDS_MAX; i++)
        fds[i] = (int)i % 3;
    memset(&said, 0, sizeof said);
    unsigned how = fuzz_byte(bytes);
    said.message.kind = how % 10;
    size_t length = fuzz_byte(bytes);
    fuzz_fill(bytes, said.bytes + sizeof said.message.kind, length);
    if (how < 128)
        sti_wall_send(SOCKET, &said.message, fds, fuzz_below(bytes, STINT_WALL_FDS_MAX + 1), false);
    else
        send(SOCKET, &said, (size_t)fuzz_byte(bytes) * 16 % sizeof said, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* A number that is likely to be near a limit. */
static uint64_t number_near(struct fuzz_bytes *bytes)
{
    static const uint64_t limits[] = { 0, 1, LIMIT, sizeof(struct stint_report), (uint64_t)1 << 47, UINT64_MAX };
    unsigned which = fuzz_below(bytes, 8);
    if (which < 6)
        return limits[which] + (uint64_t)(int64_t)(int8_t)fuzz_byte(bytes);
    return which == 6 ? fuzz_byte(bytes) : fuzz_number(bytes);
}

static void say_done(struct fuzz_bytes *bytes)
{
    struct sti_wall_message message = { .kind = STI_WALL_DONE };
    struct sti_wall_done *done = &message.done;
    unsigned set = fuzz_byte(bytes);
    done->reason = (stint_reason)fuzz_below(bytes, STINT_REASON_BROKEN + 2);
    done->error = fuzz_byte(bytes) % 3;
    done->reply_size = set & 1 ? number_near(bytes) : 0;
    done->payload_size = set & 2 ? number_near(bytes) : 0;
    done->report_size = set & 4 ? number_near(bytes) : set & 8 ? sizeof(struct stint_report) : 0;
    done->usage.allocated = set & 16 ? number_near(bytes) : 0;
    done->usage.peak = set & 32 ? number_near(bytes) : 0;
    if (set & 64)
        memset(done->message, 'm', sizeof done->message);
    if (set & 128)
        fuzz_fill(bytes, &done->usage, sizeof done->usage);
    sti_wall_send(SOCKET, &message, NULL, 0, false);
}

static void say_number(struct fuzz_bytes *bytes, bool draws)
{
    struct sti_wall_message message = { .kind = draws ? STI_WALL_DRAW : STI_WALL_WARNING };
    if (draws) {
        message.draw.number = fuzz_below(bytes, 3);
        message.draw.amount = number_near(bytes);
    } else {
        message.warning.reason = (stint_reason)fuzz_below(bytes, 6);
        message.warning.used = number_near(bytes);
    }
    sti_wall_send(SOCKET, &message, NULL, 0, false);
}

/* In the header, where the state, limits and the record of a crash are, in the report or in the reply. */
static void write_area(struct fuzz_bytes *bytes, char *area)
{
    const struct sti_wall_layout parts = layout();
    const size_t begins[] = { 0, offsetof(struct sti_wall_area, crash), parts.report, parts.reply };
    size_t begin = begins[fuzz_below(bytes, 4)];
    size_t offset = begin + (size_t)fuzz_byte(bytes) * 8;
    size_t length = (size_t)fuzz_byte(bytes) % 64;
    if (offset + length <= parts.size)
        fuzz_fill(bytes, area + offset, length);
}

static void end_badly(unsigned how)
{
    static const int signals[] = { SIGSEGV, SIGABRT, SIGKILL, SIGBUS, SIGFPE, SIGTERM };
    if (how % 8 < 6)
        syscall(SYS_tgkill, getpid(), gettid(), signals[how % 8]);
    _exit((int)how);
}

static int strike(const void *input, size_t size, stint_reply *reply)
{
    struct fuzz_bytes bytes = { input, size };
    char *area = (char *)(uintptr_t)input - layout().input;
    fuzz_byte(&bytes);
    for (unsigned steps = 0; bytes.left > 0 && steps < 64; steps++) {
        switch (fuzz_below(&bytes, 9)) {
        case 0:
            say_anything(&bytes);
            break;
        case 1:
            say_done(&bytes);
            break;
        case 2:
            say_number(&bytes, true);
            break;
        case 3:
            say_number(&bytes, false);
            break;
        case 4:
        case 5:
            write_area(&bytes, area);
            break;
        case 6:
            stint_reply_reserve(reply, fuzz_byte(&bytes));
            break;
        case 7:
            if (fuzz_below(&bytes, 4) == 0)
                return fuzz_byte(&bytes);
            if (fuzz_below(&bytes, 16) == 0)
                shutdown(SOCKET, (int)fuzz_below(&bytes, 3));
            break;
        default:
            if (fuzz_below(&bytes, 8) == 0)
                end_badly(fuzz_byte(&bytes));
        }
    }
    return 0;
}

static int echo(const void *input, size_t size, stint_reply *reply)
{
    return stint_reply_write(reply, input, size);
}

/* --- In the program. --- */

static void check_outcome(const stint_outcome *outcome)
{
    fuzz_require(memchr(outcome->message, '\0', sizeof outcome->message) != NULL);
    fuzz_require((outcome->status == STINT_OK) == (outcome->value != NULL));
    switch (outcome->reason) {
    case STINT_REASON_NONE:
        fuzz_require(outcome->status == STINT_OK && outcome->error == 0);
        fuzz_require(outcome->payload_size <= LIMIT);
        break;
    case STINT_REASON_FAILED:
    case STINT_REASON_EXCEPTION:
    case STINT_REASON_ALLOCATION_LIMIT:
    case STINT_REASON_MEMORY_LIMIT:
    case STINT_REASON_DEADLINE:
    case STINT_REASON_ACCOUNT:
    case STINT_REASON_GLOBAL_MEMORY_LIMIT:
    case STINT_REASON_STACK:
    case STINT_REASON_TRACKER:
        fuzz_require(outcome->status == STINT_ERROR && outcome->error != 0);
        fuzz_require(outcome->payload_size <= LIMIT);
        break;
    case STINT_REASON_CRASH:
    case STINT_REASON_EXIT:
    case STINT_REASON_KILLED:
    case STINT_REASON_BROKEN:
        fuzz_require(outcome->status == STINT_ERROR && outcome->error != 0);
        fuzz_require(outcome->payload_size == sizeof(stint_wall_death));
        break;
    default:
        fuzz_never("an outcome that no child can have");
    }
    /* All of it is there to be read. */
    volatile unsigned char sum = 0;
    const unsigned char *bytes = outcome->status == STINT_OK ? outcome->value : outcome->payload;
    for (size_t i = 0; i < outcome->payload_size; i++)
        sum = (unsigned char)(sum + bytes[i]);
}

static stint_outcome take(stint_future *future)
{
    stint_outcome outcome;
    fuzz_require(stint_future_wait_for(future, 20000 * MS, &outcome) == 0);
    check_outcome(&outcome);
    return outcome;
}

static bool is_answered(stint_wall *wall)
{
    stint_future *future;
    fuzz_require(stint_submit_walled(pool, wall, echo, "on", 2, NULL, &future) == 0);
    stint_outcome outcome = take(future);
    bool good = outcome.status == STINT_OK && outcome.payload_size == 2 && memcmp(outcome.value, "on", 2) == 0;
    stint_free(outcome.value);
    stint_future_release(future);
    return good;
}

/* Where a child is used again, what it said too much is heard as the next task's answer, but not for ever: nobody is
 * kept from the other tasks of such a child, as wall.h says. */
static void answer_the_next(stint_wall *wall)
{
    unsigned tries = wall == walls[0] ? 1 : 100;
    while (!is_answered(wall))
        fuzz_require(--tries > 0);
}

static void write_report(stint_future *future)
{
    stint_report *report = NULL;
    int null = -1;
    if (stint_future_report(future, &report) != 0 || report == NULL)
        return;
    null = memfd_create("report", MFD_CLOEXEC);
    fuzz_require(null >= 0);
    fuzz_require(stint_report_write(report, null, STINT_REPORT_TEXT) == 0);
    fuzz_require(stint_report_write(report, null, STINT_REPORT_JSON) == 0);
    close(null);
    stint_report_release(report);
}

static void heed(const stint_warning *warning, void *unused)
{
    (void)unused;
    fuzz_require(warning->reason == STINT_REASON_ALLOCATION_LIMIT || warning->reason == STINT_REASON_MEMORY_LIMIT);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    stint_wall_options options = STINT_WALL_OPTIONS_INIT;
    stint_account_limits limits = STINT_ACCOUNT_LIMITS_INIT;
    (void)argc;
    (void)argv;
    options.input_limit = options.reply_limit = LIMIT;
    options.children = 1;
    options.spare = 1;
    fuzz_require(stint_wall_create(&options, &walls[0]) == 0);
    options.tasks_per_child = STINT_WALL_REUSED;
    fuzz_require(stint_wall_create(&options, &walls[1]) == 0);
    limits.memory = limits.allocation = (size_t)1 << 40;
    fuzz_require(stint_account_create(NULL, &limits, &account) == 0);
    stint_pool_options one = STINT_POOL_OPTIONS_INIT;
    one.workers = 1;
    fuzz_require(stint_pool_create(&one, &pool) == 0);
    fuzz_require(stint_warnings_set(heed, NULL) == 0);
    answer_the_next(walls[0]);
    answer_the_next(walls[1]);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || size > LIMIT)
        return 0;
    stint_wall *wall = walls[data[0] & 1];
    stint_options options = STINT_OPTIONS_INIT;
    stint_future *future;
    options.budget.run_ns = 5000 * MS;
    options.name = "strike";
    options.account = data[0] & 2 ? account : NULL;
    options.wipe = (data[0] & 4) != 0;
    options.report = data[0] & 8 ? STINT_REPORT_HEAP : STINT_REPORT_NONE;
    options.discard = (data[0] & 16) != 0;
    options.budget.allocation = options.budget.memory = data[0] & 32 ? LIMIT * 16 : 0;
    options.warn = data[0] & 64 ? 50 : 0;
    fuzz_require(stint_submit_walled(pool, wall, strike, data, size, &options, &future) == 0);
    stint_outcome outcome = take(future);
    stint_free(outcome.value);
    write_report(future);
    stint_future_release(future);
    answer_the_next(wall);
    stint_account_usage usage = STINT_ACCOUNT_USAGE_INIT;
    fuzz_require(stint_account_read(account, &usage) == 0);
    fuzz_require(usage.memory == 0 && usage.running == 0 && usage.waiting == 0);
    return 0;
}
