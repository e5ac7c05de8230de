#!/bin/bash
# SPDX-License-Identifier: MIT
# course.sh SOURCE PROGRAM: the program, run in an empty folder, prints the lines that its source's first
# comment shows, in any order; a * there stands for anything. The source has at most 60 lines.
set -eu
source=$(realpath "$1")
program=$(realpath "$2")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

wrong() {
    printf '%s: %s\n' "$source" "$1" >&2
    exit 1
}

[ "$(wc -l <"$source")" -le 60 ] || wrong 'it has more than 60 lines'
mapfile -t expected < <(sed -n '/\*\//q; s/^ \*     \(.*\)$/\1/p' "$source")
last=$(sed -n 's/^ \*     \(.*\) \*\/$/\1/p; /\*\//q' "$source")
expected+=("$last")
[ -n "$last" ] || wrong 'its first comment does not end in what it prints'
mapfile -t printed < <("$program" && echo ended)

[ "${printed[-1]}" = ended ] || wrong 'it failed'
[ ${#printed[@]} -eq $((${#expected[@]} + 1)) ] || wrong "it prints $((${#printed[@]} - 1)) lines: ${printed[*]}"
for pattern in "${expected[@]}"; do
    found=false
    for line in "${printed[@]}"; do
        # shellcheck disable=SC2053 # a pattern
        [[ $line == $pattern ]] && found=true
    done
    $found || wrong "it does not print '$pattern', but '${printed[*]}'"
done
