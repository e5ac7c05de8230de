#!/bin/sh
# SPDX-License-Identifier: MIT
# recovering.sh GUIDE PROGRAM.c: what the guide shows below the words "from `PROGRAM.c`:" is in the program, as it is there.
set -eu
shown=$(awk -v name="from \`$(basename "$2")\`:" '
  index($0, name) { wanted = 1; next }
  wanted && /^```c$/ { inside = 1; next }
  inside && /^```$/ { exit }
  inside' "$1")
if [ -z "$shown" ]; then
  echo "$1 shows nothing of $2" >&2
  exit 1
fi
case $(cat "$2") in
  *"$shown"*) ;;
  *)
    echo "what $1 shows of $2 is not in it" >&2
    exit 1
    ;;
esac
