/* SPDX-License-Identifier: MIT
 *
 * Duktape: a fresh heap, a small script. Debian builds it without a time-out check, so a script that allocates nothing
 * could not be stopped; this one calls a function of ours now and then. Never STINT_FAIL: when allocations go on
 * failing while it creates a heap, it recurses without end. Keeps nothing outside of its heaps. */
#include "library.h"

#include <duktape.h>

static const char script[] =
    "var list = [];\n"
    "for (var i = 0; i < 25; i++) {\n"
    "    look();\n"
    "    list.push({ id: i * variant, name: 'n' + (i * 7919 % 31), part: [i, String(i).split('')] });\n"
    "}\n"
    "list.sort(function (a, b) { return a.name < b.name ? -1 : a.name > b.name ? 1 : a.id - b.id; });\n"
    "var text = JSON.stringify(list).replace(/\"name\":\"n(\\d+)\"/g, function (all, n) { return n + variant; });\n"
    "try { null.property; } catch (e) { text += e.name; }\n"
    "text;\n";

static duk_ret_t look(duk_context *duktape)
{
    stint_checkpoint();
    return stint_is_interrupted() ? duk_error(duktape, DUK_ERR_ERROR, "interrupted") : 0;
}

static duk_ret_t run_script(duk_context *duktape, void *data)
{
    const unsigned *variant = data;
    duk_push_c_function(duktape, look, 0);
    duk_put_global_string(duktape, "look");
    duk_push_uint(duktape, *variant + 1);
    duk_put_global_string(duktape, "variant");
    duk_push_lstring(duktape, script, sizeof script - 1);
    duk_eval(duktape);
    return 1;
}

static int run(unsigned variant, uint64_t *sum)
{
    duk_context *duktape = duk_create_heap_default();
    if (duktape == NULL)
        return -1;
    int error = duk_safe_call(duktape, run_script, &variant, 0, 1) == DUK_EXEC_SUCCESS ? 0 : -1;
    if (error == 0)
        chaos_add_text(sum, duk_get_string(duktape, -1));
    duk_destroy_heap(duktape);
    return error;
}

const struct chaos_library chaos_javascript = {
    .name = "duktape",
    .modes = CHAOS_LEAVING,
    .preemptible = true,
    .run = run,
    .modules = "libduktape",
};
