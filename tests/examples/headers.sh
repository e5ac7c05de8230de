#!/bin/bash
# SPDX-License-Identifier: MIT
# headers.sh INCLUDE LIBRARY: the program at the top of each public header of C compiles, under C11 and with all warnings,
# runs, and ends with 0. It lies in the header's first comment, behind five spaces.
set -eu
include=$(realpath "$1")
library=$(realpath "$2")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
failed=0
for header in "$include"/stint/*.h; do
    name=$(basename "$header" .h)
    # Up to the end of main.
    sed -n 's/ \*\/$//; s/^ \*     //p; s/^ \*$//p; /^}$/{ x; /main/q; x }; /^int main/h' "$header" >"$name.c"
    if ! grep -q '^int main' "$name.c"; then
        echo "$name.h begins without a program" >&2
        failed=1
    elif ! gcc -std=gnu11 -Wall -Wextra -Werror -I"$include" "$name.c" -o "$name" "$library" -pthread; then
        echo "the program of $name.h does not compile" >&2
        failed=1
    elif ! LD_LIBRARY_PATH=$(dirname "$library") timeout 60 "./$name" >/dev/null; then
        echo "the program of $name.h fails" >&2
        failed=1
    fi
done
exit $failed
