#!/bin/bash
# SPDX-License-Identifier: MIT
# Builds the library with musl-gcc, and runs the tests of tasks, pools and walls: tests/musl/run.sh [FOLDER]. FOLDER keeps
# the prefix (tests/musl/prefix) and the build. Exit status 77: this machine cannot, and a sentence says why.
set -u
cd "$(dirname "$0")/../.." || exit 1

command -v musl-gcc >/dev/null || {
    printf 'skipped: there is no musl-gcc (the package musl-tools)\n'
    exit 77
}
folder=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/stint/musl}
tests/musl/prefix "$folder/prefix" || exit 1
[ -e "$folder/build/build.ninja" ] ||
    meson setup "$folder/build" --native-file "$folder/prefix/musl.ini" -Dmimalloc=bundled -Doverrides=false \
        -Dexamples=disabled -Dbenchmarks=disabled -Dreference=disabled -Dprofiles=disabled -Dwerror=true || exit 1
mapfile -t programs < <(ninja -C "$folder/build" -t targets all | grep -o '^tests/test-[a-z_]*' | sort -u)
nice ninja -C "$folder/build" tests/wall/crash_lib/libcrash-plugin.so \
    tests/rollback/roots_lib/libroots-plugin.so tests/wall/serving/wall-serving "${programs[@]}" || exit 1
passed=0
failed=()
for program in "${programs[@]}"; do
    case $program in *_long) continue ;; esac
    if timeout 300 "$folder/build/$program" >"$folder/log" 2>&1; then
        passed=$((passed + 1))
    else
        failed+=("$program")
        tail -n 20 "$folder/log"
    fi
done
printf '%d passed, %d failed: %s\n' $passed ${#failed[@]} "${failed[*]}"
[ ${#failed[@]} -eq 0 ]
