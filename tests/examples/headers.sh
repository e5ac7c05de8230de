#!/bin/bash
# SPDX-License-Identifier: MIT
# headers.sh REFERENCE INCLUDE LIBRARY LACK-OF-WALLS CC [CXX]: each program in a comment of a public header, which manual
# pages show too, compiles, under C11 or C++17 and with all warnings, runs, and ends with 0; and each header of C begins
# with one. Without a compiler for C++ those of C only. A compiler is given with its options, as words.
set -eu
reference=$(realpath "$1")
include=$(realpath "$2")
library=$(realpath "$3")
lack_of_walls=$(realpath "$4")
read -ra cc <<<"$5"
read -ra cxx <<<"${6-}"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
"$reference" --programs .
failed=0
for header in "$include"/stint/*.h; do
    if ! sed '/^#ifndef/,$d' "$header" | grep -q 'int main('; then
        echo "$(basename "$header") begins without a program" >&2
        failed=1
    fi
done
for source in *; do
    program=${source%.c*}
    case $source in
        *.c) compiler=("${cc[@]}" -std=gnu11) ;;
        *) compiler=("${cxx[@]}" -std=gnu++17) ;;
    esac
    [ ${#cxx[@]} -gt 0 ] || [[ $source == *.c ]] || continue
    if ! "${compiler[@]}" -Wall -Wextra -Werror -I"$include" "$source" -o "$program" "$library" -pthread; then
        echo "the program $source does not compile" >&2
        failed=1
    elif [[ $source == wall* ]] && ! "$lack_of_walls"; then
        :
    elif ! LD_LIBRARY_PATH=$(dirname "$library") timeout 60 "./$program" >/dev/null; then
        echo "the program $source fails" >&2
        failed=1
    fi
done
exit $failed
