#!/bin/sh
# SPDX-License-Identifier: MIT
# statistical.sh GUIDE PROGRAM: each table that the guide shows is one that the program prints, as it prints it.
set -eu
printed=$("$2" | grep -v '^$')
shown=$(awk '/^```text$/ { inside = 1; next } /^```$/ { if (inside) print "--"; inside = 0 } inside' "$1" | grep -v '^$')
[ -n "$shown" ] || { echo "$1 shows no table of $2" >&2; exit 1; }
# Each block of the guide ends in a line "--".
table=
printf '%s\n' "$shown" | while IFS= read -r line; do
  if [ "$line" != -- ]; then
    table="$table$line
"
    continue
  fi
  case "$printed
" in
    *"$table"*) table= ;;
    *)
      printf 'a table in %s is not one that %s prints:\n%s' "$1" "$2" "$table" >&2
      exit 1
      ;;
  esac
done
