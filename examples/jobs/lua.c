/* SPDX-License-Identifier: MIT
 *
 * Lua 5.4, each document in a fresh state without io, os, package and debug: it can open no file. Lua is taught to
 * stop: it calls a hook every so many instructions, and the hook is a sample point. So a loop that allocates nothing
 * ends at its deadline too, by a jump out of the hook: nothing of Lua's is left behind but memory, and that is rolled
 * back. */
#include "library.h"

#include <errno.h>
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

/* Instructions between two looks: about 10 microseconds. */
#define INSTRUCTIONS 1000

static void check_script(lua_State *lua, lua_Debug *unused)
{
    (void)lua;
    (void)unused;
    stint_checkpoint();
}

static int print_nothing(lua_State *lua)
{
    (void)lua;
    return 0;
}

/* Lua's load, which is the upvalue, but for text only: Lua does not check binary chunks, and a bad one can do
 * anything. */
static int load_text(lua_State *lua)
{
    if (lua_gettop(lua) < 3)
        lua_settop(lua, 3);
    lua_pushliteral(lua, "t");
    lua_replace(lua, 3);
    lua_pushvalue(lua, lua_upvalueindex(1));
    lua_insert(lua, 1);
    lua_call(lua, lua_gettop(lua) - 1, LUA_MULTRET);
    return lua_gettop(lua);
}

static void open_libraries(lua_State *lua)
{
    static const luaL_Reg libraries[] = {
        { LUA_GNAME, luaopen_base },       { LUA_TABLIBNAME, luaopen_table }, { LUA_STRLIBNAME, luaopen_string },
        { LUA_MATHLIBNAME, luaopen_math }, { LUA_UTF8LIBNAME, luaopen_utf8 }, { LUA_COLIBNAME, luaopen_coroutine },
    };
    for (size_t i = 0; i < sizeof libraries / sizeof libraries[0]; i++) {
        luaL_requiref(lua, libraries[i].name, libraries[i].func, 1);
        lua_pop(lua, 1);
    }
    static const char *const files[] = { "dofile", "loadfile" };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        lua_pushnil(lua);
        lua_setglobal(lua, files[i]);
    }
    lua_getglobal(lua, "load");
    lua_pushcclosure(lua, load_text, 1);
    lua_setglobal(lua, "load");
    lua_pushcfunction(lua, print_nothing); /* standard output is the report's */
    lua_setglobal(lua, "print");
    lua_setwarnf(lua, NULL, NULL);
}

/* What a document is run in: a protected call, so that an error in it, or in opening the libraries, comes back here. */
struct script {
    parse_document *document;
    const char *text;
    size_t size;
};

static int run_script(lua_State *lua)
{
    struct script *script = lua_touserdata(lua, 1);
    lua_settop(lua, 0);
    open_libraries(lua);
    lua_sethook(lua, check_script, LUA_MASKCOUNT, INSTRUCTIONS);
    if (luaL_loadbufferx(lua, script->text, script->size, "=line", "t") != LUA_OK)
        return lua_error(lua);
    lua_call(lua, 0, LUA_MULTRET);
    script->document->items = (uint64_t)lua_gettop(lua);
    return 0;
}

/* A first line that starts with # is for the shell. Its end stays, so that lines keep their numbers. */
static size_t first_line_for_shell(const char *text, size_t size)
{
    size_t length = 0;
    if (size && text[0] == '#') {
        while (length < size && text[length] != '\n')
            length++;
    }
    return length;
}

int lua_parse(parse_document *document, const char *text, size_t size)
{
    lua_State *lua = luaL_newstate();
    if (!lua) {
        parse_explain(document, "out of memory");
        return ENOMEM;
    }
    size_t skip = first_line_for_shell(text, size);
    struct script script = { document, text + skip, size - skip };
    lua_pushcfunction(lua, run_script);
    lua_pushlightuserdata(lua, &script);
    int result = lua_pcall(lua, 1, 0, 0);
    if (result != LUA_OK) {
        const char *message = lua_tostring(lua, -1);
        parse_explain(document, "%s", message ? message : "an error that is no text");
    }
    lua_close(lua);
    if (result == LUA_OK)
        return 0;
    return result == LUA_ERRMEM ? ENOMEM : EBADMSG;
}
