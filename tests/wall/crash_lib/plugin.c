/* SPDX-License-Identifier: MIT
 *
 * A library that crashes where it is told to, in a function that it does not export; and one that spends the stack,
 * which may be left, as it is in no module of the library's. */
extern int plugin_parse(volatile int *at);
extern int plugin_recurse(void *arg, void **value);

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

__attribute__((noinline)) static int recurse(volatile int depth)
{
    return sink < 0 ? depth : recurse(depth + 1) + depth;
}

int plugin_recurse(void *arg, void **value)
{
    (void)arg;
    (void)value;
    return recurse(0);
}
