/* SPDX-License-Identifier: MIT
 *
 * How often what a task holds is measured, which is a walk through its pages. Here the program counts the walks. */
#include "support.h"

#include <dlfcn.h>
#include <mimalloc.h>

typedef bool visit_all(const mi_theap_t *theap, bool blocks, mi_block_visit_fun *visit, void *arg);

static unsigned walks;

bool mi_theap_visit_blocks(const mi_theap_t *theap, bool blocks, mi_block_visit_fun *visit, void *arg)
{
    static visit_all *next;
    if (next == NULL)
        *(void **)&next = dlsym(RTLD_NEXT, "mi_theap_visit_blocks");
    walks++;
    return next(theap, blocks, visit, arg);
}

#define CHARGED (64 * MIB)
#define BLOCK (4 * KIB)
#define COUNT (4 * MIB / BLOCK)

/* It holds 4 MiB for a moment, then little for long. */
static int rise_and_go_on(void *arg, void **value)
{
    static void *blocks[COUNT];
    (void)arg;
    (void)value;
    for (size_t i = 0; i < COUNT; i++)
        blocks[i] = keep(stint_malloc(BLOCK));
    for (size_t i = 0; i < COUNT; i++)
        stint_free(blocks[i]);
    walks = 0;
    for (size_t charged = 0; charged < CHARGED; charged += BLOCK)
        stint_free(keep(stint_malloc(BLOCK)));
    return 0;
}

static unsigned walks_for(stint_account *account)
{
    stint_options options = { .size = sizeof(stint_options), .account = account };
    assert_ok(run_task(rise_and_go_on, NULL, &options));
    return walks;
}

TEST(a_task_below_its_peak_is_seldom_measured)
{
    assert_in_range(walks_for(NULL), 0, 40);
}

TEST(an_account_that_does_not_limit_memory_is_no_reason_to_measure)
{
    stint_account *above = make_account(NULL, .allocation = (uint64_t)1 << 40);
    stint_account *account = make_account(above, .allocation = (uint64_t)1 << 40);
    assert_in_range(walks_for(account), 0, 80);
    stint_account_release(account);
    stint_account_release(above);
}

TEST(one_that_does_is)
{
    stint_account *above = make_account(NULL, .memory = 16 * MIB);
    stint_account *account = make_account(above, .allocation = (uint64_t)1 << 40);
    assert_true(walks_for(account) > 400);
    stint_account_release(account);
    stint_account_release(above);
}

TEST_MAIN()
