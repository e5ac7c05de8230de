/* SPDX-License-Identifier: MIT
 *
 * A mapping of a task counts for its limits, is unmapped at a rollback, and stays after a commit. */
#include "mappings.h"

#include <link.h>
#include <stdatomic.h>

static int mappings_of_the_process(void)
{
    int count = 0;
    int c;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps != NULL && (c = fgetc(maps)) != EOF)
        count += c == '\n';
    fclose(maps);
    return count;
}

static int map_some(void *arg, void **value)
{
    struct work *work = arg;
    (void)value;
    work->made = map_memory(work->size);
    if (work->made == MAP_FAILED) {
        work->seen = errno;
        return 0;
    }
    memset(work->made, 1, work->size);
    stint_usage_now(NULL, &work->left);
    return work->error;
}

/* --- Limits --- */

TEST(a_gibibyte_is_refused_under_a_limit_of_64_mebibytes)
{
    for (int mode = STINT_JUMP; mode <= STINT_UNWIND; mode++) {
        struct work work = { .size = GIB };
        stint_outcome outcome = run_limited(map_some, &work, 0, 64 * MIB, (stint_on_interrupt)mode);
        assert_outcome(outcome, STINT_ERROR, STINT_REASON_MEMORY_LIMIT, ENOMEM);
        assert_int_equal(work.seen, mode == STINT_FAIL ? ENOMEM : 0);
        work = (struct work){ .size = GIB };
        outcome = run_limited(map_some, &work, 64 * MIB, 0, (stint_on_interrupt)mode);
        assert_outcome(outcome, STINT_ERROR, STINT_REASON_ALLOCATION_LIMIT, ENOMEM);
        assert_int_equal(work.seen, mode == STINT_FAIL ? ENOMEM : 0);
    }
}

TEST(both_limits_are_exact_to_the_page)
{
    struct work work = { .size = 10 * MIB };
    stint_outcome outcome = run_limited(map_some, &work, 10 * MIB, 10 * MIB, STINT_JUMP);
    assert_ok(outcome);
    assert_int_equal(outcome.usage.allocated, 10 * MIB);
    assert_int_equal(outcome.usage.peak, 10 * MIB);
    assert_int_equal(outcome.usage.committed, 10 * MIB);
    munmap(work.made, work.size);
    outcome = run_limited(map_some, &work, 0, 10 * MIB - 1, STINT_JUMP);
    assert_int_equal(outcome.reason, STINT_REASON_MEMORY_LIMIT);
    outcome = run_limited(map_some, &work, 10 * MIB - 1, 0, STINT_JUMP);
    assert_int_equal(outcome.reason, STINT_REASON_ALLOCATION_LIMIT);
}

static int map_for_ever(void *arg, void **value)
{
    struct work *work = arg;
    (void)value;
    for (;;) {
        char *made = map_memory(work->size);
        if (made == MAP_FAILED)
            return errno;
        made[0] = 1;
        work->made = made;
    }
}

TEST(many_small_ones_come_to_the_limit_and_none_is_left)
{
    struct work work = { .size = 2 * PAGE };
    int before = mappings_of_the_process();
    for (int i = 0; i < 20; i++) {
        stint_outcome outcome = run_limited(map_for_ever, &work, 0, 4 * MIB, i % 2 == 0 ? STINT_JUMP : STINT_FAIL);
        assert_int_equal(outcome.reason, STINT_REASON_MEMORY_LIMIT);
        assert_in_range(outcome.usage.peak, 4 * MIB - 2 * PAGE, 4 * MIB + 64 * KIB);
        assert_true(is_gone(work.made, work.size));
    }
    assert_in_range(mappings_of_the_process(), before - 2, before + 8);
}

static int map_and_unmap(void *arg, void **value)
{
    struct work *work = arg;
    (void)value;
    for (int i = 0; i < 1000; i++) {
        char *made = map_memory(work->size);
        if (made == MAP_FAILED || munmap(made, work->size) != 0)
            return errno;
    }
    return 0;
}

TEST(what_is_unmapped_does_not_count_for_the_memory_limit)
{
    struct work work = { .size = MIB };
    assert_ok(run_limited(map_and_unmap, &work, 0, 2 * MIB, STINT_JUMP));
    stint_outcome outcome = run_limited(map_and_unmap, &work, 100 * MIB, 2 * MIB, STINT_JUMP);
    assert_int_equal(outcome.reason, STINT_REASON_ALLOCATION_LIMIT);
}

static void *unmap_elsewhere(void *arg)
{
    const struct work *work = arg;
    return munmap(work->made, work->size) == 0 ? arg : NULL;
}

static int have_another_unmap(void *arg, void **value)
{
    struct work *work = arg;
    pthread_t thread;
    void *done;
    (void)value;
    for (int i = 0; i < 20; i++) {
        work->made = map_memory(work->size);
        if (work->made == MAP_FAILED || pthread_create(&thread, NULL, unmap_elsewhere, work) != 0)
            return errno;
        pthread_join(thread, &done);
        if (done == NULL)
            return EIO;
    }
    stint_usage_now(NULL, &work->left);
    return 0;
}

TEST(nor_does_what_another_thread_has_unmapped)
{
    struct work work = { .size = MIB };
    stint_outcome outcome = run_limited(have_another_unmap, &work, 0, 2 * MIB, STINT_JUMP);
    assert_ok(outcome);
    assert_in_range(work.left.memory, 2 * MIB - 64 * KIB, 2 * MIB);
}

TEST(an_account_is_charged)
{
    stint_account *account;
    stint_account_limits limits = STINT_ACCOUNT_LIMITS_INIT;
    limits.memory = 8 * MIB;
    assert_int_equal(stint_account_create(NULL, &limits, &account), 0);
    stint_options options = STINT_OPTIONS_INIT;
    options.account = account;
    struct work work = { .size = 16 * MIB };
    stint_outcome outcome = run_task(map_some, &work, &options);
    assert_outcome(outcome, STINT_ERROR, STINT_REASON_ACCOUNT, EDQUOT);
    work = (struct work){ .size = 4 * MIB, .error = EIO };
    assert_int_equal(run_task(map_some, &work, &options).reason, STINT_REASON_FAILED);
    assert_true(is_gone(work.made, work.size));
    stint_account_release(account);
}

/* --- What becomes of them --- */

TEST(an_error_unmaps_and_ok_does_not)
{
    struct work work = { .size = MIB, .error = EIO };
    assert_int_equal(run(map_some, &work).reason, STINT_REASON_FAILED);
    assert_true(is_gone(work.made, work.size));
    work.error = 0;
    assert_ok(run(map_some, &work));
    assert_true(is_there(work.made, work.size));
    assert_int_equal(work.made[work.size - 1], 1);
    assert_int_equal(munmap(work.made, work.size), 0);
}

/* Its own, and that of a scope inside it. */
static int map_in_both(void *arg, void **value)
{
    struct work *work = arg;
    struct work inner = { .size = work->size, .error = work->seen };
    stint_outcome outcome;
    (void)value;
    work->made = map_memory(work->size);
    stint_run(map_some, &inner, NULL, &outcome);
    work->more = inner.made;
    stint_usage_now(NULL, &work->left);
    return work->error;
}

TEST(an_inner_scope_that_ends_ok_leaves_its_own_to_the_outer_one)
{
    struct work work = { .size = MIB, .error = EIO };
    assert_int_equal(run(map_in_both, &work).reason, STINT_REASON_FAILED);
    assert_int_equal(work.left.memory, 62 * MIB);
    assert_true(is_gone(work.made, work.size));
    assert_true(is_gone(work.more, work.size));
    work.error = 0;
    assert_ok(run(map_in_both, &work));
    assert_true(is_there(work.made, work.size) && is_there(work.more, work.size));
    munmap(work.made, work.size);
    munmap(work.more, work.size);
    work.seen = EIO; /* the inner one's */
    assert_ok(run(map_in_both, &work));
    assert_int_equal(work.left.memory, 63 * MIB);
    assert_true(is_there(work.made, work.size));
    assert_true(is_gone(work.more, work.size));
    munmap(work.made, work.size);
}

static int map_kept(void *arg, void **value)
{
    struct work *work = arg;
    (void)value;
    stint_keep_begin();
    work->made = map_memory(work->size);
    stint_keep_end();
    stint_usage_now(NULL, &work->left);
    return EIO;
}

TEST(what_is_mapped_to_be_kept_is_the_process_s)
{
    struct work work = { .size = MIB };
    stint_outcome outcome = run(map_kept, &work);
    assert_int_equal(outcome.usage.allocated, MIB);
    assert_int_equal(work.left.memory, 64 * MIB);
    assert_true(is_there(work.made, work.size));
    munmap(work.made, work.size);
}

static int map_masked(void *arg, void **value)
{
    struct work *work = arg;
    (void)value;
    stint_mask();
    work->made = map_memory(work->size);
    work->more = map_memory(work->size);
    work->seen = errno;
    stint_unmask();
    return 0;
}

TEST(a_mapping_under_a_mask_draws_on_the_grace)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.memory = MIB;
    options.grace = 3 * MIB;
    struct work work = { .size = 2 * MIB };
    stint_outcome outcome = run_task(map_masked, &work, &options);
    assert_outcome(outcome, STINT_ERROR, STINT_REASON_MEMORY_LIMIT, ENOMEM);
    assert_ptr_not_equal(work.made, MAP_FAILED);
    assert_ptr_equal(work.more, MAP_FAILED);
    assert_int_equal(work.seen, ENOMEM);
    assert_true(is_gone(work.made, work.size));
}

static _Atomic(char *) static_cell;

/* In a variable; a pointer to a block of the heap is in the pages, and one to other pages in that. */
static int map_and_tell(void *arg, void **value)
{
    struct work *work = arg;
    (void)value;
    char *forgotten = map_memory(work->size);
    work->made = map_memory(work->size);
    work->more = map_memory(work->size);
    char **block = malloc(sizeof *block);
    *block = work->more;
    *(char ***)(void *)(work->made + 8 * PAGE) = block;
    if (work->cell != NULL)
        atomic_store((_Atomic(char *) *)work->cell, work->made);
    work->cell = forgotten;
    return EIO;
}

/* An address in which nothing is, but which a variable of the loader's that was zero when it started holds since. */
static int find_stale(struct dl_phdr_info *info, size_t size, void *found)
{
    (void)size;
    for (int i = 0; i < info->dlpi_phnum && strstr(info->dlpi_name, "/ld-linux") != NULL; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD || (segment->p_flags & PF_W) == 0)
            continue;
        uintptr_t at = (info->dlpi_addr + segment->p_vaddr + segment->p_filesz + 7) & ~(uintptr_t)7;
        uintptr_t end = info->dlpi_addr + segment->p_vaddr + segment->p_memsz;
        for (; at + sizeof(uintptr_t) <= end; at += sizeof(uintptr_t)) {
            uintptr_t word = *(volatile uintptr_t *)at;
            if (word > 64 * MIB && word % PAGE == 0 && word < (uintptr_t)1 << 47 && is_gone((void *)word, PAGE))
                *(void **)found = (void *)word;
        }
    }
    return 0;
}

static int map_there(void *place, void **value)
{
    *value = mmap(place, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    return EIO;
}

TEST(what_the_loader_remembers_of_files_keeps_nothing_that_is_mapped_in_their_place)
{
    void *stale = NULL;
    dl_iterate_phdr(find_stale, &stale);
    if (stale == NULL) /* not in every glibc */
        skip_because("this glibc leaves nothing stale there");
    stint_outcome outcome = run_task(map_there, stale, NULL);
    assert_outcome(outcome, STINT_ERROR, STINT_REASON_FAILED, EIO);
    assert_int_equal(outcome.usage.kept, 0);
    assert_true(is_gone(stale, PAGE));
}

TEST(what_a_variable_leads_to_is_kept)
{
    if (lack_of_remote_reads() != NULL)
        skip_because(lack_of_remote_reads());
    struct work work = { .size = MIB, .cell = &static_cell };
    size_t kept_before = stint_roots_kept_bytes();
    stint_outcome outcome = run(map_and_tell, &work);
    assert_in_range(outcome.usage.kept, 2 * MIB + 8, 2 * MIB + 64);
    assert_in_range(stint_roots_kept_bytes(), kept_before + 2 * MIB + 8, kept_before + 2 * MIB + 64);
    assert_true(is_there(work.made, work.size) && is_there(work.more, work.size));
    assert_true(is_gone(work.cell, work.size));
    assert_ptr_equal(**(char ***)(void *)(work.made + 8 * PAGE), work.more);
    static_cell = NULL;
    free(*(char ***)(void *)(work.made + 8 * PAGE));
    munmap(work.made, work.size);
    munmap(work.more, work.size);
    assert_int_equal(stint_roots_kept_bytes(), kept_before);
    work.cell = NULL;
    assert_int_equal(run(map_and_tell, &work).usage.kept, 0);
    assert_true(is_gone(work.made, work.size) && is_gone(work.more, work.size));
}

/* --- In a given place --- */

static int map_over(void *arg, void **value)
{
    struct work *work = arg;
    const int fixed = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    (void)value;
    work->made = map(8 * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS);
    if (mmap(work->made + MIB, MIB, PROT_READ | PROT_WRITE, fixed, -1, 0) != work->made + MIB ||
        mmap(work->made + 3 * MIB, MIB, PROT_READ | PROT_WRITE, fixed, -1, 0) != work->made + 3 * MIB ||
        mmap(work->made + MIB, MIB / 2, PROT_NONE, fixed, -1, 0) != work->made + MIB)
        return errno;
    /* In a reservation of the process's. */
    if (mmap(work->more, MIB, PROT_READ | PROT_WRITE, fixed, -1, 0) != work->more)
        return errno;
    stint_usage_now(NULL, &work->left);
    return EIO;
}

TEST(a_place_in_a_reservation_is_whose_that_was)
{
    struct work work = { .more = map(2 * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS) };
    run(map_over, &work);
    assert_int_equal(work.left.memory, 64 * MIB - 3 * MIB / 2);
    assert_true(is_gone(work.made, 8 * MIB));
    assert_true(is_there(work.more, 2 * MIB));
    work.more[0] = 1;
    munmap(work.more, 2 * MIB);
}

static int map_in_a_free_place(void *arg, void **value)
{
    struct work *work = arg;
    (void)value;
    work->made = mmap(work->more, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    return EIO;
}

TEST(a_free_place_is_the_task_s)
{
    struct work work = { .more = map_memory(MIB) };
    munmap(work.more, MIB);
    run(map_in_a_free_place, &work);
    assert_ptr_equal(work.made, work.more);
    assert_true(is_gone(work.made, MIB));
}

/* --- fork(2), and threads that end --- */

static int fork_with_one(void *arg, void **value)
{
    struct work *work = arg;
    (void)value;
    work->made = map_memory(work->size);
    pid_t child = fork();
    if (child == 0) {
        char *more = map_memory(work->size);
        bool is_well = munmap(work->made, work->size) == 0 && more != MAP_FAILED && munmap(more, work->size) == 0;
        _exit(is_well ? 0 : 1);
    }
    waitpid(child, &work->seen, 0);
    return EIO;
}

TEST(a_child_has_its_own)
{
    struct work work = { .size = MIB };
    run(fork_with_one, &work);
    assert_int_equal(work.seen, 0);
    assert_true(is_gone(work.made, work.size));
}

static atomic_bool enough;

static int map_on_and_on(void *arg, void **value)
{
    (void)arg;
    (void)value;
    while (!atomic_load(&enough))
        munmap(map_memory(MIB), MIB);
    return EIO;
}

static void *map_beside(void *arg)
{
    stint_outcome outcome;
    stint_run(map_on_and_on, arg, NULL, &outcome);
    return NULL;
}

/* The other thread may be inside any call. */
static int fork_often(void *arg, void **value)
{
    struct work *work = arg;
    (void)value;
    work->made = map_memory(work->size);
    for (size_t i = 0; i < 200 && work->seen == 0; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(10);
            munmap(map_memory(MIB), MIB);
            _exit(mprotect(work->made, work->size, PROT_READ | PROT_WRITE));
        }
        waitpid(child, &work->seen, 0);
    }
    return EIO;
}

TEST(a_child_is_not_kept_by_what_other_threads_were_doing)
{
    struct work work = { .size = MIB };
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, map_beside, NULL), 0);
    run(fork_often, &work);
    atomic_store(&enough, true);
    pthread_join(thread, NULL);
    assert_int_equal(work.seen, 0);
}

static int end_the_thread(void *arg, void **value)
{
    struct work *work = arg;
    (void)value;
    work->made = map_memory(work->size);
    pthread_exit(NULL);
}

static void *run_to_the_end(void *arg)
{
    stint_outcome outcome;
    stint_run(end_the_thread, arg, NULL, &outcome);
    return NULL;
}

TEST(a_thread_that_ends_in_its_task_leaves_none)
{
    struct work work = { .size = MIB };
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run_to_the_end, &work), 0);
    pthread_join(thread, NULL);
    assert_true(is_gone(work.made, work.size));
}

TEST_MAIN()
