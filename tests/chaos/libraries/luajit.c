/* SPDX-License-Identifier: MIT
 *
 * LuaJIT: a fresh state, a small script. An interrupt waits under the code that it makes. */
#include "library.h"

#include <lauxlib.h>
#include <lua.h>
#include <luajit.h>
#include <lualib.h>

static const char script[] = "local variant = ...\n"
                             "local parts = {}\n"
                             "for i = 1, 100 do parts[i] = ('%05d:%s'):format(i * variant, i % 7) end\n"
                             "table.sort(parts, function(a, b) return a:reverse() < b:reverse() end)\n"
                             "local text = table.concat(parts, ','):gsub('(%d)(%d)', '%2%1')\n"
                             "return text:sub(1, 300)\n";

static int run_script(lua_State *lua)
{
    unsigned variant = *(const unsigned *)lua_touserdata(lua, 1);
    luaL_openlibs(lua);
    if (luaL_loadbuffer(lua, script, sizeof script - 1, "=script") != 0)
        return lua_error(lua);
    lua_pushinteger(lua, (lua_Integer)variant + 1);
    lua_call(lua, 1, 1);
    return 1;
}

static int run(unsigned variant, uint64_t *sum)
{
    lua_State *lua = luaL_newstate();
    if (lua == NULL)
        return -1;
    lua_pushcfunction(lua, run_script);
    lua_pushlightuserdata(lua, &variant);
    int result = lua_pcall(lua, 1, 1, 0);
    if (result == 0)
        chaos_add_text(sum, lua_tostring(lua, -1));
    lua_close(lua);
    return result;
}

static const char *version(void)
{
    return LUAJIT_VERSION;
}

const struct chaos_library CHAOS_ONE = {
    .name = "LuaJIT",
    .modes = CHAOS_ANY_MODE,
    .preemptible = true,
    .run = run,
    .modules = "libluajit-5.1",
    .version = version,
};
