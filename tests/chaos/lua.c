/* SPDX-License-Identifier: MIT
 *
 * Lua: a fresh state, a small script. It keeps nothing outside of its states, so any mode will do. */
#include "library.h"

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

static const char script[] =
    "local variant = ...\n"
    "local parts, object = {}, setmetatable({}, { __index = function(t, k) return k * 2 end })\n"
    "for i = 1, 120 do parts[i] = ('%05d:%s'):format(i * variant, object[i]) end\n"
    "table.sort(parts, function(a, b) return a:reverse() < b:reverse() end)\n"
    "local text = table.concat(parts, ','):gsub('(%d)(%d)', '%2%1')\n"
    "local walk = coroutine.wrap(function() for w in text:gmatch('[^,]+') do coroutine.yield(w) end end)\n"
    "local sum = 0\n"
    "for word in walk do sum = (sum * 31 + #word + word:byte(-1)) % 1000003 end\n"
    "local ok, why = pcall(error, { code = sum })\n"
    "return text:sub(1, 500) .. why.code\n";

/* A loop that allocates nothing ends here. */
static void look(lua_State *lua, lua_Debug *unused)
{
    (void)unused;
    stint_checkpoint();
    if (stint_is_interrupted())
        luaL_error(lua, "interrupted");
}

static int run_script(lua_State *lua)
{
    unsigned variant = *(const unsigned *)lua_touserdata(lua, 1);
    luaL_openlibs(lua);
    lua_sethook(lua, look, LUA_MASKCOUNT, 500);
    if (luaL_loadbufferx(lua, script, sizeof script - 1, "=script", "t") != LUA_OK)
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
    if (result == LUA_OK)
        chaos_add_text(sum, lua_tostring(lua, -1));
    lua_close(lua);
    return result;
}

static const char *version(void)
{
    return LUA_VERSION_MAJOR "." LUA_VERSION_MINOR "." LUA_VERSION_RELEASE;
}

const struct chaos_library chaos_lua = {
    .name = "lua",
    .modes = CHAOS_ANY_MODE,
    .preemptible = true,
    .run = run,
    .modules = "liblua5.4",
    .version = version,
};
