/* SPDX-License-Identifier: MIT
 *
 * jit FILE...: run scripts by LuaJIT, each in a task with 64 MiB and ten seconds, and say what became of them. LuaJIT
 * takes its memory and the room for its machine code from mmap, and nothing from malloc; it is charged all the same.
 *
 * STINT_FAIL: when there is no more memory LuaJIT raises an error of its own, closes the state, and gives everything
 * back. It opens no libraries that reach outside. */
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>
#include <stint/stint.h>

#define MEMORY ((size_t)64 << 20)
#define SECOND UINT64_C(1000000000)
#define INSTRUCTIONS 1000 /* between two looks, of what is interpreted */

static void look(lua_State *lua, lua_Debug *unused)
{
    (void)unused;
    stint_checkpoint();
    if (stint_is_interrupted())
        luaL_error(lua, "interrupted");
}

static int open_libraries(lua_State *lua)
{
    static const lua_CFunction functions[] = { luaopen_base, luaopen_table, luaopen_string, luaopen_math, luaopen_jit };
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        lua_pushcfunction(lua, functions[i]);
        lua_call(lua, 0, 0);
    }
    return 0;
}

static int run(void *path, void **value)
{
    (void)value;
    lua_State *lua = luaL_newstate();
    if (lua == NULL)
        return 1;
    lua_sethook(lua, look, LUA_MASKCOUNT, INSTRUCTIONS);
    int error = lua_cpcall(lua, open_libraries, NULL);
    if (error == 0)
        error = luaL_loadfile(lua, path);
    if (error == 0)
        error = lua_pcall(lua, 0, 0, 0);
    lua_close(lua);
    return error;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        stint_options options = STINT_OPTIONS_INIT;
        options.budget = (stint_budget){ .memory = MEMORY, .run_ns = 10 * SECOND };
        options.on_interrupt = STINT_FAIL;
        stint_outcome outcome;
        if (stint_run(run, argv[i], &options, &outcome) != 0)
            return 1;
        printf("%s, %s\n", stint_status_name(outcome.status), stint_reason_name(outcome.reason));
    }
    return 0;
}
