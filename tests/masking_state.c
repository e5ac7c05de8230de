/* SPDX-License-Identifier: MIT
 *
 * Nothing dangles: what libraries keep of a task that was rolled back. A heap that a root points into stays, and
 * thread-specific values are as before. */
#include "masking.h"

#include <dlfcn.h>
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
    REQUIRE(stint_set_root_scan(*(const stint_root_scan *)scan) == 0);
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

int main(int argc, char **argv)
{
    static struct masking_case cases[] = {
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
