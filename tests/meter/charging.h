/* SPDX-License-Identifier: MIT
 *
 * Random tasks beside the model of what they are charged (charging_model.h): random budgets and accounts, scopes inside
 * scopes, every allocation function, sizes of every class up to 1 GiB, masks, regions whose blocks are kept, and blocks
 * that libc makes. For charging.c and charging_long.c. */
#ifndef TESTS_CHARGING_H
#define TESTS_CHARGING_H

#include <dirent.h>
#include <malloc.h>
#include <wchar.h>

#include "charging_model.h"

#define SLOTS 24
#define ACCOUNTS 3
#define SCOPES 6 /* a task runs, at most */

struct slot {
    void *block;
    unsigned owner; /* depth of the scope whose heap has it; 0: the process's */
    size_t usable;
    size_t most; /* bytes that it may take */
};

/* One task. It lies on the test's stack, which is no root that would keep the task's heaps. */
struct charged_task {
    const struct family *family;
    uint64_t random;
    bool plain;      /* no aligned blocks: what a realloc finds of one depends on where it happens to lie */
    unsigned scopes; /* that were run so far */
    unsigned steps;
    const char *volatile wrong; /* what happened that the model does not say; NULL: nothing */
    struct model model;
    struct model_account ledgers[ACCOUNTS];
    stint_account *accounts[ACCOUNTS];
    struct slot slots[SLOTS];
};

/* One opendir, as libc charges for it on this system. */
static uint64_t charge_of_opendir;

static inline bool wrong(struct charged_task *task, const char *what)
{
    if (task->wrong == NULL)
        task->wrong = what;
    return false;
}

/* --- Blocks
 * -------------------------------------------------------------------------------------------------------- */

static inline void unaccount(struct charged_task *task, struct slot *slot)
{
    if (slot->owner > 0) {
        task->model.scopes[slot->owner - 1].held_least -= slot->usable;
        task->model.scopes[slot->owner - 1].held_most -= slot->most;
    }
    slot->block = NULL;
}

static inline void put(struct charged_task *task, struct slot *slot, void *block, size_t alignment, bool of_process)
{
    size_t usable = task->family->usable_size(block);
    *slot =
        (struct slot){ .block = block, .owner = of_process ? 0 : task->model.depth, .usable = usable, .most = usable };
    if (alignment > 16)
        slot->most = model_largest_aligned_block(alignment, usable);
    if (slot->owner > 0) {
        task->model.scopes[slot->owner - 1].held_least += slot->usable;
        task->model.scopes[slot->owner - 1].held_most += slot->most;
    }
}

static inline void release(struct charged_task *task, struct slot *slot)
{
    if (slot->block == NULL)
        return;
    void *block = slot->block;
    unaccount(task, slot);
    task->family->free(block);
}

/* The model stands in a scope further out: what the scopes inside it had has gone, or is the outer one's. */
static inline void settle_blocks(struct charged_task *task)
{
    unsigned depth = task->model.depth;
    for (struct slot *slot = task->slots; slot < task->slots + SLOTS; slot++) {
        if (slot->block == NULL || slot->owner <= depth)
            continue;
        /* Scopes end from the inside; one that ends Ok hands over what it has, until one does not. */
        while (slot->owner > depth && task->model.ended[slot->owner - 1].reason == STINT_REASON_NONE)
            slot->owner--;
        if (slot->owner > depth) {
            slot->block = NULL;
        } else if (slot->owner > 0) {
            size_t page = model_largest_page(slot->most);
            task->model.scopes[slot->owner - 1].held_most += page - slot->most;
            slot->most = page;
        }
    }
}

/* --- Steps: true while the task's code goes on
 * ---------------------------------------------------------------------- */

static inline size_t any_size(struct charged_task *task, unsigned rare_bits)
{
    if (random_below(&task->random, 16) == 0)
        return random_below(&task->random, 4);
    return random_size(&task->random, random_below(&task->random, 64) == 0 ? rare_bits : 15);
}

/* Tell the model. False: the request is not to be made. */
static inline bool ask(struct charged_task *task, struct model_request request, enum model_answer *answer)
{
    if (!model_is_decided(&task->model, &request))
        return false;
    *answer = model_allocate(&task->model, &request);
    if (*answer == MODEL_LEAVE)
        settle_blocks(task);
    return true;
}

static inline struct model_request request_of(uint64_t charge, size_t size, bool of_process)
{
    return (struct model_request){
        .charge = charge, .least = size, .most = model_largest_block(size), .of_process = of_process
    };
}

/* A call's result beside the model's prediction. */
static inline bool check(struct charged_task *task, enum model_answer answer, const void *block)
{
    if (answer == MODEL_LEAVE)
        return wrong(task, "the task went on behind a call that should have interrupted it");
    if ((block != NULL) != (answer == MODEL_BLOCK))
        return wrong(task, block != NULL ? "an allocation that should fail succeeded" : "an allocation failed");
    return block != NULL || answer != MODEL_NULL || random_below(&task->random, 2) == 0; /* it may try again */
}

static inline bool step_new_block(struct charged_task *task, struct slot *slot, bool of_process)
{
    static const char text[] = "................................................................";
    const struct family *family = task->family;
    size_t alignment = 16;
    size_t size = any_size(task, 31);
    unsigned kind = (unsigned)random_below(&task->random, 7);
    if (kind >= 1 && kind <= 3)
        size %= kind == 1 ? 3 * MIB : sizeof text;
    if (kind >= 2 && kind <= 3)
        size++; /* and the end of the string */
    if (kind >= 4 && kind <= 5 && !task->plain)
        alignment = (size_t)8 << random_below(&task->random, 11);
    if (kind == 4 && random_below(&task->random, 200) == 0)
        size = PTRDIFF_MAX - 100000;
    size_t whole = alignment > 16 ? size + alignment : size;
    enum model_answer answer;
    release(task, slot);
    if (!ask(task, request_of(model_aligned_charge(alignment, size), whole, of_process), &answer))
        return true;
    void *block = NULL;
    switch (kind) {
    case 1:
        block = family->calloc(1, size);
        break;
    case 2:
        block = family->strdup(text + sizeof text - size);
        break;
    case 3:
        block = family->strndup(text, size - 1);
        break;
    case 4:
        block = family->aligned_alloc(alignment, size);
        break;
    case 5:
        if (family->posix_memalign(&block, alignment, size) != 0)
            block = NULL;
        break;
    default:
        block = family->malloc(size);
        break;
    }
    if (block != NULL && answer == MODEL_BLOCK)
        put(task, slot, block, alignment, of_process);
    return check(task, answer, block);
}

static inline bool step_realloc(struct charged_task *task, struct slot *slot, bool of_process)
{
    size_t usable = slot->block != NULL ? slot->usable : 0;
    size_t size = any_size(task, 20);
    if (usable > 0 && random_below(&task->random, 2) == 0) /* close to what it has */
        size = usable * (4 + random_below(&task->random, 8)) / 8;
    if (usable > MIB || size > 2 * MIB)
        return true; /* too much to copy */
    uint64_t charge = model_realloc_charge(usable, size);
    enum model_answer answer;
    if (!ask(task, request_of(charge, size, of_process), &answer))
        return true;
    void *block = random_below(&task->random, 2) == 0 ? task->family->realloc(slot->block, size)
                                                      : task->family->reallocarray(slot->block, 1, size);
    if (block != NULL && answer == MODEL_BLOCK && charge > 0) {
        if (slot->block != NULL)
            unaccount(task, slot);
        put(task, slot, block, 0, of_process);
    }
    return check(task, answer, block);
}

/* libc's own blocks: they count as the task's do while they live, but an interrupt waits. */
static inline bool step_in_libc(struct charged_task *task, bool of_process)
{
    static const wchar_t text[] = L"................................";
    if (!stint_malloc_is_overridden())
        return true;
    bool directory = random_below(&task->random, 8) == 0;
    size_t length = random_below(&task->random, sizeof text / sizeof text[0]);
    uint64_t charge = directory ? charge_of_opendir : model_rounded((length + 1) * sizeof text[0]);
    struct model_request request = request_of(charge, charge - 15, of_process);
    request.of_libc = true;
    enum model_answer answer;
    if (!ask(task, request, &answer))
        return true;
    if (directory) {
        DIR *opened = opendir("/");
        if (opened != NULL)
            closedir(opened);
        return check(task, answer, opened);
    }
    wchar_t *copy = wcsdup(text + sizeof text / sizeof text[0] - 1 - length);
    stint_free(copy);
    return check(task, answer, copy);
}

static inline bool step_allocate(struct charged_task *task, bool of_process)
{
    struct slot *slot = &task->slots[random_below(&task->random, SLOTS)];
    switch (random_below(&task->random, 8)) {
    case 0:
        return step_in_libc(task, of_process);
    case 1:
    case 2:
        return step_realloc(task, slot, of_process);
    case 3:
    case 4:
        release(task, slot);
        return true;
    default:
        return step_new_block(task, slot, of_process);
    }
}

static inline bool step_masked(struct charged_task *task)
{
    bool kept = random_below(&task->random, 3) == 0;
    model_mask(&task->model);
    kept ? stint_keep_begin() : stint_mask();
    for (size_t i = random_below(&task->random, 6); i > 0; i--) {
        if (!step_allocate(task, kept))
            break;
    }
    bool leaves = model_unmask(&task->model);
    if (leaves)
        settle_blocks(task);
    kept ? stint_keep_end() : stint_unmask();
    return leaves ? wrong(task, "the task went on behind a mask that should have interrupted it") : task->wrong == NULL;
}

static inline bool run_scope(struct charged_task *task);

static inline bool step(struct charged_task *task)
{
    task->steps++;
    switch (random_below(&task->random, 24)) {
    case 0:
        return task->scopes < SCOPES && task->model.depth < MODEL_DEPTH ? run_scope(task) : true;
    case 1:
        return step_masked(task);
    default:
        return step_allocate(task, false);
    }
}

/* --- Scopes
 * -------------------------------------------------------------------------------------------------------- */

static inline int charged_function(void *argument, void **value)
{
    struct charged_task *task = argument;
    (void)value;
    for (size_t i = random_below(&task->random, 60); i > 0; i--) {
        if (!step(task))
            break;
    }
    int code = random_below(&task->random, 8) == 0 ? 77 : 0;
    if (task->wrong != NULL)
        return code;
    model_end(&task->model, code);
    settle_blocks(task);
    return code;
}

static inline int error_of(const struct model_outcome *outcome)
{
    switch (outcome->reason) {
    case STINT_REASON_NONE:
        return 0;
    case STINT_REASON_FAILED:
        return outcome->error;
    case STINT_REASON_ACCOUNT:
        return EDQUOT;
    case STINT_REASON_OUTER:
        return ECANCELED;
    default:
        return ENOMEM;
    }
}

static inline bool check_outcome(struct charged_task *task, const struct model_outcome *said,
                                 const stint_outcome *given)
{
    stint_status status = said->reason == STINT_REASON_NONE    ? STINT_OK
                          : said->reason == STINT_REASON_OUTER ? STINT_CANCELLED
                                                               : STINT_ERROR;
    if (given->reason != said->reason || given->status != status || given->error != error_of(said))
        return wrong(task, "a scope ended in another way");
    return given->usage.allocated == said->allocated ? true : wrong(task, "a scope was charged something else");
}

/* A limit in a quarter to a half of all scopes. */
static inline size_t any_limit(struct charged_task *task, unsigned bits)
{
    return random_below(&task->random, 3) == 0 ? random_size(&task->random, bits) : 0;
}

/* A random scope inside the one in which the model stands. */
static inline stint_options open_scope(struct charged_task *task)
{
    struct model_scope scope = {
        .allocation = any_limit(task, random_below(&task->random, 4) == 0 ? 32 : 20),
        .memory = any_limit(task, random_below(&task->random, 4) == 0 ? 31 : 22),
        .grace = random_below(&task->random, 3) == 0 ? random_size(&task->random, 16) : MODEL_GRACE,
        .libc = MODEL_LIBC,
        .fails = random_below(&task->random, 2) == 0,
    };
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.allocation = scope.allocation;
    options.budget.memory = scope.memory;
    options.grace = scope.grace;
    options.on_interrupt = scope.fails ? STINT_FAIL : STINT_JUMP;
    if (random_below(&task->random, 2) == 0) {
        size_t account = random_below(&task->random, ACCOUNTS);
        scope.account = &task->ledgers[account];
        options.account = task->accounts[account];
    }
    task->scopes++;
    model_open(&task->model, scope);
    return options;
}

static inline bool run_scope(struct charged_task *task)
{
    unsigned depth = task->model.depth;
    stint_options options = open_scope(task);
    stint_outcome outcome;
    if (stint_run(charged_function, task, &options, &outcome) != 0)
        return wrong(task, "stint_run failed");
    if (task->wrong != NULL)
        return false;
    if (task->model.depth != depth)
        return wrong(task, "a scope was left, or was not");
    return check_outcome(task, &task->model.ended[depth], &outcome);
}

/* Two accounts, one of them below the other, and one by itself. */
static inline void make_accounts(struct charged_task *task)
{
    for (size_t i = 0; i < ACCOUNTS; i++) {
        task->ledgers[i] = (struct model_account){ .limit = any_limit(task, 20) };
        if (i == 1)
            task->ledgers[i].parent = &task->ledgers[0];
        stint_account_limits limits = { .size = sizeof(stint_account_limits), .allocation = task->ledgers[i].limit };
        assert_int_equal(stint_account_create(i == 1 ? task->accounts[0] : NULL, &limits, &task->accounts[i]), 0);
    }
}

/* The task has ended. */
static inline void close_task(struct charged_task *task)
{
    for (struct slot *slot = task->slots; slot < task->slots + SLOTS; slot++)
        task->family->free(slot->block);
    for (size_t i = 0; i < ACCOUNTS; i++) {
        stint_account_usage usage = STINT_ACCOUNT_USAGE_INIT;
        assert_int_equal(stint_account_read(task->accounts[i], &usage), 0);
        assert_int_equal(usage.allocated, task->ledgers[i].drawn);
        assert_int_equal(usage.memory, 0);
        assert_int_equal(usage.running, 0);
        stint_account_release(task->accounts[i]);
    }
}

/* How the tasks ended: a test in which most end in one way tests little. */
struct charged_tally {
    size_t reasons[STINT_REASON_OUTER + 1];
    size_t scopes;
};

static inline void run_charged_task(uint64_t seed, struct charged_tally *tally)
{
    struct charged_task task = {
        .family = family_at(stint_malloc_is_overridden() ? (unsigned)seed % 2 : 0),
        .random = seed,
    };
    make_accounts(&task);
    bool good = run_scope(&task);
    if (!good)
        fail_msg("task %llu: %s", (unsigned long long)seed, task.wrong);
    close_task(&task);
    tally->reasons[task.model.ended[0].reason]++;
    tally->scopes += task.scopes;
}

static int open_and_close_directory(void *unused, void **value)
{
    (void)unused;
    (void)value;
    DIR *opened = opendir("/");
    return opened == NULL || closedir(opened) != 0;
}

static inline void check_charged_tasks(uint64_t first, uint64_t count)
{
    struct charged_tally tally = { .scopes = 0 };
    charge_of_opendir = run_task(open_and_close_directory, NULL, NULL).usage.allocated;
    for (uint64_t seed = first; seed < first + count; seed++)
        run_charged_task(seed, &tally);
    print_message("%llu tasks of %zu scopes; %zu ok, %zu failed, %zu allocation, %zu memory, %zu account\n",
                  (unsigned long long)count, tally.scopes, tally.reasons[STINT_REASON_NONE],
                  tally.reasons[STINT_REASON_FAILED], tally.reasons[STINT_REASON_ALLOCATION_LIMIT],
                  tally.reasons[STINT_REASON_MEMORY_LIMIT], tally.reasons[STINT_REASON_ACCOUNT]);
    static const stint_reason seen[] = { STINT_REASON_NONE, STINT_REASON_FAILED, STINT_REASON_ALLOCATION_LIMIT,
                                         STINT_REASON_MEMORY_LIMIT, STINT_REASON_ACCOUNT };
    for (size_t i = 0; i < sizeof seen / sizeof seen[0]; i++)
        assert_true(tally.reasons[seen[i]] >= count / 50);
    assert_true(tally.scopes >= count + count / 4);
}

#endif
