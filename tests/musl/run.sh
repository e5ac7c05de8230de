#!/bin/bash
# SPDX-License-Identifier: MIT
set -u
cd "$(dirname "$0")/../.." || exit 1
exec </dev/null

usage() {
    cat <<'EOF'
usage: tests/musl/run.sh [FOLDER]

Builds the library with musl-gcc, without overrides, and runs the tests of tasks, pools and walls. FOLDER (build-musl of
the source tree) keeps the prefix (tests/musl/prefix --help says what that needs) and the build. Exit status 77: this
machine cannot, and a sentence says why.
EOF
}

case ${1-} in
    -h | --help)
        usage
        exit 0
        ;;
    -*)
        usage >&2
        exit 2
        ;;
esac

skip() {
    printf 'skipped: %s\n' "$1"
    exit 77
}

command -v musl-gcc >/dev/null || skip 'there is no musl-gcc (the package musl-tools)'
[ -e subprojects/mimalloc/meson.build ] || meson subprojects download mimalloc >/dev/null 2>&1 ||
    skip 'the sources of mimalloc are not in subprojects/mimalloc, and git cannot fetch them (docs/machines.md)'
folder=${1:-build-musl}
tests/musl/prefix "$folder/prefix" || exit 1
[ -e "$folder/build/build.ninja" ] ||
    meson setup "$folder/build" --native-file "$folder/prefix/musl.ini" -Dmimalloc=bundled -Doverrides=false \
        -Dexamples=disabled -Dbenchmarks=disabled -Dreference=disabled -Dprofiles=disabled -Dwerror=true || exit 1
suites=()
for suite in alloc executor signals jumps shares threads; do suites+=(--suite "$suite"); done
meson test -C "$folder/build" --print-errorlogs "${suites[@]}" --no-suite long
