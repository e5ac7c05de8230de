#!/bin/sh
# SPDX-License-Identifier: MIT
# jit.sh PROGRAM FOLDER: LuaJIT's memory, which is from mmap, is bounded; and the next script has all of it again.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
echo 'local all = {} for i = 1, 1e5 do all[i] = { i } end' >"$folder/tidy.luajit"
bomb=$2/growing-table.luajit
[ "$("$1" "$folder/tidy.luajit" "$bomb" "$folder/tidy.luajit" "$bomb" "$folder/tidy.luajit")" = "ok, none
error, memory-limit
ok, none
error, memory-limit
ok, none" ]
