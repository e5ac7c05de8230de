/* SPDX-License-Identifier: MIT
 *
 * Recursion bombs by the thousand, one after the other on the same workers: each is stopped for the right reason, the
 * process lives, and its memory does not grow. The argument is how many. */
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include <fcntl.h>
#include <unistd.h>

#include <libxml/parser.h>

#include <stint/stint.h>

#include "../quarantine.h"
#include "../repeats.h"
#include "../test.h"

namespace
{

constexpr size_t stack_size = 512 << 10;
constexpr size_t mib = 1 << 20;
constexpr size_t workers = 2;
constexpr size_t in_flight = 4;
constexpr size_t largest = 8 * mib; /* a bomb's heap, at its end */

volatile bool never;
size_t bomb_total = 400;

__attribute__((noinline)) int recurse(volatile int depth)
{
    return never ? depth : recurse(depth + 1) + depth;
}

__attribute__((noinline)) int recurse_and_allocate(int depth)
{
    void *volatile block = malloc(24);
    int sum = never ? depth : recurse_and_allocate(depth + 1) + depth;
    free(block);
    return sum;
}

__attribute__((noinline)) int recurse_with_destructors(int depth)
{
    const std::string text(40, 'a');
    const auto number = std::make_unique<int>(depth);
    int *volatile made = number.get(); /* or clang does without; a variable that lasts would be a root */
    (void)made;
    return never ? depth : recurse_with_destructors(depth + 1) + *number + text[3];
}

int call_plainly(void *, void **)
{
    return recurse(0);
}

int call_allocating(void *, void **)
{
    return recurse_and_allocate(0);
}

int call_with_destructors(void *, void **)
{
    return recurse_with_destructors(0);
}

/* As deep as libxml2 2.9 allows takes megabytes of stack; 2.15 refuses it, and copies without a recursion. */
constexpr bool has_no_bombs = LIBXML_VERSION >= 21000;

int copy_deep_document(void *, void **)
{
    xmlDocPtr document = xmlNewDoc(nullptr);
    xmlNodePtr node = xmlNewDocNode(document, nullptr, reinterpret_cast<const xmlChar *>("a"), nullptr);
    xmlDocSetRootElement(document, node);
    for (int i = 0; i < 20000; i++)
        node = xmlNewChild(node, nullptr, reinterpret_cast<const xmlChar *>("a"), nullptr);
    xmlFreeDoc(xmlCopyDoc(document, 1));
    xmlFreeDoc(document);
    return 0;
}

const struct bomb {
    const char *name;
    stint_fn *function;
    stint_on_interrupt way;
    bool may_end_well = false;
} bombs[] = {
    { "no allocation", call_plainly, STINT_JUMP },
    { "allocations", call_allocating, STINT_JUMP },
    { "destructors", call_with_destructors, STINT_UNWIND },
    { "libxml2's copies", copy_deep_document, STINT_JUMP, has_no_bombs },
};
constexpr size_t bomb_count = sizeof bombs / sizeof *bombs;

size_t resident()
{
    char text[128] = "";
    int file = open("/proc/self/statm", O_RDONLY);
    assert_true(read(file, text, sizeof text - 1) > 0);
    close(file);
    return strtoul(strchr(text, ' '), nullptr, 10) * 4096;
}

stint_future *submit(stint_pool *pool, const bomb &bomb)
{
    stint_options options = STINT_OPTIONS_INIT;
    stint_future *future;
    options.on_interrupt = bomb.way;
    assert_int_equal(stint_submit(pool, bomb.function, nullptr, &options, &future), 0);
    return future;
}

void await(stint_future *future, const bomb &bomb)
{
    stint_outcome outcome;
    assert_int_equal(stint_future_wait(future, &outcome), 0);
    stint_future_release(future);
    if (bomb.may_end_well && outcome.status == STINT_OK)
        return;
    if (outcome.status != STINT_ERROR || outcome.reason != STINT_REASON_STACK)
        print_error("%s: %s, %s\n", bomb.name, stint_status_name(outcome.status), stint_reason_name(outcome.reason));
    assert_int_equal(outcome.status, STINT_ERROR);
    assert_int_equal(outcome.reason, STINT_REASON_STACK);
}

} // namespace

TEST(recursion_bombs_on_workers_leave_nothing_behind)
{
    stint_pool *pool;
    stint_pool_options options = STINT_POOL_OPTIONS_INIT;
    stint_future *futures[in_flight] = {};
    size_t early = 0;
    options.workers = workers;
    options.stack_size = stack_size;
    xmlInitParser();
    assert_int_equal(stint_pool_create(&options, &pool), 0);
    for (size_t i = 0; i < bomb_total + in_flight; i++) {
        if (i >= in_flight)
            await(futures[i % in_flight], bombs[(i - in_flight) % bomb_count]);
        if (i == bomb_total / 4)
            early = resident();
        futures[i % in_flight] = i < bomb_total ? submit(pool, bombs[i % bomb_count]) : nullptr;
    }
    assert_in_range(resident(), 0, early + 8 * mib + workers * quarantine_room(largest));
    assert_int_equal(stint_pool_destroy(pool), 0);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        bomb_total = repeats((unsigned)strtoul(argv[1], nullptr, 10));
    return run_all_tests(nullptr, nullptr);
}
