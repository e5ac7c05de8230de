/* SPDX-License-Identifier: MIT
 *
 * Pages of its heap that a task has protected, locked, or told the kernel something else of: after a rollback they are
 * like any other when others get them. */
#include "support.h"

#include <sys/mman.h>

#include "alloc/rollback/undo.h"

#define PAGE ((size_t)getpagesize())
#define BOTH (PROT_READ | PROT_WRITE)
#define STACKS 200
#define STACK (16 * PAGE)

/* On the test's stack, which is no root. */
struct work {
    size_t size;
    int protection;
    int advice;
    int error; /* that it ends with */
    char *block;
    char *other; /* of whoever began it */
    size_t records;
};

static size_t records(void)
{
    return atomic_load(&sti_undo_count);
}

/* Whether the system could read there, and write. */
static bool is_readable(const char *page)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    bool could = write(ends[1], page, 1) == 1;
    close(ends[0]);
    close(ends[1]);
    return could;
}

static char *new_stack(size_t size)
{
    void *stack = NULL;
    if (posix_memalign(&stack, PAGE, size) != 0)
        return NULL;
    memset(stack, 1, size);
    return stack;
}

static void allocate_everywhere(size_t size)
{
    enum { BLOCKS = 2000 };
    static char *blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(size);
        assert_non_null(blocks[i]);
        memset(blocks[i], 1, size);
    }
    for (size_t i = 0; i < BLOCKS; i++)
        free(blocks[i]);
}

static int protect_one(void *arg, void **value)
{
    struct work *work = arg;
    (void)value;
    char *stack = new_stack(work->size);
    if (stack == NULL || mprotect(stack, PAGE, work->protection) != 0)
        return ENOMEM;
    work->records = records();
    return work->error;
}

TEST(what_a_rolled_back_task_has_protected_can_be_used_by_whoever_comes_next)
{
    (void)state;
    const size_t sizes[] = { PAGE, STACK, 4 * MIB };
    const int protections[] = { PROT_NONE, PROT_READ, PROT_READ | PROT_EXEC };
    for (size_t i = 0; i < 9; i++) {
        struct work work = { .size = sizes[i / 3], .protection = protections[i % 3], .error = EIO };
        assert_int_equal(run_task(protect_one, &work, NULL).error, EIO);
        assert_int_equal(work.records, 1);
        assert_int_equal(records(), 0);
        allocate_everywhere(8000);
        allocate_everywhere(4096);
    }
}

static int map_over_one(void *arg, void **value)
{
    struct work *work = arg;
    (void)value;
    char *stack = new_stack(work->size);
    if (stack == NULL || mmap(stack, PAGE, work->protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != stack)
        return ENOMEM;
    return work->error;
}

TEST(so_can_pages_in_whose_place_it_has_mapped_some_that_are_and_its_report_is_taken)
{
    (void)state;
    const size_t sizes[] = { PAGE, STACK, 4 * MIB };
    for (size_t i = 0; i < 3; i++) {
        struct work work = { .size = sizes[i], .protection = PROT_NONE, .error = EIO };
        stint_options options = STINT_OPTIONS_INIT;
        options.report = STINT_REPORT_HEAP;
        stint_outcome outcome;
        stint_report *report;
        assert_int_equal(stint_run_reported(map_over_one, &work, &options, &outcome, &report), 0);
        assert_int_equal(outcome.error, EIO);
        stint_report_release(report);
        assert_int_equal(records(), 0);
        allocate_everywhere(8000);
        allocate_everywhere(4096);
    }
}

/* --- madvise and mlock --- */

#define GUARD_INSTALL 102 /* Linux 6.13 */
#define LOCK 0            /* no advice that matters here */

/* Whether the kernel shows this flag for the page, as two letters: proc(5). */
static bool has_flag(const char *page, const char *flag)
{
    char line[512];
    bool is_in = false;
    bool has = false;
    FILE *maps = fopen("/proc/self/smaps", "r");
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps) != NULL) {
        unsigned long begin;
        unsigned long end;
        if (sscanf(line, "%lx-%lx ", &begin, &end) == 2)
            is_in = (uintptr_t)page >= begin && (uintptr_t)page < end;
        else if (is_in && strncmp(line, "VmFlags:", 8) == 0)
            has = strstr(line, flag) != NULL;
    }
    fclose(maps);
    return has;
}

static int advise(void *arg, void **value)
{
    struct work *work = arg;
    (void)value;
    char *block = new_stack(STACK);
    if (block == NULL)
        return ENOMEM;
    work->block = block;
    int result = work->advice == LOCK ? mlock(block + PAGE, 2 * PAGE) : madvise(block + PAGE, 2 * PAGE, work->advice);
    if (result != 0)
        return errno;
    mprotect(block, STACK, PROT_READ);
    mprotect(block, STACK, BOTH); /* what has been advised stays */
    return EIO;
}

TEST(what_a_rolled_back_task_has_told_the_kernel_of_its_pages_is_not_true_of_them_any_more)
{
    (void)state;
    const int advices[] = { LOCK, MADV_DONTFORK, MADV_WIPEONFORK, MADV_DONTDUMP, GUARD_INSTALL };
    const char *flags[] = { " lo", " dc", " wf", " dd", NULL };
    for (size_t i = 0; i < 5; i++) {
        struct work work = { .advice = advices[i] };
        int error = run_task(advise, &work, NULL).error;
        if (error == EINVAL)
            continue; /* an older kernel */
        assert_int_equal(error, EIO);
        assert_int_equal(records(), 0);
        assert_true(flags[i] == NULL || !has_flag(work.block + PAGE, flags[i]));
        allocate_everywhere(8000);
        allocate_everywhere(STACK);
    }
}

static int have_coroutines(void *arg, void **value)
{
    const struct work *work = arg;
    (void)value;
    for (size_t i = 0; i < STACKS; i++) {
        char *stack = new_stack(STACK);
        if (stack == NULL || mprotect(stack, PAGE, PROT_NONE) != 0)
            return ENOMEM;
        if (i % 2 == 0)
            continue;
        mprotect(stack, PAGE, BOTH);
        free(stack);
    }
    stint_usage used;
    stint_usage_now(&used, NULL);
    while (work->error == 0) {
        char *more = keep(malloc(KIB));
        if (more != NULL)
            memset(more, 1, KIB);
    }
    return work->error;
}

TEST(coroutines_stacks_with_guard_pages_go_with_their_task)
{
    (void)state;
    struct work failing = { .error = EIO };
    struct work growing = { .error = 0 };
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.memory = 16 * MIB;
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(run_task(have_coroutines, &failing, NULL).error, EIO);
        allocate_everywhere(8000);
        assert_int_equal(run_task(have_coroutines, &growing, &options).reason, STINT_REASON_MEMORY_LIMIT);
        allocate_everywhere(8000);
        assert_int_equal(records(), 0);
    }
}

static int protect_and_open(void *arg, void **value)
{
    struct work *work = arg;
    (void)value;
    char *stack = new_stack(STACK);
    if (stack == NULL)
        return ENOMEM;
    for (size_t i = 0; i < 100; i++) {
        mprotect(stack, STACK, PROT_READ);
        mprotect(stack + PAGE, PAGE, BOTH);
        mprotect(stack, STACK, BOTH);
    }
    work->records = records();
    return 0;
}

TEST(no_record_is_left_of_pages_to_which_the_task_has_given_access_back)
{
    (void)state;
    struct work work = { .size = STACK };
    assert_int_equal(run_task(protect_and_open, &work, NULL).reason, STINT_REASON_NONE);
    assert_int_equal(work.records, 0);
}

static int protect_and_open_a_part(void *arg, void **value)
{
    struct work *work = arg;
    (void)value;
    work->block = new_stack(STACK);
    if (work->block == NULL)
        return ENOMEM;
    mprotect(work->block, STACK, PROT_NONE);
    mprotect(work->block, PAGE, BOTH);
    return EIO;
}

TEST(pages_of_which_it_has_opened_the_first_can_all_be_used_after_it)
{
    (void)state;
    struct work work = { .size = STACK };
    assert_int_equal(run_task(protect_and_open_a_part, &work, NULL).error, EIO);
    assert_int_equal(records(), 0);
    assert_true(in_debug_mode() || is_readable(work.block + STACK - PAGE)); /* there it is in quarantine */
    allocate_everywhere(8000);
    allocate_everywhere(STACK);
}

/* mimalloc gives pages of this size from one heap to another at once, and the lowest first. */
static int free_what_it_has_opened(void *arg, void **value)
{
    struct work *work = arg;
    (void)value;
    char *block = new_stack(work->size);
    if (block == NULL || mprotect(block, work->size, PROT_READ) != 0)
        return ENOMEM;
    for (size_t i = 0; i < work->size; i += PAGE)
        mprotect(block + i, PAGE, BOTH);
    uintptr_t place = (uintptr_t)block;
    free(block);
    stint_keep_begin(); /* the process's heap is another */
    for (unsigned i = 0; (uintptr_t)work->other != place && i < 8; i++) {
        work->other = new_stack(work->size);
        if (work->other == NULL)
            break;
    }
    int result = (uintptr_t)work->other == place ? mprotect(work->other, PAGE, PROT_NONE) : -1;
    stint_keep_end();
    return result == 0 ? EIO : ENOMEM;
}

TEST(a_guard_page_of_another_heap_stays_where_the_task_has_opened_a_range_in_parts_and_freed_it)
{
    (void)state;
    struct work work = { .size = MIB };
    int error = run_task(free_what_it_has_opened, &work, NULL).error;
    if (error == ENOMEM && PAGE > 4 * KIB) {
        print_message("not tested: mimalloc does not give pages of this size from one heap to another\n");
        skip();
    }
    assert_int_equal(error, EIO);
    assert_false(is_readable(work.other));
    assert_true(is_readable(work.other + PAGE));
    assert_int_equal(mprotect(work.other, PAGE, BOTH), 0);
    free(work.other);
}

static int hand_over(void *arg, void **value)
{
    struct work *work = arg;
    (void)value;
    work->block = new_stack(STACK);
    return work->block != NULL && mprotect(work->block, PAGE, PROT_NONE) == 0 ? 0 : ENOMEM;
}

TEST(what_a_task_that_ends_well_has_protected_stays_so)
{
    (void)state;
    struct work work = { .size = STACK };
    assert_int_equal(run_task(hand_over, &work, NULL).reason, STINT_REASON_NONE);
    assert_int_equal(records(), 0);
    assert_false(is_readable(work.block));
    assert_true(is_readable(work.block + PAGE));
    assert_int_equal(mprotect(work.block, PAGE, BOTH), 0);
    free(work.block);
}

static int protect_of_others(void *arg, void **value)
{
    const struct work *work = arg;
    (void)value;
    return mprotect(work->other, PAGE, PROT_NONE) == 0 ? EIO : ENOMEM;
}

TEST(what_was_not_the_tasks_is_left_as_it_has_protected_it)
{
    (void)state;
    struct work work = { .size = STACK };
    work.other = new_stack(STACK);
    assert_non_null(work.other);
    assert_int_equal(run_task(protect_of_others, &work, NULL).error, EIO);
    assert_false(is_readable(work.other));
    assert_int_equal(mprotect(work.other, PAGE, BOTH), 0);
    free(work.other);
}

static int run_inner(void *arg, void **value)
{
    struct work *work = arg;
    (void)value;
    struct work inner = { .size = STACK, .protection = PROT_NONE, .error = EIO };
    struct work handing = { .size = STACK };
    stint_outcome outcome;
    int error = hand_over(work, NULL);
    if (error == 0)
        error = stint_run(protect_one, &inner, NULL, &outcome);
    if (error == 0)
        error = stint_run(hand_over, &handing, NULL, &outcome);
    work->records = records();
    work->other = handing.block;
    return error;
}

TEST(a_scope_inside_another_gives_back_its_own_or_leaves_them_to_that)
{
    (void)state;
    struct work work = { .size = STACK };
    assert_int_equal(run_task(run_inner, &work, NULL).reason, STINT_REASON_NONE);
    assert_int_equal(work.records, 2);
    assert_false(is_readable(work.block));
    assert_false(is_readable(work.other));
    mprotect(work.block, PAGE, BOTH);
    mprotect(work.other, PAGE, BOTH);
    free(work.block);
    free(work.other);
}

TEST_MAIN()
