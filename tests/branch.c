/* SPDX-License-Identifier: MIT
 *
 * Branches: subtasks of one task on several threads share its outcome and its memory. */
#include "thieves.h"

static int start(void **state)
{
    (void)state;
    start_thieves(2);
    return 0;
}

static int end(void **state)
{
    (void)state;
    end_thieves();
    return 0;
}

#define CHUNK ((size_t)1000)
#define CHUNKS 100

struct list {
    struct list *next;
    unsigned char bytes[CHUNK];
};

static struct list *make_list(unsigned length, int mark)
{
    struct list *list = NULL;
    for (unsigned i = 0; i < length; i++) {
        struct list *item = stint_malloc(sizeof *item);
        if (item == NULL)
            return NULL;
        item->next = list;
        memset(item->bytes, mark, sizeof item->bytes);
        list = item;
    }
    return list;
}

/* How many items hold what was written. */
static unsigned take_apart(struct list *list, int mark)
{
    unsigned good = 0;
    while (list != NULL) {
        struct list *next = list->next;
        bool whole = true;
        for (size_t i = 0; i < CHUNK; i++)
            whole = whole && list->bytes[i] == mark;
        good += whole;
        stint_free(list);
        list = next;
    }
    return good;
}

static int make_chunks(void *arg, void **value)
{
    *value = make_list(CHUNKS, *(int *)arg);
    return 0;
}

struct stolen_lists {
    struct list *lists[2];
    int code;
    bool stolen;
};

static int steal_one_list(void *arg, void **value)
{
    struct stolen_lists *result = arg;
    int marks[] = { 1, 2 };
    struct fork fork;
    (void)value;
    fork_start(&fork, make_chunks, &marks[1]);
    result->stolen = await_theft(&fork);
    result->lists[0] = make_list(CHUNKS, marks[0]);
    void *stolen = NULL;
    int error = fork_join(&fork, &stolen);
    result->lists[1] = stolen;
    return error != 0 ? error : result->code;
}

static void test_what_a_stolen_subtask_leaves_is_the_tasks(void **state)
{
    (void)state;
    for (int round = 0; round < 50; round++) {
        struct stolen_lists result = { .code = 0 };
        stint_outcome outcome = run_task(steal_one_list, &result, NULL);
        assert_ok(outcome);
        assert_true(result.stolen);
        assert_int_equal(outcome.usage.allocated, 2 * CHUNKS * ((sizeof(struct list) + 15) / 16 * 16));
        assert_true(outcome.usage.peak >= 2 * CHUNKS * CHUNK);
        assert_int_equal(take_apart(result.lists[0], 1), CHUNKS);
        assert_int_equal(take_apart(result.lists[1], 2), CHUNKS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_a_stolen_subtask_leaves_is_the_tasks, start, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
