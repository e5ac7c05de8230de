#!/bin/bash
# SPDX-License-Identifier: MIT
# headers.sh REFERENCE INCLUDE LIBRARY: each program in a comment of a public header of C, which manual pages show too,
# compiles, under C11 and with all warnings, runs, and ends with 0; and each header begins with one.
set -eu
reference=$(realpath "$1")
include=$(realpath "$2")
library=$(realpath "$3")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
"$reference" --programs .
failed=0
for header in "$include"/stint/*.h; do
    name=$(basename "$header" .h)
    if ! sed '/^#ifndef/,$d' "$header" | grep -q 'int main('; then
        echo "$name.h begins without a program" >&2
        failed=1
    fi
done
for source in *.c; do
    name=$(basename "$source" .c)
    if ! gcc -std=gnu11 -Wall -Wextra -Werror -I"$include" "$source" -o "$name" "$library" -pthread; then
        echo "a program of ${name%-*}.h does not compile" >&2
        failed=1
    elif ! LD_LIBRARY_PATH=$(dirname "$library") timeout 60 "./$name" >/dev/null; then
        echo "a program of ${name%-*}.h fails" >&2
        failed=1
    fi
done
exit $failed
