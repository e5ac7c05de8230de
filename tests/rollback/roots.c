/* SPDX-License-Identifier: MIT
 *
 * Roots that a rollback finds and reports, so that their blocks stay. retained.c has what happens to these blocks
 * later. */
#include "support.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>

static char *in_data;
static char *more_in_data;
static _Thread_local char *in_thread;

/* A task that leaves blocks, lets a root point at the first, and fails. */
struct task {
    char **root;
    size_t size;      /* of each block */
    size_t count;     /* of blocks; 0: one */
    ptrdiff_t offset; /* of what the root points at */
    bool frees_it;
    const char *name;
};

/* The block of the root is written to its end: what lay there before could look like a pointer. */
static int leave_a_root(void *arg, void **value)
{
    const struct task *task = arg;
    (void)value;
    char *first = stint_malloc(task->size);
    memset(first, 0x5a, task->size);
    for (size_t i = 1; i < task->count; i++)
        *(char *)keep(stint_malloc(task->size)) = 0x5a;
    *task->root = first + task->offset;
    if (task->frees_it)
        stint_free(first);
    return 1;
}

static uint64_t run_it(const struct task *task)
{
    struct task copy = *task;
    stint_options options = STINT_OPTIONS_INIT;
    options.name = task->name;
    stint_outcome outcome = run_task(leave_a_root, &copy, &options);
    assert_int_equal(outcome.reason, STINT_REASON_FAILED);
    return outcome.usage.kept;
}

/* A rollback that looks at the kept heaps again. */
static uint64_t roll_back_something(void)
{
    static char *nothing;
    uint64_t kept = run_it(&(struct task){ .root = &nothing, .size = 64, .frees_it = true, .count = 2 });
    nothing = NULL;
    return kept;
}

static int forget_roots(void **state)
{
    (void)state;
    in_data = more_in_data = in_thread = NULL;
    roll_back_something();
    stint_roots_set_report(NULL, NULL);
    return stint_roots_set_scan(STINT_ROOT_SCAN_ALWAYS);
}

#define TEST_OF_ROOTS(name) TEST_WITH(name, forget_roots, forget_roots)

/* What the report says of the last root, and how often it was called. */
struct told {
    int times;
    stint_root root;
    char module[200];
    char symbol[100];
    char where[32];
    char task[32];
};

static void note(const stint_root *root, void *arg)
{
    struct told *told = arg;
    told->times++;
    told->root = *root;
    snprintf(told->module, sizeof told->module, "%s", root->module);
    snprintf(told->symbol, sizeof told->symbol, "%s", root->symbol != NULL ? root->symbol : "none");
    snprintf(told->where, sizeof told->where, "%s", root->where);
    snprintf(told->task, sizeof told->task, "%s", root->task != NULL ? root->task : "none");
    stint_free(keep(stint_malloc(100)));
}

static int take_first_base(struct dl_phdr_info *info, size_t size, void *base)
{
    (void)size;
    *(uintptr_t *)base = info->dlpi_addr;
    return 1;
}

TEST_OF_ROOTS(a_static_variable_is_a_root)
{
    struct told told = { .times = 0 };
    uintptr_t base = 0;
    dl_iterate_phdr(take_first_base, &base);
    stint_roots_set_report(note, &told);
    uint64_t kept = run_it(&(struct task){ .root = &in_data, .size = 1000, .name = "careless" });
    assert_in_range(kept, 1000, 1280);
    assert_int_equal(in_data[0], 0x5a);
    assert_int_equal(in_data[999], 0x5a);
    assert_int_equal(told.times, 1);
    assert_ptr_equal(told.root.address, &in_data);
    assert_string_equal(told.module, "");
    assert_string_equal(told.symbol, "none");
    assert_string_equal(told.where, "data");
    assert_string_equal(told.task, "careless");
    assert_int_equal(told.root.offset, (uintptr_t)&in_data - base);
    assert_int_equal(told.root.kept, kept);
}

TEST_OF_ROOTS(a_root_in_a_library_is_told_with_module_and_symbol)
{
    void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
    assert_non_null(libc);
    char **variable = dlsym(libc, "optarg");
    assert_non_null(variable);
    struct told told = { .times = 0 };
    stint_roots_set_report(note, &told);
    assert_true(run_it(&(struct task){ .root = variable, .size = 64 }) >= 64);
    *variable = NULL;
    assert_int_equal(told.times, 1);
    Dl_info info;
    assert_int_not_equal(dladdr(variable, &info), 0);
    assert_string_equal(told.module, info.dli_fname);
    assert_string_equal(told.symbol, "optarg");
    assert_string_equal(told.task, "none");
    dlclose(libc);
}

TEST_OF_ROOTS(a_thread_local_variable_is_a_root)
{
    struct told told = { .times = 0 };
    stint_roots_set_report(note, &told);
    assert_true(run_it(&(struct task){ .root = &in_thread, .size = 1000 }) >= 1000);
    assert_int_equal(in_thread[999], 0x5a);
    assert_int_equal(told.times, 1);
    assert_ptr_equal(told.root.address, &in_thread);
    assert_string_equal(told.module, "");
    assert_string_equal(told.where, "thread-local");
    assert_in_range(told.root.offset, 0, 4096);
}

/* By libc's own function, which no scope sees: otherwise the value would just be set back. */
static int set_past_the_scope(void *arg, void **value)
{
    (void)value;
    int (*set)(pthread_key_t, const void *);
    void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
    *(void **)&set = dlsym(libc, "pthread_setspecific");
    dlclose(libc);
    return set(*(pthread_key_t *)arg, stint_malloc(1000)) == 0 ? 1 : 2;
}

TEST_OF_ROOTS(a_specific_value_is_a_root)
{
    pthread_key_t key;
    assert_int_equal(pthread_key_create(&key, NULL), 0);
    struct told told = { .times = 0 };
    stint_roots_set_report(note, &told);
    stint_outcome outcome = run_task(set_past_the_scope, &key, NULL);
    assert_int_equal(outcome.error, 1);
    assert_in_range(outcome.usage.kept, 1000, 1280);
    assert_in_range(told.times, 1, 2); /* the array of musl's first thread is a variable, too */
    assert_null(told.root.address);
    assert_string_equal(told.where, "specific");
    assert_int_equal(told.root.offset, key);
    pthread_key_delete(key);
}

TEST_OF_ROOTS(a_root_is_told_once)
{
    struct told told = { .times = 0 };
    stint_roots_set_report(note, &told);
    for (int i = 0; i < 5; i++)
        assert_true(run_it(&(struct task){ .root = &in_data, .size = 1000 }) >= 1000);
    assert_int_equal(told.times, 1);
    run_it(&(struct task){ .root = &more_in_data, .size = 1000 });
    assert_int_equal(told.times, 2);
    assert_ptr_equal(told.root.address, &more_in_data);
    stint_roots_set_report(note, &told);
    run_it(&(struct task){ .root = &in_data, .size = 1000 });
    assert_int_equal(told.times, 3);
}

static int leave_two_roots(void *arg, void **value)
{
    (void)arg;
    (void)value;
    in_data = stint_malloc(100);
    more_in_data = stint_malloc(100);
    return 1;
}

TEST_OF_ROOTS(every_root_of_a_heap_is_told)
{
    struct told told = { .times = 0 };
    stint_roots_set_report(note, &told);
    assert_true(run_task(leave_two_roots, NULL, NULL).usage.kept >= 200);
    assert_int_equal(told.times, 2);
}

TEST_OF_ROOTS(a_pointer_into_a_block_is_a_root)
{
    static const ptrdiff_t offsets[] = { 1, 8, 500, 999 };
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++)
        assert_true(run_it(&(struct task){ .root = &in_data, .size = 1000, .offset = offsets[i] }) >= 1000);
    size_t large = 3 * MIB;
    assert_true(run_it(&(struct task){ .root = &in_data, .size = large, .offset = 2 * MIB + 123 }) >= large);
}

TEST_OF_ROOTS(a_pointer_to_a_freed_block_is_none)
{
    for (size_t size = 16; size <= 64 * KIB; size *= 2)
        assert_int_equal(run_it(&(struct task){ .root = &in_data, .size = size, .count = 10, .frees_it = true }), 0);
}

TEST_OF_ROOTS(no_root_no_kept_heap)
{
    struct told told = { .times = 0 };
    stint_roots_set_report(note, &told);
    char *on_the_stack;
    assert_int_equal(run_it(&(struct task){ .root = &on_the_stack, .size = 1000, .count = 10 }), 0);
    assert_int_equal(told.times, 0);
}

TEST_OF_ROOTS(only_what_a_root_leads_to_stays_of_a_large_heap)
{
    static char *roots[40];
    size_t before = resident();
    for (int i = 0; i < 40; i++) {
        uint64_t kept = run_it(&(struct task){ .root = &roots[i], .size = 4 * KIB, .count = 16384 });
        assert_in_range(kept, 4 * KIB, 8 * KIB);
        assert_int_equal(roots[i][4 * KIB - 1], 0x5a);
    }
    stint_malloc_trim(0);
    assert_in_range(resident(), 0, before + 64 * MIB); /* of 2.5 GiB */
    for (int i = 0; i < 40; i++)
        stint_free(roots[i]);
    memset(roots, 0, sizeof roots);
}

struct link {
    struct link *next;
    char rest[100];
};

#define LINKS 1000

/* Between any two of the list lies a block that nothing points to. */
static int leave_a_list(void *root, void **value)
{
    (void)value;
    for (int i = 0; i < LINKS; i++) {
        struct link *link = stint_malloc(sizeof *link);
        memset(link->rest, 0x5a, sizeof link->rest);
        link->next = *(struct link **)root;
        *(struct link **)root = link;
        *(char *)keep(stint_malloc(sizeof *link)) = 0x5a;
    }
    return 1;
}

TEST_OF_ROOTS(what_a_kept_block_points_to_is_kept)
{
    static struct link *list;
    stint_outcome outcome = run_task(leave_a_list, &list, NULL);
    assert_in_range(outcome.usage.kept, LINKS * sizeof *list, 2 * LINKS * sizeof *list - 1);
    int count = 0;
    for (const struct link *link = list; link != NULL; link = link->next, count++)
        assert_int_equal(link->rest[99], 0x5a);
    assert_int_equal(count, LINKS);
    list = NULL;
}

TEST_OF_ROOTS(pointers_into_several_heaps_keep_each)
{
    char **roots[] = { &in_data, &more_in_data, &in_thread };
    for (int i = 0; i < 3; i++)
        assert_in_range(run_it(&(struct task){ .root = roots[i], .size = 1024, .count = 100 }), 1024, 1280);
    for (int i = 0; i < 3; i++) {
        roll_back_something();
        for (int j = i; j < 3; j++)
            assert_int_equal((*roots[j])[999], 0x5a);
        *roots[i] = NULL;
    }
}

TEST_OF_ROOTS(one_of_very_many_blocks_is_kept)
{
    size_t bytes = GIB;
    assert_in_range(run_it(&(struct task){ .root = &in_data, .size = 256, .count = bytes / 256 }), 256, 320);
    assert_int_equal(in_data[255], 0x5a);
    in_data = NULL;
    assert_int_equal(roll_back_something(), 0);
    assert_int_equal(run_it(&(struct task){ .root = &in_data, .size = 256, .count = bytes / 256, .frees_it = true }),
                     0);
}

static void *run_sampled(void *found)
{
    static char *root;
    for (int i = 0; i < 3 * 64; i++) {
        struct task task = { .root = &root, .size = 1000 };
        stint_outcome outcome;
        stint_run(leave_a_root, &task, NULL, &outcome);
        if (outcome.usage.kept > 0)
            ++*(int *)found;
        root = NULL;
    }
    return NULL;
}

TEST_OF_ROOTS(the_scan_can_be_for_every_64th_rollback_or_none)
{
    pthread_t thread;
    int found = 0;
    assert_int_equal(stint_roots_set_scan(STINT_ROOT_SCAN_SAMPLED), 0);
    assert_int_equal(pthread_create(&thread, NULL, run_sampled, &found), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(found, 3);

    struct told told = { .times = 0 };
    stint_roots_set_report(note, &told);
    assert_int_equal(stint_roots_set_scan(STINT_ROOT_SCAN_NEVER), 0);
    assert_int_equal(run_it(&(struct task){ .root = &in_data, .size = 1000 }), 0);
    assert_int_equal(told.times, 0);
    in_data = NULL;

    for (int scan = -2; scan < 10; scan++) {
        bool known = scan >= STINT_ROOT_SCAN_ALWAYS && scan <= STINT_ROOT_SCAN_NEVER;
        assert_int_equal(stint_roots_set_scan((stint_root_scan)scan), known ? 0 : EINVAL);
    }
}

/* The scope inside fails, and its heap is kept; the scope outside is not touched by that. */
static int nest(void *arg, void **value)
{
    stint_outcome *inner = arg;
    struct task task = { .root = &in_data, .size = 1000 };
    *value = stint_strdup("of the scope outside");
    return stint_run(leave_a_root, &task, NULL, inner);
}

TEST_OF_ROOTS(a_scope_inside_keeps_its_own_heap)
{
    stint_outcome inner;
    stint_outcome outer = run_task(nest, &inner, NULL);
    assert_ok(outer);
    assert_int_equal(outer.usage.kept, 0);
    assert_int_equal(inner.reason, STINT_REASON_FAILED);
    assert_in_range(inner.usage.kept, 1000, 1280);
    assert_int_equal(in_data[999], 0x5a);
    assert_string_equal(outer.value, "of the scope outside");
    stint_free(outer.value);
}

static int leave_a_root_and_succeed(void *arg, void **value)
{
    leave_a_root(arg, value);
    return 0;
}

static int succeed_inside_and_fail(void *arg, void **value)
{
    (void)value;
    stint_outcome inner;
    keep(stint_malloc(50));
    return stint_run(leave_a_root_and_succeed, arg, NULL, &inner) == 0 && inner.status == STINT_OK ? 1 : 2;
}

TEST_OF_ROOTS(what_a_scope_inside_committed_is_kept_by_the_one_outside)
{
    struct task task = { .root = &in_data, .size = 1000 };
    stint_outcome outcome = run_task(succeed_inside_and_fail, &task, NULL);
    assert_int_equal(outcome.error, 1);
    assert_in_range(outcome.usage.kept, 1000, 1400);
    assert_int_equal(in_data[999], 0x5a);
}

/* The last one: from here on each page is asked for. All three lie in one piece of what is asked for at once. */
static _Alignas(65536) char guarded[3 * 4096];

TEST(a_page_that_cannot_be_read_is_passed_over_and_those_around_it_are_not)
{
    char **before = (char **)(void *)&guarded[4096 - sizeof(char *)];
    char **after = (char **)(void *)&guarded[2 * 4096];
    char **const roots[] = { before, after, &in_data };
    assert_int_equal(mprotect(&guarded[4096], 4096, PROT_NONE), 0);
    for (size_t i = 0; i < sizeof roots / sizeof *roots; i++) {
        struct task task = { .root = roots[i], .size = 1000 };
        stint_outcome outcome = run_task(leave_a_root, &task, NULL);
        assert_in_range(outcome.usage.kept, 1000, 1400);
        assert_int_equal((*roots[i])[999], 0x5a);
        *roots[i] = NULL;
    }
    assert_int_equal(mprotect(&guarded[4096], 4096, PROT_READ | PROT_WRITE), 0);
}

TEST_MAIN()
