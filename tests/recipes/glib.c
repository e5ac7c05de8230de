/* SPDX-License-Identifier: MIT
 *
 * The recipe for GLib, as docs/recipes.md gives it: STINT_JUMP, because GLib ends the process when an allocation is
 * refused; so it has to be allowed; G_SLICE=always-malloc, because its slices are shared by all tasks; and nothing that
 * GLib keeps for the process made inside a task. */
#include "../support.h"

#include <glib.h>
#include <signal.h>
#include <sys/resource.h>

#define RUNS 3000

static int use_containers(void *argument, void **value)
{
    (void)value;
    GHashTable *table = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    for (guint i = 0; i < 300; i++)
        g_hash_table_insert(table, g_strdup_printf("key %u", i * 7), GUINT_TO_POINTER(i));
    GString *text = g_string_new(NULL);
    GList *keys = g_list_sort(g_hash_table_get_keys(table), (GCompareFunc)strcmp);
    for (const GList *key = keys; key != NULL; key = key->next)
        g_string_append_printf(text, "%s=%u;", (const char *)key->data,
                               GPOINTER_TO_UINT(g_hash_table_lookup(table, key->data)));
    *(guint *)argument = g_str_hash(text->str);
    g_list_free(keys);
    g_string_free(text, TRUE);
    g_hash_table_destroy(table);
    return 0;
}

TEST(containers_are_stopped_anywhere_by_a_jump)
{
    guint right = 0;
    guint sum = 0;
    stint_outcome whole = run_task(use_containers, &right, NULL);
    assert_ok(whole);
    uint64_t random = 42;
    size_t before = 0;
    for (int i = 0; i < RUNS; i++) {
        stint_options options = STINT_OPTIONS_INIT;
        options.budget.allocation = 1 + random_below(&random, whole.usage.allocated - 1);
        stint_outcome outcome = run_task(use_containers, &sum, &options);
        assert_limit_passed(outcome);
        assert_int_equal(outcome.usage.kept, 0);
        if (i == RUNS / 10)
            before = resident();
    }
    assert_in_range(resident(), 0, before + 4 * MIB);
    assert_ok(run_task(use_containers, &sum, NULL));
    assert_int_equal(sum, right);
}

/* A list that grows until it is stopped. */
static int fill(void *argument, void **value)
{
    (void)value;
    GQueue *queue = argument;
    while (queue->length < 1000000)
        g_queue_push_tail(queue, g_malloc(1000));
    return 0;
}

TEST(a_memory_limit_stops_a_growing_list)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.memory = MIB;
    for (int i = 0; i < 20; i++) {
        GQueue queue = G_QUEUE_INIT;
        assert_outcome(run_task(fill, &queue, &options), STINT_ERROR, STINT_REASON_MEMORY_LIMIT, ENOMEM);
    }
}

/* Why it must be a jump. */
TEST(a_refused_allocation_ends_the_process_or_uses_up_the_stack)
{
    pid_t child = fork();
    if (child == 0) {
        const struct rlimit no_core = { 0, 0 };
        setrlimit(RLIMIT_CORE, &no_core);
        if (freopen("/dev/null", "w", stderr) == NULL)
            _exit(126);
        signal(SIGSEGV, SIG_DFL); /* its report of the failure allocates, fails, is reported, and so on */
        signal(SIGTRAP, SIG_DFL);
        signal(SIGABRT, SIG_DFL);
        stint_options options = STINT_OPTIONS_INIT;
        options.budget.memory = MIB;
        options.on_interrupt = STINT_FAIL;
        stint_outcome outcome;
        GQueue queue = G_QUEUE_INIT;
        int error = stint_run(fill, &queue, &options, &outcome);
        _exit(error == 0 && outcome.reason == STINT_REASON_MEMORY_LIMIT && queue.length < 2000 ? 3 : 4);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    /* By GLib's version: 2.84 gives up, 2.74 reports the failure for as long as there is a stack. */
    assert_true(WIFSIGNALED(status));
    assert_true(WTERMSIG(status) == SIGABRT || WTERMSIG(status) == SIGTRAP || WTERMSIG(status) == SIGSEGV);
}

int main(int argc, char **argv)
{
    (void)argc;
    /* GLib looks when it is loaded. */
    const char *slices = getenv("G_SLICE");
    if (slices == NULL || strcmp(slices, "always-malloc") != 0) {
        setenv("G_SLICE", "always-malloc", 1);
        execv("/proc/self/exe", argv);
        return 1;
    }
    if (stint_module_allow("libglib-2.0") != 0)
        return 1;
    return run_all_tests(NULL, NULL);
}
