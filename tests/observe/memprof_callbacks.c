/* SPDX-License-Identifier: MIT
 *
 * What a tracker's callbacks may do, and their callstacks. */
#include "tracker.h"

/* What a callback does with memory: it keeps a copy, and frees a followed block. */
struct busy {
    struct seen seen;
    void *to_free;
    int nested;
    int depth;
    int deallocs;
};

static void *allocate_inside(const stint_memprof_allocation *allocation, void *arg)
{
    struct busy *busy = arg;
    (void)allocation;
    busy->nested += busy->depth++ > 0;
    void *copy = stint_malloc(LARGE_BLOCK);
    memset(copy, 1, LARGE_BLOCK);
    void *block = busy->to_free;
    busy->to_free = NULL;
    stint_free(block);
    busy->depth--;
    return copy;
}

static void free_inside(void *metadata, stint_memprof_end end, void *arg)
{
    struct busy *busy = arg;
    (void)end;
    busy->nested += busy->depth++ > 0;
    busy->deallocs++;
    stint_free(metadata);
    busy->depth--;
}

struct busy_task {
    struct busy *busy;
    uint64_t blocks;
};

static int allocate_while_busy(void *arg, void **value)
{
    struct busy_task *task = arg;
    (void)value;
    task->busy->to_free = stint_malloc(LARGE_BLOCK);
    stint_free(keep(stint_malloc(LARGE_BLOCK)));
    return 0;
}

TEST(callbacks_allocate_and_free_unseen)
{
    struct busy busy = { .depth = 0 };
    struct busy_task task = { .busy = &busy };
    stint_memprof_options options = options_for(&busy.seen);
    options.tracker = (stint_memprof_tracker){ allocate_inside, NULL, free_inside };
    options.arg = &busy;
    assert_int_equal(stint_memprof_start(&options), 0);
    stint_outcome outcome = run_task(allocate_while_busy, &task, NULL);
    stop_profile();
    assert_ok(outcome);
    assert_int_equal(outcome.usage.allocated, 2 * LARGE_BLOCK);
    assert_int_equal(busy.nested, 0);
    assert_int_equal(busy.deallocs, 2);
}

static int allocate_until_stopped(void *arg, void **value)
{
    (void)value;
    for (int i = 0; i < 1000; i++) {
        if (keep(stint_malloc(LARGE_BLOCK)) == NULL)
            return ENOMEM;
        ++*(int *)arg;
    }
    return 0;
}

TEST(a_callback_interrupts_its_task)
{
    const stint_on_interrupt modes[] = { STINT_JUMP, STINT_FAIL };
    for (size_t i = 0; i < 2; i++) {
        struct seen seen = { .answer = STINT_MEMPROF_INTERRUPT };
        stint_options options = STINT_OPTIONS_INIT;
        options.on_interrupt = modes[i];
        int blocks = 0;
        start(&seen);
        stint_free(keep(stint_malloc(LARGE_BLOCK))); /* in no task it interrupts nothing */
        stint_outcome outcome = run_task(allocate_until_stopped, &blocks, &options);
        stop_profile();
        assert_outcome(outcome, STINT_ERROR, STINT_REASON_TRACKER, EDQUOT);
        assert_int_equal(blocks, 1);
        assert_int_equal(seen.allocs, 2);
        assert_int_equal(seen.ends[0] + seen.ends[1] + seen.ends[2], 0);
    }
    assert_string_equal(stint_reason_name(STINT_REASON_TRACKER), "tracker");
}

typedef void *allocate_fn(int depth, size_t size);

/* Through pointers, so that the compiler makes one function of each and neither clones nor unrolls them. */
static allocate_fn recurse;
static allocate_fn innermost;
static allocate_fn *volatile next_call = recurse;
static allocate_fn *volatile last_call = innermost;

static void *innermost(int depth, size_t size)
{
    (void)depth;
    return keep(stint_malloc(size));
}

static void *recurse(int depth, size_t size)
{
    return keep((depth == 0 ? last_call : next_call)(depth - 1, size));
}

static void *copy_callstack(const stint_memprof_allocation *allocation, void *arg)
{
    struct seen *seen = arg;
    static void *frames[64];
    memcpy(frames, allocation->callstack, allocation->callstack_length * sizeof *frames);
    seen->last = *allocation;
    seen->last.callstack = frames;
    return NULL;
}

TEST(a_callstack_leads_to_the_caller)
{
    for (size_t depth = 0; depth <= 64; depth += 4) {
        struct seen seen = { 0 };
        stint_memprof_options options = options_for(&seen);
        options.tracker.alloc = copy_callstack;
        options.callstack_depth = depth;
        assert_int_equal(stint_memprof_start(&options), 0);
        stint_free(next_call(20, LARGE_BLOCK));
        stop_profile();
        assert_true(seen.last.callstack_length <= depth);
        if (depth == 0)
            continue;
        assert_true(seen.last.callstack_length >= (depth < 24 ? depth : 24));
        uintptr_t caller = (uintptr_t)seen.last.callstack[0] - (uintptr_t)innermost;
        assert_true(caller > 0 && caller < 200);
        for (size_t i = 2; i < 22 && i < seen.last.callstack_length; i++)
            assert_true((uintptr_t)seen.last.callstack[i] - (uintptr_t)recurse < 200);
    }
}

TEST_MAIN()
