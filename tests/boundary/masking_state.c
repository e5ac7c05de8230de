/* SPDX-License-Identifier: MIT
 *
 * Nothing dangles: what libraries keep of a rolled-back task. A heap that a root points into stays, and
 * thread-specific values are as before. No handles or cleanups are left, and the thread is unchanged. */
#include "masking.h"

#include <dlfcn.h>
#include <spawn.h>
#ifdef HAVE_LIBXML2
#include <libxml/parser.h>
#endif

#include "masking_lib/library.h"

static bool hook_is_armed;

STINT_API void masking_hook(void)
{
    if (hook_is_armed)
        trip_and_allocate();
    hook_is_armed = false;
}

typedef const char *keeper(void);

static void call(const void *function)
{
    (*(keeper *const *)function)();
    trip();
}

static keeper *library_function(const char *name)
{
    void *library = dlopen("libmasking-library.so", RTLD_NOW);
    REQUIRE(library != NULL);
    keeper *function;
    *(void **)&function = dlsym(library, name);
    REQUIRE(function != NULL);
    return function;
}

static uint64_t use_in_a_task(keeper *function)
{
    uint64_t kept = run_tripped(STINT_JUMP, call, &function).usage.kept;
    overwrite_freed_blocks(MASKING_SIZE);
    return kept;
}

/* The library goes on with the block that it made in the task. */
static void keep_a_block(const void *name)
{
    keeper *function = library_function(name);
    uint64_t kept = use_in_a_task(function);
    const char *content = function();
    CHECK(strcmp(content, MASKING_CONTENT) == 0);
    CHECK(kept >= MASKING_SIZE);
}

/* It makes another; the first is gone. */
static void set_a_value(const void *detail)
{
    (void)detail;
    keeper *function = library_function("masking_specific");
    uint64_t kept = use_in_a_task(function);
    CHECK(kept == 0);
    CHECK(strcmp(function(), MASKING_CONTENT) == 0);
}

static void set_a_value_early(const void *detail)
{
    (void)detail;
    keeper *function = library_function("masking_set_early");
    hook_is_armed = true;
    use_in_a_task(function);
    const char *content = function();
    CHECK(content != NULL && strcmp(content, MASKING_CONTENT) == 0);
}

#ifdef HAVE_LIBXML2

/* libxml2 makes its per-thread state at its first use on a thread other than the first. */

static void parse(const void *detail)
{
    (void)detail;
    static const char broken[] = "<a>&b;</a>";
    xmlFreeDoc(xmlReadMemory(broken, sizeof broken - 1, "broken", NULL, XML_PARSE_NOERROR));
}

static void parse_and_trip(const void *detail)
{
    parse(detail);
    trip();
}

static void *use_libxml2(void *kept)
{
    *(uint64_t *)kept = run_tripped(STINT_JUMP, parse_and_trip, NULL).usage.kept;
    for (size_t size = 16; size <= 4096; size *= 2)
        overwrite_freed_blocks(size);
    parse(NULL);
    const xmlError *error = xmlGetLastError();
    CHECK(error != NULL && strstr(error->message, "Entity 'b' not defined") == error->message);
    return NULL;
}

static void keep_the_state_of_libxml2(const void *scan)
{
    REQUIRE(stint_roots_set_scan(*(const stint_root_scan *)scan) == 0);
    xmlInitParser();
    uint64_t kept = 0;
    in_another_thread(use_libxml2, &kept);
    CHECK(kept == 0);
}

static const stint_root_scan always = STINT_ROOT_SCAN_ALWAYS;
#if LIBXML_VERSION < 21500 /* later it is thread-local, and only its message is a block */
static const stint_root_scan never = STINT_ROOT_SCAN_NEVER;
#endif

#endif

/* A stream writes into the block that it was given, even if the block has another owner now. */

static void write_in_memory(const void *size)
{
    FILE *stream = fmemopen(masking_keep(malloc(*(const size_t *)size)), *(const size_t *)size, "w");
    REQUIRE(stream != NULL && fputs("written by the task", stream) >= 0);
    trip();
}

static int flush_over_blocks(void *size, void **value)
{
    static char *blocks[4096];
    (void)value;
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        REQUIRE((blocks[i] = malloc(*(size_t *)size)) != NULL);
        memset(blocks[i], 'x', *(size_t *)size);
    }
    fflush(NULL);
    int changed = 0;
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        changed += memchr(blocks[i], 'w', *(size_t *)size) != NULL;
    return changed;
}

static void write_into_another_s_block(const void *detail)
{
    size_t size = 4096;
    stint_outcome outcome;
    (void)detail;
    run_tripped(STINT_JUMP, write_in_memory, &size);
    REQUIRE(stint_run(flush_over_blocks, &size, NULL, &outcome) == 0);
    CHECK(outcome.status == STINT_OK);
}

static void open_many(const void *detail)
{
    (void)detail;
    for (int i = 0; i < 50; i++)
        REQUIRE(fopen("/dev/null", "r") != NULL);
    trip();
}

static void leave_streams_open(const void *detail)
{
    run_tripped(STINT_JUMP, open_many, detail);
    int lowest = dup(STDERR_FILENO);
    close(lowest);
    CHECK(lowest < 40);
}

/* --- What a task holds, and what it changes of its thread --- */

static int released;

static void release(void *arg)
{
    (void)arg;
    released++;
}

static void allocate_before_the_pop(const void *detail)
{
    (void)detail;
    pthread_cleanup_push(release, NULL);
    trip_and_allocate();
    pthread_cleanup_pop(1);
}

static void jump_past_a_cleanup_handler(const void *detail)
{
    run_tripped(STINT_JUMP, allocate_before_the_pop, detail);
    CHECK(released == 1);
}

static void block_a_signal(const void *detail)
{
    sigset_t set;
    (void)detail;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    trip();
}

static void leave_a_signal_blocked(const void *detail)
{
    sigset_t set;
    run_tripped(STINT_JUMP, block_a_signal, detail);
    pthread_sigmask(SIG_SETMASK, NULL, &set);
    CHECK(sigismember(&set, SIGUSR1) == 0);
}

static int start_children(void *arg, void **value)
{
    static char shell[] = "sh";
    static char option[] = "-c";
    static char line[] = "kill -USR1 $$; exit 0"; /* goes on where it is blocked */
    char *const arguments[] = { shell, option, line, NULL };
    sigset_t set;
    int status = -1;
    pid_t child;
    (void)arg;
    (void)value;
    REQUIRE(posix_spawn(&child, "/bin/sh", NULL, NULL, arguments, environ) == 0);
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR1);
    child = fork();
    if (child == 0)
        _exit(pthread_sigmask(SIG_SETMASK, NULL, &set) == 0 ? sigismember(&set, SIGUSR1) : 2);
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    return 0;
}

static void start_children_with_signals_blocked(const void *detail)
{
    stint_pool *pool;
    stint_future *future;
    stint_outcome outcome;
    (void)detail;
    REQUIRE(stint_pool_create(NULL, &pool) == 0);
    REQUIRE(stint_submit(pool, start_children, NULL, NULL, &future) == 0);
    REQUIRE(stint_future_wait(future, &outcome) == 0 && outcome.status == STINT_OK);
    stint_future_release(future);
    REQUIRE(stint_pool_destroy(pool) == 0);
}

void *kept_take(void);
void kept_give(void *item);

static void use_the_pool(const void *detail)
{
    (void)detail;
    kept_give(kept_take());
    trip();
}

static void lose_the_blocks_of_a_module(const void *detail)
{
    REQUIRE(stint_module_keep("libkeep-module-kept") == 0);
    CHECK(run_tripped(STINT_JUMP, use_the_pool, detail).usage.kept == 0);
}

int main(int argc, char **argv)
{
    static struct masking_case cases[] = {
        { "a stream into a task's block", STI_RULE_HANDLE, CHECK_FAILS | CRASHES, write_into_another_s_block, NULL },
        { "streams left open", STI_RULE_HANDLE, CHECK_FAILS, leave_streams_open, NULL },
        { "a jump past a cleanup handler", STI_RULE_CLEANUP, CHECK_FAILS, jump_past_a_cleanup_handler, NULL },
        { "a signal left blocked", STI_RULE_THREAD_STATE, CHECK_FAILS, leave_a_signal_blocked, NULL },
        { "children with signals blocked", STI_RULE_CHILD_MASK, CHECK_FAILS, start_children_with_signals_blocked,
          NULL },
        { "blocks of a module that is kept", STI_RULE_KEPT_MODULE, CHECK_FAILS, lose_the_blocks_of_a_module, NULL },
        { "a block in a static variable", RULE_ROOTS, CHECK_FAILS | CRASHES, keep_a_block, "masking_static" },
        { "a block in a thread-local variable", RULE_ROOTS, CHECK_FAILS | CRASHES, keep_a_block,
          "masking_thread_local" },
        { "a block as a specific value", STI_RULE_SPECIFIC, CHECK_FAILS, set_a_value, NULL },
        { "a specific value set before it was whole", STI_RULE_SPECIFIC, CHECK_FAILS, set_a_value_early, NULL },
#ifdef HAVE_LIBXML2
        { "libxml2's state in memory for ever", STI_RULE_SPECIFIC, CHECK_FAILS, keep_the_state_of_libxml2, &always },
#if LIBXML_VERSION < 21500
        { "libxml2's state dangling", STI_RULE_SPECIFIC, CHECK_FAILS | CRASHES, keep_the_state_of_libxml2, &never },
#endif
#endif
    };
    return masking_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
