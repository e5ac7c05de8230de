/* SPDX-License-Identifier: MIT
 *
 * Blocks of failed tasks that a root still points to. They, and all blocks that they lead to, are the process's until
 * they are freed, and their size is known. */
#include "support.h"

#include <semaphore.h>

#define SIZE 4000

/* A library's list of free blocks, with room for one. */
static void *spare;

static void *take_one(void)
{
    void *block = spare;
    spare = NULL;
    return block != NULL ? block : stint_malloc(SIZE);
}

static void give_one(void *block)
{
    if (spare != NULL)
        stint_free(block);
    else
        spare = block;
}

static int use_one_and_fail(void *arg, void **value)
{
    (void)value;
    give_one(memset(take_one(), 'x', SIZE));
    for (size_t i = 0; i < *(size_t *)arg; i++)
        keep(stint_malloc(100));
    return 1;
}

static int take_one_for_good(void *arg, void **value)
{
    (void)arg;
    *value = memset(take_one(), 'y', SIZE);
    return 0;
}

static int write_and_fail(void *arg, void **value)
{
    (void)value;
    for (size_t i = 0; i < *(size_t *)arg; i++)
        memset(keep(stint_malloc(SIZE)), 'z', SIZE);
    return 1;
}

static bool all_are(const char *bytes, char expected, size_t size)
{
    size_t same = 0;
    while (same < size && bytes[same] == expected)
        same++;
    return same == size;
}

/* However many the failed task has: few lie in the nursery, many in a heap of its own. */
static void check_a_list_of_free_blocks(size_t count)
{
    size_t before = stint_roots_kept_bytes();
    size_t others = 500;
    assert_true(run_task(use_one_and_fail, &count, NULL).usage.kept >= SIZE);
    stint_outcome outcome = run_task(take_one_for_good, NULL, NULL);
    assert_int_equal(outcome.status, STINT_OK);
    for (int i = 0; i < 3; i++)
        run_task(write_and_fail, &others, NULL);
    void *blocks[200];
    for (size_t i = 0; i < 200; i++)
        blocks[i] = memset(stint_malloc(SIZE), 'z', SIZE);
    assert_true(all_are(outcome.value, 'y', SIZE));
    for (size_t i = 0; i < 200; i++)
        stint_free(blocks[i]);
    assert_true(stint_roots_kept_bytes() >= before + SIZE);
    stint_free(outcome.value);
    assert_int_equal(stint_roots_kept_bytes(), before);
}

TEST(a_block_taken_from_a_librarys_list_is_its_new_owners)
{
    check_a_list_of_free_blocks(2);
    check_a_list_of_free_blocks(5000);
}

/* More than there are places for at once. */
TEST(the_bytes_that_are_kept_are_known_however_many_blocks_were_freed_before)
{
    size_t before = stint_roots_kept_bytes();
    size_t none = 0;
    for (unsigned i = 0; i < 20000; i++) {
        run_task(use_one_and_fail, &none, NULL);
        stint_free(take_one());
    }
    assert_int_equal(stint_roots_kept_bytes(), before);
}

struct user {
    sem_t took;
    sem_t go_on;
    bool whole;
};

static int use_one_meanwhile(void *arg, void **value)
{
    struct user *user = arg;
    (void)value;
    char *block = memset(take_one(), 'y', SIZE);
    sem_post(&user->took);
    sem_wait(&user->go_on);
    user->whole = all_are(block, 'y', SIZE);
    give_one(block);
    return 0;
}

static void *run_the_user(void *user)
{
    run_task(use_one_meanwhile, user, NULL);
    return NULL;
}

TEST(it_is_not_taken_from_a_task_that_runs_on_another_thread)
{
    static const size_t counts[] = { 2, 5000 };
    for (size_t i = 0; i < 2; i++) {
        size_t count = counts[i];
        struct user user = { .whole = false };
        sem_init(&user.took, 0, 0);
        sem_init(&user.go_on, 0, 0);
        run_task(use_one_and_fail, &count, NULL);
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, run_the_user, &user), 0);
        sem_wait(&user.took);
        for (int j = 0; j < 3; j++)
            run_task(write_and_fail, &count, NULL);
        sem_post(&user.go_on);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_true(user.whole);
        stint_free(take_one());
    }
}

/* --- What leads where --- */

struct node {
    struct node *next;
    uintptr_t tagged; /* a type in the upper bits */
    char name[48];
};

static struct node *list;

static struct node *add_node(struct node **to, size_t number)
{
    struct node *node = stint_malloc(sizeof *node);
    *node = (struct node){ .next = *to };
    snprintf(node->name, sizeof node->name, "node %zu", number);
    char *name = stint_strdup(node->name);
    node->tagged = (uintptr_t)name | (uintptr_t)0xfff9 << 48;
    *to = node;
    return node;
}

/* And as many that no root leads to. */
static int make_two_lists(void *arg, void **value)
{
    (void)value;
    struct node *other = NULL;
    for (size_t i = 0; i < *(size_t *)arg; i++) {
        add_node(&list, i);
        keep(add_node(&other, i));
    }
    return 1;
}

static const char *name_of(const struct node *node)
{
    return (const char *)(node->tagged & UINTPTR_MAX >> 16);
}

static void check_and_free_list(size_t count)
{
    size_t others = 500;
    for (int i = 0; i < 3; i++)
        run_task(write_and_fail, &others, NULL);
    while (list != NULL) {
        struct node *node = list;
        char expected[48];
        snprintf(expected, sizeof expected, "node %zu", --count);
        assert_string_equal(node->name, expected);
        assert_string_equal(name_of(node), expected);
        list = node->next;
        stint_free((void *)(uintptr_t)name_of(node));
        stint_free(node);
    }
    assert_int_equal(count, 0);
}

TEST(what_a_kept_block_leads_to_is_kept_and_nothing_else)
{
    static const size_t counts[] = { 1, 20, 5000 };
    for (size_t i = 0; i < 3; i++) {
        size_t count = counts[i];
        size_t before = stint_roots_kept_bytes();
        uint64_t kept = run_task(make_two_lists, &count, NULL).usage.kept;
        assert_in_range(kept, count * 64, count * (64 + 32));
        assert_int_equal(stint_roots_kept_bytes(), before + kept);
        check_and_free_list(count);
        assert_int_equal(stint_roots_kept_bytes(), before);
    }
}

static char **table;
static size_t filled;
static size_t room;

static void add_to_table(size_t number)
{
    if (filled == room) {
        room = room != 0 ? 2 * room : 4;
        table = stint_realloc(table, room * sizeof *table);
    }
    char name[32];
    snprintf(name, sizeof name, "entry %zu", number);
    table[filled++] = stint_strdup(name);
}

static int fill_table(void *arg, void **value)
{
    (void)arg;
    (void)value;
    for (size_t i = 0; i < 3; i++)
        add_to_table(i);
    return 1;
}

TEST(a_table_of_roots_may_move_to_the_process)
{
    size_t before = stint_roots_kept_bytes();
    size_t others = 500;
    run_task(fill_table, NULL, NULL);
    add_to_table(3);
    add_to_table(4); /* it is a block of the process's now, in which no root is looked for */
    for (int i = 0; i < 3; i++)
        run_task(write_and_fail, &others, NULL);
    for (size_t i = 0; i < filled; i++) {
        char name[32];
        snprintf(name, sizeof name, "entry %zu", i);
        assert_string_equal(table[i], name);
        stint_free(table[i]);
    }
    stint_free(table);
    table = NULL;
    assert_int_equal(stint_roots_kept_bytes(), before);
}

/* --- How much --- */

struct told {
    int times;
    int too_much;
    size_t last;
};

static void note(const stint_root *root, void *arg)
{
    struct told *told = arg;
    told->times++;
    told->too_much += root->too_much;
    told->last = root->kept_in_all;
}

static int keep_some(void *arg, void **value)
{
    (void)value;
    spare = stint_malloc(*(size_t *)arg);
    return 1;
}

TEST(the_report_says_when_more_is_kept_than_64_mib)
{
    struct told told = { .times = 0 };
    size_t size = 16 * MIB;
    void *blocks[20];
    stint_roots_set_report(note, &told);
    for (size_t i = 0; i < 20; i++) {
        run_task(keep_some, &size, NULL);
        blocks[i] = spare;
        spare = NULL;
    }
    assert_in_range(told.times, 4, 5); /* the first, the fifth or the one before, and at each doubling after that */
    assert_int_equal(told.too_much, told.times - 1);
    for (size_t i = 0; i < 20; i++)
        stint_free(blocks[i]);
    stint_roots_set_report(NULL, NULL);
}

TEST(a_free_on_any_thread_and_a_realloc_count)
{
    size_t before = stint_roots_kept_bytes();
    size_t size = 1000;
    run_task(keep_some, &size, NULL);
    assert_true(stint_roots_kept_bytes() >= before + size);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, free_it, spare), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(stint_roots_kept_bytes(), before);
    run_task(keep_some, &size, NULL);
    spare = stint_realloc(spare, 100000);
    assert_int_equal(stint_roots_kept_bytes(), before);
    stint_free(spare);
    spare = NULL;
}

TEST_MAIN()
