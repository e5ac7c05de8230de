#!/bin/bash
# SPDX-License-Identifier: MIT
# grown.sh SOURCE LIBRARY...: programs of stint 0.1.0 run with the LIBRARY, and with a later one, whose structs have grown;
# programs of the later one run with the LIBRARY. The later one is this source tree with more fields at the end of each
# struct that can grow, and a new value in two enums. LIBRARY: libstint.so of a build, and what it loads.
set -eu
source=$1
library=$(cd "$(dirname "$2")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
compiler=${CC:-cc}

log_and_fail() {
    tail -n 40 "$scratch/log"
    exit 1
}

# The later release.
mkdir "$scratch/later"
(cd "$source" && tar -c --exclude='./build*' --exclude=./.git --exclude=./tests .) |
    tar -x -C "$scratch/later"
mkdir "$scratch/later/tests"
touch "$scratch/later/tests/meson.build"
grown=0
for type in $(sed -n 's/^#define STINT_\w*_INIT .*[(<]\(stint_\w*\)[>)].*/\1/p' "$source"/include/stint/*.h); do
    sed -i "s/^} $type;/    uint64_t later_[3];\n&/" "$scratch"/later/include/stint/*.h
    grep -q -B1 "^} $type;" "$scratch"/later/include/stint/*.h
    grown=$((grown + 1))
done
[ "$(cat "$scratch"/later/include/stint/*.h | grep -c 'later_\[3\]')" = $grown ] && [ $grown -ge 12 ]
sed -i 's/^} stint_shutdown;/    STINT_SHUTDOWN_LATER_,\n&/; s/^} stint_report_level;/    STINT_REPORT_LATER_,\n&/' \
    "$scratch"/later/include/stint/*.h
mimalloc=$(meson introspect "$library" --buildoptions | sed -n 's/.*"name": "mimalloc", "value": "\(\w*\)".*/\1/p')
meson setup -Dtests=disabled -Dexamples=disabled -Dbenchmarks=disabled "-Dmimalloc=${mimalloc:-auto}" \
    "$scratch/later/build" "$scratch/later" >"$scratch/log" 2>&1 || log_and_fail
ninja -C "$scratch/later/build" >>"$scratch/log" 2>&1 || log_and_fail

build() {
    program=$scratch/$1
    shift
    # shellcheck disable=SC2086
    $compiler -std=gnu11 -Wall -Wextra -Werror "$source/tests/abi/program.c" -o "$program" "$@"
}
for frozen in "$source"/tests/abi/stint-*.h; do
    build "frozen-${frozen##*/}" -DHEADER="\"$frozen\"" -L"$library" -lstint
done
headers=(-DHEADER='<stint/stint.h>' -DGROWN -I"$scratch/later/include" -L"$scratch/later/build" -lstint)
build program-of-later "${headers[@]}"
build program-that-sets-later "${headers[@]}" -DLATER

# with FOLDER PROGRAM: says what went wrong.
failed=0
with() {
    echo "${2##*/} with $1"
    LD_LIBRARY_PATH=$1 "$2" || failed=1
}
for program in "$scratch"/frozen-*; do
    with "$library" "$program"
    with "$scratch/later/build" "$program"
done
with "$library" "$scratch/program-of-later"
with "$scratch/later/build" "$scratch/program-of-later"
with "$library" "$scratch/program-that-sets-later"
exit $failed
