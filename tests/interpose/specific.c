/* SPDX-License-Identifier: MIT
 *
 * Thread-specific values: what a rolled-back scope set gets its old value back. */
#include "support.h"

#include <threads.h>

#define KEYS 40 /* more than libc keeps in a thread's own block */

static pthread_key_t keys[KEYS];
static char old_values[KEYS];
static char new_values[KEYS];

static int make_keys(void **state)
{
    (void)state;
    for (unsigned i = 0; i < KEYS; i++) {
        if (pthread_key_create(&keys[i], NULL) != 0 || pthread_setspecific(keys[i], i % 2 == 0 ? &old_values[i] : NULL))
            return -1;
    }
    return 0;
}

static int delete_keys(void **state)
{
    (void)state;
    for (unsigned i = 0; i < KEYS; i++)
        pthread_key_delete(keys[i]);
    return 0;
}

static void assert_values(bool changed)
{
    for (unsigned i = 0; i < KEYS; i++) {
        void *old = i % 2 == 0 ? &old_values[i] : NULL;
        assert_ptr_equal(pthread_getspecific(keys[i]), changed ? &new_values[i] : old);
    }
}

static int set_all(void *code, void **value)
{
    (void)value;
    for (unsigned i = 0; i < KEYS; i++) {
        pthread_setspecific(keys[i], &new_values[KEYS - 1 - i]);
        if (tss_set(keys[i], &new_values[i]) != thrd_success)
            return -1;
    }
    return *(int *)code;
}

static int set_all_and_allocate(void *code, void **value)
{
    if (set_all(code, value) == 0) {
        while (keep(stint_malloc(1000)) != NULL)
            ;
    }
    return 0;
}

TEST_WITH(a_scope_that_is_not_ok_gives_the_old_values_back, make_keys, delete_keys)
{
    int code = 3;
    assert_int_equal(run_task(set_all, &code, NULL).error, 3);
    assert_values(false);
    code = 0;
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.allocation = 64 * KIB;
    for (int mode = STINT_JUMP; mode <= STINT_FAIL; mode++) {
        options.on_interrupt = (stint_on_interrupt)mode;
        assert_limit_passed(run_task(set_all_and_allocate, &code, &options));
        assert_values(false);
    }
}

TEST_WITH(an_ok_scope_leaves_its_values, make_keys, delete_keys)
{
    int code = 0;
    assert_ok(run_task(set_all, &code, NULL));
    assert_values(true);
}

static int set_backwards(void *code, void **value)
{
    (void)value;
    for (unsigned i = KEYS; i > 0; i--)
        pthread_setspecific(keys[i - 1], &old_values[i - 1]);
    return *(int *)code;
}

/* It lies in the same place. */
TEST_WITH(a_scope_behind_an_ok_one_gives_that_one_s_values_back, make_keys, delete_keys)
{
    int code = 0;
    assert_ok(run_task(set_all, &code, NULL));
    code = EIO;
    assert_int_equal(run_task(set_backwards, &code, NULL).error, EIO);
    assert_values(true);
}

static int set_on_and_on(void *code, void **value)
{
    (void)value;
    size_t before = resident();
    for (unsigned i = 0; i < 1000000; i++)
        pthread_setspecific(keys[i % 2], &new_values[i % KEYS]);
    return resident() < before + 16 * MIB ? *(int *)code : ENOMEM;
}

TEST_WITH(setting_a_key_again_and_again_takes_no_memory, make_keys, delete_keys)
{
    int code = EIO;
    assert_int_equal(run_task(set_on_and_on, &code, NULL).error, EIO);
    assert_values(false);
}

struct nest {
    int inner_code;
    int outer_code;
    bool outer_sets; /* first */
};

static int set_inside(void *arg, void **value)
{
    struct nest *nest = arg;
    int nothing = 0;
    if (nest->outer_sets)
        set_all(&nothing, value);
    stint_outcome outcome;
    stint_run(set_all, &nest->inner_code, NULL, &outcome);
    return nest->outer_code;
}

TEST_WITH(values_of_an_inner_scope_end_as_both_scopes_do, make_keys, delete_keys)
{
    for (unsigned i = 0; i < 8; i++) {
        struct nest nest = { .inner_code = i & 1, .outer_code = (i >> 1) & 1, .outer_sets = i >> 2 };
        run_task(set_inside, &nest, NULL);
        assert_values(nest.outer_code == 0 && (nest.inner_code == 0 || nest.outer_sets));
        delete_keys(NULL);
        assert_int_equal(make_keys(NULL), 0);
    }
}

static int keep_one(void *arg, void **value)
{
    (void)value;
    pthread_setspecific(keys[1], &new_values[1]);
    stint_keep_begin();
    pthread_setspecific(keys[0], &new_values[0]);
    stint_keep_end();
    return *(int *)arg;
}

/* As a library sets it that makes its thread's state there. */
TEST_WITH(a_value_that_is_set_for_the_process_stays, make_keys, delete_keys)
{
    int code = EIO;
    assert_int_equal(run_task(keep_one, &code, NULL).error, EIO);
    assert_ptr_equal(pthread_getspecific(keys[0]), &new_values[0]);
    assert_null(pthread_getspecific(keys[1]));
}

static int delete_and_make_again(void *arg, void **value)
{
    pthread_key_t key;
    pthread_key_t again;
    (void)value;
    char *mark = arg;
    if (pthread_key_create(&key, NULL) != 0 || pthread_setspecific(key, &mark[0]) != 0)
        return 1;
    pthread_key_delete(key);
    if (pthread_key_create(&again, NULL) != 0)
        return 2;
    if (again != key) /* the number came back as another key */
        return 3;
    if (pthread_setspecific(again, &mark[1]) != 0)
        return 4;
    pthread_key_t *out = stint_malloc(sizeof again);
    *out = again;
    *value = out;
    return 0;
}

static int delete_in_a_nest(void *arg, void **value)
{
    stint_outcome inner;
    if (stint_run(delete_and_make_again, arg, NULL, &inner) != 0 || inner.status != STINT_OK)
        return 1;
    *value = inner.value;
    tss_delete(*(pthread_key_t *)inner.value);
    return 99;
}

TEST(a_key_that_is_deleted_in_between_is_forgotten)
{
    char mark[2];
    stint_outcome outcome = run_task(delete_and_make_again, mark, NULL);
    assert_ok(outcome);
    pthread_key_t key = *(pthread_key_t *)outcome.value;
    stint_free(outcome.value);
    assert_ptr_equal(pthread_getspecific(key), &mark[1]);
    pthread_key_delete(key);

    assert_int_equal(run_task(delete_in_a_nest, mark, NULL).error, 99);
    assert_int_equal(pthread_key_create(&key, NULL), 0);
    assert_null(pthread_getspecific(key));
    pthread_key_delete(key);
}

static int set_and_delete(void *arg, void **value)
{
    pthread_key_t *key = arg;
    pthread_key_t again;
    (void)value;
    pthread_setspecific(*key, keep(&again));
    pthread_key_delete(*key);
    return pthread_key_create(&again, NULL) == 0 && again == *key ? EIO : 0;
}

static int set_around(void *arg, void **value)
{
    stint_outcome outcome;
    (void)value;
    pthread_setspecific(*(pthread_key_t *)arg, keep(&outcome));
    return stint_run(set_and_delete, arg, NULL, &outcome) == 0 && outcome.error == EIO ? EIO : 0;
}

TEST(it_is_forgotten_by_each_scope_that_has_set_it)
{
    pthread_key_t key;
    assert_int_equal(pthread_key_create(&key, NULL), 0);
    pthread_setspecific(key, &key);
    assert_int_equal(run_task(set_around, &key, NULL).error, EIO);
    assert_null(pthread_getspecific(key));
    pthread_key_delete(key);
}

static void *delete_and_find_again(void *arg)
{
    pthread_key_t *key = arg;
    pthread_key_t again;
    pthread_key_delete(*key);
    if (pthread_key_create(&again, NULL) == 0 && again != *key)
        *key = PTHREAD_KEYS_MAX;
    return NULL;
}

/* The old value is another key's by the time of the rollback. */
static int have_deleted_elsewhere(void *arg, void **value)
{
    pthread_key_t *key = arg;
    pthread_t thread;
    (void)value;
    pthread_setspecific(*key, keep(&thread));
    if (pthread_create(&thread, NULL, delete_and_find_again, key) == 0)
        pthread_join(thread, NULL);
    return EIO;
}

TEST(so_is_one_that_another_thread_deletes)
{
    pthread_key_t key;
    assert_int_equal(pthread_key_create(&key, NULL), 0);
    pthread_setspecific(key, &key);
    assert_int_equal(run_task(have_deleted_elsewhere, &key, NULL).error, EIO);
    assert_int_not_equal(key, PTHREAD_KEYS_MAX);
    assert_null(pthread_getspecific(key));
    pthread_key_delete(key);
}

static int set_a_deleted_key(void *arg, void **value)
{
    (void)value;
    return pthread_setspecific(*(pthread_key_t *)arg, arg);
}

TEST(a_bad_key_is_refused_as_ever)
{
    pthread_key_t key;
    assert_int_equal(pthread_key_create(&key, NULL), 0);
    assert_int_equal(pthread_key_delete(key), 0);
    assert_int_equal(pthread_key_delete(key), EINVAL);
    assert_int_equal(pthread_setspecific(key, &key), EINVAL);
    assert_int_equal(tss_set(key, &key), thrd_error);
    assert_int_equal(run_task(set_a_deleted_key, &key, NULL).error, EINVAL);
}

TEST_MAIN()
