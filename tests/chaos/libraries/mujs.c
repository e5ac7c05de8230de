/* SPDX-License-Identifier: MIT
 *
 * MuJS: a fresh state, a small script. */
#include "library.h"

#include <mujs.h>
#include <stdio.h>

static const char script[] =
    "var list = [];\n"
    "for (var i = 0; i < 12; i++) list.push({ id: i * variant, name: 'n' + i * 7919 % 31 });\n"
    "list.sort(function (a, b) { return a.name < b.name ? -1 : a.name > b.name ? 1 : 0; });\n"
    "var text = JSON.stringify(list).replace(/n(\\d+)/g, function (all, n) { return n + 1; });\n"
    "try { missing(); } catch (e) { text += e.name; }\n"
    "text;\n";

static int run(unsigned variant, uint64_t *sum)
{
    js_State *state = js_newstate(NULL, NULL, 0);
    if (state == NULL)
        return -1;
    int error = -1;
    if (js_try(state) == 0) {
        js_newnumber(state, variant + 1);
        js_setglobal(state, "variant");
        js_loadstring(state, "script", script);
        js_pushundefined(state);
        js_call(state, 0);
        chaos_add_text(sum, js_tostring(state, -1));
        error = 0;
        js_endtry(state);
    }
    js_freestate(state);
    return error;
}

const struct chaos_library CHAOS_ONE = {
    .name = "MuJS",
    .modes = CHAOS_ANY_MODE,
    .preemptible = true,
    .run = run,
    .modules = "libmujs",
};
