/* SPDX-License-Identifier: MIT
 *
 * A library that crashes on request, in a function that it does not export. */
extern int plugin_parse(volatile int *at);

static volatile int sink;

__attribute__((noinline)) static int plugin_inner(volatile int *at)
{
    *at = 1;
    return sink;
}

int plugin_parse(volatile int *at)
{
    int result = plugin_inner(at);
    sink++;
    return result;
}
